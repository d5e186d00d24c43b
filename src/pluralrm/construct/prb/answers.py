"""The answers of a record: one side is written, gated, judged, and written anew until every gate lets it pass."""

import json
from collections.abc import Iterator, Sequence
from functools import partial

from pluralrm.audit.near import normalised
from pluralrm.benchmarks.lamp_qa import AspectRow, PostRow
from pluralrm.chat.completions import reason_of
from pluralrm.conditions.notes import aspects as read_list
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
from pluralrm.construct.prb.gates import QUOTED, quoted, refusals
from pluralrm.construct.prb.judges import JudgeStandIns, JudgeTemplates, marks, read_aspects
from pluralrm.construct.prb.products import (
    AnswerSide,
    Chosen,
    Marks,
    PairAnswer,
    PersonalQuestion,
    QuestionParts,
    QuestionRubric,
    Rules,
    Shown,
)
from pluralrm.core import Failure
from pluralrm.templates import Template

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
    found = yield from until_accepted(
        partial(_plan, record, template, last=attempts - 1), partial(_check, record), attempts
    )
    if isinstance(found, Rejection):
        return found
    planned, tries = found
    return Acceptance(QuestionRubric(aspects=planned, given=False), tries)


def _aspects_for(record: Record, *, founded: bool = True) -> str:
    """Return what a planner might say for a dry run: aspects whose evidence was written, or was not."""
    texts = [record[PersonalQuestion].narrative, *(post.text for post in record[Shown].posts)]
    evidence = " ".join(max(texts, key=lambda text: len(text.split())).split()[:12]) if founded else filler(12)
    rows = [
        {"aspect": filler(6, record.id, place), "evidence": evidence, "reason": filler(8, record.id, place)}
        for place in range(4)
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
    said = yield from ask(call)
    return Refusal("unreadable", reason_of(said)) if isinstance(said, Failure) else said


def _check(record: Record, planned: tuple[AspectRow, ...], _attempt: int) -> Work[Sequence[Refusal]]:
    yield from ask_all(())  # no model is asked
    return list(_unfounded(planned, record[Shown].posts, record[PersonalQuestion].narrative))


def _unfounded(planned: tuple[AspectRow, ...], posts: Sequence[PostRow], narrative: str) -> Iterator[Refusal]:
    """Yield the aspects whose evidence the user never wrote."""
    for one in planned:
        if not (quoted(one.evidence, [narrative]) or _from_posts(one.evidence, posts)):
            said = (
                f"the evidence {one.evidence[:80]!r} of {one.aspect!r} is no passage of {QUOTED} words or more from "
                "above"
            )
            yield Refusal("evidence", said)


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
    said = yield from ask(ModelCall(PLANNER, text, template, _read_parts, _LINES, stand_in=parts_of_it))
    if isinstance(said, Failure):
        return Rejection("unreadable", reason_of(said))
    return Acceptance(QuestionParts(parts=said))


def _read_parts(text: str) -> tuple[str, ...] | Failure:
    found = read_list(text)
    if not isinstance(found, Failure) and len(found) > MOST_PARTS:
        return Failure("parse", f"the list has {len(found)} parts, wanted 1 to {MOST_PARTS}")
    return found


WRITER = "writer"
_ANSWER = "Write the answer and nothing else."
_TYPICAL_WORDS = 80
"""Of a written answer, in a dry run."""


def answer(
    record: Record, side: AnswerSide, *, rules: Rules, template: Template, judges: JudgeTemplates
) -> Work[Decision]:
    """Keep the answer of one side, with what judges gave it."""
    draft = _Draft(record, side, rules=rules, template=template, judges=judges)
    found = yield from until_accepted(draft.write, draft.judge, rules.attempts)
    if isinstance(found, Rejection):
        return found
    text, tries = found
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
            self._asked(reasons),
            self._template,
            str.strip,
            _ANSWER,
            tag=f"{attempt}" if attempt else "",
            stand_in=StandIn(filler(words, self._record.id, self._side.makes.__name__, attempt)),
        )
        said = yield from ask(call)
        if isinstance(said, Failure):
            return Refusal("unwritten", f"{said.kind}: {reason_of(said)}")
        self._before = said
        return said

    def judge(self, text: str, attempt: int) -> Work[Sequence[Refusal]]:
        """Return why a text may not stay. Checks without requests come first: a text that fails there costs nothing."""
        if refused := list(self._by_rule(text)):
            return refused
        if before := self._refused.get(normalised(text)):
            return [Refusal("unchanged", "its words are those of a text that was refused before"), *before]
        last = attempt + 1 == self._rules.attempts
        standing = JudgeStandIns(self._side.task, refused=not last)
        given = yield from marks(self._record, text, templates=self._judges, covered=self._covered, standing=standing)
        if isinstance(given, Failure):
            return [Refusal("unjudged", f"{given.kind}: {reason_of(given)}")]
        self.marks[text] = given
        beside = None if self._beside is None else self._beside.marks
        found = refusals(given, beside, side=self._side, rules=self._rules, rubric=self._record[QuestionRubric].aspects)
        self._refused[normalised(text)] = found
        return found

    def _asked(self, reasons: Sequence[Refusal]) -> str:
        question, rubric = self._record[PersonalQuestion], self._record[QuestionRubric].aspects
        return self._template.fill(
            task=self._side.task,
            posts=lines(self._record[Shown].posts),
            question=question.question,
            aspects=[_line(one) for one in rubric],
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


def _line(one: AspectRow) -> str:
    """Return an aspect with its reason as one line of a list."""
    told = f"{one.aspect}: {one.reason}" if one.reason.strip() else one.aspect
    return " ".join(told.split())
