"""`pluralrm import` and `pluralrm gate` as their user meets them."""

import csv
import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pluralrm.benchmarks import load_benchmark
from pluralrm.cli import app
from pluralrm.errors import PluralrmError
from pluralrm.metrics import paired_difference
from pluralrm.runs import load_run, load_runs, score


def pluralrm(*words: str, code: int = 0) -> Result:
    done = CliRunner(env={"COLUMNS": "100"}).invoke(app, list(words))
    assert done.exit_code == code, done.output or done.exception
    return done


def said(*words: str) -> str:
    return " ".join(pluralrm(*words).output.split())


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run of `bm25`, one of `longest`, and the scores of `longest` as published."""
    folder = tmp_path_factory.mktemp("desk")
    bench = load_benchmark("pocket-prb")
    score(bench, "bm25", out=folder / "runs")
    longest = score(bench, "longest", out=folder / "theirs")
    lines = [
        [row.item, name, value]
        for row in longest.rows
        for name, value in zip(row.candidate_ids, row.scores, strict=True)
    ]
    with (folder / "longest.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["item", "candidate", "score"], *random.Random(3).sample(lines, len(lines))])
    pluralrm(
        "import", "scores", str(folder / "longest.csv"), "-b", "pocket-prb", "-m", "rm-27b", "-o", str(folder / "runs")
    )
    return folder


def test_tables_mark_what_was_imported_and_test_it_item_by_item(desk: Path) -> None:
    text = said("compare", str(desk / "runs"))
    assert "rm-27b (imported) 48.3 [36, 61] bm25 45.0 [33, 58]" in text
    assert "rm-27b (imported): imported from longest.csv (sha256 " in text
    assert "-m imported:" not in text
    assert "rm-27b (imported)" in said("compare", str(desk / "runs"), "--all")
    for form in ("csv", "markdown", "latex"):
        assert "rm-27b (imported)" in pluralrm("compare", str(desk / "runs"), "--format", form).output
    board = json.loads(pluralrm("compare", str(desk / "runs"), "--json").output)[0]
    imported = next(entry for entry in board["entries"] if entry["model"] == "imported:rm-27b")
    assert imported["imported"].startswith("imported from longest.csv")
    runs = load_runs(desk / "runs")
    [original] = load_runs(desk / "theirs")
    own = next(run for run in runs if run.model == "bm25")
    theirs = next(run for run in runs if run.imported)
    first, second = paired_difference(own, original), paired_difference(own, theirs)
    assert (first.p, first.difference.value, first.difference.low, first.difference.high) == (
        second.p,
        second.difference.value,
        second.difference.low,
        second.difference.high,
    )


def test_report_and_show_take_imported_runs(desk: Path) -> None:
    gate = ("gate", "bm25", "--against", str(desk / "longest.csv"), "-b", "pocket-prb", "-o", str(desk / "runs"))
    pluralrm(*gate, code=1)
    pluralrm("report", str(desk / "runs"), "-o", str(desk / "report.html"), "--force")
    page = (desk / "report.html").read_text(encoding="utf-8")
    assert "rm-27b (imported)" in page
    assert "IMPORTED" in page
    assert "gate red: " in page
    assert "imported from longest.csv" in page
    [run] = [run for run in load_runs(desk / "runs") if run.imported]
    assert "IMPORTED: imported from longest.csv" in said("show", run.path)
    assert "what the model was given is not known" in said("show", run.path, "--item", run.rows[0].item)


def test_correlate_takes_imported_runs_by_the_name_that_a_table_has(desk: Path, tmp_path: Path) -> None:
    (tmp_path / "tuned.csv").write_text("model,ppo\nrm-27b,5\nbm25,4\nlongest,3\n")
    pluralrm("score", "pocket-prb", "-m", "longest", "-o", str(desk / "more"))
    folders = [str(desk / "runs"), str(desk / "more")]
    text = said("correlate", *folders, "--csv", str(tmp_path / "tuned.csv"), "--downstream", "ppo")
    assert "pocket-prb none -> ppo: 3 models" in text
    assert "imported from longest.csv" in text


def test_what_does_not_fit_is_one_message_and_exit_2(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("item,candidate,score\nart-01,chosen,1\nnobody,chosen,1\n")
    for words, message in {
        ("import", "scores", "x.csv"): "which benchmark do the rows of",
        ("import", "scores", "x.csv", "-b", "pocket-prb"): "found 'nobody', wanted an item of pocket-prb",
        ("import", "score", "x.csv", "-b", "pocket-prb"): "Did you mean 'scores'",
        ("import", "scores", "none.csv", "-b", "pocket-prb"): "cannot read",
        ("import", "rewardmath", "x.csv", "-b", "pocket-prb", "--steps", "sum"): "--steps is 'sum'",
        ("gate", "longest", "--against", "x.csv"): "which benchmark do the rows of",
        ("score", "pocket-prb", "-m", "imported:rm-27b"): "there is no model to ask",
    }.items():
        done = CliRunner().invoke(app, [str(tmp_path / word) if word.endswith(".csv") else word for word in words])
        assert isinstance(done.exception, PluralrmError), done.output
        assert message in str(done.exception)


def test_a_gate_is_kept_with_the_run_and_shown_beside_it(desk: Path, tmp_path: Path) -> None:
    words = ("--against", str(desk / "longest.csv"), "-b", "pocket-prb", "-o", str(tmp_path / "runs"))
    assert "yellow: 100.0% [94.0, 100.0] of the decisions on 60 items are those of longest.csv" in said(
        "gate", "longest", *words
    )
    assert "red: " in pluralrm("gate", "bm25", *words, code=1).output
    text = said("compare", str(tmp_path / "runs"))
    assert "longest: gate yellow: 100.0% [94.0, 100.0] of the decisions" in text
    assert "bm25: gate red: " in text
    card = json.loads(pluralrm("gate", "longest", *words, "--json").output)
    assert card["estimates"]["equal"]["value"] == 1.0
    assert load_run(card["run"]).gate == card["text"]
    [imported] = [run.path for run in load_runs(desk / "runs") if run.imported]
    again = said("gate", "longest", "--against", imported, "-o", str(tmp_path / "runs"))
    assert "are those of rm-27b (imported)" in again


def test_a_leaderboard_becomes_a_table_that_correlate_reads(tmp_path: Path) -> None:
    rows = "".join(f"m{i},{i / 10},{0 if i < 3 else 1 - i / 20},{i * i}\n" for i in range(10))
    (tmp_path / "board.csv").write_text(f"model,Score,Prior Sets,PPO\n{rows}")
    table = str(tmp_path / "table.csv")
    text = said("import", "leaderboard", str(tmp_path / "board.csv"), "-o", table)
    assert "10 models, 3 columns" in text
    assert "Prior Sets: missing for 3 of 10 models" in text
    assert "Prior Sets -> PPO: 7 models" in said(
        "correlate", "--csv", table, "--benchmark", "Prior Sets", "--downstream", "PPO"
    )
    done = CliRunner().invoke(app, ["import", "leaderboard", str(tmp_path / "board.csv"), "-o", table])
    assert "is there already" in str(done.exception)
