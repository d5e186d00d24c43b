"""From items to token ids, by the path of `sample`; and which prompts a step has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from pluralrm.core import Benchmark, Condition, Failure, Item, Query
from pluralrm.errors import BenchmarkError, ConditionError
from pluralrm.runs.prepared import prepared

if TYPE_CHECKING:
    from pluralrm.policies.local import LocalPolicy


@dataclass(frozen=True, slots=True)
class Prompt:
    """An item as the policy is shown it."""

    item: Item
    query: Query
    ids: tuple[int, ...]
    opened: str
    """What the chat template writes of the answer itself, such as the opening of a reasoning block."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts of some items, how many items have none, by why, and how many prompts lost posts to fit."""

    prompts: tuple[Prompt, ...]
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
            found.append(Prompt(item, query, encoded.ids, policy.opened(query)))
    if items and not found:
        told = ", ".join(f"{count} {kind}" for kind, count in left_out.items())
        raise BenchmarkError(f"no prompt of {len(items)} items can be asked ({told}); show fewer posts")
    return Prompts(tuple(found), left_out, shortened)


def of_step(prompts: Sequence[Prompt], step: int, *, batch: int, seed: int) -> list[Prompt]:
    """Return the prompts of a step: all in an order drawn for each epoch, one epoch after another."""
    first, found, orders = step * batch, [], dict[int, list[int]]()
    for place in range(first, first + batch):
        epoch, inside = divmod(place, len(prompts))
        if epoch not in orders:
            orders[epoch] = Random(f"{seed}:prompts:{epoch}").sample(range(len(prompts)), len(prompts))
        found.append(prompts[orders[epoch][inside]])
    return found
