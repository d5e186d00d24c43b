"""Lines of scores are read as byte-for-byte repetitions of their item, or in full: the rows are the same."""

import gzip
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from pluralrm import journal, score
from pluralrm.core import Row, Verdict
from pluralrm.errors import RunError
from pluralrm.metrics.estimates import extra_length, extra_lengths
from pluralrm.metrics.units import top_credit, top_tied, units_of, with_ties
from pluralrm.runs import load_run, load_runs, rows
from pluralrm.runs.records import ITEMS, ROWS, RUN, RowRecord, row_line, row_of
from tests.metrics.rows import row, run

CROWD = "simulated:users=12,items=4,crossed=3,groups=2,seed=1"


@pytest.mark.parametrize(
    ("benchmark", "model", "condition"),
    [
        ("pocket-prb", "bm25", "raw:10"),
        (CROWD, "longest", "traits"),
        (CROWD, "bm25", "recent:3"),
        (CROWD, "random", "none"),
    ],
)
def test_a_line_read_against_its_item_gives_the_row_that_it_gives_in_full(
    tmp_path: Path, benchmark: str, model: str, condition: str
) -> None:
    scored = score(benchmark, model, condition, out=tmp_path)
    folder = Path(scored.path)
    lines = (folder / ROWS).read_bytes().splitlines(keepends=True)
    items = rows.read_items(folder, RUN.read(folder))
    assert items is not None
    full = [row_of(RUN.parse(RowRecord, line, ROWS)) for line in lines]
    assert rows._scored_items(lines, items) == full
    assert list(load_run(folder).rows) == full == list(scored.rows)
    assert not any(each.failed for each in full)
    assert any(each.digests for each in full) == ("crossed" in benchmark)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"scores":[1.5,0.5]', b'"scores":[1,0.5]'),
        (b'"scores":[1.5,0.5]', b'"scores":[1.5]'),
        (b'"scores":[1.5,0.5]', b'"scores":[1.5,0.5],"scores":[0.5,1.5]'),
        (b'"scores":[1.5,0.5]', b'"scores":[1e999,0.5]'),
        (b'"posts":2', b'"posts":-2'),
        (b'"posts":2', b'"posts":true'),
        (b'"domain":"d"', b'"domain":"e"'),
        (b'"input":""', b'"input":"\\u0061"'),
        (b'"lenders":0', b'"lenders":0,"new":1'),
        (b"}", b',"new":1}'),
        (b'"scores":[1.5,0.5]', b'"scores":[1.5,half]'),
        (b"}", b""),
    ],
)
def test_a_line_with_anything_else_in_it_is_left_to_the_full_parser(before: bytes, after: bytes) -> None:
    scored = replace(row("i", (1.5, 0.5), domain="d"), posts=2)
    item = replace(scored, scores=(), posts=0)
    line = row_line(scored).encode().split(b',"check"')[0] + b"}"
    blank = row_line(item).encode().split(b',"check"')[0]
    items = rows.ItemRows([scored], [blank + b',"missing":{"failure":"missing","detail":""}}'])
    assert rows._scored_items([line], items) == [scored]
    start, _, end = line.rpartition(before)
    changed = start + after + end
    assert changed != line
    assert rows._scored_items([line, changed, line], items) == [scored, None, scored]


@pytest.mark.parametrize("benchmark", ["pocket-rmgap", "simulated:users=12,items=4,crossed=3,candidates=4,groups=2"])
def test_an_item_is_read_as_the_full_parser_reads_it(tmp_path: Path, benchmark: str) -> None:
    folder = Path(score(benchmark, "longest", "none", out=tmp_path).path)
    lines = gzip.decompress((folder / ITEMS).read_bytes()).splitlines()
    full = [row_of(RUN.parse(RowRecord, line, ITEMS)) for line in lines]
    items = rows.read_items(folder, RUN.read(folder))
    assert items is not None
    assert list(items.values()) == full == [rows._listed_row(json.loads(line)) for line in lines]
    assert all(item.failed and type(item) is Row for item in items.values())


@pytest.mark.parametrize(
    "change",
    [{"new": 1}, {"missing": None}, {"scores": [0.5]}, {"grades": [1.0]}, {"preferred": True}, {"lengths": []}],
)
def test_an_item_of_any_other_kind_is_left_to_the_full_parser(change: dict[str, object]) -> None:
    missing = Verdict.failed("missing", "no row yet", 2).scores
    plain = json.loads(row_line(replace(row("i", (1.5, 0.5)), scores=missing)))
    assert rows._listed_row(dict(plain)) is not None
    assert rows._listed_row(plain | change) is None


def test_runs_of_one_benchmark_share_what_their_rows_repeat(tmp_path: Path) -> None:
    for model in ("longest", "random"):
        score("pocket-prb", model, "raw:3", out=tmp_path)
    first, second = load_runs(tmp_path)
    assert first.model != second.model
    for one, other in zip(first.rows, second.rows, strict=True):
        assert one.scores != other.scores
        assert all(getattr(one, name) is getattr(other, name) for name in ("item", "tags", "lengths", "input_hash"))


def test_a_file_is_read_in_parts_and_an_error_names_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scored = score("pocket-prb", "longest", out=tmp_path)
    monkeypatch.setattr(journal, "_BLOCK", 1000)
    assert load_run(scored.path).rows == scored.rows
    file = Path(scored.path) / ROWS
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:9], lines[2], *lines[10:]]))
    with pytest.raises(RunError, match=r"rows\.jsonl:10: found a second row of item"):
        load_run(scored.path)


def test_tops_of_all_rows_at_once_are_those_of_each() -> None:
    draw = random.Random(3)

    def rated(width: int) -> list[Row]:
        return [
            replace(
                row(f"i{n:03}", tuple(draw.choice((0.0, 0.5, 1.0)) for _ in range(width)), draw.randrange(width)),
                lengths=tuple(draw.randrange(1, 99) for _ in range(width)),
            )
            for n in range(200)
        ]

    for made in (rated(2), rated(4), rated(3) + [replace(each, item=f"j{each.item}") for each in rated(2)]):
        for rule in ("share", "lose", "win"):
            ruled = with_ties(run(made), rule)
            assert units_of(ruled, "accuracy").values == tuple(map(top_credit, ruled.rows))
            assert units_of(ruled, "tie_rate").values == tuple(map(top_tied, ruled.rows))
        assert extra_lengths(made).tolist() == list(map(extra_length, made))
