"""The papers' formulas against a plain reading of their text, and the reasons given for each difference."""

import itertools
import math
import random
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pluralrm.core import Failure
from pluralrm.errors import MetricError
from pluralrm.metrics import measure, published, summary
from pluralrm.metrics.official.prb import pointwise_accuracy
from pluralrm.metrics.official.rmgap import Scored, domain_scores
from tests.metrics.rows import RESPONSES, chance, constant, prompt_blind, records, row, run, users

numbers = st.sampled_from([0.0, 0.5, 1.0, -2.0, math.nan])


@settings(deadline=None)
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=60))
def test_prb_counts_by_hand(pairs: list[tuple[float, float]]) -> None:
    wins = 0
    for chosen, rejected in pairs:
        if math.isnan(chosen) or math.isnan(rejected):
            continue
        if chosen - rejected > 0:
            wins += 1
    chosen_scores, rejected_scores = zip(*pairs, strict=True)
    assert abs(pointwise_accuracy(chosen_scores, rejected_scores) - wins / len(pairs)) < 1e-12


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**30))
def test_rmgap_agrees_with_a_plain_reading_on_random_tables(seed: int) -> None:
    table = _random_table(random.Random(seed))
    found = domain_scores(table)
    assert list(found) == sorted({prompt.domain for prompt in table})
    for domain, scores in found.items():
        expected = _read_plainly([prompt for prompt in table if prompt.domain == domain])
        for value, wanted in zip(scores, expected, strict=True):
            assert (value is None) == (wanted is None)
            if value is not None and wanted is not None:
                assert abs(value - wanted) < 1e-12


def _random_table(rng: random.Random) -> list[Scored]:
    """Ties, NaN and missing prompts, at rates that differ from table to table."""
    ties, gaps, missing = rng.choice([0, 0.3, 0.8]), rng.choice([0, 0.05, 0.5]), rng.choice([0, 0.2])
    table: list[Scored] = []
    for record, group, phrasing in itertools.product(range(rng.randint(1, 6)), range(4), range(3)):
        keys = rng.sample(RESPONSES, 4)
        scores = {key: float(rng.randint(0, 1)) if rng.random() < ties else rng.random() for key in keys}
        if phrasing and rng.random() < 0.6:
            scores = dict(table[-1].scores) if table else scores
        if rng.random() < gaps:
            scores[rng.choice(keys)] = math.nan
        if rng.random() >= missing:
            table.append(Scored(f"d{record % 3}", f"r{record}", f"g{group}", str(phrasing), RESPONSES[group], scores))
    return table or [Scored("d0", "r0", "g0", "0", "response1", dict.fromkeys(RESPONSES, 0.0))]


def _read_plainly(prompts: list[Scored]) -> tuple[float | None, float | None, float]:
    """The text of the paper in loops: count pairs, count best-of-four, compare rankings position by position."""
    pair_hits = pair_count = best_hits = best_count = 0
    for prompt in prompts:
        if any(math.isnan(score) for score in prompt.scores.values()):
            continue
        beaten = 0
        for key in ("response1", "response2", "response3", "response4"):
            if key == prompt.winner:
                continue
            pair_count += 1
            if prompt.scores[key] < prompt.scores[prompt.winner]:
                pair_hits += 1
                beaten += 1
        best_count += 1
        best_hits += beaten == 3
    alike = 0
    names = {(prompt.record, prompt.group) for prompt in prompts}
    for name in names:
        members = [prompt for prompt in prompts if (prompt.record, prompt.group) == name]
        orders = [_bubble_sorted(prompt.scores) for prompt in members]
        if len(members) == 3 and all(order is not None for order in orders):
            alike += all(orders[0][place] == order[place] for order in orders for place in range(4))  # type: ignore[index]
    return (
        pair_hits / pair_count if pair_count else None,
        best_hits / best_count if best_count else None,
        alike / len(names),
    )


def _bubble_sorted(scores: Mapping[str, float]) -> list[str] | None:
    order = ["response1", "response2", "response3", "response4"]  # already by key, and a swap needs strictly more
    if any(math.isnan(scores[key]) for key in order):
        return None
    for _ in range(3):
        for place in range(3):
            if scores[order[place]] < scores[order[place + 1]]:
                order[place], order[place + 1] = order[place + 1], order[place]
    return order


def test_the_macro_mean_is_over_domains() -> None:
    rows = records(7, chance)
    domains = {name: published(run(rows))["pair"].domains[name] for name in ("Chat", "Writing", "Reasoning", "Safety")}
    assert published(run(rows))["pair"].value == pytest.approx(sum(v for v in domains.values() if v) / 4, abs=1e-12)


def test_a_domain_of_failures_alone_has_no_published_number() -> None:
    def silent_on_safety(record: str, item: str, name: str) -> float | Failure:
        return Failure("refused") if int(record[1:]) % 4 == 3 else chance(record, item, name)

    told = summary(run(records(8, silent_on_safety)))
    assert told.published["bon"].domains["Safety"] is None
    assert told.domains["Safety"].value == 0
    kept = [told.published["bon"].domains[name] or 0.0 for name in ("Chat", "Reasoning", "Writing")]
    flattered = told.published["bon"].value or 0.0
    assert flattered == pytest.approx(sum(kept) / 3)
    assert flattered > told.metrics["bon"].value
    assert told.published["bon"].reason == "24 failed items: wrong here, left out as published."
    assert told.published["consistency"].reason == "8 groups with a failed or missing phrasing: 0 in both."


def test_a_constant_scorer_is_perfectly_consistent_as_published() -> None:
    told = published(run(records(4, constant)))
    assert [told[name].value for name in ("pair", "bon", "consistency")] == [0, 0, 1]
    assert told["pair"].reason == "144 tied pairs: half a win here, a loss as published."
    assert told["bon"].reason == "48 ties at the top: credit shared here, losses as published."


def test_a_prompt_blind_scorer_is_the_same_by_both() -> None:
    told = summary(run(records(8, prompt_blind)))
    for metric, wanted in (("pair", 0.5), ("bon", 0.25), ("consistency", 1.0)):
        assert told.published[metric].value == pytest.approx(wanted, abs=1e-12)
        assert told.metrics[metric].value == wanted
        assert told.published[metric].reason == "No tie and no failure: the same here and as published."


def test_prb_reasons_count_ties_and_failures() -> None:
    rows = [
        *(row(f"t{n}", [1.0, 1.0]) for n in range(12)),
        row("f", [1.0, Failure("parse")]),
        *(row(f"r{n}", [1.0, 0.0]) for n in range(7)),
    ]
    told = summary(run(rows)).published["accuracy"]
    assert told.reason == "12 ties: credit shared here, losses as published; 1 failed item: wrong in both."
    assert told.value == 7 / 20
    assert measure(run(rows)).value == (7 + 6) / 20
    assert told.source == "Personalized RewardBench"


def test_the_difference_to_the_headline_is_what_the_reason_says() -> None:
    rows = users(200, 0.6, ties=0.2, failures=0.1)
    ties = sum(found.scores[0] == found.scores[1] for found in rows if not found.failed)
    told = summary(run(rows))
    assert told.metrics["accuracy"].value - (told.published["accuracy"].value or 0) == pytest.approx(ties / 2 / 200)


def test_wider_items_have_no_published_formula() -> None:
    assert published(run([row("i", [1.0, 0.0, 0.5])])) == {}


def test_published_consistency_needs_the_tags() -> None:
    rows = users(5, 0.5)
    with pytest.raises(MetricError, match="has no tag 'record'"):
        published(run(rows, card=run(records(1, chance)).card))
