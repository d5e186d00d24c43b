"""What a build of this kind is told, beside its prompts and its models."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from pluralrm import validate
from pluralrm.audit.embedder import Embedder, Letters, PackagedEmbedder
from pluralrm.construct.pipeline.stages import Refusal
from pluralrm.construct.rmgap.products import SeedPrompt
from pluralrm.construct.rmgap.review import Rule
from pluralrm.core import Failure
from pluralrm.errors import RunError
from pluralrm.validate import CodeTask, MathTask, Right, ValidationOutcome, Wrong, check_code, check_math
from pluralrm.validate.latex import boxed, reference_of

BOXED = "Reason as the manner allows, and give the final answer once, in \\boxed{}."
PROGRAM = "Give the whole program in one block that begins with ```python and ends with ```."

_UNANSWERED = frozenset({"parse", "empty", "too_long"})
"""Failures that are the response's own: it has no answer that could be judged."""
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


def answer_form(prompt: SeedPrompt) -> str:
    """Return what form an answer must have so that it can be checked; nothing for prompts of other domains."""
    if prompt.tests:
        return f"{PROGRAM} It defines {prompt.entry}." if prompt.entry else PROGRAM
    return BOXED if prompt.reference else ""


def right_answer(prompt: SeedPrompt) -> str:
    """Return the end of a right answer for a dry run, which writes no program that passes tests."""
    if prompt.tests:
        return f"```python\n{prompt.entry or 'answer'} = None\n```"
    return f"\\boxed{{{reference_of(prompt.reference)}}}" if prompt.reference else ""


def check_answer(prompt: SeedPrompt, response: str) -> ValidationOutcome:
    """Return whether the response is right by each of what the prompt has."""
    if prompt.reference:
        found = _by_reference(response, prompt.reference)
        if not (isinstance(found, Right) and prompt.tests):
            return found
    return check_code(response, prompt.tests, entry=prompt.entry)


def _by_reference(response: str, reference: str) -> ValidationOutcome:
    answer, wanted = boxed(response), reference_of(reference)
    if isinstance(answer, Failure):
        return answer
    # What needs no algebra needs no extra: the same text, and whole numbers in digits.
    if answer.split() == wanted.split():
        return Right()
    if _WHOLE.fullmatch(answer.strip()) and _WHOLE.fullmatch(wanted.strip()):
        return Right() if int(answer) == int(wanted) else Wrong(f"{answer} is not {wanted}")
    return check_math(response, reference)


def require_validators(prompts: Iterable[SeedPrompt]) -> None:
    """Return when all is there that answers to these prompts are checked with, or raise before anything is paid for."""
    tasks: list[CodeTask | MathTask] = []
    for prompt in prompts:
        tasks += [CodeTask("", prompt.tests, prompt.entry)] * bool(prompt.tests)
        tasks += [MathTask("", prompt.reference)] * bool(prompt.reference)
    validate.ready(tasks)


def answer_refusal(outcome: ValidationOutcome) -> Refusal | None:
    """Return the refusal of a response; one that could not be judged is refused too, by another name."""
    if isinstance(outcome, Right):
        return None
    if isinstance(outcome, Wrong):
        # The writer of the next try is told this: the reason itself would show the reference, or the tests.
        return Refusal("answer", "the answer is not right")
    return Refusal("answer" if outcome.kind in _UNANSWERED else "unjudged", f"{outcome.kind}: {outcome.detail}")


def for_dry_run(options: "RmgapOptions") -> "RmgapOptions":
    """Return options with which no program is run and no embedder but a local one is asked."""
    embedder = options.embedder if isinstance(options.embedder, PackagedEmbedder) else Letters()
    return replace(options, embedder=embedder, check=lambda _prompt, _response: Right())


@dataclass(frozen=True)
class RmgapOptions:
    """`attempts` is how often a text may be written; `rule` is how reviews decide; `check` judges an answer."""

    embedder: Embedder
    attempts: int = 3
    rule: Rule = "each"
    seed: int = 0
    check: Callable[[SeedPrompt, str], ValidationOutcome] = check_answer

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise RunError(f"attempts is {self.attempts}; wanted at least 1")

    @property
    def embedded_by(self) -> str:
        """The spec of the embedder, without the name of whose key it is asked with."""
        return ",".join(part for part in self.embedder.spec.split(",") if not part.startswith("key="))
