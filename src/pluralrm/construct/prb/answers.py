"""The answers of a record: one side is written, gated, judged, and written anew until every gate lets it pass."""

from collections.abc import Iterator, Sequence

from pluralrm.audit.near import normalised
from pluralrm.benchmarks.lamp_qa import AspectRow
from pluralrm.chat.completions import reason_of
from pluralrm.construct.pipeline.records import Record
from pluralrm.construct.pipeline.work import Ask, Decision, Kept, Refusal, Rejected, Work, ask, until_accepted
from pluralrm.construct.prb import gates
from pluralrm.construct.prb.judged import refusals
from pluralrm.construct.prb.judges import JudgeTemplates, marks
from pluralrm.construct.prb.products import Answer, Chosen, Marks, Parts, Question, Rubric, Shown, Side
from pluralrm.construct.prb.rubric import lines
from pluralrm.construct.prb.rules import Rules
from pluralrm.core import Failure
from pluralrm.templates import Template

WRITER = "writer"
_ANSWER = "Write the answer and nothing else."


def answer(record: Record, side: Side, *, rules: Rules, template: Template, judges: JudgeTemplates) -> Work[Decision]:
    """Keep the answer of one side, with what judges gave it."""
    draft = _Draft(record, side, rules=rules, template=template, judges=judges)
    found = yield from until_accepted(draft.write, draft.judge, rules.attempts)
    if isinstance(found, Rejected):
        return found
    text, tries = found
    return Kept(side.makes(text=text, marks=draft.marks[text]), tries)


class _Draft:
    """One side of a record while it is written; `marks` is what judges gave each text that they were shown."""

    def __init__(self, record: Record, side: Side, *, rules: Rules, template: Template, judges: JudgeTemplates) -> None:
        self.marks: dict[str, Marks] = {}
        self._refused: dict[str, Sequence[Refusal]] = {}
        """Why a judge's marks refused a text, by its words."""
        self._record, self._side, self._rules = record, side, rules
        self._template, self._judges = template, judges
        self._covered = "contrary" in rules.kinds
        self._beside: Answer | None = None if side.makes is Chosen else record[Chosen]
        self._before = ""

    def write(self, attempt: int, reasons: Sequence[Refusal]) -> Work[str | Refusal]:
        """Return a text, or why there is none.

        The first of the pool writes all answers of a record, whatever fails: another's habits would tell the label.
        """
        call = Ask(
            WRITER, self._asked(reasons), self._template, str.strip, _ANSWER, tag=f"{attempt}" if attempt else ""
        )
        said = yield from ask(call)
        if isinstance(said, Failure):
            return Refusal("unwritten", f"{said.kind}: {reason_of(said)}")
        self._before = said
        return said

    def judge(self, text: str, _attempt: int) -> Work[Sequence[Refusal]]:
        """Return why a text may not stay. What asks nobody comes first: a text that fails there is not paid for."""
        if refused := list(self._by_rule(text)):
            return refused
        if before := self._refused.get(normalised(text)):
            return [Refusal("unchanged", "its words are those of a text that was refused before"), *before]
        given = yield from marks(self._record, text, templates=self._judges, covered=self._covered)
        if isinstance(given, Failure):
            return [Refusal("unjudged", f"{given.kind}: {reason_of(given)}")]
        self.marks[text] = given
        beside = None if self._beside is None else self._beside.marks
        found = refusals(given, beside, side=self._side, rules=self._rules, rubric=self._record[Rubric].aspects)
        self._refused[normalised(text)] = found
        return found

    def _asked(self, reasons: Sequence[Refusal]) -> str:
        question, rubric = self._record[Question], self._record[Rubric].aspects
        return self._template.fill(
            task=self._side.task,
            posts=lines(self._record[Shown].posts),
            question=question.question,
            aspects=[_line(one) for one in rubric],
            # As published, a rejected answer is told nothing of coverage.
            parts=list(self._record[Parts].parts) if self._covered and self._side.task != "avoid" else [],
            most=str(self._rules.most_words),
            words=str(gates.words_in(self._beside.text)) if self._beside else "",
            before=self._before[: self._rules.most_words * gates.LETTERS] if reasons else "",
            reasons=[reason.said for reason in reasons],
        )

    def _by_rule(self, text: str) -> Iterator[Refusal]:
        question = self._record[Question].question
        yield from gates.form(text, self._rules.most_words)
        if self._beside is not None:
            yield from gates.length(text, self._beside.text, band=self._rules.band)
            yield from gates.likeness(text, self._beside.text)
        yield from gates.wording(text, self._record[Rubric].aspects, question=question)


def _line(one: AspectRow) -> str:
    """Return an aspect with its reason as one line of a list."""
    told = f"{one.aspect}: {one.reason}" if one.reason.strip() else one.aspect
    return " ".join(told.split())
