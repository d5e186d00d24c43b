"""One benchmark against one downstream result, and all that has to be said of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from pluralrm.correlate import reading
from pluralrm.correlate.columns import Column, complete, scores_of
from pluralrm.correlate.findings import ENOUGH, Finding, findings
from pluralrm.correlate.leverage import Carried, InGroup, by_group, carried, turns
from pluralrm.correlate.measures import Name
from pluralrm.correlate.reversals import Reversal, reversals
from pluralrm.stats.ranking import top_regret


@dataclass(frozen=True, slots=True)
class Cell:
    """A benchmark and a downstream result over the models that have both; `missing` have one of them."""

    benchmark: str
    downstream: str
    models: tuple[str, ...]
    missing: tuple[str, ...]
    clusters: int
    """Clusters of items that can be resampled; 0 where only scores are known."""
    findings: tuple[Finding, ...]
    regret: float
    """How far the benchmark's first stays below the best, in units of the downstream result."""
    reversals: tuple[Reversal, ...]
    carried: tuple[Carried, ...]
    groups: tuple[InGroup, ...]
    p_adjusted: float
    """Spearman's p, Holm over the family: all pairs of columns in the report."""
    family: int = 1

    def __getitem__(self, measure: Name) -> Finding:
        return next(finding for finding in self.findings if finding.measure == measure)

    @property
    def verdict(self) -> str:
        """Whether the benchmark predicts the ranking, and how sure that is, in a sentence or two."""
        found = {finding.measure: finding for finding in self.findings}
        return reading.verdict((self.benchmark, self.downstream), found, self.p_adjusted, family=self.family)

    @property
    def estimand(self) -> str:
        """What the intervals are about."""
        if len(self.models) < ENOUGH:
            return "these models only, over sets of as many items drawn alike" if self.clusters else "nothing"
        items = "and items, drawn alike" if self.clusters else "drawn alike, on the same items"
        return f"the mean over studies of as many models {items}"

    @property
    def warnings(self) -> list[str]:
        """What a reader must know before using a number."""
        said = [] if len(self.models) >= ENOUGH else [reading.too_few(len(self.models), self.clusters)]
        said += [reading.carried_by(self["pearson"].estimate.value, self.carried)] if self.carried else []
        return said + ([self.inside] if turns(self.groups) else [])

    @property
    def inside(self) -> str:
        """What holds inside groups of models; nothing where fewer than two are named."""
        return reading.inside_groups(self.groups) if len(self.groups) > 1 else ""

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return {
            "benchmark": self.benchmark,
            "downstream": self.downstream,
            "models": list(self.models),
            "missing": list(self.missing),
            "clusters": self.clusters,
            "estimand": self.estimand,
            "verdict": self.verdict,
            "warnings": self.warnings,
            "inside": self.inside,
            "p_adjusted": self.p_adjusted,
            "family": self.family,
            "regret": self.regret,
            "findings": [finding.to_json() for finding in self.findings],
            "reversals": [pair.to_json() for pair in self.reversals],
            "carried": [one.to_json() for one in self.carried],
            "groups": [group.to_json() for group in self.groups],
        }


def cell(benchmark: Column, downstream: Column, groups: Mapping[str, str], *, rbo_p: float, seed: int) -> Cell:
    """Return the cell by itself: its p is adjusted over a family of one."""
    models = list(dict.fromkeys([*benchmark.scores, *downstream.scores]))
    kept = complete([benchmark, downstream], models)
    found = findings(benchmark, downstream, kept, rbo_p=rbo_p, seed=seed)
    scores = scores_of([benchmark, downstream], kept)
    x, y = scores.values
    return Cell(
        benchmark=benchmark.name,
        downstream=downstream.name,
        models=tuple(kept),
        missing=tuple(model for model in models if model not in kept),
        clusters=scores.clusters,
        findings=tuple(found),
        regret=float(top_regret(x[None], y[None])[0]),
        reversals=tuple(reversals(benchmark, downstream, kept, seed=seed)),
        carried=tuple(carried(x, y, kept)),
        groups=tuple(by_group(x, y, kept, groups, seed=seed)),
        p_adjusted=next(finding.p for finding in found if finding.measure == "spearman"),
    )
