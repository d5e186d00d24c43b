"""Studies at their smallest size: they run, and each table has its rows."""

import re
from pathlib import Path

import pytest
from bench.studies import coverage, personal_curve

pytestmark = pytest.mark.slow


def test_coverage_prints_five_tables(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["coverage", "2"])
    coverage.main()
    tables = capsys.readouterr().out.strip().split("\n\n")
    assert len(tables) == 5
    for table in tables:
        head, _, *rows = table.splitlines()
        assert rows
        assert {row.count("|") for row in rows} == {head.count("|")}


def test_a_learning_curve_is_resumed_tabulated_and_drawn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def run(*arguments: str) -> str:
        monkeypatch.setattr("sys.argv", ["personal_curve", *arguments])
        personal_curve.main()
        return capsys.readouterr().out

    fits, figure = str(tmp_path / "fits.jsonl"), tmp_path / "curve.svg"
    assert len(run("run", fits, "--only", "lore", "--users", "12", "--seeds", "1").splitlines()) == 1
    assert run("run", fits, "--only", "lore", "--users", "12", "--seeds", "1") == ""
    assert re.search(r"^\| `lore` \| -?\d+\.\d \[-?\d+\.\d, -?\d+\.\d\] \|$", run("table", fits), re.MULTILINE)
    run("figure", fits, str(figure))
    assert "<svg" in figure.read_text()
