"""One benchmark's runs, measured: everything that a section of the report says, before it is put in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from pluralrm.audit.result import Audit
from pluralrm.core import Run
from pluralrm.errors import MetricError
from pluralrm.metrics import Leaderboard, Standing, leaderboard
from pluralrm.metrics.coldstart import ColdStart, cold_start
from pluralrm.metrics.comparison import chance
from pluralrm.metrics.estimates import remark
from pluralrm.metrics.overview import Overview, model_names, overview
from pluralrm.metrics.personalization import Personalization, personalization
from pluralrm.metrics.prompts import PromptUse, prompt_use
from pluralrm.pages.style import Tone
from pluralrm.report.human import Human, PlanJudgments
from pluralrm.report.words import tone
from pluralrm.runs import load_manifest, load_runs
from pluralrm.runs.records import RunManifest


@dataclass(frozen=True, slots=True)
class RunSource:
    """A run and its run.json."""

    run: Run
    manifest: RunManifest


@dataclass(frozen=True, slots=True)
class Beside:
    """What a report shows beside the runs of the same content: audits, and what people said."""

    audits: Sequence[Audit] = ()
    people: Sequence[PlanJudgments] = ()


def read_sources(paths: Sequence[str | Path]) -> list[RunSource]:
    """Return the runs at or below some paths, in the order of their folders; runs without any row are an error."""
    return [RunSource(run, load_manifest(run.path)) for run in load_runs(paths)]


MOST_IN_ONE_BOARD = 32
"""Above this number of runs there is one leaderboard per condition: who is compared with whom stays readable."""


@dataclass(frozen=True)
class Board:
    """A leaderboard, and its runs in the same order."""

    condition: str
    """The one condition of all its runs; empty where conditions are ranked together."""
    table: Leaderboard
    runs: tuple[Run, ...]

    @property
    def pairs(self) -> list[tuple[Standing, Run]]:
        """Each entry with its run."""
        return list(zip(self.table.entries, self.runs, strict=True))


@dataclass(frozen=True)
class Section:
    """The runs on one set of items. `missing` says what could not be computed, and why."""

    sources: tuple[RunSource, ...]
    boards: tuple[Board, ...]
    overview: Overview
    names: Mapping[str, str] = field(default_factory=dict)
    """What models are called, by the specs that the overview has; all else has these names."""
    personal: tuple[Personalization, ...] = ()
    curves: tuple[ColdStart, ...] = ()
    prompts: tuple[PromptUse, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    human: Human | None = None

    @cached_property
    def runs(self) -> list[Run]:
        """All runs, in the order of the leaderboards."""
        return [run for board in self.boards for run in board.runs]

    @cached_property
    def entries(self) -> list[Standing]:
        """All entries, in the order of the leaderboards."""
        return [entry for board in self.boards for entry in board.table.entries]

    def spec(self, name: str) -> str:
        """Return the spec of the model that is called so."""
        return next((spec for spec, called in self.names.items() if called == name), name)

    @property
    def first(self) -> Run:
        """A run that speaks for all where they agree: on items, card and domains."""
        return self.runs[0]

    @cached_property
    def clusters(self) -> int:
        """How many users, or records, stand behind the items."""
        return len({row.cluster for row in self.first.rows})

    @cached_property
    def chance(self) -> float:
        """What a scorer that knows nothing earns, averaged as the card says."""
        return chance(self.first)

    @property
    def complete(self) -> bool:
        """True when no run of the section lacks items that it was asked to score."""
        return all(entry.summary.complete for entry in self.entries)


def sections(sources: Sequence[RunSource], *, seed: int = 0) -> list[Section]:
    """Return one Section per set of items, in the order of their first run; runs without a scored item are in none."""
    groups: dict[tuple[str, frozenset[str]], list[RunSource]] = {}
    for source in sources:
        if source.run.done:
            items = frozenset(row.item for row in source.run.rows)
            groups.setdefault((source.run.benchmark_hash, items), []).append(source)
    return [_section(group, seed) for group in groups.values()]


def _section(group: Sequence[RunSource], seed: int) -> Section:
    """Return what is said of runs on the same items, each model by its name: specs may hold paths of this machine."""
    specs = [source.run for source in group]
    names = model_names(specs)
    runs = [replace(run, model=names[run.model]) for run in specs]
    boards = tuple(_board(condition, members, seed) for condition, members in _tables(runs).items())
    missing: dict[str, str] = {}
    finished = [run for run in runs if not remark(run)]
    measured: list[Personalization] = []
    personal: list[Personalization] = []
    curves: list[ColdStart] = []
    try:
        measured = personalization([run for run in specs if not remark(run)], seed=seed)
        personal, curves = [replace(one, model=names[one.model]) for one in measured], cold_start(finished)
    except MetricError as exc:
        missing["personalization"] = str(exc)
    found = overview(specs, seed=seed, personal=measured)
    sources = tuple(RunSource(run, source.manifest) for run, source in zip(runs, group, strict=True))
    prompts = tuple(_prompts(finished))
    return Section(sources, boards, found, names, tuple(personal), tuple(curves), prompts, missing)


def _tables(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return the runs that are ranked together, by condition where they are many."""
    if len(runs) <= MOST_IN_ONE_BOARD:
        return {"": list(runs)}
    found: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda run: (_order(tone(run)), run.condition)):
        found.setdefault(run.condition, []).append(run)
    return found


def _order(part: Tone) -> int:
    return ("none", "own", "swapped", "noise", "oracle").index(part)


def _board(condition: str, runs: Sequence[Run], seed: int) -> Board:
    table = leaderboard(runs, seed=seed)
    waiting = list(runs)
    ordered = []
    for entry in table.entries:
        told = (entry.summary.model, entry.summary.condition, entry.summary.complete)
        known = [(run.model, run.condition, not remark(run)) for run in waiting]
        ordered.append(waiting.pop(known.index(told)))
    return Board(condition, table, tuple(ordered))


def _prompts(runs: Sequence[Run]) -> list[PromptUse]:
    return [prompt_use(run) for run in runs if "consistency" in run.card.metrics]
