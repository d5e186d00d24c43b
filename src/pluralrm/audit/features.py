"""What a classifier is given of each candidate, how it is scaled, and which of it tells most."""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from pluralrm.audit.comparisons import Comparisons
from pluralrm.stats.clusters import FloatArray


class Features(NamedTuple):
    """(N, p), and a name for each column where a column says something by itself. Sparse values are 0 and 1."""

    values: FloatArray | sparse.csr_array
    names: tuple[str, ...] = ()


def scaled(table: Comparisons, values: FloatArray) -> FloatArray:
    """Return columns divided by the root mean square of their differences within items; 0 where there is none."""
    size = np.sqrt(((table.contrasts.T @ values) ** 2).mean(axis=0))
    level = size <= 1e-9
    found: FloatArray = np.where(level, 0.0, values / np.where(level, 1.0, size))
    return found


def standardised(columns: FloatArray) -> FloatArray:
    """Return columns with mean 0 and standard deviation 1; one that never varies becomes 0."""
    spread = columns.std(axis=0)
    level = spread <= 1e-9 * (1 + np.abs(columns).max(axis=0, initial=0))
    found: FloatArray = np.where(level, 0.0, (columns - columns.mean(axis=0)) / np.where(level, 1.0, spread))
    return found


def telling(table: Comparisons, features: Features, most: int = 3) -> str:
    """Return in words the columns in which preferred candidates differ most surely from the others.

    Most surely: by the sum of the differences over the root of the sum of their squares. Nothing without names.
    """
    if not features.names:
        return ""
    chosen = np.zeros(len(table.owners), dtype=bool)
    chosen[table.starts + table.labels] = True
    weights = np.where(chosen, 1.0, -1 / (table.sizes[table.owners] - 1))
    sums = sparse.csr_array((weights, (table.owners, np.arange(len(weights)))))
    difference = sums @ features.values
    squares = np.asarray((difference * difference).sum(axis=0)).ravel()
    evidence = np.asarray(difference.sum(axis=0)).ravel() / np.sqrt(np.maximum(squares, 1e-12))
    best = np.argsort(-np.abs(evidence), kind="stable")[:most]
    if isinstance(features.values, np.ndarray):
        return ", ".join(f"{'more' if evidence[place] > 0 else 'less'} {features.names[place]}" for place in best)
    there = features.values[:, best].toarray()
    shares = zip(best, there[chosen].mean(axis=0), there[~chosen].mean(axis=0), strict=True)
    return ", ".join(f"{features.names[place]!r} {a:.0%} against {b:.0%}" for place, a, b in shares)
