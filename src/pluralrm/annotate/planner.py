"""Make a plan from a benchmark: items, annotators, orders and places, all derived from the seed.

Handles alone are not: they are keyed with a secret of the plan, so that who knows the benchmark and the seed cannot
tell from a handle which item it is.
"""

import hashlib
import hmac
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import NamedTuple

from pluralrm.annotate.plan import (
    AnnotationPlan,
    Annotator,
    Arm,
    Claim,
    ItemKind,
    Kind,
    Mode,
    PlanDeclaration,
    PlannedItem,
    Screen,
    Task,
)
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Item
from pluralrm.errors import PlanError
from pluralrm.text import counted

_WIDTH: Mapping[Task, int] = {"pair": 2, "four": 4}


# ---------------------------------------------------------------- which items are judged


class ItemSplit(NamedTuple):
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
) -> ItemSplit:
    """Return the items of each kind, domains in turn, by lot within a domain; too few are a PlanError."""
    groups = _in_turn(_judgeable(benchmark, task, mode), seed)
    apart = checks + examples
    judged = list(chain.from_iterable(groups[apart:]))
    count = len(judged) if items is None else items
    if len(groups) <= apart or count > len(judged) or count < 1:
        raise PlanError(
            f"benchmark {benchmark.card.name!r}: {len(judged):,} items are left beside {examples} examples and "
            f"{checks} checks; wanted {max(count, 1):,}. Ask for fewer with --items, --checks or --examples"
        )
    single = [group[0] for group in groups[:apart]]
    return ItemSplit(judged[:count], single[:checks], single[checks:])


def _judgeable(benchmark: Benchmark, task: Task, mode: Mode) -> list[Item]:
    """Return the items that can be judged: of several phrasings of one prompt the first stands for all."""
    first = {_prompt(item): item for item in reversed(benchmark.items)} if task == "four" else {}
    items = [item for item in benchmark.items if not first or first[_prompt(item)] is item]
    without = [item.id for item in items if len(set(item.grades)) < 2]
    if mode == "validate" and without:
        raise PlanError(
            f"benchmark {benchmark.card.name!r} has {counted(len(without), 'item')} in which no answer is better than "
            f"another (such as {without[0]!r}); wanted labels, or --mode own"
        )
    return items


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


# ---------------------------------------------------------------- items as they are shown


def planned_items(benchmark: Benchmark, item_split: ItemSplit, condition: str, *, seed: int) -> tuple[PlannedItem, ...]:
    """Return every item with what may be shown of its user; the condition decides which posts."""
    items = [*item_split.judged, *item_split.checks, *item_split.examples]
    shows = load_condition(condition)
    if why := shows.unsupported(benchmark):
        raise PlanError(f"condition {condition!r}: {why}")
    if shows.reveals - {"posts"}:
        raise PlanError(f"condition {condition!r} reveals {', '.join(sorted(shows.reveals))}; wanted posts, or none")
    queries = shows.queries(benchmark, items)
    posts = [tuple(post.text for post in query.user.posts) if query.user else () for query in queries]
    phrasings = _phrasings(benchmark)
    texts = frozenset(text for item in items for text in item.candidates)
    planned: list[PlannedItem] = []
    for index, (item, own) in enumerate(zip(items, posts, strict=True)):
        others = tuple(prompt for prompt in phrasings.get(_prompt(item), ()) if prompt != item.prompt)
        if index < len(item_split.judged):
            planned.append(_planned(item, "item", own, others))
        elif index < len(item_split.judged) + len(item_split.checks):
            planned.append(
                _attention_check(_planned(item, "check", own, others), benchmark.items, texts=texts, seed=seed)
            )
        else:
            planned.append(_planned(item, "example", own, others))
    return tuple(planned)


def _phrasings(benchmark: Benchmark) -> dict[tuple[str, str], list[str]]:
    prompts: dict[tuple[str, str], list[str]] = {}
    for item in benchmark.items:
        if "phrasing" in item.tags:
            prompts.setdefault(_prompt(item), []).append(item.prompt)
    return prompts


def _planned(item: Item, kind: ItemKind, posts: tuple[str, ...], paraphrases: tuple[str, ...]) -> PlannedItem:
    names = item.candidate_ids or tuple(str(index + 1) for index in range(len(item.candidates)))
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
        grades=item.grades,
    )


def _attention_check(item: PlannedItem, items: Sequence[Item], *, texts: frozenset[str], seed: int) -> PlannedItem:
    """Return a check: one of the item's own answers among answers to quite other prompts, worse for anyone."""
    own = item.candidates[item.best[0] if item.best else 0]
    lots = random.Random(f"{seed}:{item.id}:check")
    others = len(item.candidates) - 1
    answers = _strange(item, items, texts=texts, least=others)
    candidates = (own, *lots.sample(answers, others))
    names = ("own", *(f"other{index + 1}" for index in range(others)))
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


def _strange(item: PlannedItem, items: Sequence[Item], *, texts: frozenset[str], least: int) -> list[str]:
    """Return answers to other prompts; of another domain, and shown on no other screen, where there are enough."""
    strangers = [stranger for stranger in items if stranger.cluster != item.cluster]
    far = [stranger for stranger in strangers if stranger.domain != item.domain]
    own = set(item.candidates)
    # Who meets an answer where it is out of place judges it with that in mind where it is not.
    for pool in ([stranger for stranger in far if stranger.candidates[0] not in texts], far, strangers):
        answers = sorted({stranger.candidates[0] for stranger in pool} - own)
        if len(answers) >= least:
            return answers
    raise PlanError(f"no check can be made of {item.id!r}: too few other prompts. Leave checks out: --checks 0")


# ---------------------------------------------------------------- who judges what


def assigned(items: Sequence[Item], annotators: Sequence[str], each: int, *, seed: int) -> dict[str, list[Item]]:
    """Return everybody's items. Loads differ by one at most, unless items share their answers.

    Of those with the fewest items, the one with the fewest of the domain judges next, then who has judged least
    beside the item's other annotators, then by lot. Who has judged an item with the same four answers comes last.
    """
    if each > len(annotators):
        raise PlanError(
            f"{len(annotators)} annotators in an arm cannot judge each item {each} times; wanted {each} or more: "
            "raise --annotators, or lower --judgments"
        )
    if len(items) * each < len(annotators):
        raise PlanError(f"{len(items) * each} judgments for {len(annotators)} annotators: wanted one for each at least")
    desk = _Desk(annotators)
    for item in items:
        lot = random.Random(f"{seed}:{item.id}:annotators")
        judges: list[str] = []
        for _ in range(each):
            judges.append(desk.next(item, judges, lot))
            desk.give(item, judges[-1], judges[:-1])
    return desk.held


class _Desk:
    """What everybody has been given so far."""

    def __init__(self, annotators: Sequence[str]) -> None:
        self.held: dict[str, list[Item]] = {name: [] for name in annotators}
        self._domain: Counter[tuple[str, str]] = Counter()
        self._beside: Counter[frozenset[str]] = Counter()
        self._answers: set[tuple[str, str]] = set()

    def next(self, item: Item, judges: Sequence[str], lot: random.Random) -> str:
        free = [name for name in self.held if name not in judges]
        fresh = [name for name in free if (name, item.cluster) not in self._answers] or free
        least = min(len(self.held[name]) for name in fresh)
        idle = [name for name in fresh if len(self.held[name]) == least]
        lots = {name: lot.random() for name in idle}
        return min(
            idle,
            key=lambda name: (
                self._domain[name, item.domain],
                sum(self._beside[frozenset((name, judge))] for judge in judges),
                lots[name],
            ),
        )

    def give(self, item: Item, name: str, beside: Sequence[str]) -> None:
        self.held[name].append(item)
        self._domain[name, item.domain] += 1
        for judge in beside:
            self._beside[frozenset((name, judge))] += 1
        if len(item.candidates) > 2:
            self._answers.add((name, item.cluster))


CLAIM = Claim(margin=0.1, floor=3.0)
_SPAN = 4
"""Points from the lowest rating to the highest."""
_HANDLE = 24
"""Hex digits of a handle: 96 bits."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What is wanted of a plan; `arms` and `condition` default to what the benchmark has."""

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


def make_plan(benchmark: Benchmark, ask: PlanRequest, *, key: str) -> AnnotationPlan:
    """Return the plan; with the same benchmark, ask and key it is the same plan."""
    _check(ask)
    task, arms = task_of(benchmark), arms_of(benchmark, ask)
    condition = ask.condition or ("none" if arms == ("prompt",) else "raw:10")
    split = kept_apart(
        benchmark,
        task,
        ask.mode,
        items=ask.items,
        checks=ask.checks,
        examples=ask.examples if ask.mode == "validate" else 0,
        seed=ask.seed,
    )
    digits = max(2, len(str(ask.annotators)))
    people = tuple(Annotator(f"a{number + 1:0{digits}}", arms[number % len(arms)]) for number in range(ask.annotators))
    return AnnotationPlan(
        declared=PlanDeclaration(
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
        items=planned_items(benchmark, split, condition, seed=ask.seed),
        screens=tuple(_screens(people, split, ask, key)),
    )


def _check(ask: PlanRequest) -> None:
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


def arms_of(benchmark: Benchmark, ask: PlanRequest) -> tuple[Arm, ...]:
    """Return the arms asked for, or all that the benchmark has; one that it lacks is a PlanError."""
    has: list[Arm] = []
    if ask.mode == "validate" and benchmark.has_posts:
        complete = all(item.oracle is not None and item.oracle.narrative for item in benchmark.items)
        has = ["narrative", "posts"] if complete else ["posts"]
    has = has or ["prompt"]
    for arm in ask.arms:
        if arm not in has:
            raise PlanError(f"arm {arm!r}: {benchmark.card.name!r} has {', '.join(has)} in mode {ask.mode!r}")
    if ask.annotators < len(ask.arms or has):
        raise PlanError(f"{ask.annotators} annotators for {len(ask.arms or has)} arms: wanted one in each at least")
    return tuple(dict.fromkeys(ask.arms)) or tuple(has)


def _screens(people: Sequence[Annotator], item_split: ItemSplit, ask: PlanRequest, key: str) -> Iterator[Screen]:
    """Yield everybody's screens in order; who is in which arm never changes an order."""
    by_person: dict[str, list[Item]] = {}
    width = len(item_split.judged[0].candidates)
    for arm in dict.fromkeys(person.arm for person in people):
        names = [person.id for person in people if person.arm == arm]
        by_person |= assigned(item_split.judged, names, ask.each, seed=ask.seed)
    for person in people:
        for position, (kind, item) in enumerate(_in_order(by_person[person.id], item_split, ask, person.id)):
            order = _placed(person.id, item, width, ask.seed)
            if kind == "repeat":
                order = order[1:] + order[:1]  # another order, so that who goes by the place does not agree
            handle = _handle(key, person.id, item, kind)
            yield Screen(handle, person.id, position, item, kind, order)


def _in_order(own: Sequence[Item], item_split: ItemSplit, ask: PlanRequest, annotator: str) -> list[tuple[Kind, str]]:
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
    checks = [item.id for item in item_split.checks]
    lot.shuffle(checks)
    total = len(screens)
    for number, name in reversed(list(enumerate(checks))):
        low, high = (total * end // len(checks) for end in (number, number + 1))
        screens.insert(lot.randint(low, high), ("check", name))
    return [*(("example", item.id) for item in item_split.examples), *screens]


def _placed(annotator: str, item: str, width: int, seed: int) -> tuple[int, ...]:
    order = list(range(width))
    random.Random(f"{seed}:{annotator}:{item}:places").shuffle(order)
    return tuple(order)


def _handle(key: str, annotator: str, item: str, kind: Kind) -> str:
    return hmac.new(key.encode(), f"{annotator}\0{item}\0{kind}".encode(), hashlib.sha256).hexdigest()[:_HANDLE]
