"""The first screen: one row per model with bars, a verdict and what unfolds below it; controls are no models."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from markupsafe import Markup

from pluralrm.core import Estimate, Role, Run
from pluralrm.metrics import Standing
from pluralrm.metrics.cost import personalization_costs
from pluralrm.metrics.estimates import marks, remark
from pluralrm.metrics.overview import MOODS, Mood, Overview, OverviewRow, answer, leaders, sentence
from pluralrm.metrics.personalization import VERDICTS, Number, Personalization
from pluralrm.pages import PageTable, QuadrantPoint, TableCell, TableColumn, interval_bar, quadrants
from pluralrm.report.reading import METRIC_NAMES, is_baseline
from pluralrm.report.sections import Section, marked
from pluralrm.report.tables import at_best, ceiling, places
from pluralrm.text import difference, interval, p_value, percent, share, typeset

_ROLES: Mapping[Role, str] = {
    "none": "none",
    "own": "own",
    "swapped": "other user",
    "nearest": "nearest user",
    "noise": "noise",
    "shuffled": "shuffled labels",
    "group": "their group",
    "outside": "outside their group",
    "least": "another least important trait",
    "oracle": "oracle",
}
BEHIND: Mapping[Number, tuple[str, Callable[[Estimate], str]]] = {
    "swap_sensitivity": ("flips with another user’s posts", percent),
    "oracle_gap": ("oracle − own", difference),
    "gap_closed": ("oracle gap closed", percent),
    "gain_over_nearest": ("own − nearest user", difference),
    "gain_over_noise": ("own − noise", difference),
    "gain_over_shuffled": ("own − shuffled labels", difference),
    "gain_over_group": ("own − group", difference),
    "group_over_outside": ("group − outside", difference),
    "gain_over_least": ("own − another least important trait", difference),
    "least_sensitivity": ("flips with another least important trait", percent),
    "gain_at_equal_length": ("gain at equal length", difference),
    "gain_at_equal_quality": ("gain at equal quality", difference),
    "user_spread": ("spread over users", percent),
}
"""What stands behind lift and gain, and how each is written."""
_BESIDE = ("pair", "consistency")


@dataclass(frozen=True, slots=True)
class NumberCell:
    """A number of the table: its text, its interval in words, its bar, and what it is sorted by."""

    text: str
    interval: str = ""
    bar: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One row: a model under the user's own context, or one of its control conditions, which unfold nothing."""

    spec: str
    run: Run
    place: int
    """The run's place among those of the items."""
    kind: Literal["model", "baseline", "control"]
    cells: Sequence[NumberCell]
    failed: str
    verdict: str = ""
    mood: Mood = ""
    words: str = ""
    contexts: PageTable | None = None
    facts: Sequence[tuple[str, str]] = ()

    @property
    def oracle(self) -> bool:
        """Whether the run sees the rubric."""
        return "oracle" in self.run.reveals

    @property
    def marks(self) -> str:
        """What sets the run apart from others, in capitals."""
        unfinished = ["UNFINISHED"] * bool(remark(self.run))
        return " · ".join([*marks(self.run), *["ORACLE"] * self.oracle, *unfinished])


@dataclass(frozen=True)
class ModelTable:
    """The table of a section's models, the plot of lift and gain beside it, and the answer above both."""

    heads: Sequence[str]
    rows: Sequence[ModelRow]
    plot: Markup
    answer: str
    good: bool
    count: str
    """How many of the models are personalized, such as 2/9; nothing where none was asked."""


def model_table(section: Section) -> ModelTable:
    """Return the first screen of a section."""
    overview, names = section.overview, section.names
    drawn = _Rows(section, _reach(overview))
    owns = {(names[row.model], row.condition) for row in overview.rows}
    entries = {(entry.summary.model, entry.summary.condition): entry for entry in reversed(section.entries)}
    rows = [drawn.model(row, entries[names[row.model], row.condition]) for row in overview.rows]
    controls = [
        drawn.control(entry, index)
        for index, entry in enumerate(section.entries)
        if (entry.summary.model, entry.summary.condition) not in owns
    ]
    personal = [row for row in overview.rows if row.personal is not None]
    points = [
        QuadrantPoint(names[row.model], row.lift, row.gain, MOODS.get(row.verdict, ""))
        for row in personal
        if row.lift is not None and row.gain is not None
    ]
    return ModelTable(
        _heads(overview),
        [*rows, *controls],
        quadrants(points, f"Lift and gain of each model, {overview.benchmark}") if points else Markup(),
        _answer(section),
        bool(overview.personalized),
        f"{len(overview.personalized)}/{len(personal)}" if personal else "",
    )


def _answer(section: Section) -> str:
    overview, names = section.overview, section.names
    if costs := personalization_costs(section.runs):
        return " ".join(cost.sentence() for cost in costs)
    if text := answer(overview, names):
        return text
    reason = section.missing.get("personalization", "")
    if overview.own and reason:
        return f"What the user’s context adds was not computed: {reason.rstrip('.')}."
    if all(row.unfinished for row in overview.rows):
        return "No model is scored on every item yet: items that are left count as failed."
    if overview.own:
        return sentence(overview.rows[0], overview, names)
    unseen = "No run saw the user’s own posts: nothing here is evidence of personalization." * overview.unseen
    return " ".join(filter(None, [leaders(overview, names), unseen])) or (
        f"{names[overview.rows[0].model]} earns {percent(overview.rows[0].metrics[overview.headline])}."
    )


def _heads(overview: Overview) -> list[str]:
    headline = METRIC_NAMES.get(overview.headline, overview.headline)
    if overview.own:
        return [headline, "lift: own − none", "gain: own − other user"]
    first = overview.rows[0]
    beside = [METRIC_NAMES[name] for name in _BESIDE if name in first.metrics]
    return [headline, *beside, *["prompt sensitivity"] * (first.sensitivity is not None)]


def _reach(overview: Overview) -> float:
    """Return how far the widest interval of a difference reaches from 0: all bars have one scale."""
    estimates = [
        estimate for row in overview.rows for estimate in (row.lift, row.gain, row.sensitivity) if estimate is not None
    ]
    ends = [
        abs(end) for estimate in estimates for end in (estimate.value, estimate.low, estimate.high) if end is not None
    ]
    return max([0.05, *ends])


@dataclass(frozen=True)
class _Rows:
    """The rows of a section; `reach` is the end of the scale of differences."""

    section: Section
    reach: float

    def model(self, row: OverviewRow, entry: Standing) -> ModelRow:
        """Return the row of a model, with what unfolds below it."""
        overview, names, mood = self.section.overview, self.section.names, MOODS.get(row.verdict, "")
        cells = [self._share(row.metrics[overview.headline])]
        if overview.own:
            cells += [self._difference(estimate, mood) for estimate in (row.lift, row.gain)]
        else:
            cells += [self._share(row.metrics[name]) for name in _BESIDE if name in row.metrics]
            cells += [self._difference(row.sensitivity, mood)] * (row.sensitivity is not None)
        keys = [(run.model, run.condition) for run in self.section.runs]
        base = self._row(entry, keys.index((names[row.model], row.condition)), cells)
        return replace(
            base,
            kind="baseline" if is_baseline(row.model) else "model",
            verdict=row.verdict,
            mood=mood,
            words=typeset(sentence(row, overview, names)),
            contexts=None if row.personal is None else self._contexts(row.personal),
            facts=list(self._facts(row, entry)),
        )

    def control(self, entry: Standing, index: int) -> ModelRow:
        """Return the row of a run under a control condition."""
        value = entry.summary.metrics[entry.summary.headline]
        width = len(_heads(self.section.overview))
        return self._row(entry, index, [self._share(value), *[NumberCell("")] * (width - 1)])

    def _row(self, entry: Standing, index: int, cells: Sequence[NumberCell]) -> ModelRow:
        run, summary = self.section.runs[index], entry.summary
        failed = summary.metrics[summary.headline].failed
        return ModelRow(self.section.spec(run.model), run, index, "control", cells, f"{failed:,}{at_best(summary)}")

    def _share(self, value: Estimate) -> NumberCell:
        bar = interval_bar(value, self.section.chance, ceiling(self.section.human))
        return NumberCell(share(value.value), interval(value), bar, f"{value.value:.6f}")

    def _difference(self, value: Estimate | None, mood: Mood) -> NumberCell:
        if value is None:
            return NumberCell("–")
        number, _, span = difference(value).partition(" ")
        bar = interval_bar(value, 0.0, ends=(-self.reach, self.reach), look=mood or "open")
        return NumberCell(number, span, bar, f"{value.value:.6f}")

    def _contexts(self, personal: Personalization) -> PageTable:
        """Return what the model earns with each context, the user's own among them."""
        rows = []
        for role, title in _ROLES.items():
            if role in personal.accuracy:
                value, red = personal.accuracy[role], "alarm" * (role == "oracle")
                condition = marked(personal.conditions[role], "oracle" if red else "none")
                earned = TableCell(share(value.value), interval(value))
                bar = interval_bar(value, self.section.chance, look=red)
                rows.append((TableCell(title, look=red), TableCell(condition, look=red), earned, bar))
        columns = (TableColumn("sees"), TableColumn("condition", "spec"), TableColumn("accuracy", "n"), TableColumn(""))
        name = self.section.names[personal.model]
        return PageTable(f"{name} with each context", columns, rows, f"What {name} earns with each context")

    def _facts(self, row: OverviewRow, entry: Standing) -> Iterator[tuple[str, str]]:
        """Yield what is known of a model beside its row, each with its name."""
        overview = self.section.overview
        if row.rank is not None:
            yield "rank", f"{places(row.rank)} of {sum(row.rank is not None for row in overview.rows)}"
        if (published := entry.summary.published.get(overview.headline)) is not None:
            reason = f": {published.reason}" if published.reason else ""
            by = f" by {published.source}" if published.source else ""
            yield ("paper" if by else f"by “{published.rule}”"), f"{share(published.value)}{by}{reason}"
        for text in entry.summary.trained:
            yield "trained", text
        if entry.summary.imported:
            yield "imported", entry.summary.imported
        if entry.summary.dtype:
            yield "dtype", entry.summary.dtype
        if among := self.section.among_people.get((entry.summary.model, row.condition)):
            yield "among people", among
        if (personal := row.personal) is None:
            return
        yield "p of own − other, adjusted", p_value(personal.p_adjusted)
        why = (VERDICTS[personal.verdict], personal.standing, *_by_failing(personal))
        yield "verdict", f"{personal.verdict}: {'; '.join(typeset(text) for text in why if text)}"
        for key, (title, written) in BEHIND.items():
            if (value := personal.numbers.get(key)) is not None:
                yield title, written(value)


def _by_failing(personal: Personalization) -> list[str]:
    return [f"the {name} is {why}" for name, why in personal.by_failing.items()]


def remarks(section: Section) -> list[str]:
    """Return what could not be measured, and why: one line per reason with the models that share it."""
    reasons: dict[str, list[str]] = {}
    for pair in section.personal:
        who = f"{pair.model} · {pair.conditions['own']}"
        for key in ("lift", "gain", *BEHIND):
            if key in pair.absent:
                label = BEHIND[key][0] if key in BEHIND else key
                reasons.setdefault(f"{label}: {pair.absent[key]}", []).append(who)
        for note in pair.notes:
            reasons.setdefault(note, []).append(who)
    every = len(section.personal)
    return [reason if len(who) == every else f"{', '.join(who)}: {reason}" for reason, who in reasons.items()]
