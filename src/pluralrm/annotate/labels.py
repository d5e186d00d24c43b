"""Labels, one row each, from a plan's judgments or from a file; their scales, and how far annotators agree.

A label is blank where the annotator could not tell. `round` 2 and later are repeats: self-agreement is about these.
Files are CSV or JSONL. A cell that a spreadsheet would run as a formula is written with an apostrophe before it, and
read without.
"""

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Literal

from pluralrm.annotate.judgments import QUESTIONS, FourOpinion, Judgment, PairOpinion, four_opinions, pair_opinions
from pluralrm.annotate.plan import DIMENSIONS, AnnotationPlan, Dimension
from pluralrm.annotate.rehearsal import is_rehearsal
from pluralrm.benchmarks.rows import CsvRow, Place, describe, read_rows
from pluralrm.core import Estimate
from pluralrm.display import json_fields
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
from pluralrm.text import counted, flat, listed, unguarded, visible

TOWARD: Mapping[int, str] = {2: "first", 1: "slightly_first", 0: "equal", -1: "slightly_second", -2: "second"}
"""A choice between two answers, by the item's own order of them: the annotators' screens had orders of their own."""
SCALES: Mapping[str, Scaled] = {
    **{question: Scaled(tuple(TOWARD.values())[::-1], "interval", (-2, -1, 0, 1, 2)) for question in QUESTIONS},
    **{f"{name}_score": Scaled(tuple("12345"), "interval", (1, 2, 3, 4, 5)) for name in DIMENSIONS},
    "best": Scaled(("answer1", "answer2", "answer3", "answer4")),
    "fitting": Scaled(("none", "one", "several"), "ordinal"),
    "naturalness": Scaled(tuple("12345"), "interval", (1, 2, 3, 4, 5)),
    "same_meaning": Scaled(("no", "yes")),
}
"""What is asked on the page, and the scale of its answers."""


@dataclass(frozen=True, slots=True)
class Label:
    """What one annotator said of one item in one dimension."""

    item: str
    annotator: str
    label: str
    dimension: str = ""
    domain: str = ""
    arm: str = ""
    cluster: str = ""
    """Items that are not independent have one; blank where an item stands by itself."""
    round: int = 1
    rehearsal: bool = False
    """Whether it is simulated."""
    certainty: float | None = None
    """How certain the annotator says to be, the higher the more."""


# ---------------------------------------------------------------- from judgments


def labels_of(plan: AnnotationPlan, judgments: Sequence[Judgment]) -> list[Label]:
    """Return every standing answer of a plan's judgments as labels; attention checks and examples are left out."""
    rated = plan.declared.rated
    pairs = (
        row for pair in pair_opinions(plan, judgments) if pair.screen.kind != "check" for row in _pair(pair, rated)
    )
    fours = (row for four in four_opinions(plan, judgments) if four.screen.kind != "check" for row in _four(four))
    drawn = is_rehearsal(judgments)
    return [replace(label, rehearsal=drawn) for label in chain(pairs, fours)]


def _pair(opinion: PairOpinion, rated: Sequence[Dimension]) -> Iterator[Label]:
    for question in QUESTIONS:
        side = opinion.toward(0, question)
        yield _label(opinion, question, "" if side is None else TOWARD[side])
    for name in rated:
        for candidate in (0, 1):
            score = opinion.score(candidate, name)
            yield _label(opinion, f"{name}_score", "" if score is None else str(score), f"#{candidate + 1}")


def _four(opinion: FourOpinion) -> Iterator[Label]:
    pick, same = opinion.picked(), opinion.answers.same_meaning
    yield _label(opinion, "best", "" if pick is None else f"answer{pick + 1}")
    yield _label(opinion, "fitting", opinion.answers.fitting)
    yield _label(opinion, "naturalness", str(opinion.answers.naturalness))
    if same is not None:
        yield _label(opinion, "same_meaning", "" if same == "cannot_tell" else same)


def _label(opinion: PairOpinion | FourOpinion, dimension: str, label: str, part: str = "") -> Label:
    return Label(
        item=f"{opinion.item.id}{part}",
        annotator=opinion.annotator,
        label=label,
        dimension=dimension,
        domain=opinion.item.domain,
        arm=opinion.arm,
        cluster=opinion.item.cluster,
        round=2 if opinion.screen.kind == "repeat" else 1,
    )


# ---------------------------------------------------------------- their scales


def scales_of(labels: Iterable[Label], declared: Scaled | None = None) -> dict[str, Scaled]:
    """Return the scale of each dimension: what was declared, the page's own, or what the labels look like.

    Numbers are an interval scale, any other labels are nominal. A declared scale without labels has those that come.
    """
    used: dict[str, set[str]] = {}
    for label in labels:
        used.setdefault(label.dimension, set()).update({label.label} - {""})
    return {name: _scale(name, texts, declared) for name, texts in used.items()}


def _scale(name: str, texts: set[str], declared: Scaled | None) -> Scaled:
    if declared is not None and declared.labels:
        return declared
    if declared is None and name in SCALES and texts <= set(SCALES[name].labels):
        return SCALES[name]
    scaled = _looks(texts)
    if declared is None:
        return scaled
    if declared.scale != "nominal" and scaled.scale != "interval":
        raise MetricError(
            f"a scale that is {declared.scale} of the labels {', '.join(scaled.labels[:9])}: say their order"
        )
    return Scaled(scaled.labels, declared.scale, scaled.worths)


def _looks(labels: set[str]) -> Scaled:
    numbers = {label: _number(label) for label in labels}
    worths = {label: value for label, value in numbers.items() if value is not None}
    words = sorted(labels - worths.keys())
    if len(worths) > len(words) > 0:
        # "NA" among numbers would make them labels without an order, and agreement beyond recognition.
        raise MetricError(
            f"labels {', '.join(sorted(worths)[:5])} are numbers and {', '.join(map(repr, words[:5]))} is none: leave "
            "such cells blank, or name all labels in ascending order"
        )
    if labels and len(worths) == len(labels) and len(set(worths.values())) == len(labels):
        ordered = sorted(worths, key=worths.__getitem__)
        return Scaled(tuple(ordered), "interval", tuple(worths[label] for label in ordered))
    return Scaled(tuple(sorted(labels)))


def _number(label: str) -> float | None:
    with suppress(ValueError):
        return value if abs(value := float(label)) < 1e300 else None
    return None


NEEDED = ("item", "annotator", "label")
MORE = ("dimension", "domain", "arm", "cluster", "round")
_REHEARSAL = "rehearsal"
"""A column of simulated labels; others have none."""
_CERTAINTY = "certainty"
_READ = frozenset({*NEEDED, *MORE, _CERTAINTY, _REHEARSAL})
_LONGEST_ROUND = 6  # digits
_MISSING = frozenset({"", "-", "cannot_tell", "nan", "NaN"})


def read_labels(path: Path) -> list[Label]:
    """Return the labels in a CSV, JSONL or Parquet file: columns item, annotator, label, perhaps MORE and certainty.

    Blank labels, NaN, "-" and "cannot_tell" are blank. A label that comes twice is a RowError; columns that are not
    read are named in a warning.
    """
    if not path.is_file():
        raise MetricError(f"cannot read {str(path)!r}: no such file. Wanted CSV or JSONL in UTF-8: {', '.join(NEEDED)}")
    if path.suffix not in {".jsonl", ".json", ".csv", ".parquet", ".gz"}:
        raise MetricError(f"cannot read {str(path)!r}: wanted a name that ends in .csv, .jsonl, .json or .parquet")
    return labels_in_rows(path, read_rows(path, nan=True))


def labels_in_rows(path: Path, rows: Iterable[tuple[Place, Mapping[str, object]]]) -> list[Label]:
    """Return rows as labels; none at all is a MetricError."""
    labels: list[Label] = []
    seen: set[tuple[str, ...]] = set()
    unread: dict[str, None] = {}
    for location, row in rows:
        columns = row.columns if isinstance(row, CsvRow) else list(row)
        if not labels and (isinstance(row, CsvRow) or "item" not in columns):
            _check_columns(columns, path)
        label = _checked(row, location)
        unread |= dict.fromkeys(name for name in columns if name not in _READ)
        key = (label.item, label.annotator, label.dimension, label.arm, str(label.round))
        if key in seen:
            raise location.refuse(
                "annotator",
                found=f"{label.annotator!r} on {label.item!r} again",
                wanted="one label of each; for judgments that were asked for twice, a column 'round'",
            )
        seen.add(key)
        labels.append(label)
    if not any(label.label for label in labels):
        raise MetricError(f"{path}: found no label; wanted one row for each judgment: {', '.join(NEEDED)}")
    if unread:
        warnings.warn(f"{path}: columns that are not read: {listed([visible(name) for name in unread])}", stacklevel=3)
    return labels


_OF_A_PLAN = ". It is of a plan: pluralrm annotate agreement PLAN --judgments FILE"


def _check_columns(columns: Sequence[str], path: Path) -> None:
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        raise MetricError(
            f"{path}: no column {missing[0]!r}; found {listed([visible(name) for name in columns], 9)}; wanted one row "
            f"for each judgment: {', '.join(NEEDED)}{_OF_A_PLAN * ('handle' in columns)}"
        )


def _checked(row: Mapping[str, object], location: Place) -> Label:
    """Return a row as a label; columns that are not ours are passed over."""
    texts = {name: _text(row, name, location) for name in (*NEEDED, *MORE)}
    for name in ("item", "annotator"):
        if not texts[name]:
            raise location.refuse(name, found=describe(row.get(name, "")), wanted="a name")
    turn = texts.pop("round") or "1"
    if not (turn.isascii() and turn.isdecimal()) or len(turn) > _LONGEST_ROUND or int(turn) < 1:
        raise location.refuse("round", found=describe(row.get("round")), wanted="a whole number from 1")
    if texts["label"] in _MISSING:
        texts["label"] = ""
    certainty = _number(sure) if (sure := _text(row, _CERTAINTY, location)) else None
    if sure and certainty is None:
        raise location.refuse(_CERTAINTY, found=describe(row.get(_CERTAINTY)), wanted="a number")
    return Label(**texts, round=int(turn), rehearsal=bool(_text(row, _REHEARSAL, location)), certainty=certainty)


def _text(row: Mapping[str, object], name: str, location: Place) -> str:
    value = row.get(name)
    if value is None:
        return ""
    if isinstance(value, bool | float | int | str):
        text = str(value)
        return (unguarded(text) if isinstance(row, CsvRow) else text).strip()
    raise location.refuse(name, found=describe(value), wanted="a text or a number")


def jsonl_text(rows: Iterable[Mapping[str, object]]) -> str:
    """Return rows as JSON lines."""
    return "".join(f"{json.dumps(row, ensure_ascii=False, separators=(',', ':'))}\n" for row in rows)


def rows_of(labels: Iterable[Label]) -> list[Mapping[str, object]]:
    """Return labels as rows of a file; those that could not be told stay, so that they can be counted."""
    return [_row(label) for label in labels]


def _row(label: Label) -> Mapping[str, object]:
    row: dict[str, object] = {**asdict(label), "label": label.label or "cannot_tell"}
    unused = {_CERTAINTY} if label.rehearsal else {_CERTAINTY, _REHEARSAL}
    return {name: value for name, value in row.items() if name not in unused}


Ties = Literal["kept", "left_out"]
CannotTell = Literal["left_out", "tie"]
Slight = Literal["kept", "merged"]
TIES = ("equal", "tie")  # on the page and in files


@dataclass(frozen=True, slots=True)
class Policies:
    """What becomes of ties, of "cannot tell", and of slight preferences."""

    ties: Ties = "kept"
    cannot_tell: CannotTell = "left_out"
    slight: Slight = "kept"

    def sentences(self, labels: Sequence[Label], scales: Mapping[str, Scaled]) -> list[str]:
        """Return in sentences what was done, with how many labels it was done to."""
        ties = sum(label.label in TIES for label in labels)
        blank = [_tie(scales[label.dimension]) for label in labels if not label.label]
        slight = sum(label.label.startswith("slightly_") for label in labels)
        rule = {"kept": "kept as a label of their own", "left_out": "left out"}[self.ties]
        sentences = [f"ties: {rule} ({counted(ties, 'label')})"]
        as_ties = sum(tie != "" for tie in blank) if self.cannot_tell == "tie" else 0
        what = {"left_out": "left out", "tie": "counted as ties"}[self.cannot_tell]
        sentences.append(
            f"cannot tell: {what} ({counted(as_ties if self.cannot_tell == 'tie' else len(blank), 'label')})"
        )
        if self.cannot_tell == "tie" and as_ties < len(blank):
            sentences.append(
                f"cannot tell where no label is a tie: left out ({counted(len(blank) - as_ties, 'label')})"
            )
        if slight:
            side = {"kept": "kept as labels of their own", "merged": "counted as preferences"}[self.slight]
            sentences.append(f"slight preferences: {side} ({counted(slight, 'label')})")
        return sentences

    def of(self, original: Label, scaled: Scaled) -> Label:
        """Return what a label counts as; blank is left out, also where a scale has no tie that it could be."""
        label = original.label
        if not label and self.cannot_tell == "tie":
            label = _tie(scaled)
        if label in TIES and self.ties == "left_out":
            label = ""
        if self.slight == "merged":
            label = label.removeprefix("slightly_")
        return replace(original, label=label)

    def scale(self, scaled: Scaled) -> Scaled:
        """Return a scale without the labels that no longer come."""
        gone = {label for label in scaled.labels if self.ties == "left_out" and label in TIES}
        if self.slight == "merged":
            gone |= {label for label in scaled.labels if label.startswith("slightly_")}
        indices = [index for index, label in enumerate(scaled.labels) if label not in gone]
        worths = tuple(scaled.worths[index] for index in indices) if scaled.worths else ()
        return Scaled(tuple(scaled.labels[index] for index in indices), scaled.scale, worths)


def _tie(scaled: Scaled) -> str:
    return next((label for label in scaled.labels if label in TIES), "")


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
        about = json_fields(self, "arm", "dimension", "domain", "labels", "items", "annotators")
        values = {each.name: each.estimate and each.estimate.to_json() for each in self.coefficients}
        return {**about, **values, **({"why": self.why} if self.why else {})}

    def records(self) -> list[dict[str, object]]:
        """Return a flat row per coefficient."""
        about = {"arm": self.arm, "dimension": self.dimension, "domain": self.domain or "all"}
        counts = {"labels": self.labels, "items": self.items, "annotators": self.annotators}
        return [
            about | counts | {"coefficient": coefficient.title} | flat("value", coefficient.estimate)
            for coefficient in self.coefficients
        ]


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
            "pairs": [{"annotators": row.annotators, "alike": row.share.to_json()} for row in self.pairs],
            "with_others": {row.annotators[0]: row.share.to_json() for row in self.others},
            "expected_right": dict(self.together.right),
            "undecided": self.together.undecided,
            "consensus": [
                {
                    "item": opinion.item,
                    "most_frequent": opinion.most_frequent,
                    "dawid_skene": opinion.consensus,
                    "likely": opinion.likely,
                }
                for opinion in self.together.said
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
            **json_fields(self, "source", "rehearsal", "policies"),
            "agreement": [part.to_json() for part in self.parts],
            **json_fields(self, "between"),
            "self_agreement": {name: estimate.to_json() for name, estimate in self.own.items()},
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
    raw = scales_of(labels, declared)
    rows = [policies.of(label, raw[label.dimension]) for label in labels]
    scales = {name: policies.scale(scaled) for name, scaled in raw.items()}
    first = [label for label in rows if label.round == 1]
    parts, between = [], []
    for arm in sorted({label.arm for label in first}):
        of_arm = [label for label in first if label.arm == arm]
        for number, name in enumerate(dict.fromkeys(label.dimension for label in of_arm)):
            own = [label for label in of_arm if label.dimension == name]
            parts += _parts(arm, name, own, scales[name], seed=seed, resamples=resamples)
            if number == 0 and any(label.label for label in own):
                between.append(_between(arm, name, votes_of(own, scales[name])))
    if not any(part.coefficients for part in parts):
        raise MetricError(f"{source}: no item has two labels; wanted some")
    return AgreementResult(
        source, tuple(policies.sentences(labels, raw)), tuple(parts), tuple(between), _own(rows), rehearsal
    )


def votes_of(labels: Sequence[Label], scaled: Scaled) -> Votes:
    """Return labels as votes; blank ones are counted as left out."""
    filled = [label for label in labels if label.label]
    return Votes(
        tuple(label.item for label in filled),
        tuple(label.annotator for label in filled),
        tuple(label.label for label in filled),
        scaled,
        tuple(label.cluster or label.item for label in filled),
        len(labels) - len(filled),
    )


def _parts(
    arm: str, name: str, labels: Sequence[Label], scaled: Scaled, *, seed: int, resamples: int
) -> list[DimensionAgreement]:
    """Return the dimension in all domains, and in each where there are several."""
    domains = sorted({label.domain for label in labels})
    parts = []
    for domain in ["", *(domains if len(domains) > 1 else [])]:
        votes = votes_of([label for label in labels if domain in {"", label.domain}], scaled)
        counts = (len(votes.labels), len(set(votes.items)), len(set(votes.annotators)))
        why = "no item has two labels" if len(set(votes.items)) == len(votes.items) else ""
        coefficients = [] if why else agreement(votes, seed=seed, resamples=resamples)
        parts.append(DimensionAgreement(arm, name, domain, *counts, tuple(coefficients), why))
    return parts


def _between(arm: str, name: str, votes: Votes) -> AnnotatorAgreement:
    together = consensus(votes) if len(votes.scaled.labels) > 1 else Together((), ())
    return AnnotatorAgreement(arm, name, tuple(pairs_alike(votes)), tuple(with_others(votes)), together)


def _own(labels: Sequence[Label]) -> dict[str, Estimate]:
    """Return self-agreement in each dimension; a label that is left out in either round counts in neither."""
    texts = {
        (label.item, label.annotator, label.dimension, label.arm, label.round): label.label
        for label in labels
        if label.label
    }
    pairs: dict[str, list[tuple[str, str, str]]] = {}
    for (item, annotator, dimension, arm, turn), label in texts.items():
        first = texts.get((item, annotator, dimension, arm, 1))
        if turn > 1 and first is not None:
            pairs.setdefault(dimension, []).append((first, label, annotator))
    return {name: self_agreement(*map(list, zip(*rows, strict=True))) for name, rows in pairs.items()}
