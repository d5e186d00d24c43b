"""A small plan on the bakery, and people in it whose every choice is written down here."""

from collections.abc import Mapping
from pathlib import Path

from pluralrm.annotate.judgments import Judgment
from pluralrm.annotate.plan import AnnotationPlan, Screen
from pluralrm.annotate.planner import PlanRequest, make_plan
from pluralrm.core import Benchmark
from pluralrm.runs import score
from tests.annotate.people import judged
from tests.builders import Scripted, bakery

SAID: Mapping[str, tuple[int | None, ...]] = {
    "a02": (2, 1, -1, 0, None, 2),
    "a04": (1, -2, -2, 2, 1, None),
}
"""Toward the labelled answer, on the six items of the bakery, by those who saw the posts alone.

As credit: 1, 1, 0, 1/2, 1/2, 1 and 1, 0, 0, 1, 1, 1/2: 7.5 of 12. By majority 1, 1/2, 0, 1, 1, 1: 4.5 of 6.
"""


def small_plan(bench: Benchmark | None = None, **more: object) -> AnnotationPlan:
    """Return a plan in which two people in each arm judge every item; those with even numbers see the posts alone."""
    ask = {"each": 2, "checks": 0, "repeats": 0, "examples": 0, "condition": "raw:2", **more}
    return make_plan(bench or bakery(6), PlanRequest(4, **ask), key="k")  # type: ignore[arg-type]


def small_judgments(plan: AnnotationPlan) -> list[Judgment]:
    """Return the judgments written down above; those who are told what the asker has in mind are always right."""
    return judged(plan, lambda screen: {"overall": _side(screen)})


def _side(screen: Screen) -> int | None:
    return SAID[screen.annotator][int(screen.item[1:])] if screen.annotator in SAID else 2


def runs(out: Path, bench: Benchmark | None = None, conditions: tuple[str, ...] = ("none", "raw:2")) -> Path:
    """Score the bakery by length."""
    for condition in conditions:
        score(bench or bakery(6), Scripted("longer"), condition, out=out)
    return out
