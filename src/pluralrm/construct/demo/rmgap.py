"""`pluralrm construct rmgap --demo`: fifteen prompts, and what recorded models make of them.

rmgap.toml holds the prose, rmgap-calls.jsonl the recording, rmgap-vectors.npz the vectors of the packaged MiniLM, so
that neither a server nor torch is needed.
"""

import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pluralrm.audit.embedded import DEFAULT, Rows, unit
from pluralrm.construct.demo import URL, shipped
from pluralrm.construct.pipeline import Record, Role
from pluralrm.construct.rmgap.options import Options
from pluralrm.construct.rmgap.products import Prompt
from pluralrm.construct.rmgap.sources import record_id
from pluralrm.construct.rmgap.stages import roles
from pluralrm.core import digest
from pluralrm.errors import ModelError
from pluralrm.folders import file_hash

CASSETTE, VECTORS = shipped("rmgap-calls.jsonl"), shipped("rmgap-vectors.npz")
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
        with np.load(path, allow_pickle=False) as held:
            self._rows = dict(zip(held["texts"].tolist(), unit(held["vectors"]), strict=True))

    def rows(self, texts: Sequence[str]) -> Rows:
        """Return one row per text; a text that is not recorded is an error."""
        if missing := next((text for text in texts if key(text) not in self._rows), None):
            raise ModelError(f"{self.spec}: found no vector of {missing[:60]!r}, wanted a text of the demo")
        return np.stack([self._rows[key(text)] for text in texts]) if texts else np.zeros((0, 0), np.float32)


def key(text: str) -> str:
    """Return what a text's vector is kept under."""
    return digest(text)[:_KEY]


def demo_records() -> list[Record]:
    """Return the prompts that come in."""
    prose = tomllib.loads(shipped("rmgap.toml").read_text(encoding="utf-8"))["record"]
    given = [{name: one[name] for name in Prompt.model_fields if name in one} for one in prose]
    return [Record(record_id(one["domain"], one["text"]), one["domain"], Prompt(**one)) for one in given]


def demo_roles(url: str = URL) -> list[Role]:
    """Return who plays which part, at an address."""
    return roles({role: [f"{name},url={url}" for name in names] for role, names in MODELS.items()})


def demo_options() -> Options:
    """Return what the demo is told."""
    return Options(Recorded(VECTORS))
