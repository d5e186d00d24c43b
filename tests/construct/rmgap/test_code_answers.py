"""A program in a response is run against its tests before anybody reviews it."""

from pathlib import Path
from typing import Any

import pytest

from pluralrm.construct.rmgap import check_answer
from tests.construct.rmgap.scripted import Script
from tests.construct.rmgap.worlds import build_of, chats, options, prose, reasons, requests

pytestmark = pytest.mark.sandbox

WRITTEN = ("n / 2", "n * 0.5", "n - n / 2", "sum([n]) / 2")
TESTS = "assert half(4) == 2\nassert half(7) == 3.5\n"


def world() -> list[dict[str, Any]]:
    one = prose(2)
    del one["reference"]
    one |= {"tests": TESTS, "entry": "half"}
    for place, entry in enumerate(one["response"]):
        first = entry["attempt"][0]
        entry["attempt"] = [{**first, "text": _program(place, WRITTEN[place])}]
    return [one]


def _program(place: int, value: str) -> str:
    return f"Manner {place}:\n```python\ndef half(n):\n    return {value}\n```"


def test_programs_that_pass_their_tests_go_on(tmp_path: Path) -> None:
    made = world()
    assert not reasons(build_of(made, tmp_path, given=options(check=check_answer)))


def test_a_program_that_fails_its_tests_is_stopped_and_never_reviewed(tmp_path: Path) -> None:
    made = world()
    first = made[0]["response"][1]["attempt"][0]
    bad = ("n // 2", "n", "__import__('sys').exit(0)")
    made[0]["response"][1]["attempt"] = [{**first, "text": _program(1, value)} for value in bad]
    models = chats(Script(made))
    assert reasons(build_of(made, tmp_path, given=options(check=check_answer), models=models)) == {
        "responses": {"answer": 1}
    }
    assert not requests(models["reviewer-a"])


def test_a_program_that_is_mended_passes(tmp_path: Path) -> None:
    made = world()
    first = made[0]["response"][1]["attempt"][0]
    made[0]["response"][1]["attempt"] = [{**first, "text": _program(1, "n // 2")}, first]
    built = build_of(made, tmp_path, given=options(check=check_answer))
    assert len(built.kept) == 1
    assert built.funnel.stages[5].attempts == 2
