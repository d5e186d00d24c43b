"""A leaderboard as a static site: one page of tables, a page per model with its card, and the same as JSON.

Files alone, which load nothing: they open from a disk and from any host. They hold names and numbers, no post, prompt,
answer or path. Equal runs give equal bytes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from pluralrm._version import __version__
from pluralrm.core import Run
from pluralrm.errors import MetricError, RunError
from pluralrm.exchange.card import ModelCard, insert_card, model_card
from pluralrm.files import replace_file
from pluralrm.metrics.estimates import marks
from pluralrm.metrics.overview import MOODS, Overview, OverviewRow, answer, content_mark, leaders, overview_records
from pluralrm.metrics.plural import answer as users_answer
from pluralrm.metrics.plural import legend
from pluralrm.pages import PageTable, TableCell, TableColumn, chip, columns, interval_bar, render
from pluralrm.report import refuse_to_replace
from pluralrm.report.reading import METRIC_NAMES, is_baseline
from pluralrm.report.sections import RunSource, Section, sections
from pluralrm.report.tables import at_best, lists, methods, places, sided, users
from pluralrm.runs.records import slug
from pluralrm.text import capital, counted, difference, interval, listed, share, typeset, visible

PAGE, DATA, SPACE, MODELS = "index.html", "leaderboard.json", "README.md", "models"
"""The files of a site, and the folder of the models' pages."""


class SitePage(NamedTuple):
    """A model's page: its file below the site, and its card."""

    file: str
    card: ModelCard


@dataclass(frozen=True)
class SitePart:
    """One benchmark of the site: what is said of it, and the tables of its models and of their users."""

    key: str
    title: str
    section: Section
    answer: str
    good: bool
    models: PageTable
    users: Sequence[PageTable]
    users_answer: str
    legend: Sequence[str]

    @property
    def tab(self) -> tuple[str, str, str]:
        """Its key, its name, and how many of its models are personalized."""
        personal = [row for row in self.section.overview.rows if row.personal is not None]
        return self.key, self.title, f"{len(self.section.overview.personalized)}/{len(personal)}" if personal else ""


@dataclass(frozen=True)
class Site:
    """The files of a leaderboard by their names, and what it says in words."""

    files: Mapping[str, str]
    answers: tuple[str, ...]
    models: int


def write_site(
    sources: Sequence[RunSource], folder: Path, *, title: str = "", seed: int = 0, force: bool = False
) -> Site:
    """Write the site of some runs into a folder, and return it. An earlier site of ours is replaced.

    Other files there stay, a README.md too; an index.html that is not ours is an error unless `force` is set.
    """
    if not force:
        refuse_to_replace(folder / PAGE)
    site = build_site(sources, title=title, seed=seed)
    try:
        (folder / MODELS).mkdir(parents=True, exist_ok=True)
        for page in (folder / MODELS).glob("*.html"):
            if f"{MODELS}/{page.name}" not in site.files:
                refuse_to_replace(page)
                page.unlink()
        for name, text in site.files.items():
            if name != SPACE or not (folder / SPACE).exists():
                replace_file(folder / name, text)
    except OSError as exc:
        raise RunError(f"cannot write the site: {exc}. Name another folder with -o") from exc
    return site


def build_site(sources: Sequence[RunSource], *, title: str = "", seed: int = 0) -> Site:
    """Return the site of some runs; runs on different items are never ranked together. No run with rows is an error."""
    every = sections(sources, seed=seed)
    if not every:
        raise MetricError("none of the runs has a row yet; score something first.")
    pages = dict(_model_pages(every))
    parts = [_part(number, section, every, pages) for number, section in enumerate(every, 1)]
    names = listed(list(dict.fromkeys(part.section.first.benchmark for part in parts)))
    heading = title or f"Reward models on {names}"
    index, _ = render(
        "pluralrm.exchange",
        "leaderboard.html.jinja",
        title=heading,
        styles=["leaderboard.css"],
        scripts=["leaderboard.js"],
        parts=parts,
        every=_across(parts, pages) if len(parts) > 1 else None,
        verdicts=_verdicts(every),
        data=DATA,
        counted=counted,
        methods=lambda section: list(dict.fromkeys(text for board in section.boards for text in methods(board))),
    )
    files = {PAGE: index, DATA: _data(every, pages), SPACE: _space(heading)}
    files |= {page.file: _model_page(page, heading) for page in pages.values()}
    answers = tuple(f"{part.title}. {part.answer}" for part in parts)
    return Site(files, answers, len({row.model for section in every for row in section.overview.rows}))


def _model_pages(every: Sequence[Section]) -> Iterator[tuple[str, SitePage]]:
    """Yield the page of each model that has a result, by its spec; no two files differ by case alone."""
    used: set[str] = set()
    for spec in dict.fromkeys(row.model for section in every for row in section.overview.rows):
        if any(
            row.model == spec and not (row.oracle or row.unfinished)
            for section in every
            for row in section.overview.rows
        ):
            card = model_card([section for section in every if spec in section.names], spec)
            stem = slug(card.name)
            name = next(name for n in count(1) if (name := stem if n == 1 else f"{stem}-{n}").lower() not in used)
            used.add(name.lower())
            yield spec, SitePage(f"{MODELS}/{name}.html", card)


def _part(number: int, section: Section, every: Sequence[Section], pages: Mapping[str, SitePage]) -> SitePart:
    overview, names, plural = section.overview, section.names, section.plural
    same_name = sum(other.first.benchmark == overview.benchmark for other in every) > 1
    mark = content_mark(section.first, [other.first for other in every])
    title = f"{overview.benchmark}, {counted(overview.items, 'item')}{mark}" if same_name else overview.benchmark
    tables = [users(plural, title), lists(plural, title), sided(plural, title)] if plural else []
    return SitePart(
        f"b{number}",
        title,
        section,
        typeset(" ".join(filter(None, [answer(overview, names), leaders(overview, names)]))),
        bool(overview.personalized),
        _models(section, title, pages),
        [table for table in tables if table is not None],
        users_answer(plural) if plural else "",
        legend(plural) if plural else (),
    )


# ---------------------------------------------------------------- tables


def _models(section: Section, title: str, pages: Mapping[str, SitePage]) -> PageTable:
    """Return one row per model, the best first: ranks, numbers, verdict, and the letters of its groups."""
    overview = section.overview
    headline = METRIC_NAMES.get(overview.headline, overview.headline)
    personal = bool(overview.own)
    heads = [
        TableColumn("rank", "nowrap"),
        TableColumn("model"),
        TableColumn("sees", "spec"),
        TableColumn(headline, "n"),
    ]
    heads += [TableColumn("95% interval", "nowrap"), TableColumn("")]
    heads += [*columns("lift", "gain", look="n"), TableColumn("verdict")] if personal else []
    heads += [TableColumn("group", "nowrap"), TableColumn("failed", "n")]
    letters = group_letters(overview)
    rows: list[list[TableCell | str]] = []
    for row in overview.rows:
        value, alarm = row.metrics[overview.headline], "alarm" * row.oracle
        numbers = [_points(row), chip(row.verdict, MOODS.get(row.verdict, "grey")) if row.verdict else ""]
        cells = [
            places(row.rank),
            _model_cell(row, section, pages),
            TableCell(row.condition, look=alarm),
            TableCell(share(value.value), strong=True),
            interval(value),
            interval_bar(value, section.chance, look=alarm),
            *([*numbers[0], numbers[1]] if personal else []),
            letters.get((row.model, row.condition), "–"),
            f"{value.failed:,}{_best(section, row)}",
        ]
        rows.append(cells)
    return PageTable(f"Models on {title}", heads, rows, "", "board ranked sorts", head=1)


def _points(row: OverviewRow) -> tuple[TableCell, TableCell]:
    lift, gain = (difference(estimate).partition(" ") for estimate in (row.lift, row.gain))
    return TableCell(lift[0], lift[2]), TableCell(gain[0], gain[2])


def _best(section: Section, row: OverviewRow) -> str:
    name = section.names[row.model]
    entry = next(
        entry for entry in section.entries if (entry.summary.model, entry.summary.condition) == (name, row.condition)
    )
    return at_best(entry.summary)


def _model_cell(row: OverviewRow, section: Section, pages: Mapping[str, SitePage]) -> TableCell:
    name = section.names[row.model]
    link = _link(name, pages.get(row.model))
    run = next(run for run in section.runs if (run.model, run.condition) == (name, row.condition))
    return TableCell(link, " · ".join(_marks(run, row)))


def _link(name: str, page: SitePage | None) -> str:
    """Return a model's name, as a link where it has a page."""
    return Markup('<a href="{}">{}</a>').format(page.file, visible(name)) if page else name


def _marks(run: Run, row: OverviewRow) -> Iterator[str]:
    """Yield what sets a run apart from others."""
    if is_baseline(row.model):
        yield "baseline"
    yield from marks(run)
    if row.oracle:
        yield "ORACLE"
    if row.unfinished:
        yield row.unfinished


def group_letters(overview: Overview) -> dict[tuple[str, str], str]:
    """Return the letters of each model and condition: two that share one do not differ significantly.

    The best group is a; after z comes aa, set apart by spaces.
    """
    entries = overview.board.entries
    names: dict[tuple[str, str], list[str]] = {}
    for number, members in enumerate(overview.board.groups):
        for index in members:
            summary = entries[index].summary
            names.setdefault((summary.model, summary.condition), []).append(_letter(number))
    wide = len(overview.board.groups) > len(_LETTERS)
    return {key: (" " * wide).join(letters) for key, letters in names.items()}


_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _letter(number: int) -> str:
    rest, last = divmod(number, len(_LETTERS))
    return (_letter(rest - 1) if rest else "") + _LETTERS[last]


def _across(parts: Sequence[SitePart], pages: Mapping[str, SitePage]) -> PageTable:
    """Return one row per model and a column per benchmark; no mean over benchmarks, which measure different things."""
    every = [part.section for part in parts]
    specs = dict.fromkeys(row.model for section in every for row in section.overview.rows if not row.oracle)
    ordered = sorted(specs, key=lambda spec: _standing(spec, every))
    rows: list[list[TableCell | str]] = []
    for spec in ordered:
        section = next(section for section in every if spec in section.names)
        link = _link(section.names[spec], pages.get(spec))
        cells = [_best_cell(spec, section) for section in every]
        rows.append([TableCell(link, "baseline" * is_baseline(spec)), *cells])
    heads = [TableColumn("model"), *columns(*(part.title for part in parts), look="n")]
    return PageTable("Models on all benchmarks", heads, rows, "", "board sorts")


def _rows_of(spec: str, section: Section) -> list[OverviewRow]:
    return [row for row in section.overview.rows if row.model == spec and not row.oracle]


def _standing(spec: str, every: Sequence[Section]) -> float:
    """Return by what models are ordered: the mean of how far down the tables they stand, from 0 to 1."""
    heights = []
    for section in every:
        ranked = [row.model for row in section.overview.rows if row.rank is not None]
        heights += [ranked.index(spec) / len(ranked)] if spec in ranked else []
    return sum(heights) / len(heights) if heights else 1.0


def _best_cell(spec: str, section: Section) -> TableCell:
    rows = _rows_of(spec, section)
    if not rows:
        return TableCell("–")
    value = rows[0].metrics[section.overview.headline]
    words = f"{interval(value)} · rank {places(rows[0].rank)}"
    return TableCell(share(value.value), f"{words}{' · personalized' * (rows[0].verdict == 'personalized')}")


def _verdicts(every: Sequence[Section]) -> list[str]:
    return sorted({row.verdict for section in every for row in section.overview.rows if row.verdict})


# ---------------------------------------------------------------- a model, and the data


def _model_page(page: SitePage, site: str) -> str:
    """Return the page of a model: its results, and what belongs into its README."""
    card = page.card
    heads = [TableColumn("benchmark"), TableColumn("sees", "spec"), TableColumn("score", "n")]
    heads += [TableColumn("95% interval", "nowrap"), TableColumn(""), TableColumn("rank", "nowrap")]
    heads += [*columns("lift", "gain", look="n"), TableColumn("verdict")]
    rows: list[list[TableCell | str]] = []
    for result in card.results:
        row, value = result.row, result.value
        bar = interval_bar(value, result.overview.chance)
        verdict = chip(row.verdict, MOODS.get(row.verdict, "grey")) if row.verdict else "–"
        score = TableCell(share(value.value), result.metric, strong=True)
        rows.append(
            [
                *(TableCell(result.overview.benchmark, counted(result.overview.items, "item")), row.condition),
                *(score, interval(value), bar, result.rank or "–", *_points(row), verdict),
            ]
        )
    text, _ = render(
        "pluralrm.exchange",
        "model.html.jinja",
        title=f"{card.name}: {site}",
        styles=["leaderboard.css"],
        card=card,
        site=site,
        results=PageTable(f"Results of {card.name}", heads, rows, "", "board"),
        facts=[(result, _facts(result.to_json())) for result in card.results],
        readme=insert_card("", card).text,
    )
    return text


def _facts(record: Mapping[str, object]) -> list[tuple[str, object]]:
    names = ("items", "users", "records", "date", "benchmark_hash", "template_hash")
    return [(name.replace("_", " "), record[name]) for name in names if record.get(name)]


def _data(every: Sequence[Section], pages: Mapping[str, SitePage]) -> str:
    """Return all numbers as JSON, with every digit."""
    boards = []
    for section in every:
        overview, letters = section.overview, group_letters(section.overview)
        rows = []
        for row, record in zip(overview.rows, overview_records(overview, section.names), strict=True):
            page = pages.get(row.model)
            more = {"groups": letters.get((row.model, row.condition), ""), "page": page.file if page else ""}
            rows.append({key: value for key, value in record.items() if key != "spec"} | more)
        facts = {"items": overview.items, f"{overview.cluster}s": overview.clusters, "chance": overview.chance}
        plural = [] if section.plural is None else section.plural.records()
        people = [{key: value for key, value in record.items() if key != "spec"} for record in plural]
        head = {"benchmark": overview.benchmark, "benchmark_hash": section.first.benchmark_hash}
        boards.append({**head, **facts, "models": rows, "users_of_models": people})
    cards = [[result.to_json() for result in page.card.results] for page in pages.values()]
    record = {"pluralrm": __version__, "benchmarks": boards, "cards": cards}
    return json.dumps(record, indent=1) + "\n"


def _space(title: str) -> str:
    """Return the README that makes a repository of these files a static Space."""
    name = json.dumps(capital(title)[:60])
    return (
        f"---\ntitle: {name}\nsdk: static\napp_file: {PAGE}\n---\n\nA leaderboard made by pluralrm {__version__}; "
        f"`{DATA}` has its numbers.\n"
    )
