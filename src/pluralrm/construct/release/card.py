"""The data card: all that somebody else needs to know, and to make the same set again."""

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from pydantic import JsonValue

from pluralrm._version import __version__
from pluralrm.construct.pipeline.building import Built
from pluralrm.construct.pipeline.stages import Sieve, Stage
from pluralrm.construct.release.editions import Written, has_parquet
from pluralrm.templates import Template

SCHEMA = 1
_SHAPING = ("matplotlib", "numpy", "scipy", "scikit-learn")
"""Packages that the funnel's figure and the audit's numbers come from."""
_AGAIN = (
    "A reply that cannot be read goes back once, as a conversation that ends with “This cannot be used: ”, the reason, "
    "and the form that was asked for; a second one is final."
)


@dataclass(frozen=True, kw_only=True)
class About:
    """What only the pipeline knows of its set.

    `command` makes it again: with `--replay calls.jsonl`, INPUT and DIR for the reader's own paths. `extras` go into
    card.json, `sections` (title, paragraph) into README.md; `packages` are those whose version shapes the set.
    """

    name: str
    summary: str
    licence: str
    source: str
    command: str
    limits: Sequence[str] = ()
    warnings: Sequence[str] = ()
    extras: Mapping[str, JsonValue] = field(default_factory=dict)
    sections: Sequence[tuple[str, str]] = ()
    packages: Sequence[str] = ()


def card_of(built: Built, written: Sequence[Written], about: About) -> dict[str, object]:
    """Return the card as JSON. Nothing in it is of the moment or of the machine but versions."""
    accepted = [leak for one in written for leak in one.leaks]  # with one that is not accepted, there is no card
    manifest = built.manifest
    input_ = {"hash": manifest.input, "records": manifest.records, "limit": manifest.limit, "source": about.source}
    return {
        "schema": SCHEMA,
        "name": about.name,
        "summary": about.summary,
        "licence": about.licence,
        "input": input_,
        "pipeline": manifest.pipeline,
        "rebuild": about.command,
        "editions": [one.to_json() for one in written],
        "domains": dict(sorted(Counter(record.domain for record in built.kept).items())),
        "warnings": [*about.warnings, *(f"released although it leaks: {leak}" for leak in accepted)],
        "limits": list(about.limits),
        "funnel": built.funnel.to_json(),
        "replies": built.replies._asdict(),
        "roles": manifest.roles,
        "stages": [_stage(stage) for stage in built.pipeline.stages],
        "asked again": _AGAIN,
        "templates": [{"name": one.name, "hash": one.hash, "source": one.source} for one in templates(built)],
        "versions": _versions(about.packages),
        "parquet": has_parquet(),
        "extras": dict(about.extras),
    }


def templates(built: Built) -> list[Template]:
    """Return every template that any stage asks with, once, by name."""
    found = {one.hash: one for stage in built.pipeline.stages if isinstance(stage, Stage) for one in stage.templates}
    return sorted(found.values(), key=lambda one: (one.name, one.hash))


def _stage(stage: Stage | Sieve) -> dict[str, object]:
    asked = stage.templates if isinstance(stage, Stage) else ()
    return {
        "name": stage.name,
        "kind": "stage" if isinstance(stage, Stage) else "sieve",
        "reads": [product.__name__ for product in stage.reads],
        "makes": stage.makes.__name__,
        "refuses": stage.gate,
        "settings": dict(stage.settings),
        "templates": {template.name: template.hash for template in asked},
    }


def _versions(packages: Sequence[str]) -> dict[str, str]:
    shaping = [*_SHAPING, *packages, *(["pyarrow"] if has_parquet() else [])]
    python = ".".join(platform.python_version_tuple()[:2])
    return {"pluralrm": __version__, "python": python, **{name: _version(name) for name in sorted(set(shaping))}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
