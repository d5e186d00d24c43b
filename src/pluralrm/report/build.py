"""From runs to one HTML file, and to figures for papers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from itertools import count

from markupsafe import Markup

from pluralrm.audit.result import Audit
from pluralrm.draw import Plot, palette_css
from pluralrm.errors import MetricError
from pluralrm.page import data_block, fragment, page, schemes
from pluralrm.report import tables
from pluralrm.report.figures import Figure, figures
from pluralrm.report.human import humans
from pluralrm.report.items import ItemTable, item_table
from pluralrm.report.reading import METRIC_NAMES, Sentence, reading
from pluralrm.report.sections import Beside, RunSource, Section, sections
from pluralrm.report.words import capital, counted, listed, marked, name, told

LIMIT = 4_850_000
"""Bytes of the file at most; items beyond what fits are left to the run folders."""
_LEAST_ROOM = 200_000
_NOTHING = Beside()


@dataclass(frozen=True)
class ReportPage:
    """The page, its paragraphs in plain words, its plots by file name, and what it has of the items."""

    html: str
    paragraphs: tuple[str, ...]
    plots: Mapping[str, Plot]
    tables: tuple[ItemTable, ...]


@dataclass(frozen=True)
class ReportPart:
    """A section with its place in the page and everything that its template shows."""

    key: str
    title: str
    section: Section
    paragraph: Sequence[Sentence]
    figures: Mapping[str, Sequence["FigureMarkup"]]
    audit: Audit | None
    boards: Sequence[Mapping[str, object]] = field(default_factory=list)


@dataclass(frozen=True)
class FigureMarkup:
    """A plot with its numbers, drawn for a desk and for a phone."""

    shown: Figure
    wide: Markup
    narrow: Markup


def build_report(
    sources: Sequence[RunSource], *, text: bool = True, seed: int = 0, beside: Beside = _NOTHING
) -> ReportPage:
    """Return the report of some runs; runs without a scored item are named and left out, and none with one is an error.

    Equal runs give equal bytes: every date in it comes from a run.json.
    """
    found = sections(sources, seed=seed)
    if not found:
        raise MetricError("none of the runs has a row yet; score something first.")
    known = _audits(beside.audits, sources)
    people = humans(beside.people, [section.runs for section in found])
    found = [replace(section, human=one) for section, one in zip(found, people, strict=True)]
    parts = [_part(place, section, found, known) for place, section in enumerate(found, 1)]
    shared = {"parts": parts, "text": text, "count": counted, "tables": tables, "told": told, "metrics": METRIC_NAMES}
    shared["seen_by_people"] = tables.seen_by_people
    facts = {
        "title": _title(found),
        "when": _when(sources),
        "oracles": _oracles(found),
        "called": name,
        "capital": capital,
    }
    left_out = [source.run for source in sources if not source.run.done]
    provenance = [(source, source.manifest.to_json()) for one in found for source in one.sources]

    def body(items: Sequence[ItemTable], blocks: Sequence[Markup]) -> str:
        laid_out = fragment(
            "pluralrm.report",
            "report.html.jinja",
            **shared,
            **facts,
            left_out=left_out,
            provenance=provenance,
            items=list(zip(items, blocks, strict=True)),
            folder=_folder,
        )
        return page(
            _title(found), laid_out, styles=[_colours(), _resource("report.css")], scripts=[_resource("report.js")]
        )

    nothing = [ItemTable({}, 0, 0, 0) for _ in parts]
    room = max(_LEAST_ROOM, LIMIT - len(body(nothing, [Markup() for _ in parts]).encode()))
    filled = [item_table(part.section, room // len(parts), text=text) for part in parts]
    blocks = [data_block(f"{part.key}-data", table.data) for part, table in zip(parts, filled, strict=True)]
    drawn = [(part, one.shown.plot) for part in parts for group in part.figures.values() for one in group]
    plots = {_file_name(part, plot): plot for part, plot in drawn}
    paragraphs = [f"{part.title}. {' '.join(sentence.text for sentence in part.paragraph)}" for part in parts]
    return ReportPage(body(filled, blocks), tuple(paragraphs), plots, tuple(filled))


def _audits(audits: Sequence[Audit], sources: Sequence[RunSource]) -> Mapping[str, Audit]:
    """Return the audits by their content; one of content that no run is on is an error."""
    hashes = {source.run.benchmark_hash for source in sources}
    if strange := [audit.benchmark for audit in audits if audit.content_hash not in hashes]:
        raise MetricError(f"audited {', '.join(strange)}, but no run is on that content; name the runs' own benchmark.")
    return {audit.content_hash: audit for audit in audits}


def _part(place: int, section: Section, every: Sequence[Section], audits: Mapping[str, Audit]) -> ReportPart:
    first = section.first
    same_name = sum(one.first.benchmark == first.benchmark for one in every) > 1
    told_apart = f", {counted(len(first.rows), 'item')}"
    numbers = count(1)
    boards = [{"board": board, "key": f"b{place}-{next(numbers)}"} for board in section.boards]
    return ReportPart(
        key=f"b{place}",
        title=f"{first.benchmark}{told_apart if same_name else ''}",
        section=section,
        paragraph=reading(section, audits.get(first.benchmark_hash)),
        figures={part: [_drawn(shown, f"b{place}-") for shown in group] for part, group in figures(section).items()},
        audit=audits.get(first.benchmark_hash),
        boards=boards,
    )


def _drawn(shown: Figure, prefix: str) -> FigureMarkup:
    # What draw returns is escaped XML of its own making.
    wide, narrow = (Markup(shown.plot.inline(prefix, narrow=narrow)) for narrow in (False, True))  # noqa: S704
    return FigureMarkup(shown, wide, narrow)


def _title(found: Sequence[Section]) -> str:
    return f"Reward models on {listed(list(dict.fromkeys(one.first.benchmark for one in found)))}"


def _when(sources: Sequence[RunSource]) -> str:
    """Return the first and the last day of the scoring, from run.json."""
    days = sorted({stamp[:10] for one in sources for stamp in (one.manifest.started, one.manifest.finished) if stamp})
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def _oracles(found: Sequence[Section]) -> set[str]:
    """Return the names of the runs, and of the conditions, that stand in red wherever they stand."""
    runs = [run for one in found for run in one.runs if "oracle" in run.reveals]
    return {name(run) for run in runs} | {marked(run.condition, "oracle") for run in runs}


def _folder(path: str) -> str:
    """Return the part of a run's folder that names it, the same on every machine."""
    return "/".join(path.replace("\\", "/").split("/")[-3:])


def _file_name(part: ReportPart, plot: Plot) -> str:
    return f"{re.sub('[^A-Za-z0-9._-]+', '-', part.section.first.benchmark)}-{part.key}-{plot.name}"


def _colours() -> str:
    return schemes(palette_css("light"), palette_css("dark"))


def _resource(name: str) -> str:
    return (files("pluralrm.report") / "html" / name).read_text(encoding="utf-8")
