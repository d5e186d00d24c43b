"""Users' accuracies: by hand, by brute force, and on simulated users whose true accuracies are known."""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pluralrm.core import Failure, Row, Run
from pluralrm.errors import MetricError
from pluralrm.metrics.calibration import vote_calibration
from pluralrm.metrics.plural import (
    answer,
    best,
    equal_users,
    list_stability,
    lowest,
    nash,
    plural,
    regrets,
    utilitarian,
    worst_decile,
)
from pluralrm.metrics.user_items import UserItems
from tests.builders import card
from tests.metrics import rows as built

Floats = NDArray[np.float64]
UNEVEN = (1, 2, 3, 5, 8, 13, 40, 100)
"""Items per user, repeated over the users."""


def table(
    sizes: Sequence[int], earned: NDArray[Any], *, prompts: Sequence[int] | None = None, seed: int = 0
) -> UserItems:
    users = np.repeat(np.arange(len(sizes)), sizes)
    own = np.arange(len(users)) if prompts is None else np.asarray(prompts)
    return UserItems(users, own, prompts is not None, np.asarray(earned, dtype=float), seed)


def world(rng: np.random.Generator, people: int, spread: float = 0.0, models: int = 2) -> UserItems:
    """Return users of 1 to 100 items whose accuracies are .6 with a spread."""
    sizes = [UNEVEN[place % len(UNEVEN)] for place in range(people)]
    chance = np.clip(0.6 + spread * rng.standard_normal((people, models)), 0.02, 0.98)
    earned = rng.random((sum(sizes), models)) < np.repeat(chance, sizes, axis=0)
    return table(sizes, earned, seed=int(rng.integers(2**31)))


def run_of(rows: Sequence[Row], model: str = "m") -> Run:
    return built.run(rows, model=model, card=card())


def row(user: str, item: str, right: float, **changes: object) -> Row:
    return built.row(item, (right, 0.5), 0, cluster=user, prompt=f"p-{item}", **changes)


# ---------------------------------------------------------------- halves


def test_a_users_prompts_are_halved_and_no_prompt_is_in_both_halves() -> None:
    sizes = (1, 2, 3, 7, 6)
    prompts = [0, 1, 2, 3, 4, 5, *range(6, 13), 13, 13, 14, 14, 15, 15]
    items = table(sizes, np.zeros((19, 1)), prompts=prompts)
    assert items.split.tolist() == [False, True, True, True, True]
    assert len(items.halves) == 20
    for pick, measure in items.halves:
        assert not (pick & measure).any()
        assert not (pick | measure)[0]
        assert (pick | measure)[1:].all()
        assert all(len(set(pick[items.prompts == prompt])) == 1 for prompt in range(1, 16))
        counts = np.bincount(items.users, pick)
        assert (counts[1], counts[2] in {1, 2}, counts[3] in {3, 4}, counts[4] in {2, 4}) == (1, True, True, True)


def test_users_who_share_all_prompts_have_them_in_the_same_halves() -> None:
    items = table([6] * 5, np.zeros((30, 1)), prompts=list(range(6)) * 5)
    assert all(len(set(pick[items.prompts == prompt])) == 1 for pick, _ in items.halves for prompt in range(6))


def test_weights_of_the_lowest_and_of_the_best_share_ties() -> None:
    assert lowest(np.array([0.3, 0.1, 0.1, 0.1, 0.9]), 2).tolist() == pytest.approx([0, 2 / 3, 2 / 3, 2 / 3, 0])
    assert lowest(np.array([0.3, 0.1, 0.2]), 2).tolist() == [0, 1, 1]
    assert best(np.array([[0.5, 0.5, 0.1], [0.2, 0.1, 0.7]])).tolist() == [[0.5, 0.5, 0], [0, 0, 1]]


# ---------------------------------------------------------------- by hand


def test_welfare_by_hand() -> None:
    items = table([2, 1, 4], np.array([[1, 0, 1, 1, 1, 1, 0]]).T)
    assert utilitarian(items).values[0] == pytest.approx((0.5 + 1 + 0.75) / 3)
    utilities = (1.5 / 3, 1.5 / 2, 3.5 / 5)
    assert math.exp(nash(items).values[0]) == pytest.approx(math.prod(utilities) ** (1 / 3))
    nothing = table([2, 1, 4], np.zeros((7, 1)))
    assert math.exp(nash(nothing).values[0]) == pytest.approx((0.5 / 3 * 0.5 / 2 * 0.5 / 5) ** (1 / 3))


def test_regret_and_worst_decile_by_hand_where_users_never_vary() -> None:
    # Ten users, 16 items each: model 0 is always right for nine of them, model 1 for the tenth.
    right = np.repeat(np.array([[1, 0]] * 9 + [[0, 1]]), 16, axis=0)
    items = table([16] * 10, right)
    assert regrets(items).values.tolist() == pytest.approx([0.1, 0.9])
    assert worst_decile(items).values.tolist() == pytest.approx([0.0, 0.0])
    assert utilitarian(items).values.tolist() == pytest.approx([0.9, 0.1])


def test_influences_add_up_to_nothing() -> None:
    items = world(np.random.default_rng(1), 60, 0.2)
    for number in (worst_decile(items), regrets(items), utilitarian(items), nash(items)):
        assert number.influence.sum(axis=0).tolist() == pytest.approx([0, 0], abs=1e-9)


def test_equal_users_show_the_quantiles_of_their_binomials() -> None:
    assert equal_users(np.array([2.0, 2.0]), 0.4) == (0.0, 0.0, 0.5, 0.5, 1.0)  # .36, .48, .16
    rng = np.random.default_rng(0)
    sizes = np.array(UNEVEN * 5, dtype=float)
    drawn = (rng.binomial(sizes.astype(int), 0.6, (4_000, len(sizes))) / sizes).ravel()
    assert equal_users(sizes, 0.6) == pytest.approx(np.quantile(drawn, [0.05, 0.25, 0.5, 0.75, 0.95]), abs=0.02)


# ---------------------------------------------------------------- what is picked is measured on other items


def test_naive_extremes_are_biased_and_held_out_ones_are_not() -> None:
    rng = np.random.default_rng(2)
    held, naive = [], []
    for _ in range(40):
        items = world(rng, 80)  # equal users, equal models
        accuracy = items.sums(items.earned) / items.sizes[:, None]
        naive.append((np.sort(accuracy[:, 0])[:8].mean(), (accuracy.max(axis=1) - accuracy[:, 0]).mean()))
        held.append((worst_decile(items).values[0], regrets(items).values[0]))
    (decile, regret), (naive_decile, naive_regret) = np.mean(held, axis=0), np.mean(naive, axis=0)
    assert decile == pytest.approx(0.6, abs=0.03)
    assert regret == pytest.approx(0.0, abs=0.02)
    assert naive_decile < 0.1
    assert naive_regret > 0.08


def test_users_whom_a_model_fails_are_found_and_measured() -> None:
    rng = np.random.default_rng(3)
    sizes = [12] * 100
    chance = np.repeat(np.where(np.arange(100) < 10, 0.1, 0.7), sizes)
    items = table(sizes, rng.random((1200, 1)) < chance[:, None])
    assert worst_decile(items).values[0] == pytest.approx(0.1, abs=0.08)


def test_failing_never_helps() -> None:
    rng = np.random.default_rng(11)
    items = world(rng, 160, 0.15)
    order = rng.random(len(items.users))
    numbers = []
    for failed in (0.0, 0.1, 0.3, 0.6, 1.0):
        earned = items.earned.copy()
        earned[order < failed, 0] = 0
        fewer = UserItems(items.users, items.prompts, items.crossed, earned, items.seed)
        parts = (worst_decile(fewer), utilitarian(fewer), nash(fewer), regrets(fewer))
        numbers.append([sign * part.values[0] for sign, part in zip((1, 1, 1, -1), parts, strict=True)])
    assert (np.diff(numbers, axis=0) < 0).all()


def test_a_tenth_of_fewer_than_twenty_users_has_no_interval() -> None:
    for people in (19, 20):
        rows = [
            row(f"u{user:02}", f"{user}-{n}", float((user + n) % 3 > 0)) for user in range(people) for n in range(4)
        ]
        result = plural([run_of(rows, "m")]).rows[0]
        assert result.worst_decile is not None
        assert result.below_mean is not None
        assert (result.worst_decile.low is None) is (result.below_mean.low is None) is (people < 20)
        assert ("20 are needed" in result.worst_decile.method) == (people < 20)
        assert result.regret is None  # one model


def test_the_answer_about_the_worst_tenth_is_open_without_an_interval_and_names_whose_mean_it_lies_below() -> None:
    def town(several: int) -> str:
        users = [(f"u{user:02}", 4 if user < several else 1) for user in range(60)]
        rows = [row(name, f"{name}-{n}", float((len(name) + n) % 3 > 0)) for name, size in users for n in range(size)]
        return answer(plural([run_of(rows, "m")]))

    assert town(19) == "How m serves its worst tenth is open: 19 of 60 users have two prompts, 20 are needed."
    assert "below its mean over the 40 with two prompts." in town(40)
    assert "below its mean over users." in town(60)


@pytest.mark.parametrize("size", [3, 6, 7])
def test_users_who_do_not_differ_leave_nash_without_an_interval(size: int) -> None:
    rows = [row(f"u{user}", f"{user}-{n}", float(n % 3 > 0)) for user in range(5) for n in range(size)]
    (only,) = plural([run_of(rows, "m")]).rows
    right = size - (size + 2) // 3
    assert only.nash.value == pytest.approx((right + 0.5) / (size + 1))
    assert (only.nash.low, only.nash.high, only.nash.method) == (None, None, "no interval: users do not differ")


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 0.15])
@pytest.mark.parametrize("people", [24, 40, 160])
def test_intervals_cover_what_another_sample_shows_on_average(people: int, spread: float) -> None:
    """The mean over worlds is the target: of an estimator that is unbiased for it by construction."""
    names = ("decile", "regret", "utilitarian", "nash")
    values: dict[str, list[float]] = {name: [] for name in names}
    ends: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for seed in range(200):
        result = plural(simulated(np.random.default_rng([seed, people]), people, spread))
        first = result.rows[0] if result.rows[0].model == "m0" else result.rows[1]
        for name, estimate in zip(
            names, (first.worst_decile, first.regret, first.utilitarian, first.nash), strict=True
        ):
            assert estimate is not None
            assert estimate.low is not None
            assert estimate.high is not None
            values[name].append(estimate.value)
            ends[name].append((estimate.low, estimate.high))
    for name in names:
        target = float(np.mean(values[name]))
        coverage = float(np.mean([low <= target <= high for low, high in ends[name]]))
        assert coverage >= 0.90, (name, coverage)


def simulated(rng: np.random.Generator, people: int, spread: float) -> list[Run]:
    items = world(rng, people, spread)
    return [
        run_of(
            [
                row(f"u{user:04}", f"i{n:05}", float(right))
                for n, (user, right) in enumerate(zip(items.users, column, strict=True))
            ],
            f"m{number}",
        )
        for number, column in enumerate(items.earned.T)
    ]


# ---------------------------------------------------------------- stability


def brute_force(sums: Floats, listed: Sequence[int]) -> tuple[int, bool]:
    """Return the largest group of users that prefers one model that is not listed, and whether it is over 1/k."""
    largest = 0
    for rival in set(range(sums.shape[1])) - set(listed):
        group = sum(all(user[rival] > user[member] for member in listed) for user in sums.tolist())
        largest = max(largest, group)
    return largest, largest / len(sums) > 1 / len(listed)


@pytest.mark.parametrize("seed", range(12))
def test_stability_equals_brute_force_over_all_lists(seed: int) -> None:
    rng = np.random.default_rng(seed)
    people, models = int(rng.integers(2, 61)), int(rng.integers(2, 9))
    sizes = rng.choice(UNEVEN[:5], people)
    taste = rng.random((people, models)) < rng.random(models)
    right = rng.random((sizes.sum(), models)) < np.repeat(0.15 + 0.7 * taste, sizes, axis=0)
    items = table(sizes.tolist(), right)
    sums = items.sums(items.earned)
    blocked = 0
    for k in range(1, models):
        for listed in combinations(range(models), k):
            result = list_stability(items, listed, np.zeros(models, dtype=np.intp))
            assert (result.users, result.blocked) == brute_force(sums, listed)
            assert result.rival not in listed
            blocked += result.blocked
    assert (blocked > 0) == (seed in {0, 4, 5, 6, 7, 8, 9, 10})  # both kinds of worlds are among them


def test_stability_equals_brute_force_for_8_models_and_60_users() -> None:
    rng = np.random.default_rng(60)
    sizes = rng.choice(UNEVEN[:5], 60)
    taste = rng.random((60, 8)) < 0.5
    right = rng.random((sizes.sum(), 8)) < np.repeat(0.15 + 0.7 * taste, sizes, axis=0)
    items = table(sizes.tolist(), right)
    sums = items.sums(items.earned)
    for k in range(1, 8):
        for listed in combinations(range(8), k):
            result = list_stability(items, listed, np.zeros(8, dtype=np.intp))
            assert (result.users, result.blocked) == brute_force(sums, listed)


def test_a_group_that_a_list_leaves_out_blocks_it_significantly() -> None:
    rng = np.random.default_rng(7)
    chance = np.array([[0.8, 0.8, 0.2]] * 30 + [[0.1, 0.1, 0.9]] * 70)
    items = table([10] * 100, rng.random((1000, 3)) < np.repeat(chance, 10, axis=0))
    result = list_stability(items, [0, 1], np.zeros(3, dtype=np.intp))
    assert (result.rival, result.blocked, result.significant) == (2, True, True)
    assert result.advantage is not None
    assert result.advantage.value == pytest.approx(0.8, abs=0.06)


def test_the_answer_names_the_group_that_a_list_leaves_out() -> None:
    """One user in four has all items right with the two best models and none with c; the others have more with c."""

    def town(people: int) -> list[Run]:
        right = {"a": (8, 5), "b": (8, 5), "c": (0, 7)}
        users = [(f"u{user:02}", user % 4 > 0) for user in range(people)]
        return [
            run_of([row(user, f"{user}-{n}", float(n < counts[most])) for user, most in users for n in range(8)], name)
            for name, counts in right.items()
        ]

    whole, few = plural(town(48)), plural(town(4))
    assert [each.verdict for each in whole.stability] == ["stable", "blocked"]
    assert answer(whole).endswith(" 75.0% of users prefer c to each of the best 2 models: over 50%.")
    assert answer(few).endswith(" Whether over 1/k of the users prefer one other model is open for the best 2.")


def test_a_group_that_is_noise_is_not_significant() -> None:
    rng = np.random.default_rng(8)
    names = [
        list_stability(items, [0, 1], np.zeros(8, dtype=np.intp)).significant
        for items in (table([2] * 60, rng.random((120, 8)) < 0.5) for _ in range(60))
    ]
    assert sum(names) <= 3


def crossed_world(rng: np.random.Generator, people: int, prompts: int, each: int) -> UserItems:
    """Return two models on prompts that people share, of which some suit the second one for everybody."""
    users = np.repeat(np.arange(people), each)
    own = np.concatenate([rng.choice(prompts, each, replace=False) for _ in range(people)])
    suits = 0.1**0.5 * rng.standard_normal(people)[users] + 0.2**0.5 * rng.standard_normal(prompts)[own]
    second = suits + 0.7**0.5 * rng.standard_normal(len(users)) > 0.1
    earned = np.stack([rng.random(len(users)) < 0.5, second], axis=1)
    return table([each] * people, earned, prompts=own.tolist())


@pytest.mark.slow
@pytest.mark.parametrize("size", [(60, 10, 10), (200, 40, 8), (200, 40, 40), (500, 100, 4), (300, 30, 1)])
def test_the_share_of_a_group_is_covered_where_people_share_prompts(size: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(0)
    groups = [list_stability(crossed_world(rng, *size), [0], np.zeros(2, dtype=np.intp)).group for _ in range(400)]
    truth = float(np.mean([group.value for group in groups]))
    within = [group.low is not None and group.high is not None and group.low <= truth <= group.high for group in groups]
    plain = [abs(group.value - truth) < 1.96 * (truth * (1 - truth) / size[0]) ** 0.5 for group in groups]
    assert 0.92 <= np.mean(within) <= 0.98
    assert np.mean(plain) < np.mean(within)


# ---------------------------------------------------------------- calibration


def votes(share: float, margin: float, *, item: str, user: str = "u", people: int = 10) -> Row:
    others = (round(share * people), people - round(share * people))
    return built.row(item, (margin, 0.0), 0, cluster=f"{user}-{item}", prompt=f"p-{item}", others=others)


def test_calibration_by_hand() -> None:
    # sigmoid(1) = .731 against .7, sigmoid(2) = .881 against .9: T is near 1, and out of fold it is the same for all.
    rows = [votes(share, margin, item=f"{share}{n}") for share, margin in ((0.7, 1.0), (0.9, 2.0)) for n in range(60)]
    result = vote_calibration(run_of(rows))
    assert result is not None
    assert result.temperature == pytest.approx(1.0, abs=0.1)
    assert [round(part.share, 2) for part in result.bins] == [0.7, 0.9]
    assert [part.weight for part in result.bins] == [0.5, 0.5]
    gaps = [part.predicted - part.share for part in result.bins]
    assert result.error.value == pytest.approx(math.sqrt(sum(gap**2 for gap in gaps) / 2), abs=0.01)


def test_scale_of_scores_is_fitted_and_a_model_without_sense_predicts_one_half() -> None:
    rng = np.random.default_rng(4)
    margins = rng.normal(0, 1.5, 400)
    shares = rng.binomial(20, 1 / (1 + np.exp(-margins))) / 20
    for scale in (1.0, 250.0):
        rows = [
            votes(share, scale * m, item=str(n), people=20)
            for n, (share, m) in enumerate(zip(shares, margins, strict=True))
        ]
        result = vote_calibration(run_of(rows))
        assert result is not None
        assert result.temperature == pytest.approx(scale, rel=0.1)
        assert result.error.value < 0.03
    reversed_rows = [
        votes(share, -m, item=str(n), people=20) for n, (share, m) in enumerate(zip(shares, margins, strict=True))
    ]
    backwards = vote_calibration(run_of(reversed_rows))
    assert backwards is not None
    assert backwards.temperature is None
    assert [round(part.predicted, 3) for part in backwards.bins] == [0.5]


def test_no_model_is_better_calibrated_by_failing() -> None:
    rng = np.random.default_rng(5)
    margins = rng.normal(0, 1.5, 300)
    shares = rng.binomial(10, 1 / (1 + np.exp(-margins))) / 10
    rows = [votes(share, m, item=f"{n:03}") for n, (share, m) in enumerate(zip(shares, margins, strict=True))]
    fails = [
        built.row(r.item, (Failure("parse"), 0.0), 0, cluster=r.cluster, prompt=r.prompt, others=r.others) for r in rows
    ]
    errors = []
    for failed in (0, 30, 150, 300):
        result = vote_calibration(run_of([*fails[:failed], *rows[failed:]]))
        assert result is not None
        assert result.error.failed == failed
        assert sum(part.weight for part in result.bins if part.failed) == pytest.approx(failed / 300)
        errors.append(result.error.value)
    assert errors == sorted(errors)
    assert errors[1] > errors[0] + 0.1


def test_pairs_that_others_do_not_prefer_say_nothing_and_no_votes_no_calibration() -> None:
    rows = [
        built.row(str(n), (2.0, 1.0, 0.0), 0, cluster=f"u{n}", prompt=f"p{n}", others=(6.0, 2.0, 0.0))
        for n in range(40)
    ]
    result = vote_calibration(run_of(rows))
    assert result is not None
    # Margin 1: 6 to 2 with 8 of 16 votes, 2 to 0 with 2; margin 2: 6 to 0.
    assert [(part.weight, round(part.share, 9)) for part in result.bins] == [(0.625, 0.8), (0.375, 1.0)]
    assert vote_calibration(run_of([row("u", "i", 1.0)])) is None


# ---------------------------------------------------------------- runs


def test_users_are_counted_and_those_who_cannot_be_split_are_said() -> None:
    rows = [
        row("lone", "a", 1.0),
        *(row("two", f"b{n}", 1.0) for n in range(2)),
        *(row("x", f"c{n}", 0) for n in range(5)),
    ]
    other = [row(r.cluster, r.item, 1.0) for r in rows]
    result = plural([run_of(rows, "first"), run_of(other, "second")])
    assert (result.users, result.unsplit, [r.model for r in result.rows]) == (3, 1, ["second", "first"])
    assert result.rows[1].users == (0.0, 1.0, 1.0)
    assert result.rows[1].regret is not None
    assert result.rows[1].regret.value == pytest.approx(0.5)
    assert result.to_json()["stability"][0]["listed"] == ["second"]  # type: ignore[index]
    assert {"worst_decile", "worst_decile_low", "regret", "nash", "calibration_error"} <= set(result.records()[0])


def test_lists_are_named_by_models_and_unknown_names_are_refused() -> None:
    runs = [run_of([row(f"u{n % 5}", f"i{n:02}", float(n % k == 0)) for n in range(40)], f"m{k}") for k in (1, 2, 3)]
    result = plural(runs, listed=["m3", "m2"])
    assert result.chosen is not None
    assert [result.rows[place].model for place in result.chosen.listed] == ["m3", "m2"]
    assert result.chosen.rival == 0
    with pytest.raises(MetricError, match="no model 'm4'"):
        plural(runs, listed=["m4"])
    with pytest.raises(MetricError, match="every model is listed"):
        plural(runs, listed=["m1", "m2", "m3"])


def test_numbers_do_not_depend_on_the_order_of_rows_or_the_names_of_users() -> None:
    runs = simulated(np.random.default_rng(9), 24, 0.2)
    turned = [run_of([*run.rows][::-1], run.model) for run in runs]
    assert plural(runs).records() == plural(turned).records()


def test_a_benchmark_without_users_has_no_plural_numbers() -> None:
    run = built.run([row(f"u{n}", f"i{n}", 1.0) for n in range(4)], card=card(cluster="record"))
    with pytest.raises(MetricError, match="need users, and bakery has records"):
        plural([run])


def test_failing_never_pays() -> None:
    rng = np.random.default_rng(10)
    rows = [row(f"u{n % 12:02}", f"i{n:03}", float(rng.random() < 0.6)) for n in range(240)]
    fails = [built.row(r.item, (Failure("parse"), 0.0), 0, cluster=r.cluster, prompt=r.prompt) for r in rows[:80]]
    whole, broken = (plural([run_of(each)]).rows[0] for each in (rows, [*fails, *rows[80:]]))
    assert broken.utilitarian.value < whole.utilitarian.value
    assert broken.nash.value < whole.nash.value
    assert broken.utilitarian.failed == 80
