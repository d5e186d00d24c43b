"""A gallery: many benchmarks audited, and one table of what leaks in which.

>>> [entry.name for entry in gallery_entries({"benchmark": [{"name": "tiny", "spec": "pocket-prb"}]})]
['tiny']
"""

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from pluralrm._version import __version__
from pluralrm.audit import GROSS, audit
from pluralrm.audit.findings import OVERLAP
from pluralrm.audit.leaks import ANOTHER, ANSWERS, CLASSIFIERS, ERROR_RATE, IN_CONTEXT, IN_FILE, JUDGE, OTHERS
from pluralrm.audit.near import EQUAL
from pluralrm.audit.probes import RELABELLINGS
from pluralrm.audit.result import Audit
from pluralrm.core import Benchmark, Estimate, Run
from pluralrm.digests import digest
from pluralrm.display import json_fields
from pluralrm.errors import OutageError, PluralrmError, SpecError, did_you_mean
from pluralrm.files import replace_file
from pluralrm.pages import PageTable, TableCell, TableColumn, chip, columns, render
from pluralrm.text import counted, difference, estimated, flat, p_value

KINDS: Mapping[str, tuple[str, ...]] = {
    "length": ("length",),
    "position": ("position", IN_FILE),
    "options": tuple(name for name, (reads, _) in CLASSIFIERS.items() if reads == ANSWERS),
    "with question": (*(name for name, (reads, _) in CLASSIFIERS.items() if reads != ANSWERS), JUDGE),
    "own context": (IN_CONTEXT,),
    "other people": (ANOTHER, OTHERS),
}
"""The probes behind each column of the table; the one with the strongest evidence stands in it."""
DUPLICATES = "duplicates"
TOO_FEW = "too few to say"
_FLAWS = {"leak", "shortcut", "not personal", DUPLICATES}
_KEYS = {"name": str, "spec": str, "judge": str, "seed": int}


class GalleryEntry(NamedTuple):
    """A benchmark of the file."""

    name: str
    spec: str
    judge: str = ""
    seed: int = 0


class GalleryCell(NamedTuple):
    """What one kind of guess earns beyond chance, or the share of items that are duplicates."""

    status: str
    by: str = ""
    excess: Estimate | None = None
    p: float | None = None
    """Adjusted over all probes of the benchmark."""

    @property
    def flaw(self) -> bool:
        """True where this says something against the benchmark."""
        return self.status in _FLAWS

    @property
    def size(self) -> str:
        """The points beyond chance; of duplicates, their share of the items."""
        if self.p is not None:
            return difference(self.excess)
        value, space, interval = estimated(self.excess).partition(" ")
        return f"{value}%{space}{interval}" if self.excess else ""


@dataclass(frozen=True)
class GalleryRow:
    """A benchmark's audit, or why there is none."""

    entry: GalleryEntry
    audit: Audit | None
    problem: str = ""
    incomplete: bool = False
    """True where an outage left something open, which the same command tries again."""

    @cached_property
    def cells(self) -> Mapping[str, GalleryCell]:
        """A cell for each kind; none without an audit."""
        if self.audit is None:
            return {}
        by_kind = {kind: _cell(self.audit, names) for kind, names in KINDS.items()}
        return {**by_kind, DUPLICATES: _duplicates(self.audit)}

    @property
    def flaws(self) -> list[str]:
        """The kinds that say something against the benchmark."""
        return [kind for kind, cell in self.cells.items() if cell.flaw]

    @property
    def lines(self) -> list[str]:
        """Return what was found, a line per kind, then of which kinds nothing can be said; or why there is no audit."""
        if self.audit is None:
            return [f"not audited: {self.problem}"]
        flaws = [
            f"{cell.by if cell.by.startswith(kind) else f'{kind}: {cell.by}'} {cell.size}"
            for kind, cell in self.cells.items()
            if cell.flaw
        ]
        if not any(cell.p is not None for cell in self.cells.values()):
            return [*flaws, f"nothing to guess by: {self.audit.probes[0].detail}"]
        few = [kind for kind, cell in self.cells.items() if cell.status == TOO_FEW]
        return [*(flaws or ["none found"]), *([f"{TOO_FEW}: {', '.join(few)}"] if few else [])]

    def record(self) -> dict[str, object]:
        """Return one flat record, with all digits."""
        size = json_fields(self.audit, "items", "clusters", "chance") if self.audit else {}
        cells: dict[str, object] = {}
        for kind in (*KINDS, DUPLICATES):
            cell, key = self.cells.get(kind, GalleryCell("not audited")), kind.replace(" ", "_")
            cells |= {**flat(key, cell.excess), f"{key}_p": cell.p, f"{key}_by": cell.by, f"{key}_status": cell.status}
        head = {"benchmark": self.entry.name, "spec": self.entry.spec, "problem": self.problem}
        return {**head, **{key: size.get(key) for key in ("items", "clusters", "chance")}, **cells}

    def paper_record(self) -> dict[str, object]:
        """Return one record of short texts, for Markdown and LaTeX."""
        texts = {kind: " ".join(_texts(cell)) or cell.status for kind, cell in self.cells.items()}
        blank = dict.fromkeys((*KINDS, DUPLICATES), "not audited")
        return {"benchmark": self.entry.name, "items": self.audit.items if self.audit else "–", **blank, **texts}


def _cell(audit: Audit, names: Sequence[str]) -> GalleryCell:
    probes = [probe for probe in audit.probes if probe.name in names and probe.accuracy is not None]
    tried = [probe for probe in probes if probe.p is not None]
    if audit.chance is None or not tried:
        return GalleryCell("by design" if probes else "–")
    accuracy, best = min(
        ((probe.accuracy, probe) for probe in tried if probe.accuracy is not None),
        key=lambda pair: (not pair[1].flaw, pair[1].adjusted_p, -pair[0].value),
    )
    weak = [probe for probe in tried if probe.detectable is None or probe.detectable > audit.chance + GROSS]
    status = best.verdict if best.flaw else TOO_FEW if weak else "none found"
    low, high = (None if end is None else end - audit.chance for end in (accuracy.low, accuracy.high))
    excess = replace(accuracy, value=accuracy.value - audit.chance, low=low, high=high)
    return GalleryCell(status, best.title, excess, best.adjusted_p)


def _duplicates(audit: Audit) -> GalleryCell:
    """Return the share of items that are equal to another or have equal options; users under two ids count too."""
    findings = {finding.topic: finding for finding in audit.findings}
    warned = [topic for topic in (EQUAL, OVERLAP) if topic in findings and findings[topic].status == "warn"]
    concerned = findings[EQUAL].measures.get("items concerned") if EQUAL in findings else None
    excess = concerned if isinstance(concerned, Estimate) else None
    return GalleryCell(DUPLICATES if warned else "none found", ", ".join(warned), excess)


def gallery_entries(table: Mapping[str, object], where: str = "the gallery") -> list[GalleryEntry]:
    """Return the benchmarks of a file's content; a SpecError says what does not fit."""
    if unknown := sorted(set(table) - {"title", "benchmark"}):
        raise SpecError(f"{where}: unknown key {unknown[0]!r}.{did_you_mean(unknown[0], ['title', 'benchmark'])}")
    rows = table.get("benchmark")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, Mapping) for row in rows):
        raise SpecError(f'{where}: found no [[benchmark]], wanted one or more, each with spec = "..."')
    entries = []
    for number, row in enumerate(rows, 1):
        at = f"{where}: benchmark {number}"
        if unknown := sorted(set(row) - set(_KEYS)):
            raise SpecError(f"{at}: unknown key {unknown[0]!r}.{did_you_mean(unknown[0], _KEYS)}")
        for key, value in row.items():
            if type(value) is not _KEYS[key]:
                raise SpecError(f"{at}: {key}: found {value!r}, wanted {_KEYS[key].__name__}")
        if not row.get("spec"):
            raise SpecError(f'{at}: found no spec, wanted one, such as spec = "pocket-prb"')
        entries.append(GalleryEntry(**{"name": row["spec"], **row}))
    names = [entry.name for entry in entries]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise SpecError(f"{where}: two benchmarks are named {twice!r}; give each a name of its own")
    return entries


def read_gallery(file: Path) -> tuple[str, list[GalleryEntry]]:
    """Return the title and the benchmarks of a TOML file."""
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as exc:
        raise SpecError(f"cannot read {str(file)!r}: {exc}. Wanted TOML with [[benchmark]] tables") from exc
    entries = gallery_entries(table, str(file))
    return str(table.get("title", "Audits of benchmarks")), entries


def gallery(
    entries: Sequence[GalleryEntry],
    opens: Callable[[GalleryEntry], Benchmark],
    judges: Callable[[GalleryEntry, Benchmark], Run | None],
    *,
    folder: Path | None = None,
    relabellings: int = RELABELLINGS,
) -> list[GalleryRow]:
    """Return a row per benchmark, the most flawed first; one that cannot be audited says why, and the others go on.

    With a `folder`, each audit is a file in it, and is not computed again for the same content and seed; one with
    a judge is, from the judge's run.
    """
    rows = []
    for entry in entries:
        try:
            rows.append(_row(entry, opens(entry), judges, folder=folder, relabellings=relabellings))
        except PluralrmError as exc:
            rows.append(GalleryRow(entry, None, str(exc), incomplete=isinstance(exc, OutageError)))
    return sorted(rows, key=_rank)


def _row(
    entry: GalleryEntry,
    benchmark: Benchmark,
    judges: Callable[[GalleryEntry, Benchmark], Run | None],
    *,
    folder: Path | None,
    relabellings: int,
) -> GalleryRow:
    run = judges(entry, benchmark)
    key = digest([__version__, benchmark.content_hash, benchmark.card.cluster, entry.seed, relabellings])
    path = None if folder is None else folder / f"{key}.json"
    if run is None and path is not None and path.exists():
        try:
            return GalleryRow(entry, Audit.from_json(json.loads(path.read_text(encoding="utf-8"))))
        except (ValueError, TypeError, KeyError) as exc:
            raise SpecError(f"{path} holds no audit ({exc}); delete it, and it is computed again") from exc
    result = audit(benchmark, seed=entry.seed, judge=run, relabellings=relabellings)
    if path is not None and run is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(result.to_json(), indent=1) + "\n")
    return GalleryRow(entry, result, incomplete=run is not None and not run.complete)


def _rank(row: GalleryRow) -> tuple[bool, int, float, str]:
    lead = max((cell.excess.value for cell in row.cells.values() if cell.flaw and cell.excess), default=0.0)
    return row.audit is None, -len(row.flaws), -lead, row.entry.name


def gallery_verdict(rows: Sequence[GalleryRow]) -> str:
    """Return how many benchmarks have a flaw, and how many could not be audited."""
    audited = [row for row in rows if row.audit is not None]
    flawed = sum(bool(row.flaws) for row in audited)
    sentence = f"Flawed: {flawed} of {counted(len(audited), 'audited benchmark')}."
    return sentence + f" Not audited: {len(rows) - len(audited)}." * (len(audited) < len(rows))


def error_rates(rows: Sequence[GalleryRow]) -> str:
    """Return how often sound benchmarks are accused: each, and any of the gallery."""
    number = sum(row.audit is not None for row in rows)
    return (
        f"A sound benchmark is accused in at most {ERROR_RATE:.0%} of audits, all its probes together (Holm). Were "
        f"all {number} sound, {ERROR_RATE * number:.1f} of them would be accused on average, and at least one of them "
        f"with a chance of up to {1 - (1 - ERROR_RATE) ** number:.0%}."
    )


def _texts(cell: GalleryCell) -> Iterator[str]:
    if cell.status != "none found":
        yield cell.status
    if cell.size:
        yield cell.size
    if cell.p is not None:
        p = p_value(cell.p)
        yield f"p {p}" if p.startswith("<") else f"p = {p}"


def gallery_page(title: str, rows: Sequence[GalleryRow]) -> str:
    """Return the page: the table with a row per benchmark, and what its columns mean."""
    return render(
        "pluralrm.audit",
        "gallery.html.jinja",
        title=title,
        verdict=gallery_verdict(rows),
        flawed=any(row.flaws for row in rows),
        rates=error_rates(rows),
        kinds=[(kind, ", ".join(names)) for kind, names in KINDS.items()],
        tables=_tables(rows),
        numbers=PageTable(
            "Strongest guesses",
            columns("benchmark", *(*KINDS, DUPLICATES), look="wide"),
            [[row.entry.name, *map(_chip, row.cells.values())] for row in rows if row.audit is not None],
        ),
        details=[row for row in rows if row.audit is not None],
        version=__version__,
    ).html


def _tables(rows: Sequence[GalleryRow]) -> Iterator[PageTable]:
    """Yield the table of leaks, and one of what could not be audited and why."""
    kinds = (*KINDS, DUPLICATES)
    audited = [(row, row.audit) for row in rows if row.audit is not None]
    if audited:
        heads = [TableColumn("benchmark"), TableColumn("items", "n"), TableColumn("of"), *columns(*kinds)]
        lines = [
            [row.entry.name, f"{audit.items:,}", counted(audit.clusters, audit.unit), *map(_brief, row.cells.values())]
            for row, audit in audited
        ]
        yield PageTable("Benchmarks and kinds of leak", heads, lines, look="sorts")
    if missing := [[row.entry.name, row.entry.spec, row.problem] for row in rows if row.audit is None]:
        heads = [*columns("not audited", "spec"), TableColumn("why", "wide")]
        yield PageTable("Not audited", heads, missing)


def _brief(cell: GalleryCell) -> TableCell | str:
    if cell.flaw:
        return _chip(cell)
    head, _, interval = cell.size.partition(" ")
    return TableCell(head or cell.status, f"{interval} {cell.status if cell.status == TOO_FEW else ''}".strip())


def _chip(cell: GalleryCell) -> str:
    look = "bad" if cell.flaw else "partial" if cell.status == TOO_FEW else ""
    return chip(cell.status, look, _note(cell))


def _note(cell: GalleryCell) -> str:
    return ", ".join(filter(None, [cell.by, *(text for text in _texts(cell) if text != cell.status)]))
