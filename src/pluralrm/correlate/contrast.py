"""Two benchmarks against the same downstream result: which of them predicts it better?"""

from collections.abc import Sequence
from dataclasses import dataclass

from pluralrm.core import Estimate
from pluralrm.correlate.cell import SIGNIFICANT
from pluralrm.correlate.columns import Column, scores_of
from pluralrm.correlate.measures import ENOUGH, Measure, Name
from pluralrm.stats.joint import Statistic, interval_over_items, interval_over_studies
from pluralrm.stats.permutation import Permutation, swap_test


@dataclass(frozen=True, slots=True)
class Contrast:
    """The first benchmark's measure minus the second's, over the models that have all three scores."""

    first: str
    second: str
    downstream: str
    measure: Name
    title: str
    difference: Estimate
    test: Permutation
    """Each model's two scores swapped, in all ways or in random ones."""
    p_adjusted: float
    """The test's p, Holm over the family: all pairs of benchmarks on all results, by this measure."""
    family: int = 1

    @property
    def shown(self) -> bool:
        """True where the interval leaves out 0 and the adjusted p is below .05: one without the other is open."""
        low, high = self.difference.low, self.difference.high
        outside = low is not None and high is not None and not low <= 0 <= high
        return outside and self.p_adjusted < SIGNIFICANT

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        who = {"first": self.first, "second": self.second, "downstream": self.downstream}
        test = {"p": self.test.p, "swaps": self.test.orders, "exact": self.test.exact, "p_adjusted": self.p_adjusted}
        what = {"measure": self.measure, "title": self.title, **self.difference.to_json()}
        return {**who, **what, **test, "family": self.family, "shown": self.shown}


def contrast(
    benchmarks: tuple[Column, Column], downstream: Column, models: Sequence[str], measure: Measure, *, seed: int
) -> Contrast:
    """Return the difference of a measure that does not jump.

    Both sides see the same resampled models and items, for they depend on each other.
    """
    columns = (*benchmarks, downstream)
    scores = scores_of(columns, models)
    if len(models) >= ENOUGH:
        # Not on Fisher's scale: a difference of two correlations has none.
        found = interval_over_studies(_difference(measure), scores, scale="plain", limit=2.0, seed=seed)
    else:
        found = interval_over_items(_difference(measure), scores, seed=seed)
    failed = sum(column.failed.get(model, 0) for column in columns for model in models)
    estimate = Estimate(found.value, found.low, found.high, len(models), failed, f"paired, {found.method}")
    ranked = measure.of_ranks is not None
    test = swap_test(measure.of_ranks or measure.function, *scores.values, ranked=ranked, seed=seed)
    first, second = (column.name for column in benchmarks)
    return Contrast(first, second, downstream.name, measure.name, measure.title, estimate, test, test.p)


def _difference(measure: Measure) -> Statistic:
    """Return the measure of rows 0 and 2 minus that of rows 1 and 2."""
    first, second = measure.statistic(0, 2), measure.statistic(1, 2)
    return lambda table: first(table) - second(table)
