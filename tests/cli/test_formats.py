"""--format: the same numbers as --json, in tables that other programs and papers take."""

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pluralrm.cli import app
from pluralrm.errors import SpecError
from pluralrm.report.build import _exports
from pluralrm.report.sections import read_sources, sections
from pluralrm.text import flat, latex_text, records_text
from tests.golden.commands import KINDS, QUESTIONS
from tests.golden.freeze import prepare, unpack

COMMANDS = {one.name: list(one.command) for one in QUESTIONS}
COMMANDS["agreement"] += ["--resamples", "200"]
VERBS = ("compare-runs", "compare-rmgap", "agreement")
CELL = re.compile(r"(?:[^\\&%$#_{}~^]|\\[&%$#_{}]|\\[a-z]+\{\}|\$-\$|\$\\pm\$)*")
"""What a cell of LaTeX may hold: no special character by itself."""


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("frozen")
    unpack([kind for kind in KINDS if kind.name in {"runs", "pool", "plan"}], folder)
    prepare(folder)
    return folder


@pytest.fixture(autouse=True)
def _there(frozen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLURALRM_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(frozen)


def printed(words: Sequence[str], form: str, *more: str) -> str:
    done = CliRunner().invoke(app, [*(word for word in words if word != "--json"), "--format", form, *more])
    assert done.exit_code == 0, done.output
    return done.stdout


def table(text: str) -> list[dict[str, Any]]:
    return [
        {key: value if not re.fullmatch(r"-?[\d.]+(e-?\d+)?", value) else float(value) for key, value in row.items()}
        for row in csv.DictReader(io.StringIO(text))
    ]


def estimate(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {end: row[f"{name}{end and '_'}{end}"] for end in ("", "low", "high", "n", "failed")}


def of_json(found: dict[str, Any]) -> dict[str, Any]:
    cells = {"": found["value"], **{end: found[end] for end in ("low", "high", "n", "failed")}}
    return {end: "" if value is None else value for end, value in cells.items()}


def test_compare_as_csv_has_the_numbers_of_its_json() -> None:
    rows = table(printed(COMMANDS["compare-runs"], "csv"))
    [board] = json.loads(printed(COMMANDS["compare-runs"], "json"))
    entries = {(one["model"], one["condition"]): one["metrics"]["accuracy"] for one in board["entries"]}
    personal = {one["model"]: one for one in board["personalization"]}
    assert {row["model"] for row in rows} == {"bm25", "random"}
    for row in rows:
        assert estimate(row, "value") == of_json(entries[row["spec"], row["condition"]])
        for name in ("lift", "gain"):
            assert estimate(row, name) == of_json(personal[row["spec"]][name])


def test_records_have_pair_and_consistency_with_intervals_by_domain_too() -> None:
    [row] = table(printed(COMMANDS["compare-rmgap"], "csv"))
    [board] = json.loads(printed(COMMANDS["compare-rmgap"], "json", "--by", "domain"))
    for name in ("pair", "consistency"):
        assert estimate(row, name) == of_json(board["entries"][0]["metrics"][name])
    domains = board["by"][0]["domains"]
    rows = table(printed(COMMANDS["compare-rmgap"], "csv", "--by", "domain"))
    assert [row["domain"] for row in rows] == list(domains)
    for row in rows:
        for name in ("bon", "pair", "consistency", "all_phrasings"):
            assert estimate(row, name) == of_json(domains[row["domain"]][name])


def test_lift_and_gain_stand_beside_the_accuracy_of_each_domain() -> None:
    rows = table(printed(COMMANDS["compare-runs"], "csv", "--by", "domain"))
    [board] = json.loads(printed(COMMANDS["compare-runs"], "json", "--by", "domain"))
    gains = {one["model"]: one["groups"] for one in board["gain_by"]}
    accuracy = {(one["model"], one["condition"]): one["groups"] for one in board["by"]}
    for row in rows:
        assert estimate(row, "gain") == of_json(gains[row["spec"]][row["domain"]])
        none, own = (accuracy[row["spec"], condition][row["domain"]]["value"] for condition in ("none", "raw:4"))
        assert row["lift"] == pytest.approx(own - none, abs=1e-12)


def test_all_as_csv_has_every_run_with_every_metric() -> None:
    rows = table(printed(COMMANDS["compare-runs"], "csv", "--all"))
    [board] = json.loads(printed(COMMANDS["compare-runs"], "json"))
    assert [(row["spec"], row["condition"]) for row in rows] == [
        (one["model"], one["condition"]) for one in board["entries"]
    ]
    for row, entry in zip(rows, board["entries"], strict=True):
        for name, found in entry["metrics"].items():
            assert estimate(row, name) == of_json(found)


def test_runs_on_several_benchmarks_are_one_csv() -> None:
    rows = table(printed(["compare", "runs", "rmgap"], "csv", "--by", "domain"))
    assert {row["benchmark"] for row in rows} == {"pocket-prb", "pocket-rmgap"}
    assert all((row["bon"] == "") == (row["benchmark"] == "pocket-prb") for row in rows)


def test_the_curves_and_correlations_as_csv_have_the_numbers_of_their_json() -> None:
    rows = table(printed(COMMANDS["best-of-n"], "csv"))
    curves = json.loads(printed(COMMANDS["best-of-n"], "json"))["curves"]
    assert [estimate(row, "grade") for row in rows] == [
        of_json(one["bon"]) for curve in curves for one in curve["points"]
    ]
    found = table(printed(COMMANDS["correlate"], "csv"))
    [cell] = json.loads(printed(COMMANDS["correlate"], "json"))["cells"]
    findings = {one["title"]: one for one in cell["findings"]}
    assert [estimate(row, "value") for row in found] == [of_json(findings[row["measure"]]) for row in found]
    assert len(found) == len(findings)


def test_agreement_as_csv_has_a_row_for_each_coefficient() -> None:
    rows = table(printed(COMMANDS["agreement"], "csv"))
    parts = json.loads(printed(COMMANDS["agreement"], "json"))["agreement"]
    values = {one["value"] for part in parts for one in part.values() if isinstance(one, dict)}
    assert {row["value"] for row in rows if row["value"] != ""} == values
    assert {row["dimension"] for row in rows} == {part["dimension"] for part in parts}


@pytest.mark.parametrize("verb", VERBS)
def test_latex_is_a_table_in_which_no_character_is_special_by_accident(verb: str) -> None:
    text = printed(COMMANDS[verb], "latex")
    for part in text.split(r"\begin{tabular}")[1:]:
        kinds, _, body = part.partition("}\n")
        lines = [line for line in body.split(r"\end{tabular}")[0].splitlines() if not re.fullmatch(r"\\\w+rule", line)]
        assert lines
        for line in lines:
            assert line.endswith(r" \\")
            cells = re.split(r"(?<!\\)&", line.removesuffix(r" \\"))
            assert len(cells) == len(kinds.strip("{"))
            assert all(CELL.fullmatch(cell) for cell in cells), line
    assert text.count(r"\begin{tabular}") == text.count(r"\bottomrule") == 1


@pytest.mark.parametrize("verb", VERBS)
def test_markdown_has_as_many_rows_as_csv(verb: str) -> None:
    lines = [line for line in printed(COMMANDS[verb], "markdown").splitlines() if line.startswith("| ")]
    assert len(lines) - 2 == len(table(printed(COMMANDS[verb], "csv")))
    assert len({len(re.split(r"(?<!\\)\|", line)) for line in lines}) == 1


def test_the_files_that_the_report_saves_are_those_of_compare() -> None:
    saved = _exports(sections(read_sources(["rmgap", "runs"])))
    assert {form: printed(["compare", "rmgap", "runs"], form) for form in saved} == saved


def test_json_is_format_json_and_no_other() -> None:
    words = COMMANDS["compare-runs"]
    assert CliRunner().invoke(app, words).stdout == printed(words, "json")
    done = CliRunner().invoke(app, [*words, "--format", "csv"])
    assert isinstance(done.exception, SpecError)
    assert "--json and --format csv: wanted one of them" in str(done.exception)


def test_a_table_for_a_paper_joins_value_and_interval_and_leaves_out_what_nobody_has() -> None:
    from pluralrm.core import Estimate

    found = Estimate(0.5, 0.25, 0.75, 8, 1, "by hand")
    rows = [
        {"model": "[a]", **flat("accuracy", found), **flat("gain", None)},
        {"model": "b_c", **flat("accuracy", None), **flat("gain", None)},
    ]
    assert records_text(rows, "markdown", ["accuracy"]).splitlines()[0] == "| model | accuracy |"
    latex = records_text(rows, "latex", ["accuracy"]).splitlines()
    assert r"{}[a] & 50.0 [25.0, 75.0] \\" in latex  # [ after a line's end would be its option
    assert r"b\_c & -- \\" in latex
    assert latex_text(["m"], [["*"]]).splitlines()[4].startswith("{}*")
    assert next(csv.DictReader(io.StringIO(records_text(rows, "csv")))) == {
        "model": "[a]",
        "accuracy": "0.5",
        "accuracy_low": "0.25",
        "accuracy_high": "0.75",
        "accuracy_n": "8",
        "accuracy_failed": "1",
        **dict.fromkeys(flat("gain", None), ""),
    }
