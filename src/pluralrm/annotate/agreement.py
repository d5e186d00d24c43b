"""Agreement of a plan's judgments, or of any labels: per arm, dimension and domain, under policies that are named."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pluralrm.annotate.labels import Label, scales_of
from pluralrm.core import Estimate
from pluralrm.errors import MetricError
from pluralrm.metrics.agreement import (
    RESAMPLES,
    AlikeShare,
    Coefficient,
    Scaled,
    Together,
    Votes,
    agreement,
    consensus,
    pairs_alike,
    self_agreement,
    with_others,
)

Ties = Literal["kept", "left_out"]
CannotTell = Literal["left_out", "tie"]
Slight = Literal["kept", "merged"]
TIES = ("equal", "tie")
"""Labels that are ties, on the page and in files."""


@dataclass(frozen=True, slots=True)
class Policies:
    """What becomes of ties, of "cannot tell", and of slight preferences."""

    ties: Ties = "kept"
    cannot_tell: CannotTell = "left_out"
    slight: Slight = "kept"

    def told(self, labels: Sequence[Label], scales: Mapping[str, Scaled]) -> list[str]:
        """Return in sentences what was done, with how many labels it was done to."""
        ties = sum(one.label in TIES for one in labels)
        blank = [_tie(scales[one.dimension]) for one in labels if not one.label]
        slight = sum(one.label.startswith("slightly_") for one in labels)
        kept = {"kept": "kept as a label of their own", "left_out": "left out"}[self.ties]
        told = [f"ties: {kept} ({_labels(ties)})"]
        as_ties = sum(tie != "" for tie in blank) if self.cannot_tell == "tie" else 0
        what = {"left_out": "left out", "tie": "counted as ties"}[self.cannot_tell]
        told.append(f"cannot tell: {what} ({_labels(as_ties if self.cannot_tell == 'tie' else len(blank))})")
        if self.cannot_tell == "tie" and as_ties < len(blank):
            told.append(f"cannot tell where no label is a tie: left out ({_labels(len(blank) - as_ties)})")
        if slight:
            side = {"kept": "kept as labels of their own", "merged": "counted as preferences"}[self.slight]
            told.append(f"slight preferences: {side} ({_labels(slight)})")
        return told

    def of(self, one: Label, scaled: Scaled) -> Label:
        """Return what a label counts as; blank is left out, also where a scale has no tie that it could be."""
        label = one.label
        if not label and self.cannot_tell == "tie":
            label = _tie(scaled)
        if label in TIES and self.ties == "left_out":
            label = ""
        if self.slight == "merged":
            label = label.removeprefix("slightly_")
        return replace(one, label=label)

    def scale(self, scaled: Scaled) -> Scaled:
        """Return a scale without the labels that no longer come."""
        gone = {label for label in scaled.labels if self.ties == "left_out" and label in TIES}
        if self.slight == "merged":
            gone |= {label for label in scaled.labels if label.startswith("slightly_")}
        kept = [place for place, label in enumerate(scaled.labels) if label not in gone]
        worths = tuple(scaled.worths[place] for place in kept) if scaled.worths else ()
        return Scaled(tuple(scaled.labels[place] for place in kept), scaled.scale, worths)


def _tie(scaled: Scaled) -> str:
    return next((label for label in scaled.labels if label in TIES), "")


def _labels(count: int) -> str:
    return f"{count:,} label{'s' * (count != 1)}"


@dataclass(frozen=True, slots=True)
class DimensionAgreement:
    """Agreement in one dimension, of one arm, in one domain (blank: in all)."""

    arm: str
    dimension: str
    domain: str
    labels: int
    items: int
    annotators: int
    coefficients: tuple[Coefficient, ...]
    why: str = ""
    """Why there is none."""

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return {
            "arm": self.arm,
            "dimension": self.dimension,
            "domain": self.domain,
            "labels": self.labels,
            "items": self.items,
            "annotators": self.annotators,
            **{one.name: one.estimate and one.estimate.to_json() for one in self.coefficients},
            **({"why": self.why} if self.why else {}),
        }


@dataclass(frozen=True, slots=True)
class AnnotatorAgreement:
    """Who agrees with whom in the first dimension, who with the others, and what all say together."""

    arm: str
    dimension: str
    pairs: tuple[AlikeShare, ...]
    others: tuple[AlikeShare, ...]
    together: Together

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return {
            "arm": self.arm,
            "dimension": self.dimension,
            "pairs": [{"annotators": one.annotators, "alike": one.share.to_json()} for one in self.pairs],
            "with_others": {one.annotators[0]: one.share.to_json() for one in self.others},
            "expected_right": dict(self.together.right),
            "undecided": self.together.undecided,
            "consensus": [
                {
                    "item": one.item,
                    "most_frequent": one.most_frequent,
                    "dawid_skene": one.consensus,
                    "likely": one.likely,
                }
                for one in self.together.said
            ],
        }


@dataclass(frozen=True, slots=True)
class AgreementResult:
    """Everything about how far annotators agree."""

    source: str
    policies: tuple[str, ...]
    parts: tuple[DimensionAgreement, ...]
    between: tuple[AnnotatorAgreement, ...]
    own: Mapping[str, Estimate]
    """Self-agreement in each dimension that somebody judged twice."""
    rehearsal: bool = False
    """Whether the judgments are simulated."""

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return {
            "source": self.source,
            "rehearsal": self.rehearsal,
            "policies": list(self.policies),
            "agreement": [part.to_json() for part in self.parts],
            "between": [one.to_json() for one in self.between],
            "self_agreement": {name: one.to_json() for name, one in self.own.items()},
        }


def agreed(
    source: str,
    labels: Sequence[Label],
    policies: Policies,
    *,
    declared: Scaled | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
    rehearsal: bool = False,
) -> AgreementResult:
    """Return how far the annotators agree; no two labels of one item anywhere are a MetricError."""
    known = scales_of(labels, declared)
    counted = [policies.of(one, known[one.dimension]) for one in labels]
    scales = {name: policies.scale(scaled) for name, scaled in known.items()}
    first = [one for one in counted if one.round == 1]
    parts, between = [], []
    for arm in sorted({one.arm for one in first}):
        of_arm = [one for one in first if one.arm == arm]
        for number, name in enumerate(dict.fromkeys(one.dimension for one in of_arm)):
            said = [one for one in of_arm if one.dimension == name]
            parts += _parts(arm, name, said, scales[name], seed=seed, resamples=resamples)
            if number == 0 and any(one.label for one in said):
                between.append(_between(arm, name, votes_of(said, scales[name])))
    if not any(part.coefficients for part in parts):
        raise MetricError(f"{source}: nowhere two labels of one item; wanted some")
    return AgreementResult(
        source, tuple(policies.told(labels, known)), tuple(parts), tuple(between), _own(counted), rehearsal
    )


def votes_of(labels: Sequence[Label], scaled: Scaled) -> Votes:
    """Return labels as votes; blank ones are counted as left out."""
    kept = [one for one in labels if one.label]
    return Votes(
        tuple(one.item for one in kept),
        tuple(one.annotator for one in kept),
        tuple(one.label for one in kept),
        scaled,
        tuple(one.cluster or one.item for one in kept),
        len(labels) - len(kept),
    )


def _parts(
    arm: str, name: str, said: Sequence[Label], scaled: Scaled, *, seed: int, resamples: int
) -> list[DimensionAgreement]:
    """Return the dimension in all domains, and in each where there are several."""
    domains = sorted({one.domain for one in said})
    found = []
    for domain in ["", *(domains if len(domains) > 1 else [])]:
        votes = votes_of([one for one in said if domain in {"", one.domain}], scaled)
        counts = (len(votes.labels), len(set(votes.items)), len(set(votes.annotators)))
        why = _why_none(votes)
        made = [] if why else agreement(votes, seed=seed, resamples=resamples)
        found.append(DimensionAgreement(arm, name, domain, *counts, tuple(made), why))
    return found


def _why_none(votes: Votes) -> str:
    return "no item has two labels" if len(set(votes.items)) == len(votes.items) else ""


def _between(arm: str, name: str, votes: Votes) -> AnnotatorAgreement:
    together = consensus(votes) if len(votes.scaled.labels) > 1 else Together((), ())
    return AnnotatorAgreement(arm, name, tuple(pairs_alike(votes)), tuple(with_others(votes)), together)


def _own(labels: Sequence[Label]) -> dict[str, Estimate]:
    """Return self-agreement in each dimension; a label that is left out in either round counts in neither."""
    said = {(one.item, one.annotator, one.dimension, one.arm, one.round): one.label for one in labels if one.label}
    found: dict[str, list[tuple[str, str, str]]] = {}
    for (item, annotator, dimension, arm, turn), label in said.items():
        first = said.get((item, annotator, dimension, arm, 1))
        if turn > 1 and first is not None:
            found.setdefault(dimension, []).append((first, label, annotator))
    return {name: self_agreement(*map(list, zip(*rows, strict=True))) for name, rows in found.items()}
