"""`annotate plan`: as many items as a goal takes, the claim stated, and what will be shown."""

import json
import random
from collections import Counter
from collections.abc import Callable
from math import sqrt
from pathlib import Path

import pytest
from scipy.stats import binom
from typer.testing import CliRunner

from pluralrm.annotate.judgments import Answers, Choice, FitScores, FourAnswers, Judgment, PairAnswers, inattentive
from pluralrm.annotate.plan import LETTERS, Claim, Letter, Task, read_plan
from pluralrm.annotate.planner import PlanRequest, make_plan
from pluralrm.annotate.rehearsal import STUDIES, foreseen, power_of_each, screening
from pluralrm.cli import app
from pluralrm.core import Benchmark
from pluralrm.errors import PluralrmError
from pluralrm.power import Aim, PowerSettings, declared_labels, plan_judgments
from pluralrm.stats.judgments import Design, reached
from tests.annotate.plans import fours, pair_plan, pairs


def run(*args: str | Path) -> str:
    found = CliRunner().invoke(app, ["annotate", "plan", *map(str, args)])
    if found.exception and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found.stdout


def test_a_plan_is_written_with_its_claim_and_says_what_it_will_show(tmp_path: Path) -> None:
    told = " ".join(run("pocket-prb", "-o", tmp_path / "p", "-n", "8", "-k", "2", "--margin", "0.15").split())
    assert "53 items of pocket-prb, 8 annotators, 2 arms (narrative, posts)" in told
    assert "equal is a win rate within ±15 points of 50, and mean ratings less than 0.5 points apart" in told
    assert "fewer than 4 of 5 attention checks. Of people who choose an answer without reading, 18.8% pass." in told
    assert read_plan(tmp_path / "p").declared.claim == Claim(0.15, 3.0, 0.05)


def test_what_a_plan_will_show_says_where_items_are_of_one_person(tmp_path: Path) -> None:
    several = " ".join(run("simulated:users=12,items=4", "-o", tmp_path / "s", "-n", "6", "--items", "40").split())
    judged = [item for item in read_plan(tmp_path / "s").items if item.kind == "item"]
    sizes = Counter(item.cluster for item in judged)
    words = (
        f"take the items for independent; they are of {len(sizes)} users or records, up to {max(sizes.values())} of one"
    )
    assert words in several
    assert "independent" not in run("pocket-prb", "-o", tmp_path / "p", "-n", "8", "-k", "2")


@pytest.mark.parametrize(
    ("benchmark", "checks", "attention"), [(pairs, 5, 0.8), (pairs, 2, 0.5), (fours, 5, 0.8), (fours, 7, 0.55)]
)
def test_as_many_clickers_pass_as_judgments_without_reading_are_left_in(
    benchmark: Callable[[], Benchmark], checks: int, attention: float
) -> None:
    """Each clicks one letter always, or draws one per screen: places are drawn anew, so that neither knows more."""
    claim, lots, left = Claim(0.1, 3.0, attention=attention), random.Random(1), 0
    plans = [
        make_plan(
            benchmark(), PlanRequest(16, each=1, items=16, checks=checks, examples=0, claim=claim, seed=s), key="k"
        )
        for s in range(40)
    ]
    for plan in plans:
        said = []
        for screen in plan.screens:
            letters = LETTERS[: len(screen.order)]
            letter = letters[0] if int(screen.annotator[1:]) % 2 else lots.choice(letters)
            said.append(Judgment(screen.annotator, screen.handle, 1, _clicked(plan.declared.task, letter), 1.0, "now"))
        left += len(plan.arm) - len(inattentive(plan, said, attention))
    people, expected = 40 * 16, screening(plans[0]).clickers
    assert abs(left / people - expected) <= 4 * sqrt(expected * (1 - expected) / people)


def _clicked(task: Task, letter: Letter) -> Answers:
    if task == "four":
        return FourAnswers(letter, "one", 3, None)
    side: Choice = "a" if letter == "A" else "b"
    return PairAnswers(side, side, side, side, side, FitScores(3, 3, 3, 3), FitScores(3, 3, 3, 3))


@pytest.mark.parametrize(
    ("checks", "attention", "needed", "clickers"),
    [(5, 0.8, 4, 6 / 32), (2, 0.5, 1, 0.75), (20, 0.55, 11, 0.4119014739990234), (3, 0.0, 0, 1.0), (0, 0.8, 0, 1.0)],
)
def test_how_many_clickers_pass_is_the_binomial_tail(
    checks: int, attention: float, needed: int, clickers: float
) -> None:
    found = screening(pair_plan(checks=checks, claim=Claim(0.1, 3.0, attention=attention)))
    assert found.needed == needed
    assert found.clickers == pytest.approx(clickers)
    assert clickers == pytest.approx(binom.sf(needed - 1, checks, 0.5))


def test_a_plan_that_lets_clickers_pass_says_so(tmp_path: Path) -> None:
    told = CliRunner().invoke(
        app,
        [
            "annotate",
            "plan",
            "pocket-prb",
            "-o",
            str(tmp_path / "p"),
            "-n",
            "2",
            "-k",
            "1",
            "--items",
            "6",
            "--checks",
            "2",
        ],
    )
    assert "fewer than 2 of 2" in " ".join(told.stdout.split())
    assert "25% of those who click without reading pass: more --checks" in told.stderr


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
    settings = PowerSettings(power, simulations=STUDIES)
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
