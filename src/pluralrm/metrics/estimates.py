"""From the units of a metric to an Estimate: overall, per domain, per value of a tag, at equal length of the answers.

`bounds` says how much failures could hide: every failed item wrong, as in the headline, and every one right.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from pluralrm.card import Average, Card
from pluralrm.core import Estimate, Failure, Row, Run
from pluralrm.display import Brief, JsonFields
from pluralrm.errors import MetricError, did_you_mean
from pluralrm.labels import TRAIT
from pluralrm.metrics.units import (
    CONSTANT,
    METRICS,
    Units,
    once,
    rows_by_domain,
    structure,
    structure_of,
    tie_rule,
    units,
    units_by_domain,
    units_of,
)
from pluralrm.stats import ClusterMeans, Interval, gap, group_means, share_at_zero, share_interval
from pluralrm.stats.clusters import FloatArray
from pluralrm.text import counted

FIXED = "fixed by design"


@dataclass(frozen=True, slots=True)
class Consistency:
    """Consistency and, always beside it, best-of-N accuracy: a scorer that ignores the prompt is consistent too."""

    consistency: Estimate
    bon: Estimate


def measure(run: Run, metric: str = "", *, average: Average | None = None) -> Estimate:
    """Return one metric of a run (default: the headline), averaged as the card says by default.

    Consistency alone is refused: `consistency` returns it with best-of-N accuracy.
    """
    name, kind = chosen(run, metric), average or run.card.average
    return once(run, ("measure", name, kind), lambda: estimate_run(run, name, kind))


def consistency(run: Run, *, average: Average | None = None) -> Consistency:
    """Return the share of groups ranked alike in all phrasings, together with best-of-N accuracy."""
    kind = average or run.card.average
    return Consistency(*(estimate_run(run, name, kind) for name in ("consistency", "bon")))


def estimate_run(run: Run, metric: str, average: Average) -> Estimate:
    """Return the mean of a metric over all rows of a run; of consistency too, which `measure` refuses."""
    parts, rule = units_of(run, metric), METRICS[metric].fixed
    fixed = partial(once, run, rule, lambda: rule(run.rows, structure_of(run)))
    return estimate(run.rows, metric, average, caveats(run), parts=parts, fixed=fixed)


def estimate(
    rows: Sequence[Row],
    metric: str,
    average: Average,
    note: str = "",
    *,
    parts: Units | None = None,
    fixed: Callable[[], str] | None = None,
) -> Estimate:
    """Return the mean of a metric over rows: over all units (micro), or over domains of the domain's mean (macro).

    `parts` are its units and `fixed` says why they could not have been different, where that is known of the rows.
    """
    parts, macro = parts or units(rows, metric), average == "macro"
    means = parts.means(macro=macro)
    interval = share_interval(means)
    fixed = fixed or (lambda: METRICS[metric].fixed(rows, structure(rows)))
    reason = fixed() if same_everywhere(means) else ""
    if reason:
        interval = interval._replace(low=None, high=None, method=f"{FIXED}: {reason}")
    return as_estimate(interval, parts, scope=over(parts, macro=macro), note=note)


def measure_rows(rows: Sequence[Row], metric: str, note: str = "") -> Estimate:
    """Return the mean of a metric over some rows of a run: those of a domain, or with a value of a tag."""
    return estimate(rows, metric, "micro", note)


def as_estimate(interval: Interval, parts: Units, *, scope: str = "", note: str = "") -> Estimate:
    """Return the interval as an Estimate over these units; the method text has scope, method and note, where said."""
    method = "; ".join(text for text in (scope, interval.method, note) if text)
    return Estimate(interval.value, interval.low, interval.high, len(parts.ids), sum(parts.failed), method)


def over(parts: Units, *, macro: bool) -> str:
    """Return in words what the mean is taken over."""
    domains = len(set(parts.domains))
    return f"macro mean over {counted(domains, 'domain')}" if macro else "mean"


def same_everywhere(means: ClusterMeans, column: int = 0) -> bool:
    """Return whether every cluster has the same mean."""
    return bool(np.ptp(means.parts[:, column] / means.weights[:, column]) < 1e-9)


def headline(run: Run) -> str:
    """Return the name of the metric that the benchmark's card puts first."""
    return reported(run)[0]


def chosen(run: Run, metric: str) -> str:
    """Return the metric named, or the headline; consistency alone is an error."""
    if metric == "consistency":
        raise MetricError("consistency is never given without bon; consistency(run) returns both.")
    return metric or headline(run)


def reported(run: Run) -> list[str]:
    """Return the card's metrics, the headline first; consistency brings bon along."""
    names = list(run.card.metrics)
    if "consistency" in names and "bon" not in names:
        names.insert(names.index("consistency"), "bon")
    unknown = [name for name in names if name not in METRICS]
    if unknown or not names:
        raise MetricError(
            f"the card of {run.card.name!r} asks for the metrics {', '.join(names) or 'none'}; "
            f"wanted one or more of {', '.join(METRICS)}."
        )
    return names


def remark(run: Run) -> str:
    """Return what a reader must know of an unfinished run, or nothing: its open items count as failed."""
    if run.complete and run.done >= run.items:
        return ""
    return f"incomplete: {run.done:,} of {run.items:,} items, the others count as failed"


def synthesised(run: Run) -> str:
    """Return whose pairs a run shows, where a chat model wrote them; nothing where people chose, or none are shown."""
    return written_pairs(run.card, run.reveals)


def written_pairs(card: Card, reveals: AbstractSet[str]) -> str:
    """Return whose pairs are shown where so much is revealed, as `synthesised` does for a run."""
    return card.pairs if reveals & {"pairs", "other_pairs", "false_pairs"} else ""


def synthesised_notes(runs: Iterable[Run]) -> list[str]:
    """Return a sentence for each condition under which pairs that a chat model wrote were shown."""
    sources = dict.fromkeys((run.condition, text) for run in runs if (text := synthesised(run)))
    return [f"SYNTHESISED: under {condition} models were shown {text}" for condition, text in sources]


def precision(run: Run) -> str:
    """Return in what the model was computed; nothing where that is float32, or not known."""
    return run.dtype and f"computed in {run.dtype}"


def marks(run: Run) -> list[str]:
    """Return in capitals what sets a run apart wherever it is named."""
    words = {"TRAINED": run.trained, "SYNTHESISED": synthesised(run), "IMPORTED": run.imported}
    return [*(word for word, holds in words.items() if holds), *([run.dtype.upper()] if run.dtype else [])]


def caveats(run: Run) -> str:
    """Return what a number rests on: an unfinished or imported run, training, pairs, a dtype, a rule for ties."""
    rule = tie_rule(run)
    ties = f"ties {rule}" * (rule != "share")
    texts = (remark(run), run.imported, *run.trained, synthesised(run), precision(run), ties)
    return "; ".join(text for text in texts if text)


def trained_notes(runs: Iterable[Run]) -> list[str]:
    """Return a sentence for each thing of the benchmark that a model was trained on."""
    return [f"TRAINED: {text}" for text in dict.fromkeys(text for run in runs for text in run.trained)]


def source_notes(runs: Iterable[Run], names: Mapping[str, str]) -> list[str]:
    """Return a sentence for each model that was not scored here, was tested by `gate`, or has another dtype."""
    texts = [(run, (run.imported, run.gate and f"gate {run.gate}", precision(run))) for run in runs]
    pairs = [(run, text) for run, several in texts for text in several if text]
    return list(dict.fromkeys(f"{names.get(run.model, run.model)}: {text}." for run, text in pairs))


@dataclass(frozen=True, slots=True, repr=False)
class ByTag(Brief, JsonFields):
    """One Estimate per value of a tag, the lowest of them, and the distance from the highest to the lowest.

    `lowest` and `gap` allow for having been picked by looking. They and `worst` are None where fewer than two values
    of the tag have two clusters or more.
    """

    tag: str
    metric: str
    groups: Mapping[str, Estimate]
    worst: str | None
    lowest: Estimate | None
    gap: Estimate | None


def by_domain(run: Run) -> dict[str, Estimate]:
    """Return the headline per domain, domains sorted by name."""
    name, note = chosen(run, ""), caveats(run)
    parts = units_by_domain(run, name)
    return {
        domain: estimate(rows, name, "micro", note, parts=parts.get(domain))
        for domain, rows in rows_by_domain(run.rows).items()
    }


def by_domains(run: Run) -> dict[str, dict[str, Estimate]]:
    """Return every metric of the card per domain, domains sorted by name, the headline first in each."""
    names, note = reported(run), caveats(run)
    return {
        domain: {name: measure_rows(rows, name, note) for name in names}
        for domain, rows in rows_by_domain(run.rows).items()
    }


def by_tag(run: Run, tag: str, metric: str = "") -> ByTag:
    """Return a metric (the headline, unless named) per value of a tag; rows without the tag stand under ''.

    Where no row has a tag `domain`, that is the domain.
    """
    name, note = chosen(run, metric), caveats(run)
    tagged = _tagged(run, tag)
    parts = {value: units(rows, name) for value, rows in tagged.items()}
    groups = {value: measure_rows(rows, name, note) for value, rows in tagged.items()}
    spans = gap(
        group_means(
            [value for part in parts.values() for value in part.values],
            [cluster for part in parts.values() for cluster in part.clusters],
            [value for value, part in parts.items() for _ in part.ids],
            crossed=[prompt for part in parts.values() for prompt in part.prompts or ("",) * len(part.ids)],
        )
    )
    if spans is None:
        return ByTag(tag, name, groups, None, None, None)
    whole = units_of(run, name)
    lowest, distance = (as_estimate(interval, whole, note=note) for interval in (spans.lowest, spans.distance))
    return ByTag(tag, name, groups, list(parts)[spans.worst], lowest, distance)


def tag_values(rows: Sequence[Row], tag: str) -> list[str]:
    """Return each row's value of a tag, the domain for `domain`; a tag that no row has is an error."""
    tags = {key for row in rows for key in row.tags}
    if tag in tags:
        return [row.tags.get(tag, "") for row in rows]
    if tag == "domain":
        return [row.domain for row in rows]
    traits = sorted(name for name in tags if name.startswith(TRAIT))
    if not tag.startswith(TRAIT):
        near = f" Did you mean {TRAIT + tag!r}?" if TRAIT + tag in traits else did_you_mean(tag, {*tags, "domain"})
        raise MetricError(f"no row has the tag {tag!r}.{near}")
    choices = (
        f"Known: {', '.join(traits)}."
        if traits
        else (
            "There are none: no user declares a trait by which people can be grouped, or the run is from before rows "
            "kept traits, and must be scored anew ('pluralrm score' with another -o)."
        )
    )
    raise MetricError(f"no row has the trait {tag.removeprefix(TRAIT)!r}. {choices}")


def _tagged(run: Run, tag: str) -> dict[str, list[Row]]:
    """Return the rows of each value of the tag, sorted by value."""
    values = tag_values(run.rows, tag)
    groups: dict[str, list[Row]] = {value: [] for value in sorted(set(values))}
    for row, value in zip(run.rows, values, strict=True):
        groups[value].append(row)
    return groups


ANSWERABLE = ("accuracy", "bon", "pair", "all_phrasings")
"""The metrics for which an item can be right or wrong."""


class FailureBounds(NamedTuple):
    """The metric with all `failed` items wrong, and with all of them right."""

    worst: float
    best: float
    failed: int


def bounds(run: Run, metric: str = "", *, average: Average | None = None) -> FailureBounds | None:
    """Return between which values a metric (the headline, unless named) lies; None where no item failed."""
    name = chosen(run, metric)
    if name not in ANSWERABLE:
        raise MetricError(f"{name} has no bounds: no item is right or wrong by it. Wanted: {', '.join(ANSWERABLE)}.")
    failed = run.failed
    if not failed:
        return None
    worst, best = (
        measure(variant, name, average=average).value for variant in (run, replace(run, rows=_mended(run.rows)))
    )
    return FailureBounds(worst, best, failed)


def _mended(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return the rows as if each failed one had put the preferred candidate above all others."""
    return tuple(replace(row, scores=row.grades) if row.failed else row for row in rows)


def length_controlled(run: Run) -> Estimate:
    """Return the accuracy expected where the preferred candidate is as long as the others are on average.

    A logistic regression of the credit on the difference in characters, read at zero. Where that difference is the
    same for every item, and not zero, the question has no answer: an error.
    """
    parts = units_of(run, "accuracy")
    if structure_of(run) == CONSTANT:
        plain = share_interval(parts.means(macro=False))
        fixed = plain._replace(low=None, high=None, method=f"{FIXED}: {CONSTANT}")
        return as_estimate(fixed, parts, note=caveats(run))
    extra = extra_lengths(run.rows)
    interval = share_at_zero(parts.values, extra, parts.clusters, crossed=parts.prompts)
    return as_estimate(interval, parts, scope="at equal length", note=caveats(run))


def extra_lengths(rows: Sequence[Row]) -> FloatArray:
    """Return `extra_length` of each row."""
    preferred, texts = list(map(attrgetter("preferred"), rows)), list(map(attrgetter("lengths"), rows))
    if None in preferred or len(set(map(len, texts))) != 1:
        return np.array([extra_length(row) for row in rows])
    lengths = np.array(texts)
    own = lengths[np.arange(len(rows)), np.array(preferred)]
    extra: FloatArray = own - (lengths.sum(axis=1) - own) / (lengths.shape[1] - 1)
    return extra


def extra_length(row: Row) -> float:
    """Return by how many characters the preferred candidate exceeds the mean of the others; of several, their mean."""
    best = row.best
    own = [row.lengths[index] for index in best]
    others = [length for index, length in enumerate(row.lengths) if index not in best]
    return sum(own) / len(own) - sum(others) / len(others)


class FailureCount(NamedTuple):
    """A kind of failure: on how many items, and the first of them with what is known of it."""

    kind: str
    items: int
    item: str
    detail: str


def failure_kinds(run: Run) -> list[FailureCount]:
    """Return the kinds of failures of a run, the most frequent first; an item counts by its first failure."""
    failed = [row for row in run.rows if row.failed]
    failures = [(row.item, next(score for score in row.scores if isinstance(score, Failure))) for row in failed]
    examples = {failure.kind: (item, failure.detail) for item, failure in reversed(failures)}
    counts = Counter(failure.kind for _, failure in failures)
    return [FailureCount(kind, count, *examples[kind]) for kind, count in counts.most_common()]
