"""What judges are asked about one answer, and how their replies become marks.

They are shown one answer at a time, and the same is asked about either side of a pair: neither a label nor an order is
there to be seen. Whoever rates quality and coverage is shown no user.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from pluralrm.construct.pipeline.records import Record
from pluralrm.construct.pipeline.work import Ask, Work, ask_all
from pluralrm.construct.prb.products import Marks, Parts, Quality, Question, Rubric
from pluralrm.construct.prb.reading import read_quality
from pluralrm.core import Aspect, Failure, Item, Oracle
from pluralrm.grading.grade import Points, joint_points
from pluralrm.grading.grader import WAYS
from pluralrm.models.judge.fences import fenced, mark_of
from pluralrm.templates import Template

JUDGE = "judge"
_RATINGS = 'Say nothing but {"factuality": 1 to 5, "relevance": 1 to 5, "helpfulness": 1 to 5}, with your numbers.'


@dataclass(frozen=True, slots=True)
class JudgeTemplates:
    """What judges are asked by."""

    adherence: Template
    quality: Template
    coverage: Template
    opposite: Template


def marks(record: Record, text: str, *, templates: JudgeTemplates, covered: bool) -> Work[Marks | Failure]:
    """Return what judges give an answer; the first Failure where one of them says nothing that can be read.

    `covered` asks for coverage and the opposite taste too, as a set with contrary answers needs them of every answer.
    """
    item = _item(record)
    shown = fenced("answer", text, mark_of([text], f"{item.id}\n{item.prompt}", seed=0))
    quality = _quality(item, shown, templates.quality)
    aspects = list(_aspects(item, shown, templates.adherence))
    others = list(_aspects(item, shown, templates.opposite)) if covered else []
    coverage = [_coverage(item, record[Parts].parts, shown, templates.coverage)] if covered else []
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
    question = record[Question]
    aspects = tuple(Aspect(one.aspect, one.evidence, one.reason) for one in record[Rubric].aspects)
    oracle = Oracle(aspects, question.narrative)
    return Item(record.id, question.question, (), None, record.id, record.domain, oracle=oracle)


def _quality(item: Item, shown: str, template: Template) -> Ask[Quality]:
    return Ask(JUDGE, template.fill(question=item.prompt, answer=shown), template, read_quality, _RATINGS)


def _aspects(item: Item, shown: str, template: Template) -> Iterator[Ask[Points]]:
    for question in WAYS["per-aspect"].questions(item):
        yield Ask(JUDGE, template.fill(**question.slots, answer=shown), template, question.read, question.again)


def _coverage(item: Item, parts: Sequence[str], shown: str, template: Template) -> Ask[Points]:
    example = str([place % 3 for place in range(len(parts))])
    text = template.fill(question=item.prompt, aspects=list(parts), example=example, answer=shown)
    again = f"Say nothing but a JSON list of {len(parts)} numbers, each 0, 1 or 2."
    return Ask(JUDGE, text, template, partial(joint_points, aspects=len(parts)), again)
