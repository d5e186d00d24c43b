"""What runs and pools ask of servers, and their folders: usage, attempts and seconds add up over all processes."""

import shutil
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Literal

from pluralrm.core import Failure
from pluralrm.errors import ModelError, ServiceError
from pluralrm.files import LOCK, drop_lines
from pluralrm.http import Metered, Tally
from pluralrm.journal import SYNC_SECONDS, Journal, JournalKind, Record
from pluralrm.runs.records import ATTEMPTS, RUN, AttemptRecord, MeteredManifest, UsageRecord, item_in


class Account:
    """What some models and conditions ask from now on. Those that serve several runs have asked for others before."""

    def __init__(self, *askers: object) -> None:
        self._askers = [asker for asker in askers if isinstance(asker, Metered)]
        self._before = self._so_far()

    def tally(self) -> Tally | None:
        """Return what was asked since; None where nothing here asks a server."""
        if not self._askers:
            return None
        now = self._so_far()
        return now if now is None or self._before is None else now.since(self._before)

    def _so_far(self) -> Tally | None:
        return total(asker.tally for asker in self._askers)


def total(tallies: Iterable[Tally | None]) -> Tally | None:
    """Return the sum of those that there are; None where there is none."""
    parts = [tally for tally in tallies if tally is not None]
    return reduce(Tally.plus, parts) if parts else None


def usage_record(tally: Tally) -> UsageRecord:
    """Return a tally in its file's shape."""
    return UsageRecord(**tally._asdict())


def tally_of(record: UsageRecord) -> Tally:
    """Return the tally that a file holds."""
    return Tally(**record.model_dump())


def first_of(items: Collection[str]) -> Callable[[bytes], bool]:
    """Return what says of a line of inputs or transcripts whether it is the first of one of some items."""
    left = set(items)

    def is_first(line: bytes) -> bool:
        item = item_in(line)
        first = item in left
        left.discard(item)
        return first

    return is_first


def summed(shards: Sequence[MeteredManifest]) -> dict[str, object]:
    """Return what all shards of some work took, as the fields of the manifest of the whole."""
    usage = total(None if shard.asked is None else tally_of(shard.asked) for shard in shards)
    packages = dict.fromkeys(name for shard in shards for name in shard.versions)
    versions = {name: dict.fromkeys(filter(None, (shard.versions.get(name) for shard in shards))) for name in packages}
    return {
        "status": "complete",
        "shard": None,
        "versions": {name: ", ".join(several) for name, several in versions.items()},
        "git": ", ".join(dict.fromkeys(shard.git for shard in shards if shard.git)),
        "started": min(shard.started for shard in shards),
        "finished": max((shard.finished for shard in shards if shard.finished), default=None),
        "seconds": round(sum(shard.seconds for shard in shards), 3),
        "attempts": sum(shard.attempts for shard in shards),
        "asked": usage_record(usage) if usage else None,
    }


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
        if self._new and (lines := self.path / self.kind.files[-1]).exists():
            raise self.kind.damaged(lines, f"found lines, and no {self.kind.manifest} that says whose they are")

    def _keep_inputs(self, items: Collection[str]) -> None:
        """Drop what is on disk about items without a line, and what is there twice."""
        for name in self.kind.files:
            if name.endswith(".gz"):
                drop_lines(self.path / name, first_of(items))

    def _carry_over(self, seconds: float, attempts: int, usage: UsageRecord | None) -> None:
        """Add what earlier processes took."""
        self._seconds, self.attempts = seconds, attempts
        self._earlier = tally_of(usage) if usage else None

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


def outages(folder: Path, items: Collection[str]) -> dict[str, Failure]:
    """Return why each item that was tried stayed open the last time; one of no item of this run is an error."""
    outages: dict[str, Failure] = {}
    for location, record in RUN.places(folder / ATTEMPTS, AttemptRecord):
        if record.item not in items:
            raise RUN.damaged(location, f"an attempt at item {record.item!r}, which is none of this run")
        outages[record.item] = record.outage
    return outages


def last_outage(path: str | Path) -> str:
    """Return why the last item that was left open was left open, such as `transport: ConnectError`; or nothing."""
    last = deque(RUN.lines(Path(path) / ATTEMPTS, AttemptRecord), maxlen=1)
    return f"{last[0].outage.kind}: {last[0].outage.detail}".splitlines()[0] if last else ""
