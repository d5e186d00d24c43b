"""May a judge stand in for a person? Of runs; or of labels in a plan or file, with one of the annotators, those of a
second file or a run as judge.

>>> from pluralrm import stand_in
>>> for answer in stand_in("labels.csv", "gpt", epsilon=0.1):  # doctest: +SKIP
...     print(answer)
gpt may stand in for a person: it agrees with the others as well as 9 of 12 people do, epsilon 0.1
"""

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pluralrm.annotate.judgments import inattentive, judged_plan, told_inattentive
from pluralrm.annotate.labels import TIES, Label, Policies, labels_in_rows, labels_of, read_labels, scales_of, votes_of
from pluralrm.annotate.plan import read_plan
from pluralrm.benchmarks.rows import WITH_NAN, Place, describe, json_value
from pluralrm.core import Row, Run
from pluralrm.errors import MetricError, PlanError, SpecError, did_you_mean
from pluralrm.metrics.agreement import Scaled
from pluralrm.metrics.stand_in import (
    TERMS,
    JudgeAnswer,
    StandInResult,
    StandInTerms,
    rating_of,
    run_comparisons,
    stand_in_result,
    votes_comparisons,
)
from pluralrm.metrics.units import numbers
from pluralrm.runs import load_runs
from pluralrm.text import listed

Source = str | Path | Run


def stand_in(
    source: Source | Sequence[Source],
    judge: Source | Sequence[Source] = (),
    *,
    judgments: str | Path | None = None,
    dimension: str = "",
    epsilon: float = TERMS.epsilon,
    alpha: float = TERMS.alpha,
    fewest: int = TERMS.fewest,
) -> list[StandInResult]:
    """Return an answer for each run, or for each judge (a name, file or run) of the labels in a plan or file.

    `fewest` are the independent items that a person must have; below three such people the ruling is "too few".
    """
    terms = StandInTerms(epsilon, alpha, fewest).checked()
    judges, sources = _listed(judge), _listed(source)
    if not judges:
        return [of_run(run, terms) for run in load_all(sources)]
    if len(sources) != 1 or isinstance(sources[0], Run):
        raise SpecError("a judge goes with one plan or file of labels; wanted its path")
    path = Path(sources[0])
    people, _ = labels_in(path, None if judgments is None else Path(judgments))
    return judged_labels(path, people, judges, dimension=dimension, terms=terms)


def _listed(sources: Source | Sequence[Source]) -> list[Source]:
    return [sources] if isinstance(sources, str | Path | Run) else list(sources)


def load_all(sources: Iterable[Source]) -> list[Run]:
    """Return the runs, and those below the folders."""
    return [run for source in sources for run in ([source] if isinstance(source, Run) else load_runs(source))]


def of_run(run: Run, terms: StandInTerms) -> StandInResult:
    """Return whether a model may stand in for the people who judged the items of its run."""
    return stand_in_result(run_name(run), run_comparisons(run), data=run.benchmark, terms=terms)


def run_name(run: Run) -> str:
    """Return what a run is called as a judge."""
    return f"{run.name or run.model} under {run.condition}"


class LabelJudge(NamedTuple):
    """A judge of labelled items: its own labels, or a run, whose best candidates are named as the labels name them."""

    name: str
    labels: Sequence[Label] = ()
    run: Run | None = None


# ---------------------------------------------------------------- labels


def labels_in(path: Path, judgments: Path | None = None, attention: float | None = None) -> tuple[list[Label], str]:
    """Return the labels of a plan's judgments, or those in a file, and who is left out."""
    if path.is_dir():
        plan, every = judged_plan(path, judgments)
        least = plan.declared.claim.attention if attention is None else attention
        out = inattentive(plan, every, least)
        rows = [label for label in labels_of(plan, every) if label.annotator not in out]
        if out and not rows:
            raise PlanError(f"{path}: no judgment is left: {told_inattentive(out, least)}; see --attention")
        return rows, told_inattentive(out, least)
    if judgments is not None or attention is not None:
        raise SpecError("--judgments and --attention go with a plan's folder; a file has labels alone")
    return read_label_table(path), ""


def read_label_table(path: Path) -> list[Label]:
    """Return the labels in a file of rows (`read_labels`), or in JSON of {annotator: {item: label}}."""
    if path.suffix == ".json":
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as exc:
            raise MetricError(f"cannot read {str(path)!r}: {exc}. Wanted JSON in UTF-8") from exc
        if text.lstrip().startswith("{"):
            return labels_in_rows(path, _nested_rows(text, Place(str(path), 1)))
    return read_labels(path)


def _nested_rows(text: str, location: Place) -> Iterator[tuple[Place, Mapping[str, object]]]:
    content = json_value(text, location, "(file)", "JSON of {annotator: {item: label}}", decoder=WITH_NAN)
    for annotator, own in content.items() if isinstance(content, dict) else ():
        if not isinstance(own, dict):
            raise location.refuse(str(annotator), found=describe(own), wanted="{item: label}")
        for item, label in own.items():
            yield location, {"item": item, "annotator": annotator, "label": label}


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


# ---------------------------------------------------------------- judges


def judged_labels(
    path: Path,
    rows: Sequence[Label],
    judges: Iterable[Source],
    *,
    declared: Scaled | None = None,
    dimension: str = "",
    terms: StandInTerms = TERMS,
) -> list[StandInResult]:
    """Return each judge of the labels in a plan or file; one of its own annotators is no longer among the people."""
    people: Sequence[Label] = rows
    each: list[LabelJudge] = []
    for judge in {str(judge.path if isinstance(judge, Run) else judge): judge for judge in judges}.values():
        if isinstance(judge, Run) or Path(judge).is_dir():
            each += [LabelJudge(run_name(run), run=run) for run in _same_content(path, load_all([judge]))]
        elif Path(judge).is_file():
            each += judges_in(read_label_table(Path(judge)))
        else:
            people, labels = parted(people, str(judge))
            each.append(labels)
    return [
        result
        for own in each
        for result in stand_ins(str(path), people, own, dimension=dimension, declared=declared, terms=terms)
    ]


def _same_content(path: Path, runs: list[Run]) -> list[Run]:
    """Return the runs; one on another content than a plan's is a PlanError."""
    if path.is_dir():
        content = read_plan(path).declared.content_hash
        for run in runs:
            if run.benchmark_hash != content:
                raise PlanError(
                    f"{run.path}: scored {run.benchmark!r} (content {run.benchmark_hash[:12]}), and the plan {path} is "
                    f"of content {content[:12]}; wanted a run on the same items and seed"
                )
    return runs


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
    if dimension and dimension not in dimensions:
        hint = did_you_mean(dimension, filter(None, dimensions)) or " Its labels have no dimensions."
        raise MetricError(f"{source}: no dimension {dimension!r}.{hint}")
    _check_name(source, judge, {label.annotator for label in people})
    if judge.run is not None:
        names = [dimension or dimensions[0]] if dimensions else []
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
            data = ", ".join(filter(None, (source, arm, name)))
            unmatched = _unmatched(data, judge, answers, scales[name])
            comparisons = votes_comparisons(votes_of(own, scales[name]), answers) if answers else []
            if comparisons:
                result = stand_in_result(judge.name, comparisons, data=data, terms=terms)
                drawn = any(label.rehearsal for label in own)
                results.append(replace(result, unmatched=unmatched, rehearsal=drawn))
    if not results:
        items = sorted({label.item for label in first})
        raise MetricError(
            f"{source}: {judge.name} judged no item that two other people labelled; they labelled "
            f"{f'items such as {listed(items)}' if items else 'none'}"
        )
    unjudged = [name for name in dimensions if name not in names] if judge.run is None and not dimension else []
    if unjudged:
        warnings.warn(f"{source}: {judge.name} has no label in {listed(unjudged)}: not compared", stacklevel=2)
    return results


def _check_name(source: str, judge: LabelJudge, annotators: Collection[str]) -> None:
    if judge.run is None and judge.name in annotators:
        raise MetricError(
            f"{source}: {judge.name!r} is one of its annotators, and the judge of another file too; to judge an "
            f"annotator: --judge {judge.name}; otherwise rename one of them"
        )


def _unmatched(data: str, judge: LabelJudge, answers: Mapping[str, JudgeAnswer], scaled: Scaled) -> tuple[str, ...]:
    """Return the judge's labels that no person could have meant; where all are such, it is a MetricError."""
    if judge.run is not None:
        return ()
    worths = dict(zip(scaled.labels, scaled.worths or range(len(scaled.labels)), strict=True))
    counts = Counter(answer.label for answer in answers.values() if answer.label)
    numeric = scaled.scale == "interval"
    strange = [
        label
        for label, _ in counts.most_common()
        if (rating_of(label, worths) if numeric else worths.get(label)) is None
    ]
    if strange and len(strange) == len(counts):
        raise MetricError(
            f"{data}: {judge.name} answers {listed([repr(label) for label in strange])}, and people "
            f"{listed([repr(label) for label in scaled.labels])}; wanted the same labels"
        )
    return tuple(strange)


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
