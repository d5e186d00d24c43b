"""How well a rule, or a classifier in cross-validation, picks the preferred candidate: as labelled, and relabelled.

A probe reads the answers alone, or prompt and answers together; none sees the user. On a benchmark in which every
answer wins equally often (RMGAP) the answers alone are at chance by design, and only overlap with the prompt, matching
style and cue words can find anything.

The whole cross-validation is repeated for every relabelling, so that the p-value is exact: folds share training data,
and a binomial test on their results would promise too much. What makes that affordable is a ridge classifier: its
fits to a thousand relabellings are one product with one factorised matrix.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve, cholesky

from pluralrm.audit.comparisons import Comparisons
from pluralrm.audit.embedder import (
    FEATURES,
    distinct,
    incidence,
    latent,
    letter_groups,
    products,
    style,
    tokens,
    weighted,
    word_pairs,
)
from pluralrm.stats import spread
from pluralrm.stats.clusters import FloatArray, IntArray


class Cues(NamedTuple):
    """(N, p), and a name for each column where a column says something by itself. Sparse values are 0 and 1."""

    values: FloatArray | sparse.csr_array
    names: tuple[str, ...] = ()


def scaled(table: Comparisons, values: FloatArray) -> FloatArray:
    """Return columns divided by the root mean square of their differences within items; 0 where there is none."""
    size = np.sqrt(((table.contrasts.T @ values) ** 2).mean(axis=0))
    level = size <= 1e-9
    result: FloatArray = np.where(level, 0.0, values / np.where(level, 1.0, size))
    return result


def standardised(columns: FloatArray) -> FloatArray:
    """Return columns with mean 0 and standard deviation 1; one that never varies becomes 0."""
    spread = columns.std(axis=0)
    level = spread <= 1e-9 * (1 + np.abs(columns).max(axis=0, initial=0))
    result: FloatArray = np.where(level, 0.0, (columns - columns.mean(axis=0)) / np.where(level, 1.0, spread))
    return result


def telling(table: Comparisons, features: Cues) -> str:
    """Return in words the columns in which preferred candidates differ most surely from the others.

    Most surely: by the sum of the differences over the root of the sum of their squares. Nothing without names.
    """
    if not features.names:
        return ""
    chosen = np.zeros(len(table.owners), dtype=bool)
    chosen[table.starts[table.labelled] + table.labels] = True
    weights = np.where(chosen, 1 / table.bests[table.owners], -1 / (table.sizes - table.bests)[table.owners])
    sums = sparse.csr_array((weights, (table.owners, np.arange(len(weights)))))
    difference = sums @ features.values
    squares = np.asarray((difference * difference).sum(axis=0)).ravel()
    evidence = np.asarray(difference.sum(axis=0)).ravel() / np.sqrt(np.maximum(squares, 1e-12))
    best = np.argsort(-np.abs(evidence), kind="stable")[:3]
    if isinstance(features.values, np.ndarray):
        return ", ".join(f"{'more' if evidence[index] > 0 else 'less'} {features.names[index]}" for index in best)
    there = features.values[:, best].toarray()
    shares = zip(best, there[chosen].mean(axis=0), there[~chosen].mean(axis=0), strict=True)
    return ", ".join(f"{features.names[index]!r} {a:.0%} against {b:.0%}" for index, a, b in shares)


COLUMNS = 1_024
"""Of the words, and of the letter groups, those in which the candidates of most items differ."""
TOPICS = 64


def lengths(table: Comparisons) -> dict[str, FloatArray]:
    """Return two rules: pick the candidate with the most characters, or the fewest."""
    characters = np.array([len(text) for text in table.texts], dtype=np.float64)
    return {"the longest": characters, "the shortest": -characters}


def places(table: Comparisons) -> dict[str, FloatArray]:
    """Return one rule per place: pick what stands there."""
    return {
        f"number {number + 1}": (table.places == number).astype(np.float64) for number in range(int(table.sizes.max()))
    }


def style_of_answers(table: Comparisons) -> Cues:
    """Return each answer's style."""
    texts, index = distinct(table.texts)
    return Cues(scaled(table, standardised(style(texts))[index]), FEATURES)


def words(table: Comparisons) -> Cues:
    """Return which words an answer has."""
    return _present(table, tokens)


def letters(table: Comparisons) -> Cues:
    """Return which groups of three and four letters an answer has."""
    return Cues(_present(table, letter_groups).values)


def topics(table: Comparisons, seed: int) -> Cues:
    """Return each answer's place in a latent space of its words."""
    texts, index = distinct(table.texts)
    return Cues(latent(texts, TOPICS, seed)[index])


def _present(table: Comparisons, parts: Callable[[str], Iterable[str]]) -> Cues:
    """Return which parts occur, for the COLUMNS of them in which the candidates of most items differ."""
    texts, index = distinct(table.texts)
    values, names = incidence(texts, parts)
    if not names:
        return Cues(np.zeros((len(index), 1)))
    rows = values[index]
    differing = (abs(table.contrasts.T @ rows) > 1e-9).sum(axis=0)
    best = np.sort(np.argsort(-differing, kind="stable")[:COLUMNS])
    return Cues(rows[:, best], tuple(names[index] for index in best))


CUE_DIRECTIONS = 32

_OVERLAPS = ("words shared, weighted", "of the prompt's words", "of its words in the prompt", "word pairs shared")


def _cue(words: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{words})\b", re.IGNORECASE)


# A prompt that says so asks for more, or less, of a feature of style.
_CUES: Mapping[tuple[str, str], re.Pattern[str]] = {
    ("a prompt that asks for brevity", "characters"): _cue(
        "short|brief|briefly|quick|quickly|concise|concisely|one line|in a line|a sentence|few words|tldr|summary"
    ),
    ("a prompt that asks for detail", "characters"): _cue(
        "details?|detailed|thorough|thoroughly|in depth|comprehensive|elaborate|long|at length|full|fully|exhaustive"
    ),
    ("a prompt that asks for steps", "list lines"): _cue("lists?|steps?|bullets?|checklist|outline|numbered|points"),
    ("a prompt that asks for figures", "digits"): _cue(
        "numbers?|figures?|data|statistics|exact|exactly|precise|ratios?|percent|percentage|how many"
    ),
    ("a prompt in a formal setting", "letters per word"): _cue(
        "formal|formally|professional|official|report|academic|technical|policy|procedure|manual|committee"
    ),
    ("a prompt that asks for plain words", "letters per word"): _cue(
        "simple|simply|plain|plainly|easy|layman|beginner|child|children|kids?|casual|friendly"
    ),
    ("a prompt that asks for a view", "first person"): _cue(
        "you think|opinion|your view|would you|honest|honestly|feel"
    ),
}


def overlap(table: Comparisons) -> Cues:
    """Return how much each answer shares with its prompt: weighted words, words each way, word pairs."""
    texts, index = distinct([*table.texts, *(item.prompt for item in table.items)])
    answers, prompts = index[: len(table.texts)], index[len(table.texts) :][table.owners]
    present = incidence(texts, tokens).values
    shared, sizes = products(present, answers, prompts), np.maximum(present.sum(axis=1), 1)
    columns = [
        products(weighted(texts), answers, prompts),
        shared / sizes[prompts],
        shared / sizes[answers],
        np.log1p(products(incidence(texts, word_pairs).values, answers, prompts)),
    ]
    return Cues(scaled(table, np.stack(columns, axis=1)), _OVERLAPS)


def matching_style(table: Comparisons) -> Cues:
    """Return how alike prompt and answer are in each feature of style, and whether a named wish is met."""
    texts, prompts, answers = _styles(table)
    cued = np.array([[bool(cue.search(text)) for cue in _CUES.values()] for text in texts], dtype=np.float64)
    wished = answers[:, [FEATURES.index(feature) for _, feature in _CUES]]
    alike = style(texts)
    columns = np.hstack([standardised(alike)[prompts] * answers, cued[prompts] * wished])
    names = [f"{feature} where the prompt has more" for feature in FEATURES]
    names += [f"{feature} after {asker}" for asker, feature in _CUES]
    return Cues(scaled(table, columns), tuple(names))


def cue_words(table: Comparisons, seed: int) -> Cues:
    """Return each answer's style times each of the strongest directions of the prompts' words."""
    texts, prompts, answers = _styles(table)
    directions = latent(texts, CUE_DIRECTIONS, seed)[prompts]
    products_of_both = (directions[:, :, None] * answers[:, None, :]).reshape(len(prompts), -1)
    return Cues(scaled(table, products_of_both))


def _styles(table: Comparisons) -> tuple[list[str], np.ndarray, FloatArray]:
    """Return the prompts once each, the prompt of each row, and each answer's style beside that of its rivals."""
    prompts, index = distinct([item.prompt for item in table.items])
    texts, answers = distinct(table.texts)
    own = standardised(style(texts))[answers]
    means = np.add.reduceat(own, table.starts, axis=0) / table.sizes[:, None]
    return prompts, index[table.owners], own - means[table.owners]


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
    """(L, 1 + relabellings): the true labels first."""
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
        earned = table.by_item(share[table.starts[table.labelled, None] + labels])
        truths.append(earned[:, 0].copy())
        means.append(earned.mean(axis=0))
    best = int(np.argmax([mean[0] for mean in means]))
    noise = float(means[best][1:].std())
    return Guess(truths[best], np.max(means, axis=0)[1:], noise, len(rules), list(rules)[best])


def by_training(table: Comparisons, trial: Trial, features: FloatArray | sparse.csr_array) -> Guess:
    """Return what a ridge classifier on features (N, p) earns on clusters that it was not trained on."""
    rows = compressed(table.contrasts.T @ features)
    owners = np.repeat(np.arange(len(table.items)), table.sizes - 1)
    across = [fold[owners] for fold in trial.across] if trial.across else [None] * len(trial.folds)
    ridges = [ridge_folds(rows, folds[owners], other) for folds, other in zip(trial.folds, across, strict=True)]
    block = max(1, _CELLS // len(table.owners))
    truth, means, variances = None, [], []
    for start in range(0, trial.labels.shape[1], block):
        labels = trial.labels[:, start : start + block]
        preferred = np.zeros((len(table.owners), labels.shape[1]))
        preferred[table.starts[table.labelled, None] + labels, np.arange(labels.shape[1])] = 1.0
        targets = table.contrasts.T @ preferred
        earned = np.zeros((len(table.items), labels.shape[1]))
        for ridge in ridges:
            earned += table.credit(table.contrasts @ held_out(rows, targets, ridge), labels) / len(ridges)
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


class RidgeFold(NamedTuple):
    """Rows that are predicted together, the cells of rows that they are predicted from, and the factorised matrix."""

    rows: IntArray
    training: list[int]
    factor: FloatArray
    """(p, p), lower."""


def ridge_folds(rows: FloatArray, folds: IntArray, across: IntArray | None = None) -> list[RidgeFold]:
    """Return a fold for each cell, in which rows of other folds predict; the labels that are fitted do not matter.

    With folds `across`, rows of the same fold either way are left out of the training.
    """
    cell = folds if across is None else folds * (int(across.max()) + 1) + across
    members = [np.flatnonzero(cell == number) for number in np.unique(cell).tolist()]
    # Each cell's products once; a training set is the sum over the cells that share nothing with the one predicted.
    products = [part.T @ part for part in map(rows.__getitem__, members)]
    size = float(sum(np.trace(product) for product in products)) / len(rows)
    ridge = PENALTY * max(size, 1e-9) * np.eye(rows.shape[1])
    result = []
    for own in members:
        fold, other = folds[own[0]], None if across is None else across[own[0]]
        training = [
            number
            for number, rest in enumerate(members)
            if folds[rest[0]] != fold and (across is None or across[rest[0]] != other)
        ]
        gram = ridge.copy()
        for number in training:
            gram += products[number]
        result.append(RidgeFold(own, training, cholesky(gram, lower=True, overwrite_a=True, check_finite=False)))
    return result


def held_out(rows: FloatArray, targets: FloatArray, folds: Sequence[RidgeFold]) -> FloatArray:
    """Return (N, B): for each row, what ridge regressions of the B targets on the other folds' rows predict."""
    parts = [rows[fold.rows] for fold in folds]
    products = [part.T @ targets[fold.rows] for part, fold in zip(parts, folds, strict=True)]
    predicted = np.empty_like(targets)
    for part, fold in zip(parts, folds, strict=True):
        weighted = np.zeros((rows.shape[1], targets.shape[1]))
        for number in fold.training:
            weighted += products[number]
        weights = cho_solve((fold.factor, True), weighted, overwrite_b=True, check_finite=False)
        predicted[fold.rows] = part @ weights
    return predicted


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


def p_value(table: Comparisons, guess: Guess) -> float:
    """Return the p-value by relabelling; where that cannot keep clusters whole, the larger of it and a t-test's."""
    return max(guess.p, min(1.0, guess.choices * p_between(table, guess))) if table.uneven else guess.p


def p_between(table: Comparisons, guess: Guess) -> float:
    """Return the p-value of a t-test between units, or between clusters and texts that cross: one-sided."""
    from scipy.stats import t as student

    means = table.means(guess.credits)
    variance, df = spread(means, 0)
    ahead = float(means.means[0]) - table.chance
    return float(student.sf(ahead / variance**0.5, df)) if variance else float(ahead <= 0)


POWER = 0.8


def detectable(guess: Guess, chance: float, level: float) -> float:
    """Return the accuracy that would be significant at `level` with a chance of POWER; at most 1.

    By how much the same guess varies under labels that mean nothing, so that items which go together in a cluster
    count as the fewer that they are worth. The level is shared among the guesses from which the best was picked.
    """
    from pluralrm.stats.special import ndtri

    reach = float(ndtri(1 - level / guess.choices) + ndtri(POWER)) * guess.noise
    return min(1.0, chance + reach)
