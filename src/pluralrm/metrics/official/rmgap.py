"""RMGAP as published (arXiv 2605.01831): Pair, BoN and Consistency, per domain, then the mean over domains.

    Pair        = share of (winner, other) in which the winner scores strictly higher
    BoN         = share of prompts whose winner scores strictly higher than all three others
    Consistency = share of prompt groups that rank the four responses alike in all three phrasings

A prompt with a NaN score leaves Pair and BoN, and their denominators. In Consistency equal scores are ordered by
response key, so a constant scorer gets 1.0, and a group with a missing phrasing counts 0. The paper does not say what
a NaN does there; a prompt with one has no complete ranking of four, so here it counts as a missing phrasing.
A domain that has no prompt left has no Pair and no BoN, and leaves their mean.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pluralrm.core import Failure, Row
from pluralrm.metrics.credits import numbers, pair_ties, top_tied
from pluralrm.metrics.official.as_published import Published, count, macro_mean, sentence
from pluralrm.metrics.phrasings import PHRASINGS, groups

SOURCE = "RMGAP"


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
    """The three metrics of one domain; Pair and BoN are None where every prompt has a NaN."""

    pair: float | None
    bon: float | None
    consistency: float


def domain_scores(table: Sequence[Scored]) -> dict[str, RmgapScores]:
    """Return the three metrics per domain, domains sorted by name."""
    domains: dict[str, list[Scored]] = {}
    for prompt in table:
        domains.setdefault(prompt.domain, []).append(prompt)
    return {domain: _scores(prompts) for domain, prompts in sorted(domains.items())}


def published_rmgap(rows: Sequence[Row]) -> dict[str, Published]:
    """Return Pair, BoN and Consistency as published, under the names of our metrics, each with its reason."""
    reasons = {"pair": _pair_reason(rows), "bon": _bon_reason(rows), "consistency": _consistency_reason(rows)}
    domains = domain_scores([_scored(row) for row in rows])
    found = {}
    for place, name in enumerate(RmgapScores._fields):
        values = {domain: scores[place] for domain, scores in domains.items()}
        found[name] = Published(SOURCE, macro_mean(values.values()), values, reasons[name])
    return found


def _scores(prompts: Sequence[Scored]) -> RmgapScores:
    pairs: list[bool] = []
    wins: list[bool] = []
    rankings: dict[tuple[str, str], list[tuple[str, ...] | None]] = {}
    for prompt in prompts:
        known = not any(math.isnan(score) for score in prompt.scores.values())
        ranking = tuple(sorted(prompt.scores, key=lambda key: (-prompt.scores[key], key))) if known else None
        rankings.setdefault((prompt.record, prompt.group), []).append(ranking)
        if known:
            above = [
                prompt.scores[prompt.winner] > score for key, score in prompt.scores.items() if key != prompt.winner
            ]
            pairs += above
            wins.append(all(above))
    alike = [len(found) == PHRASINGS and None not in found and len(set(found)) == 1 for found in rankings.values()]
    return RmgapScores(
        sum(pairs) / len(pairs) if pairs else None, sum(wins) / len(wins) if wins else None, sum(alike) / len(alike)
    )


def _scored(row: Row) -> Scored:
    scores = [math.nan if isinstance(score, Failure) else score for score in row.scores]
    return Scored(
        row.domain,
        row.tags["record"],
        row.tags["group"],
        row.tags["phrasing"],
        row.candidate_ids[row.preferred],
        dict(zip(row.candidate_ids, scores, strict=True)),
    )


def _left_out(rows: Sequence[Row]) -> str:
    failed = sum(row.failed for row in rows)
    return f"{count(failed, 'failed item')}: wrong here, left out as published" if failed else ""


def _pair_reason(rows: Sequence[Row]) -> str:
    tied = sum(pair_ties(row) for row in rows)
    return sentence(tied and f"{count(tied, 'tied pair')}: half a win here, a loss as published", _left_out(rows))


def _bon_reason(rows: Sequence[Row]) -> str:
    tied = sum(top_tied(row) and _winner_on_top(row) for row in rows)
    return sentence(
        tied and f"{count(tied, 'tie')} at the top: credit shared here, losses as published", _left_out(rows)
    )


def _winner_on_top(row: Row) -> bool:
    scores = numbers(row)
    return scores is not None and scores[row.preferred] == max(scores)


def _consistency_reason(rows: Sequence[Row]) -> str:
    found = groups(rows)
    tied = sum(group.complete and any(_any_tie(row) for row in group.rows) for group in found)
    broken = sum(not group.complete for group in found)
    return sentence(
        tied and f"{count(tied, 'group')} with ties: not consistent here, ordered by response key as published",
        broken and f"{count(broken, 'group')} with a failed or missing phrasing: 0 in both",
    )


def _any_tie(row: Row) -> bool:
    scores = numbers(row)
    return scores is not None and len(set(scores)) < len(scores)
