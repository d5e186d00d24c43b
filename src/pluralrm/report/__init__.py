"""The report: runs in, one HTML file out that opens anywhere and asks for nothing.

>>> from pluralrm.report import write_report
>>> write_report(["runs"], "report.html")  # doctest: +SKIP
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from markupsafe import Markup

from pluralrm.audit import finding_table, probe_table
from pluralrm.audit.result import Audit
from pluralrm.display import Brief
from pluralrm.errors import MetricError, RunError
from pluralrm.metrics.overview import content_mark, overviews_text
from pluralrm.metrics.plural import answer, legend
from pluralrm.pages import GENERATOR, Figure, Page, data_block, render
from pluralrm.pages.plots import Plot, write_plots
from pluralrm.report import tables
from pluralrm.report.figures import figures
from pluralrm.report.human import PlanJudgments, humans, read_asked
from pluralrm.report.items import ItemTable, item_table
from pluralrm.report.models import ModelTable, model_table, remarks
from pluralrm.report.reading import Sentence, caveats, reading
from pluralrm.report.sections import Beside, RunSource, Section, marked, name, read_sources, sections
from pluralrm.runs.store import uncollected
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
    answers: tuple[str, ...] = ()
    """Of each benchmark: its answer, and what must be known beside it."""


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

    @property
    def tab(self) -> tuple[str, str, str]:
        """Its key, its name and how many of its models are personalized."""
        return self.key, self.title, self.models.count


def build_report(
    sources: Sequence[RunSource], *, text: bool = True, seed: int = 0, beside: Beside = _NOTHING, live: bool = False
) -> ReportPage:
    """Return the report of some runs; runs without a scored item are named and left out, and none with one is an error.

    Equal runs give equal bytes: every date in it comes from a run.json. A `live` page asks the server that it came from
    how far runs are.
    """
    every = sections(sources, seed=seed)
    if not every:
        raise MetricError("none of the runs has a row yet; score something first.")
    hashes = {source.run.benchmark_hash for source in sources}
    if strange := [audit.benchmark for audit in beside.audits if audit.content_hash not in hashes]:
        raise MetricError(f"audited {', '.join(strange)}, but no run is on that content; name the runs' own benchmark.")
    audits = {audit.content_hash: audit for audit in beside.audits}
    people = humans(beside.people, [section.runs for section in every])
    every = [replace(section, human=human) for section, human in zip(every, people, strict=True)]
    parts = [_part(number, section, every, audits) for number, section in enumerate(every, 1)]

    def page(items: Sequence[tuple[ItemTable, Markup]]) -> Page:
        return _render(sources, parts, items, text=text, live=live)

    room = max(_LEAST_ROOM, LIMIT - len(page([(ItemTable({}, 0, 0, 0), Markup()) for _ in parts]).html.encode()))
    filled, blocks = _items(parts, room, text=text)
    html, policy = page(list(zip(filled, blocks, strict=True)))
    drawn = [(part, figure.plot) for part in parts for group in part.figures.values() for figure in group]
    plots = {_file_name(part, plot): plot for part, plot in drawn}
    paragraphs = [f"{part.title}. {' '.join(sentence.text for sentence in part.paragraph)}" for part in parts]
    answers = [
        f"{part.title}: {' '.join([part.models.answer, *(each.text for each in caveats(part.section, part.audit))])}"
        for part in parts
    ]
    return ReportPage(html, tuple(paragraphs), plots, tuple(filled), policy, tuple(answers))


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
    sections = [part.section for part in parts]
    return render(
        "pluralrm.report",
        "report.html.jinja",
        title=f"Reward models on {listed(list(dict.fromkeys(section.first.benchmark for section in sections)))}",
        heading=_heading(sections),
        first=_first(sections),
        styles=["report.css"],
        scripts=["report.js", *["view.js"] * live],
        connects=live,
        live=live,
        parts=parts,
        exports=data_block("exports", _exports(sections)),
        when=_when(sources),
        oracles=_oracles(sections),
        left_out=[source.run for source in sources if not source.run.done],
        provenance={
            part.key: [(source, source.manifest.to_json()) for source in part.section.sources] for part in parts
        },
        items=items,
        text=text,
        tables=tables,
        plural_answer=answer,
        plural_legend=legend,
        probe_table=probe_table,
        finding_table=finding_table,
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


def _first(sections: Sequence[Section]) -> int:
    """Return which section is shown first, counted from 1: of users rather than records, with the most items."""
    if not sections:
        return 0
    weights = [(bool(section.overview.own), len(section.first.rows)) for section in sections]
    return 1 + weights.index(max(weights))


def _heading(sections: Sequence[Section]) -> str:
    """Return the question that the first screen answers."""
    if not sections:
        return "No run has a row yet"
    personal = any(section.overview.own for section in sections)
    return "Do these reward models use the user?" if personal else "How do these reward models rank?"


def _exports(sections: Sequence[Section]) -> dict[str, str]:
    """Return the tables of models as files of other tools, as `compare --format` writes them."""
    overviews, names = [section.overview for section in sections], [section.names for section in sections]
    forms: tuple[TextForm, ...] = ("csv", "markdown", "latex")
    return {form: overviews_text(overviews, names, form) for form in forms}


def _part(number: int, section: Section, every: Sequence[Section], audits: Mapping[str, Audit]) -> ReportPart:
    first = section.first
    same_name = sum(other.first.benchmark == first.benchmark for other in every) > 1
    size = f", {counted(len(first.rows), 'item')}{content_mark(first, [other.first for other in every])}"
    prefix = f"b{number}-"
    return ReportPart(
        key=f"b{number}",
        title=f"{first.benchmark}{size if same_name else ''}",
        section=section,
        models=model_table(section),
        paragraph=reading(section, audits.get(first.benchmark_hash)),
        figures={
            part: [replace(figure, prefix=prefix) for figure in group] for part, group in figures(section).items()
        },
        audit=audits.get(first.benchmark_hash),
    )


def _when(sources: Sequence[RunSource]) -> str:
    """Return the first and the last day of the scoring, from run.json."""
    days = sorted(
        {stamp[:10] for source in sources for stamp in (source.manifest.started, source.manifest.finished) if stamp}
    )
    return "".join(days) if len(days) < 2 else f"{days[0]} to {days[-1]}"


def _oracles(sections: Sequence[Section]) -> set[str]:
    """Return the names of the runs, and of the conditions, that stand in red wherever they stand."""
    runs = [run for section in sections for run in section.runs if "oracle" in run.reveals]
    return {name(run) for run in runs} | {marked(run.condition, "oracle") for run in runs}


def _folder(path: str) -> str:
    """Return the part of a run's folder that names it, the same on every machine."""
    return "/".join(path.replace("\\", "/").split("/")[-3:])


def _file_name(part: ReportPart, plot: Plot) -> str:
    return f"{re.sub('[^A-Za-z0-9._-]+', '-', part.section.first.benchmark)}-{part.key}-{plot.name}"


_HEAD = 2_048
"""Bytes in which a page of ours says that it is one."""

__all__ = [
    "Beside",
    "PlanJudgments",
    "ReportPage",
    "RunSource",
    "build_report",
    "read_asked",
    "read_sources",
    "write_report",
]


def write_report(
    runs: Sequence[str | Path],
    out: str | Path,
    *,
    text: bool = True,
    figures: str | Path | None = None,
    seed: int = 0,
    beside: Beside = _NOTHING,
    force: bool = False,
) -> ReportPage:
    """Write the report of the runs at or below some paths, and return it.

    Without `text` it holds no post, prompt or answer. `figures` is a folder for the plots as PDF and SVG. What
    goes `beside` the runs is shown with those of its content. An earlier page of ours is replaced; any other file is an
    error unless `force` is set.
    """
    if not force:
        refuse_to_replace(Path(out))
    with uncollected():
        report = build_report(read_sources(runs), text=text, seed=seed, beside=beside)
    try:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        Path(out).write_text(report.html, encoding="utf-8", newline="\n")
        if figures is not None:
            write_plots(report.plots, Path(figures))
    except OSError as exc:
        raise RunError(f"cannot write the report: {exc}. Name another file with -o") from exc
    return report


def refuse_to_replace(out: Path) -> None:
    """Raise where there is a file with something in it that is no page of ours."""
    if not out.is_file():
        return
    with out.open("rb") as file:
        head = file.read(_HEAD)
    if head and GENERATOR.encode() not in head:
        raise RunError(f"{out} exists and is not a report: name another file with -o, or pass --force")
