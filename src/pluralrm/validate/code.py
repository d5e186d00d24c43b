"""Does the code in a reply pass given tests? Two sandboxes, one for the code and one for the tests, and their messages.

The code never shares a process with the tests, the expected values or the verdict: it is asked for values, and what
asks is out of its reach. This process only carries lines from one to the other, and watches the clock.

Whether tests can be asked depends on the tests alone. Where they fail or do not end after an answer, they run once more
without the code: with something else in the place of every answer. Only what fails there too is theirs.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from pluralrm.chat.completions import Markers, spoken, unreadable
from pluralrm.core import Failure
from pluralrm.errors import SandboxError
from pluralrm.validate.sandbox import FloodError, GoneError, LateError, Sandbox


# No tuples: an empty one would be false, and a verdict is not.
@dataclass(frozen=True, slots=True)
class Right:
    """The answer is equal to the reference, or the code passes every test."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """The answer was read and judged, and is not right; the reason in one line."""

    reason: str


ValidationOutcome = Right | Wrong | Failure
"""A Failure says that nothing was decided: no code found, a test that cannot be asked this way, a broken sandbox."""


class TaskLimits(NamedTuple):
    """What one task may use."""

    seconds: float = 5.0
    """CPU time of each process."""
    memory_mb: int = 512
    """Address space of each process."""
    processes: int = 8
    """Processes and threads at once, the sandbox's own two among them."""
    disk_mb: int = 16
    """Files in a temporary folder, held in memory."""

    @property
    def wall(self) -> float:
        """Seconds by the clock until a task is stopped; time that other processes took from it is added."""
        return 1.5 * self.seconds


_FENCE = re.compile(r"^(?P<indent>[ \t]*(?:>[ \t]?)*)(?P<fence>`{3,}|~{3,})[ \t]*+(?P<label>[^`\n]*)$")
_PYTHON = frozenset({"python", "py", "python3"})
_THINKING = Markers("<think>", "</think>")


class _Block(NamedTuple):
    label: str
    text: str


def code_of(reply: str, entry: str = "") -> str | Failure:
    r"""Return the code of a reply: the last Python block that defines the entry, or the last one where none does.

    >>> code_of("First:\n```python\ndef f(x):\n    return x\n```\nSo:\n```python\nprint(f(2))\n```", "f")
    'def f(x):\n    return x'

    Blocks with the label python, py or python3 count; where there is none, those without a label. A block that is not
    closed is no block: the reply was cut off.
    """
    answer = without_thinking(reply)
    if isinstance(answer, Failure):
        return answer
    blocks, opened = _blocks(answer)
    labelled = [block.text for block in blocks if block.label in _PYTHON]
    plain = [block.text for block in blocks if not block.label]
    codes = [text for text in labelled or plain if text.strip()]
    if not codes:
        return unreadable("No code found: a block is not closed" if opened else "No code found", reply)
    if not entry:
        return codes[-1]
    name = re.escape(entry)
    defined = re.compile(
        rf"^(?:(?:async\s+)?def\s+{name}\b|class\s+{name}\b|{name}\s*(?::[^=\n]+)?=[^=])", re.MULTILINE
    )
    return next((text for text in reversed(codes) if defined.search(text)), codes[-1])


def without_thinking(reply: str) -> str | Failure:
    """Return a reply without its reasoning blocks; one that does not end is a failure."""
    return spoken(reply, _THINKING)


def _blocks(text: str) -> tuple[list[_Block], bool]:
    """Return the blocks that are closed, and whether the last one is not."""
    blocks: list[_Block] = []
    opening: re.Match[str] | None = None
    lines: list[str] = []
    for line in text.splitlines():
        fence = _FENCE.match(line)
        if opening is None:
            if fence:
                opening, lines = fence, []
        elif fence and not fence["label"].strip() and _closes(fence["fence"], opening["fence"]):
            blocks.append(_Block(_label(opening["label"]), "\n".join(lines)))
            opening = None
        else:
            lines.append(_outdented(line, opening["indent"]))
    return blocks, opening is not None


def _closes(fence: str, opening: str) -> bool:
    return fence[0] == opening[0] and len(fence) >= len(opening)


def _label(text: str) -> str:
    """Return the language of a label such as `python title="x"` or `{.python}`."""
    word = re.match(r"[{.\s]*([\w+#-]*)", text)
    return word[1].lower() if word else ""


def _outdented(line: str, indent: str) -> str:
    """Return a line without the indent of its fence, as in a list."""
    return line.removeprefix(indent) if line.startswith(indent) else line.lstrip(" \t")


_DEFAULT = TaskLimits()


def check_code(reply: str, tests: str, *, entry: str = "", limits: TaskLimits = _DEFAULT) -> ValidationOutcome:
    """Return whether the Python block of a reply passes tests that assert something of it.

    A Failure where there is no code, where a test cannot be asked this way, or where a sandbox breaks.
    """
    code = code_of(reply, entry)
    if isinstance(code, Failure):
        return code
    require_sandbox()
    return examine(code, tests, entry, limits)


@cache
def require_sandbox() -> None:
    """Start a sandbox and end it; SandboxError where that cannot be done here, with what to install."""
    if complaint := sandbox_complaint():
        raise SandboxError(
            f"no sandbox can be started here, and nothing is run without one: {complaint}. "
            "It takes bubblewrap 0.8 or newer (apt-get install bubblewrap) and a kernel that lets an "
            "unprivileged user make namespaces"
        )


_INSIDE = "pluralrm.validate.inside"
# The channel exists under its name before the program is run: there are no files to import from.
_BOOT = """\
import sys, types
names, sources = sys.argv[1::2], sys.argv[2::2]
for name, source in zip(names, sources):
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(source, name, "exec"), module.__dict__)
del sys.argv[1:]
module.main()
"""
_LAST = 1.8
"""Times the limit that an exam may take, beside the time that others take from it: the tests end after the code."""
_TICK = 0.02
_LOOK = 0.1
"""Seconds between two looks at how many processes the code runs."""
_PATIENCE = 10.0
"""Times the limit that code or tests may wait for a processor: they end by their CPU time, if not by the clock."""
_SLOW = "the tests themselves take more time than there is"
_ENDLESS = "the tests do not end in time with what the code answers"
_SIGXCPU, _SIGKILL = 24, 9


@cache
def _words(program: str) -> tuple[str, ...]:
    """Return what makes an interpreter run one of the programs inside."""
    channel, source = (files(_INSIDE).joinpath(f"{name}.py").read_text("utf-8") for name in ("__init__", program))
    return ("-c", _BOOT, _INSIDE, channel, f"{_INSIDE}.{program}", source)


def examine(code: str, tests: str, entry: str, limits: TaskLimits) -> ValidationOutcome:
    """Return what tests say of code; a Failure where they say nothing."""
    try:
        with (
            Sandbox(_words("candidate"), disk_mb=limits.disk_mb) as candidate,
            Sandbox(_words("examiner"), disk_mb=limits.disk_mb) as examiner,
        ):
            candidate.start()
            examiner.start()
            outcome = _Exam(candidate, examiner, limits).held(code, tests, entry)
        if isinstance(outcome, _Unfit):
            return _fault(tests, entry, limits) or Wrong(outcome.reason)
    except GoneError as exc:
        return Failure("crash", f"a sandbox did not start: {exc}")
    return outcome


def _fault(tests: str, entry: str, limits: TaskLimits) -> Failure | None:
    """Return what is wrong with tests whatever the code answers; None where they can be asked."""
    with Sandbox(_words("examiner"), disk_mb=limits.disk_mb) as examiner:
        examiner.start()
        began, patience = time.monotonic(), _PATIENCE * limits.seconds

        def last() -> float:
            return began + limits.wall + min(_starved(examiner), patience)

        try:
            examiner.send(_line({**_bounds(limits), "tests": tests, "entry": entry, "alone": True}), last())
            kind, reason = _verdict_in(_heard(examiner, last))
        except LateError:
            waited = _starved(examiner)
            return _busy(waited) if waited >= patience else Failure("unsupported", _SLOW)
        except (GoneError, FloodError):
            return _failure(examiner)
    if kind == "crash":
        return Failure("crash", reason)
    return Failure("unsupported", reason) if kind == "unsupported" else None


def sandbox_complaint() -> str:
    """Return why no sandbox starts here, or '' where one does."""
    try:
        with Sandbox(_words("candidate"), disk_mb=1) as cell:
            cell.start()
    except GoneError as exc:
        return str(exc)
    return ""


def _starved(cell: Sandbox) -> float:
    try:
        return cell.starved()
    except OSError:  # it has ended by now, or the kernel does not say
        return 0.0


class _Unfit(NamedTuple):
    """The tests failed, or did not end, after the code had answered: by its answers, or by themselves."""

    reason: str


class _Exam:
    """Who is asked, within which limits and since when."""

    def __init__(self, candidate: Sandbox, examiner: Sandbox, limits: TaskLimits) -> None:
        self.candidate, self.examiner, self.limits = candidate, examiner, limits
        self.began = time.monotonic()
        self.starved = self._waited()
        """How long code, tests and this process had waited for a processor by then."""
        self.replies = 0

    @property
    def last(self) -> float:
        """When it ends, whatever the reason."""
        return self.began + _LAST * self.limits.seconds + self._allowance()

    def held(self, code: str, tests: str, entry: str) -> ValidationOutcome | _Unfit:
        """Return the outcome of one exam."""
        bounds = _bounds(self.limits)
        try:
            self.examiner.send(_line({**bounds, "tests": tests, "entry": entry, "alone": False}), self.last)
        except (GoneError, LateError):
            return Failure("crash", "the sandbox of the tests ended before it was asked")
        ended: ValidationOutcome | _Unfit | None = self._hand(_line({**bounds, "code": code}))
        while ended is None:
            line = self._next_line()
            if not isinstance(line, bytes):
                return line
            if line.startswith(b"!"):
                return _verdict(line)
            ended = self._hand(line[1:]) or self._answered()
        return ended

    def _next_line(self) -> bytes | Failure | _Unfit:
        """Return what the tests ask or say next."""
        try:
            return _heard(self.examiner, lambda: self.last, self.candidate)
        except LateError:
            return self._late_tests()
        except (GoneError, FloodError):
            return self._broken()

    def _hand(self, line: bytes) -> ValidationOutcome | None:
        """Hand a line to the code; an outcome where it does not take it."""
        try:
            self.candidate.send(line, self.last)
        except (LateError, GoneError) as exc:
            return self._silent(exc)
        return None

    def _answered(self) -> ValidationOutcome | _Unfit | None:
        """Carry the code's answer to the tests; an outcome where there is none."""
        try:
            reply = self._reply()
        except (LateError, GoneError, FloodError) as exc:
            return self._silent(exc)
        self.replies += 1
        try:
            self.examiner.send(reply, self.last + _PATIENCE * self.limits.seconds)
        except LateError:
            return self._late_tests()
        except GoneError:
            return self._broken()
        return None

    def _silent(self, why: LateError | GoneError | FloodError) -> ValidationOutcome:
        if isinstance(why, LateError):
            spent = time.monotonic() - self.began - self._taken()
            if spent < self.limits.wall - 2 * _TICK:
                return _busy(self._taken())
            return Wrong(f"no answer within {self.limits.wall:g} s")
        return self._ended() if isinstance(why, GoneError) else Wrong("the code answers with more than 16 MB")

    def _reply(self) -> bytes:
        """Return the code's next line. Time that others took from it is given back."""
        until = self.began + self.limits.wall
        while True:
            try:
                return self.candidate.receive(min(until, time.monotonic() + _LOOK))
            except LateError:
                _watch(self.candidate)
                if time.monotonic() < until:
                    continue
                until = self.began + self.limits.wall + self._allowance()
                if until - time.monotonic() < _TICK:
                    raise

    def _waited(self) -> float:
        return _starved(self.candidate) + _starved(self.examiner) + _starved_here()

    def _taken(self) -> float:
        """Return the seconds that others took from the exam: one at a time of code, tests and this process runs."""
        return max(0.0, self._waited() - self.starved) if self.candidate.alone else 0.0

    def _allowance(self) -> float:
        """Return the seconds that are given back for those."""
        return min(self._taken(), _PATIENCE * self.limits.seconds)

    def _late_tests(self) -> Failure | _Unfit:
        if (waited := self._taken()) >= _PATIENCE * self.limits.seconds:
            return _busy(waited)
        return self._doubted(Failure("unsupported", _SLOW), _ENDLESS)

    def _broken(self) -> Failure | _Unfit:
        failure = _failure(self.examiner)
        if str(128 + _SIGKILL) in failure.detail:  # by the kernel, for want of memory: no limit of its own kills so
            return failure
        return self._doubted(failure, _ENDLESS if failure.detail == _SLOW else f"{failure.detail}, by an answer")

    def _doubted(self, failure: Failure, reason: str) -> Failure | _Unfit:
        """Return a failure of the tests, or a doubt where they had an answer: the first reply only lists names."""
        return _Unfit(reason) if self.replies > 1 else failure

    def _ended(self) -> ValidationOutcome:
        status = self.candidate.ended()
        if status == 128 + _SIGXCPU:
            return Wrong(f"it used up its {self.limits.seconds:g} s of CPU time")
        if status == 128 + _SIGKILL:
            return Wrong("it was killed: too much CPU time or memory")
        return Wrong(f"the code ends its process (status {status}) before it answers")


def _bounds(limits: TaskLimits) -> dict[str, int]:
    return {
        "cpu": max(1, round(limits.seconds)),
        "memory": limits.memory_mb * 2**20,
        "processes": limits.processes,
        "disk": limits.disk_mb * 2**20,
    }


def _watch(cell: Sandbox, *, idle: bool = False) -> None:
    with suppress(OSError):
        cell.watch(idle=idle)


def _heard(examiner: Sandbox, last: Callable[[], float], code: Sandbox | None = None) -> bytes:
    """Return the next line of the tests; LateError after the last moment, which may move. The code is watched."""
    while True:
        try:
            return examiner.receive(time.monotonic() + _LOOK)
        except LateError:
            if code is not None:
                _watch(code, idle=True)
            if time.monotonic() > last():
                raise


def _busy(waited: float) -> Failure:
    return Failure("deadline", f"the machine is too busy to tell: {waited:.1f} s were spent waiting for a processor")


def _starved_here() -> float:
    """Return for how many seconds others have kept this thread from a processor."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


def _failure(examiner: Sandbox) -> Failure:
    """Return how the tests ended without a verdict."""
    status = examiner.ended()
    if status == 128 + _SIGXCPU:
        return Failure("unsupported", _SLOW)
    return Failure("crash", f"the process of the tests ended (status {status})")


def _line(message: Mapping[str, object]) -> bytes:
    return json.dumps(message).encode()


def _verdict_in(line: bytes) -> tuple[str, str]:
    """Return the kind and the reason of a verdict."""
    try:
        kind, reason = json.loads(line.removeprefix(b"!"))
    except ValueError:
        return "crash", "the process of the tests said nothing that can be read"
    return str(kind), str(reason)


def _verdict(line: bytes) -> ValidationOutcome | _Unfit:
    kind, reason = _verdict_in(line)
    if kind == "right":
        return Right()
    if kind in {"wrong", "unfit"}:
        return Wrong(reason) if kind == "wrong" else _Unfit(reason)
    return Failure("crash" if kind == "crash" else "unsupported", reason)
