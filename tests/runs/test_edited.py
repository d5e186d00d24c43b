"""Files of a run that somebody edited: one clear message that names file and line, and never another number."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pluralrm.core import Run
from pluralrm.errors import RunError
from pluralrm.journal import sealed_line, unsealed_line
from pluralrm.runs import load_run, score
from tests.builders import Scripted, as_before, bakery, edit_json

Edit = Callable[[dict[str, object]], object]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return score(bakery(12), Scripted(moods={"i0003": "parse"}), out=tmp_path)


def _lines(run: Run) -> list[bytes]:
    return Path(run.path, "rows.jsonl").read_bytes().splitlines(keepends=True)


def _write(run: Run, lines: list[bytes]) -> None:
    Path(run.path, "rows.jsonl").write_bytes(b"".join(lines))


def _sealed(row: dict[str, object]) -> bytes:
    return (sealed_line(json.dumps(row)) + "\n").encode()


@pytest.mark.parametrize("resumed", [False, True])
def test_a_doubled_row_is_an_error_by_line(run: Run, tmp_path: Path, resumed: bool) -> None:
    lines = _lines(run)
    _write(run, [*lines, lines[4]])
    with pytest.raises(RunError, match=r"rows\.jsonl:13: found a second row of item 'i0004'"):
        score(bakery(12), Scripted(), out=tmp_path) if resumed else load_run(run.path)


@pytest.mark.parametrize("resumed", [False, True])
def test_a_row_of_another_item_is_an_error_by_line(run: Run, tmp_path: Path, resumed: bool) -> None:
    lines, other = _lines(run), score(bakery(40), Scripted(), out=tmp_path / "other")
    _write(run, [*lines[:6], _lines(other)[33], *lines[7:]])
    with pytest.raises(RunError, match=r"rows\.jsonl:7: a row of item 'i0033', which is none of this run"):
        score(bakery(12), Scripted(), out=tmp_path) if resumed else load_run(run.path)


def test_rows_that_were_removed_are_missed_and_scored_again(run: Run, tmp_path: Path) -> None:
    _write(run, _lines(run)[:-2])
    with pytest.raises(RunError, match=r"rows\.jsonl: found 10 rows, and run\.json counts 12"):
        load_run(run.path)
    again = Scripted(moods={"i0003": "parse"})
    assert score(bakery(12), again, out=tmp_path) == run
    assert again.asked == ["i0010", "i0011"]


@pytest.mark.parametrize("resumed", [False, True])
def test_rows_of_another_model_in_a_finished_run_are_refused(run: Run, tmp_path: Path, resumed: bool) -> None:
    other = score(bakery(12), Scripted("kinder"), out=tmp_path / "other")
    _write(run, [*_lines(run)[:3], *_lines(other)[3:]])
    with pytest.raises(RunError, match=r"rows\.jsonl: its rows are not those that were scored"):
        score(bakery(12), Scripted(), out=tmp_path) if resumed else load_run(run.path)


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (lambda row: row | {"preferred": 1 - row["preferred"]}, "preferred of item 'i0004' are not as in items"),
        (lambda row: row | {"preferred": 2}, "preferred is 2, and there are 2 scores"),
        (lambda row: row | {"preferred": -1}, "preferred: Input should be greater than or equal to 0"),
        (lambda row: row | {"scores": [1.0]}, "(preferred is 1, and there are 1|2 lengths for 1) scores"),
        (lambda row: row | {"scores": [1.0] * 3, "lengths": [1] * 3, "candidates": []}, "candidate_ids and lengths"),
        (lambda row: row | {"lengths": []}, "0 lengths for 2 scores"),
        (lambda row: {key: row[key] for key in row if key != "lengths"}, "lengths: Field required"),
        (lambda row: row | {"lengths": [1, 2]}, "lengths of item 'i0004' are not as in items"),
        (lambda row: row | {"cluster": "u9"}, "cluster of item 'i0004' are not as in items"),
        (lambda row: row | {"scores": [float("nan"), 1.0]}, r"scores\.0"),
        (lambda row: row | {"scores": [True, "1"]}, "the line is not as it was written|scores"),
        (lambda row: row | {"votes": [{"order": [0, 5], "outcome": "0"}]}, "a vote is on candidates"),
    ],
)
def test_a_row_that_does_not_fit_is_an_error_by_line(run: Run, edit: Edit, told: str) -> None:
    lines = _lines(run)
    row = json.loads(unsealed_line(lines[4]))
    changed = edit(row)
    if told.startswith("the line"):
        lines[4] = lines[4].replace(b'"scores":[', b'"scores":[ ')
    else:
        lines[4] = _sealed(changed)  # type: ignore[arg-type]
    _write(run, lines)
    with pytest.raises(RunError, match=rf"rows\.jsonl:5: .*(?:{told})"):
        load_run(run.path)


@pytest.mark.parametrize(
    "junk",
    [b"\xff\xfe{}\n", b"[" * 100_000 + b"\n", b'{"item":' + b"9" * 5000 + b"}\n", b"null\n", b"\n", b'{"item":"i0004"'],
    ids=["bytes", "nesting", "digits", "null", "empty", "half"],
)
@pytest.mark.parametrize("name", ["rows.jsonl", "run.json", "attempts.jsonl", "items.jsonl.gz"])
def test_junk_is_one_message_that_names_the_file(run: Run, name: str, junk: bytes) -> None:
    file = Path(run.path, name)
    if name == "run.json":
        file.write_bytes(junk)
    else:
        lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
        file.write_bytes(b"".join([*lines[:4], junk if junk.endswith(b"\n") else junk + b"\n", *lines[5:]]))
    where = {"rows.jsonl": r"rows\.jsonl:5: ", "attempts.jsonl": r"attempts\.jsonl:1: "}.get(name, name)
    with pytest.raises(RunError, match=where):
        load_run(run.path)


@pytest.mark.parametrize("change", [{"rows": 11}, {"condition": "recent:2"}, {"reveals": ["posts"]}, {"model": "x"}])
def test_an_edited_manifest_is_refused(run: Run, change: dict[str, object]) -> None:
    file = Path(run.path, "run.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(RunError, match=r"run\.json: the file is not as it was written"):
        load_run(run.path)


def test_an_attempt_at_an_item_of_another_run_is_an_error_by_line(tmp_path: Path) -> None:
    run = score(bakery(6), Scripted(moods={"i0002": "transport"}), out=tmp_path)
    file = Path(run.path, "attempts.jsonl")
    line = json.loads(unsealed_line(file.read_bytes()))
    with file.open("ab") as end:
        end.write(_sealed(line | {"item": "i0077"}))
    with pytest.raises(RunError, match=r"attempts\.jsonl:2: an attempt at item 'i0077', which is none of this run"):
        load_run(run.path)


def test_a_run_of_before_is_read_and_an_unfinished_one_is_resumed_or_refused_by_name(tmp_path: Path) -> None:
    whole = score(bakery(9), Scripted(), out=tmp_path / "whole")
    as_before(Path(whole.path))
    assert load_run(whole.path) == whole
    open_one = score(bakery(9), Scripted(moods={"i0002": "transport"}), out=tmp_path / "open")
    as_before(Path(open_one.path))
    with pytest.raises(RunError, match=r"8 of 9 items are scored, .* Resume it with the same 'pluralrm score' command"):
        load_run(open_one.path)
    resumed = score(bakery(9), Scripted(), out=tmp_path / "open")
    assert (resumed.complete, resumed.rows) == (True, whole.rows)


@pytest.mark.parametrize("kept", [0, 1, 5])
def test_an_input_is_on_disk_once_after_a_kill_between_inputs_and_rows(tmp_path: Path, kept: int) -> None:
    whole = score(bakery(9), Scripted(), "recent:2", out=tmp_path)
    folder = Path(whole.path)
    before = (folder / "inputs.jsonl.gz").read_bytes()
    _write(whole, _lines(whole)[:kept])  # a kill after the inputs were written, and before the rows were
    edit_json(folder / "run.json", status="incomplete", rows=0, rows_hash="")
    assert score(bakery(9), Scripted(), "recent:2", out=tmp_path) == whole
    items = [json.loads(line)["item"] for line in _inputs(folder)]
    assert items == [row.item for row in whole.rows]
    assert len(before) > 0


def _inputs(folder: Path) -> list[str]:
    import gzip

    return gzip.decompress((folder / "inputs.jsonl.gz").read_bytes()).decode().splitlines()


def test_a_list_of_items_that_is_gone_or_changed_is_an_error(run: Run) -> None:
    file = Path(run.path, "items.jsonl.gz")
    os.truncate(file, file.stat().st_size - 3)
    with pytest.raises(RunError, match=r"items\.jsonl\.gz: the file is not as it was written"):
        load_run(run.path)
    file.unlink()
    with pytest.raises(RunError, match=r"cannot read .*items\.jsonl\.gz"):
        load_run(run.path)
