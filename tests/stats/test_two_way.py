"""Intervals where many people judge one prompt: robust to users and prompts, or to users alone where none is shared."""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from pluralrm.errors import MetricError
from pluralrm.metrics.plural import utilitarian
from pluralrm.metrics.user_items import UserItems
from pluralrm.stats import cluster_means, difference_interval, gap, group_means, share_interval, sign_flip_p, spread
from pluralrm.stats.clusters import codes
from pluralrm.stats.intervals import ratio_of_means
from pluralrm.stats.regression import mean_at_zero, share_at_zero

Array = NDArray[np.float64]
Shape = Literal["full", "sparse", "zipf"]
Over = Literal["items", "domains", "people"]
Design = tuple[int, int, Shape, float]
"""Users, prompts, and which share of all cells is judged."""


class Crossed:
    """Some users judge some prompts: all of them, a share drawn at random, or the busy and the popular more often."""

    def __init__(self, design: Design, *, seed: int = 0) -> None:
        users, prompts, shape, share = design
        self.rng = np.random.default_rng(seed)
        chance = np.full((users, prompts), share)
        if shape == "zipf":
            chance = np.outer(1 / np.arange(1, users + 1) ** 0.5, 1 / np.arange(1, prompts + 1) ** 0.5)
            chance = np.minimum(1, chance * share * users * prompts / chance.sum())
        self.user, self.prompt = np.nonzero(self.rng.random((users, prompts)) < chance)
        self.sizes = users, prompts
        self.users = [f"u{user:04}" for user in self.user]
        self.prompts = [f"p{prompt:04}" for prompt in self.prompt]

    def latent(self, by_user: float, by_prompt: float, worlds: int) -> Array:
        own: Array = self.rng.standard_normal((len(self.user), worlds)) * (1 - by_user - by_prompt) ** 0.5
        for share, count, place in zip((by_user, by_prompt), self.sizes, (self.user, self.prompt), strict=True):
            own += share**0.5 * self.rng.standard_normal((count, worlds))[place]
        return own


def coverages(
    world: Crossed, strength: tuple[float, float], *, accuracy: float, worlds: int, over: Over = "items"
) -> list[float]:
    """Return in percent: how often a mean is covered, a difference from a model 10 points below; by users alone, both.

    What a person prefers has a part of their own, a part of the prompt and one of the cell; the answer is right below
    a threshold. Two models find the same half hard. Means are over items, four domains of prompts, or people.
    """
    hard = world.latent(*strength, worlds)
    first, second = (
        ((hard + world.latent(*strength, worlds)) / 2**0.5 < norm.ppf(right)).astype(np.float64)
        for right in (accuracy, accuracy - 0.1)
    )
    if over == "people":
        return [100 * float(np.mean(hits)) for hits in _hits_over_people(world, first, second, accuracy)]
    domains = [f"d{prompt % 4}" for prompt in world.prompt] if over == "domains" else None
    means = cluster_means(np.hstack([first, second]), world.users, strata=domains, crossed=world.prompts)
    alone = replace(means, crossed=None)
    found = [
        (share_interval(means, place)[1:3], accuracy, difference_interval(means, place, worlds + place)[1:3])
        for place in range(worlds)
    ]
    one_way = [
        (share_interval(alone, place)[1:3], difference_interval(alone, place, worlds + place)[1:3])
        for place in range(worlds)
    ]
    return [
        100 * float(np.mean([_within(share, truth) for share, truth, _ in found])),
        100 * float(np.mean([_within(difference, 0.1) for _, _, difference in found])),
        100 * float(np.mean([_within(share, accuracy) for share, _ in one_way])),
        100 * float(np.mean([_within(difference, 0.1) for _, difference in one_way])),
    ]


def _hits_over_people(world: Crossed, first: Array, second: Array, accuracy: float) -> list[list[bool]]:
    """Return the four lists of hits of the mean over people of each person's accuracy: `metrics.plural`."""
    hits: list[list[bool]] = []
    for crossed in (True, False):
        for earned, truth, floor in ((first, accuracy, 0.0), (first - second, 0.1, -1.0)):
            items = UserItems(codes(world.users), codes(world.prompts), crossed, earned)
            mean = utilitarian(items)
            pairs = zip(mean.values.tolist(), mean.influence.T, strict=True)
            hits.append([_within(items.interval(*pair, floor=floor)[1:3], truth) for pair in pairs])
    return hits


def _within(ends: tuple[float | None, float | None], truth: float) -> bool:
    low, high = ends
    return low is not None and high is not None and low <= truth <= high


DESIGNS: tuple[Design, ...] = (
    (40, 40, "full", 1.0),
    (100, 40, "full", 1.0),
    (40, 40, "sparse", 0.1),
    (200, 50, "sparse", 0.05),
    (50, 200, "sparse", 0.03),
    (100, 100, "zipf", 0.05),
)
STRENGTHS = ((0.0, 0.0), (0.2, 0.0), (0.0, 0.2), (0.15, 0.15), (0.02, 0.02))


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("accuracy", [0.5, 0.8])
def test_two_way_intervals_cover_in_93_to_97_of_100_crossed_benchmarks(
    design: Design, strength: tuple[float, float], accuracy: float
) -> None:
    # 300 benchmarks of each of ten designs: the mean has a standard error of 0.4 points.
    worlds = [Crossed(design, seed=seed) for seed in range(10)]
    found = np.mean([coverages(world, strength, accuracy=accuracy, worlds=300) for world in worlds], axis=0)
    assert 93 <= found[0] <= 97
    assert 93 <= found[1] <= 97


SHAPES: tuple[Design, ...] = (
    (20, 20, "full", 1.0),
    (40, 40, "full", 1.0),
    (40, 500, "sparse", 0.1),
    (500, 40, "sparse", 0.1),
    (500, 40, "full", 1.0),
    (500, 500, "zipf", 0.02),
    (500, 500, "full", 1.0),
)
"""From 20 to 500 people and items: the table of docs/design/statistics.md (bench/studies/coverage.py)."""


def shape_coverages(design: Design, strength: tuple[float, float], worlds: int, *, over: Over = "items") -> list[float]:
    """Return `coverages` over so many worlds, of several draws of the cells."""
    users, prompts, _, share = design
    each = 10 if users * prompts * share > 50_000 else 50
    parts = [
        coverages(Crossed(design, seed=seed), strength, accuracy=0.7, worlds=min(each, worlds), over=over)
        for seed in range(max(1, worlds // each))
    ]
    return [float(mean) for mean in np.mean(parts, axis=0)]


@pytest.mark.slow
@pytest.mark.parametrize("design", SHAPES)
@pytest.mark.parametrize("over", ["items", "domains", "people"])
def test_people_and_prompts_from_20_to_500_are_covered_and_by_users_alone_they_are_not(
    design: Design, over: Over
) -> None:
    # Of 600 worlds of 95% a mean has a standard error of 0.9 points, of 100 with 20,000 cells 2.2, of 20 larger ones 5.
    cells = design[0] * design[1] * design[3]
    worlds = 600 if cells < 10_000 else 100 if cells < 50_000 else 20
    share, difference, share_alone, difference_alone = shape_coverages(design, (0.1, 0.2), worlds, over=over)
    slack = 2.5 * (95 * 5 / worlds) ** 0.5 - 1
    assert 94 - slack <= share <= 96 + slack
    assert 94 - slack <= difference <= 96 + slack
    assert share_alone < share - 0.5
    assert difference_alone < difference


@pytest.mark.parametrize("design", [DESIGNS[0], DESIGNS[3]])
def test_intervals_over_users_alone_are_too_short_where_prompts_are_shared(design: Design) -> None:
    share, difference, alone, _ = coverages(Crossed(design), (0.05, 0.25), accuracy=0.6, worlds=200)
    assert 91 <= share <= 99
    assert 91 <= difference <= 99
    assert alone < 80


def by_hand(values: Array, users: list[str], prompts: list[str]) -> float:
    """Return the two-way variance of a mean from its definition, each part with the CR2 correction."""
    residuals, parts = values - values.mean(), []
    for names in (users, prompts, [f"{user}|{prompt}" for user, prompt in zip(users, prompts, strict=True)]):
        part = 0.0
        for name in set(names):
            inside = np.array([one == name for one in names])
            part += residuals[inside].sum() ** 2 / (1 - inside.mean())
        parts.append(part / len(values) ** 2)
    total = parts[0] + parts[1] - parts[2]
    return max(total, (parts[0] + parts[1]) / 2)


@pytest.mark.parametrize("seed", range(5))
def test_the_variance_is_that_over_users_plus_prompts_less_cells(seed: int) -> None:
    world = Crossed((12, 9, "zipf", 0.4), seed=seed)
    # Some ask twice of one prompt: a cell of two items.
    users, prompts = [*world.users, *world.users[:5]], [*world.prompts, *world.prompts[:5]]
    values = np.random.default_rng(seed).random(len(users)) + 0.3 * np.array([int(one[1:]) % 3 for one in prompts])
    found = spread(cluster_means(values, users, crossed=prompts), 0)
    assert found.variance == pytest.approx(by_hand(values, users, prompts), rel=1e-12)


@pytest.mark.parametrize("names", ["own", "twice", "empty", "one for all of a user"])
def test_where_no_two_users_share_a_prompt_every_bit_is_that_of_users_alone(names: str) -> None:
    rng = np.random.default_rng(3)
    users = [f"u{n // 3}" for n in range(60)]
    prompts = {
        "own": [f"p{n}" for n in range(60)],
        "twice": [f"p{n // 3}-{n % 2}" for n in range(60)],
        "empty": [""] * 60,
        "one for all of a user": users,
    }[names]
    values = rng.integers(0, 2, (60, 2)).astype(np.float64)
    groups = ["ab"[n // 30] for n in range(60)]
    extra = rng.standard_normal(60)
    one, two = cluster_means(values, users), cluster_means(values, users, crossed=prompts)
    assert two.crossed is None
    assert share_interval(one) == share_interval(two)
    assert difference_interval(one, 0, 1) == difference_interval(two, 0, 1)
    assert (sign_flip_p(one) == sign_flip_p(two)).all()
    assert gap(group_means(values[:, 0], users, groups)) == gap(
        group_means(values[:, 0], users, groups, crossed=prompts)
    )
    assert mean_at_zero(values[:, 0], extra, users) == mean_at_zero(values[:, 0], extra, users, crossed=prompts)
    assert share_at_zero(values[:, 0], extra, users) == share_at_zero(values[:, 0], extra, users, crossed=prompts)
    assert ratio_of_means(values[:, 0], 1 - values[:, 1] / 3, users) == ratio_of_means(
        values[:, 0], 1 - values[:, 1] / 3, users, crossed=prompts
    )


def test_the_order_of_the_rows_and_the_names_change_no_bit() -> None:
    world = Crossed((30, 20, "sparse", 0.2))
    values = world.rng.integers(0, 2, (len(world.users), 2)).astype(np.float64)
    order = world.rng.permutation(len(world.users))
    first = cluster_means(values, world.users, crossed=world.prompts)
    again = cluster_means(
        values[order], [world.users[n] for n in order], crossed=[f"x{world.prompts[n]}" for n in order]
    )
    assert share_interval(first) == share_interval(again)
    assert difference_interval(first, 0, 1) == difference_interval(again, 0, 1)


@pytest.mark.parametrize("seed", range(8))
def test_a_cluster_in_two_strata_makes_all_clusters_draws_from_one_population(seed: int) -> None:
    # "b" is the last cluster of stratum "x" and the first of "y": in sorted rows only the stratum changes between them.
    rows = [("a", "x"), ("b", "x"), ("a", "x"), ("b", "y"), ("c", "y"), ("c", "y"), ("c", "y")]
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2, len(rows)).astype(np.float64)
    for own, blocks in ((rows, 1), ([(name + stratum, stratum) for name, stratum in rows], 2)):
        order = rng.permutation(len(own))
        means = cluster_means(
            values[order], [own[n][0] for n in order], strata=[own[n][1] for n in order], crossed=["p"] * len(own)
        )
        assert means.crossed is not None
        assert len(set(means.blocks.tolist())) == blocks
        assert len(set(means.crossed.prompts.blocks.tolist())) == 1


def test_two_scorers_that_differ_by_prompt_alone_are_seldom_called_different() -> None:
    # Each prompt favours one of two equally good models, for everybody: 30 draws, not 30 x 40.
    rng, called, alone = np.random.default_rng(1), 0, 0
    for _ in range(40):
        world = Crossed((40, 30, "full", 1.0))
        favoured = rng.integers(0, 2, 30)[world.prompt]
        right = np.stack([favoured, 1 - favoured], axis=1).astype(np.float64)
        right = np.where(rng.random(right.shape) < 0.1, 1 - right, right)
        means = cluster_means(right, world.users, crossed=world.prompts)
        called += sign_flip_p(means, flips=200)[0, 1] < 0.05
        alone += sign_flip_p(replace(means, crossed=None), flips=200)[0, 1] < 0.05
    assert called <= 6
    assert alone > 24


def test_one_prompt_for_everybody_has_no_interval() -> None:
    means = cluster_means([0.0, 1.0, 1.0], ["a", "b", "c"], crossed=["p", "p", "p"])
    assert share_interval(means).low is None
    assert share_interval(means).method == "no interval: one prompt"


def test_the_method_says_how_many_of_each() -> None:
    world = Crossed((50, 45, "sparse", 0.2))
    values = world.rng.integers(0, 2, len(world.users)).astype(np.float64)
    told = share_interval(cluster_means(values, world.users, crossed=world.prompts)).method
    assert told == "two-way cluster-robust Wilson interval, 50 clusters × 45 prompts"


def test_as_many_prompts_as_items_are_wanted() -> None:
    with pytest.raises(MetricError, match="2 clusters but 1 prompts"):
        cluster_means([0.0, 1.0], ["a", "b"], crossed=["p"])
