"""One benchmark's runs, measured: everything that a section of the report says, before it is put in words; what the
report calls runs and conditions, and the part that each plays; what it says of people beside the runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from pluralrm.audit.result import Audit
from pluralrm.core import OTHERS, Run
from pluralrm.errors import MetricError
from pluralrm.metrics import Leaderboard, Standing, leaderboard
from pluralrm.metrics.comparison import chance
from pluralrm.metrics.contrast import ColdStart, cold_start
from pluralrm.metrics.estimates import marks, remark
from pluralrm.metrics.overview import Overview, model_names, overview
from pluralrm.metrics.personalization import Personalization, personalization
from pluralrm.metrics.plural import Plural, plural
from pluralrm.metrics.prompts import PromptUse, prompt_use
from pluralrm.metrics.roles import lender
from pluralrm.metrics.sides import among_people
from pluralrm.metrics.units import once
from pluralrm.pages import Tone
from pluralrm.report.human import REHEARSAL, ArmAccuracy, Human, PlanJudgments
from pluralrm.runs import load_manifest, load_runs
from pluralrm.runs.records import RunManifest
from pluralrm.runs.store import without_copies
from pluralrm.text import counted, listed, percent, share, typeset


def name(run: Run) -> str:
    """Return how the report calls a run."""
    return " · ".join([run.model, marked(run.condition, tone(run)), *marks(run)])


def marked(condition: str, part: Tone) -> str:
    """Return how the report calls a condition: one that shows the rubric is marked, and not by colour alone."""
    return f"{condition} · ORACLE" if part == "oracle" else condition


def tone(run: Run) -> Tone:
    """Return the part that the run's condition plays."""
    if "oracle" in run.reveals:
        return "oracle"
    if run.reveals & {*OTHERS, "false_pairs"}:
        return "swapped" if lender(run) in {"swapped", "nearest"} else "noise"
    return "own" if run.reveals else "none"


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
    return [RunSource(run, load_manifest(run.path)) for run in without_copies(load_runs(paths))[0]]


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

    @property
    def tests(self) -> int:
        """Over how many pairs the p-values are adjusted."""
        return sum(pair.tested for pair in self.table.differences)


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
    plural: Plural | None = None
    """What users have of the models; None where no user has items that can be split."""
    human: Human | None = None

    @cached_property
    def runs(self) -> list[Run]:
        """All runs, in the order of the leaderboards."""
        return [run for board in self.boards for run in board.runs]

    @cached_property
    def entries(self) -> list[Standing]:
        """All entries, in the order of the leaderboards."""
        return [entry for board in self.boards for entry in board.table.entries]

    @cached_property
    def among_people(self) -> Mapping[tuple[str, str], str]:
        """By model and condition, what is said of a run where several people judged the same candidates."""
        return {(result.model, result.condition): typeset(str(result)) for result in among_people(self.runs)}

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
    runs = [_renamed(run, names[run.model]) for run in specs]
    boards = tuple(_board(condition, members, seed) for condition, members in _tables(runs).items())
    missing: dict[str, str] = {}
    finished = [run for run in runs if not remark(run)]
    measured: list[Personalization] = []
    personal: list[Personalization] = []
    curves: list[ColdStart] = []
    try:
        measured = personalization([run for run in specs if not remark(run)], seed=seed)
        personal, curves = [replace(member, model=names[member.model]) for member in measured], cold_start(finished)
    except MetricError as exc:
        missing["personalization"] = str(exc)
    table = overview(specs, seed=seed, personal=measured)
    sources = tuple(RunSource(run, source.manifest) for run, source in zip(runs, group, strict=True))
    prompts = tuple(prompt_use(run) for run in finished if "consistency" in run.card.metrics)
    return Section(sources, boards, table, names, tuple(personal), tuple(curves), prompts, missing, _users(specs, seed))


def _users(runs: Sequence[Run], seed: int) -> Plural | None:
    try:
        result = plural(runs, seed=seed)
    except MetricError:  # no users, or no finished run
        return None
    return result if result.unsplit < result.users else None


def _renamed(run: Run, name: str) -> Run:
    """Return the run of a model by another name, the same object again for what is computed of it."""
    return once(run, ("renamed", name), lambda: replace(run, model=name))


def _tables(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return the runs that are ranked together, by condition where they are many."""
    if len(runs) <= MOST_IN_ONE_BOARD:
        return {"": list(runs)}
    tables: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda run: (_order(tone(run)), run.condition)):
        tables.setdefault(run.condition, []).append(run)
    return tables


def _order(part: Tone) -> int:
    return ("none", "own", "swapped", "noise", "oracle").index(part)


def _board(condition: str, runs: Sequence[Run], seed: int) -> Board:
    table = leaderboard(runs, seed=seed)
    waiting = list(runs)
    ordered = []
    for entry in table.entries:
        key = (entry.summary.model, entry.summary.condition, entry.summary.complete)
        keys = [(run.model, run.condition, not remark(run)) for run in waiting]
        ordered.append(waiting.pop(keys.index(key)))
    return Board(condition, table, tuple(ordered))


# ---------------------------------------------------------------- people in words


def people_told(human: Human, runs: Sequence[Run]) -> Iterator[str]:
    """Yield the sentences on people and runs, the first letters small."""
    ceiling, narrative = human.ceiling, human.narrative
    if ceiling is not None:
        yield _inferred(human, ceiling)
        yield _same_sight(human, runs)
        yield from _beyond(human, ceiling, runs)
    else:
        yield f"{_mark(human)}no annotator judged by the posts alone, so what people infer from them is not known."
    if narrative is not None:
        yield (
            f"{_mark(human)}people who were told what the asker has in mind named the labelled answer in "
            f"{percent(narrative.one)} per cent of {counted(narrative.one.n, 'judgment')} (is the label right?), on "
            f"{narrative.majority.n:,} of the {counted(human.of, 'item')}."
        )


def _inferred(human: Human, ceiling: ArmAccuracy) -> str:
    saw = "posts alone" if ceiling.arm == "posts" else "prompt alone"
    condition = f" ({human.condition})" if ceiling.arm == "posts" else ""
    return (
        f"{_mark(human)}people who saw the {saw}{condition} named the labelled answer in {percent(ceiling.one)} per "
        f"cent of {counted(ceiling.one.n, 'judgment')}, and by majority on {percent(ceiling.majority)} per cent of the "
        f"items: what can be inferred, estimated on {human.items:,} of the {counted(human.of, 'item')}, and no bound."
    )


def _same_sight(human: Human, runs: Sequence[Run]) -> str:
    """Return what the best run earns that saw what these people saw, on exactly their items."""
    pairs = [(accuracy, run) for accuracy, run in zip(human.runs, runs, strict=True) if not remark(run)]
    same = [(accuracy, run) for accuracy, run in pairs if run.condition == human.condition]
    where = f"on exactly these items a scorer that knows nothing earns {share(human.chance)}"
    if not same:
        return f"{where}; no run saw what these people saw ({human.condition})."
    best, run = max(same, key=lambda pair: pair[0].value)
    return f"{where}, and the best of {counted(len(same), 'run')} that saw the same, {name(run)}, {percent(best)}."


def _beyond(human: Human, ceiling: ArmAccuracy, runs: Sequence[Run]) -> Iterator[str]:
    """Say which runs lie above a single person: they found what people did not, in the posts or elsewhere."""
    high = ceiling.one.high
    above = [
        name(run)
        for run, accuracy in zip(runs, human.runs, strict=True)
        if tone(run) in {"none", "own"}
        and not remark(run)
        and high is not None
        and accuracy.low is not None
        and accuracy.low > high
    ]
    if above:
        yield (
            f"above one person by intervals that do not touch: {listed(above)}. A model may infer more than a person; "
            "or the label can be guessed by other means, which an audit looks for."
        )


def _mark(human: Human) -> str:
    return REHEARSAL if human.rehearsal else ""
