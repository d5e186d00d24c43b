"""Nothing is run, and nothing is compared, where what it takes is missing."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pluralrm.cli import app
from pluralrm.errors import MissingExtraError, PluralrmError, SandboxError
from pluralrm.validate import CodeTask, MathTask, check_all, check_code, check_math, ready, require_math
from pluralrm.validate.code import require_sandbox
from pluralrm.validate.sandbox import tool

CODE = "```python\nopen({!r}, 'w')\ndef f():\n    return 1\n```"


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    for known in (require_sandbox, require_math, tool):
        known.cache_clear()
    yield
    for known in (require_sandbox, require_math, tool):
        known.cache_clear()


@pytest.fixture
def no_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("no_programs")
def test_without_bubblewrap_nothing_is_run_and_the_message_says_what_to_install(tmp_path: Path):
    task = CodeTask(CODE.format(str(tmp_path / "made")), "assert f() == 1", "f")
    for asked in (lambda: check_code(*task[:2], entry="f"), lambda: list(check_all([task])), lambda: ready([task])):
        with pytest.raises(SandboxError, match="apt-get install bubblewrap"):
            asked()
    assert not (tmp_path / "made").exists()


def test_a_bubblewrap_that_starts_nothing_is_refused_with_what_it_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin")
    with pytest.raises(SandboxError, match=r"No permissions to create new namespace.*apt-get install bubblewrap"):
        ready([CodeTask(CODE, "assert f() == 1", "f")])


@pytest.mark.usefixtures("no_programs")
def test_a_reply_without_code_needs_no_sandbox():
    outcome = check_code("It is 4.", "assert f() == 1", entry="f")
    assert getattr(outcome, "kind", "") == "parse"


def test_without_the_extra_the_message_names_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "math_verify", None)
    for asked in (lambda: check_math(r"\boxed{5}", "5"), lambda: ready([MathTask(r"\boxed{5}", "5")])):
        with pytest.raises(MissingExtraError, match=r"pluralrm\[math\]"):
            asked()


@pytest.mark.usefixtures("no_programs")
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"id": "a", "kind": "art", "reply": "x"}', "rows.jsonl:1: kind: found 'art', wanted 'math' or 'code'"),
        ('{"id": "a", "kind": "math", "reply": "x"}', "reference: found no such key"),
        ('{"id": "a", "kind": "code", "reply": "x", "test": "y"}', "test: found an unknown key"),
        ("", "found no rows"),
        ('{"id": "a", "kind": "code", "reply": "x", "tests": "y"}', "apt-get install bubblewrap"),
    ],
)
def test_a_file_that_cannot_be_validated_is_told_so(row: str, message: str, tmp_path: Path):
    from typer.testing import CliRunner

    file = tmp_path / "rows.jsonl"
    file.write_text(row + "\n")
    done = CliRunner().invoke(app, ["construct", "validate", str(file)])
    assert isinstance(done.exception, PluralrmError)
    assert message in str(done.exception)
