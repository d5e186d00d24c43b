"""Nothing gains by failing: models that drop items, tie, stretch their scores, or fail under one condition alone.

Each of 47 models is an honest one that fails in one of seven ways on one of seven choices of items, labels known to it.
Each number that is printed is compared with the honest model's, and an answer (a tie, a huge score) also with that of a
model that answers wrongly there: whoever knows the labels can answer wrongly, and no number sees that it did.

    leaderboard     every metric, per domain, rank, bounds, as published, chance, difference and p beside a rival
    compare         lift, gain, gain over nearest and noise, oracle gap, share of the gap, at equal length and quality,
                    per domain and tag, curves over K, p, verdict, what is shown, below and survived
    calibration     error, overconfidence
    correlate       the score of the model in a column
    best-of-N       both ways of choosing, each k (below); ppo and study print these
    report          the numbers above; its prose is made of them

Not merits, and not here: tie and failure rates, swap sensitivity, spread of users.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from pluralrm.core import Failure, Row, Run, Score
from pluralrm.correlate.columns import columns_of_runs
from pluralrm.metrics import (
    against_chance,
    bounds,
    calibration,
    leaderboard,
    paired_difference,
    personalization,
    prompt_use,
    published,
    summary,
)
from pluralrm.metrics.contrast import gain_by_tag
from pluralrm.metrics.roles import roles
from pluralrm.stats.best_of import expected_best_of, first_best_of
from tests.metrics.rows import records, row, run

CONDITIONS: Mapping[str, frozenset[str]] = {
    "none": frozenset(),
    "raw:2": frozenset({"posts"}),
    "swapped:2": frozenset({"other_posts"}),
    "swapped:2,by=prompt": frozenset({"other_posts"}),
    "noise:2": frozenset({"other_posts"}),
    "oracle": frozenset({"oracle"}),
}
_WORTH = {"raw:2": 1.2, "oracle": 2.2}
WAYS = ("nonfinite", "refused", "too_long", "transport", "deadline", "tie", "huge")
WHERE = ("loses", "wins", "third", "own loses", "controls win", "none wins", "oracle wins")
ANSWERS = {("tie", "loses"), ("tie", "own loses")}
FAILURES = WAYS[:5]
SURENESS = ("calibration", "overconfidence", "gain_at_equal_quality")
"""These read how sure the model says that it is. Whoever knows the labels says it truly by huge scores where right, and
by ties where wrong; huge scores on items by lot gain nothing."""
"""A tie on what it would lose earns half of it: that takes knowing the label, and is an answer, not a failure."""
MODELS = [(way, where) for way in WAYS for where in WHERE if (way, where) not in ANSWERS]
_WHOLE = ("tie_rate", "failure_rate")
"""Told, and no merit: a model that fails in place of tying changes one for the other."""


def _right(one: Row) -> bool:
    scores = [score for score in one.scores if isinstance(score, float)]
    return len(scores) == len(one.scores) and scores[one.best[0]] == max(scores)


def _chosen(one: Row, condition: str, where: str) -> bool:
    if where == "third":
        return random.Random(f"third:{one.item}").random() < 1 / 3
    if where == "own loses":
        return condition == "raw:2" and not _right(one)
    if where == "controls win":
        return condition not in {"raw:2", "oracle"} and _right(one)
    if where in {"none wins", "oracle wins"}:
        return condition == where.split(maxsplit=1)[0] and _right(one)
    return _right(one) == (where == "wins")


def _changed(one: Row, way: str) -> Row:
    width = len(one.scores)
    if way == "tie":
        return replace(one, scores=(0.5,) * width)
    if way == "huge":
        known = [score for score in one.scores if isinstance(score, float)]
        order = np.argsort(np.argsort(known))
        return replace(one, scores=tuple(float(place / (width - 1) * 2 - 1) * 1e308 for place in order))
    return replace(one, scores=(Failure(way, "as it likes"),) * width)  # type: ignore[arg-type]


def _wrong(one: Row) -> Row:
    scores: list[Score] = [0.5] * len(one.scores)
    scores[one.best[0]] = -0.5
    return replace(one, scores=tuple(scores))


@cache
def _people(condition: str, seed: int) -> list[Row]:
    """Return two items of each of 60 users, scored with some error, better where the user's own posts are shown."""
    rows = []
    for number in range(120):
        rng = random.Random(f"{seed}:{condition}:{number}")
        preferred, worth = random.Random(f"{seed}:{number}").randrange(2), _WORTH.get(condition, 0.5)
        scores = [rng.gauss(worth if place == preferred else 0.0, 1.0) for place in range(2)]
        lengths = tuple(random.Random(f"{seed}:{number}:{place}").randint(50, 400) for place in range(2))
        domain = ("Bread", "Cake", "Pie")[number % 3]
        posts = 0 if condition in {"none", "oracle"} else 2
        rows.append(
            row(
                f"i{number:03}",
                scores,
                preferred,
                cluster=f"u{number // 2}",
                domain=domain,
                lengths=lengths,
                posts=posts,
                pairs=0,
                tags={"kind": ("short", "long")[number % 2]},
                lenders=int(condition.startswith("swapped")),
            )
        )
    return rows


def _run(rows: Sequence[Row], condition: str, model: str) -> Run:
    complete = not any(one.open for one in rows)
    return run(rows, model=model, condition=condition, reveals=CONDITIONS[condition], complete=complete)


Change = Callable[[Row, str], Row]


def _runs(seed: int, model: str, change: Change) -> dict[str, Run]:
    return {name: _run([change(one, name) for one in _people(name, seed)], name, model) for name in CONDITIONS}


def _numbers(runs: Mapping[str, Run], rival: Run) -> dict[str, float]:
    """Return every number of a model, so that more is better."""
    own = runs["raw:2"]
    told = summary(own)
    found = {name: one.value for name, one in told.metrics.items() if name not in _WHOLE}
    found |= {f"in {name}": one.value for name, one in told.domains.items()}
    worst = bounds(own)
    found["at worst"] = found["accuracy"] if worst is None else worst.worst
    found |= {f"{name} as published": one.value for name, one in published(own).items() if one.value is not None}
    found["above chance"] = float(bool(against_chance([own]).above))
    found["not below chance"] = -float(bool(against_chance([own]).below))
    apart = paired_difference(own, rival)
    found["against a rival"] = apart.difference.value
    found["shown better than a rival"] = float(apart.significant and apart.difference.value > 0)
    places = {one.summary.model: one.rank for one in leaderboard([own, rival]).entries}
    found["first rank"] = -float((places[own.model] or (2, 2))[0])
    sure = calibration(own)
    found["calibration"] = -sure.error.value
    found["overconfidence"] = -abs(sure.overconfidence.value)
    [column] = columns_of_runs([own, rival])
    found["correlate"] = column.scores[own.model]
    if all(one.complete for one in runs.values()):
        found |= _personal(list(runs.values()))
    return found


def _personal(runs: list[Run]) -> dict[str, float]:
    [user] = personalization(runs)
    less = {"oracle_gap": -1.0}
    found: dict[str, float] = {
        name: less.get(name, 1.0) * one.value
        for name, one in user.numbers.items()
        if one is not None and name not in {"swap_sensitivity", "user_spread"}
    }
    if "gap_closed" in found and (found["gap_closed"] < 0 or user.lift is None):
        del found["gap_closed"]
    found |= {f"gain in {name}": one.value for name, one in user.domains.items()}
    found |= {f"under {role}": one.value for role, one in user.accuracy.items() if role == "own"}
    found |= {f"personalized: {user.verdict}": 1.0} if user.verdict == "personalized" else {}
    found |= {f"{name} shown": float(name in user.shown) for name in ("lift", "gain")}
    found |= {f"{name} not below": -float(name in user.below) for name in ("lift", "gain")}
    found |= {f"survived {role}": float(role in user.survived) for role in ("swapped", "nearest", "noise")}
    # A small p is a merit only where own is better.
    found["p of the gain"] = -(user.p or 0.0) if user.gain is not None and user.gain.value > 0 else -1.0
    tagged = gain_by_tag(next(iter(roles(runs))), "kind")
    found |= {f"gain where kind = {name}": one.value for name, one in tagged.groups.items()}
    found |= {} if tagged.lowest is None else {"lowest gain": tagged.lowest.value}
    return found


@cache
def _world(seed: int) -> tuple[dict[str, float], Run]:
    rival = _run(_people("swapped:2", seed + 1_000), "raw:2", "rival")
    return _numbers(_runs(seed, "m", lambda one, _: one), rival), rival


@cache
def _wrong_there(seed: int, where: str) -> dict[str, float]:
    """Return the numbers of a model that answers wrongly on a choice of items."""
    change: Change = lambda one, condition: _wrong(one) if _chosen(one, condition, where) else one  # noqa: E731
    return _numbers(_runs(seed, "m", change), _world(seed)[1])


def _compared(seed: int, way: str, where: str) -> dict[str, tuple[float, float]]:
    """Return each number of a cheating model beside the best that it may be: honest, or for an answer wrong there."""
    honest, rival = _world(seed)

    def cheat(one: Row, condition: str) -> Row:
        return _changed(one, way) if _chosen(one, condition, where) else one

    answered = SURENESS if way in {"tie", "huge"} and (way, where) != ("huge", "third") else ()
    lowest = -float("inf")
    allowed = [honest] if way in FAILURES else [honest, _wrong_there(seed, where)]
    return {
        name: (value, max(one.get(name, lowest) for one in allowed))
        for name, value in _numbers(_runs(seed, "m", cheat), rival).items()
        if name not in answered
    }


def _gains(seed: int, way: str, where: str) -> list[str]:
    """Return the numbers in which a cheating model is better than it may be."""
    compared = _compared(seed, way, where)
    return [f"{name}: {value:.4f} for {most:.4f}" for name, (value, most) in compared.items() if value > most + 1e-9]


@pytest.mark.parametrize(("way", "where"), MODELS)
def test_no_number_of_a_cheating_model_is_better(way: str, where: str) -> None:
    assert _gains(1, way, where) == []


BY_LOT = (("tie", "third"), ("huge", "third"))
"""Answers on items that nobody chose: in one world they may be lucky, in many they are not."""


@pytest.mark.slow
@pytest.mark.parametrize(("way", "where"), [pair for pair in MODELS if pair not in BY_LOT])
def test_no_number_of_a_cheating_model_is_better_in_any_of_twenty_worlds(way: str, where: str) -> None:
    assert [gain for seed in range(2, 22) for gain in _gains(seed, way, where)] == []


@pytest.mark.slow
@pytest.mark.parametrize(("way", "where"), BY_LOT)
def test_answers_by_lot_are_worth_no_more_over_twenty_worlds(way: str, where: str) -> None:
    worlds = [_compared(seed, way, where) for seed in range(2, 22)]
    differences = {
        name: [world[name][0] - world[name][1] for world in worlds if name in world and np.isfinite(world[name][1])]
        for name in worlds[0]
    }
    gained = {
        name: float(np.mean(values))
        for name, values in differences.items()
        if len(values) > 2 and np.mean(values) > 3 * np.std(values, ddof=1) / len(values) ** 0.5 + 1e-9
    }
    assert gained == {}  # above three standard errors of twenty worlds


def _reader(record: str, item: str, name: str) -> float:
    """Score the winner of a prompt highest in two of three."""
    del record
    group = int(item.split("/")[1])
    luck = random.Random(f"{item}:{name}")
    return luck.random() + 0.9 * (name == f"response{group + 1}")


def _prompt_numbers(rows: Sequence[Row]) -> dict[str, float]:
    one = run(rows, complete=not any(each.open for each in rows))
    found = {name: each.value for name, each in summary(one).metrics.items() if name not in _WHOLE}
    if one.complete:
        found["sensitivity"] = prompt_use(one).sensitivity.value
    return found


@cache
def _prompt_rows() -> list[Row]:
    return records(24, _reader)


@cache
def _prompt_limits(where: str) -> dict[str, float]:
    """Return the most that each number may be: the honest model's, or that of one which answers wrongly there."""
    rows = _prompt_rows()
    honest = _prompt_numbers(rows)
    wrong = _prompt_numbers([_wrong(one) if _chosen(one, "raw:2", where) else one for one in rows])
    return {name: max(value, wrong.get(name, 0.0)) for name, value in honest.items()}


@pytest.mark.parametrize(("way", "where"), [pair for pair in MODELS if pair[1] in {"loses", "wins", "third"}])
def test_no_number_of_prompts_in_styles_is_better(way: str, where: str) -> None:
    cheat = _prompt_numbers([_changed(one, way) if _chosen(one, "raw:2", where) else one for one in _prompt_rows()])
    assert [name for name, value in cheat.items() if value > _prompt_limits(where)[name] + 1e-9] == []


@pytest.mark.parametrize("share", ["all but the best", "all but the worst", "a third", "what it would pick", "all"])
def test_no_choice_of_answers_to_fail_on_is_better_in_best_of_n(share: str) -> None:
    rng = np.random.default_rng(11)
    grades = np.round(rng.random((80, 16)), 2)
    honest = grades + rng.normal(size=grades.shape)
    fail = {
        "all but the best": grades < grades.max(axis=1, keepdims=True),
        "all but the worst": grades > grades.min(axis=1, keepdims=True),
        "a third": rng.random(grades.shape) < 1 / 3,
        "what it would pick": honest >= np.sort(honest, axis=1)[:, [-4]],
        "all": np.ones(grades.shape, dtype=bool),
    }[share]
    ks = [1, 2, 4, 8, 16]
    for scores in (honest, np.zeros_like(grades)):
        for way in (expected_best_of, first_best_of):
            cheat = way(np.where(fail, np.nan, scores), grades, ks)
            assert (cheat <= way(scores, grades, ks) + 1e-12).all()
