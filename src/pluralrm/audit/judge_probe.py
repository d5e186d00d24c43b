"""The judge without the user: a model that is told nothing of who asks picks an answer, as a probe of the labels.

Where the answers of an item are of equal general quality, as Personalized RewardBench claims of its own, such a judge
can only guess. One that is right more often shows that preferred answers are better for anybody. The model is scored as
any model is, under the condition `none`; here its run is read.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from pluralrm.audit.comparisons import Comparisons
from pluralrm.audit.guesses import Guess, by_rule
from pluralrm.audit.result import AuditFinding, Measures, Probe, Status, share
from pluralrm.core import Benchmark, Estimate, Failure, Item, Row, Run
from pluralrm.errors import MetricError
from pluralrm.metrics import bounds, positions
from pluralrm.metrics.estimates import measure_rows
from pluralrm.metrics.units import numbers, top_credit
from pluralrm.stats.clusters import FloatArray, IntArray
from pluralrm.text import counted, estimated

NAME, TOPIC = "judge", "judge without the user"
MARGIN = 0.05
"""How far from chance an accuracy still counts as at chance."""
STEADY = 0.5
"""The position consistency below which a judge goes by the place more than by the answers."""


def readable(table: Comparisons, benchmark: Benchmark, run: Run) -> Run | str:
    """Return the run with one row for each labelled item, in their order, or why there is none yet.

    A run on other content, or one that was shown something of the user, is an error.
    """
    if run.benchmark_hash != benchmark.content_hash:
        raise MetricError(
            f"the judge's run is on {run.benchmark} ({run.benchmark_hash[:8]}), and {benchmark.card.name} "
            f"({benchmark.content_hash[:8]}) is audited. Score the judge on this benchmark, under the condition 'none'."
        )
    if run.reveals:
        shown = ", ".join(sorted(run.reveals))
        raise MetricError(f"the judge's run shows {shown}; wanted one under the condition 'none'.")
    rows = {row.item: row for row in run.rows if not row.open}
    known = [rows[item.id] for item in table.items if item.id in rows]
    if len(known) < len(table.items):
        return f"{run.model} has answered {len(known):,} of {counted(len(table.items), 'item')}"
    if not all(map(_placed_alike, known, table.items)):
        raise MetricError(
            "the judge's run has the candidates in other places. Audit with the seed that it was scored with."
        )
    return replace(run, rows=tuple(known))


def _placed_alike(row: Row, item: Item) -> bool:
    return row.candidate_ids == item.candidate_ids and row.lengths == tuple(map(len, item.candidates))


def guess(table: Comparisons, labels: IntArray, run: Run) -> Guess:
    """Return what the judge earns; a failed item is one that it got wrong, so failing never makes a leak."""
    scores = [_scores(row, order) for row, order in zip(run.rows, table.orders, strict=True)]
    return by_rule(table, labels, {"": np.concatenate(scores)})


def _scores(row: Row, order: Sequence[int]) -> FloatArray:
    """Return the scores in the order of the table; where the item failed, those of a wrong pick."""
    scores = numbers(row)
    if scores is None:
        wrong = next(place for place in order if place != row.preferred)
        scores = [float(place == wrong) for place in range(len(order))]
    return np.array([scores[place] for place in order])


# ---------------------------------------------------------------- what is said of it


def finding(table: Comparisons, run: Run | str | None, probe: Probe | None) -> AuditFinding:
    """Return how the judge fares, and what that rests on: failures, ties, agreement of its orders."""
    if run is None:
        return AuditFinding(
            TOPIC, "needs a judge", "no model was asked to pick answers without the user (--judge MODEL)", {}
        )
    if isinstance(run, str) or probe is None or probe.accuracy is None:
        return AuditFinding(TOPIC, "not available", run if isinstance(run, str) else "nothing was guessed", {})
    measures = _measures(run, probe.accuracy)
    status, verdict = _verdict(table, run, probe, measures)
    right = f"right in {estimated(probe.accuracy)}% of {counted(len(run.rows), 'item')}"
    told = [f"{run.model}, told nothing of the user, is {right}", *_rests_on(run, measures)]
    return AuditFinding(TOPIC, status, f"{'; '.join(told)}: {verdict}", measures)


def _measures(run: Run, accuracy: Estimate) -> Measures:
    found: dict[str, Estimate | float | int] = {"accuracy": accuracy, "ties": measure_rows(run.rows, "tie_rate")}
    with suppress(MetricError):  # only a judge that compares answers side by side has orders
        if (agreeing := positions(run, average="micro").consistency) is not None:
            found["position consistency"] = agreeing
    if (ends := bounds(run, "accuracy", average="micro")) is not None:
        found |= {"accuracy at worst": ends.worst, "accuracy at best": ends.best, "failed": ends.failed}
    return found


def _rests_on(run: Run, measures: Measures) -> Iterator[str]:
    if (failed := measures.get("failed")) is not None:
        kinds = Counter(score.kind for row in run.rows for score in row.scores if isinstance(score, Failure))
        ends = [estimated(_number(measures[f"accuracy at {end}"])) for end in ("worst", "best")]
        yield f"{failed} failed ({', '.join(sorted(kinds))}): {ends[0]} if all of them were wrong, {ends[1]} if right"
    yield f"it ties in {estimated(_number(measures['ties']))}%"
    if "position consistency" in measures:
        yield f"its orders agree in {estimated(_number(measures['position consistency']))}%"


def _number(measure: Estimate | float) -> float:
    return measure.value if isinstance(measure, Estimate) else measure


def _verdict(table: Comparisons, run: Run, probe: Probe, measures: Measures) -> tuple[Status, str]:
    if table.balanced:
        return "ok", "by design a prompt says which answer is wanted"
    if probe.leak:
        return "warn", "preferred answers are better for anybody, so part of any accuracy is general quality, not taste"
    if _number(measures["ties"]) == 1:
        return "note", "it prefers no answer to another, so it says nothing of them"
    if _number(measures.get("position consistency", 1.0)) < STEADY:
        return "note", "it goes by the place more than by the answers, so it says little of them"
    return _near_chance(table, run)


def _near_chance(table: Comparisons, run: Run) -> tuple[Status, str]:
    """Return on which side of chance the accuracy lies, or that it lies at chance, whatever the failed items were."""
    worst, best = (
        share([end if row.failed else top_credit(row) for row in run.rows], table.clusters, level=0.9)
        for end in (0.0, 1.0)
    )
    if worst.low is not None and best.high is not None:
        if best.high < table.chance:
            return "note", "it prefers the other answers"
        # An interval of 90% inside the margin is both one-sided tests passed at 5%.
        if table.chance - MARGIN <= worst.low and best.high <= table.chance + MARGIN:
            return "ok", f"at chance, within {100 * MARGIN:.0f} points"
    return "note", "neither chance nor a difference from it is shown"
