"""The papers' formulas against a plain reading of their text, and the reasons given for each difference."""

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pluralrm.core import Failure, Row, Score, Verdict, Vote
from pluralrm.errors import MetricError
from pluralrm.metrics import measure, published, summary
from pluralrm.metrics.official.orders import pointwise_accuracy
from pluralrm.metrics.official.rmgap import Scored, domain_scores
from tests.builders import left_open
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


@given(st.integers(0, 2**30))
def test_rmgap_agrees_with_a_plain_reading_on_random_tables(seed: int) -> None:
    table = _random_table(random.Random(seed))
    found = domain_scores(table)
    assert list(found) == sorted({prompt.domain for prompt in table})
    for domain, scores in found.items():
        expected = _read_plainly([prompt for prompt in table if prompt.domain == domain])
        for value, wanted in zip(scores, expected, strict=True):
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
            scores[rng.choice(keys)] = rng.choice([math.nan, math.inf, -math.inf])
        if rng.random() >= missing:
            table.append(Scored(f"d{record % 3}", f"r{record}", f"g{group}", str(phrasing), RESPONSES[group], scores))
    return table or [Scored("d0", "r0", "g0", "0", "response1", dict.fromkeys(RESPONSES, 0.0))]


def _read_plainly(prompts: list[Scored]) -> tuple[float, float, float]:
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
        pair_hits / pair_count if pair_count else 0.0,
        best_hits / best_count if best_count else 0.0,
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


def test_a_domain_of_failures_alone_counts_as_0() -> None:
    def silent_on_safety(record: str, item: str, name: str) -> float | Failure:
        return Failure("refused") if int(record[1:]) % 4 == 3 else chance(record, item, name)

    told = summary(run(records(8, silent_on_safety)))
    assert told.published["bon"].domains["Safety"] == told.domains["Safety"].value == 0
    assert told.published["bon"].value == pytest.approx(told.metrics["bon"].value)
    assert told.published["bon"].reason == (
        "24 failed items: wrong in the headline, left out by this rule; Safety has no other item: 0 by this rule."
    )
    assert told.published["consistency"].reason == "8 groups with a failed or missing phrasing: 0 in both."


def test_a_constant_scorer_is_perfectly_consistent_as_published() -> None:
    told = published(run(records(4, constant)))
    assert [told[name].value for name in ("pair", "bon", "consistency")] == [0, 0, 1]
    assert told["pair"].reason == "144 tied pairs: half a win in the headline, a loss by this rule."
    assert told["bon"].reason == "48 ties at the top: credit shared in the headline, a loss by this rule."


def test_a_prompt_blind_scorer_is_the_same_by_both() -> None:
    told = summary(run(records(8, prompt_blind)))
    for metric, wanted in (("pair", 0.5), ("bon", 0.25), ("consistency", 1.0)):
        assert told.published[metric].value == pytest.approx(wanted, abs=1e-12)
        assert told.metrics[metric].value == wanted
        assert told.published[metric].reason == "No tie and no failure: the same as the headline."


def test_prb_reasons_count_ties_and_failures() -> None:
    rows = [
        *(row(f"t{n}", [1.0, 1.0]) for n in range(12)),
        row("f", [1.0, Failure("parse")]),
        *(row(f"r{n}", [1.0, 0.0]) for n in range(7)),
    ]
    told = summary(run(rows)).published["accuracy"]
    assert told.reason == "12 ties: credit shared in the headline, a loss by this rule; 1 failed item: wrong in both."
    assert told.value == 7 / 20
    assert measure(run(rows)).value == (7 + 6) / 20
    assert (told.source, told.rule) == ("", "ties lose")
    real = published(replace(run(rows), card=replace(run(rows).card, name="prb")))["accuracy"]
    assert real.source == "Personalized RewardBench"
    assert real.reason == "12 ties: credit shared in the headline, a loss as published; 1 failed item: wrong in both."


def test_the_difference_to_the_headline_is_what_the_reason_says() -> None:
    rows = users(200, 0.6, ties=0.2, failures=0.1)
    ties = sum(found.scores[0] == found.scores[1] for found in rows if not found.failed)
    told = summary(run(rows))
    assert told.metrics["accuracy"].value - (told.published["accuracy"].value or 0) == pytest.approx(ties / 2 / 200)


# ------------------------------------------------------------ rows as models leave them, against the scripts


class _Answer(NamedTuple):
    """One line of a score table as a script has it: every number as the model gave it."""

    domain: str
    chosen: float
    rejected: float


def _kept(value: float) -> Score:
    """A score as a Verdict keeps it."""
    return Verdict((value,)).scores[0]


@given(st.integers(0, 2**30))
def test_random_scores_equal_the_pointwise_script(seed: int) -> None:
    rng = random.Random(seed)
    values = [0.0, 1.0, 1.0, -2.5, math.nan, math.inf, -math.inf]
    table = [
        _Answer(rng.choice(["Art", "Life", "Society"]), rng.choice(values), rng.choice(values))
        for _ in range(rng.randint(1, 40))
    ]
    rows = []
    for place, line in enumerate(table):
        preferred = rng.randrange(2)
        scores = [_kept(line.chosen), _kept(line.rejected)]
        rows.append(row(f"i{place}", scores if preferred == 0 else scores[::-1], preferred, domain=line.domain))
    found = published(run(rows))["accuracy"]
    by_subset = {
        name: (sum(line.chosen > line.rejected for line in table if line.domain == name), names.count(name))
        for names in [[line.domain for line in table]]
        for name in set(names)
    }
    assert found.rule == "ties lose"
    assert found.value == pytest.approx(sum(wins for wins, _ in by_subset.values()) / len(table), abs=1e-12)
    for name, (wins, count) in by_subset.items():
        assert found.domains[name] == pytest.approx(wins / count, abs=1e-12)
    macro = published(run(rows, card=replace(run(rows).card, average="macro")))["accuracy"].value
    assert macro == pytest.approx(sum(wins / count for wins, count in by_subset.values()) / len(by_subset), abs=1e-12)


_REPLIES = ("A", "A", "B", "B", "tie", "parse", "refused")


def _pairwise_script(replies: Sequence[tuple[str, str]]) -> dict[str, float]:
    """The published script on one subset: (what it says with chosen as A, with chosen as B) per item, in file order."""
    random.seed(42)
    right = {"A": 0, "B": 0}
    items = {"A": 0, "B": 0}
    for as_a, as_b in replies:
        answer = "A" if random.random() < 0.5 else "B"
        said = as_a if answer == "A" else as_b
        prediction = said if said in {"A", "B"} else "A"
        items[answer] += 1
        right[answer] += prediction == answer
    found = {"all": (right["A"] + right["B"]) / len(replies)}
    return found | {place: right[place] / items[place] if items[place] else 0.0 for place in right}


def _judged_row(item: str, said: Sequence[str], preferred: int, **changes: object) -> Row:
    """A row of a judge asked in both orders: `said` with the preferred answer as A, and as B."""
    both = ((preferred, 1 - preferred), (1 - preferred, preferred))
    votes = [
        Vote(order, str(order["AB".index(word)]) if word in {"A", "B"} else word)
        for order, word in zip(both, said, strict=True)
    ]
    shares = [sum(0.5 if vote.outcome == "tie" else vote.outcome == str(place) for vote in votes) for place in (0, 1)]
    score = 0.5 if votes[0].outcome != votes[1].outcome else 1.0
    scores: list[Score] = [score if share >= 1 else 1 - score for share in shares]
    if any(word in {"parse", "refused"} for word in said):
        scores = [Failure("parse")] * 2
    return row(item, scores, preferred, votes=tuple(votes), **changes)


@given(st.integers(0, 2**30))
def test_random_votes_equal_the_pairwise_script(seed: int) -> None:
    rng = random.Random(seed)
    subsets = {
        name: [(rng.choice(_REPLIES), rng.choice(_REPLIES)) for _ in range(rng.randint(1, 30))]
        for name in ("Art", "Life", "Society")[: rng.randint(1, 3)]
    }
    rows = [
        _judged_row(f"{name}{place}", said, rng.randrange(2), domain=name)
        for name, replies in subsets.items()
        for place, said in enumerate(replies)
    ]
    found = published(run(rows))["accuracy"]
    wanted = {name: _pairwise_script(replies) for name, replies in subsets.items()}
    for name, scores in wanted.items():
        assert found.domains[name] == pytest.approx(scores["all"], abs=1e-12)
        alone = published(run([one for one in rows if one.domain == name]))["accuracy"]
        assert alone.first is not None
        assert alone.second is not None
        assert (alone.first.accuracy or 0.0) == pytest.approx(scores["A"], abs=1e-12)
        assert (alone.second.accuracy or 0.0) == pytest.approx(scores["B"], abs=1e-12)
        assert alone.first.items + alone.second.items == len(subsets[name])
    assert found.value == pytest.approx(
        sum(wanted[name]["all"] * len(replies) for name, replies in subsets.items()) / len(rows), abs=1e-12
    )
    macro = published(run(rows, card=replace(run(rows).card, average="macro")))["accuracy"].value
    assert macro == pytest.approx(sum(scores["all"] for scores in wanted.values()) / len(wanted), abs=1e-12)


def test_a_judge_that_always_says_a_gets_about_50() -> None:
    rows = [_judged_row(f"i{place}", ("A", "A"), place % 2) for place in range(60)]
    told = summary(run(rows))
    found = told.published["accuracy"]
    assert told.metrics["accuracy"].value == 0.5
    assert found.value == pytest.approx(sum(_drawn_first(60)) / 60)
    assert 0.35 < (found.value or 0) < 0.65
    assert found.first is not None
    assert found.second is not None
    assert (found.first.accuracy, found.second.accuracy) == (1.0, 0.0)
    assert found.rule == "one order"
    assert found.reason == (
        f"one order per item, drawn with seed 42: 100.0 with the preferred answer first ({found.first.items} items), "
        f"0.0 with the preferred answer second ({found.second.items} items)."
    )


def _drawn_first(items: int) -> list[bool]:
    draws = random.Random(42)
    return [draws.random() < 0.5 for _ in range(items)]


def test_a_draw_that_was_not_asked_is_counted() -> None:
    rows = [
        replace(one, votes=one.votes[:1])  # asked with the preferred answer first alone
        for one in (_judged_row(f"i{place}", ("A", "B"), place % 2) for place in range(40))
    ]
    found = published(run(rows))["accuracy"]
    missing = 40 - sum(_drawn_first(40))
    assert found.value == 1.0
    assert f"the drawn order was not asked on {missing} of 40 items: the order asked counts." in found.reason


def test_a_judge_with_open_items_has_no_published_number() -> None:
    rows = [_judged_row(f"i{place}", ("A", "A"), 0) for place in range(9)]
    found = published(run(rows, items=10, complete=False))["accuracy"]
    assert (found.value, dict(found.domains)) == (None, {"Bread": None})
    assert found.reason.startswith("1 item still open")


def test_an_unfinished_run_has_no_published_number() -> None:
    rows = records(6, chance)
    assert all(one.value is not None for one in published(run(rows)).values())
    part = left_open(run(rows), {row.item for row in rows[:5]})
    for one in published(part).values():
        assert (one.value, set(one.domains.values())) == (None, {None})
        assert "unfinished, 5 of its items are open" in one.reason


def _ranking_script(prompts: Sequence[Row], keys: Sequence[str]) -> list[dict[str, float]]:
    """The published judge of four on all prompts in file order: one shuffle each, 4 to 1, as shown where unreadable."""
    draws = random.Random(0)
    table = []
    for prompt in prompts:
        order = list(range(4))
        draws.shuffle(order)
        shown = [keys[place] for place in order]
        said = {
            tuple(prompt.candidate_ids[place] for place in vote.order): [
                prompt.candidate_ids[int(place)] for place in vote.outcome.split(">") if place.isdecimal()
            ]
            for vote in prompt.votes
        }
        ranking = said[tuple(shown)] or shown
        table.append({key: 4.0 - ranking.index(key) for key in keys})
    return table


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**30))
def test_random_rankings_equal_the_script(seed: int) -> None:
    rng = random.Random(seed)
    rows = [_ranked(found, rng) for found in records(rng.randint(1, 5), chance, seed=seed)]
    found = published(run(rows))
    table = [
        Scored(
            one.domain,
            one.tags["record"],
            one.tags["group"],
            one.tags["phrasing"],
            one.candidate_ids[one.best[0]],
            scores,
        )
        for one, scores in zip(rows, _ranking_script(rows, sorted(RESPONSES)), strict=True)
    ]
    for domain in {one.domain for one in rows}:
        wanted = _read_plainly([prompt for prompt in table if prompt.domain == domain])
        values = [found[name].domains[domain] for name in ("pair", "bon", "consistency")]
        assert values == pytest.approx(wanted, abs=1e-12)


def _ranked(found: Row, rng: random.Random) -> Row:
    """Return the row of a judge that was asked in all orders, favours what it is shown first, and fails at times."""
    votes = []
    for order in itertools.permutations(range(4)):
        said = rng.sample(order, 4) if rng.random() < 0.5 else list(order)
        votes.append(Vote(order, "parse" if rng.random() < 0.1 else ">".join(map(str, said))))
    return replace(found, votes=tuple(votes))


def test_a_ranking_of_part_of_the_file_has_no_published_number() -> None:
    rows = [_ranked(found, random.Random(0)) for found in records(2, chance)]
    found = published(run(rows, whole=False))
    assert {one.value for one in found.values()} == {None}
    assert "the whole file" in found["bon"].reason


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**30))
def test_an_unreadable_rating_counts_5_as_published_and_fails_in_the_headline(seed: int) -> None:
    rng = random.Random(seed)
    rows = [
        replace(
            one,
            scores=tuple(
                Failure("parse", "no number") if rng.random() < 0.1 else float(rng.randint(1, 10)) for _ in one.scores
            ),
        )
        for one in records(rng.randint(1, 5), chance, seed=seed)
    ]
    card = replace(run(rows).card, name="rmgap")
    found = published(run(rows, model="judge:m,style=pointwise", card=card))
    table = [
        Scored(
            one.domain,
            one.tags["record"],
            one.tags["group"],
            one.tags["phrasing"],
            one.candidate_ids[one.best[0]],
            {
                key: 5.0 if isinstance(score, Failure) else score
                for key, score in zip(one.candidate_ids, one.scores, strict=True)
            },
        )
        for one in rows
    ]
    for domain in {one.domain for one in rows}:
        wanted = _read_plainly([prompt for prompt in table if prompt.domain == domain])
        values = [found[name].domains[domain] for name in ("pair", "bon", "consistency")]
        assert values == pytest.approx(wanted, abs=1e-12)
    unread = sum(isinstance(score, Failure) for one in rows for score in one.scores)
    assert found["bon"].reason.startswith(f"{unread} unreadable rating") == bool(unread)
    # Nothing is filled in for another model, or for items that are not the paper's.
    other = published(run(rows, model="judge:m,style=verifier", card=card))
    assert other == published(run(rows, model="hf:m", card=card))
    assert "unreadable" not in published(run(rows, model="judge:m,style=pointwise"))["bon"].reason


def test_infinite_scores_are_compared_as_published_and_fail_in_the_headline() -> None:
    rows = [row("a", [1.0, Failure("nonfinite", "-inf")]), row("b", [Failure("nonfinite", "inf"), 2.0])]
    rows += [row("c", [Failure("nonfinite", "nan"), 0.0]), row("d", [Failure("crash"), 0.0])]
    told = summary(run(rows))
    assert told.metrics["accuracy"].value == 0
    assert told.published["accuracy"].value == 0.5
    assert told.published["accuracy"].reason == (
        "2 items with an infinite score: failed in the headline, compared by this rule; 2 failed items: wrong in both."
    )


def test_wider_items_have_no_published_formula() -> None:
    assert published(run([row("i", [1.0, 0.0, 0.5])])) == {}


def test_published_consistency_needs_the_tags() -> None:
    rows = users(5, 0.5)
    with pytest.raises(MetricError, match="has no tag 'record'"):
        published(run(rows, card=run(records(1, chance)).card))
