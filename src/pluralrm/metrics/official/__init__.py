"""Metrics by the exact formula of a paper, by paper; each is explained beside our headline."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from pluralrm.benchmarks.ppe import SETS
from pluralrm.core import Row, Run
from pluralrm.errors import SpecError
from pluralrm.metrics.estimates import reported
from pluralrm.metrics.official.formula import RULES, PublishedMetric
from pluralrm.metrics.official.orders import (
    JUDGEBENCH,
    LLMBAR,
    PRB,
    published_accuracy,
    published_judgebench,
    published_llmbar,
)
from pluralrm.metrics.official.ppe import ANSWERS, CHOICES, published_answers, published_choices
from pluralrm.metrics.official.rmgap import SOURCE as RMGAP
from pluralrm.metrics.official.rmgap import published_rmgap
from pluralrm.metrics.official.strict import (
    REWARDBENCH,
    REWARDBENCH_2,
    REWARDMATH,
    RM_BENCH,
    RMB,
    published_rewardbench,
    published_rewardbench2,
    published_rewardmath,
    published_rm_bench,
    published_rmb,
)
from pluralrm.models import rates

__all__ = ["RULES", "PublishedMetric", "published"]

_PAPERS: Mapping[str, str] = {
    "prb": PRB,
    "rmgap": RMGAP,
    "rewardbench": REWARDBENCH,
    "rewardbench2": REWARDBENCH_2,
    "rm-bench": RM_BENCH,
    "rmb": RMB,
    "judgebench": JUDGEBENCH,
    "judgebench.claude": JUDGEBENCH,
    "llmbar": LLMBAR,
    "rewardmath": REWARDMATH,
    **{f"ppe.{name}": "PPE" for name in SETS},
}
"""The paper of each benchmark by the name on its card: no other rows bear it, so none has the paper's column."""

_BY_RULE: Mapping[str, Callable[[Sequence[Row], str], PublishedMetric]] = {
    REWARDBENCH: published_rewardbench,
    REWARDBENCH_2: published_rewardbench2,
    RM_BENCH: published_rm_bench,
    RMB: published_rmb,
    JUDGEBENCH: published_judgebench,
    LLMBAR: published_llmbar,
    REWARDMATH: published_rewardmath,
    CHOICES: published_choices,
    ANSWERS: published_answers,
}
"""By the `rule` of a card, what computes the headline of rows; the second argument is the paper, or empty."""


def published(run: Run) -> dict[str, PublishedMetric]:
    """Return the as-published number of each reported metric that a paper defines; empty where none does.

    An unfinished run has none: a paper's formula may leave failed items out, and failing would pay.
    """
    names, source = reported(run), _PAPERS.get(run.card.name, "")
    metrics = {}
    if compute := _BY_RULE.get(run.card.rule):
        metrics = {names[0]: compute(run.rows, source)} if run.rows else {}
        if not run.whole:
            metrics = {
                name: _none(number, "the run has some of the items, and the rule needs all.")
                for name, number in metrics.items()
            }
    elif "accuracy" in names and set(map(len, map(attrgetter("scores"), run.rows))) <= {2}:
        metrics["accuracy"] = published_accuracy(run.rows, run.card.average, source=source, open_items=_open(run))
    if "consistency" in names:
        whole = run.whole and not _open(run)
        numbers = published_rmgap(run.rows, source=source, whole=whole, rates=bool(source) and _rates(run.model))
        metrics |= {name: number for name, number in numbers.items() if name in names}
    if still_open := _open(run):
        why = f"the run is unfinished, {still_open:,} of its items are open."
        metrics = {name: number if number.value is None else _none(number, why) for name, number in metrics.items()}
    return metrics


def _none(number: PublishedMetric, why: str) -> PublishedMetric:
    return replace(number, value=None, domains=dict.fromkeys(number.domains), reason=why, parts={})


def _open(run: Run) -> int:
    """Return how many items have no row, or one that an outage left open."""
    return max(run.items, len(run.rows)) - run.done


def _rates(model: str) -> bool:
    """Return whether the model rates one answer at a time; not where the name is no spec, as in runs made elsewhere."""
    try:
        return rates(model)
    except SpecError:
        return False
