"""Which aspects of the rubrics are personal, and which are what nearly everyone would expect: a chat model says.

A benchmark of this kind claims that its rubrics are about the person. What could not be read is counted and left out.
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from pluralrm.audit.measured import share
from pluralrm.audit.result import Finding, Measures
from pluralrm.audit.rubrics import GENERAL, rubrics
from pluralrm.chat.completions import unreadable
from pluralrm.chat.role import ChatCall, ChatRole
from pluralrm.core import OPEN_KINDS, Benchmark, Failure, Item, Run
from pluralrm.grading.grader import json_in
from pluralrm.text import counted, estimated

TEMPLATE = "audit-aspects-v1"
_WORDS = ("general", "personal")

Kinds = Mapping[str, tuple[bool, ...] | Failure]
"""For each item with a rubric, whether each of its aspects is general; or why that is not known."""


class Appraisal(NamedTuple):
    """What a judge says of a benchmark in general."""

    judge: str = ""
    kinds: Kinds | None = None
    ratings: Run | None = None
    """A run in which each answer is rated alone, and nothing is known of the user."""

    @property
    def complete(self) -> bool:
        """Return whether no outage kept a part of it from being asked."""
        failures = [kind for kind in (self.kinds or {}).values() if isinstance(kind, Failure)]
        rated = self.ratings is None or self.ratings.complete
        return rated and not any(failure.kind in OPEN_KINDS for failure in failures)


def aspect_kinds(benchmark: Benchmark, role: ChatRole) -> Kinds:
    """Ask which aspects nearly everyone would expect, one call an item; an unreadable reply is asked once more."""
    found: dict[str, tuple[bool, ...] | Failure] = {}
    held = rubrics(benchmark)

    def calls(rubric: tuple[Item, Sequence[str]]) -> list[ChatCall[tuple[bool, ...]]]:
        item, titles = rubric
        example = json.dumps([_WORDS[place % 2] for place in range(len(titles))])
        text = role.template.fill(question=item.prompt, aspects=titles, example=example)
        again = f"Say nothing but a JSON list of {len(titles)} words, as asked."
        return [role.call(text, partial(_kinds, count=len(titles)), again)]

    for (item, _), [call] in role.ask(zip(held.items, held.titles, strict=True), calls):
        found[item.id] = Failure("crash", "no outcome") if call.outcome is None else call.outcome
    return found


def _kinds(text: str, *, count: int) -> tuple[bool, ...] | Failure:
    """Return whether each aspect is general.

    >>> _kinds('["general", "personal"]', count=2)
    (True, False)
    """
    value = json_in(text)
    if not isinstance(value, list) or not all(word in _WORDS for word in value):
        return unreadable('the text is not a JSON list of "general" and "personal" and nothing else', text)
    if len(value) != count:
        return unreadable(f"the list has {len(value)} words, wanted {count}", text)
    return tuple(word == _WORDS[0] for word in value)


def general_aspects(benchmark: Benchmark, appraisal: Appraisal) -> Finding:
    """Return the share of aspects that are general quality, and of items whose whole rubric is."""
    held, judge, kinds = rubrics(benchmark), appraisal.judge, appraisal.kinds or {}
    read = [(item, kinds[item.id]) for item in held.items if item.id in kinds]
    told = [(item, kind) for item, kind in read if not isinstance(kind, Failure)]
    if not told:
        lost: Measures = {"unread items": len(held.items)}
        return Finding(GENERAL, "not available", f"no reply of {judge} could be read", lost)
    owners = [item.cluster for item, kind in told for _ in kind]
    general = share([float(one) for _, kind in told for one in kind], owners)
    whole = share([float(all(kind)) for _, kind in told], [item.cluster for item, _ in told])
    unread = len(held.items) - len(told)
    found = (
        f"{judge} calls {estimated(general)}% of {counted(len(owners), 'aspect')} what nearly everyone would expect; "
        f"in {estimated(whole)}% of items that holds for the whole rubric"
    )
    if unread:
        found += f". {counted(unread, 'item')} of {len(held.items):,} left out: no reply that could be read"
    measures: Measures = {"general aspects": general, "items with general aspects alone": whole, "unread items": unread}
    return Finding(GENERAL, "note" if general.value >= 0.5 else "ok", found, measures)
