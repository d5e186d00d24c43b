"""The verb `report`: what it prints and writes."""

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from pluralrm.benchmarks import load_benchmark
from pluralrm.cli.show import report
from pluralrm.errors import MetricError, RunError
from pluralrm.runs import score
from tests.report.folders import folders


def run(*words: str) -> str:
    app = typer.Typer()
    app.command()(report)
    done = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_answer_is_printed_and_the_file_is_written(tmp_path: Path) -> None:
    runs, out = folders(tmp_path / "runs", conditions=["none"]), tmp_path / "deep" / "report.html"
    printed = run(str(runs), "-o", str(out), "--figures", str(tmp_path / "figures"), "--no-text")
    assert printed.startswith(
        "bakery: Rank 1-2 of 2: no two models differ significantly. No run saw the user’s own posts"
    )
    assert "Made without text" in out.read_text(encoding="utf-8")
    assert list((tmp_path / "figures").glob("bakery-*.pdf"))


def test_an_audit_is_shown_with_its_benchmark_alone(tmp_path: Path) -> None:
    score(load_benchmark("pocket-rmgap"), "longest", "none", out=tmp_path / "runs")
    out = tmp_path / "report.html"
    run(str(tmp_path / "runs"), "-o", str(out), "--audit", "pocket-rmgap")
    html = out.read_text(encoding="utf-8")
    assert "Is the benchmark sound?" in html
    assert re.search(r'<th scope="row">position: number \d</th>', html)  # the rule, not its kind alone
    with pytest.raises(MetricError, match="audited pocket-prb, but no run is on that content"):
        run(str(tmp_path / "runs"), "-o", str(out), "--audit", "pocket-prb")


def test_an_earlier_report_is_replaced_and_any_other_file_only_by_force(tmp_path: Path) -> None:
    runs, out = str(folders(tmp_path / "runs", conditions=["none"])), tmp_path / "report.html"
    out.touch()
    run(runs, "-o", str(out))
    first = out.read_bytes()
    run(runs, "-o", str(out), "--no-text")
    assert out.read_bytes() != first
    thesis = "<!doctype html>\n<title>My thesis</title>\n"
    out.write_text(thesis)
    with pytest.raises(RunError, match=r"report\.html exists and is not a report: .*, or pass --force"):
        run(runs, "-o", str(out))
    assert out.read_text() == thesis
    run(runs, "-o", str(out), "--force")
    assert out.read_bytes() == first


def test_a_place_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    runs = folders(tmp_path / "runs", conditions=["none"])
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot write the report"):
        run(str(runs), "-o", str(tmp_path / "file" / "report.html"))
    with pytest.raises(RunError, match="no run at or below"):
        run(str(tmp_path / "nowhere"), "-o", str(tmp_path / "report.html"))
