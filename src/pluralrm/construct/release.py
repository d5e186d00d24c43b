"""A release on disk: its editions, loaded back and audited, and the data card that says how to make them again. It
appears at once and whole, or not at all: withheld where the audit finds that its labels leak.

In the card as Markdown whatever is not ours is made inert: it is text, and stays text.
"""

import html
import json
import platform
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

from pluralrm._version import __version__
from pluralrm.audit import Audit, audit, audit_page
from pluralrm.benchmarks import load_benchmark
from pluralrm.benchmarks.schema import BenchmarkRow
from pluralrm.construct.pipeline.engine import Built
from pluralrm.construct.pipeline.folder import unusable
from pluralrm.construct.pipeline.funnel import COLUMNS, Funnel, funnel_rows
from pluralrm.construct.pipeline.stages import Sieve, Stage
from pluralrm.core import Benchmark
from pluralrm.errors import RunError
from pluralrm.files import write_parquet
from pluralrm.folders import file_hash
from pluralrm.grading.truth import version_of
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
        leaks = self.audit.leaks
        return [f"{self.edition.name}: {probe.title} ({probe.reads}): {probe.detail}".rstrip(": ") for probe in leaks]

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


def write_edition(edition: Edition, folder: Path) -> WrittenEdition:
    """Return an edition that is written, loaded back from what was written, and audited."""
    files: dict[str, EditionFile] = {}
    target = folder / DATA / edition.name
    for stem, rows in sorted(edition.files.items()):
        if rows:
            path, ordered = target / f"{stem}.jsonl", sorted(rows, key=lambda row: row.id)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{row.model_dump_json(exclude_none=True)}\n" for row in ordered), encoding="utf-8")
            files[str(path.relative_to(folder))] = EditionFile(len(ordered), file_hash(path))
    benchmark = load_benchmark(f"{edition.kind}:{target}")
    if has_parquet():
        files |= _write_parquet(edition, folder, benchmark)
    return WrittenEdition(edition, benchmark, audit(benchmark, seed=0), dict(sorted(files.items())))


def _write_parquet(edition: Edition, folder: Path, benchmark: Benchmark) -> dict[str, EditionFile]:
    """Write the same rows as Parquet; RunError where the loader makes something else of them."""
    files = {}
    for source in sorted((folder / DATA / edition.name).glob("*.jsonl")):
        rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
        path = folder / PARQUET / edition.name / f"{source.stem}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_parquet(path, rows)
        files[str(path.relative_to(folder))] = EditionFile(len(rows), file_hash(path))
    copy = load_benchmark(f"{edition.kind}:{folder / PARQUET / edition.name}", seed=benchmark.seed)
    if copy.content_hash != benchmark.content_hash:
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
    accepted = [leak for copy in written for leak in copy.leaks]  # with one that is not accepted, there is no card
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
        "editions": [copy.to_json() for copy in written],
        "domains": dict(sorted(Counter(record.domain for record in built.kept).items())),
        "warnings": [*about.warnings, *(f"released although it leaks: {leak}" for leak in accepted)],
        "limits": list(about.limits),
        "funnel": built.funnel.to_json(),
        "replies": built.replies._asdict(),
        "roles": manifest.roles,
        "stages": [_stage(stage) for stage in built.pipeline.stages],
        "asked again": _AGAIN,
        "templates": [
            {"name": template.name, "hash": template.hash, "source": template.source} for template in templates(built)
        ],
        "versions": _versions(about.packages),
        "parquet": has_parquet(),
        "extras": dict(about.extras),
    }


def templates(built: Built) -> list[Template]:
    """Return every template that any stage asks with, once, by name."""
    stages = [stage for stage in built.pipeline.stages if isinstance(stage, Stage)]
    by_hash = {template.hash: template for stage in stages for template in stage.templates}
    return sorted(by_hash.values(), key=lambda template: (template.name, template.hash))


def _stage(stage: Stage | Sieve) -> dict[str, object]:
    prompts = stage.templates if isinstance(stage, Stage) else ()
    return {
        "name": stage.name,
        "kind": "stage" if isinstance(stage, Stage) else "sieve",
        "reads": [product.__name__ for product in stage.reads],
        "makes": stage.makes.__name__,
        "refuses": stage.gate,
        "settings": dict(stage.settings),
        "templates": {template.name: template.hash for template in prompts},
    }


def _versions(packages: Sequence[str]) -> dict[str, str]:
    shaping = [*_SHAPING, *packages, *(["pyarrow"] if has_parquet() else [])]
    python = ".".join(platform.python_version_tuple()[:2])
    return {"pluralrm": __version__, "python": python, **{name: version_of(name) for name in sorted(set(shaping))}}


_ACTIVE = re.compile(r"([\\`*_{}\[\]|~$#!])")
_BEGINS = re.compile(r"^(?:[-+=]|\d+(?=[.)]))")
_TICKS = re.compile(r"`+")


def inert(text: str) -> str:
    """Return a text on one line that Markdown shows unchanged: no markup, no HTML, no table cell begins in it."""
    flat = " ".join(visible(text).split())
    return _ACTIVE.sub(r"\\\1", html.escape(flat, quote=False))


def paragraph(text: str) -> str:
    """Return the same as a paragraph of its own, which begins no list and underlines no heading."""
    return _BEGINS.sub(lambda match: f"&#{ord(match[0][0])};{match[0][1:]}", inert(text))


def fenced(text: str) -> str:
    """Return a text as a block of code that nothing in it can end."""
    ticks = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{ticks}text\n{visible(text).rstrip()}\n{ticks}"


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
        (f"{copy.edition.kind}:data/{copy.edition.name}", f"{copy.edition.rows:,}", f"{len(copy.benchmark.items):,}")
        for copy in written
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
    yield "\n".join(f"{number}. {_stage_lines(stage)}" for number, stage in enumerate(built.pipeline.stages, 1))


def _stage_lines(stage: Stage | Sieve) -> str:
    prompts = [template.name for template in stage.templates] if isinstance(stage, Stage) else []
    reads = ", ".join(product.__name__ for product in stage.reads)
    facts = [
        f"reads {reads}" * bool(reads),
        f"makes {stage.makes.__name__}",
        f"refuses {stage.gate}" * bool(stage.gate),
        f"settings {', '.join(f'{key} = {value}' for key, value in stage.settings.items())}" * bool(stage.settings),
        f"prompts {', '.join(prompts)}" * bool(prompts),
        "looks at all records at once" * isinstance(stage, Sieve),
    ]
    return f"**{inert(stage.name)}** {inert('; '.join(filter(None, facts)))}"


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
    for copy in written:
        verdict = " ".join(filter(None, (copy.audit.verdict, copy.audit.limits)))
        yield f"**{inert(copy.edition.name)}**: {inert(verdict)} The whole audit: `audit/{copy.edition.name}.html`."


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
        count, replies_hash = built.replies
        yield f"It rests on {count:,} replies, which the cassette has to hold; the hash of them: `{replies_hash}`."
    yield f"The input: {built.manifest.records:,} records{sample}, hash `{built.manifest.input}`."


def _prompts(built: Built, card: Mapping[str, object]) -> Iterator[str]:
    prompts = templates(built)
    if prompts:
        yield "## Prompts"
        yield str(card["asked again"])
    for template in prompts:
        yield f"### {inert(template.name)}"
        yield f"SHA-256 `{template.hash}`"
        yield fenced(template.source)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns)]
    cells = [[inert(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (*lines, *cells))


_RELEASE, _FRESH, _OLD, _WITHHELD = "release", ".release-new", ".release-old", "withheld"


@dataclass(frozen=True, slots=True)
class Released:
    """What a release came to: its folder, or that of the audits alone where it is withheld for `leaks`.

    `loads` are the specs that load its benchmarks.
    """

    path: Path
    loads: tuple[str, ...]
    withheld: bool
    leaks: tuple[str, ...]
    audits: Mapping[str, Audit]


def require_kept(built: Built) -> None:
    """Raise RunError where a record still waits, or none came through: then there is nothing to release or to tell."""
    if not built.complete:
        raise RunError(
            f"{built.folder}: {built.funnel.waiting:,} records wait ({built.why}), so nothing is released; "
            "the same command resumes"
        )
    if not built.kept:
        raise RunError(
            f"{built.folder}: no record came through, so there is nothing to release; "
            f"'pluralrm construct show {built.folder}' says why"
        )


def release(built: Built, editions: Sequence[Edition], about: About, *, accept_leaks: bool = False) -> Released:
    """Write DIR/release. RunError where a record still waits, or none came through.

    Where a probe of the audit finds a leak, the release is withheld, unless `accept_leaks`; the card then says so.
    """
    require_kept(built)
    try:
        return _released(built, editions, about, accept_leaks=accept_leaks)
    except OSError as exc:
        raise unusable(built.folder, exc) from exc


def _released(built: Built, editions: Sequence[Edition], about: About, *, accept_leaks: bool) -> Released:
    fresh = built.folder / _FRESH
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    written = [write_edition(edition, fresh) for edition in editions if edition.rows]
    leaks = tuple(leak for copy in written for leak in copy.leaks)
    _write_audits(fresh, written)
    withheld = bool(leaks) and not accept_leaks
    if withheld:
        for path in fresh.iterdir():
            if path.name != "audit":
                shutil.rmtree(path)
    else:
        card = card_of(built, written, about)
        _write_json(fresh / "card.json", card)
        (fresh / "README.md").write_text(readme(built, written, about, card), encoding="utf-8")
        (fresh / "funnel.svg").write_text(funnel_figure(built.funnel), encoding="utf-8")
    path = _replaced(fresh, built.folder / (_WITHHELD if withheld else _RELEASE))
    if not withheld:
        shutil.rmtree(built.folder / _WITHHELD, ignore_errors=True)
    loads = tuple(f"{copy.edition.kind}:{path / DATA / copy.edition.name}" for copy in written if not withheld)
    return Released(path, loads, withheld, leaks, {copy.edition.name: copy.audit for copy in written})


def _write_audits(folder: Path, written: Sequence[WrittenEdition]) -> None:
    (folder / "audit").mkdir()
    for copy in written:
        _write_json(folder / "audit" / f"{copy.edition.name}.json", copy.audit.to_json())
        page = audit_page(copy.audit)
        (folder / "audit" / f"{copy.edition.name}.html").write_text(page, encoding="utf-8")


def funnel_figure(funnel: Funnel) -> str:
    """Return the funnel as SVG."""
    from pluralrm.pages.plots import FunnelStep, funnel_plot  # loads matplotlib

    steps = [
        FunnelStep(stage.stage, stage.kept, sum(stage.rejected.values()), stage.waiting) for stage in funnel.stages
    ]
    words = "; ".join(
        f"{step.name}: {step.kept} kept, {step.rejected} rejected, {step.waiting} waiting" for step in steps
    )
    title = f"What became of {funnel.records:,} records"
    return funnel_plot("funnel", steps, title=title, words=words, x_label="records").svg()


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def _replaced(fresh: Path, path: Path) -> Path:
    """Put a folder in the place of another; a kill in between leaves the old one, or none, never half of one."""
    old = path.with_name(_OLD)
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        path.rename(old)
    fresh.rename(path)
    shutil.rmtree(old, ignore_errors=True)
    return path
