"""What an audit says: probes that try to guess the label, and findings about everything else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from numpy.typing import ArrayLike

from pluralrm.core import Estimate
from pluralrm.display import Brief
from pluralrm.stats import cluster_means, difference_interval, share_interval, spread
from pluralrm.stats.intervals import few, t_quantile

Reads = Literal["answers", "prompt and answers"]
"""What a probe is given. No probe sees the user."""

AuditVerdict = Literal["leak", "shortcut", "none found", "below chance", "by design", "not available"]
"""`shortcut`: above chance from prompt and answers where the prompt, by design, is what tells what is wanted.
`below chance`: a classifier learned the opposite of what holds elsewhere, which is how the labels were laid out."""
Sharing = Literal["apart", "together", "crossed"]
Measures = Mapping[str, Estimate | float | int]
Status = Literal["ok", "note", "warn", "not available", "needs a judge"]


@dataclass(frozen=True, slots=True)
class Probe:
    """One way of guessing which candidate is preferred without knowing the user.

    `accuracy` is None where there was nothing to guess, the p-values too where the design fixes the accuracy.
    """

    name: str
    reads: Reads
    verdict: AuditVerdict
    accuracy: Estimate | None = None
    p: float | None = None
    adjusted_p: float | None = None
    """Holm's, over all probes."""
    detectable: float | None = None
    """The accuracy from which a guess of this kind would be found with a chance of 80%."""
    rule: str = ""
    """What is picked, where the probe is a rule: the longest."""
    detail: str = ""
    """Why there is no number, or what tells most where a classifier beats chance."""
    at_best: float | None = None
    """The accuracy had every failed item been right; None where none failed."""

    @property
    def title(self) -> str:
        """The name, and the rule where there is one."""
        return f"{self.name}: {self.rule}" if self.rule else self.name

    @property
    def leak(self) -> bool:
        """True where guessing beats chance, within the error rate of the whole family."""
        return self.verdict == "leak"

    def to_json(self) -> dict[str, object]:
        """Return the fields under their names."""
        return {
            "name": self.name,
            "reads": self.reads,
            "verdict": self.verdict,
            "accuracy": None if self.accuracy is None else self.accuracy.to_json(),
            "p": self.p,
            "adjusted_p": self.adjusted_p,
            "detectable": self.detectable,
            "rule": self.rule,
            "detail": self.detail,
            "at_best": self.at_best,
        }


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One other property of the benchmark: how it is, in words and in numbers."""

    topic: str
    status: Status
    found: str
    measures: Measures

    def to_json(self) -> dict[str, object]:
        """Return the fields under their names."""
        measures = {
            name: value.to_json() if isinstance(value, Estimate) else value for name, value in self.measures.items()
        }
        return {"topic": self.topic, "status": self.status, "found": self.found, "measures": measures}


@dataclass(frozen=True, slots=True, repr=False)
class Audit(Brief):
    """What is known of a benchmark's soundness; `verdict` and `limits` say it in a sentence each."""

    benchmark: str
    content_hash: str
    seed: int
    items: int
    labelled: int
    clusters: int
    unit: str
    """What a cluster is: user, record."""
    chance: float | None
    error_rate: float
    """How often, at most, a sound benchmark is told that it leaks: over all probes together."""
    relabellings: int
    verdict: str
    limits: str
    probes: tuple[Probe, ...]
    findings: tuple[AuditFinding, ...]
    judge: str = ""
    """The model that was asked to pick answers without the user, if one was."""
    sharing: Sharing = "apart"
    """Whether clusters share prompts or answers: no; yes, and those that do stay together; or all over."""

    @property
    def leaks(self) -> list[Probe]:
        """The probes that beat chance without what the benchmark is about."""
        return [probe for probe in self.probes if probe.leak]

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return {
            "benchmark": self.benchmark,
            "content_hash": self.content_hash,
            "seed": self.seed,
            "items": self.items,
            "labelled": self.labelled,
            "clusters": self.clusters,
            "unit": self.unit,
            "chance": self.chance,
            "error_rate": self.error_rate,
            "relabellings": self.relabellings,
            "judge": self.judge,
            "sharing": self.sharing,
            "verdict": self.verdict,
            "limits": self.limits,
            "probes": [probe.to_json() for probe in self.probes],
            "findings": [finding.to_json() for finding in self.findings],
        }


def share(values: ArrayLike, clusters: Sequence[str], *, level: float = 0.95) -> Estimate:
    """Return the mean of values in [0, 1]."""
    interval = share_interval(cluster_means(values, clusters), level=level)
    return Estimate(*interval[:3], len(clusters), 0, interval.method)


def excess(values: ArrayLike, over: ArrayLike, clusters: Sequence[str]) -> Estimate:
    """Return the mean of `values` minus that of `over`, item by item, both in [0, 1]."""
    import numpy as np

    interval = difference_interval(cluster_means(np.stack([values, over], axis=1), clusters), 0, 1)
    return Estimate(*interval[:3], len(clusters), 0, interval.method)


def amount(values: ArrayLike, clusters: Sequence[str], *, level: float = 0.95) -> Estimate:
    """Return the mean of values of any size, with Student's interval on the variance between clusters."""
    means = cluster_means(values, clusters)
    count, value = means.clusters(), float(means.means[0])
    variance, df = spread(means, 0)
    if count < 2 or not variance:
        why = "one cluster" if count < 2 else f"the same in all of {few(count)}"
        return Estimate(value, None, None, len(clusters), 0, f"no interval: {why}")
    reach = t_quantile(df, level) * variance**0.5
    method = f"cluster-robust {level:.0%} interval, {few(count)}"
    return Estimate(value, value - reach, value + reach, len(clusters), 0, method)
