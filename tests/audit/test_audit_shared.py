"""Texts that several users share: nobody is accused for what people agree on, and what was planted is still found."""

import numpy as np
import pytest

from pluralrm.audit import audit
from pluralrm.audit.comparisons import Comparisons, comparisons
from pluralrm.audit.findings import candidate_lengths, candidate_positions, shared_texts
from pluralrm.audit.leaks import _far_below, leak_probes
from pluralrm.audit.probes import Guess, held_out, ridge_folds, trial
from pluralrm.core import Estimate
from tests.construct.worlds import Planted, changed, judged_by_many, opposed, pairs

FULL, SPARSE, GROUPS = (40, 30, 30, 1), (120, 60, 5, 1), (120, 90, 3, 30)


def world(shape: tuple[int, int, int, int], planted: Planted = "nothing", seed: int = 0) -> Comparisons:
    users, prompts, each, groups = shape
    return comparisons(judged_by_many(users, prompts, each=each, planted=planted, seed=seed, groups=groups).items)


def test_users_who_share_texts_are_one_unit() -> None:
    table = world(GROUPS)
    assert table.sharing == "together"
    assert int(table.unit.max()) + 1 == 30
    group = {item.cluster: int(item.cluster[1:]) % 30 for item in table.items}
    units = {item.cluster: int(unit) for item, unit in zip(table.items, table.unit, strict=True)}
    assert len(set(zip((group[name] for name in units), units.values(), strict=True))) == 30


def test_a_chain_of_users_who_share_one_text_each_is_one_unit() -> None:
    items = list(pairs(40).items)
    items[1] = changed(items[1], prompt=items[0].prompt)
    items[2] = changed(items[2], candidates=(items[1].candidates[0], items[2].candidates[1]))
    table = comparisons(items)
    assert table.unit[:3].tolist() == [0, 0, 0]
    assert len(set(table.unit.tolist())) == 38


def test_without_shared_texts_units_are_the_clusters() -> None:
    table = comparisons(pairs(30, each=3).items)
    assert table.sharing == "apart"
    assert (table.unit == table.owner).all()


@pytest.mark.parametrize("shape", [FULL, SPARSE])
def test_nobody_is_predicted_from_a_text_or_a_user_of_the_training(shape: tuple[int, int, int, int]) -> None:
    table = world(shape)
    assert table.sharing == "crossed"
    made = trial(table, relabellings=3)
    for folds, across in zip(made.folds, made.across, strict=True):
        for fold in range(3):
            for other in range(3):
                tested = {n for n in range(len(table.items)) if folds[n] == fold and across[n] == other}
                trained = {n for n in range(len(table.items)) if folds[n] != fold and across[n] != other}
                told = [
                    {text for n in some for text in (*table.items[n].candidates, table.items[n].cluster)}
                    for some in (tested, trained)
                ]
                assert not told[0] & told[1]


def test_crossed_cells_are_predicted_by_a_ridge_on_the_rest() -> None:
    rng = np.random.default_rng(0)
    rows, targets = rng.standard_normal((60, 4)), rng.standard_normal((60, 2))
    folds, across = rng.integers(0, 3, 60), rng.integers(0, 3, 60)
    found = held_out(rows, targets, ridge_folds(rows, folds, across))
    ridge = np.trace(rows.T @ rows) / 60 * np.eye(4)
    for place in range(60):
        kept = (folds != folds[place]) & (across != across[place])
        fitted = np.linalg.solve(rows[kept].T @ rows[kept] + ridge, rows[kept].T @ targets[kept])
        assert found[place] == pytest.approx(rows[place] @ fitted, abs=1e-9)


def test_folds_by_user_alone_would_have_accused_what_people_agree_on() -> None:
    # The reason for all this: the same answers stand on both sides of the split.
    table = world(SPARSE)
    apart = Comparisons(tuple(changed(item, prompt_id=item.id) for item in table.items), table.orders)
    object.__setattr__(apart, "_component", apart.owner)
    [words] = [probe for probe in leak_probes(apart, relabellings=299) if probe.name == "words"]
    assert words.leak
    assert words.accuracy is not None
    assert words.accuracy.value > 0.6
    assert not [probe for probe in leak_probes(table, relabellings=299) if probe.leak]


@pytest.mark.slow
@pytest.mark.parametrize("shape", [FULL, SPARSE, GROUPS])
def test_sound_benchmarks_with_shared_texts_are_accused_in_at_most_5_of_100(shape: tuple[int, int, int, int]) -> None:
    accused = sum(
        any(probe.leak for probe in leak_probes(world(shape, seed=seed), seed=seed, relabellings=299))
        for seed in range(100)
    )
    assert accused <= 9  # 5% of 100, with the luck of a sample (99%)


@pytest.mark.parametrize("shape", [SPARSE, GROUPS])
def test_a_word_in_the_preferred_answers_is_found_where_texts_are_shared(shape: tuple[int, int, int, int]) -> None:
    found = {probe.name for probe in leak_probes(world(shape, "word"), relabellings=299) if probe.leak}
    assert "words" in found


def test_where_two_personas_disagree_on_everything_no_guess_is_possible_by_design() -> None:
    found = audit(opposed(40), relabellings=299)
    verdicts = {probe.name: probe.verdict for probe in found.probes}
    assert verdicts.pop("position") == "none found"
    assert set(verdicts.values()) == {"by design"}
    assert not found.leaks
    assert (
        "% of items share a prompt or an answer with another user"
        in shared_texts(comparisons(opposed(40).items), "user").found
    )


def test_a_guess_far_below_chance_is_a_property_of_the_design() -> None:
    table = world(GROUPS)
    spread = np.random.default_rng(0).normal(0.5, 0.03, 999)
    below, near = (Guess(np.full(len(table.items), value), spread, 0.03) for value in (0.14, 0.47))
    assert _far_below(table, below, 0.005)
    assert not _far_below(table, near, 0.005)


def test_a_benchmark_of_one_shared_answer_is_not_chained_by_it() -> None:
    refusal = "I cannot help with that."
    items = [
        changed(item, candidates=(item.candidates[0], refusal), preferred=n % 2)
        for n, item in enumerate(pairs(60).items)
    ]
    table = comparisons(items)
    assert table.sharing == "crossed"
    assert int(table.unit.max()) + 1 == 60
    assert all(probe.accuracy is not None for probe in leak_probes(table, relabellings=299))


def test_what_is_shared_is_said() -> None:
    table = world(SPARSE)
    found = shared_texts(table, "user")
    assert found.status == "note"
    assert "robust to 120 users and to 60 groups of texts" in found.found
    assert 0.6 < found.measures["agreement"] < 0.85  # type: ignore[operator]
    alone = shared_texts(comparisons(pairs(12).items), "user")
    assert (alone.status, alone.found) == ("ok", "no user shares a prompt or an answer with another")


def test_copies_of_everybody_on_the_same_prompts_shorten_no_interval_of_a_finding() -> None:
    items = [item for item in pairs(60).items for _ in range(4)]
    copies = [changed(item, id=f"{item.id}-{n}", cluster=f"u{n:03}") for n, item in enumerate(items)]
    width: dict[tuple[str, int], float] = {}
    for each in (copies[::4], copies):
        table = comparisons(each)
        for finding in (candidate_positions(table), candidate_lengths(table)):
            for name, measure in finding.measures.items():
                if isinstance(measure, Estimate) and measure.low is not None and measure.high is not None:
                    width[name, len(each)] = measure.high - measure.low
    names = {name for name, _ in width}
    assert len(names) >= 4
    assert {name for name in names if not 0.9 < width[name, len(copies)] / width[name, 60] < 1.35} == set()


def test_the_audit_says_how_many_units_it_rests_on() -> None:
    bench = judged_by_many(20, 12, each=3)
    assert "20 users who share some of 12 texts" in audit(bench, relabellings=299).limits
