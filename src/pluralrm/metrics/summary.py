"""Everything that is said about one run."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from pluralrm.card import Average
from pluralrm.core import Estimate, Run, Ties
from pluralrm.display import Brief
from pluralrm.errors import MetricError, check_type
from pluralrm.metrics.estimates import (
    ANSWERABLE,
    FailureBounds,
    bounds,
    by_domain,
    caveats,
    estimate,
    length_controlled,
    measure_rows,
    remark,
    reported,
    synthesised,
)
from pluralrm.metrics.official import PublishedMetric, published
from pluralrm.metrics.positions import CONSISTENT, FIRST, positions
from pluralrm.metrics.units import tie_rule


@dataclass(frozen=True, slots=True, repr=False)
class Summary(Brief):
    """One run in numbers. `metrics` holds the headline first, then the card's others and what every run gets.

    That is: the headline by the other average (`accuracy_macro` or `accuracy_micro`), `tie_rate`, `failure_rate`,
    `length_controlled`, absent where all differences in length are one and the same, and, where the rows hold votes,
    `position_consistency` (absent where nothing was asked in two orders) and `first_position`. `bounds` are those of
    the headline, None where no item failed.
    """

    model: str
    benchmark: str
    condition: str
    reveals: tuple[str, ...]
    complete: bool
    headline: str
    metrics: Mapping[str, Estimate]
    published: Mapping[str, PublishedMetric]
    domains: Mapping[str, Estimate]
    bounds: FailureBounds | None = None
    pairs: str = ""
    """Whose pairs were shown, where they are not the users' own choices."""
    ties: Ties = "share"
    """How equal scores count in accuracy, BoN and pair."""
    trained: tuple[str, ...] = ()
    """Which users or items of the benchmark the model was trained on."""

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return {
            "model": self.model,
            "benchmark": self.benchmark,
            "condition": self.condition,
            "reveals": list(self.reveals),
            "complete": self.complete,
            **({"pairs": self.pairs} if self.pairs else {}),
            "headline": self.headline,
            "ties": self.ties,
            **({"trained": list(self.trained)} if self.trained else {}),
            "bounds": self.bounds and self.bounds.to_json(),
            "metrics": {name: estimate.to_json() for name, estimate in self.metrics.items()},
            "published": {name: estimate.to_json() for name, estimate in self.published.items()},
            "domains": {name: estimate.to_json() for name, estimate in self.domains.items()},
        }


def summary(run: Run) -> Summary:
    """Return what is said about one run; a run without rows is an error."""
    check_type(run, (Run,), "run", "a run; load_run(FOLDER) returns that of a folder")
    names = reported(run)
    return Summary(
        run.model,
        run.benchmark,
        run.condition,
        tuple(sorted(run.reveals)),
        not remark(run),
        names[0],
        _metrics(run, names),
        published(run),
        by_domain(run),
        bounds(run) if names[0] in ANSWERABLE else None,
        synthesised(run),
        tie_rule(run),
        run.trained,
    )


def _metrics(run: Run, names: list[str]) -> dict[str, Estimate]:
    note, average = caveats(run), run.card.average
    metrics = {name: estimate(run.rows, name, average, note) for name in names}
    other: Average = "micro" if average == "macro" else "macro"
    metrics[f"{names[0]}_{other}"] = estimate(run.rows, names[0], other, note)
    for name in ("tie_rate", "failure_rate"):
        metrics[name] = measure_rows(run.rows, name, note)
    with suppress(MetricError):  # there is no such number where length never varies
        metrics["length_controlled"] = length_controlled(run)
    return metrics | _places(run)


def _places(run: Run) -> dict[str, Estimate]:
    """Return what the place of an answer does, where answers were shown side by side."""
    if not any(row.votes for row in run.rows):
        return {}
    places = positions(run)
    consistent = {} if places.consistency is None else {CONSISTENT: places.consistency}
    return consistent | {FIRST: places.first}
