"""The shipped demo builds: prose written for this project as the models' replies, recorded once, replayed offline."""

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np

from pluralrm.audit.embedder import DEFAULT, Rows, unit
from pluralrm.benchmarks import load_benchmark
from pluralrm.construct import prb
from pluralrm.construct.pipeline import Record, Role
from pluralrm.construct.prb import PersonalQuestion, Rules, records_of
from pluralrm.construct.rmgap import RmgapOptions, SeedPrompt, record_id
from pluralrm.construct.rmgap.stages import roles
from pluralrm.digests import digest
from pluralrm.errors import ModelError
from pluralrm.folders import file_hash

URL = "https://demo.invalid/v1"
"""The address in the recordings. There is no such server: a demo is answered from its cassette alone."""


def shipped(name: str) -> Path:
    """Return the path of a shipped file."""
    return Path(str(files(__name__).joinpath(name)))


PRB_CASSETTE = shipped("prb-calls.jsonl")
BENCHMARK = "pocket-prb"
RULES = Rules(rejected="both")
WRITER, JUDGE, PLANNER = "demo-writer", "demo-judge", "demo-planner"


def prb_records() -> list[Record]:
    """Return the eight questions; those for which the prose has a planner's aspects come without their own."""
    prose = tomllib.loads(shipped("prb.toml").read_text(encoding="utf-8"))["record"]
    planned = {row["id"]: "aspects" in row for row in prose}
    records = [record for record in records_of(load_benchmark(BENCHMARK)) if record.id in planned]
    return [_without_aspects(record) if planned[record.id] else record for record in records]


def _without_aspects(record: Record) -> Record:
    return replace(record, source=record[PersonalQuestion].model_copy(update={"aspects": ()}))


def prb_roles(url: str = URL) -> list[Role]:
    """Return who writes, judges and plans, at an address."""
    return prb.roles(*([f"{model},url={url}"] for model in (WRITER, JUDGE, PLANNER)))


RMGAP_CASSETTE, VECTORS = shipped("rmgap-calls.jsonl"), shipped("rmgap-vectors.npz")
MODELS = {
    "generator": ("demo-generator-a", "demo-generator-b"),
    "rater": ("demo-rater",),
    "reviewer": ("demo-reviewer-a", "demo-reviewer-b"),
    "chair": ("demo-chair",),
    "tailor": ("demo-tailor",),
    "paraphraser": ("demo-paraphraser",),
}
_KEY = 16


class Recorded:
    """Vectors that a model gave once, by the text."""

    spec = f"recorded:{DEFAULT}"

    def __init__(self, path: Path) -> None:
        self.identity = file_hash(path)
        with np.load(path, allow_pickle=False) as arrays:
            self._rows = dict(zip(arrays["texts"].tolist(), unit(arrays["vectors"]), strict=True))

    def rows(self, texts: Sequence[str]) -> Rows:
        """Return one row per text; a text that is not recorded is an error."""
        if missing := next((text for text in texts if key(text) not in self._rows), None):
            raise ModelError(f"{self.spec}: found no vector of {missing[:60]!r}, wanted a text of the demo")
        return np.stack([self._rows[key(text)] for text in texts]) if texts else np.zeros((0, 0), np.float32)


def key(text: str) -> str:
    """Return what a text's vector is kept under."""
    return digest(text)[:_KEY]


def rmgap_records() -> list[Record]:
    """Return the prompts that come in."""
    prose = tomllib.loads(shipped("rmgap.toml").read_text(encoding="utf-8"))["record"]
    rows = [{name: row[name] for name in SeedPrompt.model_fields if name in row} for row in prose]
    return [Record(record_id(row["domain"], row["text"]), row["domain"], SeedPrompt(**row)) for row in rows]


def rmgap_roles(url: str = URL) -> list[Role]:
    """Return who plays which part, at an address."""
    return roles({role: [f"{name},url={url}" for name in names] for role, names in MODELS.items()})


def rmgap_options() -> RmgapOptions:
    """Return what the demo is told."""
    return RmgapOptions(Recorded(VECTORS))
