"""What people prefer for themselves, as preferences by user: the layout of `personal-rb`, which `fit` and `score` read.

A part of each person's judgments is context (split `train`), the others are items (split `test`). All comparisons of
one prompt go to one side, and so do prompts that share an answer, so that no choice is ever both.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pluralrm.annotate.judgments import Judgment, four_opinions, inattentive, pair_opinions, told_inattentive
from pluralrm.annotate.plan import AnnotationPlan, PlannedItem
from pluralrm.annotate.rehearsal import is_rehearsal
from pluralrm.errors import PlanError

TEST_SHARE = 0.3


class Preference(NamedTuple):
    """One person's choice on one item: the candidate that was preferred, and those it was preferred to."""

    annotator: str
    item: PlannedItem
    preferred: int
    others: tuple[int, ...]


class OwnPreferences(NamedTuple):
    """The rows of a file, and the judgments that are no preference: ties, and "cannot tell".

    `inattentive` says who is left out, as the plan stated; blank where attention checks exclude no one.
    """

    rows: list[Mapping[str, object]]
    left_out: int
    inattentive: str = ""


def own_preferences(
    plan: AnnotationPlan, judgments: Iterable[Judgment], *, test: float = TEST_SHARE, seed: int = 0
) -> OwnPreferences:
    """Return one row for each preference; a plan in which people judged for others is a PlanError."""
    if plan.declared.mode != "own":
        raise PlanError("in this plan people judged for somebody else; wanted a plan made with --mode own")
    if not 0 < test < 1:
        raise PlanError(f"--test {test:g}: wanted a share between 0 and 1 of each person's judgments")
    every, least = list(judgments), plan.declared.claim.attention
    out = inattentive(plan, every, least)
    said = [one for one in every if one.annotator not in out]
    found, left = _preferences(plan, said)
    rows: list[Mapping[str, object]] = []
    for annotator in plan.annotators:
        mine = sorted((one for one in found if one.annotator == annotator.id), key=lambda one: one.item.id)
        rows += _rows(mine, test, random.Random(f"{seed}:{annotator.id}:split"), "rehearsal/" * is_rehearsal(said))
    if not rows:
        why = f" ({told_inattentive(out, least)})" if out else ""
        raise PlanError(f"no preferences yet{why}; wanted judgments that are not ties")
    return OwnPreferences(rows, left, told_inattentive(out, least))


def _preferences(plan: AnnotationPlan, said: Sequence[Judgment]) -> tuple[list[Preference], int]:
    """Return the preferences among the judgments of items, and how many of these are none."""
    found: list[Preference] = []
    total = 0
    for pair in pair_opinions(plan, said):
        if pair.screen.kind == "item":
            total += 1
            if side := pair.toward(0, "overall"):
                found.append(Preference(pair.annotator, pair.item, int(side < 0), (int(side > 0),)))
    for four in four_opinions(plan, said):
        if four.screen.kind == "item":
            total += 1
            if (best := four.picked()) is not None:
                others = tuple(place for place in range(len(four.item.candidates)) if place != best)
                found.append(Preference(four.annotator, four.item, best, others))
    return found, total - len(found)


def _apart(mine: Sequence[Preference]) -> list[frozenset[str]]:
    """Return the prompts in groups: those of one group share answers, directly or through others."""
    groups: list[tuple[frozenset[str], frozenset[str]]] = []
    for one in mine:
        prompts, answers = frozenset({one.item.prompt}), frozenset(one.item.candidates)
        shared = [group for group in groups if prompts & group[0] or answers & group[1]]
        groups = [group for group in groups if group not in shared]
        groups.append((prompts.union(*(group[0] for group in shared)), answers.union(*(group[1] for group in shared))))
    return [prompts for prompts, _ in groups]


def _rows(mine: Sequence[Preference], test: float, lot: random.Random, begin: str) -> list[Mapping[str, object]]:
    """Return one person's rows; of choices that share no text, one at least is context and one an item."""
    choices = _apart(mine)
    lot.shuffle(choices)
    held = max(1, min(round(test * len(choices)), len(choices) - 1)) if len(choices) > 1 else 0
    tested = set().union(*choices[:held])
    return [
        {
            "id": f"{begin}{one.annotator}/{one.item.id}/{one.preferred + 1}>{other + 1}",
            "user_id": one.annotator,
            "split": "test" if one.item.prompt in tested else "train",
            "source": one.item.domain,
            "context": [{"role": "user", "content": one.item.prompt}],
            "chosen": {"role": "assistant", "content": one.item.candidates[one.preferred]},
            "rejected": {"role": "assistant", "content": one.item.candidates[other]},
        }
        for one in mine
        for other in one.others
    ]
