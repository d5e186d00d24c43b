"""The run folder: append, sync, recover. Nothing acknowledged is lost, nothing is written twice.

run.json              where the rows came from; status `incomplete` from the first moment, `complete` at the end
items.jsonl.gz        the row of each item as it counts until there is another: failed, for it is missing
rows.jsonl            one line per item; a torn last line is dropped on opening, nothing else is
attempts.jsonl        items that stay open: transport, deadline, budget
inputs.jsonl.gz       exactly what the model was given, one gzip member per synced chunk
transcripts.jsonl.gz  exactly what it was sent and said, where it is a model that talks
"""

import contextlib
import gzip
import math
import os
import platform
import shutil
import subprocess
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Self

from pluralrm._version import __version__
from pluralrm.core import Failure, Query, Row, Run, Verdict, prompt_id
from pluralrm.errors import ModelError, RunError, ServiceError
from pluralrm.files import (
    append,
    drop_lines,
    drop_torn_line,
    drop_torn_member,
    lock_folder,
    members,
    remove_contents,
    replace_file,
)
from pluralrm.folders import file_hash
from pluralrm.http import Tally
from pluralrm.journal import parse_json
from pluralrm.runs import records
from pluralrm.runs.records import AskedRecord, Manifest

_ROWS, _MANIFEST, _ATTEMPTS = "rows.jsonl", "run.json", "attempts.jsonl"
_INPUTS, _TRANSCRIPTS, _ITEMS = "inputs.jsonl.gz", "transcripts.jsonl.gz", "items.jsonl.gz"
_EFFORT = 2
"""Of gzip, from 1 to 9. Five takes 2.4 times the time, a third of all that a judged item costs, to save a tenth."""
_CHUNK = 64
_SECONDS = 2.0
"""A row waits for the disk until so many are together, or so long: a kill costs a slow model seconds, not chunks."""


class RunFolder:
    """One run, open for writing by one process; `asked` tells what that process has asked of servers, if any.

    `items` are the rows of all items as they count until they are scored. `fresh` removes what an earlier process left,
    once no other process can write there.
    """

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        asked: Callable[[], Tally | None] = lambda: None,
        *,
        items: Sequence[Row],
        fresh: bool = False,
    ) -> None:
        self.path = path
        self._items = items
        self._fresh = fresh
        self._new = False
        self._manifest = manifest
        self._asked = asked
        self._earlier: Tally | None = None
        self._noted: Tally | None = None
        self._noted_at = -math.inf
        self._finished = False
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
            self._lock = lock_folder(self.path)
            self._adopt()
        except BlockingIOError as exc:
            raise RunError(f"{self.path}: another process is writing this run; wait for it or stop it") from exc
        except OSError as exc:
            self._unlock()
            raise _cannot_write(self.path, exc) from exc
        except RunError:
            self._unlock()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        try:
            # Also on Ctrl-C or an error: what was scored is kept. A disk that refused once is not asked again.
            if isinstance(exc, RunError):
                self._refused = exc
            else:
                self.sync()
                self._note_asked()
            if isinstance(exc, (ModelError, ServiceError)) and self._new and not self.done and not self.attempts:
                shutil.rmtree(self.path)  # a folder without a row would be reported by all that reads runs
        finally:
            self._stop_timer()
            self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _adopt(self) -> None:
        """Take over what an earlier process left: check that it is the same run, drop a torn tail."""
        found = self.path / _MANIFEST
        if self._fresh:
            remove_contents(self.path, last=_MANIFEST)
        self._new = not found.exists()
        if not self._new:
            earlier = records.read_manifest(found.read_bytes(), str(found))
            if differing := self._manifest.same_as(earlier):
                raise RunError(
                    f"{self.path} holds a run with another {'; another '.join(differing)}. Old and new rows must not "
                    "mix: --fresh (in Python fresh=True) removes that run and starts over, another -o keeps both"
                )
            kept = ("started", "seconds", "attempts", "rows", "rows_hash", "items_hash")
            self._manifest = self._manifest.model_copy(update={name: getattr(earlier, name) for name in kept})
            self.attempts = earlier.attempts
            self._earlier = records.asked_from(earlier.asked) if earlier.asked else None
        drop_torn_line(self.path / _ROWS)
        drop_torn_line(self.path / _ATTEMPTS)
        for row in _found_rows(self.path, self._manifest, self._listed(), torn=True).values():
            self.done.add(row.item)
            self._count(row)
        for name in (_INPUTS, _TRANSCRIPTS):
            drop_torn_member(self.path / name)
            drop_lines(self.path / name, records.first_of(self.done))
        self._write_state("incomplete")

    def _listed(self) -> dict[str, Row]:
        """Return the items by id, put on disk where they are not there."""
        if not self._manifest.items_hash:
            lines = "".join(map(records.row_line, self._items)).encode()
            replace_file(self.path / _ITEMS, gzip.compress(lines, _EFFORT, mtime=0))
            self._manifest = self._manifest.model_copy(update={"items_hash": file_hash(self.path / _ITEMS)})
        return _read_items(self.path, self._manifest) or {}

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
                self._append_to(_INPUTS, gzip.compress(inputs.encode(), _EFFORT, mtime=0))
            if transcripts:
                self._append_to(_TRANSCRIPTS, gzip.compress(transcripts.encode(), _EFFORT, mtime=0))
            if rows:
                self._append_to(_ROWS, rows.encode())
            self._note_asked(after=_SECONDS)

    def _note_asked(self, *, after: float = 0.0) -> None:
        """Write what was asked since it was last written, `after` seconds: a kill must not hide what was paid for."""
        if not self._finished and self._asked() != self._noted and time.monotonic() - self._noted_at >= after:
            self._write_state("incomplete")

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
        self._finished = True
        self._write_state("complete" if complete else "incomplete")
        return complete

    def _write_state(self, status: str) -> None:
        now = datetime.now(UTC)
        self._noted, self._noted_at = self._asked(), time.monotonic()
        state: dict[str, object] = {
            "status": status,
            "rows": len(self.done),
            "failures": dict(sorted(self.failures.items())),
            "attempts": self.attempts,
            "seconds": round(self._manifest.seconds + (now - self._began).total_seconds(), 3),
            "asked": self._asked_altogether(),
        }
        if self._finished:
            state["finished"] = now.isoformat(timespec="seconds")
        state["rows_hash"] = file_hash(self.path / _ROWS) if status == "complete" and self.done else ""
        try:
            replace_file(self.path / _MANIFEST, self._manifest.model_copy(update=state).to_json())
        except OSError as exc:
            raise _cannot_write(self.path, exc) from exc

    def _asked_altogether(self) -> AskedRecord | None:
        """Return what the processes of this run have asked, this one included."""
        known = [tally for tally in (self._earlier, self._asked()) if tally is not None]
        return records.asked_record(reduce(Tally.plus, known)) if known else None

    def _count(self, row: Row) -> None:
        kinds = {score.kind for score in row.scores if not isinstance(score, float)}
        self.failures.update(kinds)
        self.failed += row.failed

    def _append_to(self, name: str, content: bytes) -> None:
        try:
            append(self.path / name, content)
        except OSError as exc:
            raise _cannot_write(self.path, exc) from exc


def _cannot_write(path: Path, exc: OSError) -> RunError:
    return RunError(
        f"cannot write to {path}: {exc.strerror or exc}. Rows already on disk are kept; "
        "make room or choose another folder, and the same command goes on from there"
    )


def _read_items(folder: Path, manifest: Manifest) -> dict[str, Row] | None:
    """Return the row of each item as it counts until it is scored; None in runs of before, which kept no list."""
    file = folder / _ITEMS
    if not manifest.items_hash:
        return None
    try:
        if file_hash(file) != manifest.items_hash:
            raise RunError(f"{file}: the file is not as it was written. {_ANEW}")
        lines = gzip.decompress(file.read_bytes()).splitlines()
    except OSError as exc:
        raise RunError(f"cannot read {file}: {exc}. {_ANEW}") from exc
    rows = (records.row_from(line, f"{file}:{number}") for number, line in enumerate(lines, 1))
    return {row.item: row for row in rows}


_ANEW = "Restore it, or score the run again with --fresh"


def _read_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the place of each row on disk, and the row."""
    file = path / _ROWS
    if not file.exists():
        return
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return  # torn: a reader looks on while a writer writes
            yield (where := f"{file}:{number}"), records.row_from(line, where)


def _found_rows(
    folder: Path, manifest: Manifest, items: Mapping[str, Row] | None, *, torn: bool = False
) -> dict[str, Row]:
    """Return the rows on disk by item; one that comes twice, or is of no item of this run, is an error by line.

    So are fewer rows than run.json counts, unless the file may be `torn`, and a complete file with another hash.
    """
    found: dict[str, Row] = {}
    for where, row in _read_rows(folder):
        if row.item in found:
            raise RunError(f"{where}: found a second row of item {row.item!r}, wanted one. {_ANEW}")
        if items is not None and (unlike := _unlike(row, items.get(row.item))):
            raise RunError(f"{where}: {unlike}. {_ANEW}")
        found[row.item] = row
    wanted, file = manifest.selection.items, folder / _ROWS
    if len(found) > wanted:
        raise RunError(f"{file}: found {len(found):,} rows, and {_MANIFEST} has {wanted:,} items. {_ANEW}")
    least = wanted if manifest.status == "complete" else manifest.rows
    if len(found) < least and not torn:
        raise RunError(
            f"{file}: found {len(found):,} rows, and {_MANIFEST} counts {least:,}. Restore it; or the same "
            "'pluralrm score' command scores the missing ones again"
        )
    if manifest.rows_hash and len(found) == manifest.rows and file_hash(file) != manifest.rows_hash:
        raise RunError(f"{file}: its rows are not those that were scored. {_ANEW}")
    return found


def _unlike(row: Row, item: Row | None) -> str:
    """Return in what a row is not of this item, or nothing."""
    if item is None:
        return f"a row of item {row.item!r}, which is none of this run"
    facts = ["cluster", "domain", "preferred", "candidate_ids", "lengths", "tags"]
    facts += ["prompt"] * bool(row.prompt)  # rows of before have none
    if differing := [name for name in facts if getattr(row, name) != getattr(item, name)]:
        return f"{' and '.join(differing)} of item {row.item!r} are not as in {_ITEMS}"
    same = len(row.scores) == len(item.scores)
    return "" if same else f"{len(row.scores)} scores for the {len(item.scores)} candidates of item {row.item!r}"


def load_run(path: str | Path) -> Run:
    """Return the run in a folder, a row per item in item order: one that is open has a row that failed."""
    folder = Path(path)
    manifest = load_manifest(folder)
    items = _read_items(folder, manifest)
    rows = _found_rows(folder, manifest, items)
    if items is None and manifest.status == "incomplete":
        raise RunError(
            f"{folder}: {len(rows):,} of {manifest.selection.items:,} items are scored, and what the others are is not "
            "on disk, so they cannot count. Resume it with the same 'pluralrm score' command, or leave it out"
        )
    if items is not None:
        outages = _outages(folder, items)
        rows = {item: rows.get(item) or _open(row, outages.get(item)) for item, row in items.items()}
    return Run(
        model=manifest.model,
        benchmark=manifest.benchmark.card.name,
        condition=manifest.condition,
        rows=_with_prompts(folder, rows.values()),
        card=records.card_from(manifest.benchmark.card),
        reveals=frozenset(manifest.reveals),
        complete=manifest.status == "complete",
        items=manifest.selection.items,
        benchmark_hash=manifest.benchmark.content_hash,
        path=str(folder),
        whole=manifest.selection.limit is None and not manifest.selection.domains,
        trained=manifest.training.met if manifest.training else (),
    )


def _with_prompts(folder: Path, rows: Collection[Row]) -> tuple[Row, ...]:
    """Return the rows with their prompts' ids: rows of older versions have none, and the inputs hold the texts."""
    if all(row.prompt for row in rows):
        return tuple(rows)
    texts = {str(record["item"]): str(record["prompt"]) for record in read_inputs(folder)}
    return tuple(
        replace(row, prompt=prompt_id(texts[row.item])) if not row.prompt and row.item in texts else row for row in rows
    )


def _open(row: Row, outage: Failure | None) -> Row:
    return row if outage is None else replace(row, scores=(outage,) * len(row.scores))


def _outages(folder: Path, items: Collection[str]) -> dict[str, Failure]:
    """Return why each item that was tried stayed open the last time; one of no item of this run is an error."""
    found: dict[str, Failure] = {}
    for where, item, failure in _attempts(folder):
        if item not in items:
            raise RunError(f"{where}: an attempt at item {item!r}, which is none of this run. {_ANEW}")
        found[item] = failure
    return found


def _attempts(folder: Path) -> Iterator[tuple[str, str, Failure]]:
    file = folder / _ATTEMPTS
    if not file.exists():
        return
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.endswith(b"\n"):
                yield (where := f"{file}:{number}"), *records.attempt_from(line, where)


def scored_items(path: str | Path) -> set[str]:
    """Return the items that have their row in a run folder, finished or not, though rows may have been lost."""
    folder = Path(path)
    manifest = load_manifest(folder)
    return set(_found_rows(folder, manifest, _read_items(folder, manifest), torn=True))


def holds_run(path: str | Path) -> bool:
    """Return whether a folder holds a run, complete or not."""
    return (Path(path) / _MANIFEST).is_file()


def load_manifest(path: str | Path) -> Manifest:
    """Return the run.json in a folder; a folder without one holds no run."""
    file = Path(path) / _MANIFEST
    try:
        return records.read_manifest(file.read_bytes(), str(file))
    except FileNotFoundError as exc:
        raise RunError(
            f"{path} holds no run: there is no {_MANIFEST} in it; 'pluralrm score' writes one with -o"
        ) from exc
    except OSError as exc:
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


def load_runs(paths: Sequence[str | Path]) -> list[Run]:
    """Return the runs at or below some paths, sorted by folder; runs of which none has a row are an error."""
    runs = [load_run(folder) for folder in find_runs(paths)]
    if not any(run.done for run in runs):
        found = "1 run, and it has no row yet" if len(runs) == 1 else f"{len(runs):,} runs, and none has a row yet"
        where = ", ".join(repr(str(path)) for path in paths)
        raise RunError(f"at or below {where}: {found}. The same 'pluralrm score' command goes on where it stopped")
    return runs


def load_inputs(path: str | Path, item: str) -> Mapping[str, object]:
    """Return exactly what the model was given for one item."""
    for record in read_inputs(path):
        if record["item"] == item:
            return record
    raise RunError(f"{path} holds no input for item {item!r}; it was lost, and --fresh scores the run again")


def read_inputs(path: str | Path) -> Iterator[Mapping[str, object]]:
    """Yield what the model was given, item by item; nothing where the run keeps no inputs, or past a torn end."""
    file = Path(path) / _INPUTS
    if not file.exists():
        return
    for _, text in members(file):
        for line in text.splitlines():
            try:
                record = parse_json(line)
            except ValueError as exc:
                raise RunError(f"{file}: a line cannot be read: {exc}. {_ANEW}") from exc
            if not isinstance(record, dict) or not {"item", "prompt"} <= record.keys():
                raise RunError(f"{file}: found a line {line[:60]!r}, wanted an item's input. {_ANEW}")
            yield record


def last_outage(path: str | Path) -> str:
    """Return why the last item that was left open was left open, such as `transport: ConnectError`; or nothing."""
    last = deque((failure for _, _, failure in _attempts(Path(path))), maxlen=1)
    return f"{last[0].kind}: {last[0].detail}".splitlines()[0] if last else ""


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
