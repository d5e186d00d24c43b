"""From a spec to a grader: `per-aspect:MODEL,url=URL` and `joint:...` with a chat model's keys, `truth`, `python:`, and
`given:NAME`, grades that somebody gave elsewhere.

The last cannot grade anything new here. Equal texts have one grade: the mean of those that NAME gave them, so
that best-of-k of a model, for which equal texts tie, is what it is over the separate grades.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pluralrm import conditions as shown
from pluralrm import models, plugin
from pluralrm.chat import ChatModel
from pluralrm.chat.role import KEYS, open_role, seed
from pluralrm.core import Item
from pluralrm.errors import PoolError, SpecError
from pluralrm.grading.grader import WAYS, ChatGrader, Graded, Grader, Slots
from pluralrm.grading.plugin import SUMMARY as PLUGIN
from pluralrm.grading.plugin import load
from pluralrm.grading.truth import SUMMARIES as VALIDATORS
from pluralrm.grading.truth import SUMMARY, TRUTH, Truth, open_validator
from pluralrm.http import Settings, Tally
from pluralrm.models import default_settings
from pluralrm.specs import Form, Spec, parse
from pluralrm.templates import load_template

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
    **dict.fromkeys(WAYS, Form("required", KEYS)),
    **dict.fromkeys(VALIDATORS, Form("optional")),
    TRUTH: Form(),
    GIVEN: Form("required"),
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
        return load(spec)
    way = WAYS[spec.kind]
    template = load_template(spec.options.get("template", way.template))
    template.require_slots(_PROBE, way.shown)
    private = "a rubric is made of what users wrote"
    role = open_role(spec, template, chat=chat, settings=settings or default_settings(), private=private)
    return ChatGrader(str(spec), way, role, seed(spec))


def check_independent(
    grader: str, model: str, *, picks: Sequence[str], conditions: Sequence[str], does: str = "picks"
) -> None:
    """Raise a SpecError where who grades (`grader`, which asks `model`) also has a hand in what is graded.

    `picks` are the reward models whose work it is, `conditions` what they are shown; each declares whom it asks.
    """
    for text, asked, verb in (
        *((text, models.asks(text), does) for text in picks),
        *((text, shown.asks(text), "writes what is shown") for text in conditions),
    ):
        if model in asked:
            raise SpecError(f"{text} {verb}, and {grader} grades: both ask {model!r}. Let another model grade")


def parse_grader(text: str) -> Spec:
    """Return the parsed spec of a grader; unknown kinds and keys name the nearest known ones."""
    return parse(text, FORMS, noun="grader")


def grader_summaries() -> dict[str, str]:
    """Return what each kind of grader does, for `pluralrm list graders`."""
    return {
        **{name: way.summary for name, way in WAYS.items()},
        **VALIDATORS,
        TRUTH: SUMMARY,
        GIVEN: ELSEWHERE,
        plugin.KIND: PLUGIN,
    }
