"""The pool's folder, open for writing by one process: append, sync, recover. Nothing on disk is drawn again.

pool.json        where the samples came from; status `incomplete` from the first moment, their hash at the end
samples.jsonl    one line per item and index; a torn last line is dropped on opening, nothing else is
inputs.jsonl.gz  exactly what the policy was given, one line per item that has a sample
attempts.jsonl   samples that stay open: transport, deadline, budget
"""

import gzip
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from types import TracebackType

from pluralrm.core import Failure, Query
from pluralrm.errors import ModelError, PoolError, ServiceError
from pluralrm.files import LOCK, drop_lines, drop_torn_line, drop_torn_member
from pluralrm.http import Tally
from pluralrm.policies import records
from pluralrm.policies.pool import MANIFEST, SAMPLES, content_hash, load_manifest, load_pool, read_samples
from pluralrm.policies.records import PoolManifest
from pluralrm.policies.samples import Sample
from pluralrm.policies.writer import OneWriter
from pluralrm.runs.records import asked_from, asked_record, first_of, input_line

INPUTS, ATTEMPTS = "inputs.jsonl.gz", "attempts.jsonl"
_OURS = (SAMPLES, INPUTS, ATTEMPTS, MANIFEST)
_CHUNK = 64
_SECONDS = 2.0
"""A sample waits for the disk until so many are together, or for the first that comes so long after the last sync."""


class PoolFolder(OneWriter):
    """One pool. `asked` tells what this process has asked of servers, if any; `done` holds what has its sample.

    `fresh` removes what an earlier process left.
    """

    error, busy = PoolError, "writing this pool"
    kept = (
        "Samples already on disk are kept; make room or choose another folder, and the same command goes on from there"
    )

    def __init__(
        self,
        path: Path,
        manifest: PoolManifest,
        asked: Callable[[], Tally | None] = lambda: None,
        *,
        fresh: bool = False,
    ) -> None:
        super().__init__(path)
        self._fresh = fresh
        self._new = False
        self._manifest = manifest
        self._asked = asked
        self._earlier: Tally | None = None
        self._began = datetime.now(UTC)
        self._synced_at = self._noted_at = time.monotonic()
        self._samples: list[str] = []
        self._inputs: list[str] = []
        self._shown: set[str] = set()
        self.done: set[tuple[str, int]] = set()
        self.finishes: Counter[str] = Counter()
        self.attempts = 0

    @property
    def wanted(self) -> int:
        """How many samples the whole pool has."""
        return len(self._manifest.items) * self._manifest.draw.n

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        try:
            if not isinstance(exc, PoolError):  # also on Ctrl-C: what was drawn is kept
                self.sync()
                self._write_state("incomplete")
            if isinstance(exc, (ModelError, ServiceError)) and self._new and not self.done and not self.attempts:
                # A pool without a sample would be reported by all that reads pools.
                remove_pool(self.path)
                if [path.name for path in self.path.iterdir()] == [LOCK]:
                    shutil.rmtree(self.path)
        finally:
            self._unlock()

    def _adopt(self) -> None:
        if self._fresh:
            remove_pool(self.path)
        self._new = not (self.path / MANIFEST).exists()
        if not self._new:
            earlier = load_manifest(self.path)
            check_same(self.path, self._manifest, earlier)
            self._manifest = earlier
            self._earlier = asked_from(earlier.asked) if earlier.asked else None
            self.attempts = earlier.attempts
        for name in (SAMPLES, ATTEMPTS):
            drop_torn_line(self.path / name)
        for sample in read_samples(self.path):
            self._count(sample)
        drop_torn_member(self.path / INPUTS)
        drop_lines(self.path / INPUTS, first_of(self._shown))
        self._write_state("incomplete")

    def append(self, sample: Sample, query: Query | None = None) -> None:
        """Take one sample, and what the policy was given; both are acknowledged at the next sync."""
        if (sample.item, sample.index) in self.done:
            raise PoolError(f"{self.path}: sample {sample.index} of item {sample.item!r} was drawn twice")
        if query is not None and sample.item not in self._shown:
            self._inputs.append(input_line(query))
        self._count(sample)
        self._samples.append(records.sample_line(sample))
        if len(self._samples) >= _CHUNK or time.monotonic() - self._synced_at >= _SECONDS:
            self.sync()

    def attempt(self, item: str, index: int, failure: Failure) -> None:
        """Note a sample that stays open, to be tried again when the pool is resumed."""
        self.attempts += 1
        at = datetime.now(UTC).isoformat(timespec="seconds")
        record = {"item": item, "index": index, "at": at, "failure": failure.kind, "detail": failure.detail}
        self._append(ATTEMPTS, json.dumps(record, separators=(",", ":")) + "\n")

    def sync(self) -> None:
        """Put everything taken so far on disk. Inputs go first: a sample on disk always has its input beside it."""
        samples, inputs = "".join(self._samples), "".join(self._inputs)
        self._samples, self._inputs = [], []
        if inputs:
            self._append(INPUTS, gzip.compress(inputs.encode(), mtime=0))
        if samples:
            self._append(SAMPLES, samples)
        self._synced_at = time.monotonic()
        if self._synced_at - self._noted_at >= _SECONDS:  # a kill must not hide what was paid for
            self._write_state("incomplete")

    def finish(self) -> None:
        """Write the closing pool.json: complete, with the hash of all samples, where none is open."""
        self.sync()
        if len(self.done) == self.wanted and self._manifest.status != "complete":
            samples = load_pool(self.path, incomplete=True).samples
            self._write_state("complete", {"content_hash": content_hash(samples)})
            self._manifest = load_manifest(self.path)

    def _write_state(self, status: str, more: Mapping[str, object] | None = None) -> None:
        if self._manifest.status == "complete":
            return
        now, self._noted_at = datetime.now(UTC), time.monotonic()
        state = {
            "status": status,
            "samples": len(self.done),
            "finishes": dict(sorted(self.finishes.items())),
            "attempts": self.attempts,
            "seconds": round(self._manifest.seconds + (now - self._began).total_seconds(), 3),
            "finished": now.isoformat(timespec="seconds") if status == "complete" else None,
            "asked": self._asked_altogether(),
            **(more or {}),
        }
        self._replace(MANIFEST, self._manifest.model_copy(update=state).to_json())

    def _asked_altogether(self) -> object:
        """Return what the processes of this pool have asked, this one included."""
        known = [tally for tally in (self._earlier, self._asked()) if tally is not None]
        return asked_record(reduce(Tally.plus, known)) if known else None

    def _count(self, sample: Sample) -> None:
        self.done.add((sample.item, sample.index))
        self._shown.add(sample.item)
        self.finishes[sample.finish] += 1


def check_same(path: Path, wanted: PoolManifest, found: PoolManifest) -> None:
    """Raise where a folder holds another pool than the one that is wanted."""
    if differing := wanted.differs_in(found):
        raise PoolError(
            f"{path} holds a pool with another {'; another '.join(differing)}. Old and new samples must not mix: "
            "--fresh (in Python fresh=True) removes that pool and starts over, another -o keeps both"
        )


def remove_pool(path: Path, names: Sequence[str] = _OURS) -> None:
    """Remove a pool's files, and nothing else that the folder holds."""
    for name in names:
        (path / name).unlink(missing_ok=True)
