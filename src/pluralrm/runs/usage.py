"""What runs and pools ask of servers, and their folders: usage, attempts and seconds add up over all processes."""

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import Literal

from pluralrm.errors import ModelError, ServiceError
from pluralrm.files import LOCK, drop_lines
from pluralrm.http import Metered, Tally
from pluralrm.journal import SYNC_SECONDS, Journal, JournalKind, Record
from pluralrm.runs.records import UsageRecord, first_of, tally_of, usage_record


class Account:
    """What some models and conditions ask from now on. Those that serve several runs have asked for others before."""

    def __init__(self, *askers: object) -> None:
        self._askers = askers
        self._before = self._so_far()

    def tally(self) -> Tally | None:
        """Return what was asked since; None where nothing here asks a server."""
        now = self._so_far()
        return now if now is None or self._before is None else now.since(self._before)

    def _so_far(self) -> Tally | None:
        return total(asker.tally for asker in self._askers if isinstance(asker, Metered))


def total(tallies: Iterable[Tally | None]) -> Tally | None:
    """Return the sum of those that there are; None where there is none."""
    known = [tally for tally in tallies if tally is not None]
    return reduce(Tally.plus, known) if known else None


class MeteredFolder(Journal[Record], ABC):
    """The folder of work that may ask servers; `usage` tells what this process has asked.

    `fresh` removes what an earlier process left, once no other process can write there.
    """

    def __init__(
        self,
        path: Path,
        kind: JournalKind[Record],
        manifest: Record,
        usage: Callable[[], Tally | None] = lambda: None,
        *,
        fresh: bool = False,
    ) -> None:
        super().__init__(path, kind, manifest)
        self._usage, self._fresh = usage, fresh
        self._new = self._closed = False
        self._seconds, self._began = 0.0, time.monotonic()
        self._earlier: Tally | None = None
        self._noted: Tally | None = None
        self._noted_at = 0.0
        self.attempts = 0

    @abstractmethod
    def _remove(self) -> None:
        """Remove what is in the folder, the manifest last."""

    @abstractmethod
    def _counts(self) -> Mapping[str, object]:
        """Return what the manifest counts of the lines so far."""

    @property
    @abstractmethod
    def _lines(self) -> int:
        """How many lines there are."""

    def _resume(self) -> None:
        if self._fresh:
            self._remove()
        self._new = not self.kind.holds(self.path)
        super()._resume()

    def _keep_inputs(self, items: Collection[str]) -> None:
        """Drop what is on disk about items without a line, and what is there twice."""
        for name in self.kind.files:
            if name.endswith(".gz"):
                drop_lines(self.path / name, first_of(items))

    def _carry_over(self, seconds: float, attempts: int, asked: UsageRecord | None) -> None:
        """Add what earlier processes took."""
        self._seconds, self.attempts = seconds, attempts
        self._earlier = tally_of(asked) if asked else None

    def _leave(self, exc: BaseException | None) -> None:
        if not isinstance(exc, self.kind.error):
            self._note()
        if isinstance(exc, (ModelError, ServiceError)) and self._new and not self._lines and not self.attempts:
            self._remove()  # a folder without a line would be reported by all that reads such folders
            if [path.name for path in self.path.iterdir()] == [LOCK]:
                shutil.rmtree(self.path)

    def _leave_open(self, line: str) -> None:
        """Note what stays open, to be tried again when the work is resumed."""
        self.attempts += 1
        self.append(self.kind.attempts, line)

    def sync(self) -> None:
        """Put all queued lines on disk, and what was asked: a kill must not hide what was paid for."""
        with self._turn:
            super().sync()
            if self._usage() != self._noted and time.monotonic() - self._noted_at >= SYNC_SECONDS:
                self._note()

    def _note(self, status: Literal["incomplete", "complete"] = "incomplete", **facts: object) -> None:
        """Write the manifest, unless the work is closed."""
        if self._closed:
            return
        now, self._noted = time.monotonic(), self._usage()
        self._noted_at = now
        usage = total([self._earlier, self._noted])
        state = {
            "status": status,
            **self._counts(),
            "attempts": self.attempts,
            "seconds": round(self._seconds + now - self._began, 3),
            "asked": usage_record(usage) if usage else None,
            **facts,
        }
        self.write(self.manifest.model_copy(update=state))
