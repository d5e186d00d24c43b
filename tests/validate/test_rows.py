"""Replies to validate come from a file, and outcomes go to one."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pluralrm.cli import app
from pluralrm.core import Failure
from pluralrm.errors import RowError, RunError
from pluralrm.validate import CodeTask, MathTask, NamedTask, Right, Wrong, read_tasks, rows_of

ROWS = [
    {"id": "a", "kind": "math", "reply": r"\boxed{5}", "reference": "5"},
    {"id": "b", "kind": "code", "reply": "```python\ndef f(): return 1\n```", "tests": "assert f() == 2"},
    {"id": "c", "kind": "code", "reply": "no", "tests": "assert f() == 1", "entry": "f"},
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "replies.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def test_each_row_is_a_task_of_its_kind(file: Path):
    assert [one.id for one in read_tasks(file)] == ["a", "b", "c"]
    assert [one.task for one in read_tasks(file)] == [
        MathTask(r"\boxed{5}", "5"),
        CodeTask(ROWS[1]["reply"], "assert f() == 2"),
        CodeTask("no", "assert f() == 1", "f"),
    ]


def test_a_failure_is_told_by_its_kind_and_never_as_wrong():
    tasks = [NamedTask(name, "math", MathTask("", "")) for name in "abc"]
    assert rows_of(tasks, [Right(), Wrong("why"), Failure("parse", "none")]) == [
        {"id": "a", "kind": "math", "outcome": "right"},
        {"id": "b", "kind": "math", "outcome": "wrong", "reason": "why"},
        {"id": "c", "kind": "math", "outcome": "failed", "failure": "parse", "reason": "none"},
    ]


def test_a_row_of_the_wrong_kind_is_named_by_file_and_line(file: Path):
    with file.open("a") as stream:
        stream.write('{"id": "d", "kind": "math", "reply": "x", "reference": 5}\n')
    with pytest.raises(RowError, match=r"replies.jsonl:4: reference: found 5"):
        read_tasks(file)


def test_a_file_of_outcomes_is_not_written_over(file: Path):
    done = CliRunner().invoke(app, ["construct", "validate", str(file), "-o", str(file)])
    assert isinstance(done.exception, RunError)
    assert "is there already" in str(done.exception)


@pytest.mark.sandbox
def test_the_command_counts_by_kind_and_writes_each_outcome(file: Path, tmp_path: Path):
    out = tmp_path / "outcomes.jsonl"
    done = CliRunner().invoke(app, ["construct", "validate", str(file), "-o", str(out), "--json"])
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert (told["math"], told["code"]) == (
        {"right": 1, "wrong": 0, "failed": 0},
        {"right": 0, "wrong": 1, "failed": 1},
    )
    assert [json.loads(line) for line in out.read_text().splitlines()] == told["rows"]
    assert [row["outcome"] for row in told["rows"]] == ["right", "wrong", "failed"]
