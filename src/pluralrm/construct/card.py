"""A release on disk: its editions, loaded back and audited, and the data card that says how to make them again.

In the card as Markdown whatever is not ours is made inert: it is text, and stays text.
"""

import html
import json
import platform
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

from pluralrm._version import __version__
from pluralrm.audit import Audit, audit
from pluralrm.benchmarks import load_benchmark
from pluralrm.benchmarks.schema import BenchmarkRow
from pluralrm.construct.pipeline.engine import Built
from pluralrm.construct.pipeline.funnel import COLUMNS, funnel_rows
from pluralrm.construct.pipeline.stages import Sieve, Stage
from pluralrm.core import Benchmark
from pluralrm.errors import RunError
from pluralrm.folders import file_hash
from pluralrm.templates import Template
from pluralrm.text import visible

DATA, PARQUET = "data", "parquet"


class Edition(NamedTuple):
    """One benchmark of a release: what loads it (`prb`), and its rows by the file's name without its end.

    `name` is its folder. Where the format has no field for a domain, the file's name tells it.
    """

    name: str
    kind: str
    files: Mapping[str, Sequence[BenchmarkRow]]

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(map(len, self.files.values()))


@dataclass(frozen=True, slots=True)
class WrittenEdition:
    """An edition as it is on disk: what the loader makes of it, and its files with rows and hashes."""

    edition: Edition
    benchmark: Benchmark
    audit: Audit
    files: Mapping[str, "EditionFile"]

    @property
    def leaks(self) -> list[str]:
        """What beats chance without what the benchmark is about, in sentences."""
        found = self.audit.leaks
        return [f"{self.edition.name}: {probe.title} ({probe.reads}): {probe.detail}".rstrip(": ") for probe in found]

    def to_json(self) -> dict[str, object]:
        """Return what a data card says of it."""
        audit = {
            "verdict": self.audit.verdict,
            "limits": self.audit.limits,
            "leaks": self.leaks,
            "seed": self.audit.seed,
        }
        return {
            "name": self.edition.name,
            "load": f"{self.edition.kind}:{DATA}/{self.edition.name}",
            "rows": self.edition.rows,
            "items": len(self.benchmark.items),
            "content_hash": self.benchmark.content_hash,
            "audit": audit,
            "files": {path: file._asdict() for path, file in self.files.items()},
        }


class EditionFile(NamedTuple):
    """How many rows a file has, and the SHA-256 of its bytes."""

    rows: int
    sha256: str


def has_parquet() -> bool:
    """Return whether Parquet can be written here."""
    return find_spec("pyarrow") is not None


def write_edition(edition: Edition, folder: Path, *, seed: int) -> WrittenEdition:
    """Return an edition that is written, loaded back from what was written, and audited."""
    files: dict[str, EditionFile] = {}
    place = folder / DATA / edition.name
    for stem, rows in sorted(edition.files.items()):
        if rows:
            path, ordered = place / f"{stem}.jsonl", sorted(rows, key=lambda row: row.id)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{row.model_dump_json(exclude_none=True)}\n" for row in ordered), encoding="utf-8")
            files[str(path.relative_to(folder))] = EditionFile(len(ordered), file_hash(path))
    benchmark = load_benchmark(f"{edition.kind}:{place}", seed=seed)
    if has_parquet():
        files |= _write_parquet(edition, folder, benchmark)
    return WrittenEdition(edition, benchmark, audit(benchmark, seed=seed), dict(sorted(files.items())))


def _write_parquet(edition: Edition, folder: Path, benchmark: Benchmark) -> dict[str, EditionFile]:
    """Write the same rows as Parquet; RunError where the loader makes something else of them."""
    import pyarrow as pa
    from pyarrow import parquet

    files = {}
    for source in sorted((folder / DATA / edition.name).glob("*.jsonl")):
        rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
        columns = dict.fromkeys(name for row in rows for name in row)  # pyarrow takes those of the first row alone
        path = folder / PARQUET / edition.name / f"{source.stem}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.Table.from_pylist([{name: row.get(name) for name in columns} for row in rows]), path)
        files[str(path.relative_to(folder))] = EditionFile(len(rows), file_hash(path))
    found = load_benchmark(f"{edition.kind}:{folder / PARQUET / edition.name}", seed=benchmark.seed)
    if found.content_hash != benchmark.content_hash:
        raise RunError(f"{edition.name}: the Parquet files hold other items than the JSONL files; wanted the same")
    return files


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


def card_of(built: Built, written: Sequence[WrittenEdition], about: About) -> dict[str, object]:
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


_ACTIVE = re.compile(r"([\\`*_{}\[\]|~$#!])")
_BEGINS = re.compile(r"^(?:[-+=]|\d+(?=[.)]))")
_TICKS = re.compile(r"`+")


def inert(text: str) -> str:
    """Return a text on one line that Markdown shows unchanged: no markup, no HTML, no table cell begins in it."""
    flat = " ".join(visible(text).split())
    return _ACTIVE.sub(r"\\\1", html.escape(flat, quote=False))


def paragraph(text: str) -> str:
    """Return the same as a paragraph of its own, which begins no list and underlines no heading."""
    return _BEGINS.sub(lambda found: f"&#{ord(found[0][0])};{found[0][1:]}", inert(text))


def fenced(text: str, language: str = "text") -> str:
    """Return a text as a block of code that nothing in it can end."""
    ticks = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{ticks}{language}\n{visible(text).rstrip()}\n{ticks}"


def readme(built: Built, written: Sequence[WrittenEdition], about: About, card: Mapping[str, object]) -> str:
    """Return README.md."""
    parts = chain(
        _head(written, about, card),
        _funnel(built),
        _stages(built),
        _models(built),
        _audits(written),
        (part for title, text in about.sections for part in (f"## {inert(title)}", paragraph(text))),
        _rebuilding(built, about, card),
        _prompts(built, card),
    )
    return "\n\n".join(parts) + "\n"


def _head(written: Sequence[WrittenEdition], about: About, card: Mapping[str, object]) -> Iterator[str]:
    yield f"# {inert(about.name)}"
    yield paragraph(about.summary)
    warnings, limits = card["warnings"], card["limits"]
    if isinstance(warnings, list) and warnings:
        yield "\n".join(f"> **Warning.** {inert(warning)}\n>" for warning in warnings).removesuffix("\n>")
    yield _table(
        ("", ""),
        [("licence", about.licence), ("source", about.source), ("made by", f"pluralrm construct {card['pipeline']}")],
    )
    rows = [
        (f"{one.edition.kind}:data/{one.edition.name}", f"{one.edition.rows:,}", f"{len(one.benchmark.items):,}")
        for one in written
    ]
    yield _table(("load", "rows", "items"), rows)
    domains = card["domains"]
    if isinstance(domains, dict):
        yield _table(("domain", "records"), [(name, f"{count:,}") for name, count in domains.items()])
    beside = (
        "`data/` holds JSON lines, `parquet/` the same rows."
        if card["parquet"]
        else (
            "`data/` holds JSON lines. There is no Parquet: where this was made, pyarrow (the extra `hub`) was missing."
        )
    )
    yield f"{beside} `card.json` holds this card and more for programs."
    if isinstance(limits, list) and limits:
        yield "## Known limits"
        yield "\n".join(f"- {inert(limit)}" for limit in limits)


def _funnel(built: Built) -> Iterator[str]:
    yield "## What became of the input"
    yield "![Records that each stage kept and rejected](funnel.svg)"
    columns = [column for column in COLUMNS if column not in {"cost", "waiting"}]
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in funnel_rows(built.funnel)]
    yield _table(columns, [[row[column] for column in columns] for row in rows])
    reasons = [
        (counts.stage, reason, f"{count:,}")
        for counts in built.funnel.stages
        for reason, count in counts.rejected.items()
    ]
    if reasons:
        yield _table(("stage", "rejected because", "records"), reasons)


def _stages(built: Built) -> Iterator[str]:
    yield "## Stages"
    yield "\n".join(f"{place}. {_stage_lines(stage)}" for place, stage in enumerate(built.pipeline.stages, 1))


def _stage_lines(stage: Stage | Sieve) -> str:
    asked = [one.name for one in stage.templates] if isinstance(stage, Stage) else []
    reads = ", ".join(product.__name__ for product in stage.reads)
    told = [
        f"reads {reads}" * bool(reads),
        f"makes {stage.makes.__name__}",
        f"refuses {stage.gate}" * bool(stage.gate),
        f"settings {', '.join(f'{key} = {value}' for key, value in stage.settings.items())}" * bool(stage.settings),
        f"prompts {', '.join(asked)}" * bool(asked),
        "looks at all records at once" * isinstance(stage, Sieve),
    ]
    return f"**{inert(stage.name)}** {inert('; '.join(filter(None, told)))}"


def _models(built: Built) -> Iterator[str]:
    yield "## Who wrote and judged"
    rows = [
        (role, str(member.get("model", "")), _sampling(member.get("sampling")), str(member["spec"]))
        for role, pool in sorted(built.manifest.roles.items())
        for member in pool
    ]
    yield _table(("role", "model", "sampling", "spec"), rows)
    yield "A record's id decides which model of a pool it has; the others are its fallbacks."


def _sampling(drawn: object) -> str:
    return (
        ", ".join(f"{key} {value}" for key, value in drawn.items() if value is not None)
        if isinstance(drawn, dict)
        else ""
    )


def _audits(written: Sequence[WrittenEdition]) -> Iterator[str]:
    yield "## Can its labels be guessed?"
    for one in written:
        told = " ".join(filter(None, (one.audit.verdict, one.audit.limits)))
        yield f"**{inert(one.edition.name)}**: {inert(told)} The whole audit: `audit/{one.edition.name}.html`."


def _rebuilding(built: Built, about: About, card: Mapping[str, object]) -> Iterator[str]:
    yield "## Make it again"
    yield (
        "With the same input and the build's cassette (`calls.jsonl`, what was asked and said) no request is sent, and "
        "the same files come out, where these versions are the same:"
    )
    yield fenced(about.command)
    versions = card["versions"]
    if isinstance(versions, dict):
        yield _table(("package", "version"), list(versions.items()))
    limit = built.manifest.limit
    sample = "" if limit is None else f", the first {limit:,} by the digests of their ids"
    if built.replies.calls:
        count, found = built.replies
        yield f"It rests on {count:,} replies, which the cassette has to hold; the hash of them: `{found}`."
    yield f"The input: {built.manifest.records:,} records{sample}, hash `{built.manifest.input}`."


def _prompts(built: Built, card: Mapping[str, object]) -> Iterator[str]:
    found = templates(built)
    if found:
        yield "## Prompts"
        yield str(card["asked again"])
    for template in found:
        yield f"### {inert(template.name)}"
        yield f"SHA-256 `{template.hash}`"
        yield fenced(template.source)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns)]
    told = [[inert(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (*lines, *told))
