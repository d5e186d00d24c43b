"""Answers in boxes are compared with a reference, in a process that can be killed."""

import subprocess
import sys
from pathlib import Path

import pytest

from pluralrm.core import Failure
from pluralrm.validate import MathTask, Right, TaskLimits, Wrong, check_all, check_math

pytestmark = pytest.mark.sandbox

CASES = [
    line.split(" | ")
    for line in Path(__file__).with_name("math_cases.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


def reply(answer: str) -> str:
    return rf"First I thought \boxed{{17}} and wrote it down. But it is \boxed{{{answer}}}, I think."


def test_there_are_a_hundred_and_fifty_cases_and_more_of_both_kinds():
    assert len(CASES) >= 300
    assert min(sum(case[0] == kind for case in CASES) for kind in ("right", "wrong")) >= 100


def test_every_case_is_decided_right():
    outcomes = check_all([MathTask(reply(answer), wanted) for _, wanted, answer in CASES])
    told = {Right: "right", Wrong: "wrong"}
    missed = [
        (case, outcome) for case, outcome in zip(CASES, outcomes, strict=True) if told.get(type(outcome)) != case[0]
    ]
    assert missed == []


def test_verdicts_do_not_depend_on_order():
    tasks = [MathTask(reply(answer), wanted) for _, wanted, answer in CASES[::4]]
    hanging = MathTask(reply("9^{9^{9}}"), "5")
    straight = list(check_all(tasks, workers=1))
    turned = list(check_all([hanging, *reversed(tasks), hanging], limits=TaskLimits(seconds=4), workers=2))
    assert turned[-2:0:-1] == straight


def test_a_reference_may_be_boxed_itself():
    assert check_math(reply("0.5"), r"so \boxed{\frac{1}{2}}") == Right()


@pytest.mark.parametrize("asked", ["It is 5.", r"It is \boxed{5", r"<think>\boxed{5}", r"\boxed{ }"])
def test_no_answer_is_a_failure_and_not_wrong(asked):
    outcome = check_math(asked, "5")
    assert isinstance(outcome, Failure)
    assert outcome.kind in {"parse", "empty"}


@pytest.mark.parametrize(
    "answer", ["9^{9^{9}}", "9^{9^{9^{9}}}", "(10^{10})!", "((99!)!)!", r"\binom{10^9}{10^8}", "(x+1)^{1000}"]
)
def test_what_cannot_be_worked_out_is_stopped_and_called_so(answer):
    outcome = check_math(reply(answer), "5", limits=TaskLimits(seconds=1))
    assert isinstance(outcome, Failure)
    assert outcome.kind in {"unsupported", "deadline"}  # the latter where other tests have the processor
    assert check_math(reply("5"), "5") == Right()


@pytest.mark.parametrize("depth", [50, 100, 240])
def test_deep_nesting_is_bounded(depth):
    assert check_math(reply("(" * depth + "7" + ")" * depth), "5", limits=TaskLimits(seconds=1)) != Right()


def _payloads(marker: Path) -> list[str]:
    touch = f"__import__('os').system('touch {marker}')"
    return [
        touch,
        rf"\text{{{touch}}}",
        f"1 + {touch}",
        f"1/2 + {touch}",
        f"({touch}, 5)",
        f"[x for x in [{touch}]]",
        f"(lambda: {touch})()",
        f'eval("{touch}")',
        f"open('{marker}', 'w')",
        f'sympify("{touch}")',
        rf"\operatorname{{exec}}({touch})",
        f"5 = {touch}",
        f"x_{{{touch}}}",
        rf"\write18{{touch {marker}}}",
        rf"\input{{{marker}}}",
        f"$(touch {marker})",
        f"`touch {marker}`",
        "().__class__.__base__.__subclasses__()",
    ]


def test_python_in_an_answer_is_never_run(tmp_path: Path):
    marker = tmp_path / "run"
    tasks = [MathTask(reply(payload), "5") for payload in _payloads(marker)]
    tasks += [MathTask(reply("5"), payload) for payload in _payloads(marker)]
    assert [outcome for outcome in check_all(tasks, limits=TaskLimits(seconds=3)) if outcome == Right()] == []
    assert list(tmp_path.iterdir()) == []


def test_a_worker_sees_no_key(monkeypatch: pytest.MonkeyPatch):
    from pluralrm.validate import _Worker

    monkeypatch.setenv("OPENAI_API_KEY", "a-key-that-opens-nothing")
    worker = _Worker()
    try:
        assert b"a-key" not in Path(f"/proc/{worker._process.pid}/environ").read_bytes()
    finally:
        worker.close()


@pytest.mark.parametrize(
    "event",
    [
        "import os; os.system('true')",
        "import subprocess; subprocess.run(['true'])",
        "open('made', 'w')",
        "import os; os.open('made', os.O_CREAT | os.O_WRONLY)",
        "import os; os.fork()",
        "import os; os.execv('/bin/true', ['true'])",
        "import socket; socket.socket()",
        "import ctypes; ctypes.CDLL(None)",
        "import os; os.remove('made')",
        "import shutil; shutil.rmtree('made')",
    ],
)
def test_a_comparison_can_start_write_and_open_nothing(event):
    program = f"import sys\nfrom pluralrm.validate.worker import _harmless\nsys.addaudithook(_harmless)\n{event}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "PermissionError: a comparison of answers may not" in done.stderr
    assert not Path("made").exists()
