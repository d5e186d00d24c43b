"""Code is judged by its tests, in a sandbox."""

import pytest

from pluralrm.validate import CodeTask, Right, TaskLimits, Wrong, check_all, check_code
from tests.validate.tasks import TASKS

pytestmark = pytest.mark.sandbox


def fenced(code: str) -> str:
    return f"Here it is:\n\n```python\n{code}\n```\n"


def test_there_are_twenty_tasks_and_more():
    assert len({task.entry for task in TASKS}) == len(TASKS) >= 20


def test_right_code_is_right_and_almost_right_code_is_wrong():
    tasks = [CodeTask(fenced(code), one.tests, one.entry) for one in TASKS for code in (one.right, one.wrong)]
    outcomes = list(check_all(tasks, workers=2))
    assert [outcome for outcome in outcomes[::2] if outcome != Right()] == []
    assert [outcome for outcome in outcomes[1::2] if not isinstance(outcome, Wrong)] == []


def test_a_verdict_depends_neither_on_order_nor_on_what_ran_beside():
    sleeper = CodeTask(fenced("import time\ndef add(a, b):\n    time.sleep(100)"), "assert add(1, 2) == 3", "add")
    bomb = CodeTask(fenced("import os\nwhile True:\n    os.fork()"), "assert add(1, 2) == 3", "add")
    tasks = [CodeTask(fenced(one.right if n % 2 else one.wrong), one.tests, one.entry) for n, one in enumerate(TASKS)]
    alone = list(check_all(tasks, workers=1))
    beside = list(check_all([sleeper, bomb, *reversed(tasks), bomb], limits=TaskLimits(seconds=4), workers=3))
    assert beside[-2:1:-1] == alone


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("def add(a, b): return a - b", "'assert add(2, 2) == 4', does not hold"),
        ("def sum_of(a, b): return a + b", "the code defines no add"),
        ("def add(a, b) return a + b", "SyntaxError"),
        ("def add(a, b): return a / 0", "add raised ZeroDivisionError: division by zero"),
        ("import numpy\ndef add(a, b): return a + b", "No module named 'numpy'"),
        ("def add(a, b): pass", "does not hold"),
    ],
)
def test_the_reason_says_what_went_wrong(code, reason):
    outcome = check_code(fenced(code), "assert add(2, 2) == 4", entry="add")
    assert isinstance(outcome, Wrong)
    assert reason in outcome.reason


@pytest.mark.parametrize(
    ("tests", "reason"),
    [
        ("add(1, 2)", "hold no assert"),
        ("assert True", "assert nothing after"),
        ("def check(c):\n    assert c(1, 2) == 3\nimport sys\nsys.exit(0)", "SystemExit"),
        ("add(1, 2)\nif False:\n    assert add(1, 2) == 3", "assert nothing after"),
        ("def helper():\n    assert add(1, 2) == 3", "assert nothing after"),
        ("assert add(1, 2) ==", "not Python"),
        ("assert add(lambda: 1, 2) == 3", "type function"),
        ("assert near(add(1, 2), 3)", "neither they nor the code define"),
        ("import os\nassert add(1, 2) == 3\nos._exit(0)", "the process of the tests ended"),
    ],
)
def test_tests_that_cannot_be_asked_are_a_failure_and_never_a_verdict(tests, reason):
    outcome = check_code(fenced("def add(a, b): return a + b"), tests, entry="add", limits=TaskLimits(seconds=20))
    assert not isinstance(outcome, (Right, Wrong))
    assert reason in outcome.detail


def test_tests_that_do_not_end_are_not_held_against_the_code():
    code, tests = fenced("def add(a, b): return a + b"), "assert add(1, 2) == 3\nwhile True: pass"
    outcome = check_code(code, tests, entry="add", limits=TaskLimits(seconds=1))
    assert not isinstance(outcome, (Right, Wrong))
    assert outcome.kind in {"unsupported", "deadline"}  # the latter where other tests have the processor


def test_the_entry_is_found_where_nobody_names_it():
    assert check_code(fenced("def add(a, b): return a + b"), "assert add(2, 2) == 4") == Right()
    assert check_code(fenced("def plus(a, b): return a + b"), "assert add(2, 2) == 4") == Wrong(
        "the code defines no add"
    )


def test_a_value_that_is_not_plain_is_wrong():
    outcome = check_code(fenced("class A:\n    pass\ndef make(): return A()"), "assert make()", entry="make")
    assert outcome == Wrong("make returned a value of type A, which cannot be sent to the tests")


def test_a_reply_without_code_is_a_failure_and_not_wrong():
    outcome = check_code("It is four.", "assert add(2, 2) == 4", entry="add")
    assert not isinstance(outcome, (Right, Wrong))
    assert (outcome.kind, outcome.detail[:13]) == ("parse", "No code found")


@pytest.mark.parametrize("raised", ["SystemExit(0)", "KeyboardInterrupt()", "GeneratorExit()"])
def test_leaving_is_wrong_also_where_a_test_catches_everything(raised):
    code = f"def add(a, b):\n    raise {raised}"
    tests = "try:\n    add(1, 2)\nexcept:\n    pass\nassert True"
    assert isinstance(check_code(fenced(code), tests, entry="add"), Wrong)
