"""A judge beside the annotators of a file or plan: one of them, the annotators of a second file, or a run."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from pluralrm.annotate.labels import TIES, Label, Policies, read_labels, scales_of, votes_of
from pluralrm.core import Row, Run
from pluralrm.errors import MetricError, did_you_mean
from pluralrm.metrics.agreement import Scaled
from pluralrm.metrics.stand_in import TERMS, JudgeAnswer, StandInResult, StandInTerms, stand_in, votes_comparisons
from pluralrm.metrics.units import numbers
from pluralrm.text import listed


class LabelJudge(NamedTuple):
    """A judge of labelled items: its own labels, or a run, whose best candidates are named as the labels name them."""

    name: str
    labels: Sequence[Label] = ()
    run: Run | None = None


def read_label_table(path: Path) -> list[Label]:
    """Return the labels in a file of rows (`read_labels`), or in JSON of {annotator: {item: label}}."""
    if path.suffix == ".json":
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as exc:
            raise MetricError(f"cannot read {str(path)!r}: {exc}. Wanted JSON in UTF-8") from exc
        if isinstance(content, dict) and content and all(isinstance(own, dict) for own in content.values()):
            return [
                Label(str(item), str(annotator), "" if label is None else str(label).strip())
                for annotator, own in content.items()
                for item, label in own.items()
            ]
    return read_labels(path)


def parted(labels: Sequence[Label], name: str) -> tuple[list[Label], LabelJudge]:
    """Return the labels of everybody else, and the annotator of this name as a judge."""
    names = {label.annotator for label in labels}
    if name not in names:
        raise MetricError(f"judge {name!r}: no annotator, file or run of that name.{did_you_mean(name, names)}")
    people = [label for label in labels if label.annotator != name]
    return people, LabelJudge(name, [label for label in labels if label.annotator == name])


def judges_in(labels: Iterable[Label]) -> list[LabelJudge]:
    """Return each annotator of a second file as a judge."""
    own: dict[str, list[Label]] = {}
    for label in labels:
        own.setdefault(label.annotator, []).append(label)
    return [LabelJudge(name, rows) for name, rows in own.items()]


def stand_ins(
    source: str,
    people: Sequence[Label],
    judge: LabelJudge,
    *,
    dimension: str = "",
    declared: Scaled | None = None,
    terms: StandInTerms = TERMS,
) -> list[StandInResult]:
    """Return whether a judge may stand in for an annotator, in each arm and in each dimension that it has judged.

    A run has one answer per item: it is set against the first dimension, or the one that is named; slight preferences
    are then preferences. First rounds count, and blank labels of people are missing.
    """
    first = [label for label in people if label.round == 1]
    dimensions = list(dict.fromkeys(label.dimension for label in first))
    if judge.run is not None:
        names = [dimension or dimensions[0]]
        merged = Policies(slight="merged")
        first = [merged.of(label, Scaled(())) for label in first if label.dimension in names]
        scales = {name: Scaled(tuple(sorted({row.label for row in first if row.label}))) for name in names}
    else:
        judged = {label.dimension for label in judge.labels}
        names = [name for name in dimensions if name in judged and dimension in {"", name}]
        scales = scales_of([label for label in first if label.dimension in names], declared)
    results = []
    for arm in sorted({label.arm for label in first}):
        for name in names:
            own = [label for label in first if (label.arm, label.dimension) == (arm, name)]
            answers = _answers(judge, own)
            comparisons = votes_comparisons(votes_of(own, scales[name]), answers) if answers else []
            data = ", ".join(filter(None, (source, arm, name)))
            results += [stand_in(judge.name, comparisons, data=data, terms=terms)] if comparisons else []
    if not results:
        items = listed(sorted({label.item for label in first}))
        raise MetricError(f"{source}: {judge.name} judged no item that two people labelled, such as {items}")
    return results


def _answers(judge: LabelJudge, people: Sequence[Label]) -> dict[str, JudgeAnswer]:
    """Return the judge's answers on the items of one arm and dimension; a judge without arms is one for all."""
    items = {label.item for label in people}
    if judge.run is not None:
        return _picks(judge.run, items, {label.label for label in people} - {""})
    about = {key for label in people for key in ((label.dimension, label.arm), (label.dimension, ""))}
    return {
        label.item: JudgeAnswer(label.label, label.certainty)
        for label in judge.labels
        if label.round == 1 and label.item in items and (label.dimension, label.arm) in about
    }


def _picks(run: Run, items: set[str], used: set[str]) -> dict[str, JudgeAnswer]:
    """Return the best candidate of each row by the name that the labels give it; a tie is a label of its own."""
    rows = [row for row in run.rows if row.item in items]
    namings: tuple[Callable[[Row], Sequence[str]], ...] = (
        lambda row: ("first", "second")[: len(row.scores)],
        lambda row: [f"answer{number}" for number in range(1, len(row.scores) + 1)],
        lambda row: row.candidate_ids,
    )
    tie = next((label for label in TIES if label in used), TIES[0])
    for naming in namings:
        if rows and used - {tie} <= {name for row in rows for name in naming(row)}:
            return {row.item: _pick(row, naming(row), tie) for row in rows}
    if not rows:
        return {}
    raise MetricError(
        f"{run.path or run.model}: labels {listed(sorted(used))} name no candidates; wanted first and second, answer1 "
        "to answerN, or the names of candidates"
    )


def _pick(row: Row, names: Sequence[str], tie: str) -> JudgeAnswer:
    scores = numbers(row)
    if scores is None:
        return JudgeAnswer("")
    best, second = sorted(scores)[:-3:-1]
    return JudgeAnswer(names[scores.index(best)] if best > second else tie, best - second)
