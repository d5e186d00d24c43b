"""The shipped benchmarks: they load without a file, a network or an optional package, through the real row code."""

import subprocess
import sys
from collections import Counter
from importlib.resources import files

import pytest

from pluralrm import load_benchmark
from pluralrm.testing import check_benchmark


@pytest.mark.parametrize("name", ["pocket-prb", "pocket-rmgap"])
def test_the_shipped_benchmarks_keep_every_promise(name: str) -> None:
    benchmark = load_benchmark(name)
    check_benchmark(benchmark)
    assert benchmark.card.name == name
    assert benchmark.card.licence == "Apache-2.0"
    assert "cannot rank models" in benchmark.card.notes


def test_pocket_prb_is_sixty_invented_users() -> None:
    benchmark = load_benchmark("pocket-prb")
    assert len(benchmark.users) == len(benchmark.items) == 60
    assert set(Counter(item.domain for item in benchmark.items).values()) == {20}
    assert all(12 <= len(user.posts) <= 14 for user in benchmark.users)
    assert "invented" in benchmark.card.notes


def test_pocket_rmgap_is_three_records_in_each_of_four_domains() -> None:
    benchmark = load_benchmark("pocket-rmgap")
    assert Counter(item.domain for item in benchmark.items) == dict.fromkeys(benchmark.domains, 36)
    assert Counter(Counter(item.cluster for item in benchmark.items).values()) == {12: 12}
    assert benchmark.domains == ["Chat", "Writing", "Reasoning", "Safety"]


@pytest.mark.parametrize(("name", "file"), [("pocket-prb", "pocket-prb"), ("pocket-rmgap", "pocket-rmgap.jsonl")])
def test_the_shipped_rows_load_by_their_path_too(name: str, file: str) -> None:
    path = files("pluralrm.benchmarks.pocket").joinpath(file)
    assert load_benchmark(str(path)).content_hash == load_benchmark(name).content_hash


def test_the_shipped_benchmarks_need_no_optional_package() -> None:
    code = (
        "import sys\n"
        "for name in ('pyarrow', 'huggingface_hub', 'torch'): sys.modules[name] = None\n"
        "from pluralrm import load_benchmark\n"
        "print(len(load_benchmark('pocket-prb').items), len(load_benchmark('pocket-rmgap').items))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "60 144\n"
