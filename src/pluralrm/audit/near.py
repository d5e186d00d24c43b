"""Which texts say nearly the same, by the Jaccard similarity of their sets of three-word sequences.

Two sets that are alike share one of their rarest members (the prefix filter of Chaudhuri, Ganti and Kaushik 2006),
so only texts that share such a sequence are compared. The result is exact, up to WORK comparisons.

Memory is four bytes for each word and each sequence that is not unique: everything else is done in blocks of texts,
for the posts of a benchmark may be a gigabyte.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import sparse

from pluralrm.audit.embedder import tokens
from pluralrm.audit.result import AuditFinding, Status, share
from pluralrm.core import Benchmark, Estimate, Item, persons
from pluralrm.stats.clusters import BoolArray, FloatArray, IntArray, codes
from pluralrm.text import counted, estimated

Int32Array = np.ndarray[tuple[int], np.dtype[np.int32]]

THRESHOLD = 0.5
"""One word changed in the middle of a prompt of eleven leaves half of its sequences."""
WORK = 5_000_000
"""Pairs of texts looked at; beyond, the sequences that most texts share are not followed, and the result says so."""
_BLOCK = 100_000
_SEQUENCES = 1_000_000
"""Sequences looked at in one block of texts."""
_SORTED = 8_000_000
"""Sequences sorted at once."""
_DIGEST = 16


class NearTexts(NamedTuple):
    """Pairs of places in the list of texts, similarity in [THRESHOLD, 1], and whether all pairs were looked at."""

    first: IntArray
    second: IntArray
    similarity: FloatArray
    complete: bool


class TextWords(NamedTuple):
    """Texts as the numbers of their words, end to end: text i is `numbers[ends[i]:ends[i + 1]]`."""

    numbers: Int32Array
    ends: IntArray
    vocabulary: int
    """How many different words there are."""

    def same(self) -> IntArray:
        """Return for each text the number of its group: texts with equal words share one; -1 without words."""
        groups: dict[bytes, int] = {}
        group_of = np.full(len(self.ends) - 1, -1, dtype=np.intp)
        for index, (low, high) in enumerate(pairwise(self.ends.tolist())):
            if high > low:
                # Of two long texts, their digests alone are kept.
                content = self.numbers[low:high].tobytes()
                key = content if len(content) <= _DIGEST else blake2b(content, digest_size=_DIGEST).digest()
                group_of[index] = groups.setdefault(key, len(groups))
        return group_of


class _Sets(NamedTuple):
    """Sets by their members that occur more than once, the rarest first, and the sizes of the whole sets."""

    members: sparse.csr_array
    sizes: IntArray
    alone: IntArray
    """(texts,): how many members of each set occur nowhere else."""


def normalised(text: str) -> str:
    """Return the words of a text in lower case, with one space between them: equal texts differ in marks alone."""
    return " ".join(tokens(text))


def plain(text: str) -> str:
    """Return a text in lower case with one space between words: equal texts differ in case and space alone."""
    return " ".join(text.casefold().split())


class _Vocabulary(dict[str, int]):
    """Gives each new word the next number."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


def numbered(texts: Iterable[str]) -> TextWords:
    """Return the texts with a number in the place of each word."""
    vocabulary = _Vocabulary()
    numbers, ends = array("i"), array("q", [0])
    for text in texts:
        numbers.extend(map(vocabulary.__getitem__, tokens(text)))
        ends.append(len(numbers))
    return TextWords(np.frombuffer(numbers, dtype=np.int32), np.frombuffer(ends, dtype=np.int64), len(vocabulary))


def near_duplicates(texts: Sequence[str]) -> NearTexts:
    """Return the pairs of texts at THRESHOLD or above; texts of fewer than three words have none."""
    return alike(numbered(texts), np.arange(len(texts)))


def alike(words: TextWords, which: IntArray) -> NearTexts:
    """Return the pairs among some of the texts; places are those in `which`."""
    sets = _sets(words, which)
    prefix, complete = _rarest(sets)
    first, second, similarity = [], [], []
    for left, other in _sharing(prefix):
        shared = np.asarray(sets.members[left].multiply(sets.members[other]).sum(axis=1)).ravel()
        likeness = shared / (sets.sizes[left] + sets.sizes[other] - shared)
        mask = likeness >= THRESHOLD - 1e-12
        first.append(left[mask])
        second.append(other[mask])
        similarity.append(likeness[mask])
    none = np.zeros(0, dtype=np.intp)
    return NearTexts(
        np.concatenate([none, *first]),
        np.concatenate([none, *second]),
        np.concatenate([np.zeros(0), *similarity]),
        complete,
    )


def _sets(words: TextWords, which: IntArray) -> _Sets:
    repeated = _repeated(words, which)
    total = max(len(repeated), 1)
    alone, counts, members = np.zeros(len(which), np.int64), np.zeros(len(which), np.int64), array("i")
    frequency = np.zeros(total, dtype=np.int32)
    for low, high, unordered, texts in _blocks(words, which):
        order = np.argsort(unordered)
        keys, text = unordered[order], texts[order]
        column = np.minimum(np.searchsorted(repeated, keys), total - 1)
        again = repeated[column] == keys if len(repeated) else np.zeros(len(keys), dtype=bool)
        alone[low:high] = np.bincount(text[~again], minlength=high - low)
        # A sequence twice in one text counts once.
        own, member = np.divmod(np.unique(text[again] * total + column[again]), total)
        counts[low:high] = np.bincount(own, minlength=high - low)
        frequency += np.bincount(member, minlength=total).astype(np.int32)
        members.frombytes(member.astype(np.int32).tobytes())
    starts = np.concatenate([[0], counts.cumsum()])
    indices = np.frombuffer(members, dtype=np.int32)
    by_rarity = np.empty(total, dtype=np.int32)
    by_rarity[np.lexsort((np.arange(total), frequency))] = np.arange(total)
    for low, high in _spans(counts):
        part = slice(int(starts[low]), int(starts[high]))
        rows = np.repeat(np.arange(high - low), counts[low:high]) * total
        indices[part] = np.sort(rows + by_rarity[indices[part]]) % total
    ones = np.ones(len(indices), dtype=np.int8)
    rows = sparse.csr_array((ones, indices, starts.astype(np.int64)), shape=(len(which), total))
    return _Sets(rows, alone + counts, alone)


def _repeated(words: TextWords, which: IntArray) -> IntArray:
    """Return, sorted, the sequences that occur more than once: what the others are does not matter."""
    total = int(np.maximum(np.diff(words.ends)[which] - 2, 0).sum())
    parts = max(1, -(-total // _SORTED))
    sequences = [np.zeros(0, dtype=np.int64)]
    for part in range(parts):
        mine = [keys[_part(keys, parts) == part] if parts > 1 else keys for *_, keys, _ in _blocks(words, which)]
        ordered = np.concatenate([np.zeros(0, dtype=np.int64), *mine])
        del mine
        ordered.sort()
        sequences.append(np.unique(ordered[1:][ordered[1:] == ordered[:-1]]))
    return np.sort(np.concatenate(sequences))


def _part(keys: IntArray, parts: int) -> IntArray:
    """Return which part each key falls into: as many into each, whatever the keys (Fibonacci hashing)."""
    spread: IntArray = ((keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)).astype(np.int64)
    return spread % parts


def _blocks(words: TextWords, which: IntArray) -> Iterator[tuple[int, int, IntArray, IntArray]]:
    """Yield blocks of texts (from, to), their sequences as numbers, and the text of each, counted from the first."""
    size = max(words.vocabulary, 1)
    counts = np.maximum(words.ends[which + 1] - words.ends[which] - 2, 0)
    for low, high in _spans(counts):
        here = counts[low:high]
        text = np.repeat(np.arange(high - low), here)
        start = np.arange(len(text)) + np.repeat(words.ends[which[low:high]] - (here.cumsum() - here), here)
        keys = words.numbers[start].astype(np.int64)
        # Exact up to two million different words; beyond, the product wraps around and becomes a hash.
        for step in (1, 2):
            keys = keys * size + words.numbers[start + step]
        yield low, high, keys, text


def _spans(counts: IntArray) -> Iterator[tuple[int, int]]:
    """Yield ranges of texts with _SEQUENCES of `counts` or a little more in each."""
    done = np.concatenate([[0], counts.cumsum()])
    steps = np.searchsorted(done, np.arange(0, int(done[-1]), _SEQUENCES))
    yield from pairwise(np.unique([0, *steps.tolist(), len(counts)]).tolist())


def _rarest(sets: _Sets) -> tuple[sparse.csr_array, bool]:
    """Return the members by which each set must be found: so many of its rarest that an alike set has one of them."""
    starts, members = sets.members.indptr, sets.members.indices
    # Of the members, the rarest first, as many as come after those that occur nowhere else.
    most = (sets.sizes - np.ceil(THRESHOLD * sets.sizes - 1e-9) + 1).astype(np.int64) - sets.alone
    taken = np.clip(most, 0, np.diff(starts))
    text = np.repeat(np.arange(len(taken), dtype=np.int32), taken)
    rank = np.arange(len(text)) - np.repeat(taken.cumsum() - taken, taken)
    member = members[np.repeat(starts[:-1], taken) + rank]
    users = np.bincount(member, minlength=sets.members.shape[1])
    followed = _most_followed(users[users > 1])
    mask = (users[member] > 1) & (users[member] <= followed)
    ones = np.ones(int(mask.sum()), dtype=np.int32)
    rows = sparse.csr_array((ones, (text[mask], member[mask])), shape=sets.members.shape)
    return rows, bool(users[users > 1].max(initial=0) <= followed)


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
        left, other = (prefix[low:high] @ followers).nonzero()
        later = other > left + low
        yield (left[later] + low).astype(np.intp), other[later].astype(np.intp)


WARN = 0.01
"""The share of texts nearly repeated elsewhere from which an audit warns."""


class Texts(NamedTuple):
    """Some texts by their words, whose each is, and a name to show for each."""

    words: TextWords
    owners: list[str]
    names: list[str]


class Repeats(NamedTuple):
    """Which texts have a near-duplicate with the same owner, which with another, and one such pair of places."""

    within: BoolArray
    across: BoolArray
    example: tuple[int, int] | None
    complete: bool


def repeated_prompts(benchmark: Benchmark) -> AuditFinding:
    """Return how many prompts nearly repeat one of another cluster; what several clusters judge counts once."""
    items = sorted(benchmark.items, key=lambda item: item.id)
    entries: dict[str, tuple[str, Item]] = {}
    for item, owner in zip(items, _owners(items), strict=True):
        entries.setdefault(item.id if owner == item.cluster else owner, (owner, item))
    words = numbered(item.prompt for _, item in entries.values())
    texts = Texts(words, [owner for owner, _ in entries.values()], [item.id for _, item in entries.values()])
    return _finding("prompt", texts, benchmark.card.cluster)


def repeated_answers(benchmark: Benchmark) -> AuditFinding:
    """Return how many answers nearly repeat one of another cluster, or another answer of their own.

    Answers that several clusters judge count once.
    """
    items = sorted(benchmark.items, key=lambda item: item.id)
    owners, names = _owners(items), dict[str, str]()
    for item, owner in zip(items, owners, strict=True):
        names.setdefault(owner, item.cluster if owner == item.cluster else item.id)
    pairs = sorted({(owner, text) for item, owner in zip(items, owners, strict=True) for text in item.candidates})
    texts = Texts(
        numbered(text for _, text in pairs), [owner for owner, _ in pairs], [names[owner] for owner, _ in pairs]
    )
    return _finding("answer", texts, benchmark.card.cluster)


def _owners(items: Sequence[Item]) -> list[str]:
    """Return whose each item is: its cluster's or, where several clusters judge the same candidates, all of theirs."""
    panels: dict[str, set[str]] = defaultdict(set)
    keys = [repr((item.crossed, sorted(item.candidates))) for item in items]
    for key, item in zip(keys, items, strict=True):
        panels[key].add(item.cluster)
    return [key if len(panels[key]) > 1 else item.cluster for key, item in zip(keys, items, strict=True)]


EQUAL = "equal items and options"
ONE_ITEM = 0.9
"""How alike prompt and options together must be for two items to be one with a word changed, not of one template."""


def equal_items(benchmark: Benchmark) -> AuditFinding:
    """Return how many items repeat one of the same person or have two equal options, up to case and space.

    And how many nearly repeat one of another person: nothing then says that two people judge the same.
    """
    if not benchmark.items:
        return AuditFinding(EQUAL, "not available", "no items", {})
    items = sorted(benchmark.items, key=lambda item: item.id)
    who, labels = persons(items), dict[tuple[object, ...], frozenset[str]]()
    options, again, contrary = [], [], 0
    for item in items:
        texts = [plain(text) for text in item.candidates]
        best = frozenset(texts[index] for index in item.best)
        key = (who[item.cluster], plain(item.prompt), tuple(sorted(texts)))
        again.append(key in labels)
        contrary += labels.setdefault(key, best) != best
        options.append(len(set(texts)) < len(texts))
    near = _near_items(items, [who[item.cluster] for item in items])
    clusters, prompts = [item.cluster for item in items], [item.crossed for item in items]
    either = share(np.array(options) | np.array(again) | near, clusters, crossed=prompts)
    measures: dict[str, Estimate | float | int] = {
        "items concerned": either,
        "equal options": share(options, clusters, crossed=prompts),
        "repeated items": share(again, clusters, crossed=prompts),
        "repeated with another label": contrary,
        "nearly repeated items": share(near, clusters, crossed=prompts),
    }
    detail = (
        f"{estimated(measures['equal options'])}% of items have two options that are equal up to case and space; "
        f"{estimated(measures['repeated items'])}% repeat an item of the same person, {contrary:,} with another label"
    )
    if near.any():
        detail += (
            f"; {estimated(measures['nearly repeated items'])}% nearly repeat prompt and options of another person's "
            "item: intervals take them for different ones"
        )
    status: Status = "warn" if either.value > WARN else "note" if either.value else "ok"
    return AuditFinding(EQUAL, status, detail, measures)


def _near_items(items: Sequence[Item], people: Sequence[str]) -> BoolArray:
    """Return which items have another person's item with nearly, but not quite, their prompt and their options."""
    holders: dict[tuple[str, str], set[str]] = defaultdict(set)
    keys = [(plain(item.prompt), "\n".join(sorted(map(plain, item.candidates)))) for item in items]
    for key, person in zip(keys, people, strict=True):
        holders[key].add(person)
    texts = sorted(holders)
    pairs = near_duplicates(["\n".join(parts) for parts in texts])
    repeated = set[tuple[str, str]]()
    same = pairs.similarity >= ONE_ITEM
    for left, other in zip(pairs.first[same].tolist(), pairs.second[same].tolist(), strict=True):
        first, second = texts[left], texts[other]
        if len(holders[first] | holders[second]) > 1 and all(map(_near, first, second)):
            repeated |= {first, second}
    return np.array([key in repeated for key in keys])


def _near(first: str, other: str) -> bool:
    """Return whether two texts are near-duplicates; those of fewer than three words where they have the same words."""
    words = [tokens(text) for text in (first, other)]
    left, right = ({*zip(text, text[1:], text[2:], strict=False)} for text in words)
    return len(left & right) >= THRESHOLD * len(left | right) if left or right else words[0] == words[1]


def post_texts(benchmark: Benchmark) -> Texts:
    """Return the posts, users and their posts by id."""
    users = sorted(benchmark.users, key=lambda user: user.id)
    pairs = [(user.id, post) for user in users for post in sorted(user.posts, key=lambda post: post.id)]
    return Texts(numbered(post.text for _, post in pairs), [user for user, _ in pairs], [post.id for _, post in pairs])


def repeated_posts(texts: Texts) -> AuditFinding:
    """Return how many posts nearly repeat one of another user, or another of their own user."""
    return _finding("post", texts, "user")


def repeats(words: TextWords, owners: Sequence[str]) -> Repeats:
    """Return which texts have a near-duplicate, and whose; a text without words has none."""
    owner = codes(owners)
    group = words.same()
    numbers, firsts = np.unique(group, return_index=True)
    pairs = alike(words, firsts[numbers >= 0])
    near: dict[int, list[int]] = defaultdict(list)
    for left, other in zip(pairs.first.tolist(), pairs.second.tolist(), strict=True):
        near[left].append(other)
        near[other].append(left)
    within, across = np.zeros(len(owner), dtype=bool), np.zeros(len(owner), dtype=bool)
    members = _members(group, near)
    holders = {name: Counter(owner[places].tolist()) for name, places in members.items()}
    example: tuple[int, int] | None = None
    for name, places in members.items():
        for index in places.tolist():
            own = int(owner[index])
            elsewhere = [other for other in (name, *near.get(name, ())) if holders[other].keys() != {own}]
            within[index] = holders[name][own] > 1 or any(holders[other][own] for other in near.get(name, ()))
            across[index] = bool(elsewhere)
            if elsewhere and (example is None or index < example[0]):
                example = index, next(rival for rival in members[elsewhere[0]].tolist() if owner[rival] != own)
    return Repeats(within, across, example, pairs.complete)


def _members(group: IntArray, near: Mapping[int, list[int]]) -> dict[int, IntArray]:
    """Return the texts of each group that repeats anything: one of several texts, or one that is near another."""
    order = np.argsort(group, kind="stable").astype(np.intp)
    places = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
    names = ((int(group[texts[0]]), texts) for texts in places if len(texts))
    return {name: texts for name, texts in names if name >= 0 and (len(texts) > 1 or name in near)}


def _finding(noun: str, texts: Texts, owner: str) -> AuditFinding:
    topic = f"near-duplicate {noun}s"
    if not texts.owners:
        return AuditFinding(topic, "not available", f"no {noun}s", {})
    result = repeats(texts.words, texts.owners)
    across, within = share(result.across, texts.owners), share(result.within, texts.owners)
    detail = f"of {counted(len(texts.owners), noun)} {estimated(across)}% nearly repeat one of another {owner}"
    if result.example is not None:
        first, other = sorted(texts.names[index] for index in result.example)
        people = sorted(texts.owners[index] for index in result.example)
        same = f"{first!r}, of {people[0]!r} and {people[1]!r}"  # an id made of the text
        detail += f" (such as {same if first == other else f'{first!r} and {other!r}'})"
    detail += f", {estimated(within)}% another of their own {owner}"
    if not result.complete:
        detail += "; phrases shared by very many texts were not followed, so there may be more"
    status: Status = "warn" if across.value > WARN else "note" if result.across.any() else "ok"
    return AuditFinding(topic, status, detail, {f"across {owner}s": across, f"within a {owner}": within})
