"""Scorers whose metrics could not have come out differently: no interval can be drawn around such a number."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from pluralrm.core import Row
from pluralrm.metrics.credits import numbers

CONSTANT = "every candidate of every item has the same score"
PROMPT_BLIND = "each candidate keeps one score over all prompts of its record"


def structure(rows: Sequence[Row]) -> str:
    """Return how the scores are fixed whatever is asked, in words, or nothing where they are not, or some failed."""
    scores = [numbers(row) for row in rows]
    if any(found is None for found in scores):
        return ""
    if all(found is not None and len(set(found)) == 1 for found in scores):
        return CONSTANT
    return PROMPT_BLIND if _prompt_blind(rows) else ""


def fixed_share(rows: Sequence[Row]) -> str:
    """Return the same for a share of items won: there a prompt-blind scorer is fixed only in balanced clusters.

    That is, where each candidate of a cluster is the preferred one equally often, so that what one prompt gives
    another takes.
    """
    found = structure(rows)
    return found if found == CONSTANT or _balanced(rows) else ""


def _balanced(rows: Sequence[Row]) -> bool:
    for _, members in groupby(sorted(rows, key=lambda row: row.cluster), key=lambda row: row.cluster):
        cluster = list(members)
        wins = Counter(row.candidate_ids[row.preferred] for row in cluster if row.candidate_ids)
        names = {name for row in cluster for name in row.candidate_ids}
        if set(wins) != names or len(set(wins.values())) != 1:
            return False
    return True


def _prompt_blind(rows: Sequence[Row]) -> bool:
    seen: dict[tuple[str, str], object] = {}
    for row in rows:
        for name, score in zip(row.candidate_ids, row.scores, strict=bool(row.candidate_ids)):
            if seen.setdefault((row.cluster, name), score) != score:
                return False
    # One prompt per cluster shows nothing: a scorer that reads the prompt looks the same.
    return len(seen) < sum(len(row.candidate_ids) for row in rows)
