"""The shapes of a pool's files, and the only place where they are read and written."""

import json
from collections.abc import Mapping
from operator import attrgetter
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from pluralrm.core import Reveals
from pluralrm.errors import PoolError
from pluralrm.journal import parse_document, parse_line, sealed, sealed_line
from pluralrm.policies.samples import Finish, Sample
from pluralrm.runs.records import AskedRecord, BenchmarkRecord, SelectionRecord


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SampleRecord(_Strict):
    """One line of samples.jsonl."""

    item: str
    index: int
    seed: int | None
    text: str
    finish: Finish
    tokens: int | None
    detail: str
    posts_kept: int | None


class DrawRecord(_Strict):
    """How answers are drawn; null where that is not known, or left to the server."""

    n: int
    temperature: float | None
    top_p: float | None
    max_tokens: int | None
    seed: int | None


class PoolManifest(_Strict):
    """pool.json: where the samples came from."""

    schema_version: Annotated[Literal[1], Field(alias="schema")] = 1
    status: Literal["incomplete", "complete"]
    policy: str
    identity: dict[str, str]
    benchmark: BenchmarkRecord
    condition: str
    reveals: tuple[Reveals, ...]
    selection: SelectionRecord
    items: tuple[str, ...]
    draw: DrawRecord
    versions: dict[str, str]
    git: str
    started: str
    finished: str | None = None
    seconds: float = 0.0
    samples: int = 0
    finishes: dict[str, int] = {}
    attempts: int = 0
    asked: AskedRecord | None = None
    content_hash: str = ""

    def to_json(self) -> str:
        """Return the text of pool.json."""
        return json.dumps(sealed(self.model_dump(mode="json", by_alias=True)), indent=1, ensure_ascii=False) + "\n"

    def differs_in(self, other: "PoolManifest") -> list[str]:
        """Return the names of the facts that differ between two pools that should be one."""
        facts = ("policy", "benchmark", "condition", "selection", "items")
        plain = [name for name in facts if getattr(self, name) != getattr(other, name)]
        inside = {
            "identity": _changes(self.identity, other.identity),
            "draw": _changes(self.draw.model_dump(), other.draw.model_dump()),
        }
        return [*plain, *(f"{name} ({told})" for name, told in inside.items() if told)]


def _changes(now: Mapping[str, object], then: Mapping[str, object]) -> str:
    """Return what differs between two sets of facts, fact by fact."""
    names = sorted(name for name in now.keys() | then.keys() if now.get(name) != then.get(name))
    return ", ".join(f"{name}: {_brief(now.get(name))}, was {_brief(then.get(name))}" for name in names)


def _brief(fact: object) -> str:
    return str(fact) if len(str(fact)) <= 24 else f"{str(fact)[:12]}…"


def sample_line(sample: Sample) -> str:
    """Return one line of samples.jsonl."""
    # ASCII on disk: a lone surrogate or a line separator inside a text cannot tear a line.
    return sealed_line(_ENCODER.encode({name: getattr(sample, name) for name in SampleRecord.model_fields})) + "\n"


_ENCODER = json.JSONEncoder(separators=(",", ":"))
_values = attrgetter(*Sample.__dataclass_fields__)


def sample_from(line: bytes, where: str) -> Sample:
    """Return the sample in a line; a line that is not one raises a PoolError that names the place."""
    try:
        record = parse_line(SampleRecord, line)
    except ValueError as exc:
        raise _not_ours(where, exc) from exc
    return Sample(*_values(record))


def read_manifest(text: str | bytes, where: str) -> PoolManifest:
    """Return the manifest in a pool.json; one that is not ours raises a PoolError."""
    try:
        return parse_document(PoolManifest, text)
    except ValueError as exc:
        raise _not_ours(where, exc) from exc


def _not_ours(where: str, exc: ValueError) -> PoolError:
    return PoolError(
        f"{where}: {exc}. Restore it, read it with the version of pluralrm that wrote it, or sample again into another "
        "folder."
    )
