"""Which texts say nearly the same, by the Jaccard similarity of their sets of three-word sequences.

Two sets that are alike share one of their rarest members (the prefix filter of Chaudhuri, Ganti and Kaushik 2006),
so only texts that share such a sequence are compared. The result is exact, up to WORK comparisons.
"""

from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import sparse

from pluralrm.build.audit.vectors import tokens
from pluralrm.stats.clusters import FloatArray, IntArray

THRESHOLD = 0.5
"""One word changed in the middle of a prompt of eleven leaves half of its sequences."""
WORK = 5_000_000
"""Pairs of texts looked at; beyond, the sequences that most texts share are not followed, and the result says so."""
_BLOCK = 100_000


class Alike(NamedTuple):
    """Pairs of places in the list of texts, similarity in [THRESHOLD, 1], and whether all pairs were looked at."""

    first: IntArray
    second: IntArray
    similarity: FloatArray
    complete: bool


class _Sets(NamedTuple):
    """Sets by their members that occur more than once, and the sizes of the whole sets."""

    members: sparse.csr_array
    sizes: IntArray
    alone: IntArray
    """(texts,): how many members of each set occur nowhere else."""


def normalised(text: str) -> str:
    """Return the words of a text in lower case, with one space between them: equal texts differ in marks alone."""
    return " ".join(tokens(text))


def near_duplicates(texts: Sequence[str]) -> Alike:
    """Return the pairs of texts at THRESHOLD or above; texts of fewer than three words have none."""
    sets = _sequences(texts)
    prefix, complete = _rarest(sets)
    first, second, similarity = [], [], []
    for one, other in _sharing(prefix):
        shared = np.asarray(sets.members[one].multiply(sets.members[other]).sum(axis=1)).ravel()
        alike = shared / (sets.sizes[one] + sets.sizes[other] - shared)
        kept = alike >= THRESHOLD - 1e-12
        first.append(one[kept])
        second.append(other[kept])
        similarity.append(alike[kept])
    none = np.zeros(0, dtype=np.intp)
    return Alike(
        np.concatenate([none, *first]),
        np.concatenate([none, *second]),
        np.concatenate([np.zeros(0), *similarity]),
        complete,
    )


def _sequences(texts: Sequence[str]) -> _Sets:
    vocabulary: dict[str, int] = {}
    numbers, places = array("i"), [0]
    for one in texts:
        numbers.extend([vocabulary.setdefault(word, len(vocabulary)) for word in tokens(one)])
        places.append(len(numbers))
    words, ends, size = np.array(numbers, dtype=np.int64), np.array(places), max(len(vocabulary), 1)
    counts = np.maximum(np.diff(ends) - 2, 0)
    text = np.repeat(np.arange(len(texts), dtype=np.int64), counts)
    start = np.arange(len(text)) - np.repeat(counts.cumsum() - counts, counts) + np.repeat(ends[:-1], counts)
    # Exact up to two million different words; beyond, the product wraps around and becomes a hash.
    keys = (words[start] * size + words[start + 1]) * size + words[start + 2]
    del words, start
    ordered = np.sort(keys)
    repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    del ordered
    # Most sequences occur once: what they are no longer matters, only how many each text has.
    again = np.isin(keys, repeated)
    alone = np.bincount(text[~again], minlength=len(texts))
    # A sequence twice in one text counts once.
    pairs = np.unique(text[again] * len(repeated) + np.searchsorted(repeated, keys[again]))
    text, member = np.divmod(pairs, max(len(repeated), 1))
    ones = np.ones(len(pairs), dtype=np.int32)
    rows = sparse.csr_array((ones, (text, member)), shape=(len(texts), len(repeated)))
    return _Sets(rows, alone + np.bincount(text, minlength=len(texts)), alone)


def _rarest(sets: _Sets) -> tuple[sparse.csr_array, bool]:
    """Return the members by which each set must be found: so many of its rarest that an alike set has one of them."""
    text, member = sets.members.nonzero()
    frequency = np.bincount(member, minlength=sets.members.shape[1])
    order = np.lexsort((member, frequency[member], text))
    text, member = text[order], member[order]
    held = np.bincount(text, minlength=len(sets.sizes))
    rank = np.arange(len(text)) - (held.cumsum() - held)[text] + sets.alone[text]
    kept = rank < (sets.sizes - np.ceil(THRESHOLD * sets.sizes - 1e-9) + 1)[text]
    text, member = text[kept], member[kept]
    users = np.bincount(member, minlength=sets.members.shape[1])
    most = _most_followed(users)
    kept = (users[member] > 1) & (users[member] <= most)
    ones = np.ones(int(kept.sum()), dtype=np.int32)
    rows = sparse.csr_array((ones, (text[kept], member[kept])), shape=sets.members.shape)
    return rows, bool(users.max(initial=0) <= most)


def _most_followed(users: IntArray) -> int:
    """Return how many texts may share a sequence that is followed, so that WORK suffices."""
    levels = np.sort(users)
    work = np.cumsum(levels.astype(np.float64) * (levels - 1) / 2)
    within = int(np.searchsorted(work, WORK, side="right"))
    if within == len(levels):
        return int(levels[-1]) if len(levels) else 0
    return int(levels[within]) - 1


def _sharing(prefix: sparse.csr_array) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield blocks of pairs, first before second, that share a member."""
    followers = prefix.T.tocsr()
    work = (prefix @ np.diff(followers.indptr)).cumsum()
    edges = np.searchsorted(work, np.arange(0, int(work[-1]) + _BLOCK if len(work) else 0, _BLOCK), side="left")
    for low, high in pairwise([*edges.tolist(), prefix.shape[0]]):
        if low == high:
            continue
        one, other = (prefix[low:high] @ followers).nonzero()
        later = other > one + low
        yield (one[later] + low).astype(np.intp), other[later].astype(np.intp)
