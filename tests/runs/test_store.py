"""What can be read of a run folder, whatever became of it."""

import gc
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pluralrm.core import Failure, Query, Run, Verdict
from pluralrm.errors import RunError
from pluralrm.journal import sealed_line, unsealed_line
from pluralrm.runs import load_inputs, load_manifest, load_run, read_inputs, score
from pluralrm.runs.store import uncollected, without_copies
from tests.builders import Scripted, as_before, bakery, edit_json


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return score(bakery(70), Scripted(), "raw:2", out=tmp_path)


def test_the_manifest_says_what_the_run_is(run: Run) -> None:
    manifest = load_manifest(run.path)
    assert (manifest.model, manifest.condition, manifest.status) == (run.model, run.condition, "complete")
    assert manifest.benchmark.content_hash == run.benchmark_hash
    assert manifest.rows == len(run.rows)


def test_only_a_complete_run_with_equal_rows_is_a_copy(run: Run) -> None:
    moved = replace(run, path="elsewhere")
    assert without_copies([run, moved]) == ([run], "left out, with the same rows in two folders: 1 run of scripted")
    changes: list[dict[str, Any]] = [{"complete": False}, {"rows": run.rows[::-1]}, {"name": "mine"}, {"model": "m"}]
    for change in changes:
        both = [run, replace(moved, **change)]
        assert without_copies(both) == (both, "")


def test_what_was_loaded_is_not_looked_through_at_once() -> None:
    looks: list[str] = []

    def note(phase: str, info: dict[str, int]) -> None:
        looks.append(f"{phase} {info['generation']}")

    gc.callbacks.append(note)
    try:
        with uncollected():
            rows = [[index] for index in range(50_000)]
        young = gc.get_count()[0]
    finally:
        gc.callbacks.remove(note)
    assert not looks
    assert young < len(rows) / 10
    assert gc.isenabled()


def test_a_folder_that_is_no_run_says_how_one_is_made(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"holds no run: there is no run.json in it; 'pluralrm score' writes one"):
        load_manifest(tmp_path)


def test_files_of_another_version_are_refused_with_what_to_do(run: Run) -> None:
    file, rows = Path(run.path, "run.json"), Path(run.path, "rows.jsonl")
    first, rest = rows.read_bytes().split(b"\n", 1)
    rows.write_text(f"{sealed_line(unsealed_line(first).decode().replace('lengths', 'widths'))}\n{rest.decode()}")
    with pytest.raises(RunError, match=r"rows.jsonl:1: lengths: .* read it with the version of pluralrm that wrote it"):
        load_run(run.path)
    edit_json(file, mood="fine")
    with pytest.raises(RunError, match=r"run.json: mood: .* or score the run again with --fresh"):
        load_manifest(run.path)


def test_rows_of_an_older_version_take_their_prompts_from_the_inputs(run: Run) -> None:
    as_before(Path(run.path), "prompt")
    assert load_run(run.path) == run
    Path(run.path, "inputs.jsonl.gz").unlink()
    assert {row.prompt for row in load_run(run.path).rows} == {""}


def test_a_failure_that_no_json_can_hold_is_spelled_out_and_read_back(tmp_path: Path) -> None:
    class Odd:
        spec = "odd"

        def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
            return (Verdict.failed("refused", "no \ud800", len(query.candidates)) for query in queries)

    run = score(bakery(3), Odd(), out=tmp_path)
    assert run.rows[0].scores[0] == Failure("refused", r"no \ud800")


def test_inputs_are_read_in_the_order_of_the_rows(run: Run) -> None:
    inputs = list(read_inputs(run.path))
    assert [record["item"] for record in inputs] == [row.item for row in run.rows]
    assert inputs[69] == load_inputs(run.path, "i0069")


def test_torn_inputs_are_read_up_to_the_tear(run: Run, tmp_path: Path) -> None:
    whole, file = list(read_inputs(run.path)), Path(run.path, "inputs.jsonl.gz")
    file.write_bytes(file.read_bytes()[:-20])
    assert list(read_inputs(run.path)) == whole[:64]  # what was synced at once is there as a whole or not at all
    with pytest.raises(RunError, match="holds no input for item 'i0069'; it was lost, and --fresh"):
        load_inputs(run.path, "i0069")
    assert list(read_inputs(tmp_path / "nowhere")) == []
