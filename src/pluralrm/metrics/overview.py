"""The answer in one row per model: how good it is with the user's own context, what that is worth, and a verdict.

    lift   own - none     what the user's own posts (pairs, notes) add
    gain   own - other    what it is worth that they are this user's, not another's

`metrics.personalization` measures both and reaches the verdict; here it stands beside the accuracy.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

from pluralrm.core import Estimate, Role, Run, Ties
from pluralrm.display import Brief, Record, Tabular, html_table
from pluralrm.errors import MetricError, SpecError
from pluralrm.metrics.comparison import chance
from pluralrm.metrics.estimates import remark
from pluralrm.metrics.leaderboard import Leaderboard, leaderboard
from pluralrm.metrics.personalization import ON_GROUPS, Personalization, PersonalVerdict, on_groups, personalization
from pluralrm.metrics.prompts import prompt_sensitivity
from pluralrm.metrics.roles import is_own
from pluralrm.metrics.summary import Summary
from pluralrm.metrics.units import item_ids, with_ties
from pluralrm.specs import short_names
from pluralrm.stats import RankInterval
from pluralrm.text import (
    TextForm,
    aligned_text,
    bounds,
    counted,
    csv_text,
    estimated,
    flat,
    latex_text,
    listed,
    markdown_line,
    markdown_text,
    points,
    without_interval,
)

if TYPE_CHECKING:
    from pluralrm.metrics.plural import Plural

WORDS: Mapping[PersonalVerdict, str] = {
    "personalized": "personalized",
    "reversed": "reversed",
    "lift only": "lift only",
    "gain only": "gain only",
    "lift below": "lift below 0",
    "gain below": "gain below 0",
    "by subject": "by subject",
    "by group": "by group",
    "by failing": "by failing",
    "open": "inconclusive",
    "unequal": "control unequal",
    "blind": "ignores user",
    "inconclusive": "inconclusive",
    "unknown": "control missing",
}
"""What a table says for each verdict."""

Mood = Literal["good", "bad", "partial", ""]
MOODS: Mapping[str, Mood] = {
    "personalized": "good",
    "reversed": "bad",
    "lift below 0": "bad",
    "gain below 0": "bad",
    "lift only": "partial",
    "gain only": "partial",
    "by subject": "partial",
    "by group": "partial",
}
"""How a verdict is coloured; those that leave the question open have no colour."""


@dataclass(frozen=True, slots=True, repr=False)
class OverviewRow(Brief):
    """One model under one condition. `personal` is None where the user's context was hidden, or the run has gaps."""

    model: str
    condition: str
    summary: Summary
    rank: RankInterval | None
    personal: Personalization | None
    unfinished: str = ""
    sensitivity: Estimate | None = None
    oracle: bool = False  # the model saw the rubric: an upper bound that has no rank

    @property
    def metrics(self) -> Mapping[str, Estimate]:
        """The metrics by name, the headline first."""
        return self.summary.metrics

    @property
    def lift(self) -> Estimate | None:
        """Own minus none."""
        return None if self.personal is None else self.personal.lift

    @property
    def gain(self) -> Estimate | None:
        """Own minus other."""
        return None if self.personal is None else self.personal.gain

    @property
    def verdict(self) -> str:
        """The verdict in a word; nothing where none is sought."""
        if self.oracle:
            return "sees the rubric"
        return self.unfinished.partition(",")[0] or (WORDS[self.personal.verdict] if self.personal else "")


@dataclass(frozen=True, slots=True, repr=False)
class Overview(Brief):
    """Models on the same items, the best first. `own` are the conditions that show the user's own context."""

    benchmark: str
    items: int
    clusters: int
    cluster: str
    chance: float
    headline: str
    rows: tuple[OverviewRow, ...]
    own: tuple[str, ...]
    board: Leaderboard
    unseen: bool
    """True where there are users and no model was shown anything of theirs."""
    unmeasured: str = ""
    """Why nothing is said of personalization, where the runs cannot be compared."""

    @property
    def over(self) -> str:
        """What intervals are over: `users`, or `users and prompts` where users share prompts."""
        return f"{self.cluster}s{' and prompts' * (' × ' in self.rows[0].metrics[self.headline].method)}"

    @property
    def personalized(self) -> list[OverviewRow]:
        """The models that are personalized."""
        return [row for row in self.rows if row.personal is not None and row.personal.personalized]

    def label(self, row: OverviewRow, name: Mapping[str, str]) -> str:
        """Return what a row's model is called, with its condition where it has several rows."""
        several = sum(other.model == row.model for other in self.rows) > 1
        return name[row.model] + f" ({row.condition})" * several

    @property
    def resolution(self) -> float | None:
        """The half width of the widest interval of a gain; None without one."""
        gains = [row.personal.gain for row in self.rows if row.personal is not None and row.personal.gain is not None]
        return max((half for gain in gains if (half := half_width(gain)) is not None), default=None)


def half_width(estimate: Estimate) -> float | None:
    """Return half of the interval's width; None without an interval."""
    if estimate.low is None or estimate.high is None:
        return None
    return (estimate.high - estimate.low) / 2


def same_items(runs: Iterable[Run]) -> list[list[Run]]:
    """Return the runs in groups that scored the same items of the same benchmark content."""
    groups: dict[tuple[str, frozenset[str]], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.benchmark_hash, frozenset(item_ids(run))), []).append(run)
    return list(groups.values())


def content_mark(first: Run, every: Iterable[Run]) -> str:
    """Return the start of a content hash where other content goes by the same name, such as a file before an edit."""
    several = any(run.benchmark == first.benchmark and run.benchmark_hash != first.benchmark_hash for run in every)
    return f", content {first.benchmark_hash[:8]}" * several


def overview(
    runs: Sequence[Run],
    *,
    seed: int = 0,
    personal: Sequence[Personalization] | None = None,
    ties: Ties = "share",
) -> Overview:
    """Return one row per model and own condition, for runs on the same items; without own conditions one row per run.

    Runs under control conditions have no row: they are what lift and gain are computed from. A model that did not
    see the user's own context, though others did, has the row of its run without context. `personal` is what
    `personalization` measured of the finished runs, where that is known. `ties` is the rule of the headline; lift and
    gain share ties.
    """
    unmeasured = ""
    try:
        measured = (
            personalization([run for run in runs if not remark(run)], seed=seed) if personal is None else personal
        )
    except MetricError as exc:
        measured, unmeasured = [], str(exc)
    by_key = {(result.model, result.conditions["own"]): result for result in measured}
    main = main_runs(runs)
    ruled = [with_ties(run, ties) for run in main]
    board = leaderboard([run for run in ruled if "oracle" not in run.reveals] or ruled, seed=seed)
    upper = [run for run in ruled if "oracle" in run.reveals and len(board.entries) < len(ruled)]
    rows = []
    for entry in (*board.entries, *(leaderboard(upper, seed=seed).entries if upper else ())):
        key = (entry.summary.model, entry.summary.condition)
        run = entry.summary.run
        rows.append(
            OverviewRow(
                *key,
                entry.summary,
                rank=None if upper and "oracle" in run.reveals else entry.rank,
                personal=by_key.get(key),
                unfinished=remark(run),
                sensitivity=_sensitivity(run),
                oracle="oracle" in run.reveals,
            )
        )
    first = runs[0]
    own = tuple(dict.fromkeys(run.condition for run in main if is_own(run)))
    return Overview(
        first.benchmark,
        len(first.rows),
        len({row.cluster for row in first.rows}),
        first.card.cluster,
        chance(first),
        board.headline,
        tuple(rows),
        own,
        board,
        unseen=not own and first.card.cluster == "user",
        unmeasured=unmeasured,
    )


def _sensitivity(run: Run) -> Estimate | None:
    """Return how much a model reads the prompt; None where the rows are no records of several prompts."""
    if remark(run) or not all("record" in row.tags for row in run.rows):
        return None
    try:
        return prompt_sensitivity(run)
    except MetricError:
        return None


def main_runs(runs: Sequence[Run]) -> list[Run]:
    """Return the runs that have a row: own conditions, `none` of models without them, all of models without both."""
    main: list[Run] = []
    for fits in (is_own, lambda run: not run.reveals, lambda _: True):
        models = {run.model for run in main}
        main += [run for run in runs if fits(run) and run.model not in models]
    return main


# ---------------------------------------------------------------- names


def model_names(runs: Sequence[Run]) -> dict[str, str]:
    """Return what tables call each model: the name that its user gave it, or else the shortest form of its spec.

    A name that two models share says nothing: both go by their specs.
    """
    labels = {run.model: run.name for run in runs if run.name}
    names = short_names([run.model for run in runs]) | labels
    often = Counter(names.values())
    return names if max(often.values(), default=0) < 2 else short_names(list(names))


# ---------------------------------------------------------------- sentences


def answer(overview: Overview, name: Mapping[str, str]) -> str:
    """Return the answer in one or two short sentences, at most 30 words; nothing where no model has its controls."""
    rows = [row for row in overview.rows if row.personal is not None]
    if all(row.personal and row.personal.verdict == "unknown" for row in rows):
        return ""
    models = "model is" if len(rows) == 1 else "models are"
    winners = [
        f"{overview.label(row, name)} (gain {points(row.personal.gain)})"
        for row in overview.personalized
        if row.personal is not None and row.personal.gain is not None
    ]
    names = f": {', '.join(winners[:3])}{' and others' if len(winners) > 3 else ''}" if winners else ""
    first = f"{len(winners)} of {len(rows)} {models} personalized{names}."
    people, half = counted(overview.clusters, overview.cluster), overview.resolution
    return first if half is None else f"{first} {people} settle each gain to within ±{100 * half:.1f} points."


def leaders(overview: Overview, name: Mapping[str, str]) -> str:
    """Return which models may be the best; nothing of fewer than two."""
    ranked = [row for row in overview.rows if row.rank is not None]
    first = [overview.label(row, name) for row in ranked if row.rank is not None and row.rank.low == 1]
    if len(ranked) < 2 or overview.clusters < 2:
        return f"Not ranked: all items are of one {overview.cluster}." * (len(ranked) > 1)
    if len(first) == len(ranked):
        return f"Rank 1-{len(ranked)} of {len(ranked)}: no two models differ significantly."
    return f"May be the best: {listed(first)}." if len(first) > 1 else f"Best: {first[0]}."


def sentence(row: OverviewRow, overview: Overview, name: Mapping[str, str]) -> str:
    """Return what is said of one model."""
    model, personal = overview.label(row, name), row.personal
    if row.oracle:
        return f"{model} saw the rubric: an upper bound, not ranked."
    if row.unfinished:
        return f"{model} is {row.unfinished}: run the same command again."
    if personal is None:  # where the model saw the user, the reason stands below
        return "" if row.condition in overview.own else _prompt_sentence(model, row.sensitivity, seen=not overview.own)
    gain, people = personal.gain, f"{overview.clusters:,} {overview.cluster}s"
    reach = half_width(gain) if gain is not None else None
    settle = f": {people} settle a gain only to ±{100 * reach:.0f} points" if reach is not None else ""
    off = "".join(f"; the {name} is {why}" for name, why in personal.by_failing.items())
    failing = f"; failed items count {points(gain)} points at worst" if gain is not None and gain.failed else ""
    missing = [f"no {name}: {personal.absent[name]}" for name in ("lift", "gain") if name in personal.absent]
    texts: dict[PersonalVerdict, str] = {
        "personalized": f"{model} is personalized: {points(gain)} points over another user's context, "
        f"{personal.standing}.",
        "reversed": f"{model} does worse with the user's own context than with none, and than with another user's.",
        "lift only": f"{model} gains from context, but not significantly more from the user's own than from another "
        f"user's{off or settle}.",
        "gain only": f"{model} does better with the user's own context than another's, not significantly than none.",
        "lift below": f"{model} does worse with the user's own context than with none.",
        "gain below": f"{model} does worse with the user's own context than with another user's.",
        "by subject": f"{model} follows the subject, perhaps not the person: {personal.standing}.",
        "by group": f"{model} follows the group, perhaps not the person: {personal.standing}.",
        "by failing": f"{model} has no verdict: lift and gain differ from 0 only by failed items.",
        "open": f"{model} is not significantly personalized (gain: adjusted p = {_p(personal.p_adjusted)}){settle}.",
        "unequal": f"{model} has no verdict: {personal.standing}.",
        "blind": f"{model} ignores the user: its scores are the same with any user's context{failing}.",
        "inconclusive": f"{model} is not significantly personalized{off or settle}.",
        "unknown": f"{model} has no verdict: a control is missing ({'; '.join(missing)}).",
    }
    return " ".join([texts[personal.verdict], *_undecided(row.metrics.get("tie_rate")), *on_groups(personal)])


def _undecided(ties: Estimate | None) -> list[str]:
    """Return that half of the items or more are ties: a judge that follows the order, a constant head."""
    if ties is None or ties.value < 0.5:
        return []
    return [f"It decides little: {round(ties.value * ties.n):,} of {counted(ties.n, 'item')} are ties."]


def _prompt_sentence(model: str, estimate: Estimate | None, *, seen: bool) -> str:
    """Return what is said of a model that was shown nothing of a user: whether it reads the prompt."""
    if not seen:
        return f"{model} did not see the user's posts."
    if estimate is None:
        return ""
    if estimate.low is None or estimate.high is None:
        return f"{model} ignores the prompt: its scores are the same for every prompt of a record."
    if estimate.low > 0:
        return f"{model} reads the prompt: its choice earns {points(estimate)} points over the record's other prompts."
    return f"{model}'s prompt sensitivity is not significantly above 0: {points(estimate)} points."


def _p(value: float | None) -> str:
    return "–" if value is None else "<.001" if value < 0.001 else f"{value:.3f}"


# ---------------------------------------------------------------- for other tools

_CONTROLS: Mapping[str, Role] = {
    "none": "none",
    "other": "swapped",
    "nearest": "nearest",
    "noise": "noise",
    "oracle": "oracle",
}
_BESIDE = ("pair", "consistency")
"""Metrics that stand beside the headline where the card has them."""


def overview_records(overview: Overview, name: Mapping[str, str]) -> list[dict[str, object]]:
    """Return a record per model, the same keys in all, for CSV and data frames: shares from 0 to 1, as in --json."""
    records: list[dict[str, object]] = []
    optional = [
        name for name in ON_GROUPS if any(row.personal and name in row.personal.numbers for row in overview.rows)
    ]
    for row in overview.rows:
        value, personal, rank = row.metrics[overview.headline], row.personal, row.rank
        record: dict[str, object] = {"benchmark": overview.benchmark, "model": name[row.model], "spec": row.model}
        record |= {"condition": row.condition, "metric": overview.headline, **flat("value", value)}
        record |= flat("lift", row.lift) | flat("gain", row.gain)
        record |= {"verdict": row.verdict, "p": personal and personal.p_adjusted}
        record |= {"rank_low": rank and rank.low, "rank_high": rank and rank.high}
        record["paper"] = (paper := row.summary.published.get(overview.headline)) and paper.value
        earned = personal.accuracy if personal else {}
        record |= {title: _value(earned.get(role)) for title, role in _CONTROLS.items()}
        record["oracle_gap_closed"] = _value(personal.numbers["gap_closed"] if personal else None)
        for number in optional:
            record |= flat(number, personal.numbers.get(number) if personal else None)
        for title in _BESIDE:
            record |= flat(title, row.metrics.get(title))
        records.append(record | flat("prompt_sensitivity", row.sensitivity))
    return records


def _value(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.value


def overviews_text(overviews: Sequence[Overview], names: Sequence[Mapping[str, str]], form: TextForm) -> str:
    """Return overviews, each with the names of its models, as one CSV, or as a Markdown or LaTeX table for each."""
    pairs = list(zip(overviews, names, strict=True))
    if form == "csv":
        return csv_text([record for overview, name in pairs for record in overview_records(overview, name)])
    return "\n".join(_paper_table(overview, name, latex=form == "latex") for overview, name in pairs)


def _paper_table(overview: Overview, name: Mapping[str, str], *, latex: bool) -> str:
    """Return the title, the table, and a note for each reason why numbers have no interval."""
    numbers: dict[str, Estimate | None] = {}
    for row in overview.rows:
        metrics = {title: row.metrics.get(title) for title in (overview.headline, *_BESIDE)}
        cells = metrics | {"prompt sensitivity": row.sensitivity, "lift": row.lift, "gain": row.gain}
        numbers |= {f"{overview.label(row, name)} {title}": value for title, value in cells.items()}
    title, notes = _title(overview), without_interval(numbers)
    head, rows = overview_table(overview, name)
    if latex:
        return f"% {' '.join(title.split())}\n{latex_text(head, rows, notes)}"
    return "\n".join(
        [f"{markdown_line(title)}\n", markdown_text(head, rows), *(f"{markdown_line(text)}\n" for text in notes)]
    )


def _title(overview: Overview) -> str:
    people = counted(overview.clusters, overview.cluster)
    return (
        f"{overview.benchmark}, {people}, {counted(overview.items, 'item')}; chance {100 * overview.chance:.1f}; "
        "per cent and points with 95% intervals"
    )


def overview_table(overview: Overview, name: Mapping[str, str]) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the table that a paper prints: per cent and points, with 95% intervals."""
    beside = [title for title in _BESIDE if title in overview.rows[0].metrics]
    prompts = any(row.sensitivity is not None for row in overview.rows)
    head = ["model", "sees", overview.headline, *beside, *["prompt sensitivity"] * prompts]
    head += ["lift (own - none)", "gain (own - other)", "verdict"] if overview.own else []
    rows = []
    for row in overview.rows:
        cells = [name[row.model], row.condition, estimated(row.metrics[overview.headline])]
        cells += [estimated(row.metrics[title]) for title in beside]
        cells += [_points(row.sensitivity)] * prompts
        if overview.own:
            cells += [_points(row.lift), _points(row.gain), row.verdict or "–"]
        rows.append(cells)
    return head, rows


def _points(estimate: Estimate | None) -> str:
    return points(estimate) + (bounds(estimate) if estimate is not None else "")


@dataclass(frozen=True, repr=False)
class Comparison(Tabular):
    """The table of `pluralrm compare`: one row per model and own condition, for each set of items the best first."""

    overviews: tuple[Overview, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    """What models are called; the others have the shortest form of their spec that no other has."""
    groups: tuple[Sequence[Run], ...] = field(default=(), repr=False, compare=False)

    @cached_property
    def plural(self) -> "tuple[Plural, ...]":
        """The worst-served users, regret, welfare and stability, for each set of items; MetricError without users."""
        from pluralrm.metrics.plural import plural

        return tuple(plural(group) for group in self.groups)

    def _named(self) -> list[dict[str, str]]:
        return [short_names([row.model for row in overview.rows]) | dict(self.names) for overview in self.overviews]

    def records(self) -> list[Record]:
        """Return a row per model: accuracy, lift and gain with their intervals as shares of 1, and the verdict."""
        pairs = zip(self.overviews, self._named(), strict=True)
        return [row for overview, names in pairs for row in overview_records(overview, names)]

    def to_text(self, form: TextForm) -> str:
        """Return the table as 'csv', 'markdown' or 'latex', as `pluralrm compare --format` writes it."""
        if form not in get_args(TextForm):
            raise SpecError(f"form is {form!r}; wanted {listed(get_args(TextForm))}")
        return overviews_text(self.overviews, self._named(), form)

    def to_latex(self) -> str:
        """Return a LaTeX table per set of items."""
        return self.to_text("latex")

    def __str__(self) -> str:
        pairs = zip(self.overviews, self._named(), strict=True)
        tables = (
            f"{_title(overview)}\n\n{aligned_text(*overview_table(overview, names))}" for overview, names in pairs
        )
        return "\n".join(tables).rstrip()

    def _repr_html_(self) -> str:
        pairs = zip(self.overviews, self._named(), strict=True)
        return "".join(html_table(*overview_table(overview, names), _title(overview)) for overview, names in pairs)
