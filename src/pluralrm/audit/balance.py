"""Where preferred candidates stand and how long they are, in numbers. What that gives away, the probes tell."""

import numpy as np

from pluralrm.audit.answers import lengths
from pluralrm.audit.comparisons import Comparisons
from pluralrm.audit.measured import amount, share
from pluralrm.audit.result import Finding, Status
from pluralrm.core import Estimate
from pluralrm.stats.clusters import FloatArray
from pluralrm.text import counted, estimated

POSITION, LENGTH = "balance of position", "balance of length"


def position(table: Comparisons) -> Finding:
    """Return how often the preferred candidate stands at each place."""
    if not len(table.items):
        return Finding(POSITION, "not available", "no labelled items", {})
    place = table.places[table.starts + table.labels]
    shares = {
        f"preferred is number {number + 1}": share(place == number, table.clusters)
        for number in range(int(table.sizes.max()))
    }
    told = ", ".join(f"number {name.split()[-1]} in {estimated(value)}%" for name, value in shares.items())
    return Finding(POSITION, _status(shares, table), f"preferred is {told} of {counted(len(place), 'item')}", shares)


def length(table: Comparisons) -> Finding:
    """Return how often the preferred candidate is the longest, and by how many characters it exceeds the others."""
    if not len(table.items):
        return Finding(LENGTH, "not available", "no labelled items", {})
    if table.balanced:
        return Finding(LENGTH, "ok", "every answer wins equally often, so its length says nothing, by design", {})
    characters, chosen = lengths(table)["the longest"], table.starts + table.labels
    longest = {
        "preferred is the longest": share(_extreme(table, characters), table.clusters),
        "preferred is the shortest": share(_extreme(table, -characters), table.clusters),
    }
    others = (np.add.reduceat(characters, table.starts) - characters[chosen]) / (table.sizes - 1)
    extra = amount(characters[chosen] - others, table.clusters)
    ends = [f"{round(end):+d}" for end in (extra.low, extra.high) if end is not None]
    by = f"{round(extra.value):+d}" + (f" [{', '.join(ends)}]" if ends else "")
    found = (
        f"preferred is the longest in {estimated(longest['preferred is the longest'])}% and the shortest in "
        f"{estimated(longest['preferred is the shortest'])}% of items; it has {by} characters more than the others' "
        f"mean of {others.mean():.0f}"
    )
    return Finding(LENGTH, _status(longest, table), found, {**longest, "characters more than the others": extra})


def _extreme(table: Comparisons, scores: FloatArray) -> FloatArray:
    """Return (n,): the share of the credit that picking the highest score earns."""
    return table.credit(scores[:, None], table.labels[:, None])[:, 0]


def _status(shares: dict[str, Estimate], table: Comparisons) -> Status:
    outside = [not (value.low or 0.0) <= table.chance <= (value.high or 1.0) for value in shares.values()]
    return "note" if any(outside) else "ok"
