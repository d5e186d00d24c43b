"""RMGAP as published (arXiv 2605.01831): Pair, BoN and Consistency, per domain, then the mean over domains.

    Pair        = share of (winner, other) in which the winner scores strictly higher
    BoN         = share of prompts whose winner scores strictly higher than all three others
    Consistency = share of prompt groups that rank the four responses alike in all three phrasings

A prompt with a NaN score leaves Pair and BoN, and their denominators, and counts as a missing phrasing of its group;
an infinite score is a number. In Consistency equal scores are ordered by response key, so a constant scorer gets 1.0,
and a group with a missing phrasing counts 0. A domain that has no prompt left has a Pair and a BoN of 0.

A judge that ranks is asked once per prompt, in an order shuffled by one `random.Random(0)` over all prompts of the
file; a rank r of four scores 4, 3, 2, 1, and a reply without a ranking counts as the order shown. Here it may have been
asked in several rotations of another shuffle: the drawn order counts where it was asked, otherwise the first asked.
A judge that rates one response at a time from 1 to 10 has a 5 where its reply holds no number.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pluralrm.core import Failure, Row, Vote
from pluralrm.metrics.official.formula import (
    PublishedMetric,
    infinite,
    macro_mean,
    named_by,
    number,
    sentence,
    shared,
    tied_on_top,
)
from pluralrm.metrics.units import PHRASINGS, groups, numbers, pair_ties, winner
from pluralrm.text import counted

SOURCE = "RMGAP"
SEED = 0
UNRATED = 5.0
"""The published rating of a response whose reply holds no number."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One prompt of the score table: whose phrasing it is, which response should win, and each response's score."""

    domain: str
    record: str
    group: str
    phrasing: str
    winner: str
    scores: Mapping[str, float]


class RmgapScores(NamedTuple):
    """The three metrics of one domain."""

    pair: float
    bon: float
    consistency: float


def domain_scores(table: Sequence[Scored]) -> dict[str, RmgapScores]:
    """Return the three metrics per domain, domains sorted by name."""
    domains: dict[str, list[Scored]] = {}
    for prompt in table:
        domains.setdefault(prompt.domain, []).append(prompt)
    return {domain: _scores(prompts) for domain, prompts in sorted(domains.items())}


def published_rmgap(
    rows: Sequence[Row], *, source: str = SOURCE, whole: bool = True, rates: bool = False
) -> dict[str, PublishedMetric]:
    """Return Pair, BoN and Consistency as published, under the names of our metrics, each with its reason.

    The rows stand in the order of the file. Draws go by a prompt's place among all of its prompts, so where the rows
    are not the `whole` file a judge that ranks has no number. `rates` says that the scores are a judge's ratings.
    """
    if rates and (unread := sum(map(_unread, rows))):
        metrics = published_rmgap([_rated(row) for row in rows], source=source, whole=whole)
        why = f"{counted(unread, 'unreadable rating')}: failed in the headline, {UNRATED:g} as published; "
        return {name: replace(metric, reason=why + metric.reason) for name, metric in metrics.items()}
    groups(rows)  # raises where a row does not say which group it belongs to
    ranks = any(_ranks(row, vote) for row in rows for vote in row.votes)
    rule = "one order" if ranks else "ties lose"
    if ranks and not whole:
        why = "the drawn orders go by a prompt's place in the whole file, and these are not all of its prompts."
        nothing = dict.fromkeys(sorted({row.domain for row in rows}))
        return {name: PublishedMetric(rule, source, None, nothing, why) for name in RmgapScores._fields}
    table, reasons = _drawn(rows) if ranks else ([_scored(row) for row in rows], _reasons(rows, source))
    domains = domain_scores(table)
    metrics = {}
    for index, name in enumerate(RmgapScores._fields):
        values = {domain: scores[index] for domain, scores in domains.items()}
        metrics[name] = PublishedMetric(rule, source, macro_mean(values.values()), values, reasons[name])
    return metrics


def _scores(prompts: Sequence[Scored]) -> RmgapScores:
    pairs: list[bool] = []
    wins: list[bool] = []
    rankings: dict[tuple[str, str], list[tuple[str, ...] | None]] = {}
    for prompt in prompts:
        complete = not any(math.isnan(score) for score in prompt.scores.values())
        ranking = tuple(sorted(prompt.scores, key=lambda key: (-prompt.scores[key], key))) if complete else None
        rankings.setdefault((prompt.record, prompt.group), []).append(ranking)
        if complete:
            above = [
                prompt.scores[prompt.winner] > score for key, score in prompt.scores.items() if key != prompt.winner
            ]
            pairs += above
            wins.append(all(above))
    alike = [len(group) == PHRASINGS and None not in group and len(set(group)) == 1 for group in rankings.values()]
    return RmgapScores(sum(pairs) / max(1, len(pairs)), sum(wins) / max(1, len(wins)), sum(alike) / len(alike))


def _scored(row: Row, scores: Sequence[float] | None = None) -> Scored:
    """Return a row of the table, by scores other than the row's own where some are given."""
    numbers = [number(score) for score in row.scores] if scores is None else scores
    return Scored(
        row.domain,
        row.tags["record"],
        row.tags["group"],
        row.tags["phrasing"],
        row.candidate_ids[winner(row)],
        dict(zip(row.candidate_ids, numbers, strict=True)),
    )


# ---------------------------------------------------------------- judges that rate, and that rank


def _unread(row: Row) -> int:
    return sum(isinstance(score, Failure) and score.kind == "parse" for score in row.scores)


def _rated(row: Row) -> Row:
    """Return the row with the published rating where a reply could not be read."""
    unread = (isinstance(score, Failure) and score.kind == "parse" for score in row.scores)
    return replace(
        row, scores=tuple(UNRATED if gone else score for gone, score in zip(unread, row.scores, strict=True))
    )


def _ranks(row: Row, vote: Vote) -> bool:
    """Return whether a vote is on all candidates at once."""
    return len(vote.order) == len(row.scores) > 2


def _drawn(rows: Sequence[Row]) -> tuple[list[Scored], dict[str, str]]:
    """Return the table that the script makes of a judge's rankings, and the one reason of all three metrics."""
    draws = random.Random(SEED)
    table, unread, other = [], 0, 0
    for row in rows:
        places = list(range(len(row.scores)))
        draws.shuffle(places)
        by_key = sorted(range(len(row.scores)), key=lambda index: row.candidate_ids[index])
        order = tuple(by_key[index] for index in places)
        outcomes = {vote.order: vote.outcome for vote in row.votes if _ranks(row, vote)}
        if outcomes and order not in outcomes:
            order, other = next(iter(outcomes)), other + 1
        ranking = [int(index) for index in outcomes.get(order, "").split(">") if index.isdecimal()]
        if len(ranking) != len(order):
            ranking, unread = list(order), unread + 1
        table.append(_scored(row, [float(len(ranking) - ranking.index(index)) for index in range(len(ranking))]))
    why = sentence(
        f"one order per prompt, shuffled with seed {SEED}",
        unread and f"failures ({unread:,}) counted as the order shown",
        other
        and f"the drawn order was not asked on {other:,} of {counted(len(rows), 'prompt')}: the first asked counts",
    )
    return table, dict.fromkeys(RmgapScores._fields, why)


# ---------------------------------------------------------------- why a number differs


def _reasons(rows: Sequence[Row], source: str) -> dict[str, str]:
    """Return per metric in one sentence, with the counts of these rows, why it differs from ours."""
    by = named_by(source)
    tied, top = sum(map(pair_ties, rows)), sum(map(tied_on_top, rows))
    endless = sum(infinite(row.scores) and not _missing(row) for row in rows)
    failed = sum(map(_missing, rows))
    left_out = (
        endless and f"{counted(endless, 'item')} with an infinite score: failed in the headline, compared {by}",
        failed and f"{counted(failed, 'failed item')}: wrong in the headline, left out {by}",
        *(f"{domain} has no other item: 0 {by}" for domain in _empty(rows)),
    )
    grouped = groups(rows)
    level = sum(group.complete and any(_any_tie(row) for row in group.rows) for group in grouped)
    broken = sum(len(group.rows) < PHRASINGS or any(map(_missing, group.rows)) for group in grouped)
    return {
        "pair": sentence(tied and f"{counted(tied, 'tied pair')}: {shared(rows, 'half a win')}a loss {by}", *left_out),
        "bon": sentence(
            top and f"{counted(top, 'tie')} at the top: {shared(rows, 'credit shared')}a loss {by}", *left_out
        ),
        "consistency": sentence(
            level and f"{counted(level, 'group')} with ties: not consistent here, ordered by response key {by}",
            endless and f"{counted(endless, 'item')} with an infinite score: not consistent here, ranked {by}",
            broken and f"{counted(broken, 'group')} with a failed or missing phrasing: 0 in both",
        ),
    }


def _missing(row: Row) -> bool:
    """Return whether some score of a row is no number, not even an infinite one."""
    return any(math.isnan(number(score)) for score in row.scores)


def _empty(rows: Sequence[Row]) -> list[str]:
    """Return the domains in which every row misses a score."""
    return sorted({row.domain for row in rows} - {row.domain for row in rows if not _missing(row)})


def _any_tie(row: Row) -> bool:
    scores = numbers(row)
    return scores is not None and len(set(scores)) < len(scores)
