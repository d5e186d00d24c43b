"""A build's folder: one writer, a line for each decision, and a refusal of what belongs to another build.

build.json                  what the build is; none of it may change while it is resumed
calls.jsonl                 the cassette: every reply that was received
stages/02-answers.jsonl     a line for each record that a stage decided on, in any order; a sieve's file appears at once

Each line has a seal, the hash of all else in it, and names the seal of the decision that it follows on. So a text that
was edited by hand is found, and so is a line that was put in from another build: neither was judged here.
"""

import json
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from errno import EDQUOT, EFBIG, ENOSPC
from io import FileIO
from pathlib import Path
from typing import Literal, NamedTuple, Self

from pydantic import ConfigDict, JsonValue, model_validator

from pluralrm.chat import ChatModel, ChatReply, ChatRequest, ServedChat
from pluralrm.chat.completions import read_completion
from pluralrm.core import Failure
from pluralrm.digests import digest
from pluralrm.errors import RunError
from pluralrm.files import drop_torn_line, replace_file
from pluralrm.http import Settings
from pluralrm.http.cache import Cassette
from pluralrm.http.calls import UnsoundError
from pluralrm.journal import JournalKind, LockedFolder, Strict
from pluralrm.shards import ShardedDocument, ShardProgress


class BuildModel(Strict):
    """What a build writes down, with the types of JSON."""

    model_config = ConfigDict(strict=True)


class Spent(BuildModel):
    """What one role asked of one model about a record: calls, those without a count of tokens, tokens."""

    role: str
    model: str
    calls: int
    unmetered: int
    tokens_in: int
    tokens_out: int


class Heard(BuildModel):
    """A reply that a decision rests on: the hash of the request, as the cassette knows it, and of what was said."""

    request: str
    reply: str


class DecisionLine(BuildModel):
    """A decision: `kept` is the product, or None where the record was rejected.

    `after` is the seal of the decision before it on the record; of all that came, for a sieve.
    """

    id: str
    kept: dict[str, JsonValue] | None
    reason: str = ""
    detail: str = ""
    attempts: int = 1
    spent: tuple[Spent, ...] = ()
    heard: tuple[Heard, ...] = ()
    after: str = ""
    seal: str = ""

    @model_validator(mode="after")
    def _says_why(self) -> Self:
        if (self.kept is None) != bool(self.reason):
            raise ValueError("found a reason beside a product, or neither")
        return self

    @property
    def sealed(self) -> "DecisionLine":
        """The same line with its seal."""
        return self.model_copy(update={"seal": digest(self.model_dump(mode="json", exclude={"seal"}))})

    @property
    def text(self) -> bytes:
        """The line as it is written."""
        return self.model_dump_json().encode() + b"\n"


class PlacedLine(NamedTuple):
    """A line and where it stands: `file:line`."""

    place: str
    line: DecisionLine

    def error(self, problem: str) -> RunError:
        """Return the error that names the file, the line and the record."""
        return RunError(f"{self.place}: {self.line.id!r}: {problem}")


def crowd(lines: Iterable[DecisionLine]) -> str:
    """Return what a sieve's decisions follow on: the seals of all records that came to it."""
    return digest(sorted([line.id, line.seal] for line in lines if line.kept is not None))


_RECORDED = ("refused", "too_long")
"""What a cassette holds beside answers: that the model said no, or that the text was too long for it."""


class Replies(NamedTuple):
    """How many replies the decisions of a build rest on, and the hash of them, in whatever order they came."""

    calls: int
    hash: str


def heard(chat: ChatModel, request: ChatRequest, reply: ChatReply | Failure) -> Heard | None:
    """Return what is noted of a reply; None where no cassette holds it: a script's, or an outage."""
    if not isinstance(chat, ServedChat) or (isinstance(reply, Failure) and reply.kind not in _RECORDED):
        return None
    return Heard(request=chat.kept_under(request), reply=_reply_hash(reply))


def replies_of(lines: Sequence[Mapping[str, DecisionLine]]) -> Replies:
    """Return what the decisions rest on."""
    replies = {heard.request: heard.reply for decided in lines for line in decided.values() for heard in line.heard}
    return Replies(len(replies), digest(replies))


def check_replies(placed: Iterable[PlacedLine], tape: Path, then: str) -> None:
    """Raise RunError where a reply that a decision rests on is not on the cassette, or is another there.

    `then` says what to do.
    """
    resting = [row for row in placed if row.line.heard]
    if not resting:
        return
    cassette = Cassette(tape, "replay")
    try:
        for row in resting:
            for reply in row.line.heard:
                if problem := _problem(cassette, reply):
                    raise row.error(f"was decided on a reply that {problem} on {tape}. {then}")
    finally:
        cassette.close()


def _problem(cassette: Cassette, noted: Heard) -> str:
    content = cassette.get(noted.request)
    if content is None:
        return "is not"
    try:
        reply = content if isinstance(content, Failure) else read_completion(content)
        return "" if _reply_hash(reply) == noted.reply else "is another"
    except UnsoundError:
        return "is no reply"


def _reply_hash(reply: ChatReply | Failure) -> str:
    parts = list(reply) if isinstance(reply, Failure) else [reply.text, reply.finish_reason]
    return digest(parts)


SCHEMA = 2
CALLS, STAGES = "calls.jsonl", "stages"


class StageEntry(BuildModel):
    """A stage as far as it shapes what is made: what it reads and makes, its settings, its templates by hash."""

    name: str
    kind: Literal["stage", "sieve"]
    makes: str
    settings: dict[str, str | int | float]
    templates: dict[str, str]


class BuildManifest(ShardedDocument):
    """What a build is; `own` are the records of a shard."""

    model_config = ConfigDict(strict=True)

    schema_version: int = SCHEMA
    pluralrm: str
    pipeline: str
    input: str
    records: int
    limit: int | None
    roles: dict[str, list[dict[str, JsonValue]]]
    stages: list[StageEntry]
    own: tuple[str, ...] = ()

    @property
    def asking(self) -> range:
        """The first stages without a sieve among them of which one asks models: shards share them out."""
        begin = 0
        for end in (*(index for index, stage in enumerate(self.stages) if stage.kind == "sieve"), len(self.stages)):
            if any(stage.templates for stage in self.stages[begin:end]):
                return range(begin, end)
            begin = end + 1
        return range(0)

    def progress(self, folder: Path, lines: Sequence[Mapping[str, DecisionLine]]) -> ShardProgress:
        """Return how far a shard is: how many of its records need no model any more."""
        if self.shard is None:
            raise RunError(f"{folder} is no shard")
        done = sum(self._is_done(lines, record) for record in self.own)
        return ShardProgress(str(folder), self.shard.index, self.shard.count, done, len(self.own))

    def _is_done(self, lines: Sequence[Mapping[str, DecisionLine]], record: str) -> bool:
        for decided in lines[: self.asking.stop]:
            if record not in decided:
                return False
            if decided[record].kept is None:
                return True
        return True

    def differing(self, other: "BuildManifest") -> list[str]:
        """Return in words what another build has otherwise."""
        names = {"pluralrm": "version of pluralrm", "input": "input"}
        plain = {**names, "pipeline": "pipeline", "limit": "limit", "part": "shard"}
        words = [word for name, word in plain.items() if getattr(self, name) != getattr(other, name)]
        roles = sorted(role for role in {*self.roles, *other.roles} if self.roles.get(role) != other.roles.get(role))
        words += [f"pool of models for the role {role!r}" for role in roles]
        # The class of a product may get another name; one of another shape is found when its lines are read.
        mine, others = (
            {stage.name: stage.model_copy(update={"makes": ""}) for stage in manifest.stages}
            for manifest in (self, other)
        )
        if list(mine) != list(others):
            return [*words, "list of stages"]
        return words + [_differing(mine[name], others[name]) for name in mine if mine[name] != others[name]]


def _differing(mine: StageEntry, stage_entry: StageEntry) -> str:
    if mine.templates != stage_entry.templates:
        return f"template in the stage {mine.name!r}"
    keys = sorted({*mine.settings, *stage_entry.settings})
    changed = [key for key in keys if mine.settings.get(key) != stage_entry.settings.get(key)]
    return f"{' and '.join(changed) or 'kind'} of the stage {mine.name!r}"


BUILD = JournalKind(
    noun="build",
    manifest="build.json",
    record=BuildManifest,
    error=RunError,
    source="see 'pluralrm construct --help'",
    anew="copy calls.jsonl into another folder and name that with -o: what stands there is not asked again",
    other="What they make must not mix: name another folder with -o, or give the options that this one was begun with",
)


class Folder(LockedFolder[BuildManifest]):
    """A build's folder, open for writing by one process."""

    def __init__(self, path: Path, *, sync_seconds: float = 1.0) -> None:
        super().__init__(path, BUILD)
        self._files: dict[Path, FileIO] = {}
        self._replay: Path | None = None
        self._placed: list[list[PlacedLine]] = []
        self._sync_seconds, self._synced = sync_seconds, time.monotonic()

    def _close(self, exc: BaseException | None) -> None:
        try:
            self.sync()
        except RunError:
            if exc is None:  # else what ended the build says more
                raise
        finally:
            for file in self._files.values():
                file.close()

    def _cannot_write(self, exc: OSError) -> RunError:
        return unusable(self.path, exc)

    @property
    def calls(self) -> Path:
        """The build's own cassette."""
        return self.path / CALLS

    def settings(self, settings: Settings) -> Settings:
        """Return how servers are asked by this build: every reply goes on its cassette, unless one is replayed."""
        self._replay = settings.replay
        return settings if settings.replay else replace(settings, record=self.calls)

    def require_replies(self, lines: Sequence[Mapping[str, DecisionLine]], served: Collection[str]) -> None:
        """Raise where the replies of served models that decisions rest on would be on no cassette, or on two."""
        recorded = self.calls.exists() and self.calls.stat().st_size > 0
        models = {spent.model for decided in lines for line in decided.values() for spent in line.spent}
        if self._replay is None and not recorded and models & set(served):
            raise RunError(
                f"{self.calls} holds no reply, and what was decided here rests on some: the set could not be made "
                "again. Put the file back, give --replay FILE where it is, or name another folder with -o"
            )
        if self._replay is not None and recorded and self._replay.resolve() != self.calls.resolve():
            raise RunError(
                f"--replay {self._replay}: {self.path} holds replies of its own in {CALLS}, and those of two "
                "recordings must not mix. Leave the option out, or name another folder with -o"
            )
        placed = [row for stage in self._placed for row in stage]
        if self._replay is None:
            check_replies(placed, self.calls, ANEW)
        else:
            check_replies(placed, self._replay, _OTHER_TAPE)

    def adopt(self, manifest: BuildManifest) -> list[dict[str, DecisionLine]]:
        """Return what an earlier process decided, stage by stage, by record; RunError where it was another build."""
        if BUILD.holds(self.path):
            if differing := manifest.differing(read_manifest(self.path, shards=True)):
                raise BUILD.another(self.path, differing)
        else:
            self.write(manifest)
        try:
            (self.path / STAGES).mkdir(exist_ok=True)
            for index, stage in enumerate(manifest.stages):
                drop_torn_line(stage_file(self.path, index, stage.name))
        except OSError as exc:
            raise unusable(self.path, exc) from exc
        self._placed = placed_lines(self.path, manifest)
        return by_record(self._placed)

    def decide(self, index: int, stage: str, line: DecisionLine) -> None:
        """Write a decision. It is the system's at once, so a kill of this process does not lose it; on disk soon."""
        path, text = stage_file(self.path, index, stage), line.text
        try:
            if path not in self._files:
                self._files[path] = path.open("ab", buffering=0)
            _write_whole(self._files[path], text)
        except OSError as exc:
            raise unusable(self.path, exc) from exc
        if time.monotonic() - self._synced >= self._sync_seconds:
            self.sync()

    def sync(self) -> None:
        """Return when what was decided is on disk: first the replies that it rests on, then stage by stage."""
        try:
            if self.calls.exists():
                with self.calls.open("rb") as calls:
                    os.fsync(calls.fileno())
            for path in sorted(self._files):
                os.fsync(self._files[path].fileno())
        except OSError as exc:
            raise unusable(self.path, exc) from exc
        self._synced = time.monotonic()

    def decide_all(self, index: int, stage: str, lines: Sequence[DecisionLine]) -> None:
        """Write all decisions of a sieve at once, after those that it follows on are on disk."""
        self.sync()
        try:
            replace_file(stage_file(self.path, index, stage), b"".join(line.text for line in lines).decode())
        except OSError as exc:
            raise unusable(self.path, exc) from exc


_FULL = frozenset({EDQUOT, EFBIG, ENOSPC})


def unusable(folder: Path, exc: OSError) -> RunError:
    """Return the error that says why a build's folder cannot be written, and what to do."""
    why = os.strerror(exc.errno) if exc.errno else str(exc)
    then = "Make room: the same command resumes" if exc.errno in _FULL else "Name another one with -o"
    return RunError(f"cannot use the folder {str(folder)!r}: {why}. {then}")


def _write_whole(file: FileIO, text: bytes) -> None:
    """Write a line, or raise: what comes after half of one would join it."""
    if file.write(text) != len(text):
        raise OSError(ENOSPC, os.strerror(ENOSPC))


def stage_file(folder: Path, index: int, stage: str) -> Path:
    """Return where the decisions of a stage are."""
    return folder / STAGES / f"{index + 1:02}-{stage}.jsonl"


def read_manifest(folder: Path, *, shards: bool = False) -> BuildManifest:
    """Return what the build in a folder is; RunError where there is none, or a shard that the caller does not take."""
    manifest = BUILD.read(folder, shards=shards)
    if manifest.schema_version != SCHEMA:
        raise RunError(
            f"{folder / BUILD.manifest}: found format {manifest.schema_version} of a build's folder, wanted {SCHEMA}. "
            "Copy calls.jsonl into another folder and name that with -o: what stands there is not asked again"
        )
    return manifest


def read_lines(folder: Path, manifest: BuildManifest) -> list[dict[str, DecisionLine]]:
    """Return the decisions in a folder, stage by stage; a last line without its end is passed over.

    RunError where a record has two, or one of a stage that it did not come to, or a line is not as it was written.
    """
    return by_record(placed_lines(folder, manifest))


def by_record(stages: Sequence[Sequence[PlacedLine]]) -> list[dict[str, DecisionLine]]:
    """Return the decisions of each stage by record."""
    return [{row.line.id: row.line for row in placed} for placed in stages]


def placed_lines(folder: Path, manifest: BuildManifest) -> list[list[PlacedLine]]:
    """Return the decisions in a folder with their places, stage by stage; see `read_lines`."""
    stages: list[list[PlacedLine]] = []
    before: dict[str, DecisionLine] | None = None
    stage_before = ""
    for index, stage in enumerate(manifest.stages):
        lines: dict[str, DecisionLine] = {}
        stages.append([])
        for where, line in BUILD.places(
            stage_file(folder, index, stage.name), DecisionLine, lambda line: f"decision on {line.id!r}"
        ):
            row = PlacedLine(where, line)
            _require_arrival(row, before, stage_before)
            lines[row.line.id] = row.line
            stages[-1].append(row)
        _require_untouched(stages[-1], before, sieve=stage.kind == "sieve")
        before, stage_before = lines, stage_file(folder, index, stage.name).name
    return stages


def _require_arrival(row: PlacedLine, before: Mapping[str, DecisionLine] | None, stage_before: str) -> None:
    """Raise where a record did not come to a stage."""
    if before is not None and ((earlier := before.get(row.line.id)) is None or earlier.kept is None):
        raise row.error(f"did not come to this stage; the line is of another build, or one is gone from {stage_before}")


def _require_untouched(placed: Sequence[PlacedLine], before: Mapping[str, DecisionLine] | None, *, sieve: bool) -> None:
    """Raise where a decision is not the one that was written, or was made on what is not there now."""
    came = crowd(before.values()) if sieve and before is not None and placed else ""
    for row in placed:
        if row.line.seal != row.line.sealed.seal:
            raise row.error(f"the line is not as the build wrote it, so what it says was never judged. {ANEW}")
        if row.line.after != (came if sieve or before is None else before[row.line.id].seal):
            raise row.error(f"was decided on another text than the stage before made. {ANEW}")


_OTHER_TAPE = (
    "Give --replay the file that answered before, or one that holds the lines of both; or build in another folder with "
    "-o"
)
ANEW = (
    "Put the file back as it was; or copy calls.jsonl into another folder and name that with -o: what stands there is "
    "not asked again"
)


def as_json(roles: Mapping[str, Sequence[Mapping[str, object]]]) -> dict[str, list[dict[str, JsonValue]]]:
    """Return values as they are once they are written and read."""
    values: dict[str, list[dict[str, JsonValue]]] = json.loads(json.dumps(roles))
    return values
