"""What the page asks is what a judgment holds: every button gives an answer, and nothing is left unasked."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from pluralrm.annotate.judgments import answers_of, passed
from pluralrm.annotate.plan import LETTERS, Mode, PlanDeclaration, Task
from pluralrm.annotate.planner import PlanRequest, make_plan
from pluralrm.annotate.service import guide, questions
from tests.annotate.plans import fours, pair_plan
from tests.annotate.serving import CHOICES, answers

KINDS: list[tuple[Task, Mode]] = [("pair", "validate"), ("pair", "own"), ("four", "validate"), ("four", "own")]


def declared(task: Task, mode: Mode) -> PlanDeclaration:
    made = pair_plan().declared
    return replace(made, task=task, mode=mode, rating_margin=made.rating_margin if task == "pair" else None)


@pytest.mark.parametrize(("task", "mode"), KINDS)
def test_every_button_gives_an_answer_that_is_taken(task: Task, mode: Mode) -> None:
    asked = questions(declared(task, mode))
    for number in range(max(len(question.options) for question in asked)):
        said: dict[str, Any] = {"task": task, "comment": ""}
        for question in asked:
            outer, _, inner = question.name.partition(".")
            value = question.options[number % len(question.options)].value
            if inner:
                said.setdefault(outer, {})[inner] = value
            else:
                said[outer] = value
        taken = answers_of(json.dumps(said))
        assert taken is not None
        assert taken.task == task


@pytest.mark.parametrize(("task", "mode"), KINDS)
def test_only_one_question_comes_first_and_each_has_a_key_for_each_button(task: Task, mode: Mode) -> None:
    asked = questions(declared(task, mode))
    assert [question.first for question in asked] == [True] + [False] * (len(asked) - 1)
    assert all(2 <= len(question.options) <= 9 for question in asked)
    assert len({question.name for question in asked}) == len(asked)
    assert guide(task, mode)


def test_who_judges_for_themselves_is_asked_about_nobody_else() -> None:
    told = " ".join([*(f"{one.text} {one.hint}" for one in questions(declared("pair", "own"))), *guide("pair", "own")])
    assert "asker" not in told


def test_each_answers_personal_fit_is_rated_from_1_to_5_unless_an_older_plan_does_not_ask() -> None:
    now = pair_plan().declared
    asked = {one.name: one for one in questions(now)}
    older = {one.name for one in questions(replace(now, rating_margin=None))}
    assert set(asked) - older == {"scores_a.personal_fit", "scores_b.personal_fit"}
    for letter in ("a", "b"):
        one = asked[f"scores_{letter}.personal_fit"]
        assert [option.value for option in one.options] == [1, 2, 3, 4, 5, None]
        assert one.text == f"Personal fit of answer {letter.upper()}"
        assert "this asker in particular" in one.group
    assert questions(declared("pair", "own"))[-2].group.startswith("How well does each answer fit you")


def test_leaning_to_the_known_side_passes_a_check_and_nothing_else_does() -> None:
    plan = pair_plan(4, each=2, items=8)
    for screen in plan.screens:
        if screen.kind == "check":
            known = "ab"[screen.order.index(plan.item[screen.item].preferred or 0)]
            said = answers("pair", random.Random(0))
            passing = {
                choice
                for choice in CHOICES
                if passed(plan, screen, answers_of(json.dumps({**said, "overall": choice})))
            }
            assert passing == {known, f"slightly_{known}"}
            assert not passed(plan, screen, None)


def test_of_four_answers_the_known_one_passes_a_check() -> None:
    plan = make_plan(fours(), PlanRequest(2, each=1, items=6, checks=2), key="k")
    for screen in plan.screens:
        if screen.kind == "check":
            said = answers("four", random.Random(0))
            known = LETTERS[screen.order.index(plan.item[screen.item].preferred or 0)]
            best = [*LETTERS, "cannot_tell"]
            assert [
                choice for choice in best if passed(plan, screen, answers_of(json.dumps({**said, "best": choice})))
            ] == [known]
