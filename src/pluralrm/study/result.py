"""What a study found, as data: a function of what is on disk, without a time, and without a path outside its folder."""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TypeVar, cast

from pluralrm._version import __version__
from pluralrm.core import Estimate, Run
from pluralrm.correlate import Column, CorrelationReport, columns_of_outcomes, columns_of_runs, correlate
from pluralrm.correlate.measures import FEWEST
from pluralrm.display import Record, Tabular, json_fields
from pluralrm.errors import MetricError
from pluralrm.metrics.estimates import measure
from pluralrm.policies.best_of_n import BestOfN
from pluralrm.policies.outcomes import load_outcome
from pluralrm.policies.pool import POOL
from pluralrm.runs import load_manifest
from pluralrm.specs import short_names
from pluralrm.study.file import StudyDeclaration
from pluralrm.study.parts import Missing, models_of, names_of
from pluralrm.study.ppo import Training
from pluralrm.study.ppo.results import Answers, Apart, Change, PolicyResult, Seeded, TrainingResults, columns_of
from pluralrm.study.steps import BestOfNResult, StudyWork
from pluralrm.text import flat
from pluralrm.training.job import UserParts
from pluralrm.training.records import RUN, TrainingManifest, read_run


@dataclass(frozen=True)
class StudyColumn:
    """A benchmark under a condition, or best-of-k or PPO under one: a column, and each model's Estimate."""

    column: Column
    metric: str
    estimates: Mapping[str, Estimate]

    @property
    def name(self) -> str:
        """What the column is called."""
        return self.column.name

    @property
    def condition(self) -> str:
        """What the models were shown."""
        return self.column.condition


def benchmark_sides(done: StudyWork) -> list[StudyColumn]:
    """Return one side per benchmark and condition."""
    sides = []
    for column in columns_of_runs(done.runs):
        runs = [run for run in done.runs if (run.benchmark_hash, run.condition) == (column.source, column.condition)]
        sides.append(StudyColumn(column, runs[0].card.metrics[0], {run.model: measure(run) for run in runs}))
    return sides


def downstream_sides(best_of: BestOfNResult) -> list[StudyColumn]:
    """Return one side per k and condition, from the Outcomes on disk."""
    outcomes = [load_outcome(folder) for folder in best_of.outcomes]
    return [
        StudyColumn(_of_policy(column, best_of.pool.reveals), "grade", _grades(best_of, k, column.condition))
        for k in best_of.points
        for column in columns_of_outcomes(outcomes, [k])
    ]


def trained_sides(trained: TrainingResults) -> list[StudyColumn]:
    """Return one side per condition: what the policies are worth after training."""
    reveals = trained.recipe.condition.reveals
    return [StudyColumn(_of_policy(column, reveals), "grade", estimates) for column, estimates in columns_of(trained)]


def _of_policy(column: Column, reveals: AbstractSet[str]) -> Column:
    """Return the column; where the policy saw the rubric, a note says so."""
    if "oracle" not in reveals:
        return column
    return replace(column, notes=(*column.notes, f"ORACLE: under {column.name} the policy saw the rubric"))


def _grades(best_of: BestOfNResult, k: int, condition: str) -> dict[str, Estimate]:
    return {
        curve.model: point.grade
        for curve in best_of.found.curves
        if curve.condition == condition
        for point in curve.points
        if point.k == k
    }


@dataclass(frozen=True)
class StudyCorrelation:
    """What `correlate` says; nothing, and why, where columns cannot be ranked."""

    report: CorrelationReport | None
    why_not: tuple[str, ...] = ()


def correlation(
    benchmarks: Sequence[StudyColumn], downstream: Sequence[StudyColumn], *, rbo_p: float, seed: int
) -> StudyCorrelation:
    """Return every benchmark against every downstream result; a column that ranks nothing is left out by name."""
    sides = [*benchmarks, *downstream]
    reasons = {side.name: reason for side in sides if (reason := _unranked(side))}
    first, second = ([side.column for side in some if side.name not in reasons] for some in (benchmarks, downstream))
    if not first or not second:
        return StudyCorrelation(None, tuple(reasons.values()))
    try:
        return StudyCorrelation(correlate(first, second, rbo_p=rbo_p, seed=seed), tuple(reasons.values()))
    except MetricError as exc:  # no three models have both
        return StudyCorrelation(None, (*reasons.values(), str(exc)))


def _unranked(side: StudyColumn) -> str:
    """Return why a column ranks nothing, or nothing."""
    scores = side.column.scores
    if len(scores) < FEWEST:
        return f"{side.name} has {len(scores)} of {FEWEST} models that a ranking needs"
    if len(set(scores.values())) == 1:
        return f"{side.name} is {next(iter(scores.values())):g} for all models: it ranks none"
    return ""


@dataclass(frozen=True, repr=False)
class StudyResult(Tabular):
    """The study, its numbers, and where each came from."""

    declared: StudyDeclaration
    models: tuple[str, ...]
    benchmarks: tuple[StudyColumn, ...]
    downstream: tuple[StudyColumn, ...]
    correlation: StudyCorrelation
    picked: BestOfNResult | None
    trained: TrainingResults | None
    left: tuple[Missing, ...]
    provenance: Mapping[str, object]
    loads: tuple[str, ...] = ()
    """What the loaders dropped, left empty or skipped, a sentence for each benchmark that was not clean."""

    @property
    def names(self) -> dict[str, str]:
        """What tables call each model: the name that the file gives it, or the shortest that no other has."""
        own = {spec: name for spec, name in names_of(self.declared).items() if spec in self.models}
        names = short_names(self.models) | own
        return names if len(set(names.values())) == len(names) else short_names(list(names))

    def named(self) -> "StudyResult":
        """Return the study with each model by the name that the file gives it, or the shortest that no other has."""
        names = self.names
        specs = sorted((spec for spec, name in names.items() if spec != name), key=len, reverse=True)
        if not specs:
            return self
        # A spec in a sentence, but not as a part of a path or of a longer spec.
        spec = re.compile(rf"(?<![\w/.:-])(?:{'|'.join(map(re.escape, specs))})(?![\w/=-]|[.,:]\w)")
        parts = ("models", "benchmarks", "downstream", "correlation", "left", "loads")
        result = replace(self, **{key: _renamed(getattr(self, key), spec, names) for key in parts})
        if (best_of := self.picked) is not None:
            curves = _renamed(best_of.found.curves, spec, names)
            result = replace(result, picked=replace(best_of, found=replace(best_of.found, curves=curves)))
        if (trained := self.trained) is not None:
            policies, apart = _renamed(trained.trained, spec, names), _renamed(trained.apart, spec, names)
            result = replace(result, trained=replace(trained, trained=policies, apart=apart))
        return result

    def records(self) -> list[Record]:
        """Return a row per model and column: what it earned on each benchmark, and downstream."""
        sides = [("benchmark", side) for side in self.benchmarks] + [("downstream", side) for side in self.downstream]
        return [
            {"model": self.names[model], "spec": model, "side": kind, "column": side.name}
            | flat("value", side.estimates[model])
            for model in self.ranked
            for kind, side in sides
            if model in side.estimates
        ]

    @property
    def complete(self) -> bool:
        """False where the same command has something to try again, or a model is broken."""
        return not any(missing.why in {"open", "broken"} for missing in self.left)

    @property
    def verdicts(self) -> list[str]:
        """Whether each benchmark predicts each downstream result, and which of two predicts better."""
        report = self.correlation.report
        if report is None:
            return []
        return [*(cell.verdict for cell in report.cells), *(dispute.verdict for dispute in report.disputes)]

    @property
    def notes(self) -> list[str]:
        """What a reader of the numbers must know, such as who saw the rubric; correlated or not."""
        report = self.correlation.report
        columns = [side.column for side in (*self.benchmarks, *self.downstream)]
        lines = [*self.loads, *(report.notes if report else ()), *(note for column in columns for note in column.notes)]
        return list(dict.fromkeys(lines))

    @property
    def ranked(self) -> list[str]:
        """The models, the best downstream first; without a downstream result, the best on the first benchmark."""
        order = [*self.downstream[::-1][:1], *self.benchmarks[:1]]
        return sorted(self.models, key=lambda model: [-_value(side, model) for side in order])

    @property
    def order(self) -> str:
        """In words, what `ranked` goes by."""
        if self.downstream or not self.benchmarks:
            return "the best downstream first"
        return f"the best on {self.benchmarks[0].name} first"

    def to_json(self) -> dict[str, object]:
        """Return everything under its name; equal folders give equal bytes."""
        report = self.correlation.report
        return {
            "schema": 1,
            "title": self.declared.title,
            "complete": self.complete,
            **json_fields(self, "verdicts", "notes"),
            "models": [
                {
                    "model": model,
                    "name": self.names[model],
                    "benchmarks": _of(self.benchmarks, model),
                    "downstream": _of(self.downstream, model),
                }
                for model in self.ranked
            ],
            "best_of_n": _best_of(self.picked.found) if self.picked else None,
            "ppo": trained_json(self.trained) if self.trained else None,
            "correlation": report and report.to_json(),
            "not_correlated": list(self.correlation.why_not),
            "left": [missing._asdict() for missing in self.left],
            "study": self.declared.to_json(),
            "provenance": dict(self.provenance),
        }


Part = TypeVar("Part")


def _renamed(part: Part, spec: re.Pattern[str], names: Mapping[str, str]) -> Part:
    """Return a part of a result with names in the place of specs, in keys and sentences too."""
    renamed: object = part
    if isinstance(part, str):
        renamed = spec.sub(lambda match: names[match[0]], part)
    elif is_dataclass(part) and not isinstance(part, type):
        values = {field.name: getattr(part, field.name) for field in fields(part) if field.init}
        renamed = replace(part, **{name: _renamed(value, spec, names) for name, value in values.items()})
    elif isinstance(part, Mapping):
        renamed = {_renamed(key, spec, names): _renamed(value, spec, names) for key, value in part.items()}
    elif isinstance(part, (tuple, list)):
        every = [_renamed(value, spec, names) for value in part]
        renamed = part._make(every) if hasattr(part, "_make") else type(part)(every)
    return cast("Part", renamed)


def result_of(declared: StudyDeclaration, done: StudyWork, out: Path) -> StudyResult:
    """Return what was found."""
    benchmarks = benchmark_sides(done)
    downstream = [
        *(downstream_sides(done.picked) if done.picked else ()),
        *(trained_sides(done.trained) if done.trained else ()),
    ]
    return StudyResult(
        declared=declared,
        models=tuple(models_of(declared)),
        benchmarks=tuple(benchmarks),
        downstream=tuple(downstream),
        correlation=correlation(benchmarks, downstream, rbo_p=declared.correlate.rbo_p, seed=declared.seed)
        if downstream
        else StudyCorrelation(None),
        picked=done.picked,
        trained=done.trained,
        left=tuple(done.left),
        provenance=_provenance(done, out),
        loads=_loads(done),
    )


def _loads(done: StudyWork) -> tuple[str, ...]:
    benchmarks = [*done.benchmarks, *([done.picked.benchmark] if done.picked else [])]
    cards = {benchmark.content_hash: benchmark.card for benchmark in benchmarks}.values()
    return tuple(f"{card.name}: {text}" for card in cards if (text := str(card.load)))


def _value(side: StudyColumn, model: str) -> float:
    return side.estimates[model].value if model in side.estimates else -1.0


def _of(sides: Sequence[StudyColumn], model: str) -> list[dict[str, object]]:
    return [
        {"column": side.name, "condition": side.condition, "metric": side.metric, **side.estimates[model].to_json()}
        for side in sides
        if model in side.estimates
    ]


def _best_of(best_of_n: BestOfN) -> dict[str, object]:
    return {
        "way": "exact" if best_of_n.exact else "first",
        **json_fields(best_of_n, "ks", "ungraded", "oracle", "random", "curves"),
    }


# ---------------------------------------------------------------- where it came from


def _provenance(done: StudyWork, out: Path) -> dict[str, object]:
    best_of = done.picked
    return {
        "pluralrm": __version__,
        "benchmarks": [
            {
                "name": benchmark.card.name,
                "revision": benchmark.card.revision,
                "content_hash": benchmark.content_hash,
                "seed": benchmark.seed,
            }
            for benchmark in done.benchmarks
        ],
        "runs": [_run(run, out) for run in done.runs],
        "pool": best_of and _pool(best_of, out),
        "trainings": trainings_json(done.trained, out) if done.trained else [],
        "picks": [_run(run, out) for run in best_of.runs] if best_of else [],
        "grader": best_of and {"spec": best_of.grader.spec, "identity": dict(best_of.grader.identity)},
    }


def _run(run: Run, out: Path) -> dict[str, object]:
    manifest = load_manifest(run.path)
    return {
        "folder": _inside(run.path, out),
        "model": run.model,
        "identity": manifest.identity,
        "benchmark_hash": run.benchmark_hash,
        "condition": run.condition,
        "items": run.items,
        "failures": manifest.failures,
        "versions": manifest.versions,
    }


def _pool(best_of: BestOfNResult, out: Path) -> dict[str, object]:
    manifest = POOL.read(best_of.pool.folder)
    return {
        "folder": _inside(best_of.pool.folder, out),
        "policy": manifest.policy,
        "identity": manifest.identity,
        "condition": manifest.condition,
        "benchmark_hash": best_of.pool.benchmark_hash,
        "content_hash": best_of.pool.content_hash,
        "draw": manifest.draw.model_dump(),
        "finishes": manifest.finishes,
        "versions": manifest.versions,
    }


def _inside(path: str, out: Path) -> str:
    """Return a folder as it is called inside the study's, the same on every machine."""
    return Path(path).relative_to(out).as_posix()


def trained_json(results: TrainingResults) -> dict[str, object]:
    """Return what came of the trainings under its names."""
    recipe = results.recipe
    return {
        "policy": recipe.declared.policy,
        "condition": recipe.condition.spec,
        "benchmark": recipe.benchmark.card.name,
        "steps": recipe.declared.steps,
        "seeds": list(recipe.seeds),
        "n": recipe.declared.n,
        "shaping": recipe.declared.shaping,
        "domains": [name for name in recipe.parts if name],
        "users": {name: results.users(name) for name in UserParts._fields},
        **_questions(results),
        "trained": [_trained(row) for row in results.trained],
        "best_against_worst": [_apart(row) for row in results.apart],
    }


def _questions(results: TrainingResults) -> dict[str, object]:
    """Return whose questions were asked besides; nothing where none were."""
    recipe = results.recipe
    if recipe.evaluated is None:
        return {}
    questions = recipe.questions.values()
    counts = {"items": sum(len(part.items) for part in questions), "left_out": sum(part.left_out for part in questions)}
    about = {"benchmark": recipe.evaluated.card.name, "content_hash": recipe.evaluated.content_hash}
    return {"evaluated_on": {**about, **counts}}


def _trained(policy: PolicyResult) -> dict[str, object]:
    return {
        "model": policy.reward,
        "condition": policy.condition,
        "shown_rubric": policy.shown_rubric,
        "whole": policy.whole,
        **_answers(policy),
        **({} if policy.on is None else {"on": _answers(policy.on)}),
        "seeds": [_seeded(seeded) for seeded in policy.seeds],
    }


def _answers(answers: Answers) -> dict[str, object]:
    return {"before": answers.before.to_json(), "after": _change(answers.after), "change": _change(answers.change)}


def _seeded(seeded: Seeded) -> dict[str, object]:
    alarms = [{"name": alarm.name, "told": alarm.told, "domain": domain} for alarm, domain in seeded.alarms]
    return {
        "seed": seeded.seed,
        "before": seeded.before,
        "after": seeded.after,
        "change": seeded.change,
        **({} if seeded.on is None else {"on": {"before": seeded.on[0], "after": seeded.on[1]}}),
        "alarms": alarms,
        "reports": list(seeded.reports),
    }


def _apart(apart: Apart) -> dict[str, object]:
    on = {"on": apart.on} if apart.on else {}
    return {"condition": apart.condition, **on, "best": apart.best, "worst": apart.worst, **_change(apart.difference)}


def _change(change: Change) -> dict[str, object]:
    return {"users": change.users.to_json(), "users_and_trainings": change.both.to_json()}


# ---------------------------------------------------------------- where it came from


def trainings_json(results: TrainingResults, out: Path) -> list[dict[str, object]]:
    """Return where each training lies, whole or not, and what shaped it."""
    begun = [training for training in results.recipe.trainings(out) if (training.folder / RUN).exists()]
    return [_training(training, read_run(training.folder), out) for training in begun]


def _training(training: Training, run: TrainingManifest, out: Path) -> dict[str, object]:
    return {
        "folder": training.folder.relative_to(out).as_posix(),
        "model": run.reward,
        "condition": run.reward_condition,
        "policy_condition": run.condition,
        "seed": run.seed,
        "domain": training.domain,
        "status": run.status,
        "steps": run.steps,
        "masked": run.masked,
        "identity": run.identity,
        "benchmark_hash": run.benchmark.content_hash,
        "users": {name: len(getattr(run.parts, name)) for name in UserParts._fields},
        "left_out": run.parts.left_out,
        **({"shortened": run.shortened} if run.shortened else {}),
        "settings": run.settings,
        "shaping": run.shaping,
        "versions": run.versions,
    }
