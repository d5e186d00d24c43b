"""Which items are judged, and which are kept for attention checks and examples: nobody judges one of those."""

import random
from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from typing import NamedTuple

from pluralrm.annotate.design import ItemKind, Mode, PlannedItem, Task
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Item
from pluralrm.errors import PlanError

_WIDTH: Mapping[Task, int] = {"pair": 2, "four": 4}


class Kept(NamedTuple):
    """Items to be judged, and items for checks and examples."""

    judged: list[Item]
    checks: list[Item]
    examples: list[Item]


def task_of(benchmark: Benchmark) -> Task:
    """Return what people are asked on a benchmark: two answers, or four."""
    widths = {len(item.candidates) for item in benchmark.items}
    for task, width in _WIDTH.items():
        if widths == {width}:
            return task
    raise PlanError(
        f"benchmark {benchmark.card.name!r} has items of {', '.join(map(str, sorted(widths)))} answers; "
        "wanted two answers in all items, or four"
    )


def kept_apart(
    benchmark: Benchmark, task: Task, mode: Mode, *, items: int | None, checks: int, examples: int, seed: int
) -> Kept:
    """Return the items of each kind, domains in turn, by lot within a domain; too few are a PlanError."""
    groups = _in_turn(_judgeable(benchmark, task, mode), seed)
    apart = checks + examples
    judged = list(chain.from_iterable(groups[apart:]))
    wanted = len(judged) if items is None else items
    if len(groups) <= apart or wanted > len(judged) or wanted < 1:
        raise PlanError(
            f"benchmark {benchmark.card.name!r}: {len(judged):,} items are left beside {examples} examples and "
            f"{checks} checks; wanted {max(wanted, 1):,}. Ask for fewer with --items, --checks or --examples"
        )
    single = [group[0] for group in groups[:apart]]
    return Kept(judged[:wanted], single[:checks], single[checks:])


def _judgeable(benchmark: Benchmark, task: Task, mode: Mode) -> list[Item]:
    """Return the items that can be judged: of several phrasings of one prompt the first stands for all."""
    first = {_prompt(item): item for item in reversed(benchmark.items)} if task == "four" else {}
    found = [item for item in benchmark.items if not first or first[_prompt(item)] is item]
    if mode == "validate" and any(item.preferred is None for item in found):
        raise PlanError(f"benchmark {benchmark.card.name!r} has items without a label; wanted labels, or --mode own")
    return found


def _prompt(item: Item) -> tuple[str, str]:
    """Return what the phrasings of one prompt have in common."""
    return item.cluster, item.tags.get("group", item.id)


def _in_turn(items: Sequence[Item], seed: int) -> list[list[Item]]:
    """Return groups of items, domains in turn: items with the same answers go together, any other is alone."""
    domains: dict[str, dict[str, list[Item]]] = {}
    for item in items:
        alike = item.cluster if len(item.candidates) > 2 else item.id  # who saw one can tell another by elimination
        domains.setdefault(item.domain, {}).setdefault(alike, []).append(item)
    rows: list[list[list[Item]]] = []
    for domain, groups in sorted(domains.items()):
        names = sorted(groups)
        random.Random(f"{seed}:{domain}:items").shuffle(names)
        rows.append([groups[name] for name in names])
    return [group for turn in zip_longest(*rows) for group in turn if group is not None]


# ---------------------------------------------------------------- as they are shown


def planned_items(benchmark: Benchmark, kept: Kept, condition: str, *, seed: int) -> tuple[PlannedItem, ...]:
    """Return every item with what may be shown of its user; the condition decides which posts."""
    items = [*kept.judged, *kept.checks, *kept.examples]
    shows = load_condition(condition)
    if why := shows.unsupported(benchmark):
        raise PlanError(f"condition {condition!r}: {why}")
    if shows.reveals - {"posts"}:
        raise PlanError(f"condition {condition!r} reveals {', '.join(sorted(shows.reveals))}; wanted posts, or none")
    queries = shows.queries(benchmark, items)
    posts = [tuple(post.text for post in query.user.posts) if query.user else () for query in queries]
    phrasings = _phrasings(benchmark)
    shown = frozenset(text for item in items for text in item.candidates)
    found: list[PlannedItem] = []
    for place, (item, own) in enumerate(zip(items, posts, strict=True)):
        others = tuple(prompt for prompt in phrasings.get(_prompt(item), ()) if prompt != item.prompt)
        if place < len(kept.judged):
            found.append(_planned(item, "item", own, others))
        elif place < len(kept.judged) + len(kept.checks):
            found.append(_check(_planned(item, "check", own, others), benchmark.items, shown=shown, seed=seed))
        else:
            found.append(_planned(item, "example", own, others))
    return tuple(found)


def _phrasings(benchmark: Benchmark) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for item in benchmark.items:
        if "phrasing" in item.tags:
            found.setdefault(_prompt(item), []).append(item.prompt)
    return found


def _planned(item: Item, kind: ItemKind, posts: tuple[str, ...], paraphrases: tuple[str, ...]) -> PlannedItem:
    names = item.candidate_ids or tuple(str(place + 1) for place in range(len(item.candidates)))
    return PlannedItem(
        id=item.id,
        kind=kind,
        prompt=item.prompt,
        candidates=item.candidates,
        candidate_ids=names,
        preferred=item.preferred,
        domain=item.domain,
        cluster=item.cluster,
        posts=posts,
        narrative=item.oracle.narrative if item.oracle else "",
        paraphrases=paraphrases,
    )


def _check(item: PlannedItem, items: Sequence[Item], *, shown: frozenset[str], seed: int) -> PlannedItem:
    """Return a check: one of the item's own answers among answers to quite other prompts, worse for anyone."""
    own = item.candidates[item.preferred or 0]
    lots = random.Random(f"{seed}:{item.id}:check")
    others = len(item.candidates) - 1
    answers = _strange(item, items, shown=shown, least=others)
    candidates = (own, *lots.sample(answers, others))
    names = ("own", *(f"other{place + 1}" for place in range(others)))
    return PlannedItem(
        id=item.id,
        kind="check",
        prompt=item.prompt,
        candidates=candidates,
        candidate_ids=names,
        preferred=0,
        domain=item.domain,
        cluster=item.cluster,
        posts=item.posts,
        narrative=item.narrative,
        paraphrases=item.paraphrases,
    )


def _strange(item: PlannedItem, items: Sequence[Item], *, shown: frozenset[str], least: int) -> list[str]:
    """Return answers to other prompts; of another domain, and shown on no other screen, where there are enough."""
    strangers = [one for one in items if one.cluster != item.cluster]
    far = [one for one in strangers if one.domain != item.domain]
    own = set(item.candidates)
    # Who meets an answer where it is out of place judges it with that in mind where it is not.
    for pool in ([one for one in far if one.candidates[0] not in shown], far, strangers):
        answers = sorted({one.candidates[0] for one in pool} - own)
        if len(answers) >= least:
            return answers
    raise PlanError(f"no check can be made of {item.id!r}: too few other prompts. Leave checks out: --checks 0")
