"""Texts that several users share, and what that means for a guess at the labels."""

from collections import defaultdict

from pluralrm.audit.comparisons import Comparisons
from pluralrm.audit.measured import share
from pluralrm.audit.result import Finding
from pluralrm.core import Estimate
from pluralrm.text import counted, estimated

TOPIC = "texts shared across users"


def texts(table: Comparisons, unit: str) -> Finding:
    """Return how many items share a prompt or an answer with another cluster, and how often people agree on one."""
    topic = TOPIC if unit == "user" else f"texts shared across {unit}s"
    if not len(table.items):
        return Finding(topic, "not available", "no labelled items", {})
    if not table.shared:
        return Finding(topic, "ok", f"no {unit} shares a prompt or an answer with another", {})
    holders: dict[str, set[str]] = defaultdict(set)
    own = [{f"p:{item.crossed}", *(f"a:{text}" for text in item.candidates)} for item in table.items]
    for item, names in zip(table.items, own, strict=True):
        for name in names:
            holders[name].add(item.cluster)
    sharing = share([float(any(len(holders[name]) > 1 for name in names)) for names in own], table.clusters)
    units = int(table.unit.max()) + 1
    found = f"{estimated(sharing)}% of items share a prompt or an answer with another {unit}"
    if table.crossed:
        found += (
            f"; texts and {unit}s cross, so whoever is held out shares neither with those trained on, and tests are "
            f"robust to {counted(len(set(table.clusters)), unit)} and to {units:,} groups of texts"
        )
    else:
        found += f"; {unit}s who do are kept together: {counted(units, 'group')}"
    agreeing = _agreement(table)
    if agreeing is not None:
        found += f"; two {unit}s who judge the same answers want the same one in {100 * agreeing:.1f}% of cases"
    measures: dict[str, Estimate | float | int] = {"items that share a text": sharing, "groups": units}
    return Finding(topic, "note", found, measures | ({} if agreeing is None else {"agreement": agreeing}))


def _agreement(table: Comparisons) -> float | None:
    """Return how often two clusters prefer the same answer of the same ones under the same prompt; None without any."""
    wins: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for item in table.items:
        answers = sorted(item.candidates)
        wins[repr((item.crossed, answers))][item.candidates[item.preferred or 0]] += 1
    counts = [list(found.values()) for found in wins.values()]
    pairs = sum(sum(found) * (sum(found) - 1) for found in counts)
    return sum(one * (one - 1) for found in counts for one in found) / pairs if pairs else None
