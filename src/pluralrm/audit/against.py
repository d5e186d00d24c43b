"""Do the prompts look as people write them? A classifier two-sample test on style, against organic prompts.

A classifier is trained to tell the two kinds apart (Lopez-Paz and Oquab 2017). The area under its curve on held-out
prompts is 0.5 where the two look alike; its p-value comes from relabelling, with the whole cross-validation repeated.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import rankdata

from pluralrm.audit.features import standardised
from pluralrm.audit.guessing import RELABELLINGS, cluster_folds, held_out, one_thread
from pluralrm.audit.near import normalised
from pluralrm.audit.result import Finding, Measures, Status
from pluralrm.audit.style import FEATURES, style
from pluralrm.core import Benchmark, Estimate
from pluralrm.stats import cluster_means, spread, wilson
from pluralrm.stats.clusters import BoolArray, FloatArray
from pluralrm.stats.intervals import normal_quantile
from pluralrm.text import counted

TOPIC = "prompts against organic ones"
FEWEST = 20
"""Prompts on either side below which nothing is compared."""
MOST = 5_000
"""Prompts on either side that are looked at, drawn by seed: more would tell no more."""
PLAIN = 0.7
"""The area under the curve from which prompts are plainly of another kind, and an audit warns."""
LEVEL = 0.05
_BLOCK = 250


def against_organic(
    benchmark: Benchmark, organic: Sequence[str], *, seed: int = 0, relabellings: int = RELABELLINGS
) -> Finding:
    """Return how well style tells the benchmark's prompts, one per cluster, from organic ones, each text once."""
    worded = [text for text in organic if normalised(text)]
    distinct = sorted(set(worded))
    ours, theirs = _one_per_cluster(benchmark, seed), _drawn(distinct, seed)
    left_out = {
        "blank": len(organic) - len(worded),
        "repeated": len(worded) - len(distinct),
        "not drawn": len(distinct) - len(theirs),
    }
    told = ", ".join(f"{count:,} {why}" for why, count in left_out.items() if count)
    told = f"; of {len(organic):,} organic prompts left out: {told}" if told else ""
    if min(len(ours), len(theirs)) < FEWEST:
        why = f"{counted(len(ours), 'prompt')} and {len(theirs):,} organic, wanted {FEWEST} of each{told}"
        return Finding(TOPIC, "not available", why, _left_out(left_out))
    features = standardised(style([*ours, *theirs]))
    label = np.arange(len(features)) < len(ours)
    with one_thread():
        areas, placements = _areas(features, label, seed, relabellings)
    p = float((1 + (areas[1:] >= areas[0] - 1e-12).sum()) / len(areas))
    area = _area_estimate(placements, label)
    found = (
        f"a classifier on style tells {counted(len(ours), 'prompt')} from {len(theirs):,} organic ones with an area "
        f"under the curve of {area.value:.2f}" + (f" [{area.low:.2f}, {area.high:.2f}]" if area.low is not None else "")
    )
    found += f" (0.50: cannot; p = {p:.3f})" + (
        f": the benchmark's have {_telling(features, label)}" if p < LEVEL else ""
    )
    status: Status = "ok" if p >= LEVEL else "warn" if area.value >= PLAIN else "note"
    measures: Measures = {"area under the curve": area, "p": p, "organic prompts": len(theirs), **_left_out(left_out)}
    return Finding(TOPIC, status, found + told, measures)


def _left_out(counts: Mapping[str, int]) -> dict[str, int]:
    return {f"organic prompts left out, {why}": count for why, count in counts.items() if count}


def _one_per_cluster(benchmark: Benchmark, seed: int) -> list[str]:
    """Return one prompt of each cluster, drawn by seed: prompts of one record or user are not independent."""
    prompts: dict[str, list[str]] = {}
    for item in sorted(benchmark.items, key=lambda item: item.id):
        if normalised(item.prompt):
            prompts.setdefault(item.cluster, []).append(item.prompt)
    rng = np.random.default_rng([seed, 3])
    return _drawn(sorted({found[int(rng.integers(len(found)))] for _, found in sorted(prompts.items())}), seed)


def _drawn(texts: list[str], seed: int) -> list[str]:
    if len(texts) <= MOST:
        return texts
    kept = np.random.default_rng([seed, 4]).choice(len(texts), MOST, replace=False)
    return [texts[place] for place in np.sort(kept)]


def _areas(features: FloatArray, label: BoolArray, seed: int, relabellings: int) -> tuple[FloatArray, FloatArray]:
    """Return the area under the curve for the true and each relabelling, and the true one's held-out ranks (n,)."""
    rng = np.random.default_rng([seed, 5])
    labels = np.stack([label, *(rng.permutation(label) for _ in range(relabellings))], axis=1)
    repeats, areas, truth = cluster_folds(len(label), seed), [], np.zeros(len(label))
    for start in range(0, labels.shape[1], _BLOCK):
        block = labels[:, start : start + _BLOCK]
        targets = block - label.mean()
        scores = np.mean([held_out(features, targets, folds) for folds in repeats], axis=0)
        ranks = rankdata(np.round(scores, 9), axis=0)
        if start == 0:
            truth = ranks[:, 0]
        first, second = int(label.sum()), int((~label).sum())
        areas.append((np.where(block, ranks, 0).sum(axis=0) - first * (first + 1) / 2) / (first * second))
    return np.concatenate(areas), truth


def _area_estimate(ranks: FloatArray, label: BoolArray) -> Estimate:
    """Return the area and its interval by DeLong's variance: each prompt's share of the other side that it outranks."""
    sides = []
    for side, sign in ((label, 1), (~label, -1)):
        own = rankdata(sign * ranks[side])
        sides.append((rankdata(sign * ranks)[side] - own) / int((~side).sum()))
    value = float(sides[0].mean())
    variance = sum(
        spread(cluster_means(side, [str(place) for place in range(len(side))]), 0).variance for side in sides
    )
    if not variance:
        return Estimate(value, None, None, len(label), 0, "no interval: the two never mix, or always")
    low, high = wilson(value, value * (1 - value) / variance, normal_quantile())
    return Estimate(value, low, high, len(label), 0, "DeLong's variance, score interval")


def _telling(features: FloatArray, label: BoolArray, most: int = 3) -> str:
    apart = features[label].mean(axis=0) - features[~label].mean(axis=0)
    best = np.argsort(-np.abs(apart), kind="stable")[:most]
    return ", ".join(f"{'more' if apart[place] > 0 else 'less'} {FEATURES[place]}" for place in best)
