"""What a study found, as data: a function of what is on disk, without a time, and without a path outside its folder."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path

from pluralrm._version import __version__
from pluralrm.core import Estimate, Run
from pluralrm.correlate import Column, CorrelationReport, columns_of_outcomes, columns_of_runs, correlate
from pluralrm.correlate.measures import FEWEST
from pluralrm.display import Record, Tabular
from pluralrm.errors import MetricError
from pluralrm.metrics.estimates import measure
from pluralrm.policies.best_of_n import BestOfCurve, BestOfN, CurvePoint
from pluralrm.policies.outcomes import load_outcome
from pluralrm.policies.pool import POOL
from pluralrm.runs import load_manifest
from pluralrm.study.file import StudyDeclaration
from pluralrm.study.parts import Missing, models_of
from pluralrm.study.ppo.recipe import Training
from pluralrm.study.ppo.results import Answers, Apart, Change, PolicyResult, Seeded, TrainingResults, columns_of
from pluralrm.study.steps import BestOfNResult, StudyWork
from pluralrm.text import flat
from pluralrm.training.prompts import UserParts, asker
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
    return [_scored(done, column) for column in columns_of_runs(done.runs)]


def _scored(done: StudyWork, column: Column) -> StudyColumn:
    runs = [run for run in done.runs if (run.benchmark_hash, run.condition) == (column.source, column.condition)]
    return StudyColumn(column, runs[0].card.metrics[0], {run.model: measure(run) for run in runs})


def downstream_sides(picked: BestOfNResult) -> list[StudyColumn]:
    """Return one side per k and condition, from the Outcomes on disk."""
    outcomes = [load_outcome(folder) for folder in picked.outcomes]
    return [
        StudyColumn(_of_policy(column, picked.pool.reveals), "grade", _grades(picked, k, column.condition))
        for k in picked.points
        for column in columns_of_outcomes(outcomes, [k])
    ]


def trained_sides(found: TrainingResults) -> list[StudyColumn]:
    """Return one side per condition: what the policies are worth after training."""
    reveals = found.recipe.condition.reveals
    return [StudyColumn(_of_policy(column, reveals), "grade", estimates) for column, estimates in columns_of(found)]


def _of_policy(column: Column, reveals: AbstractSet[str]) -> Column:
    """Return the column; where the policy saw the rubric, a note says so."""
    if "oracle" not in reveals:
        return column
    return replace(column, notes=(*column.notes, f"ORACLE: under {column.name} the policy saw the rubric"))


def _grades(picked: BestOfNResult, k: int, condition: str) -> dict[str, Estimate]:
    return {
        curve.model: point.grade
        for curve in picked.found.curves
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
    told = {side.name: reason for side in sides if (reason := _unranked(side))}
    first, second = ([side.column for side in some if side.name not in told] for some in (benchmarks, downstream))
    if not first or not second:
        return StudyCorrelation(None, tuple(told.values()))
    try:
        return StudyCorrelation(correlate(first, second, rbo_p=rbo_p, seed=seed), tuple(told.values()))
    except MetricError as exc:  # no three models have both
        return StudyCorrelation(None, (*told.values(), str(exc)))


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

    def records(self) -> list[Record]:
        """Return a row per model and column: what it earned on each benchmark, and downstream."""
        sides = [("benchmark", side) for side in self.benchmarks] + [("downstream", side) for side in self.downstream]
        return [
            {"model": model, "side": kind, "column": side.name, **flat("value", side.estimates[model])}
            for model in self.ranked
            for kind, side in sides
            if model in side.estimates
        ]

    @property
    def complete(self) -> bool:
        """False where the same command has something to try again, or a model is broken."""
        return not any(one.why in {"open", "broken"} for one in self.left)

    @property
    def verdicts(self) -> list[str]:
        """Whether each benchmark predicts each downstream result, and how sure that is."""
        report = self.correlation.report
        return [cell.verdict for cell in report.cells] if report else []

    @property
    def notes(self) -> list[str]:
        """What a reader of the numbers must know, such as who saw the rubric; correlated or not."""
        report = self.correlation.report
        columns = [side.column for side in (*self.benchmarks, *self.downstream)]
        said = [*self.loads, *(report.notes if report else ()), *(note for column in columns for note in column.notes)]
        return list(dict.fromkeys(said))

    @property
    def ranked(self) -> list[str]:
        """The models, the best downstream first; without a downstream result, the best on the first benchmark."""
        order = [*self.downstream[::-1][:1], *self.benchmarks[:1]]
        return sorted(self.models, key=lambda model: [-_value(side, model) for side in order])

    def to_json(self) -> dict[str, object]:
        """Return everything under its name; equal folders give equal bytes."""
        report = self.correlation.report
        return {
            "schema": 1,
            "title": self.declared.title,
            "complete": self.complete,
            "verdicts": self.verdicts,
            "notes": self.notes,
            "models": [
                {"model": model, "benchmarks": _of(self.benchmarks, model), "downstream": _of(self.downstream, model)}
                for model in self.ranked
            ],
            "best_of_n": _best_of(self.picked.found) if self.picked else None,
            "ppo": trained_json(self.trained) if self.trained else None,
            "correlation": report and report.to_json(),
            "not_correlated": list(self.correlation.why_not),
            "left": [one._asdict() for one in self.left],
            "study": self.declared.to_json(),
            "provenance": dict(self.provenance),
        }


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
    found = [*done.benchmarks, *([done.picked.benchmark] if done.picked else [])]
    cards = {benchmark.content_hash: benchmark.card for benchmark in found}.values()
    return tuple(f"{card.name}: {told}" for card in cards if (told := str(card.load)))


def _value(side: StudyColumn, model: str) -> float:
    return side.estimates[model].value if model in side.estimates else -1.0


def _of(sides: Sequence[StudyColumn], model: str) -> list[dict[str, object]]:
    return [
        {"column": side.name, "condition": side.condition, "metric": side.metric, **side.estimates[model].to_json()}
        for side in sides
        if model in side.estimates
    ]


def _best_of(found: BestOfN) -> dict[str, object]:
    return {
        "way": "exact" if found.exact else "first",
        "ks": list(found.ks),
        "ungraded": found.ungraded,
        "oracle": [one.to_json() for one in found.oracle],
        "random": [one.to_json() for one in found.random],
        "curves": [_curve(curve) for curve in found.curves],
    }


def _curve(curve: BestOfCurve) -> dict[str, object]:
    return {
        "model": curve.model,
        "condition": curve.condition,
        "shown_rubric": curve.shown_rubric,
        "peak": curve.peak,
        "over_optimised": curve.over_optimised,
        "fall": _json(curve.fall),
        "points": [_point(point) for point in curve.points],
    }


def _point(point: CurvePoint) -> dict[str, object]:
    beside = {"first": _json(point.first), "regret": _json(point.regret), "at_most": point.at_most}
    return {"k": point.k, "kl": point.kl, "grade": point.grade.to_json(), **beside, "score": point.score}


def _json(estimate: Estimate | None) -> dict[str, float | int | str | None] | None:
    return None if estimate is None else estimate.to_json()


# ---------------------------------------------------------------- where it came from


def _provenance(done: StudyWork, out: Path) -> dict[str, object]:
    picked = done.picked
    return {
        "pluralrm": __version__,
        "benchmarks": [
            {"name": one.card.name, "revision": one.card.revision, "content_hash": one.content_hash, "seed": one.seed}
            for one in done.benchmarks
        ],
        "runs": [_run(run, out) for run in done.runs],
        "pool": picked and _pool(picked, out),
        "trainings": trainings_json(done.trained, out) if done.trained else [],
        "picks": [_run(run, out) for run in picked.runs] if picked else [],
        "grader": picked and {"spec": picked.grader.spec, "identity": dict(picked.grader.identity)},
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


def _pool(picked: BestOfNResult, out: Path) -> dict[str, object]:
    manifest = POOL.read(picked.pool.folder)
    return {
        "folder": _inside(picked.pool.folder, out),
        "policy": manifest.policy,
        "identity": manifest.identity,
        "condition": manifest.condition,
        "benchmark_hash": picked.pool.benchmark_hash,
        "content_hash": picked.pool.content_hash,
        "draw": manifest.draw.model_dump(),
        "finishes": manifest.finishes,
        "versions": manifest.versions,
    }


def _inside(path: str, out: Path) -> str:
    """Return a folder as it is called inside the study's, the same on every machine."""
    return Path(path).relative_to(out).as_posix()


def trained_json(found: TrainingResults) -> dict[str, object]:
    """Return what came of the trainings under its names."""
    recipe = found.recipe
    return {
        "policy": recipe.declared.policy,
        "condition": recipe.condition.spec,
        "benchmark": recipe.benchmark.card.name,
        "steps": recipe.declared.steps,
        "seeds": list(recipe.seeds),
        "n": recipe.declared.n,
        "shaping": recipe.declared.shaping,
        "domains": [name for name in recipe.parts if name],
        "users": {name: _users(found, name) for name in UserParts._fields},
        **_questions(found),
        "trained": [_trained(one) for one in found.trained],
        "best_against_worst": [_apart(one) for one in found.apart],
    }


def _questions(found: TrainingResults) -> dict[str, object]:
    """Return whose questions were asked besides; nothing where none were."""
    recipe = found.recipe
    if recipe.evaluated is None:
        return {}
    asked = recipe.questions.values()
    counts = {"items": sum(len(one.items) for one in asked), "left_out": sum(one.left_out for one in asked)}
    about = {"benchmark": recipe.evaluated.card.name, "content_hash": recipe.evaluated.content_hash}
    return {"evaluated_on": {**about, **counts}}


def _users(found: TrainingResults, name: str) -> int:
    return len({asker(item) for parts in found.recipe.parts.values() for item in getattr(parts, name)})


def _trained(one: PolicyResult) -> dict[str, object]:
    return {
        "model": one.reward,
        "condition": one.condition,
        "shown_rubric": one.shown_rubric,
        "whole": one.whole,
        **_answers(one),
        **({} if one.on is None else {"on": _answers(one.on)}),
        "seeds": [_seeded(seeded) for seeded in one.seeds],
    }


def _answers(one: Answers) -> dict[str, object]:
    return {"before": one.before.to_json(), "after": _change(one.after), "change": _change(one.change)}


def _seeded(one: Seeded) -> dict[str, object]:
    alarms = [{"name": alarm.name, "told": alarm.told, "domain": domain} for alarm, domain in one.alarms]
    return {
        "seed": one.seed,
        "before": one.before,
        "after": one.after,
        "change": one.change,
        **({} if one.on is None else {"on": {"before": one.on[0], "after": one.on[1]}}),
        "alarms": alarms,
        "reports": list(one.reports),
    }


def _apart(one: Apart) -> dict[str, object]:
    on = {"on": one.on} if one.on else {}
    return {"condition": one.condition, **on, "best": one.best, "worst": one.worst, **_change(one.difference)}


def _change(one: Change) -> dict[str, object]:
    return {"users": one.users.to_json(), "users_and_trainings": one.both.to_json()}


# ---------------------------------------------------------------- where it came from


def trainings_json(found: TrainingResults, out: Path) -> list[dict[str, object]]:
    """Return where each training lies, whole or not, and what shaped it."""
    begun = [one for one in found.recipe.trainings(out) if (one.folder / RUN).exists()]
    return [_training(one, read_run(one.folder), out) for one in begun]


def _training(one: Training, run: TrainingManifest, out: Path) -> dict[str, object]:
    return {
        "folder": one.folder.relative_to(out).as_posix(),
        "model": run.reward,
        "condition": run.reward_condition,
        "policy_condition": run.condition,
        "seed": run.seed,
        "domain": one.domain,
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
