"""`export inspect`, `export evaleval` and their way back, as their user meets them."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pluralrm.benchmarks import load_benchmark
from pluralrm.cli import app
from pluralrm.errors import MissingExtraError, SpecError
from pluralrm.metrics import measure
from pluralrm.runs import load_runs, score


def pluralrm(*words: str, code: int = 0) -> Result:
    done = CliRunner(env={"COLUMNS": "100"}).invoke(app, list(words))
    assert done.exit_code == code, done.output or done.exception
    return done


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    bench = load_benchmark("pocket-prb")
    for condition in ("none", "recent:3"):
        score(bench, "bm25", condition, out=tmp_path / "runs")
    return tmp_path / "runs"


def test_evaleval_files_are_named_and_come_back_as_runs(runs: Path) -> None:
    out, again = runs.parent / "out", runs.parent / "again"
    done = pluralrm("export", "evaleval", str(runs), "-o", str(out), "--by", "a lab", "--relation", "third_party")
    files = sorted(out.rglob("*.json"))
    assert [line for line in done.stdout.splitlines() if line.endswith(": 60 items")] == [
        f"{name}: 60 items" for name in sorted(map(str, files), key=done.stdout.index)
    ]
    assert "With --posts it is" in done.stderr
    assert {json.loads(file.read_text())["source_metadata"]["evaluator_relationship"] for file in files} == {
        "third_party"
    }
    every = sorted(map(str, out.rglob("*.json*")))  # of a run both files are one run
    pluralrm("import", "evaleval", *every, "-b", "pocket-prb", "-o", str(again))
    assert len(load_runs(again)) == 2
    own, back = ({run.condition: measure(run).value for run in load_runs(folder)} for folder in (runs, again))
    assert own == back
    listed = json.loads(pluralrm("export", "evaleval", str(runs), "-o", str(out), "--json").stdout)
    assert [entry["withheld"] for entry in listed] == [False, True]


def test_a_declared_name_and_condition_replace_those_of_the_file(runs: Path) -> None:
    out, again = runs.parent / "out", runs.parent / "again"
    pluralrm("export", "evaleval", str(runs), "-o", str(out))
    [file, _] = sorted(out.rglob("*.json"))
    words = ["-b", "pocket-prb", "-m", "theirs", "-c", "file:persona", "-o", str(again)]
    pluralrm("import", "evaleval", str(file), *words)
    [run] = load_runs(again)
    assert (run.model, run.condition) == ("imported:theirs", "file:persona")


def test_without_the_extra_one_message_says_what_to_install(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    monkeypatch.delitem(sys.modules, "pluralrm.exchange.inspect", raising=False)
    for words in (["export", "inspect", str(runs)], ["import", "inspect", "x.eval", "-b", "pocket-prb"]):
        done = CliRunner().invoke(app, [*words, "-o", str(runs.parent / "logs")])
        assert isinstance(done.exception, MissingExtraError)
        assert "pip install 'pluralrm[inspect]'" in str(done.exception)
    assert not (runs.parent / "logs").exists()


def test_a_benchmark_must_be_named(runs: Path) -> None:
    done = CliRunner().invoke(app, ["import", "evaleval", str(runs / "x.json")])
    assert isinstance(done.exception, SpecError)
