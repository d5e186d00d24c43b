"""Grading: how far an answer gives a user what they expect of it, by their rubric and who reads it.

per-aspect:MODEL   one call for each aspect: question, narrative, answer, and the aspect with its reason and evidence
joint:MODEL        one call for all aspects: question, answer, and the titles of the aspects
truth              no call: on `simulated` it is known what an answer gives a user
math, code         no call: right or wrong by the item's known answer, as `pluralrm construct validate` tells it
given:NAME         no call: grades that NAME gave elsewhere, read from a file
python:M:F         one of your own: an object with grade(answers), made by F in the module M

The first two give 0, 1 or 2 per aspect, and their sum over twice their number, in [0, 1], is the grade. A grader reads
`item.oracle` itself and is no reward model. One of your own, for tests, needs no server:

>>> from pluralrm.benchmarks import load_benchmark
>>> from pluralrm.chat import ScriptedChat
>>> grader = open_grader("per-aspect:scripted", chat=ScriptedChat(lambda request: '{"match_score": 1}'))
>>> item = load_benchmark("pocket-prb").items[0]
>>> next(grader.grade([(item, "Start with a tune that you can hum.")])).grade
0.5

Equal texts of `given:NAME` have one grade: the mean of those that NAME gave them, so that best-of-k of a model, for
which equal texts tie, is what it is over the separate grades. A `python:` grader's `model`, `tally`, `unsupported` and
`prompts` may be left out: then the spec is its name, and no call is made.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from pluralrm import conditions as shown
from pluralrm import models, plugin
from pluralrm.chat import KEYS, ChatModel, open_role, seed
from pluralrm.core import Failure, Item
from pluralrm.errors import PoolError, SpecError
from pluralrm.grading.grader import WAYS, ChatGrader, Grade, Graded, Grader, Slots, aspects_of
from pluralrm.grading.truth import SUMMARIES as VALIDATORS
from pluralrm.grading.truth import SUMMARY, TRUTH, Truth, open_validator
from pluralrm.http import Metered, Settings, Tally
from pluralrm.models import default_settings
from pluralrm.plugin import Maker, Wanted, find
from pluralrm.specs import Form, Spec, parse
from pluralrm.templates import load_template

__all__ = [
    "FORMS",
    "WAYS",
    "Grade",
    "Graded",
    "Grader",
    "aspects_of",
    "check_independent",
    "grader_summaries",
    "open_grader",
    "parse_grader",
]


PLUGIN = "python:package.module:make, your own: an object with grade(answers), which yields a Graded for each"

_WANTED = Wanted("grader", "package.module:make", PoolError, "'pluralrm list graders'")


@dataclass(frozen=True)
class PluginGrader:
    """Somebody's grader under the spec that named it; what it yields is checked before it is kept."""

    spec: str
    model: str
    identity: Mapping[str, str]
    grader: Grader
    maker: Maker = field(compare=False, repr=False)

    @property
    def tally(self) -> Tally:
        """What was asked of a server, where the grader keeps account of it."""
        grader: object = self.grader
        return grader.tally if isinstance(grader, Metered) else Tally()

    def unsupported(self, items: Sequence[Item]) -> str | None:
        """Return why answers to these items cannot be graded; None where the grader says nothing of that."""
        why_not: Callable[[Sequence[Item]], str | None] | None = getattr(self.grader, "unsupported", None)
        return None if why_not is None else self.maker.ask(lambda: why_not(items), "cannot say what it grades")

    def prompts(self, item: Item, text: str) -> list[str]:
        """Return what is asked about one answer; nothing where the grader says nothing of that."""
        asks: Callable[[Item, str], list[str]] | None = getattr(self.grader, "prompts", None)
        return [] if asks is None else self.maker.ask(lambda: list(asks(item, text)), "cannot say what it asks")

    def grade(self, answers: Iterable[tuple[Item, str]]) -> Iterator[Graded]:
        """Yield one Graded per answer, in order; anything else is a PoolError that says what was wanted."""
        pairs = list(answers)
        stream = self.maker.ask(lambda: iter(self.grader.grade(pairs)), "raised")
        for item, text in pairs:
            graded = self.maker.ask(lambda: next(stream, None), "raised")
            self._check(graded, item, text)
            yield cast("Graded", graded)

    def _check(self, graded: object, item: Item, text: str) -> None:
        usage = "wanted one pluralrm.grading.Graded(item, text, grade) per answer, in order"
        if not isinstance(graded, Graded):
            raise PoolError(f"{self.spec} yielded {graded!r:.200} for an answer to {item.id!r}; {usage}")
        if (graded.item, graded.text) != (item.id, text):
            raise PoolError(f"{self.spec} graded another answer than the next one, to {item.id!r}; {usage}")
        if not _is_grade(graded.grade):
            raise PoolError(
                f"{self.spec} graded an answer to {item.id!r} with {graded.grade!r}; wanted a number from 0 to 1, "
                "or a Failure"
            )


def _is_grade(grade: object) -> bool:
    if isinstance(grade, Failure):
        return True
    if isinstance(grade, bool) or not isinstance(grade, int | float):
        return False
    return math.isfinite(grade) and 0 <= grade <= 1


def open_plugin(spec: Spec) -> PluginGrader:
    """Return the grader that `python:module:make` names, made with the spec's keys."""
    maker = find(spec, _WANTED)
    grader = maker.make()
    maker.require(grader, {"grade": "grade(answers)"})
    name = getattr(grader, "model", spec.target)
    if not isinstance(name, str) or not name:
        raise PoolError(f"{spec.target!r}: model is {name!r}; wanted the name of what grades, as a text")
    return PluginGrader(str(spec), name, {"spec": str(spec), **maker.identity(grader)}, cast("Grader", grader), maker)


GIVEN = "given"
ELSEWHERE = "given:NAME, grades made elsewhere, that 'pluralrm grade POOL --from FILE' read; no request is sent"
RULE = "mean"
"""What equal texts are graded that were graded differently."""


@dataclass(frozen=True, slots=True)
class Given:
    """Who graded elsewhere."""

    model: str

    @property
    def spec(self) -> str:
        """The string that names this grader in pools and tables."""
        return str(Spec(GIVEN, self.model))

    @property
    def identity(self) -> Mapping[str, str]:
        """The grader's name, and the rule for equal texts."""
        return {"by": self.model, "equal_texts": RULE}

    @property
    def tally(self) -> Tally:
        """Nothing is asked."""
        return Tally()

    def unsupported(self, items: Sequence[Item]) -> str | None:  # noqa: ARG002 - whatever was graded
        """Return None: any answer may have been graded."""
        return None

    def prompts(self, item: Item, text: str) -> list[str]:  # noqa: ARG002 - as every grader takes them
        """Return nothing: no call is made."""
        return []

    def grade(self, answers: Iterable[tuple[Item, str]]) -> Iterator[Graded]:
        """Raise a PoolError where any answer is left: only a file has grades by this grader."""
        for item, _ in answers:
            raise PoolError(
                f"{self.spec} gave no grade to an answer to {item.id!r}; 'pluralrm grade POOL --from FILE' reads more "
                "of them, and 'best-of-n --grade selected' needs those alone that some model picks"
            )
        yield from ()


FORMS: Mapping[str, Form] = {
    **{method: Form("required", KEYS, example=f"{method}:MODEL,url=URL") for method in WAYS},
    **dict.fromkeys(VALIDATORS, Form("optional")),
    TRUTH: Form(),
    GIVEN: Form("required", example="given:NAME"),
    plugin.KIND: plugin.FORM,
}
"""What the spec of each kind accepts."""

_PROBE: Slots = {
    "question": "A question?",
    "narrative": "Who asks.",
    "aspect": "One aspect.",
    "aspects": ["A first aspect.", "A second aspect."],
    "reason": "A reason.",
    "evidence": "Some evidence.",
    "example": "[0, 1]",
    "answer": "An answer.",
}


def open_grader(spec: Spec | str, *, chat: ChatModel | None = None, settings: Settings | None = None) -> Grader:
    """Return the grader; `chat` stands in for the server that the spec names, `settings` say how one is used.

    A rubric is made of what a user wrote, so it leaves this machine only with `send=posts`.
    """
    spec = parse_grader(spec) if isinstance(spec, str) else spec
    if spec.kind == TRUTH:
        return Truth()
    if spec.kind in VALIDATORS:
        return open_validator(spec)
    if spec.kind == GIVEN:
        return Given(spec.target)
    if spec.kind == plugin.KIND:
        return open_plugin(spec)
    method = WAYS[spec.kind]
    template = load_template(spec.options.get("template", method.template))
    template.require_slots(_PROBE, method.shown)
    private = "a rubric is made of what users wrote"
    role = open_role(spec, template, chat=chat, settings=settings or default_settings(), private=private)
    return ChatGrader(str(spec), method, role, seed(spec))


def check_independent(
    grader: str, model: str, *, picks: Sequence[str], conditions: Sequence[str], does: str = "picks"
) -> None:
    """Raise a SpecError where who grades (`grader`, which asks `model`) also has a hand in what is graded.

    `picks` are the reward models whose work it is, `conditions` what they are shown; each declares whom it asks.
    """
    for text, names, verb in (
        *((text, models.asks(text), does) for text in picks),
        *((text, shown.asks(text), "writes what is shown") for text in conditions),
    ):
        if model in names:
            raise SpecError(f"{text} {verb}, and {grader} grades: both ask {model!r}. Let another model grade")


def parse_grader(text: str) -> Spec:
    """Return the parsed spec of a grader; unknown kinds and keys name the nearest known ones."""
    return parse(text, FORMS, noun="grader")


def grader_summaries() -> dict[str, str]:
    """Return what each kind of grader does, for `pluralrm list graders`."""
    return {
        **{name: method.summary for name, method in WAYS.items()},
        **VALIDATORS,
        TRUTH: SUMMARY,
        GIVEN: ELSEWHERE,
        plugin.KIND: PLUGIN,
    }
