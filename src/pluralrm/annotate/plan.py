"""Make a plan from a benchmark: items, annotators, orders and places, all derived from the seed.

Handles alone are not: they are keyed with a secret of the plan, so that who knows the benchmark and the seed cannot
tell from a handle which item it is.
"""

import hashlib
import hmac
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pluralrm.annotate.blocks import assigned
from pluralrm.annotate.chosen import Kept, kept_apart, planned_items, task_of
from pluralrm.annotate.design import Annotator, Arm, Claim, Declared, Kind, Mode, Plan, Screen
from pluralrm.core import Benchmark, Item
from pluralrm.errors import PlanError

CLAIM = Claim(margin=0.1, floor=3.0)
_SPAN = 4
"""Points from the lowest rating to the highest."""
_HANDLE = 24
"""Hex digits of a handle: 96 bits."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What is wanted of a plan; `arms` and `condition` are what the benchmark has, unless told."""

    annotators: int
    each: int = 3
    claim: Claim = CLAIM
    mode: Mode = "validate"
    arms: tuple[Arm, ...] = ()
    rating_margin: float = 0.5
    items: int | None = None
    checks: int = 5
    repeats: int = 3
    examples: int = 2
    condition: str = ""
    seed: int = 0


def make_plan(benchmark: Benchmark, ask: Ask, *, key: str) -> Plan:
    """Return the plan; with the same benchmark, ask and key it is the same plan."""
    _check(ask)
    task, arms = task_of(benchmark), arms_of(benchmark, ask)
    condition = ask.condition or ("none" if arms == ("prompt",) else "raw:10")
    kept = kept_apart(
        benchmark,
        task,
        ask.mode,
        items=ask.items,
        checks=ask.checks,
        examples=ask.examples if ask.mode == "validate" else 0,
        seed=ask.seed,
    )
    digits = max(2, len(str(ask.annotators)))
    people = tuple(Annotator(f"a{place + 1:0{digits}}", arms[place % len(arms)]) for place in range(ask.annotators))
    return Plan(
        declared=Declared(
            benchmark=benchmark.card.name,
            content_hash=benchmark.content_hash,
            seed=ask.seed,
            task=task,
            mode=ask.mode,
            arms=arms,
            each=ask.each,
            condition=condition,
            claim=ask.claim,
            rating_margin=ask.rating_margin if task == "pair" else None,
        ),
        annotators=people,
        items=planned_items(benchmark, kept, condition, seed=ask.seed),
        screens=tuple(_screens(people, kept, ask, key)),
    )


def _check(ask: Ask) -> None:
    if min(ask.annotators, ask.each) < 1 or min(ask.checks, ask.repeats, ask.examples) < 0:
        raise PlanError("wanted one annotator and one judgment of each item at least, and no count below 0")
    margin, floor, alpha, attention = ask.claim
    if not (0 < margin < 0.5 and 1 <= floor < 5 and 0 < alpha < 0.5):
        raise PlanError(
            f"margin {margin:g}, floor {floor:g}, alpha {alpha:g}: wanted a margin between 0 and 0.5, a floor from 1 "
            "to below 5, and alpha between 0 and 0.5"
        )
    if not 0 < ask.rating_margin < _SPAN:
        raise PlanError(f"rating margin {ask.rating_margin:g}: wanted points of a rating of 1 to 5, from 0 to {_SPAN}")
    if not 0 <= attention <= 1:
        raise PlanError(f"attention {attention:g}: wanted a share of attention checks, from 0 to 1")


def arms_of(benchmark: Benchmark, ask: Ask) -> tuple[Arm, ...]:
    """Return the arms asked for, or all that the benchmark has; one that it lacks is a PlanError."""
    has: list[Arm] = []
    if ask.mode == "validate" and benchmark.has_posts:
        told = all(item.oracle is not None and item.oracle.narrative for item in benchmark.items)
        has = ["narrative", "posts"] if told else ["posts"]
    has = has or ["prompt"]
    for arm in ask.arms:
        if arm not in has:
            raise PlanError(f"arm {arm!r}: {benchmark.card.name!r} has {', '.join(has)} in mode {ask.mode!r}")
    if ask.annotators < len(ask.arms or has):
        raise PlanError(f"{ask.annotators} annotators for {len(ask.arms or has)} arms: wanted one in each at least")
    return tuple(dict.fromkeys(ask.arms)) or tuple(has)


def _screens(people: Sequence[Annotator], kept: Kept, ask: Ask, key: str) -> Iterator[Screen]:
    """Yield everybody's screens in order; who is in which arm never changes an order."""
    held: dict[str, list[Item]] = {}
    width = len(kept.judged[0].candidates)
    for arm in dict.fromkeys(person.arm for person in people):
        names = [person.id for person in people if person.arm == arm]
        held |= assigned(kept.judged, names, ask.each, seed=ask.seed)
    for person in people:
        for place, (kind, item) in enumerate(_in_order(held[person.id], kept, ask, person.id)):
            order = _placed(person.id, item, width, ask.seed)
            if kind == "repeat":
                order = order[1:] + order[:1]  # another order, so that who goes by the place does not agree
            handle = _handle(key, person.id, item, kind)
            yield Screen(handle, person.id, place, item, kind, order)


def _in_order(own: Sequence[Item], kept: Kept, ask: Ask, annotator: str) -> list[tuple[Kind, str]]:
    """Return examples, then the annotator's items by lot, checks spread among them, and repeats long after the first.

    A repeat is of an item of the first third and stands in the last third.
    """
    lot = random.Random(f"{ask.seed}:{annotator}:order")
    names = [item.id for item in own]
    lot.shuffle(names)
    screens: list[tuple[Kind, str]] = [("item", name) for name in names]
    early = names[: len(names) // 3]
    for name in lot.sample(early, min(ask.repeats, len(early))):
        screens.insert(lot.randint(-(-2 * len(names) // 3) + 1, len(screens)), ("repeat", name))
    checks = [item.id for item in kept.checks]
    lot.shuffle(checks)
    total = len(screens)
    for number, name in reversed(list(enumerate(checks))):
        low, high = (total * end // len(checks) for end in (number, number + 1))
        screens.insert(lot.randint(low, high), ("check", name))
    return [*(("example", item.id) for item in kept.examples), *screens]


def _placed(annotator: str, item: str, width: int, seed: int) -> tuple[int, ...]:
    order = list(range(width))
    random.Random(f"{seed}:{annotator}:{item}:places").shuffle(order)
    return tuple(order)


def _handle(key: str, annotator: str, item: str, kind: Kind) -> str:
    return hmac.new(key.encode(), f"{annotator}\0{item}\0{kind}".encode(), hashlib.sha256).hexdigest()[:_HANDLE]
