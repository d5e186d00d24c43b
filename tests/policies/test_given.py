"""Somebody's own answers become a pool as they are; what is wrong with them is told with its place."""

import json
from pathlib import Path

import pytest

from pluralrm.core import Benchmark
from pluralrm.errors import BenchmarkError, PoolError, RowError
from pluralrm.policies.imported import pool_from_jsonl
from pluralrm.policies.pool import Pool, load_pool
from tests.builders import bakery

BENCH = bakery(4)


def write(tmp_path: Path, rows: list[dict[str, object]]) -> Path:
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def imported(tmp_path: Path, rows: list[dict[str, object]], bench: Benchmark = BENCH) -> Pool:
    return pool_from_jsonl(write(tmp_path, rows), bench, "recent:2", out=tmp_path / "pool")


def test_answers_keep_their_order_and_items_that_of_the_benchmark(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"item": "i0002", "text": "c"},
        {"item": "i0001", "text": "a", "finish": "length", "tokens": 7},
        {"item": "i0001", "text": "b"},
        {"item": "i0002", "text": ""},
    ]
    pool = imported(tmp_path, rows)
    assert list(pool.samples) == ["i0001", "i0002"]
    assert [(one.text, one.finish, one.tokens) for several in pool.samples.values() for one in several] == [
        ("a", "length", 7),
        ("b", "stop", None),
        ("c", "stop", None),
        ("", "empty", None),
    ]
    assert (pool.n, pool.policy, pool.condition) == (2, "given:mine.jsonl", "recent:2")
    assert pool == load_pool(tmp_path / "pool")


def test_the_same_file_is_the_same_pool_and_another_is_refused(tmp_path: Path) -> None:
    first = imported(tmp_path, [{"item": "i0001", "text": "a"}])
    assert imported(tmp_path, [{"item": "i0001", "text": "a"}]) == first
    with pytest.raises(PoolError, match=r"identity \(file: "):
        imported(tmp_path, [{"item": "i0001", "text": "b"}])


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"item": "i0009", "text": "a"}, r"mine\.jsonl:2: item: found 'i0009', wanted an item of bakery"),
        ({"item": "i0001"}, r"mine\.jsonl:2: text: found no such key"),
        ({"item": "i0001", "text": 3}, r"mine\.jsonl:2: text: found 3"),
        ({"item": "i0001", "text": "a", "txet": "b"}, r"mine\.jsonl:2: txet: found 'b'"),
        ({"item": "i0001", "text": "a", "finish": "refused"}, r"mine\.jsonl:2: finish: found 'refused'"),
        ({"item": "i0001", "text": "a", "tokens": -1}, r"mine\.jsonl:2: tokens: found -1"),
    ],
)
def test_a_row_that_is_no_answer_is_named(tmp_path: Path, row: dict[str, object], told: str) -> None:
    with pytest.raises(RowError, match=told):
        imported(tmp_path, [{"item": "i0000", "text": "a"}, row])
    assert not (tmp_path / "pool").exists()


def test_items_with_fewer_answers_are_refused(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"item": item, "text": "a"} for item in ("i0001", "i0001", "i0002")]
    with pytest.raises(BenchmarkError, match="'i0002' has 1 answers, and others have 2"):
        imported(tmp_path, rows)


def test_a_file_without_answers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="found no answers"):
        imported(tmp_path, [])
