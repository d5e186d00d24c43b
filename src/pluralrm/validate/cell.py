"""One process in a sandbox, spoken to in lines, and killed with all that it started.

Lines are bytes that end with a newline; what is in them is not looked at here. Every wait has a deadline.
"""

import json
import math
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self, cast

from pluralrm.validate.sandbox import command

MOST = 16 * 2**20
"""Bytes of one line, and of what a process may have written and nobody has read."""
_START = 20.0
"""Seconds that a sandbox may take to start, on a busy machine too."""
_RESTLESS = 0.2
"""Seconds of CPU time that nobody takes to finish what was answered."""
_TOLD = 4_000
"""Bytes kept of what a sandbox that does not start complains of."""


class LateError(Exception):
    """No whole line by the deadline."""


class GoneError(Exception):
    """The process has ended or closed its channel."""


class FloodError(Exception):
    """A line longer than is taken."""


class Cell:
    """A sandboxed Python with a program of its own; use it as a context, so that nothing of it is left."""

    def __init__(self, words: Sequence[str], *, disk_mb: int) -> None:
        ours, theirs = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this is the sandbox
                command(words, disk_mb=disk_mb, info=theirs),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                pass_fds=[theirs],
                start_new_session=True,
            )
        except BaseException as exc:
            os.close(ours)
            if isinstance(exc, OSError):  # a machine without room for one more process
                raise GoneError(str(exc)) from exc
            raise
        finally:
            os.close(theirs)
        self._info, self._init, self._first, self._read = ours, -1, 0, bytearray()
        self.alone, self._rested = True, math.inf
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._pipes = [cast("IO[bytes]", pipe) for pipe in pipes]
        self._in, self._out, self._err = [pipe.fileno() for pipe in self._pipes]
        for descriptor in (self._in, self._out, self._err):
            os.set_blocking(descriptor, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Wait until the program says that it is there, in a line of its own; GoneError with the reason where not."""
        deadline = time.monotonic() + _START
        try:
            self._find_init(deadline)
            self.receive(deadline)
        except (GoneError, LateError) as exc:
            self._kill()
            raise GoneError(self._complaint() or "it did not start") from exc

    def send(self, line: bytes, deadline: float) -> None:
        """Hand over a line; LateError where it is not taken in time."""
        self._rested = math.inf
        rest = memoryview(line + b"\n")
        while rest:
            self._wait(self._in, select.POLLOUT, deadline)
            try:
                rest = rest[os.write(self._in, rest) :]
            except BrokenPipeError as exc:
                raise GoneError("it has closed its channel") from exc

    def receive(self, deadline: float) -> bytes:
        """Return the next line, without its end."""
        searched = 0
        while (end := self._read.find(b"\n", searched)) < 0:
            searched = len(self._read)
            if searched > MOST:
                raise FloodError
            self._wait(self._out, select.POLLIN, deadline)
            piece = os.read(self._out, 65_536)
            if not piece:
                raise GoneError("it has closed its channel")
            self._read += piece
        line = bytes(self._read[:end])
        del self._read[: end + 1]
        return line

    def ended(self) -> int:
        """Return the exit status, 128 + N where signal N ended the program; -1 where it still runs."""
        try:
            status = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return -1
        return status if status >= 0 else 128 - status

    def starved(self) -> float:
        """Return for how many seconds others have kept its process from a processor; 0 where it may have itself."""
        program = self.watch()
        return _times(program)[1] if program else 0.0

    def watch(self, *, idle: bool = False) -> int:
        """Return its process; 0 where it was seen with a second process or thread, behind others, or busy when `idle`.

        What does that may keep the machine busy by itself, and is told so for good.
        """
        if not self.alone:
            return 0
        program = _children(self._first)
        self.alone = len(program) == 1 and _single(program[0])
        if self.alone and idle:
            used = _times(program[0])[0]
            self._rested = min(self._rested, used)
            self.alone = used - self._rested < _RESTLESS
        return program[0] if self.alone else 0

    def close(self) -> None:
        """Leave nothing of the sandbox."""
        self._kill()
        for pipe in self._pipes:
            pipe.close()
        if self._info >= 0:
            os.close(self._info)
            self._info = -1

    def _kill(self) -> None:
        """Kill the first process of the sandbox, with which the kernel kills all others, and wait until it is gone."""
        if self._init >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._init, signal.SIGKILL)
            _until_readable(self._init)
            os.close(self._init)
            self._init = -1
        if self._process.returncode is None:
            self._process.kill()
            self._process.wait()

    def _find_init(self, deadline: float) -> None:
        told = b""
        while not told.rstrip().endswith(b"}"):
            self._wait(self._info, select.POLLIN, deadline)
            piece = os.read(self._info, 4_096)
            if not piece:
                raise GoneError("it was not set up")
            told += piece
        try:
            self._first = int(json.loads(told)["child-pid"])
            self._init = os.pidfd_open(self._first)
        except ProcessLookupError as exc:
            raise GoneError("it ended at once") from exc

    def _complaint(self) -> str:
        try:
            told = os.read(self._err, _TOLD)
        except BlockingIOError:
            told = b""
        return " ".join(told.decode(errors="replace").split())

    @staticmethod
    def _wait(descriptor: int, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(1_000 * left):
            raise LateError


def _single(process: int) -> bool:
    """Return whether a process has neither children nor threads, and runs as all others do, wherever it may."""
    if _children(process) or len(list(Path("/proc", str(process), "task").iterdir())) > 1:
        return False
    usual = (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), os.sched_getaffinity(0))
    return usual == (
        os.getpriority(os.PRIO_PROCESS, process),
        os.sched_getscheduler(process),
        os.sched_getaffinity(process),
    )


def _times(process: int) -> tuple[float, float]:
    """Return the seconds that a process has run, and those that it has waited for a processor."""
    ran, waited, _ = Path("/proc", str(process), "schedstat").read_text().split()
    return int(ran) / 1e9, int(waited) / 1e9


def _children(process: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def _until_readable(pidfd: int) -> None:
    """Wait until a process has ended."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.poll()
