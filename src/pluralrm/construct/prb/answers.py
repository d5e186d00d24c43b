"""The answers of a record: one side is written, gated, judged, and written anew until every gate lets it pass.

Judges are shown one answer at a time, and the same is asked about either side of a pair: neither a label nor an order
is there to be seen. The judges of quality and coverage see no user. Their replies, and a planner's, are JSON in the
form that was asked for and nothing beside it, or Failure("parse").
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from pydantic import TypeAdapter, ValidationError

from pluralrm.audit.near import normalised
from pluralrm.benchmarks.lamp_qa import AspectRow, PostRow
from pluralrm.chat.completions import reason_of, unreadable
from pluralrm.conditions.notes import aspects as read_list
from pluralrm.construct.filters import faulty
from pluralrm.construct.pipeline.stages import (
    Acceptance,
    Decision,
    ModelCall,
    Record,
    Refusal,
    Rejection,
    StandIn,
    Work,
    ask,
    ask_all,
    filler,
    until_accepted,
)
from pluralrm.construct.prb import gates
from pluralrm.construct.prb.gates import LETTERS, QUOTED, quoted, refusals
from pluralrm.construct.prb.products import (
    BEST,
    WORST,
    AnswerSide,
    Chosen,
    Marks,
    PairAnswer,
    PersonalQuestion,
    Quality,
    QuestionParts,
    QuestionRubric,
    Rules,
    Shown,
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
    answer = fenced("answer", text, mark_of([text], f"{item.id}\n{item.prompt}", seed=0))
    quality = _quality(item, answer, templates.quality, standing.quality())
    aspects = list(_aspects(item, answer, templates.adherence, standing.points(met=standing.task == "meet")))
    opposed = standing.points(met=standing.task == "contrary")
    others = list(_aspects(item, answer, templates.opposite, opposed)) if covered else []
    coverage = [_coverage(item, record[QuestionParts].parts, answer, templates.coverage)] if covered else []
    replies = yield from ask_all([quality, *aspects, *others, *coverage])
    for outcome in replies:
        if isinstance(outcome, Failure):
            return outcome
    return _marks(replies, len(aspects))


def _marks(replies: Sequence[object], aspects: int) -> Marks:
    """Return the marks from replies in the order of the calls: quality, each aspect, each opposite, coverage."""
    [quality] = [reply for reply in replies if isinstance(reply, Quality)]
    points = [reply for reply in replies if isinstance(reply, tuple)]
    single = [score for score, *_ in points[: 2 * aspects]]
    coverage = points[-1] if len(points) > aspects else ()
    return Marks(
        quality=quality, adherence=tuple(single[:aspects]), opposite=tuple(single[aspects:]), coverage=coverage
    )


def _item(record: Record) -> Item:
    """Return the question with what its user expects, as graders take it."""
    question = record[PersonalQuestion]
    aspects = tuple(Aspect(aspect.aspect, aspect.evidence, aspect.reason) for aspect in record[QuestionRubric].aspects)
    oracle = Oracle(aspects, question.narrative)
    return Item(record.id, question.question, (), None, record.id, record.domain, oracle=oracle)


def _quality(item: Item, answer: str, template: Template, stand_in: StandIn) -> ModelCall[Quality]:
    text = template.fill(question=item.prompt, answer=answer)
    return ModelCall(JUDGE, text, template, read_quality, _RATINGS, stand_in=stand_in)


def _aspects(item: Item, answer: str, template: Template, stand_in: StandIn) -> Iterator[ModelCall[Points]]:
    for question in WAYS["per-aspect"].questions(item):
        text = template.fill(**question.slots, answer=answer)
        yield ModelCall(JUDGE, text, template, question.read, question.again, stand_in=stand_in)


def _coverage(item: Item, parts: Sequence[str], answer: str, template: Template) -> ModelCall[Points]:
    example = str([index % 3 for index in range(len(parts))])
    text = template.fill(question=item.prompt, aspects=list(parts), example=example, answer=answer)
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
    value = _plain(json_in(text))
    if not isinstance(value, dict) or value.keys() != Quality.model_fields.keys():
        usage = '{"factuality": 1 to 5, "relevance": 1 to 5, "helpfulness": 1 to 5}'
        return unreadable(f"the text is not the JSON object {usage} and nothing else", text)
    try:
        quality = Quality.model_validate(value)
    except ValidationError:
        return unreadable("a rating is not a whole number", text)
    if not all(WORST <= rating <= BEST for rating in quality.model_dump().values()):
        return unreadable("a rating is not 1, 2, 3, 4 or 5", text)
    return quality


def read_aspects(text: str) -> tuple[AspectRow, ...] | Failure:
    """Return the aspects of a JSON list of objects with aspect, evidence and reason."""
    value = json_in(text)
    listed = value if isinstance(value, list) and not isinstance(value, JsonPairs) else [None]
    keys = AspectRow.model_fields.keys()
    rows = [row if isinstance(row, dict) and row.keys() <= keys else None for row in map(_plain, listed)]
    try:
        aspects = _ROWS.validate_python(rows)
    except ValidationError:
        return unreadable("the text is not a JSON list of objects with aspect, evidence and reason, each a text", text)
    if not LEAST <= len(aspects) <= MOST:
        return unreadable(f"the list has {len(aspects)} aspects, wanted {LEAST} to {MOST}", text)
    if len({" ".join(aspect.aspect.casefold().split()) for aspect in aspects}) < len(aspects):
        return unreadable("the list names an aspect twice", text)
    if any(len(aspect.aspect.split()) > TITLE for aspect in aspects):
        return unreadable(f"an aspect has more than {TITLE} words", text)
    if why := next(filter(None, (faulty(aspect.aspect, TITLE * LETTERS) for aspect in aspects)), ""):
        return unreadable(f"an aspect cannot be used: {why}", text)
    return tuple(aspects)


def _plain(value: object) -> object:
    """Return a JSON object as a dict; one that gives a key twice is none."""
    if not isinstance(value, JsonPairs):
        return value
    keys = [key for key, _ in value]
    return dict(value) if len(set(keys)) == len(keys) else None


PLANNER = "planner"
MOST_PARTS = 6
_LIST = 'Reply with a JSON list of objects with "aspect", "evidence" and "reason", each a text, and nothing else.'
_LINES = 'Write one line for each part, each beginning with "- ", and nothing else.'


def lines(posts: Sequence[PostRow]) -> list[str]:
    """Return posts as models are shown them: each with its category, where it has one."""
    return [f"({post.category}) {post.text}" if post.category else post.text for post in posts]


def aspects(record: Record, *, template: Template, attempts: int) -> Work[Decision]:
    """Keep the aspects that came with the question; where none did, those that a planner shows to rest on the posts."""
    question = record[PersonalQuestion]
    if question.aspects:
        return Acceptance(QuestionRubric(aspects=question.aspects, given=True))
    plan = yield from until_accepted(
        partial(_plan, record, template, last=attempts - 1), partial(_check, record), attempts
    )
    if isinstance(plan, Rejection):
        return plan
    planned, tries = plan
    return Acceptance(QuestionRubric(aspects=planned, given=False), tries)


def _aspects_for(record: Record, *, founded: bool = True) -> str:
    """Return what a planner might say for a dry run: aspects whose evidence was written, or was not."""
    texts = [record[PersonalQuestion].narrative, *(post.text for post in record[Shown].posts)]
    evidence = " ".join(max(texts, key=lambda text: len(text.split())).split()[:12]) if founded else filler(12)
    rows = [
        {"aspect": filler(6, record.id, index), "evidence": evidence, "reason": filler(8, record.id, index)}
        for index in range(4)
    ]
    return json.dumps(rows)


def _plan(
    record: Record, template: Template, attempt: int, reasons: Sequence[Refusal], *, last: int
) -> Work[tuple[AspectRow, ...] | Refusal]:
    question = record[PersonalQuestion]
    text = template.fill(
        posts=lines(record[Shown].posts),
        narrative=question.narrative,
        question=question.question,
        reasons=[reason.said for reason in reasons],
    )
    call = ModelCall(
        PLANNER,
        text,
        template,
        read_aspects,
        _LIST,
        tag=f"{attempt}" if attempt else "",
        stand_in=StandIn(_aspects_for(record), "" if attempt == last else _aspects_for(record, founded=False)),
    )
    reply = yield from ask(call)
    return Refusal("unreadable", reason_of(reply)) if isinstance(reply, Failure) else reply


def _check(record: Record, planned: tuple[AspectRow, ...], _attempt: int) -> Work[Sequence[Refusal]]:
    yield from ask_all(())  # no model is asked
    return list(_unfounded(planned, record[Shown].posts, record[PersonalQuestion].narrative))


def _unfounded(planned: tuple[AspectRow, ...], posts: Sequence[PostRow], narrative: str) -> Iterator[Refusal]:
    """Yield the aspects whose evidence the user never wrote."""
    for aspect in planned:
        if not (quoted(aspect.evidence, [narrative]) or _from_posts(aspect.evidence, posts)):
            reason = (
                f"the evidence {aspect.evidence[:80]!r} of {aspect.aspect!r} is no passage of {QUOTED} words or more "
                "from above"
            )
            yield Refusal("evidence", reason)


def _from_posts(evidence: str, posts: Sequence[PostRow]) -> bool:
    """Return whether evidence is a passage of a post, which may begin as the prompt shows that post: `[1] (cooking)`.

    Number and label are the prompt's: the words that count are the user's.
    """
    for number, (post, line) in enumerate(zip(posts, lines(posts), strict=True), 1):
        label = line.removesuffix(post.text)
        bare = evidence.strip().removeprefix(f"[{number}]").lstrip()
        if quoted(bare[len(label) :] if label and bare.startswith(label) else bare, [post.text]):
            return True
    return False


def parts(record: Record, *, template: Template) -> Work[Decision]:
    """Keep what the question asks for; without it two answers cannot be said to cover the same."""
    text = template.fill(question=record[PersonalQuestion].question)
    parts_of_it = StandIn(f"- {filler(8, record.id, 0)}\n- {filler(8, record.id, 1)}")
    reply = yield from ask(ModelCall(PLANNER, text, template, _read_parts, _LINES, stand_in=parts_of_it))
    if isinstance(reply, Failure):
        return Rejection("unreadable", reason_of(reply))
    return Acceptance(QuestionParts(parts=reply))


def _read_parts(text: str) -> tuple[str, ...] | Failure:
    items = read_list(text)
    if not isinstance(items, Failure) and len(items) > MOST_PARTS:
        return Failure("parse", f"the list has {len(items)} parts, wanted 1 to {MOST_PARTS}")
    return items


WRITER = "writer"
_ANSWER = "Write the answer and nothing else."
_TYPICAL_WORDS = 80
"""Of a written answer, in a dry run."""


def answer(
    record: Record, side: AnswerSide, *, rules: Rules, template: Template, judges: JudgeTemplates
) -> Work[Decision]:
    """Keep the answer of one side, with what judges gave it."""
    draft = _Draft(record, side, rules=rules, template=template, judges=judges)
    outcome = yield from until_accepted(draft.write, draft.judge, rules.attempts)
    if isinstance(outcome, Rejection):
        return outcome
    text, tries = outcome
    return Acceptance(side.makes(text=text, marks=draft.marks[text]), tries)


class _Draft:
    """One side of a record while it is written; `marks` is what judges gave each text that they were shown."""

    def __init__(
        self, record: Record, side: AnswerSide, *, rules: Rules, template: Template, judges: JudgeTemplates
    ) -> None:
        self.marks: dict[str, Marks] = {}
        self._refused: dict[str, Sequence[Refusal]] = {}
        """Why a judge's marks refused a text, by its words."""
        self._record, self._side, self._rules = record, side, rules
        self._template, self._judges = template, judges
        self._covered = "contrary" in rules.kinds
        self._beside: PairAnswer | None = None if side.makes is Chosen else record[Chosen]
        self._before = ""

    def write(self, attempt: int, reasons: Sequence[Refusal]) -> Work[str | Refusal]:
        """Return a text, or why there is none.

        The first of the pool writes all answers of a record, whatever fails: another's habits would tell the label.
        """
        words = min(self._rules.most_words, _TYPICAL_WORDS)
        call = ModelCall(
            WRITER,
            self._prompt(reasons),
            self._template,
            str.strip,
            _ANSWER,
            tag=f"{attempt}" if attempt else "",
            stand_in=StandIn(filler(words, self._record.id, self._side.makes.__name__, attempt)),
        )
        reply = yield from ask(call)
        if isinstance(reply, Failure):
            return Refusal("unwritten", f"{reply.kind}: {reason_of(reply)}")
        self._before = reply
        return reply

    def judge(self, text: str, attempt: int) -> Work[Sequence[Refusal]]:
        """Return why a text may not stay. Checks without requests come first: a text that fails there costs nothing."""
        if refused := list(self._by_rule(text)):
            return refused
        if before := self._refused.get(normalised(text)):
            return [Refusal("unchanged", "its words are those of a text that was refused before"), *before]
        last = attempt + 1 == self._rules.attempts
        standing = JudgeStandIns(self._side.task, refused=not last)
        verdict = yield from marks(self._record, text, templates=self._judges, covered=self._covered, standing=standing)
        if isinstance(verdict, Failure):
            return [Refusal("unjudged", f"{verdict.kind}: {reason_of(verdict)}")]
        self.marks[text] = verdict
        beside = None if self._beside is None else self._beside.marks
        reasons = refusals(
            verdict, beside, side=self._side, rules=self._rules, rubric=self._record[QuestionRubric].aspects
        )
        self._refused[normalised(text)] = reasons
        return reasons

    def _prompt(self, reasons: Sequence[Refusal]) -> str:
        question, rubric = self._record[PersonalQuestion], self._record[QuestionRubric].aspects
        return self._template.fill(
            task=self._side.task,
            posts=lines(self._record[Shown].posts),
            question=question.question,
            aspects=[_line(aspect) for aspect in rubric],
            # As published, a rejected answer is told nothing of coverage.
            parts=list(self._record[QuestionParts].parts) if self._covered and self._side.task != "avoid" else [],
            most=str(self._rules.most_words),
            words=str(gates.words_in(self._beside.text)) if self._beside else "",
            before=self._before[: self._rules.most_words * gates.LETTERS] if reasons else "",
            reasons=[reason.said for reason in reasons],
        )

    def _by_rule(self, text: str) -> Iterator[Refusal]:
        question = self._record[PersonalQuestion].question
        yield from gates.form(text, self._rules.most_words)
        if self._beside is not None:
            yield from gates.length(text, self._beside.text, band=self._rules.band)
            yield from gates.likeness(text, self._beside.text)
        yield from gates.wording(text, self._record[QuestionRubric].aspects, question=question)


def _line(aspect_row: AspectRow) -> str:
    """Return an aspect with its reason as one line of a list."""
    line = f"{aspect_row.aspect}: {aspect_row.reason}" if aspect_row.reason.strip() else aspect_row.aspect
    return " ".join(line.split())
