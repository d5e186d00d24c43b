"""The tables of a section as plain cells: what the page's template lays out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pluralrm.core import Estimate, Failure, Run
from pluralrm.metrics import Entry
from pluralrm.metrics.official import RULES
from pluralrm.metrics.personalization import VERDICTS, Personalization
from pluralrm.report.human import SIGHT, Human
from pluralrm.report.reading import METRIC_NAMES
from pluralrm.report.sections import Board, Section
from pluralrm.report.words import counted, difference, interval, name, p_value, share, told, typeset
from pluralrm.stats import RankInterval

_BAR = 132
"""Pixels from 0 to 100 per cent in the bar of a leaderboard row."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Where the value, the ends of its interval and chance stand, in pixels; and people, where some were asked."""

    value: float
    low: float | None
    high: float | None
    chance: float
    people: "Stretch | None" = None


class Stretch(NamedTuple):
    """What people earn, in pixels: the value, and where its interval begins and how wide it is."""

    value: float
    low: float
    width: float


@dataclass(frozen=True, slots=True)
class Rank:
    """One row of a leaderboard."""

    rank: str
    model: str
    condition: str
    oracle: bool
    bar: Bar
    value: str
    interval: str
    apart: str
    published: str
    failed: str
    complete: bool


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One cell of the matrix of differences; `kind` is difference, p or self."""

    kind: str
    text: str
    more: str = ""
    significant: bool = False
    positive: bool = False


@dataclass(frozen=True, slots=True)
class PersonalizationRow:
    """One row of the table of lift and gain; each number stands apart from its interval."""

    model: str
    condition: str
    lift: tuple[str, str]
    gain: tuple[str, str]
    verdict: str
    personalized: bool
    p: str
    others: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class FailureRow:
    """How often one run failed in one way, with an example."""

    run: str
    kind: str
    items: str
    example: str


OTHERS = {
    "swap_sensitivity": ("changed", told),
    "oracle_gap": ("oracle − own", difference),
    "gap_closed": ("gap closed", told),
    "gain_over_nearest": ("own − nearest", difference),
    "gain_over_noise": ("own − noise", difference),
    "gain_over_shuffled": ("own − shuffled labels", difference),
    "gain_at_equal_length": ("gain at equal length", difference),
    "gain_at_equal_quality": ("gain at equal quality", difference),
    "user_spread": ("spread over users", told),
}
"""What stands behind the pair, and how each is written."""


def ranks(board: Board, chance: float, human: Human | None = None) -> list[Rank]:
    """Return the rows of a leaderboard, the best first."""
    people = None if human is None or human.ceiling is None else _stretch(human.ceiling.one)
    first = board.table.reference
    words = ["above it"] * first + ["first"] + [_apart(entry) for entry in board.table.entries[first + 1 :]]
    pairs = zip(words, board.table.entries, strict=True)
    apart = ["" if entry.rank is None else word for word, entry in pairs]
    rows = [_rank(entry, run, chance, apart=words) for (entry, run), words in zip(board.pairs, apart, strict=True)]
    return [replace(row, bar=replace(row.bar, people=people)) for row in rows]


def _stretch(found: Estimate) -> Stretch:
    value, low, high = (_pixel(found.value if end is None else end) for end in (found.value, found.low, found.high))
    return Stretch(value, low, round(high - low, 1))


def _apart(entry: Entry) -> str:
    return "" if entry.p_best is None else f"{'yes' if entry.below_best else 'not shown'}, p {_p(entry.p_best)}"


def _rank(entry: Entry, run: Run, chance: float, *, apart: str) -> Rank:
    summary = entry.summary
    value = summary.metrics[summary.headline]
    published = summary.published.get(summary.headline)
    ends = [None if end is None else _pixel(end) for end in (value.low, value.high)]
    return Rank(
        rank=_places(entry.rank),
        model=summary.model,
        condition=summary.condition + " · TRAINED" * bool(summary.trained) + " · SYNTHESISED" * bool(summary.pairs),
        oracle="oracle" in run.reveals,
        bar=Bar(_pixel(value.value), ends[0], ends[1], _pixel(chance)),
        value=share(value.value),
        interval=interval(value),
        apart=apart,
        published="–" if published is None else share(published.value),
        failed=f"{value.failed:,}" + ("" if summary.bounds is None else f", at best {share(summary.bounds.best)}"),
        complete=summary.complete,
    )


def _places(rank: RankInterval | None) -> str:
    """Return the ranks that the data leave open; an unfinished run has none."""
    if rank is None:
        return "–"
    return f"{rank.low}–{rank.high}" if rank.low != rank.high else str(rank.low)


def _p(p: float) -> str:
    text = p_value(p)
    return text if text.startswith("<") else f"= {text}"


def _pixel(value: float) -> float:
    return round(4 + _BAR * value, 1)


def seen_by_people(human: Human) -> list[tuple[str, ...]]:
    """Return one row per arm: what was seen, one person, the majority, and how many judged and said neither."""
    return [
        (
            SIGHT[arm.arm],
            told(arm.one),
            told(arm.majority),
            f"{arm.majority.n:,}",
            f"{arm.one.n:,}",
            f"{arm.annotators:,}",
            f"{arm.equal:,}",
            f"{arm.untold:,}",
        )
        for arm in human.arms
    ]


def metric_header(board: Board) -> list[str]:
    """Return the names of the metrics beside the headline, each one that any run has."""
    found = dict.fromkeys(key for entry in board.table.entries for key in entry.summary.metrics)
    return [key for key in found if key != board.table.headline]


def metric_name(key: str) -> str:
    """Return what a reader calls a metric: `accuracy, mean of domains` for accuracy_macro."""
    for ending, words in (("_macro", "mean of domains"), ("_micro", "mean of items")):
        if key.endswith(ending):
            return f"{METRIC_NAMES.get(key.removesuffix(ending), key)}, {words}"
    return METRIC_NAMES.get(key, key)


def metric_rows(board: Board) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return, per run, the other metrics, each number apart from its interval."""
    keys = metric_header(board)
    return [(name(run), [_parted(told(entry.summary.metrics.get(key))) for key in keys]) for entry, run in board.pairs]


def reasons(board: Board) -> list[tuple[str, list[str]]]:
    """Return why a published number differs from ours, each reason with the runs that share it."""
    found: dict[str, list[str]] = {}
    for entry, run in board.pairs:
        for key, published in entry.summary.published.items():
            ours = entry.summary.metrics[key].value
            if published.value is None or abs(published.value - ours) > 1e-12 or published.first is not None:
                by = published.source or f"the rule “{published.rule}”"
                numbers = f"{metric_name(key)} {share(ours)} here, {share(published.value)} by {by}"
                found.setdefault(f"{numbers}: {published.reason}", []).append(name(run))
    return [(reason, list(dict.fromkeys(runs))) for reason, runs in found.items()]


def formula(board: Board) -> str:
    """Return the name of the column beside the headline: the paper's on its own items, elsewhere that of its rule."""
    found = [one for entry in board.table.entries if (one := entry.summary.published.get(board.table.headline))]
    return "as published" if any(one.source for one in found) else " / ".join(dict.fromkeys(one.rule for one in found))


def formulas(board: Board) -> list[str]:
    """Return what the rules say that the column is named by; nothing where it is the paper's."""
    found = [one for entry in board.table.entries if (one := entry.summary.published.get(board.table.headline))]
    rules = dict.fromkeys(one.rule for one in found if not any(other.source for other in found))
    return [f"{rule}: {RULES[rule]}" for rule in rules]


def methods(board: Board) -> list[str]:
    """Return how the intervals of the headline were computed."""
    values = [entry.summary.metrics[board.table.headline] for entry in board.table.entries]
    return list(dict.fromkeys(value.method for value in values))


def tests(board: Board) -> int:
    """Return over how many pairs the p-values of a leaderboard are adjusted."""
    return sum(pair.tested for pair in board.table.differences)


def family(section: Section) -> str:
    """Return over how many models the p-values of lift and gain are adjusted, and why a table of pairs says more."""
    number = sum(one.tested for one in section.personal)
    words = f", adjusted over {counted(number, 'test')} (Holm; a model blind to whose posts are shown is none)"
    most = max((tests(board) for board in section.boards), default=0)
    return f"{words}. “Every pair of runs” adjusts over {most:,}, so p may be larger there" if most > number else words


def matrix(board: Board) -> list[tuple[str, list[MatrixCell]]]:
    """Return per run its name and its cells: differences above the diagonal, p below."""
    size = len(board.runs)
    cells = [[MatrixCell("self", "") for _ in range(size)] for _ in range(size)]
    for pair in board.table.differences:
        value = pair.difference
        text, span = _parted(difference(value))
        cells[pair.first][pair.second] = MatrixCell("difference", text, span, pair.significant, value.value > 0)
        cells[pair.second][pair.first] = MatrixCell("p", p_value(pair.p_adjusted), "", pair.significant)
    return [(name(run), row) for run, row in zip(board.runs, cells, strict=True)]


def pairs(section: Section) -> tuple[list[str], list[PersonalizationRow]]:
    """Return the header of what stands behind lift and gain, only what is known of any model, and the rows."""
    known = [key for key in OTHERS if any(one.numbers.get(key) is not None for one in section.personal)]  # type: ignore[call-overload]
    return [OTHERS[key][0] for key in known], [_pair(one, known) for one in section.personal]


def _pair(found: Personalization, known: Sequence[str]) -> PersonalizationRow:
    return PersonalizationRow(
        model=found.model,
        condition=found.conditions["own"],
        lift=_parted(difference(found.lift)),
        gain=_parted(difference(found.gain)),
        verdict="; ".join(
            part
            for part in (f"{found.verdict}: {typeset(VERDICTS[found.verdict])}", found.standing, *_by_failing(found))
            if part
        ),
        personalized=found.personalized,
        p=p_value(found.p_adjusted),
        others=tuple(_parted(OTHERS[key][1](found.numbers.get(key))) for key in known),  # type: ignore[call-overload]
    )


def _by_failing(found: Personalization) -> list[str]:
    return [f"the {name} is {why}" for name, why in found.by_failing.items()]


def _parted(text: str) -> tuple[str, str]:
    """Return a number and, apart, its interval or why it has none."""
    value, _, span = text.partition(" ")
    return value, span


def remarks(section: Section) -> list[str]:
    """Return what could not be measured, and why: one line per reason with the models that share it."""
    found: dict[str, list[str]] = {}
    for one in section.personal:
        who = f"{one.model} · {one.conditions['own']}"
        for key in ("lift", "gain", *OTHERS):
            if key in one.absent:
                label = OTHERS[key][0] if key in OTHERS else key
                found.setdefault(f"{label}: {one.absent[key]}", []).append(who)
        for note in one.notes:
            found.setdefault(note, []).append(who)
    every = len(section.personal)
    return [reason if len(who) == every else f"{', '.join(who)}: {reason}" for reason, who in found.items()]


def failures(section: Section, *, text: bool) -> list[FailureRow]:
    """Return the kinds of failures of each run, the most frequent first; without `text`, no example."""
    found = []
    for run in section.runs:
        first = {row.item: failure for row in run.rows if (failure := _first(row.scores)) is not None}
        for kind, count in Counter(failure.kind for failure in first.values()).most_common():
            item, example = next((item, failure) for item, failure in first.items() if failure.kind == kind)
            words = f"{item}: {example.detail}" if text else item
            found.append(FailureRow(name(run), kind, counted(count, "item"), words))
    return found


def _first(scores: Sequence[float | Failure]) -> Failure | None:
    return next((score for score in scores if isinstance(score, Failure)), None)
