"""The arithmetic behind the probes, by other means: another library, an exact test, plain enumeration."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import binom, binomtest
from sklearn.linear_model import LogisticRegression, Ridge
from statsmodels.stats.multitest import multipletests

from pluralrm.audit.comparisons import comparisons
from pluralrm.audit.leaks import ERROR_RATE, NAMES, leak_probes
from pluralrm.audit.probes import (
    PENALTY,
    POWER,
    by_rule,
    by_training,
    compressed,
    held_out,
    lengths,
    ridge_folds,
    trial,
    words,
)
from tests.construct.worlds import pairs, records


def test_held_out_predictions_are_those_of_ridge_regressions_on_the_other_folds() -> None:
    rng = np.random.default_rng(0)
    rows, targets, folds = rng.normal(size=(40, 6)), rng.normal(size=(40, 3)), rng.permutation(40) % 5
    penalty = PENALTY * (rows**2).sum() / 40
    expected = np.empty_like(targets)
    for fold in range(5):
        fit = Ridge(alpha=penalty, fit_intercept=False).fit(rows[folds != fold], targets[folds != fold])
        expected[folds == fold] = fit.predict(rows[folds == fold])
    np.testing.assert_allclose(held_out(rows, targets, ridge_folds(rows, folds)), expected, atol=1e-10)


def test_fewer_columns_give_the_same_predictions() -> None:
    rng = np.random.default_rng(1)
    rows, targets, folds = rng.normal(size=(12, 50)), rng.normal(size=(12, 2)), np.arange(12) % 4
    assert compressed(rows).shape == (12, 12)
    fewer, every = (held_out(values, targets, ridge_folds(values, folds)) for values in (compressed(rows), rows))
    np.testing.assert_allclose(fewer, every, atol=1e-7)


def test_rows_that_repeat_need_no_columns_of_their_own() -> None:
    rng = np.random.default_rng(2)
    distinct = rng.normal(size=(5, 50))
    rows = distinct[rng.integers(0, 5, 60)]
    targets, folds, across = rng.normal(size=(60, 2)), rng.integers(0, 3, 60), rng.integers(0, 3, 60)
    assert compressed(rows).shape == (60, 5)
    assert compressed(sparse.csr_array(rows)).shape == (60, 5)
    for aside in (None, across):
        fewer, every = (
            held_out(values, targets, ridge_folds(values, folds, aside)) for values in (compressed(rows), rows)
        )
        np.testing.assert_allclose(fewer, every, atol=1e-7)


def test_contrasts_within_an_item_are_orthonormal_and_sum_to_nothing() -> None:
    for width in (2, 3, 4):
        contrasts = comparisons(pairs(5, width=width).items).contrasts.toarray()
        np.testing.assert_allclose(contrasts.T @ contrasts, np.eye(5 * (width - 1)), atol=1e-12)
        np.testing.assert_allclose(contrasts.sum(axis=0), 0, atol=1e-12)


def test_a_cluster_is_never_on_both_sides_of_a_fold() -> None:
    table = comparisons(pairs(17, each=3).items)
    for folds in trial(table, relabellings=1).folds:
        places = {(cluster, fold) for cluster, fold in zip(table.clusters, folds.tolist(), strict=True)}
        assert len(places) == 17
        assert {fold for _, fold in places} == set(range(5))


def test_the_p_of_a_rule_is_that_of_the_exact_binomial_test() -> None:
    for seed in range(4):
        table = comparisons(pairs(50, "length", rate=0.62, seed=seed).items)
        guess = by_rule(table, trial(table, relabellings=9_999).labels, lengths(table))
        hits = guess.credits.sum()
        if hits != round(hits):
            continue  # two answers of one length: half a hit
        # The better of longest and shortest, so the test is two-sided.
        assert guess.p == pytest.approx(binomtest(round(hits), 50).pvalue, abs=0.015)


def test_relabelling_turns_whole_clusters_and_leaves_no_other_choice() -> None:
    table = comparisons(pairs(3, each=2).items)
    seen = {tuple(column) for column in table.relabelled(500, 0).T.tolist()}
    turned = {
        tuple(np.where(np.repeat(signs, 2), 1 - table.labels, table.labels).tolist())
        for signs in itertools.product([False, True], repeat=3)
    }
    assert seen == turned


def test_relabelling_a_record_permutes_its_answers() -> None:
    table = comparisons(records(1).items)
    seen = {tuple(column) for column in table.relabelled(2_000, 0).T.tolist()}
    assert len(seen) == math.factorial(4)


@given(st.integers(2, 4), st.lists(st.integers(0, 2), min_size=12, max_size=12))
def test_ties_share_the_credit(width: int, drawn: list[int]) -> None:
    table = comparisons(pairs(3, width=width).items)
    scores = np.array(drawn[: 3 * width], dtype=np.float64)
    earned = table.credit(scores[:, None], table.labels[:, None])[:, 0]
    for place, label in enumerate(table.labels.tolist()):
        own = scores[place * width : (place + 1) * width]
        best = np.flatnonzero(own == own.max()).tolist()
        assert earned[place] == (1 / len(best) if label in best else 0)


def test_adjusted_p_values_are_holms_over_all_probes() -> None:
    for bench in (pairs(40, "word", rate=0.3), records(10, cue=0.3)):
        found = leak_probes(comparisons(bench.items), relabellings=299)
        raw = [1.0 if probe.p is None else probe.p for probe in found]
        adjusted = multipletests(raw, method="holm")[1]
        for probe, expected in zip(found, adjusted, strict=True):
            assert probe.adjusted_p is None or probe.adjusted_p == pytest.approx(expected)
            assert probe.verdict == "by design" or (probe.verdict == "none found") == (expected >= ERROR_RATE)


def test_what_could_be_found_is_near_the_exact_power_of_a_binomial_test() -> None:
    for users in (60, 200):
        probe = leak_probes(comparisons(pairs(users).items), relabellings=999)[0]
        assert probe.name == "length"
        # Two-sided, as the better of longest and shortest is picked.
        needed = int(binom.isf(ERROR_RATE / len(NAMES) / 2, users, 0.5)) + 1
        assert probe.detectable is not None
        assert binom.sf(needed - 1, users, probe.detectable) == pytest.approx(POWER, abs=0.12)


def test_fewer_relabellings_find_the_same_truth_sooner() -> None:
    table = comparisons(pairs(40, "word").items)
    features = words(table).values
    few, many = (by_training(table, trial(table, relabellings=times), features) for times in (9, 99))
    np.testing.assert_array_equal(few.credits, many.credits)
    assert few.p == 0.1
    assert many.p == 0.01


@pytest.mark.slow
def test_the_ridge_classifier_is_as_good_as_logistic_regression() -> None:
    table = comparisons(pairs(150, "word", rate=0.5).items)
    features, shared = words(table).values, trial(table, relabellings=1)
    rows = (table.contrasts.T @ features).toarray()
    side = table.labels == 0
    hits = []
    for folds in shared.folds:
        for fold in range(5):
            train, test = folds != fold, folds == fold
            both = np.vstack([rows[train], -rows[train]])
            fit = LogisticRegression(fit_intercept=False).fit(both, np.r_[side[train], ~side[train]])
            hits += (fit.predict(rows[test]) == side[test]).tolist()
    # The first contrast of a pair is the first candidate minus the second.
    assert by_training(table, shared, features).credits.mean() == pytest.approx(np.mean(hits), abs=0.04)
