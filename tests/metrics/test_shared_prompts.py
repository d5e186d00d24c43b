"""Many people judge one prompt: copies of everybody on the same prompts are no new evidence, so no interval shrinks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from pluralrm.core import Estimate, Failure, Item, Row, Run, Score, Vote
from pluralrm.correlate.columns import columns_of_runs, scores_of
from pluralrm.doctor import gate
from pluralrm.metrics import by_tag, calibration, gain_by_tag, paired_difference, summary
from pluralrm.metrics.comparison import RunItems
from pluralrm.metrics.contrast import cold_start, user_spread
from pluralrm.metrics.personalization import personalization
from pluralrm.metrics.plural import plural
from pluralrm.metrics.roles import roles
from pluralrm.policies.best_of_n import GradedPool, averaged
from pluralrm.stats import Interval, difference_interval, share_interval, trainings, trainings_difference
from tests.metrics.people import reveals
from tests.metrics.rows import row, run

COPIES = 4
CONDITIONS = {"none": 0.6, "raw:10": 0.75, "raw:3": 0.7, "swapped:10": 0.6, "swapped:3": 0.55, "oracle": 0.9}


def world(condition: str, right: float, *, copies: int, shared: bool, people: int = 60) -> Run:
    """Return people with one to five items each, or copies of them on the same prompts with the same answers."""
    rng = np.random.default_rng(list(condition.encode()))
    rows: list[Row] = []
    prompts = [(person, f"p{person}-{place}") for person in range(people) for place in range(1 + person % 5)]
    for number, (person, prompt) in enumerate(prompts):
        margin, first, fate = 4 * float(rng.normal(2 * right - 1, 0.8)), rng.random() < 0.6, rng.random()
        scores: tuple[Score, Score] = (0.0 if fate < 0.2 else margin, 0.0)
        if condition == "swapped:10" and fate > 0.9:
            scores = (Failure("parse", "no verdict"), 0.0)
        facts: dict[str, object] = {
            "domain": ("Bread", "Cake")[person % 2],
            "lengths": tuple(map(int, rng.integers(50, 200, 2))),
            "tags": {"trait:age": ("18-34", "35-64", "65+")[number % 3], "language": ("en", "fr")[person % 3 == 0]},
            "others": (2.0, 5.0) if number % 4 else (6.0, 1.0),
            "posts": 2 if number % 2 else 8,
            "prompt": prompt if shared else "",
            "votes": (Vote((0, 1), "0>1" if first else "1>0"), Vote((1, 0), "0>1")),
        }
        rows += [row(f"{prompt}-{copy}", scores, 0, cluster=f"u{person}-{copy}", **facts) for copy in range(copies)]
    return run(rows, model="m", condition=condition, reveals=reveals(condition))


def worlds(*, copies: int, shared: bool) -> list[Run]:
    return [world(condition, right, copies=copies, shared=shared) for condition, right in CONDITIONS.items()]


def intervals(runs: Sequence[Run]) -> Iterator[tuple[str, Estimate | Interval]]:
    """Yield every number that is printed of such runs, with its name."""
    by = dict(zip(CONDITIONS, runs, strict=True))
    own = by["raw:10"]
    yield from summary(own).metrics.items()
    yield "failures", summary(by["swapped:10"]).metrics["failure_rate"]
    yield "calibration error", calibration(own).error
    yield "overconfidence", calibration(own).overconfidence
    yield "difference", paired_difference(own, by["none"]).difference
    members = next(each for each in roles(runs) if each.own is own)
    for tag in ("trait:age", "language"):
        for kind, slices in (("accuracy", by_tag(own, tag)), ("gain", gain_by_tag(members, tag))):
            parts = {**slices.groups, "lowest": slices.lowest, "gap": slices.gap}
            yield from ((f"{kind} of {tag}, {name}", part) for name, part in parts.items() if part is not None)
    result = next(each for each in personalization(runs) if each.conditions["own"] == "raw:10")
    groups: Mapping[str, Mapping[str, Estimate | None]] = {
        "accuracy": {str(role): share for role, share in result.accuracy.items()},
        "gain in": result.domains,
        "posts": result.by_posts,
    }
    yield from ((name, number) for name, number in result.numbers.items() if number is not None)
    for group, numbers in groups.items():
        yield from ((f"{group} {name}", number) for name, number in numbers.items() if number is not None)
    yield from gate(own, by["oracle"].rows, "FILE").estimates.items()
    (curve,) = cold_start(runs)
    for name, points in (("accuracy", curve.accuracy), ("gain", curve.gain), ("lift", curve.lift)):
        yield from ((f"{name} at {posts} posts", point) for posts, point in points.items())
    yield from downstream(runs)


def of_people(*, copies: int, shared: bool) -> Iterator[tuple[str, Estimate]]:
    """Yield what `compare --plural` prints of three models; a tenth of 60 people is too few to compare widths."""
    runs = [
        replace(world(name, CONDITIONS[name], copies=copies, shared=shared, people=200), model=name)
        for name in ("none", "raw:10", "raw:3")
    ]
    table = plural([replace(run, condition="none", reveals=reveals("none")) for run in runs])
    for model in table.rows:
        names = ("worst_decile", "below_mean", "regret", "utilitarian", "nash")
        numbers = {name: getattr(model, name) for name in names}
        assert model.calibration is not None
        (sided,) = model.sides
        numbers |= {"votes": model.calibration.error, "with the person": sided.person, "with the crowd": sided.crowd}
        yield from ((f"{model.model}: {name}", number) for name, number in numbers.items() if number is not None)
    for entry in table.stability:
        yield f"group of {len(entry.listed)}", entry.group
        assert entry.advantage is not None
        yield f"advantage of {len(entry.listed)}", entry.advantage


def downstream(runs: Sequence[Run]) -> Iterator[tuple[str, Interval]]:
    """Yield what best-of-N and trainings print, of grades that the first runs' scores stand in for."""
    rows = runs[0].rows
    grades = np.array([[score > 0 for score, _ in (row.scores for row in run.rows)] for run in runs[:3]], np.float64)  # type: ignore[operator]
    users, prompts = [row.cluster for row in rows], [row.prompt for row in rows]
    items = tuple(Item(row.item, row.prompt or row.item, (), None, row.cluster, "Bread") for row in rows)
    nothing = np.zeros(grades.T.shape, dtype=np.bool_)
    means = averaged(GradedPool(items, "micro", grades.T, grades.T, nothing, ~nothing), grades.T)
    yield "best of k", share_interval(means, 0)
    yield "fall", difference_interval(means, 0, 1)
    yield "trainings", trainings(grades[:2], users, crossed=prompts).users
    yield "trainings apart", trainings_difference(grades[:2], grades[1:], users, crossed=prompts).users


def widths(estimates: Iterable[tuple[str, Estimate | Interval]]) -> dict[str, float]:
    ends = {name: (interval.low, interval.high) for name, interval in estimates if "assumed" not in interval.method}
    return {name: high - low for name, (low, high) in ends.items() if low is not None and high is not None}


def test_copies_of_everybody_on_the_same_prompts_shorten_no_interval() -> None:
    once, copied, alone = (
        widths([*intervals(worlds(copies=copies, shared=shared)), *of_people(copies=copies, shared=shared)])
        for copies, shared in ((1, True), (COPIES, True), (COPIES, False))
    )
    names = once.keys()
    assert len(names) > 50
    assert {name: copied[name] / once[name] for name in names if not 0.75 < copied[name] / once[name] < 1.35} == {}
    # Without the prompts' names the copies pass for other people, so the check above can fail.
    assert {name: alone[name] / once[name] for name in names if alone[name] / once[name] > 0.85} == {}


def test_a_column_of_correlate_moves_as_far_as_its_models_intervals_say() -> None:
    spreads = []
    for copies, shared in ((1, True), (COPIES, True), (COPIES, False)):
        one = [*worlds(copies=copies, shared=shared)[:2]]
        (column, _) = columns_of_runs(one)
        scores = scores_of([column], ["m"])
        assert scores.clusters == len({row.cluster for row in one[0].rows})
        spreads.append(float((scores.influence**2).sum()))
    assert 0.7 < spreads[1] / spreads[0] < 1.4
    assert spreads[2] / spreads[0] < 0.3


def test_the_spread_between_users_holds_nothing_of_the_prompts_that_they_share() -> None:
    # Every user judges the same ten prompts: within a user the prompts' noise is large, between users there is none.
    rng, spreads = np.random.default_rng(5), []
    for _ in range(60):
        chance = np.clip(0.5 + rng.choice([-0.2, 0.2], (40, 1)) + rng.choice([-0.3, 0.3], (1, 10)), 0, 1)
        right = rng.random((40, 10)) < chance
        sides = [
            RunItems(
                tuple(
                    row(f"{u}-{p}", (1.0, 0.0) if own[u, p] else (0.0, 1.0), cluster=f"u{u}", prompt=f"p{p}")
                    for u in range(40)
                    for p in range(10)
                )
            )
            for own in (right, np.zeros_like(right))
        ]
        spreads.append(user_spread(*sides))
    assert abs(np.mean([spread.value**2 for spread in spreads]) - 0.04) < 0.004
    within = [
        spread.low is not None and spread.high is not None and spread.low <= 0.2 <= spread.high for spread in spreads
    ]
    assert sum(within) >= 53


def test_answers_to_one_prompt_say_nothing_of_how_far_users_differ_elsewhere() -> None:
    own, other = (
        RunItems(
            tuple(
                row(f"{u}-{n}", (float(u % 2 == n % way), 0.5), cluster=f"u{u}", prompt="p")
                for u in range(12)
                for n in range(2)
            )
        )
        for way in (1, 2)
    )
    spread = user_spread(own, other)
    assert (spread.low, spread.high) == (None, None)
    assert "no interval: one prompt" in spread.method
