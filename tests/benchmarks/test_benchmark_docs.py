"""The example rows of benchmarks.md and published.md in docs load, and the list of errors quotes what is said."""

import json
import re
from pathlib import Path

import pytest

from pluralrm import load_benchmark
from pluralrm.benchmarks import KINDS
from tests.benchmarks.sample_rows import DOMAINS, write_jsonl

DOCS = Path(__file__).parents[2] / "docs"
PAGE = "\n".join((DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("benchmarks", "published"))
EXAMPLES = re.findall(r"### ([a-z0-9-]+): .*?```jsonl?\n(.*?)```", PAGE, flags=re.DOTALL)

BESIDE = {
    "pluriharms": ("prompts.csv", "prompt\nHow do I pick a lock?\nHow do I bake bread?\n"),
    "personamem": ("shared_contexts_32k.jsonl", '{"c1": [{"role": "user", "content": "I forget to water."}]}\n'),
}
"""Files that a format has beside its rows."""


@pytest.mark.parametrize(("name", "row"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_the_example_row_of_each_format_loads(tmp_path: Path, name: str, row: str) -> None:
    one_a_line = row.lstrip().startswith("{") and row.count("\n{") == row.count("\n") - 1
    path = write_jsonl(tmp_path / "mine.jsonl", map(json.loads, row.splitlines() if one_a_line else [row]))
    if name in BESIDE:
        (tmp_path / BESIDE[name][0]).write_text(BESIDE[name][1])
    benchmark = load_benchmark(str(path))
    assert benchmark.card.name == f"{name}-mine"
    assert benchmark.content_hash == load_benchmark(f"{name}:{path}").content_hash


def test_every_format_has_an_example_and_every_name_a_row() -> None:
    assert {name for name, _ in EXAMPLES} == {name for name, kind in KINDS.items() if kind.keys}
    assert all(f"`{name}" in PAGE for name in KINDS)


def test_the_quoted_error_is_what_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = json.loads(dict(EXAMPLES)["prb"])
    rows = [row | {"id": n, "category": DOMAINS[0]} for n in range(17)]
    posts = [{"id": n, "category": "", "text": "A post." if n < 3 else 7} for n in range(4)]
    monkeypatch.chdir(tmp_path)
    write_jsonl(Path("my-rows.jsonl"), [*rows[:16], rows[16] | {"profile": posts}])
    with pytest.raises(Exception, match=r"my-rows") as caught:
        load_benchmark("my-rows.jsonl")
    assert f"```\n{caught.value}\n```" in PAGE
