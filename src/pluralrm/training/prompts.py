"""From items to token ids, by the path of `sample`; and which prompts a step has."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pluralrm.core import Benchmark, Condition, Failure, Item, Query, digest, persons
from pluralrm.errors import BenchmarkError, ConditionError, did_you_mean
from pluralrm.runs.loop import slug
from pluralrm.runs.verdicts import prepared

if TYPE_CHECKING:
    from pluralrm.policies.local import LocalPolicy


T = TypeVar("T")


class UserParts(NamedTuple):
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
    trained: Benchmark, parts: UserParts, of: Benchmark, *, domains: Sequence[str] = (), limit: int | None = None
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


def split(items: Sequence[Item], seed: int, *, validation: float, test: float) -> UserParts:
    """Return the parts; a share above 0 has at least one person, and so has training."""
    who = persons(items)
    people = list(dict.fromkeys(who[item.cluster] for item in items))
    Random(f"{seed}:parts").shuffle(people)
    counts = [max(1, round(share * len(people))) if share else 0 for share in (validation, test)]
    if sum(counts) >= len(people):
        raise BenchmarkError(f"found {len(people)} users, wanted more: {sum(counts)} of them are not trained on")
    watched, asked = set(people[: counts[0]]), set(people[counts[0] : sum(counts)])
    parts = UserParts(
        train=tuple(item for item in items if who[item.cluster] not in watched | asked),
        validation=tuple(item for item in items if who[item.cluster] in watched),
        test=tuple(item for item in items if who[item.cluster] in asked),
    )
    return check_disjoint(parts)


def check_disjoint(parts: UserParts) -> UserParts:
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
    """Return the user of an item; the record where there is no user."""
    return item.cluster if item.user is None else item.user.id


@dataclass(frozen=True, slots=True)
class TrainingPrompt:
    """An item as the policy is shown it."""

    item: Item
    query: Query
    ids: tuple[int, ...]
    opened: str
    """What the chat template writes of the answer itself, such as the opening of a reasoning block."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts of some items, how many items have none, by why, and how many prompts lost posts to fit."""

    prompts: tuple[TrainingPrompt, ...]
    left_out: Mapping[str, int]
    shortened: int = 0


def assembled(
    benchmark: Benchmark, items: Sequence[Item], condition: Condition, policy: "LocalPolicy", *, max_tokens: int
) -> Prompts:
    """Return the prompts of items under a condition, each with room for the longest answer."""
    if (reason := condition.unsupported(benchmark)) is not None:
        raise ConditionError(reason)
    assembler, found, left_out = policy.leaving_room(max_tokens), [], dict[str, int]()
    shortened = 0
    for item, one in zip(items, prepared(condition, benchmark, items), strict=True):
        query = replace(one.query, candidates=())  # no policy is shown a benchmark's answers
        written, kept = ((one.failure,), 0) if one.failure else assembler.assemble(query, policy.conversations)
        encoded = written[0]
        if isinstance(encoded, Failure):
            left_out[encoded.kind] = left_out.get(encoded.kind, 0) + 1
        else:
            shortened += kept < len(query.user.posts if query.user else ())
            found.append(TrainingPrompt(item, query, encoded.ids, policy.opened(query)))
    if items and not found:
        told = ", ".join(f"{count} {kind}" for kind, count in left_out.items())
        raise BenchmarkError(f"no prompt of {len(items)} items can be asked ({told}); show fewer posts")
    return Prompts(tuple(found), left_out, shortened)


def of_step(prompts: Sequence[T], step: int, *, batch: int, seed: int) -> list[T]:
    """Return the prompts of a step: all in an order drawn for each epoch, one epoch after another."""
    first, found, orders = step * batch, [], dict[int, list[int]]()
    for place in range(first, first + batch):
        epoch, inside = divmod(place, len(prompts))
        if epoch not in orders:
            orders[epoch] = Random(f"{seed}:prompts:{epoch}").sample(range(len(prompts)), len(prompts))
        found.append(prompts[orders[epoch][inside]])
    return found


def watched_steps(done: int, steps: int, *, every: int, evaluated: Collection[int]) -> set[int]:
    """Return after how many steps the watched users are asked, from `done` on; after the last step once."""
    return {step for step in range(done, steps) if step % every == 0} | ({steps} - set(evaluated))
