"""From runs to one HTML file, and to figures for papers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from pluralrm.audit.result import Audit
from pluralrm.display import Brief
from pluralrm.errors import MetricError
from pluralrm.metrics.overview import overviews_text
from pluralrm.pages.document import Figure, Page, data_block, render
from pluralrm.pages.plots import Plot
from pluralrm.report import tables
from pluralrm.report.figures import figures
from pluralrm.report.human import humans
from pluralrm.report.items import ItemTable, item_table
from pluralrm.report.models import ModelTable, model_table, remarks
from pluralrm.report.reading import Sentence, reading
from pluralrm.report.sections import Beside, RunSource, Section, sections
from pluralrm.report.words import marked, name
from pluralrm.text import TextForm, capital, counted, listed

LIMIT = 4_850_000
"""Bytes of the file at most; items beyond what fits are left to the run folders."""
_LEAST_ROOM = 200_000
_NOTHING = Beside()


@dataclass(frozen=True, repr=False)
class ReportPage(Brief):
    """The page, its paragraphs in plain words, its plots by file name, and what it has of the items."""

    html: str
    paragraphs: tuple[str, ...]
    plots: Mapping[str, Plot]
    tables: tuple[ItemTable, ...]
    policy: str = ""
    """Its Content-Security-Policy, for a server."""


@dataclass(frozen=True)
class ReportPart:
    """A section with its place in the page and everything that its template shows."""

    key: str
    title: str
    section: Section
    models: ModelTable
    paragraph: Sequence[Sentence]
    figures: Mapping[str, Sequence[Figure]]
    audit: Audit | None


def build_report(
    sources: Sequence[RunSource],
    *,
    text: bool = True,
    seed: int = 0,
    beside: Beside = _NOTHING,
    live: bool = False,
) -> ReportPage:
    """Return the report of some runs; runs without a scored item are named and left out, and none with one is an error.

    Equal runs give equal bytes: every date in it comes from a run.json. A `live` page asks the server that it came from
    how far runs are.
    """
    found = sections(sources, seed=seed)
    if not found:
        raise MetricError("none of the runs has a row yet; score something first.")
    known = _audits(beside.audits, sources)
    people = humans(beside.people, [section.runs for section in found])
    found = [replace(section, human=one) for section, one in zip(found, people, strict=True)]
    parts = [_part(place, section, found, known) for place, section in enumerate(found, 1)]

    def page(items: Sequence[tuple[ItemTable, Markup]]) -> Page:
        return _render(sources, parts, items, text=text, live=live)

    room = max(_LEAST_ROOM, LIMIT - len(page([(ItemTable({}, 0, 0, 0), Markup()) for _ in parts]).html.encode()))
    filled, blocks = _items(parts, room, text=text)
    html, policy = page(list(zip(filled, blocks, strict=True)))
    drawn = [(part, one.plot) for part in parts for group in part.figures.values() for one in group]
    plots = {_file_name(part, plot): plot for part, plot in drawn}
    paragraphs = [f"{part.title}. {' '.join(sentence.text for sentence in part.paragraph)}" for part in parts]
    return ReportPage(html, tuple(paragraphs), plots, tuple(filled), policy)


def _items(parts: Sequence[ReportPart], room: int, *, text: bool) -> tuple[list[ItemTable], list[Markup]]:
    """Return the items of each part and their blocks; what the parts with the fewest leave is room for the others."""
    tables: dict[str, ItemTable] = {}
    blocks: dict[str, Markup] = {}
    smallest_first = sorted(parts, key=lambda part: len(part.section.runs) * len(part.section.first.rows))
    for done, part in enumerate(smallest_first):
        tables[part.key] = item_table(part.section, room // (len(parts) - done), text=text)
        blocks[part.key] = data_block(f"{part.key}-data", tables[part.key].data)
        room -= len(blocks[part.key].encode())
    return [tables[part.key] for part in parts], [blocks[part.key] for part in parts]


def waiting_page() -> ReportPage:
    """Return the live page of a folder in which no run has a row yet."""
    html, policy = _render([], [], [], text=True, live=True)
    return ReportPage(html, (), {}, (), policy)


def _render(
    sources: Sequence[RunSource],
    parts: Sequence[ReportPart],
    items: Sequence[tuple[ItemTable, Markup]],
    *,
    text: bool,
    live: bool,
) -> Page:
    found = [part.section for part in parts]
    return render(
        "pluralrm.report",
        "report.html.jinja",
        title=f"Reward models on {listed(list(dict.fromkeys(one.first.benchmark for one in found)))}",
        heading=_heading(found),
        first=_first(found),
        styles=["report.css"],
        scripts=["report.js", *["view.js"] * live],
        connects=live,
        live=live,
        parts=parts,
        exports=data_block("exports", _exports(found)),
        when=_when(sources),
        oracles=_oracles(found),
        left_out=[source.run for source in sources if not source.run.done],
        provenance={part.key: [(one, one.manifest.to_json()) for one in part.section.sources] for part in parts},
        items=items,
        text=text,
        tables=tables,
        remarks=remarks,
        methods=_methods,
        called=name,
        counted=counted,
        capital=capital,
        folder=_folder,
    )


def _methods(section: Section) -> list[str]:
    """Return how the intervals of the headline were computed, each way once."""
    return list(dict.fromkeys(method for board in section.boards for method in tables.methods(board)))


def _first(found: Sequence[Section]) -> int:
    """Return which section is shown first, counted from 1: of users rather than records, with the most items."""
    if not found:
        return 0
    weights = [(bool(section.overview.own), len(section.first.rows)) for section in found]
    return 1 + weights.index(max(weights))


def _heading(found: Sequence[Section]) -> str:
    """Return the question that the first screen answers."""
    if not found:
        return "No run has a row yet"
    personal = any(section.overview.own for section in found)
    return "Do these reward models use the user?" if personal else "How do these reward models rank?"


def _exports(found: Sequence[Section]) -> dict[str, str]:
    """Return the tables of models as files of other tools, as `compare --format` writes them."""
    shown, names = [section.overview for section in found], [section.names for section in found]
    forms: tuple[TextForm, ...] = ("csv", "markdown", "latex")
    return {form: overviews_text(shown, names, form) for form in forms}


def _audits(audits: Sequence[Audit], sources: Sequence[RunSource]) -> Mapping[str, Audit]:
    """Return the audits by their content; one of content that no run is on is an error."""
    hashes = {source.run.benchmark_hash for source in sources}
    if strange := [audit.benchmark for audit in audits if audit.content_hash not in hashes]:
        raise MetricError(f"audited {', '.join(strange)}, but no run is on that content; name the runs' own benchmark.")
    return {audit.content_hash: audit for audit in audits}


def _part(place: int, section: Section, every: Sequence[Section], audits: Mapping[str, Audit]) -> ReportPart:
    first = section.first
    same_name = sum(one.first.benchmark == first.benchmark for one in every) > 1
    size = f", {counted(len(first.rows), 'item')}"
    prefix = f"b{place}-"
    return ReportPart(
        key=f"b{place}",
        title=f"{first.benchmark}{size if same_name else ''}",
        section=section,
        models=model_table(section),
        paragraph=reading(section, audits.get(first.benchmark_hash)),
        figures={part: [replace(one, prefix=prefix) for one in group] for part, group in figures(section).items()},
        audit=audits.get(first.benchmark_hash),
    )


def _when(sources: Sequence[RunSource]) -> str:
    """Return the first and the last day of the scoring, from run.json."""
    days = sorted({stamp[:10] for one in sources for stamp in (one.manifest.started, one.manifest.finished) if stamp})
    return "".join(days) if len(days) < 2 else f"{days[0]} to {days[-1]}"


def _oracles(found: Sequence[Section]) -> set[str]:
    """Return the names of the runs, and of the conditions, that stand in red wherever they stand."""
    runs = [run for one in found for run in one.runs if "oracle" in run.reveals]
    return {name(run) for run in runs} | {marked(run.condition, "oracle") for run in runs}


def _folder(path: str) -> str:
    """Return the part of a run's folder that names it, the same on every machine."""
    return "/".join(path.replace("\\", "/").split("/")[-3:])


def _file_name(part: ReportPart, plot: Plot) -> str:
    return f"{re.sub('[^A-Za-z0-9._-]+', '-', part.section.first.benchmark)}-{part.key}-{plot.name}"
