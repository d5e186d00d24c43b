"""The run folder: append, sync, recover. Nothing acknowledged is lost, nothing is written twice.

run.json              where the rows came from; status `incomplete` from the first moment, `complete` at the end
rows.jsonl            one line per item; a torn last line is dropped on opening, nothing else is
attempts.jsonl        items that stay open: transport, deadline, budget
inputs.jsonl.gz       exactly what the model was given, one gzip member per synced chunk
transcripts.jsonl.gz  exactly what it was sent and said, where it is a model that talks
"""

import contextlib
import fcntl
import gzip
import json
import os
import platform
import subprocess
import threading
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Self

from pluralrm._version import __version__
from pluralrm.core import Query, Row, Run, Verdict
from pluralrm.errors import RunError
from pluralrm.runs import records
from pluralrm.runs.records import Manifest

_ROWS, _MANIFEST, _ATTEMPTS = "rows.jsonl", "run.json", "attempts.jsonl"
_INPUTS, _TRANSCRIPTS = "inputs.jsonl.gz", "transcripts.jsonl.gz"
_CHUNK = 64
_SECONDS = 2.0
"""A row waits for the disk until so many are together, or so long: a kill costs a slow model seconds, not chunks."""


class RunFolder:
    """One run, open for writing by one process."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self._manifest = manifest
        self._rows: list[str] = []
        self._inputs: list[str] = []
        self._transcripts: list[str] = []
        self._began = datetime.now(UTC)
        self._lock: int | None = None
        self._turn = threading.RLock()  # the loop appends, and the timer syncs while the loop waits for the model
        self._timer: threading.Timer | None = None
        self._refused: RunError | None = None
        self.done: set[str] = set()
        self.failures: Counter[str] = Counter()
        self.failed = 0
        self.attempts = 0

    def __enter__(self) -> Self:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._adopt()
        except BlockingIOError as exc:
            raise RunError(f"{self.path}: another process is writing this run; wait for it or stop it") from exc
        except OSError as exc:
            raise _cannot_write(self.path, exc) from exc
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        try:
            # Also on Ctrl-C or an error: what was scored is kept. A disk that refused once is not asked again.
            if isinstance(exc, RunError):
                self._refused = exc
            else:
                self.sync()
        finally:
            self._stop_timer()
            if self._lock is not None:
                os.close(self._lock)

    def _adopt(self) -> None:
        """Take over what an earlier process left: check that it is the same run, drop a torn tail."""
        found = self.path / _MANIFEST
        if found.exists():
            earlier = records.read_manifest(found.read_text(encoding="utf-8"), str(found))
            if differing := self._manifest.same_as(earlier):
                raise RunError(
                    f"{self.path} holds a run with another {'; another '.join(differing)}. Old and new rows must not "
                    "mix: --fresh (in Python fresh=True) removes that run and starts over, another -o keeps both"
                )
            self._manifest = self._manifest.model_copy(
                update={"started": earlier.started, "seconds": earlier.seconds, "attempts": earlier.attempts}
            )
            self.attempts = earlier.attempts
        _drop_torn_line(self.path / _ROWS)
        _drop_torn_line(self.path / _ATTEMPTS)
        for name in (_INPUTS, _TRANSCRIPTS):
            _drop_torn_member(self.path / name)
        for row in _read_rows(self.path):
            self.done.add(row.item)
            self._count(row)
        _replace(found, self._state("incomplete").to_json())

    def append(self, row: Row, query: Query, verdict: Verdict) -> None:
        """Take one finished item; it is acknowledged at the next sync, at most two seconds from now."""
        if row.item in self.done:
            raise RunError(f"{self.path}: item {row.item!r} was scored twice")
        with self._turn:
            self.done.add(row.item)
            self._count(row)
            self._inputs.append(records.input_line(query))
            if verdict.exchanges:
                self._transcripts.append(records.exchange_line(row.item, verdict))
            self._rows.append(records.row_line(row))
            if len(self._rows) >= _CHUNK:
                self.sync()
            elif self._timer is None:
                self._timer = threading.Timer(_SECONDS, self._sync_late)
                self._timer.daemon = True
                self._timer.start()

    def attempt(self, item: str, verdict: Verdict) -> None:
        """Note an item that stays open, to be tried again when the run is resumed."""
        self.attempts += 1
        line = records.attempt_line(item, verdict, datetime.now(UTC).isoformat(timespec="seconds"))
        self._append_to(_ATTEMPTS, line.encode())

    def sync(self) -> None:
        """Put everything taken so far on disk. Inputs go first: a row on disk always has its input beside it."""
        with self._turn:
            self._stop_timer()
            if self._refused is not None:
                raise self._refused
            rows, inputs, transcripts = "".join(self._rows), "".join(self._inputs), "".join(self._transcripts)
            self._rows, self._inputs, self._transcripts = [], [], []
            if inputs:
                self._append_to(_INPUTS, gzip.compress(inputs.encode(), 5, mtime=0))
            if transcripts:
                self._append_to(_TRANSCRIPTS, gzip.compress(transcripts.encode(), 5, mtime=0))
            if rows:
                self._append_to(_ROWS, rows.encode())

    def _sync_late(self) -> None:
        """Sync from the timer's thread; what the disk refuses there is raised by the next sync of the loop."""
        try:
            self.sync()
        except RunError as exc:
            self._refused = exc

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def finish(self, *, expected: int) -> bool:
        """Write the closing run.json and return whether every item has a row."""
        self.sync()
        complete = len(self.done) == expected
        now = datetime.now(UTC)
        seconds = self._manifest.seconds + (now - self._began).total_seconds()
        state = self._state("complete" if complete else "incomplete").model_copy(
            update={"finished": now.isoformat(timespec="seconds"), "seconds": round(seconds, 3)}
        )
        try:
            _replace(self.path / _MANIFEST, state.to_json())
        except OSError as exc:
            raise _cannot_write(self.path, exc) from exc
        return complete

    def _state(self, status: str) -> Manifest:
        counts = {"rows": len(self.done), "failures": dict(sorted(self.failures.items())), "attempts": self.attempts}
        return self._manifest.model_copy(update={"status": status, **counts})

    def _count(self, row: Row) -> None:
        kinds = {score.kind for score in row.scores if not isinstance(score, float)}
        self.failures.update(kinds)
        self.failed += row.failed

    def _append_to(self, name: str, content: bytes) -> None:
        try:
            with (self.path / name).open("ab") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as exc:
            raise _cannot_write(self.path, exc) from exc


def _cannot_write(path: Path, exc: OSError) -> RunError:
    return RunError(
        f"cannot write to {path}: {exc.strerror or exc}. Rows already on disk are kept; "
        "make room or choose another folder, and the same command goes on from there"
    )


def _drop_torn_line(path: Path) -> None:
    """Cut a last line that a kill left without its end."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        kept = size
        while kept > 0:
            step = min(65_536, kept)
            file.seek(kept - step)
            newline = file.read(step).rfind(b"\n")
            if newline >= 0:
                kept = kept - step + newline + 1
                break
            kept -= step
        if kept < size:
            file.truncate(kept)


def _drop_torn_member(path: Path) -> None:
    """Cut a last gzip member that a kill left without its end."""
    if not path.exists():
        return
    whole = sum(size for size, _ in _members(path))
    if whole < path.stat().st_size:
        os.truncate(path, whole)


def _members(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the compressed size and the text of each complete gzip member."""
    with path.open("rb") as file:
        ahead = b""
        while True:
            reader, parts, size = zlib.decompressobj(wbits=31), [], 0
            while not reader.eof:
                block = ahead or file.read(65_536)
                ahead = b""
                if not block:
                    return
                try:
                    parts.append(reader.decompress(block))
                except zlib.error:
                    return
                size += len(block)
            ahead = reader.unused_data
            yield size - len(ahead), b"".join(parts)


def _replace(path: Path, text: str) -> None:
    """Write a small file so that a kill leaves the old one or the new one, never half of one."""
    beside = path.with_suffix(".tmp")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _read_rows(path: Path) -> Iterator[Row]:
    file = path / _ROWS
    if not file.exists():
        return
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return  # torn: a reader looks on while a writer writes
            yield records.row_from(line, f"{file}:{number}")


def load_run(path: str | Path) -> Run:
    """Return the run in a folder, rows in the order they were written."""
    folder = Path(path)
    manifest = load_manifest(folder)
    rows = tuple(_read_rows(folder))
    return Run(
        model=manifest.model,
        benchmark=manifest.benchmark.card.name,
        condition=manifest.condition,
        rows=rows,
        card=records.card_from(manifest.benchmark.card),
        reveals=frozenset(manifest.reveals),
        complete=manifest.status == "complete",
        items=manifest.selection.items,
        benchmark_hash=manifest.benchmark.content_hash,
        path=str(folder),
    )


def load_manifest(path: str | Path) -> Manifest:
    """Return the run.json in a folder; a folder without one holds no run."""
    file = Path(path) / _MANIFEST
    try:
        return records.read_manifest(file.read_text(encoding="utf-8"), str(file))
    except FileNotFoundError as exc:
        raise RunError(
            f"{path} holds no run: there is no {_MANIFEST} in it; 'pluralrm score' writes one with -o"
        ) from exc
    except (OSError, UnicodeDecodeError) as exc:
        raise RunError(f"cannot read {file}: {exc}") from exc


def find_runs(paths: Sequence[str | Path]) -> list[Path]:
    """Return the run folders at or below some paths, sorted; a path without any is an error."""
    found: list[Path] = []
    for path in map(Path, paths):
        here = sorted(file.parent for file in path.rglob(_MANIFEST)) if path.is_dir() else []
        if not here:
            raise RunError(f"no run at or below {str(path)!r}; 'pluralrm score' writes them with -o")
        found.extend(here)
    return list(dict.fromkeys(found))


def load_inputs(path: str | Path, item: str) -> Mapping[str, object]:
    """Return exactly what the model was given for one item."""
    for record in read_inputs(path):
        if record["item"] == item:
            return record
    raise RunError(f"{path} holds no input for item {item!r}; it was lost, and --fresh scores the run again")


def read_inputs(path: str | Path) -> Iterator[Mapping[str, object]]:
    """Yield what the model was given, item by item; nothing where the run keeps no inputs, or past a torn end."""
    file = Path(path) / _INPUTS
    if file.exists():
        for _, text in _members(file):
            for line in text.splitlines():
                yield json.loads(line)


def provenance() -> dict[str, object]:
    """Return time, versions and git revision, read here and nowhere else."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), "pluralrm": __version__, **_versions()},
        "git": _git_revision(),
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in ("bm25s", "numpy", "scikit-learn", "torch", "transformers"):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _git_revision() -> str:
    """Return the revision of the folder where the command was given, or nothing."""
    try:
        command = ["git", "rev-parse", "HEAD"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)  # noqa: S603 - fixed words
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()
