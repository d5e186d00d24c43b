"""Prompts, answers and posts that say nearly the same, with one owner (user, record) and across owners."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pluralrm.audit.measured import share
from pluralrm.audit.near import Words, alike, numbered
from pluralrm.audit.result import Finding, Status
from pluralrm.core import Benchmark
from pluralrm.stats.clusters import BoolArray, IntArray, codes
from pluralrm.text import counted, estimated

WARN = 0.01
"""The share of texts nearly repeated elsewhere from which an audit warns."""


class Texts(NamedTuple):
    """Some texts by their words, whose each is, and a name to show for each."""

    words: Words
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
    words = numbered(item.prompt for item in items)
    texts = Texts(words, [item.cluster for item in items], [item.id for item in items])
    return _finding("prompt", texts, benchmark.card.cluster)


def answers(benchmark: Benchmark) -> Finding:
    """Return how many answers nearly repeat one of another cluster, or another answer of their own."""
    found = sorted({(item.cluster, text) for item in benchmark.items for text in item.candidates})
    owners = [owner for owner, _ in found]
    return _finding("answer", Texts(numbered(text for _, text in found), owners, owners), benchmark.card.cluster)


def written(benchmark: Benchmark) -> Texts:
    """Return the posts, users and their posts by id."""
    users = sorted(benchmark.users, key=lambda user: user.id)
    found = [(user.id, post) for user in users for post in sorted(user.posts, key=lambda post: post.id)]
    return Texts(numbered(post.text for _, post in found), [user for user, _ in found], [post.id for _, post in found])


def posts(texts: Texts) -> Finding:
    """Return how many posts nearly repeat one of another user, or another of their own user."""
    return _finding("post", texts, "user")


def repeats(words: Words, owners: Sequence[str]) -> Repeats:
    """Return which texts have a near-duplicate, and whose; a text without words has none."""
    owner = codes(owners)
    group = words.same()
    known, firsts = np.unique(group, return_index=True)
    found = alike(words, firsts[known >= 0])
    near: dict[int, list[int]] = defaultdict(list)
    for one, other in zip(found.first.tolist(), found.second.tolist(), strict=True):
        near[one].append(other)
        near[other].append(one)
    within, across = np.zeros(len(owner), dtype=bool), np.zeros(len(owner), dtype=bool)
    members = _members(group, near)
    holders = {name: Counter(owner[places].tolist()) for name, places in members.items()}
    example: tuple[int, int] | None = None
    for name, places in members.items():
        for place in places.tolist():
            own = int(owner[place])
            elsewhere = [other for other in (name, *near.get(name, ())) if holders[other].keys() != {own}]
            within[place] = holders[name][own] > 1 or any(holders[other][own] for other in near.get(name, ()))
            across[place] = bool(elsewhere)
            if elsewhere and (example is None or place < example[0]):
                example = place, next(rival for rival in members[elsewhere[0]].tolist() if owner[rival] != own)
    return Repeats(within, across, example, found.complete)


def _members(group: IntArray, near: Mapping[int, list[int]]) -> dict[int, IntArray]:
    """Return the texts of each group that repeats anything: one of several texts, or one that is near another."""
    order = np.argsort(group, kind="stable").astype(np.intp)
    places = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
    names = ((int(group[one[0]]), one) for one in places if len(one))
    return {name: one for name, one in names if name >= 0 and (len(one) > 1 or name in near)}


def _finding(noun: str, texts: Texts, owner: str) -> Finding:
    topic = f"near-duplicate {noun}s"
    if not texts.owners:
        return Finding(topic, "not available", f"no {noun}s", {})
    found = repeats(texts.words, texts.owners)
    across, within = share(found.across, texts.owners), share(found.within, texts.owners)
    told = f"of {counted(len(texts.owners), noun)} {estimated(across)}% nearly repeat one of another {owner}"
    if found.example is not None:
        one, other = sorted(texts.names[place] for place in found.example)
        told += f" (such as {one!r} and {other!r})"
    told += f", {estimated(within)}% another of their own {owner}"
    if not found.complete:
        told += "; phrases shared by very many texts were not followed, so there may be more"
    status: Status = "warn" if across.value > WARN else "note" if found.across.any() else "ok"
    return Finding(topic, status, told, {f"across {owner}s": across, f"within a {owner}": within})
