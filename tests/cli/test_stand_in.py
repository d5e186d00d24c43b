"""`pluralrm stand-in` and `annotate agreement --judge`: the same answer of runs, files and plans, in every form."""

import contextlib
import csv
import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pluralrm import load_benchmark, load_condition, load_model
from pluralrm.annotate.plan import write_plan
from pluralrm.annotate.planner import PlanRequest, make_plan
from pluralrm.cli import app
from pluralrm.runs import score

CROWD = "simulated:users=8,items=40,crossed=8,groups=1,crowd=0.8,sharpness=3"
KNOWN = "known:posts,crossed=8,crowd=0.8,groups=1,sharpness=3"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("stand-in")
    bench = load_benchmark(CROWD)
    for name, model in (("known", KNOWN), ("random", "random")):
        score(bench, load_model(model), load_condition("none"), out=where / "runs" / name)
    rng = random.Random(0)
    rows = []
    for number in range(60):
        truth = rng.choice("ab")
        for name, right in {"ann": 0.8, "bob": 0.8, "cyd": 0.8, "dee": 0.8, "good": 1.0, "bad": 0.2}.items():
            rows.append(f"q{number},{name},{truth if rng.random() < right else 'ab'[truth == 'a']},{rng.random():.2f}")
    (where / "labels.csv").write_text("\n".join(["item,annotator,label,certainty", *rows, ""]))
    return where


def _printed(folder: Path, *words: str) -> str:
    with contextlib.chdir(folder):
        done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.stdout


def test_one_run_says_whether_it_may_and_for_whom(folder: Path) -> None:
    text = " ".join(_printed(folder, "stand-in", "runs/known").split())
    assert text.startswith(f"simulated: {KNOWN} under none may stand in for a person: it agrees")
    assert "8 of 8 people do, epsilon 0.15" in text
    assert "winning rate 100.0 (50 needed), mean advantage probability (rho) " in text
    assert "320 comparisons compared with" in text
    assert "The published test (Student's t) passes: winning rate 100.0." in text


def test_several_judges_are_a_row_each(folder: Path) -> None:
    text = _printed(folder, "stand-in", "runs")
    assert "simulated: may they stand in for a person? epsilon 0.15" in text
    assert text.count(" under none ") == 2


@pytest.mark.parametrize(
    "words", [["stand-in", "runs"], ["stand-in", "labels.csv", "--judge", "good", "--judge", "bad"]]
)
def test_every_form_has_the_same_numbers(folder: Path, words: list[str]) -> None:
    results: list[dict[str, Any]] = json.loads(_printed(folder, *words, "--json"))
    records = list(csv.DictReader(io.StringIO(_printed(folder, *words, "--format", "csv"))))
    assert [row["result"] for row in records if row["person"] == "all"] == [result["ruling"] for result in results]
    people = [
        (person["person"], person["lead"]["low"], person["adjusted"]) for each in results for person in each["people"]
    ]
    assert [
        (row["person"], float(row["lead_low"]), float(row["p_adjusted"])) for row in records if row["person"] != "all"
    ] == people
    for form in ("markdown", "latex"):
        assert _printed(folder, *words, "--format", form).count("all") == len(results)


def test_a_judge_of_a_file_is_no_longer_among_its_people(folder: Path) -> None:
    (good, bad) = json.loads(_printed(folder, "stand-in", "labels.csv", "--judge", "good", "--judge", "bad", "--json"))
    assert [person["person"] for person in good["people"]] == ["ann", "bob", "cyd", "dee"]
    assert (good["ruling"], bad["ruling"]) == ("may", "may not")
    assert len(good["risks"]) == 5


def test_twelve_annotators_are_all_in_the_table_with_the_p_of_what_is_said(tmp_path: Path) -> None:
    rng = random.Random(0)
    names = [f"person{number:02}" for number in range(13)] + ["judge"]
    rows = [
        f"q{number},{name},{truth if rng.random() < (0.2 if name == 'judge' else 0.8) else 'ab'[truth == 'a']},x"
        for number in range(40)
        for truth in ["ab"[number % 2]]
        for name in names
    ]
    (tmp_path / "labels.csv").write_text("\n".join(["item,annotator,label,Certainty", *rows, ""]))
    done = CliRunner().invoke(app, ["stand-in", str(tmp_path / "labels.csv"), "--judge", "judge"])
    assert all(name in done.stdout for name in names)
    assert "... and" not in done.stdout
    assert "person12 worse" in " ".join(done.stdout.split())
    assert "1.000" not in done.stdout
    assert "columns that are not read: Certainty" in done.stderr


def test_agreement_says_the_same_beside_its_own_numbers(folder: Path) -> None:
    words = ("labels.csv", "--judge", "good")
    alone = json.loads(_printed(folder, "stand-in", *words, "--json"))
    result = json.loads(_printed(folder, "annotate", "agreement", *words, "--json", "--resamples", "200"))
    assert result["stand_in"] == alone
    assert result["agreement"][0]["annotators"] == 5  # bad is still an annotator, good is not
    text = " ".join(_printed(folder, "annotate", "agreement", *words, "--resamples", "200").split())
    assert "good may stand in for a person: it agrees with the others as well as 5 of 5 people do" in text
    assert "stand_in" not in json.loads(
        _printed(folder, "annotate", "agreement", "labels.csv", "--json", "--resamples", "200")
    )


def test_a_plan_is_judged_by_runs_on_its_content_alone(folder: Path) -> None:
    bench = load_benchmark("simulated:users=30,items=2")
    plan = make_plan(bench, PlanRequest(annotators=6, arms=("narrative",), items=30, seed=0), key="k")
    write_plan(plan, folder / "plan")
    _printed(folder, "annotate", "rehearse", "plan", "-o", "said.jsonl", "--fit", "0.9")
    score(bench, load_model("random"), load_condition("none"), out=folder / "own")
    words = ("stand-in", "plan", "--judgments", "said.jsonl", "--min-items", "5", "--judge")
    text = _printed(folder, *words, "own")
    assert text.startswith("REHEARSAL: these judgments are simulated\nplan, narrative, overall: ")
    done = CliRunner().invoke(
        app,
        ["stand-in", str(folder / "plan"), "--judgments", str(folder / "said.jsonl"), "--judge", str(folder / "runs")],
    )
    assert done.exit_code != 0
    assert "wanted a run on the same items and seed" in str(done.exception)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["labels.csv"], "need --judge"),
        (["runs", "--scale", "nominal"], "runs take no options of labels"),
        (["labels.csv", "labels.csv", "--judge", "good"], "one plan or file of labels; found 2"),
        (["label.csv", "--judge", "good"], "no such file or folder; wanted runs, a plan, or a file of labels"),
        (["labels.csv", "--judge", "labels.csv"], "'ann' is one of its annotators, and the judge of another file too"),
        (
            ["labels.csv", "--judge", "good", "--dimension", "tone"],
            "no dimension 'tone'. Its labels have no dimensions.",
        ),
        (["labels.csv", "--judge", "nobody"], "no annotator, file or run of that name"),
    ],
)
def test_what_does_not_go_together_is_refused(folder: Path, words: list[str], message: str) -> None:
    paths = [str(folder / word) if (folder / word).exists() else word for word in words]
    done = CliRunner().invoke(app, ["stand-in", *paths])
    assert done.exit_code != 0
    assert message in str(done.exception)
