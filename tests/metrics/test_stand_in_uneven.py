"""How often a judge at the margin is let in where people label few or many items, labels are rated, and some missing.

`python -m tests.metrics.test_stand_in_uneven [WORLDS]` prints the table of docs/design/statistics.md.
"""

import sys
from collections.abc import Iterator, Sequence
from functools import cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from pluralrm.metrics.agreement import Scaled, Votes
from pluralrm.metrics.stand_in import JudgeAnswer, StandInResult, StandInTerms, stand_in_result, votes_comparisons

FloatArray = npt.NDArray[np.float64]
CAREFUL, CARELESS = 0.7, 1.6
_QUALITY = np.array([NormalDist(0, 1.2).inv_cdf((index + 0.5) / 21) for index in range(21)])
"""The qualities of items, equally likely, so that every chance below is a finite sum."""


class UnevenWorld(NamedTuple):
    """Each person rates a `share` of the items with an error of his own; so does the judge, who misses some."""

    shares: tuple[float, ...]
    errors: tuple[float, ...]
    items: int
    levels: int = 5
    """2: two labels without an order, for which -RMSE and the share alike order answers alike."""
    missing: float = 0.0
    epsilon: float = 0.15
    fewest: int = 30

    @property
    def tested(self) -> list[int]:
        return [person for person, share in enumerate(self.shares) if share * self.items >= self.fewest]


def _even(careful: int, careless: int, items: int, **terms: float) -> UnevenWorld:
    return _uneven([1.0] * (careful + careless), careless, items, **terms)


def _uneven(shares: Sequence[float], careless: int, items: int, **terms: float) -> UnevenWorld:
    errors = [CAREFUL] * (len(shares) - careless) + [CARELESS] * careless
    return UnevenWorld(tuple(shares), tuple(errors), items, **terms)  # type: ignore[arg-type] # of these fields


MIXED = (1.0, 0.45, 0.7) * 3
WORLDS = {
    "3×30": _even(3, 0, 30),
    "3×100": _even(3, 0, 100),
    "9×100": _even(9, 0, 100),
    "9×100, 4 careless": _even(5, 4, 100),
    "20×100, 9 careless": _even(11, 9, 100),
    "9×45-100": _uneven(MIXED, 0, 100),
    "9×45-100, 4 careless, judge misses 10%": _uneven(MIXED, 4, 100, missing=0.1),
    "3×100, 20×1": _uneven([1.0] * 3 + [0.01] * 20, 0, 100),
    "9×45-100, 20×1, 4 careless, two labels": _uneven([*[0.01] * 20, *MIXED], 4, 100, levels=2),
    "3×100, 20×1, two labels, judge misses 10%": _uneven([1.0] * 3 + [0.01] * 20, 0, 100, levels=2, missing=0.1),
}
"""The judge falls behind by epsilon exactly of the person with whom half would be matched."""


# ---------------------------------------------------------------- exact chances


def rating_chances(error: float, levels: int) -> FloatArray:
    """Return (qualities, levels): a rating is the quality, moved by the error, rounded into the scale."""
    cuts = (np.arange(1, levels) - levels / 2) * (1.0 if levels > 2 else 1.5)
    normal = np.vectorize(NormalDist().cdf)
    below = normal((cuts[None, :] - _QUALITY[:, None]) / max(error, 1e-9))
    edges = np.hstack([np.zeros((len(_QUALITY), 1)), below, np.ones((len(_QUALITY), 1))])
    chances: FloatArray = np.diff(edges)
    return chances


@cache
def sums_of_others(world: UnevenWorld, person: int) -> FloatArray:
    """Return (qualities, others who label, sum of their ratings) as chances."""
    people = len(world.shares)
    mass = np.zeros((len(_QUALITY), people, world.levels * people))
    mass[:, 0, 0] = 1.0
    for other in range(people):
        if other != person:
            chances = rating_chances(world.errors[other], world.levels)
            step = (1 - world.shares[other]) * mass
            for rating in range(world.levels):
                moved = np.roll(mass, (1, rating), (1, 2))
                step += world.shares[other] * chances[:, rating, None, None] * moved
            mass = step
    return mass


def lead_of(world: UnevenWorld, person: int, error: float) -> float:
    """Return how far this person is ahead of a judge with this error, on items that others label too."""
    mass = sums_of_others(world, person)
    count, total = (np.arange(size) for size in mass.shape[1:])
    own = rating_chances(world.errors[person], world.levels)
    judge = rating_chances(error, world.levels)
    labelled = count > 0
    lead = 0.0
    for mine in range(world.levels):
        for judged in range(world.levels):
            # The sum of squares to the others is count x² - 2 x total and what does not depend on x.
            further = (judged - mine) * (count[:, None] * (judged + mine) - 2 * total[None, :])
            weight = np.einsum("q,qnt->nt", own[:, mine] * judge[:, judged], mass)[labelled]
            lead += float((weight * np.sign(further[labelled])).sum())
    alone = float(mass[:, labelled].sum())
    return (1 - world.missing) * lead / alone + world.missing


def leads(world: UnevenWorld, error: float) -> dict[int, float]:
    kinds = {(world.shares[person], world.errors[person]): person for person in world.tested}
    own = {kind: lead_of(world, person, error) for kind, person in kinds.items()}
    return {person: own[world.shares[person], world.errors[person]] for person in world.tested}


@cache
def at_margin(world: UnevenWorld) -> float:
    """Return the error with which the judge is one person short of half of the people, by nothing."""
    low, high = 0.0, 20.0
    for _ in range(45):
        middle = (low + high) / 2
        behind = sorted(leads(world, middle).values())[-(-len(world.tested) // 2) - 1]
        low, high = (middle, high) if behind < world.epsilon else (low, middle)
    return high


# ---------------------------------------------------------------- one world


def drawn(world: UnevenWorld, error: float, rng: np.random.Generator) -> StandInResult:
    quality = rng.integers(len(_QUALITY), size=world.items)

    def ratings(own: float) -> npt.NDArray[np.int64]:
        edges = rating_chances(own, world.levels)[quality].cumsum(axis=1)[:, :-1]
        drawn_ratings: npt.NDArray[np.int64] = (rng.random((world.items, 1)) > edges).sum(axis=1)
        return drawn_ratings

    rows = [
        (f"i{item}", f"p{person:02}", str(rating))
        for person, (share, own) in enumerate(zip(world.shares, world.errors, strict=True))
        for item, rating in enumerate(ratings(own))
        if rng.random() < share
    ]
    answers = {f"i{item}": JudgeAnswer(str(rating)) for item, rating in enumerate(ratings(error))}
    answers = {item: answer for item, answer in answers.items() if rng.random() >= world.missing}
    names = tuple(str(level) for level in range(world.levels))
    scaled = Scaled(names, "interval", tuple(map(float, names))) if world.levels > 2 else Scaled(names)
    items, people, labels = (tuple(column) for column in zip(*rows, strict=True))
    comparisons = votes_comparisons(Votes(items, people, labels, scaled), answers)
    return stand_in_result("judge", comparisons, terms=StandInTerms(world.epsilon, fewest=world.fewest))


def results(world: UnevenWorld, worlds: int) -> Iterator[StandInResult]:
    error = at_margin(world)
    for number in range(worlds):
        yield drawn(world, error, np.random.default_rng([7, number]))


class UnevenRates(NamedTuple):
    """Shares of worlds with each verdict, and the mean share of false ones among the verdicts about people."""

    may: float
    may_not: float
    published: float
    false_well: float
    false_worse: float


def rates(world: UnevenWorld, worlds: int) -> UnevenRates:
    true = {f"p{person:02}": lead for person, lead in leads(world, at_margin(world)).items()}
    rows = []
    for result in results(world, worlds):
        well, worse = (
            [true[test.person] for test in result.testable if test.likeness == likeness]
            for likeness in ("as well", "worse")
        )
        rows.append(
            (
                result.ruling == "may",
                result.ruling == "may not",
                (result.published_rate or 0) >= 0.5,
                sum(lead >= world.epsilon - 1e-9 for lead in well) / max(len(well), 1),
                sum(lead <= world.epsilon + 1e-9 for lead in worse) / max(len(worse), 1),
            )
        )
    return UnevenRates(*np.mean(rows, axis=0).tolist())


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_false_verdicts_stay_at_the_stated_rate(world: UnevenWorld) -> None:
    measured = rates(world, 400)
    for rate in (measured.may, measured.may_not, measured.false_well, measured.false_worse):
        assert rate <= 0.05 + 2.5 * (0.05 * 0.95 / 400) ** 0.5


def test_false_verdicts_are_rare_with_uneven_people_and_ratings() -> None:
    measured = rates(WORLDS["9×45-100, 4 careless, judge misses 10%"], 25)
    assert max(measured.may, measured.may_not, measured.false_well, measured.false_worse) <= 0.2  # p < 1e-3 at 5%


@pytest.mark.parametrize("name", ["3×100", "9×45-100, 20×1, 4 careless, two labels"])
def test_the_margin_is_exact(name: str) -> None:
    world = WORLDS[name]._replace(items=3000)
    error = at_margin(WORLDS[name])
    true = leads(WORLDS[name], error)
    result = drawn(world, error, np.random.default_rng(0))
    for test in result.testable:
        person = int(test.person[1:])
        if person in true:
            assert test.lead.low is not None
            assert test.lead.high is not None
            width = test.lead.high - test.lead.low
            assert -test.lead.value == pytest.approx(true[person], abs=width)


def _print(worlds: int) -> None:
    for name, world in WORLDS.items():
        measured = rates(world, worlds)
        cells = "".join(f"{100 * rate:6.1f}" for rate in measured)
        sys.stdout.write(f"{name:44}{cells}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _print(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
