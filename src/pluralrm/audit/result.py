"""What an audit says: probes that try to guess the label, and findings about everything else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from numpy.typing import ArrayLike

from pluralrm.core import Estimate
from pluralrm.display import Brief, JsonFields, json_fields
from pluralrm.stats import cluster_means, difference_interval, share_interval, spread
from pluralrm.stats.intervals import counts, few, robust, t_quantile
from pluralrm.text import flat

Reads = Literal["answers", "prompt and answers", "own context", "candidate ids", "another's context", "others' votes"]
"""What a probe is given. Of the user's own context it is only asked whether an answer stands in it."""

AuditVerdict = Literal["leak", "shortcut", "not personal", "none found", "below chance", "by design", "not available"]
"""`not personal`: what belongs to other people guesses as well as the person's own, and better than chance.
`shortcut`: above chance from prompt and answers where the prompt, by design, is what tells what is wanted.
`below chance`: a classifier learned the opposite of what holds elsewhere, which is how the labels were laid out."""
Sharing = Literal["apart", "together", "crossed"]
Measures = Mapping[str, Estimate | float | int]
Status = Literal["ok", "note", "warn", "not available", "needs a judge"]


@dataclass(frozen=True, slots=True)
class Probe(JsonFields):
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

    @property
    def compares(self) -> bool:
        """True where what belongs to other people is compared with the person's own; `detail` then says how."""
        return self.p is not None and self.reads in {"another's context", "others' votes"}

    @property
    def flaw(self) -> bool:
        """True where the probe says something against the benchmark: a leak, a shortcut, or that it is not personal."""
        return self.verdict in {"leak", "shortcut", "not personal"}


@dataclass(frozen=True, slots=True)
class AuditFinding(JsonFields):
    """One other property of the benchmark: how it is, in words and in numbers."""

    topic: str
    status: Status
    found: str
    measures: Measures


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
        size = json_fields(self, "items", "labelled", "clusters", "unit", "chance", "error_rate", "relabellings")
        result = json_fields(self, "judge", "sharing", "verdict", "limits", "probes", "findings")
        return {**json_fields(self, "benchmark", "content_hash", "seed"), **size, **result}

    def records(self) -> list[dict[str, object]]:
        """Return one flat record per probe."""
        return [
            {
                **json_fields(self, "benchmark", "chance"),
                "guess_by": probe.title,
                **json_fields(probe, "reads", "verdict"),
                **flat("accuracy", probe.accuracy),
                **json_fields(probe, "p", "adjusted_p", "detectable", "detail"),
            }
            for probe in self.probes
        ]

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Return the audit that `to_json` wrote."""
        probes = tuple(Probe(**{**probe, "accuracy": _estimate(probe["accuracy"])}) for probe in record["probes"])
        findings = tuple(
            AuditFinding(**{**finding, "measures": {name: _estimate(value) for name, value in measures.items()}})
            for finding in record["findings"]
            for measures in [finding["measures"]]
        )
        return cls(**{**record, "probes": probes, "findings": findings})


def _estimate(value: Any) -> Any:  # noqa: ANN401 - of a file
    return Estimate(**value) if isinstance(value, dict) else value


def share(
    values: ArrayLike, clusters: Sequence[str], *, crossed: Sequence[str] | None = None, level: float = 0.95
) -> Estimate:
    """Return the mean of values in [0, 1]."""
    interval = share_interval(cluster_means(values, clusters, crossed=crossed), level=level)
    return Estimate(*interval[:3], len(clusters), 0, interval.method)


def excess(
    values: ArrayLike, over: ArrayLike, clusters: Sequence[str], *, crossed: Sequence[str] | None = None
) -> Estimate:
    """Return the mean of `values` minus that of `over`, item by item, both in [0, 1]."""
    import numpy as np

    interval = difference_interval(cluster_means(np.stack([values, over], axis=1), clusters, crossed=crossed), 0, 1)
    return Estimate(*interval[:3], len(clusters), 0, interval.method)


def amount(
    values: ArrayLike, clusters: Sequence[str], *, crossed: Sequence[str] | None = None, level: float = 0.95
) -> Estimate:
    """Return the mean of values of any size, with Student's interval on the variance between clusters."""
    means = cluster_means(values, clusters, crossed=crossed)
    count, value = means.clusters(), float(means.means[0])
    variance, df = spread(means, 0)
    if count < 2 or not variance:
        why = "one cluster" if count < 2 else f"the same in all of {few(count)}"
        return Estimate(value, None, None, len(clusters), 0, f"no interval: {why}")
    reach = t_quantile(df, level) * variance**0.5
    method = f"{robust(means)} {level:.0%} interval, {counts(means)}"
    return Estimate(value, value - reach, value + reach, len(clusters), 0, method)
