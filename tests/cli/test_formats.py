"""--format: the same numbers as --json, in tables that other programs and papers take."""

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from pluralrm.cli import app
from pluralrm.errors import SpecError
from pluralrm.report import _exports
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


ENDS = ("", "low", "high", "n", "failed")


def estimate(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {end: row[f"{name}{end and '_'}{end}"] for end in ENDS}


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


def test_the_table_by_domain_has_lift_and_gain_and_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = printed(COMMANDS["compare-runs"], "table", "--by", "domain").splitlines()
    assert max(map(len, lines)) <= 80
    rows = table(printed(COMMANDS["compare-runs"], "csv", "--by", "domain"))
    for row in rows:
        start = next(place for place, line in enumerate(lines) if line.startswith(f"pocket-prb, {row['domain']}:"))
        line = next(line for line in lines[start:] if line.startswith(row["model"]))
        assert f"{100 * row['accuracy']:.1f}" in line
        for name in ("lift", "gain"):
            assert re.sub(r"^\+0.0$", "0.0", f"{100 * row[name]:+.1f}") in line
    assert any("highest minus lowest" in line for line in lines)


def test_groups_of_a_tag_have_lift_gain_the_lowest_and_the_gap_in_every_form() -> None:
    command = COMMANDS["compare-runs"]
    [board] = json.loads(printed(command, "json", "--by", "category"))
    rows = {(row["spec"], row["category"]): row for row in table(printed(command, "csv", "--by", "category"))}
    screen = printed(command, "table", "--by", "category")
    lifts = {one["model"]: one["groups"] for one in board["lift_by"]}
    groups = {one["model"]: one for one in board["by"] if one["condition"] == "raw:4"}
    for gain in board["gain_by"]:
        model, accuracy = gain["model"], groups[gain["model"]]
        for value, group in gain["groups"].items():
            row = rows[model, value]
            assert estimate(row, "gain") == of_json(group)
            assert estimate(row, "lift") == of_json(lifts[model][value])
            assert estimate(row, "accuracy") == of_json(accuracy["groups"][value])
        for name, label, side in (("accuracy", "lowest", accuracy), ("gain", "lowest gain", gain)):
            if side["worst"] is not None:
                assert estimate(rows[model, f"{label}: {side['worst']}"], name) == of_json(side["lowest"])
                assert estimate(rows[model, "highest minus lowest"], name) == of_json(side["gap"])
    assert "lift [95%]" in screen
    assert max(map(len, screen.splitlines())) <= 80


def test_json_has_the_name_of_every_model_beside_its_spec() -> None:
    [board] = json.loads(printed(COMMANDS["compare-runs"], "json", "--by", "domain"))
    named = [*board["entries"], *board["personalization"], *board["by"], *board["gain_by"]]
    assert len(named) > 6
    assert {one["name"] for one in named} == {"bm25", "random"}


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


STUDY = """
title = "formats"
benchmarks = ["simulated:users=6,items=2"]
models = ["ours_1=longest", "shortest", { name = "100% #1", model = "random" }]
conditions = ["none"]
[best-of-n]
policy = "simulated"
n = 2
grader = "truth"
"""


@pytest.fixture(scope="module")
def study(frozen: Path) -> list[str]:
    (frozen / "named.toml").write_text(STUDY)
    return ["study", str(frozen / "named.toml"), "-o", str(frozen / "named")]


def test_a_study_as_csv_has_the_numbers_and_the_names_of_its_json(study: list[str]) -> None:
    told = json.loads(printed(study, "json"))
    cells = [
        (one["name"], one["model"], side, found["column"], of_json(found))
        for one in told["models"]
        for side in ("benchmark", "downstream")
        for found in one["benchmarks" if side == "benchmark" else side]
    ]
    rows = table(printed(study, "csv"))
    assert [
        (*(row[key] for key in ("model", "spec", "side", "column")), estimate(row, "value")) for row in rows
    ] == cells
    assert {row["model"] for row in rows} == {"ours_1", "shortest", "100% #1"}


ATTACK = ["attack", "pocket-prb", "-m", "longest", "-m", "random", "-a", "pad", "-a", "empty", "--limit", "6"]


def attacked(form: str) -> str:
    return printed([*ATTACK, "-o", "attacked"], form)


def test_attacks_as_csv_have_the_numbers_of_their_json() -> None:
    effects = {
        (one["model"], effect["attack"]): effect for one in json.loads(attacked("json")) for effect in one["effects"]
    }
    rows = {(row["model"], row["attack"]): row for row in table(attacked("csv"))}
    assert rows.keys() == effects.keys()
    names = {
        "before": "win_rate_before",
        "after": "win_rate_after",
        "change": "win_rate_change",
        "beyond_control": "beyond_control",
        "newly_failed": "newly_failed",
    }
    for key, row in rows.items():
        for name, told in names.items():
            assert estimate(row, name) == (
                of_json(effects[key][told]) if effects[key][told] else dict.fromkeys(ENDS, "")
            )
        assert row["p"] == ("" if effects[key]["p"] is None else effects[key]["p"])


def test_attacks_and_studies_are_tables_for_a_paper(study: list[str]) -> None:
    for show in (attacked, lambda form: printed(study, form)):
        rows, markdown, latex = table(show("csv")), show("markdown"), tabular(show("latex"))
        assert len(re.findall(r"^\| (?!:?--)", markdown, re.MULTILINE)) == len(latex) == len(rows) + 1
        assert [row[0] for row in latex[1:]] == [next(iter(row.values())) for row in rows]


UNDONE = {r"\textbackslash": "\\", r"\textasciitilde": "~", r"\textasciicircum": "^", r"\textless": "<"}
UNDONE |= {r"\textgreater": ">", **{f"\\{mark}": mark for mark in "&%$#_{}"}}
TOKEN = re.compile(r"\\[a-z]+(?=\{\})|\\[&%$#_{}]|\{\}|\$-\$|\$\\pm\$|[^\\&%$#_{}~^]")


def tabular(text: str) -> list[list[str]]:
    """Read a LaTeX table as TeX would: its cells as they are printed; anything special that is not meant fails."""
    lines = [line for line in text.splitlines() if line and not line.startswith("%")]
    assert (lines[-1], text.count("{tabular}")) == (r"\end{tabular}", 2)
    opened = re.fullmatch(r"\\begin\{tabular\}\{(l[lr]*)\}", lines[0])
    assert opened
    assert [place for place, line in enumerate(lines) if line.endswith("rule")] == [1, 3, len(lines) - 2]
    rows = [line.removesuffix(r" \\") for line in lines[2:-2] if not line.endswith("rule")]
    cells = [re.split(r"(?<!\\) & |(?<=\\\\) & ", row) for row in rows]
    assert {len(row) for row in cells} == {len(opened[1])}
    return [[printed_cell(cell) for cell in row] for row in cells]


def printed_cell(cell: str) -> str:
    tokens = TOKEN.findall(cell)
    assert "".join(tokens) == cell, cell
    assert not re.search(r"--|``|''|,,|[?!]`", cell.replace("--", "", cell == "--")), cell
    marks = {"$-$": "−", r"$\pm$": "±", "{}": ""}
    return "".join(UNDONE.get(token, marks.get(token, token)) for token in tokens)


NAMES = st.text(st.sampled_from("ab_&%$#~^\\{}<>[]*-–−±`'\",?!|/=:. é漢🙂"), min_size=1, max_size=12)


@given(st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=4))
def test_any_name_is_printed_by_latex_as_it_is(rows: list[tuple[str, str]]) -> None:
    cells = [[text.replace("–", "-").strip() for text in row] for row in rows]
    assert tabular(latex_text(["model", "lift ±%"], cells))[1:] == cells


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
