"""JudgeBench, LLMBar and RewardMATH as published, against plain readings, and every quirk by hand."""

import itertools
import math
import random
from collections.abc import Sequence

import pytest

from pluralrm.core import Failure, Row, Score, Vote
from pluralrm.metrics.official.orders import (
    judgebench_win,
    llmbar_instance,
    published_judgebench,
    published_llmbar,
)
from pluralrm.metrics.official.strict import published_rewardmath, reciprocal_rank
from tests.metrics.rows import row

AB, BA = ("response_A", "response_B"), ("response_B", "response_A")
WORDS = ("0", "1", "tie", "parse")


def judged(number: int, preferred: int, outcomes: Sequence[str], **changes: object) -> Row:
    """A pair that a judge was asked, in as many orders as there are outcomes."""
    failed = any(outcome == "parse" for outcome in outcomes)
    share = sum(0.5 if outcome == "tie" else float(outcome == "0") for outcome in outcomes) / max(1, len(outcomes))
    scores: list[Score] = [Failure("parse")] * 2 if failed else [share, 1 - share]
    votes = tuple(Vote(order, outcome) for order, outcome in zip([(0, 1), (1, 0)], outcomes, strict=False))
    return row(f"p{number}", scores, preferred, votes=votes, candidate_ids=AB, **changes)


# ---------------------------------------------------------------- JudgeBench


@pytest.mark.parametrize("seed", range(20))
def test_judgebench_agrees_with_a_plain_count(seed: int) -> None:
    rng = random.Random(seed)
    rows, won = [], 0
    for index in range(rng.randint(1, 40)):
        preferred = rng.randrange(2)
        if rng.random() < 0.5:
            outcomes = [rng.choice(WORDS) for _ in range(rng.randint(1, 2))]
            rows.append(judged(index, preferred, outcomes))
            label = str(preferred)
            counter = 0
            for outcome in outcomes:
                if outcome == label:
                    counter += 1
                elif outcome in {"0", "1"}:
                    counter -= 1
            won += counter > 0
        else:
            scores = {name: rng.choice([0.0, 1.0, math.nan, math.inf]) for name in AB}
            ids = rng.choice([AB, BA])
            made = [
                scores[name] if math.isfinite(scores[name]) else Failure("nonfinite", str(scores[name])) for name in ids
            ]
            rows.append(row(f"p{index}", made, preferred, candidate_ids=ids))
            a, b = scores["response_A"], scores["response_B"]
            verdict = "" if math.isnan(a) or math.isnan(b) else "response_A" if a > b else "response_B"
            won += verdict == ids[preferred]
    number = published_judgebench(rows, "JudgeBench")
    assert number.value == pytest.approx(won / len(rows), abs=1e-12)


@pytest.mark.parametrize(
    ("verdicts", "wins"), [((1, 1), True), ((1, 0), True), ((1, -1), False), ((0, 0), False), ((1,), True), ((), False)]
)
def test_a_pair_of_judgebench_is_won_by_the_sum_of_its_verdicts(verdicts: Sequence[int], wins: bool) -> None:
    assert judgebench_win(verdicts) == wins


def test_a_tie_of_a_model_that_scores_is_a_verdict_for_b() -> None:
    for ids in (AB, BA):
        for label in AB:
            number = published_judgebench([row("p", [0.5, 0.5], ids.index(label), candidate_ids=ids)], "JudgeBench")
            assert number.value == (label == "response_B")
    ties = [row(f"p{n}", [0.5, 0.5], n % 2, candidate_ids=AB) for n in range(10)]
    assert published_judgebench(ties, "JudgeBench").value == 0.5
    assert published_judgebench(ties, "JudgeBench").reason == (
        "10 ties: credit shared in the headline, a verdict for B as published (5 right)."
    )


def test_the_reason_counts_what_judgebench_counts_otherwise() -> None:
    rows = [
        judged(0, 0, ["0", "1"], domain="math"),  # orders that disagree
        judged(1, 0, ["0", "parse"], domain="math"),  # one right and one unreadable
        judged(2, 1, ["1"]),
        judged(3, 1, ["parse", "parse"]),
        row("p4", [Failure("crash")] * 2, candidate_ids=AB),
    ]
    number = published_judgebench(rows, "")
    assert (number.value, number.domains) == (2 / 5, {"Bread": 1 / 3, "math": 0.5})
    assert number.reason == (
        "1 pair without a majority of orders: credit shared in the headline, a loss by this rule; 1 pair with one "
        "unreadable and one right reply: failed in the headline, won by this rule; 1 pair asked in one order, which "
        "decides; 2 failed items: wrong in both."
    )


# ---------------------------------------------------------------- LLMBar


@pytest.mark.parametrize("seed", range(20))
def test_llmbar_agrees_with_a_plain_count(seed: int) -> None:
    rng = random.Random(seed)
    subsets: dict[str, list[tuple[float, bool]]] = {}
    rows = []
    for index in range(rng.randint(1, 40)):
        preferred, subset = rng.randrange(2), rng.choice(["Natural", "Manual", "GPTOut"])
        if rng.random() < 0.5:
            outcomes = [rng.choice(WORDS) for _ in range(2)]
            rows.append(judged(index, preferred, outcomes, domain=subset))
            hits = sum(outcome == str(preferred) for outcome in outcomes)
            agrees = outcomes[0] == outcomes[1] and outcomes[0] in {"0", "1"}
        else:
            scores = [rng.choice([0.0, 1.0, math.nan]) for _ in range(2)]
            made = [Failure("nonfinite", "nan") if math.isnan(score) else score for score in scores]
            rows.append(row(f"p{index}", made, preferred, domain=subset))
            hits, agrees = 0, False
            if not any(map(math.isnan, scores)):
                in_order = 0 if scores[0] > scores[1] else 1
                swapped = 1 if scores[1] > scores[0] else 0
                hits, agrees = (in_order == preferred) + (swapped == preferred), in_order == swapped
        subsets.setdefault(subset, []).append((hits / 2, agrees))
    number = published_llmbar(rows, "LLMBar")
    means = [[sum(each[place] for each in own) / len(own) for own in subsets.values()] for place in (0, 1)]
    assert number.value == pytest.approx(sum(means[0]) / len(means[0]), abs=1e-12)
    assert number.parts["agreement"] == pytest.approx(sum(means[1]) / len(means[1]), abs=1e-12)


@pytest.mark.parametrize(
    ("winners", "earned"),
    [
        ((0, 0), (1, True)),
        ((0, 1), (0.5, False)),
        ((1, 1), (0, True)),
        ((0, None), (0.5, False)),
        ((None, None), (0, False)),
    ],
)
def test_an_instance_of_llmbar_by_hand(winners: tuple[int | None, int | None], earned: tuple[float, bool]) -> None:
    assert llmbar_instance(winners, 0) == earned


def test_a_judge_of_llmbar_has_to_be_asked_in_both_orders() -> None:
    number = published_llmbar([judged(0, 0, ["0", "0"]), judged(1, 0, ["0"])], "LLMBar")
    assert (number.value, number.reason) == (None, "1 instance asked in one order; the rule needs both.")


def test_the_reason_counts_what_llmbar_counts_otherwise() -> None:
    rows = [
        judged(0, 0, ["0", "1"]),
        judged(1, 0, ["tie", "0"]),
        judged(2, 0, ["0", "parse"]),
        judged(3, 0, ["parse"] * 2),
    ]
    number = published_llmbar(rows, "LLMBar")
    assert (number.value, number.parts) == (3 / 8, {"agreement": 0})
    assert number.reason == (
        "2 instances with another winner in the other order: half right in both; 1 instance called a tie: credit "
        "shared in the headline, wrong as published; 1 instance with one unreadable and one right reply: failed in the "
        "headline, half as published; 1 failed item: wrong in both."
    )


# ---------------------------------------------------------------- RewardMATH


@pytest.mark.parametrize("seed", range(20))
def test_rewardmath_agrees_with_a_sort(seed: int) -> None:
    """The place by sorting (score, right last of its score), as a table of ten would be ranked by hand."""
    rng = random.Random(seed)
    rows, places = [], []
    for index in range(rng.randint(1, 20)):
        scores = [rng.choice([0.0, 0.5, 1.0, rng.random(), rng.choice([math.nan, math.inf])]) for _ in range(10)]
        scores = scores if rng.random() < 0.5 else [score if math.isfinite(score) else 0.25 for score in scores]
        right = rng.randrange(10)
        made = [score if math.isfinite(score) else Failure("nonfinite", str(score)) for score in scores]
        rows.append(row(f"p{index}", made, right))
        if any(map(math.isnan, scores)):
            places.append(math.inf)
        else:
            ranked = sorted(range(10), key=lambda place: (-scores[place], place == right))
            places.append(1 + ranked.index(right))
    number = published_rewardmath(rows, "RewardMATH")
    assert number.value == pytest.approx(sum(place == 1 for place in places) / len(places), abs=1e-12)
    assert number.parts["mrr"] == pytest.approx(sum(1 / place for place in places) / len(places), abs=1e-12)


def test_rewardmath_by_hand() -> None:
    assert reciprocal_rank(0.9, [0.1] * 9) == 1
    assert reciprocal_rank(0.9, [0.9, *[0.1] * 8]) == 1 / 2  # a tie is lost
    assert reciprocal_rank(0.5, [0.5] * 9) == 1 / 10
    assert reciprocal_rank(math.nan, [0.1] * 9) == reciprocal_rank(1.0, [math.nan, *[0.1] * 8]) == 0


def test_failing_never_pays_in_any_of_the_three() -> None:
    """Whatever an item earns with scores, it earns no more without; a silent model earns nothing."""
    silent = [row(f"p{n}", [Failure("empty")] * 2, n % 2, candidate_ids=AB) for n in range(6)]
    assert published_judgebench(silent, "JudgeBench").value == 0
    assert published_llmbar(silent, "LLMBar").value == published_llmbar(silent, "LLMBar").parts["agreement"] == 0
    ten = [row(f"p{n}", [Failure("empty")] * 10, n) for n in range(6)]
    assert published_rewardmath(ten, "RewardMATH").value == published_rewardmath(ten, "RewardMATH").parts["mrr"] == 0
    for preferred, scores in itertools.product((0, 1), itertools.product((0.0, 1.0), repeat=2)):
        whole = row("p", list(scores), preferred, candidate_ids=AB)
        failed = row("p", [scores[0], Failure("nonfinite", "nan")], preferred, candidate_ids=AB)
        for rule in (published_judgebench, published_llmbar, published_rewardmath):
            assert (rule([failed], "x").value or 0) <= (rule([whole], "x").value or 0)


def test_chance_is_half_of_two_and_a_tenth_of_ten() -> None:
    rng = random.Random(3)
    pairs = [row(f"p{n}", [rng.random(), rng.random()], n % 2, candidate_ids=AB) for n in range(1500)]
    assert published_judgebench(pairs, "").value == pytest.approx(0.5, abs=0.05)
    assert published_llmbar(pairs, "").value == pytest.approx(0.5, abs=0.05)
    ten = [row(f"p{n}", [rng.random() for _ in range(10)], n % 10) for n in range(1500)]
    assert published_rewardmath(ten, "").value == pytest.approx(0.1, abs=0.03)
    assert published_rewardmath(ten, "").parts["mrr"] == pytest.approx(sum(1 / k for k in range(1, 11)) / 10, abs=0.03)
