"""How well a rule, or a classifier in cross-validation, picks the preferred candidate: as labelled, and relabelled.

The whole cross-validation is repeated for every relabelling, so that the p-value is exact: folds share training data,
and a binomial test on their results would promise too much. What makes that affordable is a ridge classifier: its
fits to a thousand relabellings are one product with one factorised matrix.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, cholesky
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped] # it comes with scikit-learn

from pluralrm.audit.comparisons import Comparisons
from pluralrm.stats.clusters import FloatArray, IntArray

FOLDS = 5
REPEATS = 3
CROSSED_FOLDS = 3
"""Each way, where texts cross clusters: nine cells, each predicted from the four that share nothing with it."""
RELABELLINGS = 999
PENALTY = 1.0
"""The ridge in units of the mean squared length of a row, so that no labels are needed to choose it."""
_CELLS = 4_000_000
"""Candidates times relabellings fitted at once: bounds the memory at the size of RMGAP."""


class Guess(NamedTuple):
    """What guessing earned: per item under the true labels, and on average under each relabelling."""

    credits: FloatArray
    """(n,)"""
    relabelled: FloatArray
    """(relabellings,)"""
    noise: float
    """How much the mean credit of one fixed guess varies from relabelling to relabelling."""
    choices: int = 1
    """From how many guesses the best was picked."""
    rule: str = ""
    widening: float = 1.0
    """How many times larger the variance of the mean credit is than the spread between clusters tells.

    Clusters share what a classifier learned from them, so their credits go together; the relabellings show how much.
    """

    @property
    def p(self) -> float:
        """Return how often labels that mean nothing are guessed as well: one-sided, never 0."""
        reached = self.relabelled >= self.credits.mean() - 1e-9
        return float(1 + reached.sum()) / (1 + len(self.relabelled))

    @property
    def p_below(self) -> float:
        """Return how often labels that mean nothing are guessed as badly."""
        reached = self.relabelled <= self.credits.mean() + 1e-9
        return float(1 + reached.sum()) / (1 + len(self.relabelled))


class Trial(NamedTuple):
    """What all probes of one audit share: the labels to guess, and who is trained on whom."""

    labels: IntArray
    """(n, 1 + relabellings): the true labels first."""
    folds: tuple[IntArray, ...]
    """Per repeat (n,): the fold of each item; a unit lies in one fold."""
    across: tuple[IntArray, ...] = ()
    """Where texts cross clusters, per repeat (n,): the fold of each item's cluster. Who is held out shares neither."""


def trial(table: Comparisons, *, seed: int = 0, relabellings: int = RELABELLINGS) -> Trial:
    """Return the relabellings and folds of an audit: the same for the same items and seed."""
    labels = np.hstack([table.labels[:, None], table.relabelled(relabellings, seed)])
    most = CROSSED_FOLDS if table.crossed else FOLDS
    folds = tuple(fold[table.unit] for fold in cluster_folds(int(table.unit.max()) + 1, seed, most=most))
    if not table.crossed:
        return Trial(labels, folds)
    users = cluster_folds(int(table.owner.max()) + 1, seed + 1, most=most)
    return Trial(labels, folds, tuple(fold[table.owner] for fold in users))


def cluster_folds(clusters: int, seed: int, *, most: int = FOLDS) -> list[IntArray]:
    """Return per repeat (clusters,): folds of equal size, up to one cluster."""
    rng = np.random.default_rng([seed, 2])
    return [rng.permutation(clusters).astype(np.intp) % min(most, clusters) for _ in range(REPEATS)]


def by_rule(table: Comparisons, labels: IntArray, rules: Mapping[str, FloatArray]) -> Guess:
    """Return what the best of some rules earns, each a score (N,) per candidate; `rule` names it.

    The best is chosen by looking, and chosen anew under every relabelling: the p-value allows for the choice.
    """
    truths, means = [], []
    for scores in rules.values():
        # What each candidate would earn were it the preferred one is the same under all labels.
        top = scores >= np.maximum.reduceat(scores, table.starts)[table.owners] - 1e-9
        share = top / np.add.reduceat(top, table.starts, dtype=np.int64)[table.owners]
        earned = share[table.starts[:, None] + labels]
        truths.append(earned[:, 0].copy())
        means.append(earned.mean(axis=0))
    best = int(np.argmax([mean[0] for mean in means]))
    noise = float(means[best][1:].std())
    return Guess(truths[best], np.max(means, axis=0)[1:], noise, len(rules), list(rules)[best])


def by_training(table: Comparisons, trial: Trial, features: FloatArray | sparse.csr_array) -> Guess:
    """Return what a ridge classifier on features (N, p) earns on clusters that it was not trained on."""
    rows = compressed(table.contrasts.T @ features)
    owners = np.repeat(np.arange(len(table.items)), table.sizes - 1)
    within = np.arange(len(table.owners)) - table.starts[table.owners]
    block = max(1, _CELLS // len(table.owners))
    truth, means, variances = None, [], []
    for start in range(0, trial.labels.shape[1], block):
        labels = trial.labels[:, start : start + block]
        targets = table.contrasts.T @ (labels[table.owners] == within[:, None]).astype(np.float64)
        earned = np.zeros(labels.shape)
        for repeat, folds in enumerate(trial.folds):
            across = trial.across[repeat][owners] if trial.across else None
            scores = table.contrasts @ held_out(rows, targets, folds[owners], across)
            earned += table.credit(scores, labels) / len(trial.folds)
        truth = earned[:, 0].copy() if truth is None else truth
        means.append(earned.mean(axis=0))
        variances.append(_between_units(table, earned))
    mean, variance = np.concatenate(means)[1:], np.concatenate(variances)[1:]
    noise, expected = float(mean.std()), float(variance.mean())
    return Guess(np.asarray(truth), mean, noise, widening=max(1.0, noise**2 / expected) if expected else 1.0)


def _between_units(table: Comparisons, earned: FloatArray) -> FloatArray:
    """Return (B,): the variance of each mean of credits (n, B) as if units had nothing to do with each other."""
    count = int(table.unit.max()) + 1
    members = sparse.csr_array((np.ones(len(earned)), (table.unit, np.arange(len(earned)))))
    sums = members @ (earned - earned.mean(axis=0))
    variance: FloatArray = (sums**2).sum(axis=0) / len(earned) ** 2 * count / max(count - 1, 1)
    return variance


def held_out(rows: FloatArray, targets: FloatArray, folds: IntArray, across: IntArray | None = None) -> FloatArray:
    """Return (N, B): for each row, what ridge regressions of the B targets on the other folds' rows predict.

    With folds `across`, rows of the same fold either way are left out of the training.
    """
    products, weighted = rows.T @ rows, rows.T @ targets
    ridge = PENALTY * max(float(np.trace(products)) / len(rows), 1e-9) * np.eye(len(products))
    predicted = np.empty_like(targets)
    for fold, aside in _cells(folds, across):
        own = rows[aside]
        factor = cho_factor(products - own.T @ own + ridge, overwrite_a=True, check_finite=False)
        weights = cho_solve(factor, weighted - own.T @ targets[aside], overwrite_b=True, check_finite=False)
        predicted[fold] = rows[fold] @ weights
    return predicted


def _cells(folds: IntArray, across: IntArray | None) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the rows to predict and the rows to leave out of the training."""
    for fold in range(int(folds.max()) + 1):
        if across is None:
            members = np.flatnonzero(folds == fold)
            yield members, members
            continue
        for other in range(int(across.max()) + 1):
            one_way, other_way = folds == fold, across == other
            if (one_way & other_way).any():
                yield np.flatnonzero(one_way & other_way), np.flatnonzero(one_way | other_way)


def one_thread() -> AbstractContextManager[object]:
    """Return a context in which linear algebra runs on one thread.

    The products are small, and on a machine that others use too, threads wait for each other many times longer than
    they work. Sums then also come in the same order everywhere.
    """
    limits: AbstractContextManager[object] = threadpool_limits(limits=1, user_api="blas")
    return limits


def compressed(rows: FloatArray | sparse.csr_array) -> FloatArray:
    """Return dense rows with the same inner products, hence the same fits, in no more columns than different rows.

    Where many people judge the same texts there are far fewer different rows than items.
    """
    dense = np.asarray(rows, dtype=np.float64) if isinstance(rows, np.ndarray) else rows.toarray()
    names: dict[bytes, int] = {}
    kind = np.array([names.setdefault(row.tobytes(), len(names)) for row in dense], dtype=np.intp)
    if dense.shape[1] <= len(names):
        return dense
    distinct = dense[np.unique(kind, return_index=True)[1]]
    products = distinct @ distinct.T
    products[np.diag_indices_from(products)] += 1e-10 * max(float(np.trace(products)) / len(products), 1e-9)
    root: FloatArray = cholesky(products, lower=True, overwrite_a=True, check_finite=False)
    return np.asarray(root[kind])


POWER = 0.8


def detectable(guess: Guess, chance: float, level: float) -> float:
    """Return the accuracy that would be significant at `level` with a chance of POWER; at most 1.

    By how much the same guess varies under labels that mean nothing, so that items which go together in a cluster
    count as the fewer that they are worth. The level is shared among the guesses from which the best was picked.
    """
    from scipy.special import ndtri

    reach = float(ndtri(1 - level / guess.choices) + ndtri(POWER)) * guess.noise
    return min(1.0, chance + reach)
