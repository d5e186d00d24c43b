"""Answers that make tests slow or unfit are wrong; tests that are so by themselves are a failure."""
# ruff: noqa: E501 - tests and code of a case are read in one line

import pytest

from pluralrm.core import Failure
from pluralrm.validate import Right, TaskLimits, ValidationOutcome, Wrong, check_code
from tests.validate.answers import PAYLOADS

pytestmark = pytest.mark.sandbox


def judged(code: str, tests: str, seconds: float) -> ValidationOutcome:
    """Return the outcome; one that a busy machine has left open is asked for again, with more time."""
    for patience in (1, 2, 4, 8):
        outcome = check_code(f"```python\n{code}\n```", tests, entry="f", limits=TaskLimits(seconds=seconds * patience))
        if not (isinstance(outcome, Failure) and outcome.kind == "deadline"):
            break
    return outcome


def test_there_are_sixty_answers_and_more():
    assert len({(payload.tests, payload.code) for payload in PAYLOADS.values()}) == len(PAYLOADS) >= 60


@pytest.mark.parametrize("name", PAYLOADS)
def test_an_answer_that_makes_tests_slow_or_unfit_is_wrong(name):
    payload = PAYLOADS[name]
    assert isinstance(judged(payload.code, payload.tests, 1), Wrong)


RIGHT = "def f(n):\n    return n * n"
OWN_FAULT = {
    "that do not end": "assert f(2) == 4\nwhile True:\n    pass",
    "that do not end in a function": "def test():\n    assert f(2) == 4\n    n = 0\n    while n < 5:\n        n *= 2",
    "that sleep": "import time\nassert f(2) == 4\ntime.sleep(1000)\nassert f(3) == 9",
    "that end their process": "import os\nassert f(2) == 4\nos._exit(0)",
    "that leave": "import sys\nassert f(2) == 4\nsys.exit(0)",
    "that import what is not there": "assert f(2) == 4\nimport no_such_module",
    "that send a function": "assert f(2) == 4\nassert f(lambda n: n) == 9",
    "that assert nothing after a call": "f(2)\nif False:\n    assert f(3) == 9",
    "that run a text as Python": "assert f(2) == 4\nassert eval(str(f(3))) == 9",
    "that fill the memory": "assert f(2) == 4\nheld = []\nwhile True:\n    try:\n        held.append(bytearray(2**20))\n    except MemoryError:\n        pass",
}
"""Tests that no answer passes, a right one included."""
NEED_OBJECTS = {
    "attributes": ("assert f(2).x == 2", "class A:\n    def __init__(self, x): self.x = x\ndef f(n):\n    return A(n)"),
    "methods": (
        "s = f(2)\ns.push(1)\nassert s.pop() == 1",
        "class f:\n    def __init__(self, n): self.held = []\n    def push(self, x): self.held.append(x)\n    def pop(self): return self.held.pop()",
    ),
    "calls": ("assert f(2)(3) == 5", "def f(n):\n    return lambda m: n + m"),
}


@pytest.mark.parametrize("name", OWN_FAULT)
def test_tests_at_fault_by_themselves_are_a_failure(name):
    outcome = judged(RIGHT, OWN_FAULT[name], 2)
    assert isinstance(outcome, Failure), outcome
    assert outcome.kind in {"unsupported", "crash"}


@pytest.mark.parametrize("name", NEED_OBJECTS)
def test_tests_that_need_an_object_are_a_failure(name):
    outcome = judged(NEED_OBJECTS[name][1], NEED_OBJECTS[name][0], 5)
    assert isinstance(outcome, Failure), outcome
    assert outcome.kind == "unsupported"


@pytest.mark.parametrize(
    ("tests", "code"),
    [
        ("assert math.isclose(f(2), 1.41421, abs_tol=1e-4)", "import math\ndef f(n):\n    return math.sqrt(n)"),
        ("exec('import math')\nassert math.floor(f(2)) == 4", RIGHT),
        ("class Pair(tuple):\n    pass\nassert f(2) == 4\nassert Pair((f(1), 2)) == (1, 2)", RIGHT),
        (
            "from collections import namedtuple\nassert f(2) == 4\nPoint = namedtuple('Point', 'x')\nassert Point(f(3)).x == 9",
            RIGHT,
        ),
        ("for n in range(300):\n    assert f(n) == n ** 2", RIGHT),
        ("assert sum(f(5)) == 10\nassert f(10**9)[3] == 3", "def f(n):\n    return range(n)"),
        (
            "import itertools\nassert list(itertools.islice(f(2), 3)) == [2, 3, 4]",
            "import itertools\ndef f(n):\n    return itertools.count(n)",
        ),
    ],
)
def test_right_answers_stay_right(tests, code):
    assert judged(code, tests, 20) == Right()
