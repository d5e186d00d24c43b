"""Answers of Reasoning: what needs no algebra needs no extra, and what could not be judged is not called wrong."""

import pytest

from pluralrm.construct import rmgap
from pluralrm.construct.rmgap import SeedPrompt
from pluralrm.core import Failure
from pluralrm.validate import Right, ValidationOutcome, Wrong


def prompt(**given: str) -> SeedPrompt:
    return SeedPrompt(text="?", domain="Reasoning", source="", **given)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is handed on to those who need an extra or a sandbox."""
    handed: list[tuple[str, str]] = []

    def take(reply: str, other: str, **_: object) -> ValidationOutcome:
        handed.append((reply, other))
        return Right()

    monkeypatch.setattr(rmgap, "check_math", take)
    monkeypatch.setattr(rmgap, "check_code", take)
    return handed


@pytest.mark.parametrize(
    ("box", "reference", "right"),
    [
        ("15", "15", True),
        ("015", "15", True),
        ("-3", "\\boxed{-3}", True),
        ("+3", "3", True),
        ("10", "15", False),
        ("\\frac{1}{2}", "\\frac{1}{2}", True),
        ("x + y", "x  + y", True),
    ],
)
def test_whole_numbers_and_equal_texts_are_judged_at_once(
    box: str, reference: str, asked: list[tuple[str, str]], *, right: bool
) -> None:
    found = rmgap.check_answer(prompt(reference=reference), f"So \\boxed{{{box}}}.")
    assert isinstance(found, Right if right else Wrong)
    assert asked == []


@pytest.mark.parametrize(
    ("box", "reference"), [("0.5", "\\frac{1}{2}"), ("15 hours", "15"), ("15.0", "15"), ("xy", "x y")]
)
def test_whatever_takes_algebra_is_handed_on(box: str, reference: str, asked: list[tuple[str, str]]) -> None:
    assert rmgap.check_answer(prompt(reference=reference), f"\\boxed{{{box}}}") == Right()
    assert asked == [(f"\\boxed{{{box}}}", reference)]


def test_with_reference_and_tests_both_must_hold(asked: list[tuple[str, str]]) -> None:
    both = prompt(reference="4", tests="assert f() == 4", entry="f")
    assert isinstance(rmgap.check_answer(both, "\\boxed{5}"), Wrong)
    assert asked == []
    assert isinstance(rmgap.check_answer(both, "\\boxed{4}"), Right)
    assert asked == [("\\boxed{4}", "assert f() == 4")]


@pytest.mark.parametrize(
    ("outcome", "gate"),
    [
        (Wrong("5 is not 4"), "answer"),
        (Failure("parse", "no box"), "answer"),
        (Failure("unsupported", "late"), "unjudged"),
        (Failure("crash", "the sandbox broke"), "unjudged"),
    ],
)
def test_a_refusal_never_tells_the_writer_the_reference(outcome: Wrong | Failure, gate: str) -> None:
    found = rmgap.answer_refusal(outcome)
    assert found is not None
    assert found.gate == gate
    assert "4" not in found.said
    assert rmgap.answer_refusal(Right()) is None


def test_only_reasoning_is_asked_for_a_form() -> None:
    assert "\\boxed{}" in rmgap.answer_form(prompt(reference="4"))
    assert "defines half" in rmgap.answer_form(prompt(tests="assert half(4) == 2", entry="half"))
    assert rmgap.answer_form(prompt()) == ""
