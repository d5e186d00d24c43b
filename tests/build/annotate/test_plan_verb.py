"""`annotate plan`: as many items as a goal takes, the claim stated, and what will be shown."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pluralrm.build.annotate.design import Claim
from pluralrm.build.annotate.folder import read_plan
from pluralrm.build.annotate.size import STUDIES, foreseen, power_of_each
from pluralrm.cli import app
from pluralrm.errors import PluralrmError
from pluralrm.power import Aim, Settings, declared_labels, plan_judgments
from pluralrm.stats.judged import Design, reached


def run(*args: str | Path) -> str:
    found = CliRunner().invoke(app, ["annotate", "plan", *map(str, args)])
    if found.exception and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found.stdout


def test_a_plan_is_written_with_its_claim_and_says_what_it_will_show(tmp_path: Path) -> None:
    told = " ".join(run("pocket-prb", "-o", tmp_path / "p", "-n", "8", "-k", "2", "--margin", "0.15").split())
    assert "56 items of pocket-prb, 8 annotators, 2 arms (narrative, posts)" in told
    assert "equal is a win rate within ±15 points of 50; mean scores above 3; alpha 0.05" in told
    assert read_plan(tmp_path / "p").declared.claim == Claim(0.15, 3.0, 0.05)


@pytest.mark.parametrize(
    ("goal", "aim", "power"),
    [
        ("precision=0.09", Aim("precision", 0.09), 0.8),
        pytest.param("claim", Aim("equivalence", 0.1), power_of_each(0.8), marks=pytest.mark.slow),
    ],
)
def test_the_plan_has_as_many_items_as_its_goal_takes(tmp_path: Path, goal: str, aim: Aim, power: float) -> None:
    told = json.loads(
        run("simulated:users=200", "-o", tmp_path / "p", "-n", "40", "--arms", "posts", "--for", goal, "--json")
    )
    settings = Settings(power, simulations=STUDIES)
    [needed] = plan_judgments(declared_labels(0.5, 0.2, 0.3, 0.02), [aim], [3], settings, annotators=40).needed
    assert told["items"]["item"] == needed.items
    assert told["shows"]["precision"] <= 0.0925
    assert goal != "claim" or told["shows"]["equivalence"]["value"] > 0.88


def test_what_is_foreseen_is_what_simulated_studies_show() -> None:
    labels, design = declared_labels(0.5, 0.2, 0.3, 0.02), Design(80, 3, 12)
    found = foreseen(labels, design, Claim(0.1, 3.0))
    assert found.precision is not None
    assert found.agreement is not None
    for goal, width in (("precision", found.precision), ("agreement", found.agreement)):
        hits = [
            reached(labels, design, Aim(goal, width * factor), studies=STUDIES, seed=0).mean()  # type: ignore[arg-type]
            for factor in (0.94, 1.06)
        ]
        assert hits[0] < 0.8 <= hits[1]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--items", "5", "--for", "claim"], "leave one out"),
        (["--for", "certainty"], "unknown goal 'certainty'"),
        (["--for", "precision"], "wanted a half-width"),
        (["--for", "claim=0.1"], "wanted --for claim"),
        (["--for", "agreement=0.2", "-k", "1"], "wanted two or more"),
        (["--for", "precision=0.07", "-n", "60"], "items are left beside"),
        (["--arms", "post"], "unknown arm 'post'. Did you mean 'posts'"),
        (["--mode", "mine"], "--mode 'mine'"),
        (["--mode", "own", "--for", "claim"], "only two answers"),
    ],
)
def test_what_cannot_be_planned_is_told(tmp_path: Path, args: list[str], told: str) -> None:
    with pytest.raises(PluralrmError, match=told):
        run("pocket-prb", "-o", tmp_path / "p", *([] if "-n" in args else ["-n", "16"]), *args)
    assert not (tmp_path / "p").exists()
