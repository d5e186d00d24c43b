"""Lift and gain: worked by hand, by brute force, and against what a simulation knows to be true."""

import itertools
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import get_args

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st

from pluralrm.core import Failure, Row, Run, Score
from pluralrm.metrics import measure
from pluralrm.metrics.comparison import RunItems
from pluralrm.metrics.contrast import difference, flip_p
from pluralrm.metrics.personalization import NUMBERS, ON_GROUPS, VERDICTS, PersonalVerdict, personalization
from tests.metrics.people import answering, ends, people, reveals, told
from tests.metrics.rows import row

EXAMPLE: Mapping[str, Sequence[Score | str]] = {
    "none": (1, 0, 1, 0, 0, 1, 0, 0, 1, 0),
    "raw:10": (1, 1, 1, 1, 0, 1, 1, 0, 0.5, "x"),
    "swapped:10": (1, 0, 1, 1, 0, 0, 0, 0, 0.5, 1),
    "noise:10": (0, 0, 1, 1, 0, 0, 0, 0, 0.5, 1),
    "oracle": (1, 1, 1, 1, 1, 1, 1, 1, 1, 0),
}
"""The example of docs/personalization.md."""


def test_the_worked_example() -> None:
    found = told([answering(condition, answers) for condition, answers in EXAMPLE.items()])
    values = {name: None if one is None else round(one.value, 12) for name, one in found.numbers.items()}
    assert values == {
        "lift": 0.25,
        "gain": 0.2,
        "gain_over_nearest": None,
        "gain_over_noise": 0.3,
        "oracle_gap": 0.25,
        "gap_closed": 0.5,
        "swap_sensitivity": 0.3,
        "gain_at_equal_length": None,
        "gain_at_equal_quality": pytest.approx(0.2, abs=0.2),
        "user_spread": None,
    }
    assert {role: round(one.value, 12) for role, one in found.accuracy.items()} == {
        "none": 0.4,
        "own": 0.65,
        "swapped": 0.45,
        "noise": 0.35,
        "oracle": 0.9,
    }
    assert [found.gain.n, found.gain.failed] == [10, 1] if found.gain else False
    assert found.verdict == "inconclusive"
    assert set(found.absent) == {"gain_over_nearest", "gain_at_equal_length", "user_spread", "by_posts"}


def test_every_number_is_a_difference_of_headlines() -> None:
    runs = people({"none": 0.5, "raw:10": 0.7, "swapped:10": 0.6, "noise:10": 0.55, "oracle": 0.9})
    found = told(runs)
    worth = {run.condition: measure(run).value for run in runs}
    for name, first, second in (
        ("lift", "raw:10", "none"),
        ("gain", "raw:10", "swapped:10"),
        ("gain_over_noise", "raw:10", "noise:10"),
        ("oracle_gap", "oracle", "raw:10"),
    ):
        one = found.numbers[name]  # type: ignore[index]
        assert one is not None
        assert one.value == pytest.approx(worth[first] - worth[second], abs=1e-12)
    assert found.numbers["gap_closed"] is not None
    share = (worth["raw:10"] - worth["none"]) / (worth["oracle"] - worth["none"])
    assert found.numbers["gap_closed"].value == pytest.approx(share, abs=1e-12)


def test_the_interval_of_the_gain_is_cluster_robust() -> None:
    own, swapped = (RunItems(run.rows) for run in people({"raw:10": 0.7, "swapped:10": 0.6}, users=80, items=3))
    gains = own.earned - swapped.earned
    groups = np.unique(own.clusters, return_inverse=True)[1]
    fit = sm.OLS(gains, np.ones(len(gains))).fit(cov_type="cluster", cov_kwds={"groups": groups}, use_t=True)
    low, high = ends(difference(own, swapped))
    assert (low, high) == pytest.approx(tuple(fit.conf_int()[0]), abs=0.01)
    naive = sm.OLS(gains, np.ones(len(gains))).fit().conf_int()[0]
    assert high - low > 1.1 * (naive[1] - naive[0])


def test_domains_may_weigh_alike() -> None:
    runs = people({"none": 0.5, "raw:10": 0.7, "swapped:10": 0.6}, users=30)
    macro = [replace(run, card=replace(run.card, average="macro"), rows=run.rows[:31]) for run in runs]
    found = told([replace(run, items=31) for run in macro])
    assert found.gain is not None
    assert found.gain.value == pytest.approx(np.mean([one.value for one in found.domains.values()]), abs=1e-12)
    assert "macro mean over 3 domains" in found.gain.method
    assert found.gain.value != pytest.approx(sum(one.value * one.n for one in found.domains.values()) / 31)


# ------------------------------------------------------------ blindness, fragility, failure


def test_a_scorer_blind_to_posts_gains_exactly_nothing_by_design() -> None:
    (blind,) = people({"none": 0.7})
    conditions = ("none", "raw:10", "swapped:10", "oracle")
    found = told([replace(blind, condition=name, reveals=reveals(name)) for name in conditions])
    for name in ("lift", "gain", "oracle_gap", "swap_sensitivity", "gain_at_equal_length", "user_spread"):
        one = found.numbers[name]
        assert one is not None
        assert (one.value, one.low, one.high) == (0.0, None, None)
        assert "fixed by design: the same scores under both conditions" in one.method
    assert (found.verdict, found.personalized, found.p) == ("blind", False, 1.0)
    assert all(one.value == 0 and one.low is None for one in found.domains.values())


def test_a_scorer_that_is_blind_and_sometimes_fails_is_still_blind() -> None:
    answers: list[Score | str] = [1, 0, "x", 1, 0.5]
    found = told([answering(condition, answers) for condition in ("none", "raw:10", "swapped:10")])
    assert found.verdict == "blind"
    assert found.gain is not None
    assert found.gain.failed == 1


def test_a_note_on_the_run_hides_no_blindness_and_makes_no_other_test_harder() -> None:
    knows = people({"none": 0.5, "raw:10": 0.7, "swapped:10": 0.5}, model="knows")
    (blind,) = people({"none": 0.7}, model="blind")
    conditions = ("none", "raw:10", "swapped:10")
    noted = [
        replace(blind, condition=name, reveals=reveals(name), imported="imported from a.json") for name in conditions
    ]
    (alone,) = personalization(knows)
    found, other = sorted(personalization([*noted, *knows]), key=lambda each: each.model)
    assert (found.verdict, found.tested) == ("blind", False)
    assert other.p_adjusted == alone.p_adjusted


def test_silence_is_no_proof_of_blindness() -> None:
    found = told([answering(condition, ["x"] * 20) for condition in ("none", "raw:10", "swapped:10")])
    assert found.gain is not None
    assert found.gain.value == -1
    assert (found.verdict, found.p) == ("by failing", 1.0)


def test_an_equal_result_by_coincidence_has_a_real_interval() -> None:
    own = answering("raw:10", [1, 0] * 20)
    louder = replace(own, rows=tuple(replace(one, scores=_louder(one)) for one in own.rows))
    other = replace(louder, condition="swapped:10", reveals=frozenset({"other_posts"}))
    found = told([own, other, answering("none", [0, 1] * 20)])
    assert found.gain is not None
    assert found.gain.value == 0
    low, high = ends(found.gain)
    assert low < 0 < high
    assert found.verdict != "blind"


def _louder(found: Row) -> tuple[Score, ...]:
    return tuple(score * 2 if isinstance(score, float) else score for score in found.scores)


@pytest.mark.parametrize("alike", [True, False])
def test_losing_under_strange_posts_is_not_personalization(alike: bool) -> None:
    # own = none = 75, swapped = 65: the gain lies far above 0, and the model has learnt nothing of its users.
    right = [1] * 300 + [0] * 100
    own = right if alike else [*right[200:], *right[:200]]
    found = told([answering("none", right), answering("raw:10", own), answering("swapped:10", _hurt(own))])
    assert found.lift is not None
    assert found.gain is not None
    assert found.lift.value == 0
    assert found.gain.value == pytest.approx(0.1, abs=1e-12)
    assert ends(found.gain)[0] > 0.05
    assert found.verdict == "gain only"
    assert not found.personalized


def _hurt(answers: Sequence[int]) -> list[Score | str]:
    """Return the answers with 40 in 400 right ones turned wrong."""
    right = [place for place, answer in enumerate(answers) if answer]
    turned = set(random.Random(0).sample(right, 40))
    return [0 if place in turned else answer for place, answer in enumerate(answers)]


def test_help_from_anybodys_posts_is_not_personalization() -> None:
    found = told(people({"none": 0.5, "raw:10": 0.8, "swapped:10": 0.8}, users=200))
    assert found.verdict == "lift only"
    assert not found.personalized


def test_a_model_that_uses_its_user_is_called_personalized() -> None:
    found = told(people({"none": 0.5, "raw:10": 0.8, "swapped:10": 0.6}, users=200))
    assert found.verdict == "personalized"
    assert found.personalized
    assert found.p == pytest.approx(1 / 10_001)


@pytest.mark.parametrize(
    ("none", "own", "swapped", "verdict"),
    [
        (0.7, 0.4, 0.6, "reversed"),
        (0.7, 0.45, 0.45, "lift below"),
        (0.8, 0.6, 0.4, "lift below"),  # its gain lies above 0, and the posts still do harm
        (0.6, 0.6, 0.8, "gain below"),
        (0.4, 0.6, 0.8, "gain below"),
        (0.6, 0.6, 0.6, "inconclusive"),
    ],
)
def test_what_is_made_worse_by_its_users_posts_is_said_to_be(
    none: float, own: float, swapped: float, verdict: str
) -> None:
    found = told(people({"none": none, "raw:10": own, "swapped:10": swapped}, users=200))
    assert found.verdict == verdict
    assert not found.personalized


@cache
def _coins() -> list[Run]:
    equal = {"none": 0.5, "raw:10": 0.5, "swapped:10": 0.5}
    return [one for seed in range(12) for one in people(equal, users=70, seed=90 + seed, model=f"c{seed}")]


@pytest.mark.parametrize(
    ("none", "swapped", "alone"),
    [(0.5, 0.62, "personalized"), (0.72, 0.62, "gain only"), (0.9, 0.86, "reversed"), (0.72, 0.86, "gain below")],
)
def test_no_verdict_rests_on_a_gain_whose_adjusted_p_is_not_significant(
    none: float, swapped: float, alone: str
) -> None:
    mine = people({"none": none, "raw:10": 0.72, "swapped:10": swapped}, users=70, seed=5)
    (single,) = personalization(mine)
    among = next(one for one in personalization([*mine, *_coins()]) if one.model == "m")
    assert (single.verdict, among.lift, among.gain) == (alone, single.lift, single.gain)
    assert single.p_adjusted is not None
    assert among.p_adjusted is not None
    assert single.p_adjusted < 0.05 <= among.p_adjusted
    assert (among.verdict, among.personalized) == ("open", False)


@given(st.integers(0, 2**20), st.floats(0.3, 0.9), st.floats(0.3, 0.9))
def test_verdict_and_adjusted_p_never_contradict_each_other(seed: int, own: float, swapped: float) -> None:
    runs = people({"none": 0.55, "raw:10": own, "swapped:10": swapped}, users=40, items=1, seed=seed)
    found = told(runs)
    for p in (found.p_adjusted, 0.27):
        judged = replace(found, p_adjusted=p)
        rests = judged.verdict in {"personalized", "reversed", "gain only", "gain below"}
        assert not (rests and p is not None and p >= 0.05)


def test_turning_every_answer_around_turns_the_verdict_around() -> None:
    runs = people({"none": 0.5, "raw:10": 0.8, "swapped:10": 0.6}, users=200)
    turned = told([replace(run, rows=tuple(map(_turned, run.rows))) for run in runs])
    plain = told(runs)
    assert (plain.verdict, turned.verdict) == ("personalized", "reversed")
    assert (turned.shown, turned.below) == (plain.below, plain.shown)
    assert ends(turned.lift) == pytest.approx(tuple(-end for end in reversed(ends(plain.lift))), abs=1e-12)
    assert turned.to_json()["below"] == ["gain", "lift"]


def _turned(found: Row) -> Row:
    return replace(found, scores=tuple(-score for score in found.scores if isinstance(score, float)))


def test_failing_with_the_users_posts_does_not_make_a_model_reversed() -> None:
    answers = ([1] * 7 + [0] * 3) * 10
    silent: list[Score | str] = ["x" if place % 3 == 0 else answer for place, answer in enumerate(answers)]
    found = told([answering("none", answers), answering("raw:10", silent), answering("swapped:10", answers)])
    assert ends(found.lift)[1] < 0
    assert found.verdict == "by failing"


def test_every_verdict_says_something_of_its_own() -> None:
    assert set(VERDICTS) == set(get_args(PersonalVerdict))
    assert len(set(VERDICTS.values())) == len(VERDICTS)


def test_failing_where_the_user_is_hidden_does_not_make_a_model_personal() -> None:
    answers = ([1] * 7 + [0] * 3) * 10
    silent: list[Score | str] = ["x" if place % 3 == 0 else answer for place, answer in enumerate(answers)]
    runs = [answering("none", silent), answering("raw:10", answers), answering("swapped:10", silent)]
    found = told(runs)
    assert found.lift is not None
    assert found.gain is not None
    assert found.lift.value == found.gain.value == pytest.approx(-0.1)  # 10 of the 34 were wrong under own
    assert found.verdict == "by failing"
    assert not found.personalized
    assert found.p == 1.0


def test_failures_that_put_an_interval_off_0_are_named_as_the_reason_that_it_shows_nothing() -> None:
    answers = ([1] * 7 + [0] * 3) * 10
    silent: list[Score | str] = ["x" if place % 3 == 0 else answer for place, answer in enumerate(answers)]
    found = told([answering("none", answers), answering("raw:10", answers), answering("swapped:10", silent)])
    assert ends(found.gain)[1] < 0
    assert found.verdict == "inconclusive"
    below = "below 0 only because items that failed (34 under {}) count at their worst"
    assert found.by_failing == {"gain": below.format("swapped:10")}
    assert found.to_json()["by_failing"] == found.by_failing
    turned = told([answering("none", answers), answering("raw:10", silent), answering("swapped:10", answers)])
    assert turned.by_failing == {"lift": below.format("raw:10"), "gain": below.format("raw:10")}


def test_where_no_item_failed_nothing_is_said_to_rest_on_failures() -> None:
    for rates in ({"none": 0.5, "raw:10": 0.8, "swapped:10": 0.6}, {"none": 0.6, "raw:10": 0.5, "swapped:10": 0.8}):
        assert told(people(rates, users=60)).by_failing == {}


@given(st.integers(0, 2**20), st.sampled_from(["none", "raw:10", "swapped:10"]))
def test_failing_never_makes_a_model_personal(seed: int, where: str) -> None:
    rng = random.Random(seed)
    runs = people({"none": 0.55, "raw:10": 0.7, "swapped:10": 0.6}, users=rng.choice([20, 60]), items=1, seed=seed)
    chosen = {one.item for one in runs[0].rows if rng.random() < rng.choice([0.1, 0.9])}
    failing = [replace(run, rows=_failed(run.rows, chosen)) if run.condition == where else run for run in runs]
    before, after = told(runs), told(failing)
    assert after.personalized <= before.personalized
    assert after.lift is not None
    for name, number in before.numbers.items():
        failed = after.numbers[name]
        if name not in {"user_spread", "oracle_gap"} and number is not None and failed is not None:
            assert failed.value <= number.value + 1e-12, name
    assert after.p is not None
    assert before.p is not None


def _failed(rows: Sequence[Row], chosen: set[str]) -> tuple[Row, ...]:
    broken = Failure("parse", "no verdict")
    return tuple(replace(one, scores=(one.scores[0], broken)) if one.item in chosen else one for one in rows)


# ------------------------------------------------------------ what is missing


def test_a_missing_control_gives_no_number_and_says_why() -> None:
    found = told([answering("raw:10", [1, 0, 1] * 10)])
    assert {name for name, one in found.numbers.items() if one is not None} == set()
    # Of own conditions with pairs alone; and where groups were run.
    assert set(found.absent) == {*NUMBERS, "by_posts"} - {"gain_over_shuffled", *ON_GROUPS}
    assert found.absent["gain"] == "no run in the role 'swapped'"
    assert (found.verdict, found.p, found.p_adjusted, found.domains) == ("unknown", None, None, {})
    only_none = told([answering("raw:10", [1, 0, 1] * 10), answering("none", [0, 0, 1] * 10)])
    assert only_none.lift is not None
    assert only_none.verdict == "unknown"


def test_no_run_with_posts_is_no_personalization() -> None:
    assert personalization([answering("none", [1, 0])]) == []
    assert personalization([]) == []


def test_the_share_of_a_gap_that_may_not_be_there_is_refused() -> None:
    runs = people({"none": 0.6, "raw:10": 0.62, "swapped:10": 0.6, "oracle": 0.63}, users=40)
    found = told(runs)
    assert found.numbers["gap_closed"] is None
    assert "not separated from 0: there is no gap to close" in found.absent["gap_closed"]
    worse = people({"none": 0.9, "raw:10": 0.7, "swapped:10": 0.6, "oracle": 0.5}, users=40)
    assert told(worse).numbers["gap_closed"] is None


def test_a_blind_model_closes_exactly_none_of_the_gap() -> None:
    none, oracle = people({"none": 0.6, "oracle": 0.9})
    found = told([none, replace(none, condition="raw:10", reveals=frozenset({"posts"})), oracle])
    closed = found.numbers["gap_closed"]
    assert closed is not None
    assert (closed.value, closed.low) == (0.0, None)


# ------------------------------------------------------------ swaps, p


def test_the_verdict_has_changed_where_the_best_candidates_are_others() -> None:
    own = answering("raw:10", [1, 1, 0, 0.5, 0.5, "x", 1])
    swapped = answering("swapped:10", [1, 0, 1, 0.5, 1, 1, "x"])
    found = told([own, swapped]).numbers["swap_sensitivity"]
    assert found is not None
    # Right to wrong, wrong to right, tie to right; the two failures have not changed and stay in the denominator.
    assert found.value == pytest.approx(3 / 7)
    assert (found.n, found.failed) == (7, 2)


def test_the_permutation_test_tries_every_pattern_of_signs() -> None:
    rng = random.Random(3)
    answers = [[rng.choice([0, 1, 0.5]) for _ in range(22)] for _ in range(2)]
    runs = [answering(name, found, per_user=2) for name, found in zip(("raw:5", "swapped:5"), answers, strict=True)]
    one, other = (RunItems(run.rows) for run in runs)
    parts = (one.earned - other.earned).reshape(11, 2).sum(axis=1)
    observed = abs(parts.sum())
    patterns = [abs(np.dot(signs, parts)) for signs in itertools.product([-1, 1], repeat=11)]
    exact = np.mean([found >= observed - 1e-9 for found in patterns])
    assert flip_p(one, other) == pytest.approx(exact, abs=1e-12)
    assert flip_p(other, one) == flip_p(one, other)


def test_blind_models_do_not_make_the_tests_of_others_harder() -> None:
    runs = people({"none": 0.5, "raw:10": 0.8, "swapped:10": 0.6}, users=30)
    alone = told(runs)
    (none,) = (run for run in runs if run.condition == "none")
    blind = [
        replace(none, model=f"blind{n}", condition=run.condition, reveals=run.reveals) for n in range(5) for run in runs
    ]
    both = {found.model: found for found in personalization([*runs, *blind])}
    assert both["m"].p_adjusted == alone.p_adjusted == alone.p
    assert both["blind3"].p_adjusted == 1
    twice = personalization([*runs, *(replace(run, model="n") for run in runs)])
    assert alone.p is not None
    assert [found.p_adjusted for found in twice] == pytest.approx([2 * alone.p] * 2)


# ------------------------------------------------------------ names and order


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**20))
def test_the_order_of_rows_and_runs_changes_no_byte(seed: int) -> None:
    rng = random.Random(seed)
    runs = people({"none": 0.5, "raw:10": 0.7, "swapped:10": 0.6, "oracle": 0.8}, users=25, seed=seed)
    mixed = [replace(run, rows=tuple(rng.sample(run.rows, len(run.rows)))) for run in rng.sample(runs, len(runs))]
    assert json.dumps(told(runs).to_json()) == json.dumps(told(mixed).to_json())


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**20))
def test_the_names_of_users_change_nothing(seed: int) -> None:
    rng = random.Random(seed)
    runs = people({"none": 0.5, "raw:10": 0.7, "swapped:10": 0.6, "oracle": 0.9}, users=25, seed=seed)
    names = dict(zip((f"u{n:04}" for n in range(25)), rng.sample(range(1000), 25), strict=True))
    renamed = [
        replace(run, rows=tuple(replace(one, cluster=f"{names[one.cluster]}") for one in run.rows)) for run in runs
    ]
    before, after = told(runs), told(renamed)
    assert (after.verdict, after.p) == (before.verdict, before.p)
    for name, one in before.numbers.items():
        other = after.numbers[name]
        assert (one is None) == (other is None)
        if one is not None and other is not None and one.low is not None:
            assert (other.value, other.low, other.high) == pytest.approx((one.value, one.low, one.high), abs=1e-9)


def test_everything_is_told_in_json() -> None:
    shown = json.loads(json.dumps(told(people({"none": 0.5, "raw:10": 0.7, "swapped:10": 0.6})).to_json()))
    assert set(shown["gain"]) == {"value", "low", "high", "n", "failed", "method"}
    assert shown["oracle_gap"] is None
    assert shown["absent"]["oracle_gap"] == "no run in the role 'oracle'"
    assert shown["conditions"] == {"own": "raw:10", "none": "none", "swapped": "swapped:10"}


def test_three_candidates_are_measured_alike() -> None:
    rng = random.Random(1)
    rows = {
        condition: [row(f"i{n:03}", [rng.random() for _ in range(3)], n % 3) for n in range(60)]
        for condition in ("raw:10", "swapped:10")
    }
    runs = [
        replace(answering(condition, [1]), rows=tuple(found), items=60, benchmark_hash="x")
        for condition, found in rows.items()
    ]
    found = told(runs)
    assert found.gain is not None
    assert found.gain.value == pytest.approx(measure(runs[0]).value - measure(runs[1]).value, abs=1e-12)


def _shown_much(condition: str, answers: Sequence[Score | str], posts: float, pairs: float = 0) -> Run:
    """A run whose rows saw so many posts and pairs on average."""
    told_run = answering(condition, answers)
    rows = [
        replace(row, posts=round(posts * (place + 1)) - round(posts * place), pairs=round(pairs))
        for place, row in enumerate(told_run.rows)
    ]
    return replace(told_run, rows=tuple(rows))


def test_no_verdict_where_a_control_showed_another_tenth_less() -> None:
    good, bad = [1] * 38 + [0] * 2, [0] * 20 + [1] * 20
    runs = [answering("none", bad), _shown_much("raw:10", good, 5.2)]
    for posts, verdict in (
        (5.2, "personalized"),
        (4.8, "personalized"),
        (4.6, "unequal"),
        (3.3, "unequal"),
        (10, "unequal"),
    ):
        found = told([*runs, _shown_much("swapped:10", bad, posts)])
        assert found.verdict == verdict
        assert found.personalized == (verdict == "personalized")
        assert found.to_json()["verdict"] == verdict
        if verdict == "unequal":
            assert f"swapped:10 {posts:.1f}" in found.standing
    many, few = _shown_much("pairs:8", good, 0, 8), _shown_much("pairs:8,of=swapped", bad, 0, 3)
    pairs = [answering("none", bad), replace(many, reveals=frozenset({"pairs"}))]
    assert told([*pairs, replace(few, reveals=frozenset({"other_pairs"}))]).verdict == "unequal"


def test_the_verdict_names_the_controls_that_it_withstood() -> None:
    good, bad = [1] * 38 + [0] * 2, [0] * 20 + [1] * 20
    grid = [answering("none", bad), answering("raw:10", good), answering("swapped:10", bad)]
    nearest = "swapped:10,by=prompt"
    cases = [
        ([], "personalized", "above swapped:10; not tested against users who write on the same subject"),
        ([answering(nearest, bad)], "personalized", f"above swapped:10 and {nearest}"),
        ([answering(nearest, good[::-1])], "by subject", f"above swapped:10, not above {nearest}"),
        ([answering(nearest, good)], "by subject", f"above swapped:10, not above {nearest}"),
        ([answering(nearest, ["x"] * 40)], "by subject", f"above swapped:10, not above {nearest}"),
    ]
    for more, verdict, standing in cases:
        found = told([*grid, *more])
        assert found.verdict == verdict
        assert found.standing.startswith(standing)
        assert ("nearest" in found.to_json()["survived"]) == (verdict == "personalized" and bool(more))  # type: ignore[operator]
