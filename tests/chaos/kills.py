"""Processes that die by SIGKILL at an event, and what must be there when the same command runs again.

An event is whatever a process does to the files below a folder: opening one for writing, syncing, renaming, removing.
A kill at a sync leaves a random part of what was not on disk yet, as a power cut may; all other kills fall between two
events. Counting events rather than seconds, a kill falls as often into the last step as into the first, however busy
the machine is. A verb that computes for long between two events is killed by the clock half of the time.

A child is forked from a process that has imported everything, so that a thousand kills take minutes.
"""

import gzip
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import stat
import sys
import time
import traceback
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import NamedTuple, NoReturn

_PATIENCE = 240.0
_CHANGES = frozenset(
    ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "shutil.rmtree", "sqlite3.connect")
)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT

Work = Callable[[Path], None]
"""What a child does in a folder; to be found by name in another process."""
_LOADED = (
    *("pluralrm.cli", "pluralrm.study", "pluralrm.report", "pluralrm.correlate", "pluralrm.runs", "pluralrm.grading"),
    *("pluralrm.policies.sample", "pluralrm.policies.best_of_n", "pluralrm.training.verl", "pluralrm.metrics"),
    *("pluralrm.models.controls", "pluralrm.models.judge", "pluralrm.models.personal.fitting", "scipy.stats"),
    *("pluralrm.construct.release", "pluralrm.audit", "pluralrm.retrieval", "httpx2", "tests.chaos.verbs"),
)


class Doom(NamedTuple):
    """When a child dies: at an event, or after some seconds; `torn` is the share of unsynced bytes that stays."""

    event: int = 0
    seconds: float = 0.0
    torn: float = 1.0
    worker: bool = False
    """A process that it has started dies in its place, where there is one."""


class Life(NamedTuple):
    """How a child ended, how many events it had, what it says on stderr, and the bytes on disk that it was sure of."""

    code: int
    events: int
    told: str
    sure: Mapping[Path, int]

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL


def live(work: Work, folder: Path, doom: Doom | None = None) -> Life:
    """Do the work in a child, which dies as it is told to."""
    diary = folder.with_name(f"{folder.name}.diary")
    diary.unlink(missing_ok=True)
    child = _server().Process(target=_live, args=(work, folder, doom or Doom(), diary))
    child.start()
    try:
        if doom is not None and doom.seconds:
            child.join(doom.seconds)
            child.kill()
        child.join(_PATIENCE)
        assert child.exitcode is not None, f"still there after {_PATIENCE:g} s"
    finally:
        child.kill()
        child.join()
    return _read(diary, child.exitcode, folder)


TORCH = ("torch", "transformers", "pluralrm.training.ppo", "pluralrm.training.tiny")
LOADED = list(_LOADED)
"""What every child is forked with; more may be added before the first."""


@cache
def _server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    return context


def _read(diary: Path, code: int, folder: Path) -> Life:
    sure, events, told = dict[Path, int](), 0, ""
    for line in diary.read_text().splitlines() if diary.exists() else []:
        kind, value, name = json.loads(line)
        if kind == "sure":
            sure[folder.parent / name] = value
        elif kind == "ended":
            events, told = value, name
    diary.unlink(missing_ok=True)
    return Life(code, events, told, sure)


# ---------------------------------------------------------------- in the child


class _Events:
    """Counts what is done to files below a folder, and dies in time."""

    def __init__(self, folder: Path, doom: Doom, diary: Path) -> None:
        self._below, self._doom = f"{folder.parent}{os.sep}", doom
        self._diary = os.open(diary, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._synced: dict[str, int] = {}
        self._fsync = os.fsync
        self.count = 0

    def watch(self) -> None:
        sys.addaudithook(self._audit)
        os.fsync = self._sync  # type: ignore[assignment] # the one event that Python does not announce

    def write(self, kind: str, value: int, name: str) -> None:
        os.write(self._diary, (json.dumps([kind, value, name]) + "\n").encode())

    def _audit(self, event: str, args: Sequence[object]) -> None:
        if event == "open":
            path, _, flags = args
            if isinstance(flags, int) and flags & _WRITES and (name := self._ours(path)):
                whole = flags & os.O_TRUNC or not os.path.exists(name)  # noqa: PTH110 - a path would announce events
                self._synced[name] = 0 if whole else os.path.getsize(name)  # noqa: PTH202
                self._happens()
        elif event in _CHANGES and args and self._ours(args[0]):
            self._happens()

    def _ours(self, path: object) -> str:
        name = os.fspath(path) if isinstance(path, (str, os.PathLike)) else ""
        return name if isinstance(name, str) and name.startswith(self._below) else ""

    def _sync(self, descriptor: int) -> None:
        name = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        if not name.startswith(self._below) or not stat.S_ISREG(os.fstat(descriptor).st_mode):
            self._fsync(descriptor)
            return
        self._happens(lambda: self._tear(name))
        self._fsync(descriptor)
        self._synced[name] = os.fstat(descriptor).st_size
        self.write("sure", self._synced[name], name.removeprefix(self._below))

    def _tear(self, name: str) -> None:
        """Leave a part of what this process has written to the file, and not synced."""
        before, size = self._synced.get(name, 0), os.path.getsize(name)  # noqa: PTH202
        os.truncate(name, before + int(max(size - before, 0) * self._doom.torn))

    def _happens(self, first: Callable[[], None] = lambda: None) -> None:
        self.count += 1
        if self.count == self._doom.event:
            others = multiprocessing.active_children() if self._doom.worker else []
            if not others:
                first()
            _die(others[0].pid if others else None)


def _die(worker: int | None) -> None:
    os.kill(worker or os.getpid(), signal.SIGKILL)


def _live(work: Work, folder: Path, doom: Doom, diary: Path) -> NoReturn:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    events = _Events(folder, doom, diary)
    events.watch()
    try:
        work(folder)
    except BaseException as exc:  # noqa: BLE001 - told to the parent, by name
        place = traceback.format_exc(limit=-3) if os.environ.get("PLURALRM_CHAOS_TRACE") else ""
        events.write("ended", events.count, f"{type(exc).__name__}: {exc}{place}")
        os._exit(1)
    events.write("ended", events.count, "")
    os._exit(0)


# ---------------------------------------------------------------- what must be there


@dataclass(frozen=True)
class Verb:
    """What writes: its work, whether a folder looks finished, and the files whose bytes may differ between runs."""

    work: Work
    looks_finished: Callable[[Path], bool]
    loose: frozenset[str] = frozenset()
    clock: float = 0.0
    """The share of kills by the clock: of verbs that compute between two events."""
    workers: bool = False
    unordered: bool = False
    """Lines are written in the order in which replies come, to several files before any is synced."""

    prepare: Work | None = None
    """Makes what the verb works on, in a folder where nothing is killed or full yet."""

    def begun(self, place: Path) -> Path:
        """Return a new folder to work in, in a place of its own."""
        folder = place / "out"
        folder.parent.mkdir(parents=True)
        if self.prepare is not None:
            self.prepare(folder)
        return folder

    def contents(self, folder: Path) -> dict[str, str]:
        """Return what a folder and those beside it hold, by path: checksums, times and locks aside."""
        files = sorted(path for path in folder.parent.rglob("*") if path.is_file() and path.name != ".lock")
        return {
            str(path.relative_to(folder.parent)): _checksum(path, ordered=not self.unordered)
            for path in files
            if not self.loose & set(path.relative_to(folder.parent).parts)
        }


_UNFINISHED = re.compile(r"\.tmp$|/\.merge$|/\.release-(new|old)/")
"""What the same command removes when it runs again: a new or old copy beside what is finished."""
_TIMES = frozenset(("started", "finished", "seconds", "check", "at", "made", "created", "asked", "wall", "elapsed"))


def _checksum(path: Path, *, ordered: bool) -> str:
    raw = path.read_bytes()
    if path.suffix == ".gz":
        raw = gzip.decompress(raw)  # members begin where a kill was
    if path.suffix == ".json":
        raw = json.dumps(_timeless(json.loads(raw)), sort_keys=True).encode()
    if path.suffix == ".jsonl" and not ordered:
        raw = b"".join(sorted(raw.splitlines(keepends=True)))
    return f"{zlib.crc32(raw):08x}:{len(raw)}"


def _timeless(value: object) -> object:
    if isinstance(value, dict):
        return {key: _timeless(inner) for key, inner in value.items() if key not in _TIMES}
    return [_timeless(inner) for inner in value] if isinstance(value, list) else value


@dataclass
class Series:
    """Kills of one verb, folder after folder, each resumed until it is whole; `findings` says what did not hold."""

    name: str
    verb: Verb
    place: Path
    seed: int
    kills: int = 0
    folders: int = 0
    findings: list[str] = field(default_factory=list)
    _sure: dict[Path, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rng = random.Random(f"{self.seed}:{self.name}")
        whole = self._folder("whole")
        began = time.monotonic()
        life = live(self.verb.work, whole)
        self._seconds = time.monotonic() - began
        assert life.code == 0, f"{self.name}: {life.told}"
        assert self.verb.looks_finished(whole), f"{self.name}: nothing looks finished"
        self._events, self._wanted = life.events, self.verb.contents(whole)
        assert self._wanted, f"{self.name}: nothing was written"

    def _folder(self, name: str) -> Path:
        return self.verb.begun(self.place / name)

    def run(self, kills: int) -> None:
        """Kill so often; the last folder is brought to its end."""
        while self.kills < kills:
            folder, most = self._folder(str(self.folders)), self._rng.randint(1, 6)
            self.folders += 1
            self._sure = {}
            for _ in range(min(most, kills - self.kills)):
                if not self._kill(folder):
                    break
            self._end(folder)
            shutil.rmtree(folder.parent)

    def _doom(self) -> Doom:
        if self._rng.random() < self.verb.clock:
            return Doom(seconds=self._rng.uniform(0.0, 1.1) * self._seconds)
        event = self._rng.randint(1, self._events)
        worker = self.verb.workers and self._rng.random() < 0.3
        return Doom(event, torn=1.0 if self.verb.unordered else self._rng.random(), worker=worker)

    def _kill(self, folder: Path) -> bool:
        """Return whether a kill hit, once it is seen that what was sure is there."""
        doom = self._doom()
        life = live(self.verb.work, folder, doom)
        worker_died = doom.worker and life.code == 1
        if life.code not in {0, -signal.SIGKILL} and not worker_died:
            self._note(doom, f"ended with {life.code}: {life.told[:300]}")
        if worker_died and not life.told.startswith(("RunError", "ModelError", "PoolError")):
            self._note(doom, f"a worker's death is told as {life.told[:300]}")
        self.kills += life.killed or worker_died
        self._check_sure(doom)
        # What a process has synced stays, whatever comes after: journals are appended.
        for path, size in life.sure.items():
            if path.suffix == ".jsonl" and path.exists() and ".new" not in str(path):
                self._sure[path] = path.read_bytes()[:size]
        self._check_sure(doom)
        if self.verb.looks_finished(folder):
            self._compare(folder, doom, "looks finished")
            return life.killed
        return life.killed or worker_died

    def _check_sure(self, doom: Doom | None) -> None:
        for path, before in self._sure.items():
            if not path.exists() or not path.read_bytes().startswith(before):
                self._note(doom, f"{path.name} lost what was synced")

    def _end(self, folder: Path) -> None:
        life = live(self.verb.work, folder)
        if life.code:
            self._note(None, f"cannot be resumed: {life.told[:3000]}")
            return
        self._check_sure(None)
        self._compare(folder, None, "resumed")

    def _compare(self, folder: Path, doom: Doom | None, how: str) -> None:
        found = self.verb.contents(folder)
        if how == "looks finished":  # what is beside it is removed when the same command runs again
            found = {name: found[name] for name in found if name in self._wanted or name.startswith("out/")}
            found = {name: value for name, value in found.items() if not _UNFINISHED.search(name)}
        differing = sorted(
            name for name in found.keys() | self._wanted.keys() if found.get(name) != self._wanted.get(name)
        )
        if differing:
            self._note(doom, f"{how}, and other than uninterrupted: {', '.join(differing[:5])}")

    def _note(self, doom: Doom | None, what: str) -> None:
        self.findings.append(f"{self.name}, seed {self.seed}, folder {self.folders}, {doom}: {what}")
