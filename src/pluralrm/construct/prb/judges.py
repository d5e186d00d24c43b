"""What judges are asked about one answer, and how their replies, and a planner's, are read: JSON in the form that was
asked for and nothing beside it, or Failure("parse").

Judges are shown one answer at a time, and the same is asked about either side of a pair: neither a label nor an order
is there to be seen. The judges of quality and coverage see no user.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from pydantic import TypeAdapter, ValidationError

from pluralrm.benchmarks.lamp_qa import AspectRow
from pluralrm.chat.completions import unreadable
from pluralrm.construct.filters import faulty
from pluralrm.construct.pipeline.stages import ModelCall, Record, StandIn, Work, ask_all
from pluralrm.construct.prb.gates import LETTERS
from pluralrm.construct.prb.products import (
    BEST,
    WORST,
    Marks,
    PersonalQuestion,
    Quality,
    QuestionParts,
    QuestionRubric,
    Task,
)
from pluralrm.core import Aspect, Failure, Item, Oracle
from pluralrm.grading.grader import KEY, WAYS, JsonPairs, Points, joint_points, json_in
from pluralrm.grading.grader import MOST as MOST_POINTS
from pluralrm.templates import Template, fenced, mark_of

JUDGE = "judge"
_RATINGS = 'Say nothing but {"factuality": 1 to 5, "relevance": 1 to 5, "helpfulness": 1 to 5}, with your numbers.'


@dataclass(frozen=True, slots=True)
class JudgeTemplates:
    """What judges are asked by."""

    adherence: Template
    quality: Template
    coverage: Template
    opposite: Template


@dataclass(frozen=True, slots=True)
class JudgeStandIns:
    """What judges say of an answer in a dry run: what its side is meant to get; the contrary where it is refused."""

    task: Task
    refused: bool

    def points(self, *, met: bool) -> StandIn:
        """Return the points of one aspect that is met, or is not."""
        return self._of(*(json.dumps({KEY: MOST_POINTS if good else 0}) for good in (met, not met)))

    def quality(self) -> StandIn:
        """Return the three ratings."""
        return self._of(*(json.dumps(dict.fromkeys(Quality.model_fields, rating)) for rating in (BEST, WORST)))

    def _of(self, accepted: str, refused: str) -> StandIn:
        return StandIn(accepted, refused if self.refused else "")


def marks(
    record: Record, text: str, *, templates: JudgeTemplates, covered: bool, standing: JudgeStandIns
) -> Work[Marks | Failure]:
    """Return what judges give an answer; the first Failure where one of them says nothing that can be read.

    `covered` asks for coverage and the opposite taste too, as a set with contrary answers needs them of every answer.
    """
    item = _item(record)
    shown = fenced("answer", text, mark_of([text], f"{item.id}\n{item.prompt}", seed=0))
    quality = _quality(item, shown, templates.quality, standing.quality())
    aspects = list(_aspects(item, shown, templates.adherence, standing.points(met=standing.task == "meet")))
    opposed = standing.points(met=standing.task == "contrary")
    others = list(_aspects(item, shown, templates.opposite, opposed)) if covered else []
    coverage = [_coverage(item, record[QuestionParts].parts, shown, templates.coverage)] if covered else []
    said = yield from ask_all([quality, *aspects, *others, *coverage])
    for outcome in said:
        if isinstance(outcome, Failure):
            return outcome
    return _marks(said, len(aspects))


def _marks(said: Sequence[object], aspects: int) -> Marks:
    """Return the marks from replies in the order of the calls: quality, each aspect, each opposite, coverage."""
    [quality] = [one for one in said if isinstance(one, Quality)]
    given = [one for one in said if isinstance(one, tuple)]
    single = [one[0] for one in given[: 2 * aspects]]
    coverage = given[-1] if len(given) > aspects else ()
    return Marks(
        quality=quality, adherence=tuple(single[:aspects]), opposite=tuple(single[aspects:]), coverage=coverage
    )


def _item(record: Record) -> Item:
    """Return the question with what its user expects, as graders take it."""
    question = record[PersonalQuestion]
    aspects = tuple(Aspect(one.aspect, one.evidence, one.reason) for one in record[QuestionRubric].aspects)
    oracle = Oracle(aspects, question.narrative)
    return Item(record.id, question.question, (), None, record.id, record.domain, oracle=oracle)


def _quality(item: Item, shown: str, template: Template, stand_in: StandIn) -> ModelCall[Quality]:
    text = template.fill(question=item.prompt, answer=shown)
    return ModelCall(JUDGE, text, template, read_quality, _RATINGS, stand_in=stand_in)


def _aspects(item: Item, shown: str, template: Template, stand_in: StandIn) -> Iterator[ModelCall[Points]]:
    for question in WAYS["per-aspect"].questions(item):
        text = template.fill(**question.slots, answer=shown)
        yield ModelCall(JUDGE, text, template, question.read, question.again, stand_in=stand_in)


def _coverage(item: Item, parts: Sequence[str], shown: str, template: Template) -> ModelCall[Points]:
    example = str([place % 3 for place in range(len(parts))])
    text = template.fill(question=item.prompt, aspects=list(parts), example=example, answer=shown)
    again = f"Say nothing but a JSON list of {len(parts)} numbers, each 0, 1 or 2."
    stand_in = StandIn(json.dumps([MOST_POINTS] * len(parts)))
    return ModelCall(JUDGE, text, template, partial(joint_points, aspects=len(parts)), again, stand_in=stand_in)


LEAST, MOST = 2, 8
"""Aspects in a list: the template asks for three to six."""
TITLE = 25
"""Words of an aspect's title: the template asks for twelve at most."""
_ROWS = TypeAdapter(list[AspectRow])


def read_quality(text: str) -> Quality | Failure:
    """Return the three ratings of a JSON object with these three keys.

    >>> read_quality('{"factuality": 4, "relevance": 5, "helpfulness": 4}')
    Quality(factuality=4, relevance=5, helpfulness=4)
    >>> read_quality('{"factuality": 9, "relevance": 5, "helpfulness": 4}').kind
    'parse'
    """
    found = _plain(json_in(text))
    if not isinstance(found, dict) or found.keys() != Quality.model_fields.keys():
        wanted = '{"factuality": 1 to 5, "relevance": 1 to 5, "helpfulness": 1 to 5}'
        return unreadable(f"the text is not the JSON object {wanted} and nothing else", text)
    try:
        quality = Quality.model_validate(found)
    except ValidationError:
        return unreadable("a rating is not a whole number", text)
    if not all(WORST <= rating <= BEST for rating in quality.model_dump().values()):
        return unreadable("a rating is not 1, 2, 3, 4 or 5", text)
    return quality


def read_aspects(text: str) -> tuple[AspectRow, ...] | Failure:
    """Return the aspects of a JSON list of objects with aspect, evidence and reason."""
    found = json_in(text)
    listed = found if isinstance(found, list) and not isinstance(found, JsonPairs) else [None]
    asked = AspectRow.model_fields.keys()
    rows = [row if isinstance(row, dict) and row.keys() <= asked else None for row in map(_plain, listed)]
    try:
        aspects = _ROWS.validate_python(rows)
    except ValidationError:
        return unreadable("the text is not a JSON list of objects with aspect, evidence and reason, each a text", text)
    if not LEAST <= len(aspects) <= MOST:
        return unreadable(f"the list has {len(aspects)} aspects, wanted {LEAST} to {MOST}", text)
    if len({" ".join(one.aspect.casefold().split()) for one in aspects}) < len(aspects):
        return unreadable("the list names an aspect twice", text)
    if any(len(one.aspect.split()) > TITLE for one in aspects):
        return unreadable(f"an aspect has more than {TITLE} words", text)
    if why := next(filter(None, (faulty(one.aspect, TITLE * LETTERS) for one in aspects)), ""):
        return unreadable(f"an aspect cannot be used: {why}", text)
    return tuple(aspects)


def _plain(value: object) -> object:
    """Return a JSON object as a dict; one that gives a key twice is none."""
    if not isinstance(value, JsonPairs):
        return value
    keys = [key for key, _ in value]
    return dict(value) if len(set(keys)) == len(keys) else None
