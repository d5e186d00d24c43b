"""Prompts, answers and posts that say nearly the same, with one owner (user, record) and across owners."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pluralrm.build.audit.measured import share
from pluralrm.build.audit.near import near_duplicates, normalised
from pluralrm.build.audit.result import Finding, Status, counted, percent
from pluralrm.core import Benchmark
from pluralrm.stats.clusters import BoolArray

WARN = 0.01
"""The share of texts nearly repeated elsewhere from which an audit warns."""


class Texts(NamedTuple):
    """Some texts, whose each is, and a name to show for each."""

    texts: list[str]
    owners: list[str]
    names: list[str]


class Repeats(NamedTuple):
    """Which texts have a near-duplicate with the same owner, which with another, and one such pair of places."""

    within: BoolArray
    across: BoolArray
    example: tuple[int, int] | None
    complete: bool


def prompts(benchmark: Benchmark) -> Finding:
    """Return how many prompts nearly repeat one of another cluster."""
    items = sorted(benchmark.items, key=lambda item: item.id)
    texts = Texts([item.prompt for item in items], [item.cluster for item in items], [item.id for item in items])
    return _finding("prompt", texts, benchmark.card.cluster)


def answers(benchmark: Benchmark) -> Finding:
    """Return how many answers nearly repeat one of another cluster, or another answer of their own."""
    found = sorted({(item.cluster, text) for item in benchmark.items for text in item.candidates})
    owners = [owner for owner, _ in found]
    return _finding("answer", Texts([text for _, text in found], owners, owners), benchmark.card.cluster)


def posts(benchmark: Benchmark) -> Finding:
    """Return how many posts nearly repeat one of another user, or another of their own user."""
    users = sorted(benchmark.users, key=lambda user: user.id)
    found = [(post.text, user.id, post.id) for user in users for post in sorted(user.posts, key=lambda post: post.id)]
    return _finding("post", Texts([f[0] for f in found], [f[1] for f in found], [f[2] for f in found]), "user")


def repeats(texts: Sequence[str], owners: Sequence[str]) -> Repeats:
    """Return which texts have a near-duplicate, and whose; a text without words has none."""
    groups: dict[str, list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        groups[normalised(text)].append(place)
    groups.pop("", None)
    members = [groups[text] for text in sorted(groups)]
    holders = [Counter(owners[place] for place in places) for places in members]
    found = near_duplicates(sorted(groups))
    near = defaultdict(list)
    for one, other in zip(found.first.tolist(), found.second.tolist(), strict=True):
        near[one].append(other)
        near[other].append(one)
    within, across, example = np.zeros(len(texts), dtype=bool), np.zeros(len(texts), dtype=bool), None
    for group, places in enumerate(members):
        for place in places:
            own = owners[place]
            elsewhere = [other for other in (group, *near[group]) if holders[other].keys() != {own}]
            within[place] = holders[group][own] > 1 or any(holders[other][own] for other in near[group])
            across[place] = bool(elsewhere)
            if elsewhere and example is None:
                example = (place, next(rival for rival in members[elsewhere[0]] if owners[rival] != own))
    return Repeats(within, across, example, found.complete)


def _finding(noun: str, texts: Texts, owner: str) -> Finding:
    topic = f"near-duplicate {noun}s"
    if not texts.texts:
        return Finding(topic, "not available", f"no {noun}s", {})
    found = repeats(texts.texts, texts.owners)
    across, within = share(found.across, texts.owners), share(found.within, texts.owners)
    told = f"of {counted(len(texts.texts), noun)} {percent(across)}% nearly repeat one of another {owner}"
    if found.example is not None:
        one, other = sorted(texts.names[place] for place in found.example)
        told += f" (such as {one!r} and {other!r})"
    told += f", {percent(within)}% another of their own {owner}"
    if not found.complete:
        told += "; phrases shared by very many texts were not followed, so there may be more"
    status: Status = "warn" if across.value > WARN else "note" if found.across.any() else "ok"
    return Finding(topic, status, told, {f"across {owner}s": across, f"within a {owner}": within})
