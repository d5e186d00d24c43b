"""Who is trained on, who is watched, who is only asked in the end: users, never items, fall into one part.

In the end the policy may also be asked the questions of another benchmark: of users that the training has not seen.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from random import Random
from typing import NamedTuple

from pluralrm.core import Benchmark, Item, digest, persons
from pluralrm.errors import BenchmarkError, did_you_mean
from pluralrm.runs.loop import slug


class Parts(NamedTuple):
    """The items of three disjoint groups of users, each in the order of the benchmark."""

    train: tuple[Item, ...]
    validation: tuple[Item, ...]
    test: tuple[Item, ...]


class Questions(NamedTuple):
    """Items that a policy is asked before and after its training."""

    benchmark: Benchmark
    items: tuple[Item, ...]
    place: str = ""
    """The folder of the answers inside the training's; empty for the users who are kept for the end."""
    left_out: int = 0
    """Items of users who are trained on or watched."""


def questions(
    trained: Benchmark, parts: Parts, of: Benchmark, *, domains: Sequence[str] = (), limit: int | None = None
) -> Questions:
    """Return the items of a benchmark whose users are not trained on and not watched; an error where none is left.

    Users are known by their ids, and with all the ids of one person. `limit` counts users that are left.
    """
    for domain in domains:
        if domain not in of.domains:
            raise BenchmarkError(f"{of.card.name} has no domain {domain!r}.{did_you_mean(domain, of.domains)}")
    met = _of_persons(trained.items, {asker(item) for item in (*parts.train, *parts.validation)})
    known = _of_persons(of.items, met)
    whole = of.select(domains=domains)
    others = replace(of, items=tuple(item for item in whole if asker(item) not in known), content_hash="")
    if not others.items:
        raise BenchmarkError(
            f"{of.card.name}: all {len(whole):,} items are of users who are trained on or watched; wanted others"
        )
    items = tuple(others.select(limit=limit))
    shape = digest([of.content_hash, *(item.id for item in items)])[:8]
    return Questions(of, items, f"on-{slug(of.card.name)}-{shape}", len(whole) - len(others.items))


def _of_persons(items: Sequence[Item], users: Collection[str]) -> set[str]:
    """Return these users, and all users of the items who are the same persons."""
    who = persons(items)
    some = {who[item.cluster] for item in items if asker(item) in users}
    return {*users, *(asker(item) for item in items if who[item.cluster] in some)}


def split(items: Sequence[Item], seed: int, *, validation: float, test: float) -> Parts:
    """Return the parts; a share above 0 has at least one person, and so has training."""
    who = persons(items)
    people = list(dict.fromkeys(who[item.cluster] for item in items))
    Random(f"{seed}:parts").shuffle(people)
    counts = [max(1, round(share * len(people))) if share else 0 for share in (validation, test)]
    if sum(counts) >= len(people):
        raise BenchmarkError(f"found {len(people)} users, wanted more: {sum(counts)} of them are not trained on")
    watched, asked = set(people[: counts[0]]), set(people[counts[0] : sum(counts)])
    parts = Parts(
        train=tuple(item for item in items if who[item.cluster] not in watched | asked),
        validation=tuple(item for item in items if who[item.cluster] in watched),
        test=tuple(item for item in items if who[item.cluster] in asked),
    )
    return check_disjoint(parts)


def check_disjoint(parts: Parts) -> Parts:
    """Return the parts; a BenchmarkError names a user who is in two of them."""
    who = persons([item for part in parts for item in part])
    users: Mapping[str, set[str]] = {
        name: {who[item.cluster] for item in part} for name, part in parts._asdict().items()
    }
    for one, other in combinations(users, 2):
        if shared := users[one] & users[other]:
            raise BenchmarkError(
                f"{len(shared)} users are in {one} and in {other}, such as {min(shared)!r}: wanted them in one of the "
                "two, or what is learned of them is taken for what is learned of all"
            )
    return parts


def asker(item: Item) -> str:
    """Return the user of an item; the record where nobody asks."""
    return item.cluster if item.user is None else item.user.id
