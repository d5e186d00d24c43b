"""The alternative annotator test against an independent computation; its rates on simulated judges at the margin."""

import math
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

from pluralrm.core import Failure
from pluralrm.errors import MetricError
from pluralrm.metrics.agreement import Scaled, Votes
from pluralrm.metrics.stand_in import (
    JudgeAnswer,
    StandInComparison,
    StandInTerms,
    run_comparisons,
    stand_in_result,
    votes_comparisons,
)
from pluralrm.stats.comparisons import benjamini_yekutieli, paired_score, partial_conjunction, student_p
from tests.metrics.rows import row, run

# ---------------------------------------------------------------- a second implementation, with nothing but Python

Table = Mapping[str, Mapping[str, str]]
"""person -> item -> label"""


def by_hand(table: Table, judge: Mapping[str, str], *, ratings: bool) -> dict[str, list[tuple[bool, bool]]]:
    """For each person and item: whether the judge, and whether the person, has the advantage."""
    advantages: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for person, labels in table.items():
        for item, label in labels.items():
            others = [other[item] for name, other in table.items() if name != person and item in other]
            if others:
                own, judged = _likeness(label, others, ratings), _likeness(judge.get(item, ""), others, ratings)
                assert own is not None
                advantages[person].append((judged is not None and judged >= own, judged is None or own >= judged))
    return advantages


def _likeness(label: str, others: Sequence[str], ratings: bool) -> Fraction | None:
    """Exact, so that ties are ties; the root of a mean of squares has the order of that mean."""
    if not label:
        return None
    if ratings:
        return -sum(((Fraction(label) - Fraction(other)) ** 2 for other in others), Fraction()) / len(others)
    return Fraction(sum(label == other for other in others), len(others))


def t_by_hand(advantages: Sequence[tuple[bool, bool]], epsilon: float) -> float:
    """Student's one-sided p by adding up its density (Simpson)."""
    gaps = [own - judged for judged, own in advantages]
    n, mean = len(gaps), sum(gaps) / len(gaps)
    error = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / (n - 1) / n)
    if not error:
        return float(mean >= epsilon)
    df, far = n - 1, abs(mean - epsilon) / error
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)
    xs = [far * index / 4000 for index in range(4001)]
    heights = [scale * (1 + x * x / df) ** (-(df + 1) / 2) for x in xs]
    inner = far / 12000 * (heights[0] + heights[-1] + 4 * sum(heights[1::2]) + 2 * sum(heights[2:-1:2]))
    return float(0.5 - inner if mean < epsilon else 0.5 + inner)


def score_by_hand(advantages: Sequence[tuple[bool, bool]], epsilon: float) -> float:
    """The score test's p: the likelihood under the margin is maximised by search, not by a formula."""
    behind = sum(not judged for judged, _ in advantages)
    leads = sum(not own for _, own in advantages)
    n = len(advantages)

    def likelihood(rare: float) -> float:
        shares = ((behind, rare + epsilon), (leads, rare), (n - behind - leads, 1 - 2 * rare - epsilon))
        return sum(count * math.log(max(share, 1e-300)) for count, share in shares if count)

    low, high = 0.0, (1 - epsilon) / 2
    for _ in range(200):
        first, second = low + (high - low) * 0.382, low + (high - low) * 0.618
        low, high = (low, second) if likelihood(first) >= likelihood(second) else (first, high)
    rare = (low + high) / 2
    variance = n * (2 * rare + epsilon - epsilon**2)
    return NormalDist().cdf((behind - leads - n * epsilon) / math.sqrt(variance))


def rejected(p_values: Sequence[float], level: float) -> set[int]:
    """Benjamini and Yekutieli's step-up, as its theorem has it."""
    m = len(p_values)
    harmonic = sum(1 / rank for rank in range(1, m + 1))
    order = sorted(range(m), key=p_values.__getitem__)
    last = max(
        (rank for rank in range(1, m + 1) if p_values[order[rank - 1]] <= rank * level / m / harmonic), default=0
    )
    return set(order[:last])


def random_table(rng: random.Random, *, ratings: bool) -> tuple[Table, dict[str, str]]:
    """Labels with gaps, ties and uneven people; a judge who may be near the truth or not, and fails at times."""
    people, items = rng.randint(2, 7), rng.randint(8, 70)
    labels = ["1", "2", "3", "4.5", "7"] if ratings else list("abc")[: rng.randint(2, 3)]
    truth = {f"i{n}": rng.choice(labels) for n in range(items)}
    table = {
        f"p{n}": {
            item: label if rng.random() < 0.6 else rng.choice(labels)
            for item, label in truth.items()
            if rng.random() < rng.choice([0.3, 0.8, 1.0])
        }
        for n in range(people)
    }
    skill = rng.random()
    judge = {item: label if rng.random() < skill else rng.choice(labels) for item, label in truth.items()}
    if ratings:  # numbers that no person gives
        judge |= {item: rng.choice(["3.25", "1e9", "-1"]) for item in judge if rng.random() < 0.1}
    return table, {item: "" if rng.random() < 0.1 else label for item, label in judge.items() if rng.random() < 0.95}


def comparisons_of(table: Table, judge: Mapping[str, str], *, ratings: bool) -> list[StandInComparison]:
    rows = [(item, person, label) for person, labels in table.items() for item, label in labels.items()]
    labels = sorted({label for *_, label in rows})
    scaled = Scaled(tuple(labels), "interval", tuple(map(float, labels))) if ratings else Scaled(tuple(labels))
    items, people, said = (tuple(column) for column in zip(*rows, strict=True))
    votes = Votes(items, people, said, scaled)
    return votes_comparisons(votes, {item: JudgeAnswer(label) for item, label in judge.items()})


@pytest.mark.parametrize("ratings", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_the_test_equals_an_independent_computation(seed: int, ratings: bool) -> None:
    rng = random.Random(seed)
    table, judge = random_table(rng, ratings=ratings)
    terms = StandInTerms(rng.choice([0.0, 0.1, 0.15, 0.2]), 0.05, rng.choice([5, 15, 30]))
    result = stand_in_result("judge", comparisons_of(table, judge, ratings=ratings), terms=terms)
    advantages = by_hand(table, judge, ratings=ratings)
    assert {test.person: test.items for test in result.people} == {name: len(rows) for name, rows in advantages.items()}
    for test in result.people:
        rows = advantages[test.person]
        assert test.judge == pytest.approx(sum(judged for judged, _ in rows) / len(rows), abs=1e-12)
        assert test.own == pytest.approx(sum(own for _, own in rows) / len(rows), abs=1e-12)
        assert test.lead.value == pytest.approx(test.judge - test.own, abs=1e-12)
        if len(rows) > 1:
            assert test.published == pytest.approx(t_by_hand(rows, terms.epsilon), abs=1e-9)
            if terms.epsilon or any(judged != own for judged, own in rows):
                assert test.p == pytest.approx(score_by_hand(rows, terms.epsilon), abs=1e-6)
    testable = [name for name in sorted(advantages) if len(advantages[name]) >= terms.fewest]
    assert [test.person for test in result.testable] == testable
    if not testable:
        assert (result.advantage, result.winning_rate, result.p) == (None, None, None)
        return
    rho = sum(sum(judged for judged, _ in advantages[name]) / len(advantages[name]) for name in testable) / len(
        testable
    )
    assert result.advantage is not None
    assert result.advantage.value == pytest.approx(rho, abs=1e-12)
    wins = rejected([score_by_hand(advantages[name], terms.epsilon) for name in testable], 0.05)
    assert {name for name, test in zip(testable, result.testable, strict=True) if test.likeness == "as well"} == {
        testable[index] for index in wins
    }
    published = rejected([t_by_hand(advantages[name], terms.epsilon) for name in testable], 0.05)
    assert result.published_rate == pytest.approx(len(published) / len(testable))


def test_adjusted_p_values_reject_what_the_step_up_procedure_rejects() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        p = rng.random(rng.integers(1, 12)) ** 3
        assert set(np.flatnonzero(benjamini_yekutieli(p) <= 0.1)) == rejected(p.tolist(), 0.1)
    assert partial_conjunction([0.5, 0.01, 0.02, 0.9], 2) == pytest.approx(0.06)  # (4 - 2 + 1) times .02


def test_the_score_statistic_of_published_and_of_extreme_tables() -> None:
    # Tango (1998), table of 44 patients of whom one had the control's effect alone, margin .1: z = 1.709.
    assert float(paired_score(0, 1, 44, -0.1)) == pytest.approx(1.709, abs=5e-4)
    assert float(paired_score(0, 0, 30, 0.0)) == 0
    assert float(paired_score(30, 0, 30, 0.0)) > 5
    for gap in (-0.7, -0.2, 0.0, 0.2, 0.7):  # the two sides exchanged
        assert float(paired_score(3, 9, 40, gap)) == pytest.approx(-float(paired_score(9, 3, 40, -gap)))


def test_thirty_ties_are_no_certainty() -> None:
    ties = [StandInComparison(name, f"i{n}", 1.0, 1.0) for name in "abcd" for n in range(30)]
    assert student_p(0, 0, 30, 0.01) == 0
    result = stand_in_result("copy", ties, terms=StandInTerms(epsilon=0.01))
    assert (result.published_rate, result.ruling) == (1.0, "not settled")
    assert result.testable[0].p > 0.2  # .99 ** 30 = .74 is how often a judge at the margin ties 30 times


# ---------------------------------------------------------------- verdicts


def _table(people: int, items: int, skill: float, seed: int = 0) -> tuple[Table, dict[str, str]]:
    rng = random.Random(seed)
    truth = {f"i{n}": rng.choice("ab") for n in range(items)}

    def say(label: str, right: float) -> str:
        return label if rng.random() < right else "ab"[label == "a"]

    table = {f"p{n}": {item: say(label, 0.8) for item, label in truth.items()} for n in range(people)}
    return table, {item: say(label, skill) for item, label in truth.items()}


def test_verdicts_are_one_sentence() -> None:
    good, bad = (stand_in_result("m", comparisons_of(*_table(5, 200, skill), ratings=False)) for skill in (1.0, 0.3))
    assert (
        str(good) == "m may stand in for a person: it agrees with the others as well as 5 of 5 people do, epsilon 0.15"
    )
    assert bad.ruling == "may not"
    assert str(bad).startswith("m may not stand in for a person: 5 of 5 people agree with the others better")
    unsure = stand_in_result("m", comparisons_of(*_table(5, 40, 0.7), ratings=False))
    assert unsure.ruling == "not settled"
    assert "3 are needed (p " in str(unsure)
    few = stand_in_result("m", comparisons_of(*_table(5, 29, 1.0), ratings=False))
    assert few.ruling == "too few"
    assert str(few).startswith("too few to say of m: 0 people have 30 independent items")
    assert (few.people[0].adjusted, few.people[0].stated) == (None, None)
    assert stand_in_result("m", comparisons_of(*_table(2, 200, 1.0), ratings=False)).ruling == "too few"


def test_not_answering_never_pays() -> None:
    table, judge = _table(5, 120, 0.85)
    whole = stand_in_result("m", comparisons_of(table, judge, ratings=False))
    for failed in (set(list(judge)[:40]), {item for item in judge if judge[item] == "a"}):
        for silent in (
            {item: label for item, label in judge.items() if item not in failed},
            judge | dict.fromkeys(failed, ""),
        ):
            result = stand_in_result("m", comparisons_of(table, silent, ratings=False))
            assert [test.items for test in result.people] == [test.items for test in whole.people]
            for test, before in zip(result.people, whole.people, strict=True):
                assert test.judge <= before.judge
                assert test.own >= before.own
                assert test.p >= before.p
            assert result.advantage is not None
            assert result.advantage.failed == 5 * len(failed)
            assert result.risks[0].risk.value > whole.risks[0].risk.value


RANKS = {ranked: rank for rank, ranked in enumerate(["too few", "may not", "worse", "not settled", "may", "as well"])}


@pytest.mark.parametrize("ratings", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_abstaining_anywhere_raises_nothing_but_the_risk(seed: int, ratings: bool) -> None:
    rng = random.Random(seed)
    table, judge = random_table(rng, ratings=ratings)
    terms = StandInTerms(rng.choice([0.05, 0.15, 0.3]), 0.2, 5)
    before = stand_in_result("m", comparisons_of(table, judge, ratings=ratings), terms=terms)
    answers = sorted(judge)
    while answers:
        abstained = rng.sample(answers, rng.randint(1, len(answers)))
        answers = [item for item in answers if item not in abstained]
        judge = {item: label for item, label in judge.items() if item in answers}
        after = stand_in_result("m", comparisons_of(table, judge, ratings=ratings), terms=terms)
        assert RANKS[after.ruling] <= RANKS[before.ruling]
        assert (after.winning_rate or 0) <= (before.winning_rate or 0)
        assert (after.p or 0) >= (before.p or 0) - 1e-12
        assert after.risks[0].risk.value >= before.risks[0].risk.value
        assert sum(row.coverage for row in after.risks if row.covered == "every answer") <= 1
        if after.advantage and before.advantage:
            assert after.advantage.value <= before.advantage.value + 1e-12
        for late, early in zip(after.people, before.people, strict=True):
            assert late.judge <= early.judge
            assert late.own >= early.own
            assert late.p >= early.p - 1e-12
            assert late.against <= early.against + 1e-12
            assert RANKS[late.likeness] <= RANKS[early.likeness]
            if late.lead.low is not None and early.lead.low is not None:
                assert late.lead.low <= early.lead.low + 1e-9
                assert (late.lead.high or 0) <= (early.lead.high or 0) + 1e-9
        before = after
    assert before.risks[0].risk.value == 1.0
    assert len(before.risks) == 1  # no answer, no coverage


def test_an_absent_answer_loses_even_where_no_one_agrees_with_the_person() -> None:
    votes = Votes(("i", "i"), ("ann", "bob"), ("a", "b"), Scaled(("a", "b", "c")))
    assert [row.ahead for row in votes_comparisons(votes, {"i": JudgeAnswer("c")})] == [0, 0]
    assert [row.ahead for row in votes_comparisons(votes, {})] == [1, 1]


def test_a_label_off_the_declared_scale_is_refused() -> None:
    votes = Votes(("i", "i"), ("ann", "bob"), ("1", "5"), Scaled(("1", "2"), "interval", (1.0, 2.0)))
    with pytest.raises(MetricError, match="unknown label '5'"):
        votes_comparisons(votes, {})


def test_order_and_names_change_no_number() -> None:
    rows = comparisons_of(*_table(4, 60, 0.7), ratings=False)
    shuffled = random.Random(1).sample(rows, len(rows))
    assert stand_in_result("m", shuffled).to_json() == stand_in_result("m", rows).to_json()


def test_items_of_one_cluster_count_once() -> None:
    rows = comparisons_of(*_table(4, 60, 0.9), ratings=False)
    alone = stand_in_result("m", rows)
    copied = [each for each in rows for _ in range(3)]
    tripled = stand_in_result("m", copied)
    for test, before in zip(tripled.people, alone.people, strict=True):
        assert (test.items, test.clusters) == (3 * before.items, before.clusters)
        assert test.p >= before.p
        assert test.lead.low is not None
        assert before.lead.low is not None
        assert test.lead.low == pytest.approx(before.lead.low, abs=0.02)


@pytest.mark.parametrize("seed", range(8))
def test_the_test_of_clusters_equals_an_independent_computation(seed: int) -> None:
    rng = random.Random(seed)
    ahead = [rng.choice([0, 0, 1, -1]) for _ in range(90)]
    ahead = [ahead[n - n % 3] if rng.random() < 0.7 else ahead[n] for n in range(90)]
    clusters = [f"c{(n // 3) if seed % 2 else n // rng.choice([2, 3])}" for n in range(90)]
    rows = [
        StandInComparison("ann", cluster, 0.0, float(each), None) for each, cluster in zip(ahead, clusters, strict=True)
    ]
    (test,) = stand_in_result("m", rows).people
    n, groups, mean = len(ahead), len(set(clusters)), sum(ahead) / len(ahead)
    residuals: dict[str, float] = defaultdict(float)
    for each, cluster in zip(ahead, clusters, strict=True):
        residuals[cluster] += each - mean
    robust = groups / (groups - 1) * sum(value**2 for value in residuals.values()) / n**2
    plain = sum((each - mean) ** 2 for each in ahead) / (n - 1) / n
    independent = NormalDist().inv_cdf(score_by_hand([(each <= 0, each >= 0) for each in ahead], 0.15))
    z = independent / math.sqrt(max(robust / plain, 1.0))
    xs = [-60 + (z + 60) * k / 40_000 for k in range(40_001)]  # Student's t with groups - 1, by Simpson
    df = groups - 1
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)
    heights = [scale * (1 + x * x / df) ** (-(df + 1) / 2) for x in xs]
    p = (z + 60) / 120_000 * (heights[0] + heights[-1] + 4 * sum(heights[1::2]) + 2 * sum(heights[2:-1:2]))
    assert test.p == pytest.approx(p, abs=1e-5)


def test_the_interval_agrees_with_the_test() -> None:
    for seed in range(8):
        table, judge = _table(3, 50, 0.7, seed)
        for test in stand_in_result("m", comparisons_of(table, judge, ratings=False)).people:
            low = test.lead.low
            assert low is not None
            at_low = (
                stand_in_result("m", comparisons_of(table, judge, ratings=False), terms=StandInTerms(epsilon=-low))
                if low < 0
                else None
            )
            if at_low is not None:
                p = next(other.p for other in at_low.people if other.person == test.person)
                assert p == pytest.approx(0.025, abs=1e-6)


# ---------------------------------------------------------------- risk by coverage


def test_risk_falls_with_coverage_where_certainty_is_informative() -> None:
    rows = [
        StandInComparison(f"p{n % 5}", f"i{n // 5}", 1.0 if n % 100 >= n % 37 else 0.0, 0.5, float(n % 100))
        for n in range(1000)
    ]
    risks = stand_in_result("m", rows).risks
    assert [round(covered.coverage, 2) for covered in risks] == [1.0, 0.9, 0.75, 0.5, 0.25]
    for covered in risks:
        kept = [each for each in rows if covered.certainty is None or (each.certainty or 0) >= covered.certainty]
        assert covered.risk.value == pytest.approx(sum(each.ahead > 0 for each in kept) / len(kept))
        assert covered.coverage == len(kept) / len(rows)
    assert risks[-1].risk.value < risks[0].risk.value


def test_coverage_is_of_all_comparisons_and_equal_certainty_goes_together() -> None:
    rows = [
        StandInComparison(f"p{n % 4}", f"i{n // 4}", -math.inf if n % 2 else 1.0, 1.0, None if n % 2 else 1.0)
        for n in range(80)
    ]
    risks = stand_in_result("m", rows).risks
    assert [(row.coverage, row.risk.value) for row in risks] == [(1.0, 0.5), (0.5, 0.0)]
    assert risks[0].risk.failed == 40


def test_equal_certainty_is_covered_together_in_any_order() -> None:
    rng = random.Random(3)
    rows = [
        StandInComparison(f"p{n % 6}", f"i{n // 6}", float(rng.random() < 0.7), 1.0, rng.choice([0.2, 0.5, 0.9]))
        for n in range(300)
    ]
    risks = stand_in_result("m", rows).risks
    assert risks == stand_in_result("m", rng.sample(rows, len(rows))).risks
    for covered in risks[1:]:
        assert covered.risk.n == sum((row.certainty or 0) >= (covered.certainty or 0) for row in rows)
        assert covered.coverage == covered.risk.n / len(rows)
    assert {covered.certainty for covered in risks[1:]} <= {0.5, 0.9}
    assert [covered.covered for covered in risks][:2] == ["every comparison", "certainty from 0.5"]


# ---------------------------------------------------------------- runs


def test_a_run_is_scored_by_the_votes_of_the_others() -> None:
    rows = [
        row("1", [2.0, 1.0], 1, others=(3.0, 1.0), cluster="ann", prompt="p"),  # judge 3/4, ann 1/4
        row("2", [1.0, 1.0], 0, others=(3.0, 1.0), cluster="bob", prompt="p"),  # a tie shares: 1/2 against 3/4
        row("3", [Failure("parse", "?"), 1.0], 0, others=(0.0, 2.0), cluster="bob", prompt="q"),
        row("4", [2.0, 1.0, 0.5], None, grades=(1.0, 1.0, 0.0), others=(2.0, 0.0, 2.0), cluster="cy", prompt="q"),
        row("5", [2.0, 1.0], 0, cluster="cy", prompt="r"),  # no one else judged it
    ]
    comparisons = run_comparisons(run(rows))
    assert [(each.person, each.cluster, each.judge, each.own) for each in comparisons] == [
        ("ann", "p", 0.75, 0.25),
        ("bob", "p", 0.5, 0.75),
        ("bob", "q", -math.inf, 0.0),
        ("cy", "q", 0.5, 0.25),
    ]
    assert [each.ahead for each in comparisons] == [-1, 1, 1, -1]
    assert [each.certainty for each in comparisons] == [1.0, 0.0, None, 1.0]


def test_a_run_without_other_people_is_refused() -> None:
    with pytest.raises(MetricError, match="no item was judged by a second person"):
        run_comparisons(run([row("1", [2.0, 1.0])]))
    alone = run([row("1", [2.0, 1.0], others=(1.0, 0.0))])
    with pytest.raises(MetricError, match="belong to a record"):
        run_comparisons(replace(alone, card=replace(alone.card, cluster="record")))
