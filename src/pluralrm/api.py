"""The verbs of `import pluralrm`: each takes names, paths or objects, opens what is named, and returns a result.

>>> import tempfile
>>> runs = score("pocket-prb", ["bm25", "longest"], ["none", "raw:10", "swapped:10"], out=(out := tempfile.mkdtemp()))
>>> [row["verdict"] for row in compare(out).to_dict()]
['inconclusive', 'ignores user']
"""

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, overload

from pluralrm import benchmarks
from pluralrm.cluster import opened
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Condition, RewardModel, Run
from pluralrm.digests import digest_items
from pluralrm.errors import ConditionError, SpecError, check_type
from pluralrm.exchange.trackers import opened_log
from pluralrm.exchange.tracking import TrainingLog, log_runs, log_study
from pluralrm.progress import JobStep, Shown, size_of, steps_of, watching
from pluralrm.runs import GridCell, each_cell, runs_of
from pluralrm.runs import score as score_cell
from pluralrm.runs.loop import CellOptions, score_shard
from pluralrm.shards import Shard, ShardProgress, open_shard

if TYPE_CHECKING:
    from pluralrm.correlate import Column, CorrelationReport
    from pluralrm.grading import Grader
    from pluralrm.http import Settings
    from pluralrm.metrics.overview import Comparison
    from pluralrm.metrics.personalization import Personalization
    from pluralrm.models.personal.fitting import FitManifest
    from pluralrm.policies.best_of_n import BestOfN
    from pluralrm.policies.outcomes import BestOfOptions
    from pluralrm.policies.policy import Policy
    from pluralrm.policies.pool import Pool
    from pluralrm.policies.sample import DrawOptions
    from pluralrm.report import ReportPage
    from pluralrm.study import StudyResult
    from pluralrm.training.outcome import GradedTraining

Model = RewardModel | str
Models = Model | Sequence[Model]
Named = Condition | str
Folders = str | Path | Sequence[str | Path]
Conditions = Named | Sequence[Named]
Source = Benchmark | str | Path
Benchmarks = Source | Sequence[Source]
Part = Shard | str

_BENCHMARK = "a benchmark's name such as 'pocket-prb', a path, or a Benchmark"
_MODEL = "a model's name such as 'bm25' or 'hf:FOLDER', or an object with spec and score(queries)"
_CONDITION = "a condition's name such as 'none' or 'raw:10', or an object with spec and queries(benchmark, items)"


# ---------------------------------------------------------------- score


class ScoreOptions(CellOptions, total=False):
    """What `score` takes by name."""

    out: str | Path
    seed: int
    on: str
    progress: Shown
    log: str


@overload
def score(  # type: ignore[overload-overlap] # a text is one name, though it is a sequence of texts too
    benchmark: Source, model: Model, condition: Named = ..., **options: Unpack[ScoreOptions]
) -> Run: ...
@overload
def score(
    benchmark: Benchmarks, model: Models, condition: Conditions = ..., **options: Unpack[ScoreOptions]
) -> list[Run]: ...
@overload
def score(
    benchmark: Benchmarks, model: Models, condition: Conditions = ..., *, shard: Part, **options: Unpack[ScoreOptions]
) -> list[ShardProgress]: ...
def score(  # noqa: PLR0913 - the verb of the package: each argument is a decision of its user
    benchmark: Benchmarks,
    model: Models,
    condition: Conditions = "none",
    *,
    out: str | Path = "runs",
    domains: Sequence[str] = (),
    limit: int | None = None,
    seed: int = 0,
    workers: int = 1,
    devices: Sequence[str] = (),
    on: str = "",
    fresh: bool = False,
    settings: "Settings | None" = None,
    progress: Shown = None,
    log: str = "",
    shard: Part | None = None,
) -> "Run | list[Run] | list[ShardProgress]":
    """Score and return the Run; with a list of models, conditions or benchmarks, the runs of every combination.

    Rows are kept below `out`; the same call resumes them. Of several combinations, one that cannot be scored is left
    out with a warning. `seed` orders candidates of benchmarks opened here; `shard="2/7"` is a part; `log` a tracker.
    """
    board = opened_log(log, warnings.warn, sharded=bool(shard))
    verb: Callable[..., Any] = partial(score_shard, shard=shard) if shard else score_cell
    several = bool(shard) or any(isinstance(argument, list | tuple) for argument in (benchmark, model, condition))
    if on and not all(isinstance(entry, str) for entry in (*_listed(model), *_listed(condition))):
        raise SpecError("on: a cluster needs models and conditions by name, since each replica loads its own")
    cells = [
        GridCell(bench, cast("str", _model(entry)), _condition(context, settings))
        for bench in [_benchmark(source, seed) for source in _listed(benchmark)]
        for context in _listed(condition)
        for entry in _listed(model)
    ]
    if not cells:
        raise SpecError("nothing to score: wanted at least one benchmark, one model and one condition")
    options = {"out": out, "domains": domains, "limit": limit, "workers": workers, "devices": devices, "fresh": fresh}
    steps = [_step(cell, size_of(cell.benchmark, domains, limit)) for cell in cells]
    with watching(progress) as display, opened(on) as cluster:
        begin = steps_of(display, steps, at_once=cluster is not None)

        def outcome(cell: GridCell) -> Any:  # noqa: ANN401
            title = _step(cell, 0).title
            try:
                show, parts = begin(title), (cell.benchmark, cell.model, cell.condition)
                return verb(*parts, on=cluster, settings=settings, progress=show, **options)
            except ConditionError as exc:
                if not several:
                    raise
                return f"{title}: {exc}"

        ends = list(each_cell(cells, outcome, cluster, settings))
    runs, left_out = [run for run in ends if not isinstance(run, str)], [end for end in ends if isinstance(end, str)]
    if not runs:
        raise ConditionError("\n  ".join(["nothing can be scored:", *left_out]))
    for reason in left_out:
        warnings.warn(f"left out {reason}", stacklevel=2)
    with board:
        log_runs(board, [run for run in runs if isinstance(run, Run)])
    return runs if several else runs[0]


def _listed(value: Any) -> list[Any]:  # noqa: ANN401 - a model's list of models is a list of models
    return list(value) if isinstance(value, list | tuple) else [value]


def _benchmark(bench: object, seed: int = 0) -> Benchmark:
    check_type(bench, (str, Path, Benchmark), "benchmark", _BENCHMARK)
    if not isinstance(bench, Benchmark):
        return benchmarks.load_benchmark(str(bench), seed=seed)
    # `dataclasses.replace(bench, items=...)` keeps the hash of the old items, whose runs would be taken for these.
    return bench if digest_items(bench.items) == bench.content_hash else replace(bench, content_hash="")


def _model(model: Model) -> Model:
    if not isinstance(model, str):
        _require(model, ("spec", "score"), "model", _MODEL)
    return model


def _step(cell: GridCell, size: int) -> JobStep:
    return JobStep(f"{cell.benchmark.card.name} × {_spec(cell.model)} × {cell.condition.spec}", _spec(cell.model), size)


def _spec(entry: "RewardModel | Policy | str") -> str:
    return entry if isinstance(entry, str) else entry.spec


def _condition(condition: Named, settings: "Settings | None" = None) -> Condition:
    if isinstance(condition, str):
        return load_condition(condition, cache=settings.cache if settings else None, settings=settings)
    _require(condition, ("spec", "queries"), "condition", _CONDITION)
    return condition


def _require(value: object, names: Sequence[str], name: str, expected: str) -> None:
    if isinstance(value, type):
        raise SpecError(f"{name} is the class {value.__name__}; wanted an object of it: {value.__name__}()")
    if not all(hasattr(value, name) for name in names):
        check_type(value, (), name, expected)


# ---------------------------------------------------------------- runs


def personalization(runs: Run | Folders | Sequence[Run], *, seed: int = 0) -> "list[Personalization]":
    """Return lift, gain and a verdict for each model and own condition among the runs, or those below a folder."""
    from pluralrm.metrics import personalization as measure
    from pluralrm.metrics.overview import same_items

    groups = same_items(run for run in runs_of(runs) if run.done)
    return [result for group in groups for result in measure([run for run in group if run.complete], seed=seed)]


def compare(
    runs: Run | Folders | Sequence[Run] = "runs", *, names: Mapping[str, str] | None = None, seed: int = 0
) -> "Comparison":
    """Return the answer in one row per model: rank, accuracy, lift, gain and verdict; runs on other items apart."""
    from pluralrm.metrics.overview import Comparison, overview, same_items

    if not (groups := same_items(run for run in runs_of(runs) if run.done)):
        raise SpecError("no run has a row yet; the same call of 'score' resumes them")
    labels = {run.model: run.name for group in groups for run in group if run.name} | dict(names or {})
    return Comparison(tuple(overview(group, seed=seed) for group in groups), labels, tuple(groups))


def report(
    runs: Folders = "runs",
    out: str | Path = "report.html",
    *,
    text: bool = True,
    figures: str | Path | None = None,
    seed: int = 0,
    force: bool = False,
) -> "ReportPage":
    """Write the HTML report of the runs at or below some folders, and return it; as `pluralrm.report.write_report`."""
    from pluralrm.report import write_report

    folders = [runs] if isinstance(runs, str | Path) else runs
    check_type(folders, (list, tuple), "runs", "a folder of runs, or a list of folders")
    for folder in folders:
        check_type(folder, (str, Path), "runs", "a folder of runs, or a list of folders: a report reads their files")
    check_type(out, (str, Path), "out", "the name of a file such as 'report.html'")
    return write_report(folders, out, text=text, figures=figures, seed=seed, force=force)


# ---------------------------------------------------------------- downstream


@overload
def sample(
    benchmark: Source, policy: "Policy | str", condition: Named = ..., **options: "Unpack[DrawOptions]"
) -> "Pool": ...
@overload
def sample(
    benchmark: Source, policy: "Policy | str", condition: Named = ..., *, shard: Part, **options: "Unpack[DrawOptions]"
) -> ShardProgress: ...
def sample(  # noqa: PLR0913 - a verb of the package
    benchmark: Source,
    policy: "Policy | str",
    condition: Named = "none",
    *,
    out: str | Path,
    n: int = 16,
    temperature: float = 1.0,
    top_p: float = 0.9,
    max_tokens: int = 512,
    seed: int = 0,
    domains: Sequence[str] = (),
    limit: int | None = None,
    fresh: bool = False,
    on: str = "",
    settings: "Settings | None" = None,
    progress: Shown = None,
    shard: Part | None = None,
) -> "Pool | ShardProgress":
    """Draw n answers per item, or per item of `shard="2/7"`, into the pool `out`; the same call resumes it."""
    from pluralrm.policies.policy import Draw
    from pluralrm.policies.pool import load_pool, pool_shard
    from pluralrm.policies.sample import sample_folder

    bench, context = _benchmark(benchmark, seed), _condition(condition, settings)
    if not isinstance(policy, str):
        _require(policy, ("spec", "answer"), "policy", "a policy's name such as 'chat:MODEL,url=URL', or an object")
    draw = Draw(n=n, temperature=temperature, top_p=top_p, max_tokens=max_tokens, seed=seed)
    with watching(progress) as display, opened(on) as cluster:
        display.expect([JobStep(title := f"{bench.card.name} × {_spec(policy)}", _spec(policy), 1)])
        display.begin(title)
        options: dict[str, Any] = {"draw": draw, "domains": domains, "limit": limit, "fresh": fresh, "on": cluster}
        options |= {"settings": settings, "progress": display.update, "shard": open_shard(shard)}
        folder = sample_folder(bench, policy, context, out=out, **options)
    return pool_shard(folder) if shard else load_pool(folder, incomplete=True)


@overload
def best_of_n(
    pool: "Pool | str | Path", model: Models, condition: Conditions = ..., **options: "Unpack[BestOfOptions]"
) -> "BestOfN": ...
@overload
def best_of_n(
    pool: "Pool | str | Path",
    model: Models,
    condition: Conditions = ...,
    *,
    shard: Part,
    **options: "Unpack[BestOfOptions]",
) -> list[ShardProgress]: ...
def best_of_n(  # noqa: PLR0913 - a verb of the package
    pool: "Pool | str | Path",
    model: Models,
    condition: Conditions = "none",
    *,
    grader: "Grader | str",
    ks: Sequence[int] = (),
    benchmark: Source | None = None,
    on: str = "",
    settings: "Settings | None" = None,
    progress: Shown = None,
    shard: Part | None = None,
) -> "BestOfN | list[ShardProgress]":
    """Let reward models pick among a pool's answers, grade all of them, and return what the picks are worth.

    `ks` are 1, 2, 4, ... by default; `benchmark` is named where the pool's was loaded from a path. Outcomes are written
    beside the pool. `shard="2/7"` scores and grades the answers to one of 7 shards of the items, for `merge`.
    """
    from pluralrm.grading import open_grader
    from pluralrm.policies.outcomes import PickingJob, pick
    from pluralrm.policies.pool import Pool, load_pool, source

    if not isinstance(pool, Pool):
        check_type(pool, (str, Path), "pool", "the folder of a pool, or a Pool that 'sample' returned")
        pool = load_pool(pool)
    bench = source(pool) if benchmark is None else _benchmark(benchmark)
    marker = open_grader(grader, settings=settings) if isinstance(grader, str) else grader
    _require(marker, ("spec", "grade"), "grader", "a grader's name such as 'truth' or 'per-aspect:MODEL,url=URL'")
    models, contexts = list(map(_model, _listed(model))), [_condition(entry, settings) for entry in _listed(condition)]
    job = PickingJob(pool, bench, list(product(contexts, models)), marker)
    with watching(progress, "step") as display, opened(on) as cluster:
        return pick(job, ks, settings=settings, on=cluster, display=display, shard=open_shard(shard))


def correlate(
    benchmark: "Column | Sequence[Column] | Folders | Run | Sequence[Run]",
    downstream: "Column | Sequence[Column] | Folders",
    *,
    k: Sequence[int] = (),
    csv: str | Path | None = None,
    rbo_p: float = 0.8,
    seed: int = 0,
) -> "CorrelationReport":
    """Return how well benchmark scores predict downstream results.

    `benchmark` are runs or their folders, `downstream` folders with outcomes of best-of-n or trainings (at `k`; by
    default the largest); with `csv` both are names of its columns. Either may be Columns.
    """
    from pluralrm.correlate import Column, columns_of_outcomes, columns_of_runs, read_published, without_controls
    from pluralrm.correlate import correlate as correlate_columns
    from pluralrm.policies.outcomes import find_outcomes, load_outcome

    if csv is not None:
        table = read_published(csv)
        sides = ([table.numbers(table.column(name)) for name in _listed(side)] for side in (benchmark, downstream))
        return correlate_columns(*sides, rbo_p=rbo_p, seed=seed)
    sources = (_listed(benchmark), _listed(downstream))
    first, second = ([entry for entry in source if isinstance(entry, Column)] for source in sources)
    runs = [] if first else runs_of(cast("Folders", benchmark))
    if not second:
        paths = [Path(entry) for entry in _listed(downstream) if isinstance(entry, str | Path)]
        if not (folders := find_outcomes(paths)):
            expected = "wanted a pool of 'best_of_n', or a training with a grader"
            raise SpecError(f"{', '.join(map(str, paths)) or 'downstream'}: no outcome at or below it; {expected}")
        second = columns_of_outcomes([load_outcome(path) for path in folders], k)
    predictors, left_out = (first, []) if first else without_controls(columns_of_runs(runs), runs, second)
    report = correlate_columns(predictors, second, rbo_p=rbo_p, seed=seed)
    return replace(report, notes=(*report.notes, *left_out))


def study(
    file: str | Path,
    *,
    out: str | Path,
    on: str = "",
    settings: "Settings | None" = None,
    fresh: Collection[str] = (),
    progress: Shown = None,
    log: str = "",
) -> "StudyResult":
    """Do what a study lacks, write study.json and study.html to `out`, and return what was found."""
    from pluralrm.study import StudyDeclaration
    from pluralrm.study import study as do_study
    from pluralrm.study.parts import RUNS

    if not isinstance(file, StudyDeclaration):
        check_type(file, (str, Path), "file", "the name of a study in TOML")
    with opened_log(log, warnings.warn) as board:
        with watching(progress, "step") as display:
            listener = TrainingLog(board)
            result = do_study(file, out=out, settings=settings, fresh=fresh, on=on, display=display, listener=listener)
        log_study(board, result.declared.title, result.records(), Path(out) / RUNS)
    return result


# ---------------------------------------------------------------- what is learned


@overload
def fit(  # type: ignore[overload-overlap] # one algorithm and one seed: the first that fits
    algorithm: str,
    benchmark: Source,
    *,
    out: str | Path,
    features: str = ...,
    seed: int = ...,
    shuffle_labels: bool = ...,
    on: str = ...,
    **hyperparameters: str | float,
) -> "FitManifest": ...
@overload
def fit(
    algorithm: str | Sequence[str],
    benchmark: Source,
    *,
    out: str | Path,
    features: str = ...,
    seed: int | Sequence[int] = ...,
    shuffle_labels: bool = ...,
    on: str = ...,
    **hyperparameters: str | float,
) -> "list[FitManifest]": ...
def fit(
    algorithm: str | Sequence[str],
    benchmark: Source,
    *,
    out: str | Path,
    features: str = "tfidf",
    seed: int | Sequence[int] = 0,
    shuffle_labels: bool = False,
    on: str = "",
    **hyperparameters: str | float,
) -> "FitManifest | list[FitManifest]":
    """Fit a reward model that adapts to each user, from the context pairs of a benchmark; personal:OUT loads it.

    With a list of algorithms or seeds, one fit of each, in OUT/ALGO-SEED; `on` a cluster each is a task.
    """
    from pluralrm.models.personal import fitting

    names, single = (_listed(algorithm), _listed(seed)), isinstance(algorithm, str) and isinstance(seed, int)
    parts = (Path(out), *names, hyperparameters)
    requests = fitting.fit_requests(*parts, single=single, features=features, shuffled=shuffle_labels)
    with opened(on) as cluster:
        manifests = fitting.fit_each(_benchmark(benchmark), requests, cluster)
    return manifests[0] if single else manifests


def train(  # noqa: PLR0913, PLR0917 - a verb of the package
    algorithm: Literal["ppo", "grpo"],
    benchmark: Source,
    policy: str,
    reward: Model,
    condition: Named = "none",
    *,
    steps: int,
    out: str | Path,
    reward_condition: Named | None = None,
    grader: "Grader | str | None" = None,
    n: int = 1,
    shaping: str = "raw",
    domains: Sequence[str] = (),
    limit: int | None = None,
    seed: int = 0,
    settings: "Settings | None" = None,
    log: str = "",
    **training: str | float,
) -> "GradedTraining":
    """Train a policy (lm:FOLDER) by PPO or GRPO on a reward model; the same call resumes. `training` are its settings.

    With a grader the answers to the test users are graded before and after. `log` names a tracker of the curves.
    """
    from pluralrm.policies.policy import open_local
    from pluralrm.training.settings import read_settings

    chosen = read_settings(algorithm, training)
    check_type(policy, (str,), "policy", "the name of one with weights here, such as 'lm:FOLDER'")
    opened = open_local(policy, settings)  # what follows loads torch
    from pluralrm.grading import check_independent, open_grader
    from pluralrm.training.job import GrpoJob, PpoJob
    from pluralrm.training.outcome import graded, trainer
    from pluralrm.training.rewards import open_rewarder, parse_shaping

    bench, seen = _benchmark(benchmark), _condition(condition, settings)
    context = seen if reward_condition is None else _condition(reward_condition, settings)
    marker = open_grader(grader, settings=settings) if isinstance(grader, str) else grader
    if marker is not None and isinstance(reward, str):
        check_independent(marker.spec, marker.model, picks=[reward], conditions=[context.spec], does="rewards")
    job = (PpoJob if algorithm == "ppo" else GrpoJob)(
        benchmark=bench,
        policy=opened,
        condition=seen,
        rewarder=open_rewarder(_model(reward), bench, context, settings=settings, chosen=chosen),
        reward_condition=context.spec,
        settings=chosen,  # type: ignore[arg-type] # of this algorithm
        shaping=parse_shaping(shaping),
        grader=marker,
        seed=seed,
        domains=domains,
        limit=limit,
    )
    with opened_log(log, warnings.warn) as board:
        curves = TrainingLog(board)
        done = trainer(algorithm)(job, Path(out), steps=steps, progress=partial(curves.tell, Path(out)))
        curves.end(Path(out), steps, result := graded(job, done, n=n))
    return result
