"""Planted artefacts are said, clean sets are not accused, and nothing but the items can move a number."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from scipy.stats import binomtest

from pluralrm import load_benchmark
from pluralrm.audit import Audit, Probe, audit, found_from, limits, reading
from pluralrm.audit.comparisons import comparisons
from pluralrm.audit.leaks import ANOTHER, NAMES, leak_probes
from pluralrm.audit.probes import by_rule, lengths, trial
from pluralrm.core import Benchmark
from tests.construct.worlds import MARK, Planted, changed, pairs, records, with_tastes

CLEAN: dict[str, Callable[[int], Benchmark]] = {
    "one item a user": lambda seed: pairs(60, seed=seed),
    "three items a user": lambda seed: pairs(20, seed=seed, each=3),
    "users with tastes": lambda seed: with_tastes(20, seed=seed),
    "tastes among four answers": lambda seed: with_tastes(20, seed=seed, each=3, width=4),
    "records": lambda seed: records(12, seed=seed),
}


def probes(benchmark: Benchmark, **options: Any) -> dict[str, Probe]:
    return {probe.name: probe for probe in leak_probes(comparisons(benchmark.items), **options)}


def accused(benchmark: Benchmark, **options: int) -> set[str]:
    return {name for name, probe in probes(benchmark, **options).items() if probe.verdict in {"leak", "shortcut"}}


@pytest.mark.parametrize("name", ["pocket-prb", "pocket-rmgap"])
def test_the_shipped_benchmarks_do_not_leak(name: str) -> None:
    found = audit(load_benchmark(name))
    assert not found.leaks
    assert "show only gross leaks" in found.limits


def test_a_planted_length_is_said() -> None:
    found = audit(pairs(120, "length"), relabellings=299)
    length = {probe.name: probe for probe in found.leaks}["length"]
    assert length.rule == "the longest"
    assert length.accuracy is not None
    assert length.accuracy.low is not None
    assert length.accuracy.high is not None
    assert length.accuracy.low < 0.75 < length.accuracy.high
    assert found.verdict.startswith("Answers alone give 7")
    assert "only accuracy above that is evidence of using the user" in found.verdict


def test_a_planted_word_is_said_and_named() -> None:
    found = probes(pairs(120, "word", rate=0.7), relabellings=299)
    assert found["words"].leak
    assert found["words"].detail.startswith(f"'{MARK}' 67% against 0%")
    assert found["words"].accuracy is not None
    # It tells in 70% of the items, and a coin is right in half of the others.
    assert found["words"].accuracy.value == pytest.approx(0.85, abs=0.06)
    assert not found["length"].leak


def test_an_answer_that_repeats_the_question_is_said() -> None:
    found = probes(pairs(80, "question"), relabellings=299)
    assert found["overlap"].leak
    assert found["overlap"].reads == "prompt and answers"


def test_answers_that_stand_first_too_often_are_said() -> None:
    found = probes(pairs(80, "place"), relabellings=299)
    assert [name for name, probe in found.items() if probe.leak] == ["position"]
    assert found["position"].rule == "number 1"


def test_four_candidates_are_guessed_by_the_highest_score() -> None:
    found = probes(pairs(100, "word", rate=0.8, width=4), relabellings=299)
    assert found["words"].leak
    assert found["words"].accuracy is not None
    assert found["words"].accuracy.value == pytest.approx(0.8 + 0.2 / 4, abs=0.08)


def test_items_with_two_and_with_four_candidates_may_be_mixed() -> None:
    wide = [changed(item, id=f"w{item.id}") for item in pairs(50, "length", width=4, seed=1).items]
    mixed = Benchmark(pairs(1).card, (*pairs(50, "length").items, *wide))
    found = audit(mixed, relabellings=299)
    assert found.chance == pytest.approx((0.5 + 0.25) / 2)
    assert "length" in {probe.name for probe in found.leaks}


def test_a_clean_set_is_said_to_be_clean() -> None:
    found = audit(pairs(120), relabellings=299)
    assert not found.leaks
    assert found.verdict == "No probe is shown to beat chance (50.0)."


def test_what_even_a_perfect_guess_would_not_show_is_said_as_that() -> None:
    found = [Probe(f"p{place}", "answers", "none found", detectable=end) for place, end in enumerate((0.93, 1.0, 1.0))]
    assert [found_from(probe) for probe in found] == ["93.0", "never", "never"]
    told = limits(found, 0.5, "9 users")
    assert "right in 93.0% of items or more; of 2 of the 3 kinds of guess, even a perfect one may go unseen." in told
    assert limits(found[1:], 0.5, "9 users") == "9 users show no leak at all: even a perfect guess might go unseen."
    assert "never: in so few users even a perfect guess" in reading(audit(pairs(9), relabellings=299))


def test_a_leak_found_against_the_odds_is_not_said_to_be_unseen() -> None:
    leak = Probe("length", "answers", "leak", detectable=1.0, rule="the longest")
    unseen = Probe("words", "answers", "none found", detectable=1.0)
    assert [found_from(probe) for probe in (leak, unseen)] == ["–", "never"]
    told = limits([leak, unseen], 0.5, "10 users")
    assert told == "10 users are few: even a perfect guess might go unseen; nevertheless found: length: the longest."
    seen = Probe("style", "answers", "none found", detectable=0.9)
    assert limits([leak, seen], 0.5, "10 users").endswith("; nevertheless found: length: the longest.")


@pytest.mark.parametrize(
    "kind", [kind if place == 0 else pytest.param(kind, marks=pytest.mark.slow) for place, kind in enumerate(CLEAN)]
)
def test_clean_sets_are_rarely_accused(kind: str) -> None:
    # 8 audits at a rate of 5%: more than two have a chance of 1 in 170.
    assert sum(bool(accused(CLEAN[kind](seed), seed=seed, relabellings=299)) for seed in range(8)) <= 2


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", CLEAN)
def test_the_family_error_rate_is_held(kind: str) -> None:
    # 400 audits at a rate of 5%: more than 31 have a chance of under 1 in 200.
    assert sum(bool(accused(CLEAN[kind](seed), seed=seed, relabellings=299)) for seed in range(400)) <= 31


@pytest.mark.slow
@pytest.mark.parametrize(("planted", "name", "rate"), [("length", "length", 0.75), ("word", "words", 0.7)])
def test_planted_artefacts_are_hardly_ever_missed(planted: Planted, name: str, rate: float) -> None:
    found = [accused(pairs(120, planted, rate=rate, seed=seed), seed=seed, relabellings=299) for seed in range(100)]
    assert sum(name in names for names in found) >= 98


@pytest.mark.slow
@pytest.mark.parametrize(("planted", "rate"), [("nothing", 0.0), ("word", 0.5)])
def test_the_intervals_of_classifiers_cover_although_folds_share_their_training(planted: Planted, rate: float) -> None:
    found = [
        probes(pairs(80, planted, rate=rate, seed=seed), relabellings=299)["words"].accuracy for seed in range(150)
    ]
    known = [estimate for estimate in found if estimate is not None and estimate.low is not None]
    truth = sum(estimate.value for estimate in known) / len(known)
    inside = [estimate.low <= truth <= estimate.high for estimate in known if estimate.low and estimate.high]
    assert 0.91 <= sum(inside) / 150 <= 0.99


def test_a_users_own_taste_is_no_leak() -> None:
    tables = [comparisons(with_tastes(12, seed=seed, each=12).items) for seed in range(40)]
    found = [by_rule(table, trial(table, relabellings=299).labels, lengths(table)) for table in tables]
    # 40 tests at a rate of 5%: more than six have a chance of under 1 in 70.
    assert sum(guess.p <= 0.05 for guess in found) <= 6
    # As independent witnesses, twelve items of one user who always wants the longest would convict nearly half.
    assert sum(binomtest(round(guess.credits.sum()), 144).pvalue <= 0.05 for guess in found) >= 15


def test_where_every_answer_wins_equally_often_answers_alone_are_at_chance_by_design() -> None:
    found = probes(records(12), relabellings=299)
    by_design = [name for name, probe in found.items() if probe.verdict == "by design"]
    assert by_design == ["length", "style", "words", "letter groups", "topics"]
    assert all(probe.accuracy is not None for probe in found.values())
    assert {found[name].accuracy.value for name in by_design} == {0.25}  # type: ignore[union-attr]


def test_a_cue_in_the_prompt_is_a_shortcut() -> None:
    found = audit(records(40, cue=0.9), relabellings=299)
    cued = {probe.name for probe in found.probes if probe.verdict == "shortcut"}
    assert cued >= {"matching style", "cue words"}
    assert not found.leaks
    assert "evidence of understanding what a prompt asks for" in found.verdict


def test_a_record_that_lost_a_prompt_is_guessed_with_its_answers_relabelled_together() -> None:
    table = comparisons(records(8).items[1:])
    assert not table.balanced
    labels = table.relabelled(50, 0)
    same = [place for place, item in enumerate(table.items) if item.cluster == "r0003"]
    wanted = [table.items[place].tags["group"] for place in same]
    for column in labels.T:
        # Whatever the relabelling, prompts that wanted one answer want one answer, and others another.
        assert len(set(zip(wanted, column[same].tolist(), strict=True))) == 4


def test_the_order_of_the_items_changes_nothing() -> None:
    bench = pairs(40, "length", each=2)
    turned = list(bench.items)
    random.Random(0).shuffle(turned)
    again = audit(replace(bench, items=tuple(turned)), seed=3, relabellings=299).to_json()
    assert again == audit(bench, seed=3, relabellings=299).to_json()


def test_where_the_candidates_stand_changes_the_position_alone() -> None:
    bench = pairs(40, "word", each=2)
    turned = [
        changed(item, candidates=item.candidates[::-1], preferred=1 - wanted)
        for item in bench.items
        if (wanted := item.preferred) is not None
    ]
    before, after = probes(bench, relabellings=299), probes(replace(bench, items=tuple(turned)), relabellings=299)
    assert [name for name in NAMES if before[name] != after[name]] == ["position"]


def test_the_same_seed_says_the_same_and_another_draws_other_folds() -> None:
    bench = pairs(40, "word")
    first, again, other = (audit(bench, seed=seed, relabellings=299).to_json() for seed in (0, 0, 1))
    assert first == again
    assert first["probes"] != other["probes"]


def test_three_clusters_are_too_few_to_guess() -> None:
    found = audit(pairs(3))
    assert {probe.verdict for probe in found.probes} == {"not available"}
    assert found.verdict == "Nothing was guessed: 3 labelled clusters, wanted 4 or more."
    assert not found.limits


def test_four_clusters_can_show_nothing_and_the_audit_says_so() -> None:
    found = audit(pairs(4, "length", rate=1.0), relabellings=299)
    assert not found.leaks
    assert found.limits == "4 users show no leak at all: even a perfect guess might go unseen."


def test_answers_that_do_not_differ_are_guessed_at_chance() -> None:
    items = tuple(changed(item, candidates=("Yes.", "Yes.")) for item in pairs(12).items)
    found = probes(replace(pairs(12), items=items), relabellings=299)
    rest = [probe for name, probe in found.items() if name != "position"]
    assert {probe.accuracy.value for probe in rest if probe.accuracy} == {0.5}
    assert {probe.p for probe in rest} == {1.0}


def test_relabellings_too_few_to_find_anything_are_refused() -> None:
    with pytest.raises(ValueError, match="wanted at least 200"):
        audit(pairs(12), relabellings=99)


def test_the_audit_knows_its_family() -> None:
    found: Audit = audit(pairs(30), relabellings=299)
    assert tuple(probe.name for probe in found.probes) == (*NAMES, ANOTHER)
    assert found.error_rate == 0.05
