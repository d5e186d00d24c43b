"""Labels: what annotators said of items, one row each, from a plan's judgments; and the scales that labels are on.

A label is blank where the annotator could not tell. `round` 2 and later are repeats: self-agreement is about these.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from pluralrm.annotate.design import DIMENSIONS, Dimension, Plan
from pluralrm.annotate.judgments import Judgment
from pluralrm.annotate.opinions import QUESTIONS, FourOpinion, PairOpinion, four_opinions, pair_opinions
from pluralrm.annotate.rehearsal import is_rehearsal
from pluralrm.errors import MetricError
from pluralrm.metrics.agreement import Scaled

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
    """Whether nobody said it."""


# ---------------------------------------------------------------- from judgments


def labels_of(plan: Plan, judgments: Sequence[Judgment]) -> list[Label]:
    """Return every standing answer of a plan's judgments as labels; attention checks and examples are left out."""
    rated = plan.declared.rated
    pairs = (row for one in pair_opinions(plan, judgments) if one.screen.kind != "check" for row in _pair(one, rated))
    fours = (row for one in four_opinions(plan, judgments) if one.screen.kind != "check" for row in _four(one))
    drawn = is_rehearsal(judgments)
    return [replace(one, rehearsal=drawn) for one in chain(pairs, fours)]


def _pair(one: PairOpinion, rated: Sequence[Dimension]) -> Iterator[Label]:
    for question in QUESTIONS:
        side = one.toward(0, question)
        yield _label(one, question, "" if side is None else TOWARD[side])
    for name in rated:
        for candidate in (0, 1):
            score = one.score(candidate, name)
            yield _label(one, f"{name}_score", "" if score is None else str(score), f"#{candidate + 1}")


def _four(one: FourOpinion) -> Iterator[Label]:
    picked, same = one.picked(), one.answers.same_meaning
    yield _label(one, "best", "" if picked is None else f"answer{picked + 1}")
    yield _label(one, "fitting", one.answers.fitting)
    yield _label(one, "naturalness", str(one.answers.naturalness))
    if same is not None:
        yield _label(one, "same_meaning", "" if same == "cannot_tell" else same)


def _label(one: PairOpinion | FourOpinion, dimension: str, label: str, part: str = "") -> Label:
    return Label(
        item=f"{one.item.id}{part}",
        annotator=one.annotator,
        label=label,
        dimension=dimension,
        domain=one.item.domain,
        arm=one.arm,
        cluster=one.item.cluster,
        round=2 if one.screen.kind == "repeat" else 1,
    )


# ---------------------------------------------------------------- their scales


def scales_of(labels: Iterable[Label], declared: Scaled | None = None) -> dict[str, Scaled]:
    """Return the scale of each dimension: what was declared, the page's own, or what the labels look like.

    Numbers are an interval scale, any other labels are nominal. A declared scale without labels has those that come.
    """
    used: dict[str, set[str]] = {}
    for one in labels:
        used.setdefault(one.dimension, set()).update({one.label} - {""})
    return {name: _scale(name, known, declared) for name, known in used.items()}


def _scale(name: str, known: set[str], declared: Scaled | None) -> Scaled:
    if declared is not None and declared.labels:
        return declared
    if declared is None and name in SCALES and known <= set(SCALES[name].labels):
        return SCALES[name]
    found = _looks(known)
    if declared is None:
        return found
    if declared.scale != "nominal" and found.scale != "interval":
        raise MetricError(
            f"a scale that is {declared.scale} of the labels {', '.join(found.labels[:9])}: say their order"
        )
    return Scaled(found.labels, declared.scale, found.worths)


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
    try:
        value = float(label)
    except ValueError:
        return None
    return value if abs(value) < 1e300 else None
