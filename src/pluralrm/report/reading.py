"""The result in plain words: one paragraph per section, made from the numbers and true whatever they are."""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from pluralrm.core import Estimate, Run
from pluralrm.metrics import Entry, uneven_posts
from pluralrm.metrics.personalization import VERDICTS, Personalization, Verdict
from pluralrm.report.sections import Board, Section, name, tone
from pluralrm.report.words import capital, counted, difference, listed, share, told, typeset
from pluralrm.stats.intervals import FEW_CLUSTERS

METRIC_NAMES = {
    "accuracy": "accuracy",
    "bon": "best-of-N accuracy",
    "pair": "pair accuracy",
    "consistency": "consistency",
    "all_phrasings": "right in all phrasings",
    "tie_rate": "ties at the top",
    "failure_rate": "failures",
    "length_controlled": "at equal length",
}
"""What a reader calls each metric."""


class Sentence(NamedTuple):
    """One sentence; `oracle` where it speaks of a run that was shown the rubric."""

    text: str
    oracle: bool = False


def reading(section: Section) -> list[Sentence]:
    """Return the paragraph: who is above chance, who is told apart, what context adds, what cannot be concluded."""
    return [
        _what(section),
        *_above_chance(section),
        *_apart(section),
        *_uneven(section),
        *_context(section),
        *_controls(section),
        *_prompts(section),
        *_failures(section),
        *_limits(section),
    ]


def _what(section: Section) -> Sentence:
    first, models = section.first, len({run.model for run in section.runs})
    metric = METRIC_NAMES.get(section.entries[0].summary.headline, section.entries[0].summary.headline)
    unit = counted(section.clusters, first.card.cluster)
    runs = f"{counted(len(section.runs), 'run')} of {counted(models, 'model')}"
    items = f"{counted(len(first.rows), 'item')} of {unit}"
    return Sentence(
        f"{runs} on {items}, judged by {metric}; a scorer that knows nothing earns {share(section.chance)}."
    )


def _above_chance(section: Section) -> Iterator[Sentence]:
    judged = [(entry, run) for entry, run in _pairs(section) if tone(run) in {"none", "own"}]
    if not judged:
        return
    above = [run for entry, run in judged if _headline(entry).low is not None and _low(entry) > section.chance]
    below = [run for entry, run in judged if _headline(entry).high is not None and _high(entry) < section.chance]
    if above:
        text = f"Above chance, each by its own 95% interval: {listed(_names(above))}."
    else:
        text = f"No run’s 95% interval lies above chance{' (controls aside)' * (len(judged) < len(section.runs))}."
    yield Sentence(text)
    if below:
        yield Sentence(f"Below chance, by the same measure: {listed(_names(below))}.")


def _apart(section: Section) -> Iterator[Sentence]:
    boards = [board for board in section.boards if board.table.differences]
    silent = [board for board in boards if not any(pair.significant for pair in board.table.differences)]
    for board in boards:
        if board not in silent:
            yield _told_apart(board)
    if silent:
        pairs = sum(len(board.table.differences) for board in silent)
        every = "the two runs are not" if pairs == 1 else f"none of the {counted(pairs, 'pair')} of runs is"
        where = (
            "" if len(section.boards) == 1 else "under the other conditions " if len(silent) < len(boards) else _WITHIN
        )
        yield Sentence(capital(f"{where}{every} told apart {_TEST}."))


_WITHIN = "within each condition "
_TEST = "(sign-flip tests, Holm-adjusted, 5%)"


def _told_apart(board: Board) -> Sentence:
    pairs, best = board.table.differences, board.runs[0]
    apart = sum(pair.significant for pair in pairs)
    worse = sum(entry.below_best for entry in board.table.entries)
    where = f"under {board.condition} " if board.condition else ""
    count = f"{apart} of {counted(len(pairs), 'pair')} of runs {'is' if apart == 1 else 'are'} told apart"
    leader = f"the first, {name(best)}, from {worse} of the {len(board.runs) - 1} others"
    return Sentence(capital(f"{where}{count}; {leader} {_TEST}."), "oracle" in best.reveals)


def _uneven(section: Section) -> Iterator[Sentence]:
    for uneven in uneven_posts(section.runs):
        yield Sentence(capital(f"{typeset(str(uneven))}."))


def _context(section: Section) -> Iterator[Sentence]:
    if "personalization" in section.missing:
        yield Sentence(
            f"What the user’s context adds was not computed: {section.missing['personalization'].rstrip('.')}."
        )
        return
    groups: dict[Verdict, list[Personalization]] = {}
    for found in section.personal:
        groups.setdefault(found.verdict, []).append(found)
    if not groups:
        if not section.prompts:
            yield Sentence("No finished run saw the user’s own posts, so nothing here is evidence of personalization.")
        return
    for verdict in sorted(groups, key=list(VERDICTS).index):
        yield Sentence(_verdict(verdict, groups[verdict]))
    if "personalized" not in groups:
        yield Sentence("No model is shown to be personalized.")


def _verdict(verdict: Verdict, members: Sequence[Personalization]) -> str:
    if verdict == "personalized":
        pairs = [f"{_who(one)} (lift {difference(one.lift)}, gain {difference(one.gain)})" for one in members]
        return f"Personalized, for lift and gain both lie above 0: {listed(pairs, 3)}."
    names = listed([_who(one) for one in members])
    if verdict == "blind":
        return f"Gives the same scores whoever’s posts are shown: {names}."
    if verdict == "unknown":
        lifted = [one for one in members if one.lift is not None and one.lift.low is not None and one.lift.low > 0]
        lift = f" The posts do lift {listed([_who(one) for one in lifted])}." if lifted else ""
        return f"Whether it takes this user’s posts cannot be said without all controls: {names}.{lift}"
    return f"{capital(typeset(VERDICTS[verdict]))}: {names}."


def _who(found: Personalization) -> str:
    return f"{found.model} · {found.conditions['own']}"


def _controls(section: Section) -> Iterator[Sentence]:
    shown = [(entry, run) for entry, run in _pairs(section) if tone(run) == "oracle"]
    if not shown:
        return
    best, run = max(shown, key=lambda pair: _headline(pair[0]).value)
    reached = f"{told(_headline(best))}, reached by {run.model}"
    yield Sentence(f"With the rubric in view, a control and no result, the highest is {reached}.", oracle=True)


def _prompts(section: Section) -> Iterator[Sentence]:
    if not section.prompts:
        return
    reads = [one for one in section.prompts if one.sensitivity.low is not None and one.sensitivity.low > 0]
    if reads:
        names = listed([f"{one.model} ({difference(one.sensitivity)})" for one in reads], 3)
        yield Sentence(f"Shown to judge by the prompt (its winner earns more there than under other prompts): {names}.")
    else:
        yield Sentence("No model is shown to judge by the prompt.")
    same = [one for one in section.prompts if one.one_favourite.value == 1]
    if same:
        names = listed([f"{one.model} · {one.condition}" for one in same])
        yield Sentence(f"One favourite for every prompt of a record, in all records: {names}.")


def _failures(section: Section) -> Iterator[Sentence]:
    failed = {name(run): sum(row.failed for row in run.rows) for run in section.runs}
    failing = {who: number for who, number in failed.items() if number}
    if not failing:
        yield Sentence("No item failed.")
    else:
        worst, most = max(failing.items(), key=lambda pair: pair[1])
        scored = sum(len(run.rows) for run in section.runs)
        where = f"in {counted(len(failing), 'run')}, {most:,} of them in {worst}"
        yield Sentence(f"{sum(failing.values()):,} of {scored:,} scored items failed and count as wrong, {where}.")
    if not section.complete:
        run = next(run for run in section.runs if not run.complete or len(run.rows) < run.items)
        yield Sentence(f"Unfinished: {name(run)} has {len(run.rows):,} of {counted(run.items, 'item')}.")


def _limits(section: Section) -> Iterator[Sentence]:
    unit = counted(section.clusters, section.first.card.cluster)
    if section.clusters < FEW_CLUSTERS:
        yield Sentence(
            f"So few as {unit}: intervals hold less exactly below {FEW_CLUSTERS}, and only large differences show."
        )
    reach = [
        (pair.difference.high - pair.difference.low) / 2
        for board in section.boards
        for pair in board.table.differences
        if pair.difference.low is not None and pair.difference.high is not None
    ]
    if reach:
        yield Sentence(
            f"The difference of two runs is known to within ±{share(median(reach))} points (median half-width of the "
            "95% intervals): smaller differences may exist and are not seen."
        )


def _pairs(section: Section) -> list[tuple[Entry, Run]]:
    return [pair for board in section.boards for pair in board.pairs]


def _headline(entry: Entry) -> Estimate:
    return entry.summary.metrics[entry.summary.headline]


def _low(entry: Entry) -> float:
    low = _headline(entry).low
    return -1.0 if low is None else low


def _high(entry: Entry) -> float:
    high = _headline(entry).high
    return 2.0 if high is None else high


def _names(runs: Sequence[Run]) -> list[str]:
    return [name(run) for run in runs]
