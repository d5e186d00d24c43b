"""PPE as published (arXiv 2410.14872): twelve metrics, seven of people's choices and five of answers right or wrong.

What people chose between two answers of different models, of a data set:

    accuracy               share of choices in which the chosen answer scores strictly higher
    row_pearson            Pearson's correlation of a model's win rates against each other model, by the scores and by
                           people; the mean over models
    spearman, kendall      correlation of the two rankings of the models (Bradley-Terry)
    separability           share of pairs of models whose 95% intervals by the scores do not overlap
    confidence_agreement   mean over pairs of models of 1 where both intervals separate them in one order, -1 where in
                           opposite orders, 0 where either does not separate them
    brier                  mean over pairs of (share of resamples that put the first model above - what people say)^2

K answers of one model to one question, each right or wrong, of five data sets (the value is the mean over them):

    accuracy    share of sampled pairs (right, wrong) in which the right one scores strictly higher
    auc         area under the ROC curve, ties half
    max_score   the highest point of the best-of-k curve: the share of questions whose top-scored answer is right,
                expected over all subsets of k answers, mean over questions; k = 1 ... K
    end_score   its last point, k = K
    loss        mean over k of the expected squared distance to the best of the same k answers (lower is better)

Not confirmed, since the scripts could not be read: the definitions of separability, confidence agreement and Brier are
those of Arena-Hard (arXiv 2406.11939), by the same group; resamples are 100 bootstraps, seed 0, and each pair of models
that met has half a win added to either side, so that no strength is infinite; the area is taken within each question
and averaged; subsets of k are all of them, not a sample. Choices that people called a tie are in no metric.

A missing score is never better than any other would be: it loses each comparison, and is the wrong answer of its
subset; in separability, which does not ask who is right, it is a tie. Rankings that do not vary correlate with nothing:
0. PPE keeps questions of which 10% to 90% of the answers are right: an area always exists.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pluralrm.core import Row
from pluralrm.metrics.official.formula import (
    PublishedMetric,
    macro_mean,
    named_by,
    number,
    sentence,
    strict_reasons,
    strict_share,
)
from pluralrm.metrics.units import rows_by_domain
from pluralrm.stats.best_of import expected_best_of
from pluralrm.stats.clusters import FloatArray, IntArray
from pluralrm.stats.ranking import kendall, pearson, spearman
from pluralrm.text import counted

CHOICES, ANSWERS = "PPE choices", "PPE answers"
RESAMPLES, SEED = 100, 0
_LEVEL, _STEPS, _CONVERGED = 0.95, 200, 1e-9


# ---------------------------------------------------------------- answers that are right or wrong


class GradedAnswers(NamedTuple):
    """The K answers to one question: their scores (NaN is missing), which are right, and sampled pairs of both."""

    scores: Sequence[float]
    right: Sequence[bool]
    pairs: Sequence[tuple[int, int]]
    """The places of a right and of a wrong answer."""


class BestOfK(NamedTuple):
    """The five metrics of one data set of questions; those of the curve are None where K varies."""

    accuracy: float | None
    auc: float | None
    max_score: float | None
    end_score: float | None
    loss: float | None


def best_of_k(questions: Sequence[GradedAnswers]) -> BestOfK:
    """Return the five metrics; questions with answers all right or all wrong have no area, and leave that mean."""
    ranked = [_ranks(np.asarray(question.scores, dtype=np.float64)) for question in questions]
    labels = [np.asarray(question.right, dtype=np.float64) for question in questions]
    wins = [
        float(scores[first] > scores[second])
        for scores, question in zip(ranked, questions, strict=True)
        for first, second in question.pairs
    ]
    areas = [_area(own, right) for own, right in zip(ranked, labels, strict=True) if 0 < right.sum() < len(right)]
    if len(set(map(len, labels))) > 1:
        return BestOfK(_mean(wins), _mean(areas), None, None, None)
    ks = range(1, len(labels[0]) + 1)
    curve = expected_best_of(ranked, labels, ks).mean(axis=0)
    # Labels are 0 or 1 and a pick is never above the best: the squared distance is the distance.
    loss = expected_best_of(labels, labels, ks).mean(axis=0) - curve
    return BestOfK(_mean(wins), _mean(areas), float(curve.max()), float(curve[-1]), float(loss.mean()))


def _ranks(scores: FloatArray) -> FloatArray:
    """Return dense ranks in place of scores, so that an infinite one is a number; NaN stays."""
    present, ranked = ~np.isnan(scores), np.full(scores.shape, np.nan)
    ranked[present] = np.unique(scores[present], return_inverse=True)[1]
    return ranked


def _area(scores: FloatArray, right: FloatArray) -> float:
    """Return the share of pairs (right, wrong) in which the right one scores higher, ties half; NaN loses."""
    first, second = scores[right == 1][:, None], scores[right == 0][None, :]
    return float(((first > second) + 0.5 * (first == second)).mean())


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


# ---------------------------------------------------------------- what people chose


class Choice(NamedTuple):
    """A choice between answers of two models: by people the first one's; the scores of both, NaN where missing."""

    chosen: str
    other: str
    score: float
    against: float


class HumanPreference(NamedTuple):
    """The seven metrics of one data set of choices; those of the ranking are 0 where nothing varies."""

    accuracy: float
    row_pearson: float
    spearman: float
    kendall: float
    separability: float
    confidence_agreement: float
    brier: float


def human_preference(choices: Sequence[Choice]) -> HumanPreference:
    """Return the seven metrics of at least one choice."""
    models = {name: index for index, name in enumerate(sorted({name for each in choices for name in each[:2]}))}
    pairs = np.array([(models[each.chosen], models[each.other]) for each in choices])
    scores = np.array([each[2:] for each in choices], dtype=np.float64)
    right, tied, failed = scores[:, 0] > scores[:, 1], scores[:, 0] == scores[:, 1], np.isnan(scores).any(axis=1)
    draws = np.random.default_rng(SEED).multinomial(len(pairs), np.full(len(pairs), 1 / len(pairs)), RESAMPLES)
    weights = np.vstack([np.ones(len(pairs)), draws])
    tables = [_tables(pairs, share, weights) for share in (np.ones(len(pairs)), right + 0.5 * tied)]
    people, judge = map(strengths, tables)
    lenient = strengths(_tables(pairs, right + 0.5 * (tied | failed), weights)) if failed.any() else judge
    truth = _above(people[:1])
    return HumanPreference(
        float(right.mean()),
        _row_pearson(tables[0][0], tables[1][0]),
        _or_0(spearman(people[:1], judge[:1])[0]),
        _or_0(kendall(people[:1], judge[:1])[0]),
        float((_separated(lenient[1:]) != 0).mean()),
        float((_separated(people[1:]) * _separated(judge[1:])).mean()),
        float(((_above(judge[1:]) - truth) ** 2).mean()),
    )


def _tables(pairs: IntArray, shares: FloatArray, weights: FloatArray) -> FloatArray:
    """Return for each row of weights (models, models): the wins of each over each; a tie is half a win of both."""
    models = int(pairs.max()) + 1
    cells = [pairs[:, 0] * models + pairs[:, 1], pairs[:, 1] * models + pairs[:, 0]]
    rows = [
        np.bincount(cells[0], weight * shares, models**2) + np.bincount(cells[1], weight * (1 - shares), models**2)
        for weight in weights
    ]
    return np.array(rows).reshape(len(weights), models, models)


def strengths(wins: FloatArray) -> FloatArray:
    """Return the log strengths of Bradley-Terry, mean 0, of each table of wins (tables, models, models).

    By Newton's steps, each of at most 2. Half a win is added to either side of each pair that met in the table.
    """
    matches = wins + wins.swapaxes(1, 2)
    total = (wins + 0.5 * (matches > 0)).sum(axis=2)
    matches = matches + (matches > 0)
    logs, ridge = np.zeros(total.shape), 1e-6 * np.eye(wins.shape[1])
    for _ in range(_STEPS):
        chances = 1 / (1 + np.exp(logs[:, None, :] - logs[:, :, None]))
        slope = total - (matches * chances).sum(axis=2)
        weights = matches * chances * (1 - chances)
        curvature = weights.sum(axis=2)[:, :, None] * np.eye(wins.shape[1]) - weights + ridge
        step = np.clip(np.linalg.solve(curvature, slope[:, :, None])[:, :, 0], -2, 2)
        logs = logs + step - (logs + step).mean(axis=1, keepdims=True)
        if np.abs(step - step.mean(axis=1, keepdims=True)).max() < _CONVERGED:
            break
    return logs


def _separated(draws: FloatArray) -> FloatArray:
    """Return for each pair 1 or -1 where the intervals of the resamples do not overlap, by who is above; else 0."""
    low, high = np.quantile(draws, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0)
    first, second = np.triu_indices(draws.shape[1], 1)
    sides: FloatArray = 1.0 * (low[first] > high[second]) - 1.0 * (low[second] > high[first])
    return sides


def _above(draws: FloatArray) -> FloatArray:
    """Return for each pair the share of the draws that put the first above, ties half."""
    first, second = np.triu_indices(draws.shape[1], 1)
    gaps = draws[:, first] - draws[:, second]
    shares: FloatArray = ((gaps > _CONVERGED) + 0.5 * (np.abs(gaps) <= _CONVERGED)).mean(axis=0)
    return shares


def _row_pearson(people: FloatArray, judge: FloatArray) -> float:
    """Return the mean over models of the correlation of win rates against the others; a constant row counts 0."""
    met = (people + people.T) > 0
    rates = [np.divide(table, table + table.T, where=met, out=np.zeros_like(table)) for table in (people, judge)]
    rows = [
        _or_0(pearson(rates[0][model][others][None, :], rates[1][model][others][None, :])[0])
        for model, others in enumerate(met)
        if others.sum() > 1
    ]
    return float(np.mean(rows)) if rows else 0.0


def _or_0(value: float) -> float:
    return 0.0 if np.isnan(value) else float(value)


# ---------------------------------------------------------------- rows


PAIRS = "pairs"
"""The tag of a row of K answers with its sampled pairs, right before wrong, as in `1-5 4-9`; numbers from 1."""


def published_choices(rows: Sequence[Row], source: str) -> PublishedMetric:
    """Return the accuracy, with the other six metrics as parts where the rows say whose their answers are."""
    domains = {domain: strict_share(own) for domain, own in rows_by_domain(rows).items()}
    nameless = sum(not any(name.startswith(MODEL) for name in row.tags) for row in rows)
    why = sentence(
        *strict_reasons(rows, named_by(source)),
        nameless and f"{counted(nameless, 'choice')} that do not say whose answers they compare: no ranking of models",
    )
    if nameless:
        return PublishedMetric(CHOICES, source, strict_share(rows), domains, why)
    metrics = human_preference([_choice(row) for row in rows])
    parts = {name: value for name, value in metrics._asdict().items() if name != "accuracy"}
    return PublishedMetric(CHOICES, source, metrics.accuracy, domains, why, parts=parts)


MODEL = "model:"
"""What the tags of a row of choices begin with that say whose its answers are."""


def _choice(row: Row) -> Choice:
    names = [row.tags[f"{MODEL}{name}"] for name in row.candidate_ids]
    scores = list(map(number, row.scores))
    (chosen,) = row.best
    other = 1 - chosen
    return Choice(names[chosen], names[other], scores[chosen], scores[other])


def published_answers(rows: Sequence[Row], source: str) -> PublishedMetric:
    """Return the accuracy on sampled pairs, with the other four metrics as parts: each the mean over the data sets."""
    sets = {domain: best_of_k([_answers(row) for row in own]) for domain, own in rows_by_domain(rows).items()}
    accuracy, *others = (macro_mean(values) for values in zip(*sets.values(), strict=True))
    domains = {domain: metrics.accuracy for domain, metrics in sets.items()}
    parts = dict(zip(BestOfK._fields[1:], others, strict=True))
    pairs = sum(len(_answers(row).pairs) for row in rows)
    failed = sum(any(math.isnan(number(score)) for score in row.scores) for row in rows)
    why = sentence(
        f"{counted(pairs, 'sampled pair')}, a tie a loss {named_by(source)}; all pairs, ties half, in the headline",
        failed and f"{counted(failed, 'failed item')}: wrong in the headline, a missing score loses here",
        None in others and "no curve of data sets whose questions have different numbers of answers",
    )
    return PublishedMetric(ANSWERS, source, accuracy, domains, why, parts=parts)


def _answers(row: Row) -> GradedAnswers:
    places = {name: index for index, name in enumerate(row.candidate_ids)}
    pairs = [pair.split("-") for pair in row.tags.get(PAIRS, "").split()]
    return GradedAnswers(
        list(map(number, row.scores)),
        [grade > 0 for grade in row.grades],
        [(places[f"response_{right}"], places[f"response_{wrong}"]) for right, wrong in pairs],
    )
