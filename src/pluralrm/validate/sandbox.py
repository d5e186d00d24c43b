"""One process in a sandbox, spoken to in lines, and killed with all that it started.

It runs this environment's base interpreter with the standard library and nothing else, behind an unprivileged uid and
bubblewrap. As root the uid comes first: root is exempt from the limit on processes, inside of bubblewrap too. Lines are
bytes that end with a newline; what is in them is not looked at here. Every wait has a deadline.
"""

import json
import math
import os
import pwd
import random
import select
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, Self, cast

from pluralrm.errors import SandboxError

_SYSTEM = ("/lib", "/lib64", "/lib32", "/usr/lib", "/usr/lib64")
"""Where shared libraries lie; a link, as in a merged /usr, stays a link."""
_FILES = ("/etc/ld.so.cache",)


class Interpreter(NamedTuple):
    """An interpreter and all that it needs to start."""

    executable: Path
    prefix: Path
    own: tuple[Path, ...]
    """Its files and folders, in `prefix` where they do not lie among the system's."""


@cache
def interpreter() -> Interpreter:
    """Return the interpreter that this environment is made from."""
    executable = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    library = Path(sysconfig.get_config_var("LIBDIR") or "/", sysconfig.get_config_var("INSTSONAME") or "")
    paths = [executable, Path(os.__file__).resolve().parent, *([library.resolve()] if library.is_file() else [])]
    own = tuple(path for path in paths if not any(path.is_relative_to(system) for system in _SYSTEM))
    return Interpreter(executable, Path(sys.base_prefix).resolve(), own)


def unreachable(python: Interpreter) -> bool:
    """Return whether somebody else than its owner is kept from the interpreter, as in a home folder."""
    return any(not _open_to_all(folder) for path in python.own for folder in (path, *path.parents))


def _open_to_all(path: Path) -> bool:
    mode = path.stat().st_mode
    return bool(mode & stat.S_IXOTH) if path.is_dir() else bool(mode & stat.S_IROTH)


def system_mounts() -> list[str]:
    """Return the options that show the system's shared libraries."""
    options: list[str] = []
    for path in map(Path, _SYSTEM):
        if path.is_symlink():
            options += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            options += ["--ro-bind", str(path), str(path)]
    return options + [word for name in _FILES for word in ("--ro-bind-try", name, name)]


_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_TMP = "/tmp"  # noqa: S108 - a fresh file system inside
_STAGE = "/mnt"
# An interpreter in a home folder is shown to the unprivileged uid at another place, in a mount namespace of its own.
_SHOW = f'mount --bind "$1" {_STAGE} && shift && exec "$@"'
_NEXT = "Nothing is run without one: apt-get install bubblewrap (0.8 or newer), on Linux"


@cache
def tool(name: str, package: str) -> str:
    """Return where a program is; SandboxError, with the package to install, where it is not."""
    path = shutil.which(name)
    if path is None:
        raise SandboxError(
            f"a sandbox needs {name}, which is not installed. Nothing is run without one: "
            f"apt-get install {package} (bubblewrap 0.8 or newer), on Linux"
        )
    return path


def command(words: Sequence[str], *, disk_mb: int, info: int) -> list[str]:
    """Return the command that runs the base interpreter with some words in a sandbox.

    Bubblewrap writes the process id of the sandbox's first process to the descriptor `info`.
    """
    bubblewrap, python = tool("bwrap", "bubblewrap"), interpreter()
    staged = os.geteuid() == 0 and unreachable(python)
    options = [*_ISOLATED, *system_mounts(), *_python_mounts(python, staged=staged), *_devices()]
    options += ["--size", str(disk_mb * 2**20), "--tmpfs", _TMP, "--chdir", _TMP, "--remount-ro", "/"]
    return [
        *_unprivileged(python, staged=staged),
        *[bubblewrap, *options, "--info-fd", str(info), "--"],
        *[str(python.executable), "-s", "-P", "-S", "-B", "-X", "utf8", *words],
    ]


# No /proc: nothing of what runs here needs it, and there is nothing to read in it.
# The same hash seed each time: the order of a set, and so a verdict, is the same in every run.
_ISOLATED = [
    *["--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL"],
    *["--hostname", "sandbox", "--clearenv", "--setenv", "HOME", _TMP, "--setenv", "PYTHONHASHSEED", "0"],
    *["--setenv", "PATH", "/usr/bin", "--setenv", "LANG", "C.UTF-8"],
]


def _python_mounts(python: Interpreter, *, staged: bool) -> list[str]:
    options: list[str] = []
    for path in python.own:
        source = Path(_STAGE, path.relative_to(python.prefix)) if staged else path
        options += ["--ro-bind", str(source), str(path)]
    return options


def _devices() -> list[str]:
    return [word for device in _DEVICES for word in ("--dev-bind", device, device)]


def _unprivileged(python: Interpreter, *, staged: bool) -> list[str]:
    """Return what gives up root's rights; nothing where there are none."""
    if os.geteuid() != 0:
        return []
    uid = str(_unused_uid())
    dropped = [tool("setpriv", "util-linux"), "--reuid", uid, "--regid", uid, "--clear-groups", "--inh-caps=-all"]
    if not staged:
        return dropped
    mounting = [tool("unshare", "util-linux"), "--mount", "--propagation", "private", "--"]
    return [*mounting, "/bin/sh", "-c", _SHOW, "sh", str(python.prefix), *dropped]


def _unused_uid() -> int:
    """Return a uid that no account and no process has: the limit on processes counts by uid."""
    low, high = _mapped_uids()
    taken = {entry.pw_uid for entry in pwd.getpwall()} | set(_owners())
    draw = random.SystemRandom()
    for _ in range(100):
        uid = draw.randrange(low, high)
        if uid not in taken:
            return uid
    raise SandboxError(f"a sandbox needs an unused uid; a hundred tries from {low} to {high} found none")


def _mapped_uids() -> tuple[int, int]:
    """Return the upper half of the largest range of uids that exist here, below those that programs take for -1."""
    ranges = [tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    first, _, count = max(ranges, key=lambda span: span[2])
    last = min(first + count, 2**31 - 2)
    if last - first < 2:
        raise SandboxError(f"a sandbox needs an unprivileged uid, and only {last - first} exist here. {_NEXT}")
    return first + (last - first) // 2, last


def _owners() -> list[int]:
    owners = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                owners.append(entry.stat().st_uid)
            except FileNotFoundError:  # the process has ended since
                continue
    return owners


MOST = 16 * 2**20
"""Bytes of one line, and of what a process may have written and no one has read."""
_START = 20.0
"""Seconds that a sandbox may take to start, on a busy machine too."""
_RESTLESS = 0.2
"""More seconds of CPU time than any answer needs to finish."""
_REPLY_BYTES = 4_000
"""Bytes kept of what a sandbox that does not start complains of."""


class LateError(Exception):
    """No whole line by the deadline."""


class GoneError(Exception):
    """The process has ended or closed its channel."""


class FloodError(Exception):
    """A line longer than is taken."""


class Sandbox:
    """A sandboxed Python with a program of its own; use it as a context, so that nothing of it is left."""

    def __init__(self, words: Sequence[str], *, disk_mb: int) -> None:
        reader, writer = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this is the sandbox
                command(words, disk_mb=disk_mb, info=writer),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                pass_fds=[writer],
                start_new_session=True,
            )
        except BaseException as exc:
            os.close(reader)
            if isinstance(exc, OSError):  # a machine without room for one more process
                raise GoneError(str(exc)) from exc
            raise
        finally:
            os.close(writer)
        self._info, self._init, self._first, self._read = reader, -1, 0, bytearray()
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
        status = b""
        while not status.rstrip().endswith(b"}"):
            self._wait(self._info, select.POLLIN, deadline)
            piece = os.read(self._info, 4_096)
            if not piece:
                raise GoneError("it was not set up")
            status += piece
        try:
            self._first = int(json.loads(status)["child-pid"])
            self._init = os.pidfd_open(self._first)
        except ProcessLookupError as exc:
            raise GoneError("it ended at once") from exc

    def _complaint(self) -> str:
        try:
            errors = os.read(self._err, _REPLY_BYTES)
        except BlockingIOError:
            errors = b""
        return " ".join(errors.decode(errors="replace").split())

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
