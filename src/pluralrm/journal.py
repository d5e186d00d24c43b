"""Journals: folders of sealed JSON with one writer and any number of readers, resumed where they stopped.

A manifest says what the work is and how far it is; lines are appended and synced as results come. Each line and each
document carries a check of its own text: one that was changed by hand or by a bad disk is an error, not another number.
Those of older versions carry no check and are read without one.

>>> unsealed_line(sealed_line('{"item":"i1","score":0.5}').encode())
b'{"item":"i1","score":0.5}'
>>> unsealed_line(sealed_line('{"item":"i1","score":0.5}').replace("0.5", "0.9").encode())
Traceback (most recent call last):
ValueError: the line is not as it was written
"""

import contextlib
import gzip
import json
import os
import platform
import re
import subprocess
import threading
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Annotated, Generic, Literal, NamedTuple, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pluralrm._version import __version__
from pluralrm.digests import digest
from pluralrm.errors import PluralrmError
from pluralrm.files import append, drop_torn_line, drop_torn_member, lock_folder, replace_file

_CHECK = "check"
_SEAL = re.compile(rb',"check":"([0-9a-f]{8})"\}\s*\Z')
_LONGEST_SEAL = 24
_CHUNK = 64
_BLOCK = 2**20
MERGE = ".merge"
"""The file in a folder that `merge` writes, until all of it is there: the command that completes it."""
SYNC_SECONDS = 2.0
"""A line waits for the disk until so many are together, or so long: a kill costs a slow model seconds, not chunks."""

Model = TypeVar("Model", bound=BaseModel)


class Strict(BaseModel):
    """What is read from our own files: no unknown key, and never changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Document(Strict):
    """A sealed JSON file."""

    def to_json(self) -> str:
        """Return the text of the file."""
        return document_text(self)

    def facts(self) -> Mapping[str, object]:
        """Return what must be the same for the work in a folder to be resumed."""
        return {}

    @property
    def part(self) -> str:
        """Which part of the work the folder holds, such as `shard 2 of 7`; nothing where it holds all of it."""
        return ""


class Manifest(Document):
    """The document that says what the work in a folder is, and how far it is."""

    schema_version: Annotated[Literal[1], Field(alias="schema")] = 1

    def differs_in(self, earlier: Document) -> list[str]:
        """Return the facts that differ from an earlier manifest's, such as `draw (n: 4, was 3)`."""
        return differences(self.facts(), earlier.facts())


def differences(now: Mapping[str, object], then: Mapping[str, object], was: str = "was") -> list[str]:
    """Return the names of the facts that differ, mappings fact by fact; `was` stands before the other value.

    >>> differences({"model": "m", "draw": {"n": 4, "seed": 0}}, {"model": "m", "draw": {"n": 3, "seed": 0}})
    ['draw (n: 4, was 3)']
    """
    changed = []
    for name in (name for name in now if now[name] != then[name]):
        new, old = now[name], then[name]
        inner = ""
        if isinstance(new, Mapping) and isinstance(old, Mapping):
            keys = sorted(key for key in new.keys() | old.keys() if new.get(key) != old.get(key))
            inner = ", ".join(
                f"{_FACTS.get(key, key)}: {_brief(new.get(key))}, {was} {_brief(old.get(key))}" for key in keys
            )
        changed.append(f"{name} ({inner})" if inner else name)
    return changed


_FACTS = {"module": "the source file of the class"}


def _brief(fact: object) -> str:
    if isinstance(fact, str):
        return repr(fact if len(fact) <= 24 else f"{fact[:12]}…")
    return "nothing" if fact is None else str(fact)


# ---------------------------------------------------------------- seals


def sealed_line(line: str) -> str:
    """Return a JSON object on one line, with the check of its text as the last member."""
    body = line.rstrip("\n").removesuffix("}")
    return f'{body},"{_CHECK}":"{_sum(body.encode())}"}}{line[len(line.rstrip(chr(10))) :]}'


def unsealed_line(line: bytes) -> bytes:
    """Return the line without its check and its end; ValueError where it is not as it was written."""
    seal = _SEAL.search(line, max(0, len(line) - _LONGEST_SEAL - 2))
    if seal is None:
        return line.rstrip()
    body = line[: seal.start()]
    if zlib.crc32(body) != int(seal[1], 16):
        raise ValueError("the line is not as it was written")
    return body + b"}"


def _sum(text: bytes) -> str:
    return f"{zlib.crc32(text):08x}"


def json_line(value: Mapping[str, object]) -> str:
    """Return a sealed line, in ASCII: a lone surrogate or a line separator inside a text cannot tear it."""
    return sealed_line(_ENCODER.encode(value)) + "\n"


_ENCODER = json.JSONEncoder(separators=(",", ":"))


def sealed(document: Mapping[str, object]) -> dict[str, object]:
    """Return a JSON object with the check of its content as the last member."""
    return {**document, _CHECK: digest(document)[:16]}


def document_text(record: BaseModel, *, ascii_only: bool = False) -> str:
    """Return a record as the text of a sealed JSON file."""
    document = sealed(record.model_dump(mode="json", by_alias=True))
    return json.dumps(document, indent=1, ensure_ascii=ascii_only) + "\n"


def whole_lines(file: Path) -> Iterator[bytes]:
    """Yield the lines of a file that may be missing; a last one without its end is passed over."""
    return chain.from_iterable(line_blocks(file))


def line_blocks(file: Path) -> Iterator[list[bytes]]:
    """Yield the same lines, those of about a megabyte at a time."""
    if file.exists():
        with file.open("rb") as stream:
            while lines := stream.readlines(_BLOCK):
                yield lines if lines[-1].endswith(b"\n") else lines[:-1]


def parse_line(kind: type[Model], line: bytes) -> Model:
    """Return the record in a line; ValueError says in one line what is wrong with it."""
    return _validated(kind, unsealed_line(line))


def parse_document(kind: type[Model], text: str | bytes) -> Model:
    """Return the record in a document; ValueError says in one line what is wrong with it."""
    value = parse_json(text)
    if isinstance(value, dict) and _CHECK in value and _CHECK not in kind.model_fields:
        check = value.pop(_CHECK)
        if check != digest(value)[:16]:
            raise ValueError("the file is not as it was written")
        return _validated(kind, json.dumps(value).encode())
    return _validated(kind, text)


def parse_json(text: str | bytes) -> object:
    """Return the value; ValueError also where it is nested too deeply, or is no UTF-8."""
    try:
        return cast(object, json.loads(text))
    except UnicodeDecodeError as exc:
        raise ValueError(f"no UTF-8 at byte {exc.start:,}") from exc
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc


def _validated(kind: type[Model], text: str | bytes) -> Model:
    try:
        return kind.model_validate_json(text)
    except ValidationError as exc:
        raise ValueError(str(field_error(exc))) from exc


class FieldError(NamedTuple):
    """The first thing that is wrong in a record: its field (blank for the whole), the message, the value."""

    field: str
    message: str
    value: object
    missing: bool

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def field_error(exc: ValidationError, whole: str = "", *, tags: Collection[str] = ()) -> FieldError:
    """Return the first error of a validation; `whole` is what has no field, `tags` are steps that name no field."""
    first = exc.errors(include_url=False, include_context=False)[0]
    field = ".".join(str(step) for step in first["loc"] if step not in tags) or whole
    return FieldError(field, first["msg"].removeprefix("Value error, "), first["input"], first["type"] == "missing")


# ---------------------------------------------------------------- folders

Record = TypeVar("Record", bound=Document)
Line = TypeVar("Line", bound=BaseModel)


@dataclass(frozen=True)
class JournalKind(Generic[Record]):
    """What one kind of folder holds, and what its errors say."""

    noun: str
    manifest: str
    """The name of the file."""
    record: type[Record]
    error: type[PluralrmError]
    source: str
    """What writes such a folder: `'pluralrm score' writes one with -o`."""
    anew: str
    """What to do where a file is lost: `score the run again with --fresh`."""
    other: str = ""
    """What to do where a folder holds the work of another command."""
    files: tuple[str, ...] = ()
    """In the order of a sync: what a line rests on is on disk before it."""
    attempts: str = ""
    """The file of what stayed open, if there is one."""
    effort: int = 9
    """Of gzip."""

    def holds(self, folder: str | Path) -> bool:
        """Return whether a folder holds one, complete or not."""
        return (Path(folder) / self.manifest).is_file()

    def read(self, folder: str | Path, *, shards: bool = False) -> Record:
        """Return the manifest in a folder; a shard is an error unless the caller takes `shards`."""
        file = Path(folder) / self.manifest
        try:
            record = parse_document(self.record, file.read_bytes())
        except FileNotFoundError as exc:
            self.check_merged(folder)
            raise self.error(
                f"{folder} holds no {self.noun}: there is no {self.manifest} in it; {self.source}"
            ) from exc
        except OSError as exc:
            raise self.error(f"cannot read {file}: {exc}") from exc
        except ValueError as exc:
            raise self.unreadable(str(file), exc) from exc
        if record.part and not shards:
            raise self.error(
                f"{folder} is {record.part} of a {self.noun}, and no {self.noun} by itself: 'pluralrm merge' makes the "
                "whole of its shards"
            )
        return record

    def check_merged(self, folder: str | Path) -> None:
        """Raise where a merge into a folder was stopped: what is there has no manifest that says whose it is."""
        if (command := Path(folder) / MERGE).exists() and not self.holds(folder):
            raise self.error(
                f"{folder} is half merged: 'pluralrm merge' was stopped there. What completes it: "
                f"{command.read_text()}. Or {self.anew}"
            )

    def lines(self, file: Path, kind: type[Line], name: Callable[[Line], str] | None = None) -> Iterator[Line]:
        """Yield the records in a file; a last line without its end is passed over, a reader may look on.

        `name` says what a line is about; a second line about the same is an error by line.
        """
        for _, record in self.places(file, kind, name):
            yield record

    def places(
        self, file: Path, kind: type[Line], name: Callable[[Line], str] | None = None
    ) -> Iterator[tuple[str, Line]]:
        """Yield `file:line` with each record."""
        names = set[str]()
        for number, line in enumerate(whole_lines(file), 1):
            location = f"{file}:{number}"
            record = self.parse(kind, line, location)
            if name is not None:
                if (about := name(record)) in names:
                    raise self.damaged(location, f"found a second {about}, wanted one")
                names.add(about)
            yield location, record

    def parse(self, kind: type[Line], line: bytes, location: str) -> Line:
        """Return the record in a line; the error names the place."""
        try:
            return parse_line(kind, line)
        except ValueError as exc:
            raise self.unreadable(location, exc) from exc

    def unreadable(self, location: str, exc: ValueError) -> PluralrmError:
        """Return the error for what is not of this version's format."""
        return self.error(
            f"{location}: {exc}. Restore it, read it with the version of pluralrm that wrote it, or {self.anew}"
        )

    def damaged(self, location: str | Path, problem: str) -> PluralrmError:
        """Return the error for what contradicts the rest of the folder."""
        return self.error(f"{location}: {problem}. Restore it, or {self.anew}")

    def check_same(self, folder: Path, now: Mapping[str, object], then: Mapping[str, object]) -> None:
        """Raise where a folder holds the work of another command."""
        if changed := differences(now, then):
            raise self.another(folder, changed)

    def another(self, folder: Path, changed: Sequence[str]) -> PluralrmError:
        """Return the error for a folder that holds the work of another command."""
        return self.error(f"{folder} holds a {self.noun} with another {'; another '.join(changed)}. {self.other}")


class LockedFolder(Generic[Record]):
    """A folder that one process writes, from `with` to its end."""

    def __init__(self, path: Path, kind: JournalKind[Record]) -> None:
        self.path, self.kind = path, kind
        self._lock: int | None = None

    def __enter__(self) -> Self:
        try:
            self._lock = lock_folder(self.path)
            self._resume()
        except BlockingIOError as exc:
            raise self.kind.error(
                f"{self.path}: another process is writing this {self.kind.noun}; wait for it or stop it"
            ) from exc
        except BaseException as exc:
            self._unlock()
            if isinstance(exc, OSError):
                raise self._cannot_write(exc) from exc
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        try:
            self._close(exc)
        finally:
            self._unlock()

    def _resume(self) -> None:
        """Take over what an earlier process left; a merge that was stopped is not taken over."""
        self.kind.check_merged(self.path)

    def _close(self, exc: BaseException | None) -> None:
        """Put everything on disk; `exc` ended the work, if anything did."""

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def append(self, name: str, text: str) -> None:
        """Add lines to a file of the folder; on disk when it returns."""
        content = text.encode()
        try:
            append(
                self.path / name, gzip.compress(content, self.kind.effort, mtime=0) if name.endswith(".gz") else content
            )
        except OSError as exc:
            raise self._cannot_write(exc) from exc

    def write(self, manifest: Record) -> None:
        """Put the manifest on disk: a kill leaves the old one or the new one."""
        try:
            replace_file(self.path / self.kind.manifest, manifest.to_json())
        except OSError as exc:
            raise self._cannot_write(exc) from exc

    def _cannot_write(self, exc: OSError) -> PluralrmError:
        return self.kind.error(
            f"cannot write to {self.path}: {exc.strerror or exc}. What is on disk is kept: make room, and the same "
            "command resumes there; or choose another folder"
        )


class Journal(LockedFolder[Record]):
    """A folder with a manifest and lines; what an earlier process left is taken over first."""

    def __init__(self, path: Path, kind: JournalKind[Record], manifest: Record) -> None:
        super().__init__(path, kind)
        self.manifest = manifest
        self._queue: defaultdict[str, list[str]] = defaultdict(list)
        self._turn = threading.RLock()  # a loop queues, and the timer syncs while the loop waits for the model
        self._timer: threading.Timer | None = None
        self._refused: PluralrmError | None = None

    def _close(self, exc: BaseException | None) -> None:
        try:
            # Also on Ctrl-C or an error: results are kept. A disk that refused once is not asked again.
            if isinstance(exc, self.kind.error):
                self._refused = exc
            else:
                self.sync()
            self._leave(exc)
        finally:
            self._stop_timer()

    def _resume(self) -> None:
        """Check that it is the same work, and drop torn ends."""
        super()._resume()
        if self.kind.holds(self.path):
            earlier = self.kind.read(self.path, shards=True)
            self.kind.check_same(self.path, self.manifest.facts(), earlier.facts())
            self._adopt(earlier)
        for name in filter(None, (*self.kind.files, self.kind.attempts)):
            (drop_torn_member if name.endswith(".gz") else drop_torn_line)(self.path / name)

    def _adopt(self, earlier: Record) -> None:
        """Take over an earlier process' manifest."""
        self.manifest = earlier

    def _leave(self, exc: BaseException | None) -> None:
        """Do what is left to do once everything is on disk; `exc` ended the work, if anything did."""

    def queue(self, lines: Mapping[str, str]) -> None:
        """Take lines for some files; they are on disk together at the next sync, at most two seconds from now."""
        with self._turn:
            for name, line in lines.items():
                self._queue[name].append(line)
            if len(self._queue[self.kind.files[-1]]) >= _CHUNK:
                self.sync()
            elif self._timer is None:
                self._timer = threading.Timer(SYNC_SECONDS, self._sync_late)
                self._timer.daemon = True
                self._timer.start()

    def sync(self) -> None:
        """Put all queued lines on disk, file by file in their order."""
        with self._turn:
            self._stop_timer()
            if self._refused is not None:
                raise self._refused
            queue, self._queue = self._queue, defaultdict(list)
            for name in self.kind.files:
                if queue[name]:
                    self.append(name, "".join(queue[name]))

    def _sync_late(self) -> None:
        """Sync from the timer's thread; what the disk refuses there is raised by the next sync of the loop."""
        try:
            self.sync()
        except self.kind.error as exc:
            self._refused = exc

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


# ---------------------------------------------------------------- provenance


def provenance() -> dict[str, object]:
    """Return time, versions and git revision, read here and nowhere else."""
    try:
        command = ["git", "rev-parse", "HEAD"]  # of the folder where the command was given
        answer = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)  # noqa: S603 - fixed words
        git = answer.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        git = ""
    return {"started": datetime.now(UTC).isoformat(timespec="seconds"), "versions": library_versions(), "git": git}


def library_versions() -> dict[str, str]:
    """Return the versions of what computes scores."""
    return dict(_versions())


@cache
def _versions() -> Mapping[str, str]:
    versions = {"python": platform.python_version(), "pluralrm": __version__}
    for name in ("bm25s", "numpy", "scikit-learn", "torch", "transformers"):
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions
