"""The data card as Markdown for a reader. Whatever is not ours is made inert: it is text, and stays text."""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from pluralrm.construct.pipeline.building import Built
from pluralrm.construct.pipeline.funnel import COLUMNS, funnel_rows
from pluralrm.construct.pipeline.stages import Sieve, Stage
from pluralrm.construct.release.card import About, templates
from pluralrm.construct.release.editions import Written
from pluralrm.text import visible

_ACTIVE = re.compile(r"([\\`*_{}\[\]|~$#!])")
_BEGINS = re.compile(r"^(?:[-+=]|\d+(?=[.)]))")
_TICKS = re.compile(r"`+")


def inert(text: str) -> str:
    """Return a text on one line that Markdown shows as it stands: no markup, no HTML, no table cell begins in it."""
    flat = " ".join(visible(text).split())
    return _ACTIVE.sub(r"\\\1", html.escape(flat, quote=False))


def paragraph(text: str) -> str:
    """Return the same as a paragraph of its own, which begins no list and underlines no heading."""
    return _BEGINS.sub(lambda found: f"&#{ord(found[0][0])};{found[0][1:]}", inert(text))


def fenced(text: str, language: str = "text") -> str:
    """Return a text as a block of code that nothing in it can end."""
    ticks = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{ticks}{language}\n{visible(text).rstrip()}\n{ticks}"


def readme(built: Built, written: Sequence[Written], about: About, card: Mapping[str, object]) -> str:
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


def _head(written: Sequence[Written], about: About, card: Mapping[str, object]) -> Iterator[str]:
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
    yield "\n".join(f"{place}. {_stage(stage)}" for place, stage in enumerate(built.pipeline.stages, 1))


def _stage(stage: Stage | Sieve) -> str:
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


def _audits(written: Sequence[Written]) -> Iterator[str]:
    yield "## Can its labels be guessed?"
    for one in written:
        told = " ".join(filter(None, (one.audit.verdict, one.audit.limits)))
        yield f"**{inert(one.edition.name)}**: {inert(told)} The whole audit: `audit/{one.edition.name}.html`."


def _rebuilding(built: Built, about: About, card: Mapping[str, object]) -> Iterator[str]:
    yield "## Make it again"
    yield (
        "With the same input and the build's cassette (`calls.jsonl`, what was asked and said) nobody is asked, and "
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
