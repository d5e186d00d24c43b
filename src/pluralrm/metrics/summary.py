"""Everything that is said about one run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from operator import attrgetter

from pluralrm.card import Average
from pluralrm.core import FINAL_KINDS, OPEN_KINDS, Estimate, Row, Run, Ties, Vote
from pluralrm.display import Brief, json_fields
from pluralrm.errors import MetricError, check_type
from pluralrm.metrics.estimates import (
    ANSWERABLE,
    FailureBounds,
    as_estimate,
    bounds,
    by_domain,
    caveats,
    estimate_run,
    length_controlled,
    over,
    remark,
    reported,
    synthesised,
)
from pluralrm.metrics.official import PublishedMetric, published
from pluralrm.metrics.units import Units, once, tie_rule
from pluralrm.stats import share_interval

# ---- What the place of an answer does to a judge: read off the votes, which hold every order asked and its outcome.
#
# position consistency   share of items on which the orders asked lead to one outcome; a failed call agrees with nothing
# first position         share of calls that put the answer shown first on top; a tie, or a failed call, counts as the
#                        chance that any one place has (1/2 of a pair)
#
# A judge without position bias has a first position rate of 1/2 on pairs asked in both orders. One that always names
# the first has 1, and a consistency of 0.

CONSISTENT, FIRST = "position_consistency", "first_position"
"""Their names in a summary."""

_FAILED = frozenset((*FINAL_KINDS, *OPEN_KINDS))


@dataclass(frozen=True, slots=True)
class Positions:
    """Both numbers; `consistency` is None where every question was asked in one order only."""

    consistency: Estimate | None
    first: Estimate


def positions(run: Run, *, average: Average | None = None) -> Positions:
    """Return what the place of an answer does to this run's judge; a model without votes is an error."""
    if not any(row.votes for row in run.rows):
        raise MetricError(
            f"the rows of {run.model!r} hold no votes: it compares no answers side by side, so no place counts."
        )
    repeated = any(len(orders) > 1 for row in run.rows for orders in _questions(row))
    return Positions(_estimate(run, _consistent, average) if repeated else None, _estimate(run, _first, average))


def _estimate(run: Run, value: Callable[[Row], float], average: Average | None) -> Estimate:
    rows = run.rows
    parts = Units(
        tuple(row.item for row in rows),
        tuple(value(row) for row in rows),
        tuple(row.cluster for row in rows),
        tuple(row.domain for row in rows),
        tuple(row.failed for row in rows),
        tuple(row.prompt for row in rows),
    )
    macro = (average or run.card.average) == "macro"
    return as_estimate(
        share_interval(parts.means(macro=macro)), parts, scope=over(parts, macro=macro), note=caveats(run)
    )


def _questions(row: Row) -> Iterator[Sequence[Vote]]:
    """Yield the votes on each set of candidates."""
    sets: dict[frozenset[int], list[Vote]] = {}
    for vote in row.votes:
        sets.setdefault(frozenset(vote.order), []).append(vote)
    yield from sets.values()


def _consistent(row: Row) -> float:
    """Return 1 where every question has one outcome in all of its orders; an item without votes failed before any."""
    outcomes = [{vote.outcome for vote in votes} for votes in _questions(row)]
    return float(bool(outcomes) and all(len(winners) == 1 and not winners & _FAILED for winners in outcomes))


def _first(row: Row) -> float:
    """Return the mean over the calls; an item without any counts as chance between two."""
    values = [_named_first(vote) for vote in row.votes]
    return sum(values) / len(values) if values else 0.5


def _named_first(vote: Vote) -> float:
    if vote.outcome == "tie" or vote.outcome in _FAILED:
        return 1 / len(vote.order)
    return float(vote.outcome.partition(">")[0] == str(vote.order[0]))


class Numbers(Mapping[str, Estimate]):
    """The metrics of a run by name, each computed when it is first read; one that the rows do not allow is absent."""

    def __init__(self, compute: Mapping[str, Callable[[], Estimate | None]]) -> None:
        self._compute = compute
        self._known: dict[str, Estimate | None] = {}

    def __getitem__(self, name: str) -> Estimate:
        if name not in self._known:
            self._known[name] = self._compute[name]()
        if (estimate := self._known[name]) is None:
            raise KeyError(name)
        return estimate

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._compute if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[type[dict[str, Estimate]], tuple[dict[str, Estimate]]]:
        return dict, (dict(self),)


_SELDOM = frozenset({"pairs", "trained", "imported", "dtype"})
"""What JSON has of a run only where there is something to say."""
_FACTS = (
    *("model", "benchmark", "condition", "reveals", "complete", "pairs", "headline", "ties"),
    *("trained", "imported", "dtype"),
)


@dataclass(frozen=True, repr=False)
class Summary(Brief):
    """One run in numbers, each computed when it is first read.

    `metrics` holds the headline first, then the card's others and what every run gets: the headline by the other
    average (`accuracy_macro` or `accuracy_micro`), `tie_rate`, `failure_rate`, `length_controlled`, absent where all
    differences in length are one and the same, and, where the rows hold votes, `position_consistency` (absent where
    nothing was asked in two orders) and `first_position`.
    """

    run: Run = field(repr=False)
    model: str
    benchmark: str
    condition: str
    reveals: tuple[str, ...]
    complete: bool
    headline: str
    metrics: Mapping[str, Estimate]
    pairs: str = ""
    """Whose pairs were shown, where they are not the users' own choices."""
    ties: Ties = "share"
    """How equal scores count in accuracy, BoN and pair."""
    trained: tuple[str, ...] = ()
    """Which users or items of the benchmark the model was trained on."""
    imported: str = ""
    """Where the rows come from, where somebody else scored them."""
    dtype: str = ""
    """In which a local model was computed, where that is not float32."""

    @cached_property
    def published(self) -> Mapping[str, PublishedMetric]:
        """The metrics that a paper defines, by its own formula."""
        return published(self.run)

    @cached_property
    def domains(self) -> Mapping[str, Estimate]:
        """The headline per domain."""
        return by_domain(self.run)

    @cached_property
    def bounds(self) -> FailureBounds | None:
        """Between which values the headline lies, whatever the failed items are; None where none failed."""
        return bounds(self.run) if self.headline in ANSWERABLE else None

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        facts = json_fields(self, *_FACTS)
        numbers = json_fields(self, "bounds", "metrics", "published", "domains")
        return {name: fact for name, fact in facts.items() if fact or name not in _SELDOM} | numbers


def summary(run: Run) -> Summary:
    """Return what is said about one run; a run without rows is an error."""
    check_type(run, (Run,), "run", "a run; load_run(FOLDER) returns that of a folder")
    return once(run, "summary", lambda: _summary(run))


def _summary(run: Run) -> Summary:
    names = reported(run)
    metrics = Numbers(_metrics(run, names))
    metrics[names[0]]  # without rows there is no summary
    return Summary(
        run,
        run.model,
        run.benchmark,
        run.condition,
        tuple(sorted(run.reveals)),
        not remark(run),
        names[0],
        metrics,
        synthesised(run),
        tie_rule(run),
        run.trained,
        run.imported,
        run.dtype,
    )


def _metrics(run: Run, names: list[str]) -> dict[str, Callable[[], Estimate | None]]:
    average = run.card.average
    other: Average = "micro" if average == "macro" else "macro"
    kinds = {name: (name, average) for name in names} | {f"{names[0]}_{other}": (names[0], other)}
    kinds |= {name: (name, "micro") for name in ("tie_rate", "failure_rate")}
    metrics: dict[str, Callable[[], Estimate | None]] = {
        key: partial(estimate_run, run, name, kind) for key, (name, kind) in kinds.items()
    }
    metrics["length_controlled"] = partial(_at_equal_length, run)
    if any(map(attrgetter("votes"), run.rows)):
        places = cache(partial(positions, run))
        metrics |= {CONSISTENT: lambda: places().consistency, FIRST: lambda: places().first}
    return metrics


def _at_equal_length(run: Run) -> Estimate | None:
    with suppress(MetricError):  # there is no such number where length never varies
        return length_controlled(run)
    return None
