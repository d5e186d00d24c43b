"""The verbs of `import pluralrm`: each takes names, paths or objects, opens what is named, and returns a result.

>>> import tempfile
>>> runs = score("pocket-prb", ["bm25", "longest"], ["none", "raw:10", "swapped:10"], out=(out := tempfile.mkdtemp()))
>>> [row["verdict"] for row in compare(out).to_dict()]
['inconclusive', 'ignores user']
"""

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast, overload

from pluralrm import benchmarks
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Condition, RewardModel, Run
from pluralrm.errors import ConditionError, MissingExtraError, OutageError, SpecError, check_type
from pluralrm.progress import Shown, StepProgress, watching
from pluralrm.runs import load_runs
from pluralrm.runs import score as score_cell

if TYPE_CHECKING:
    from pluralrm.correlate import Column, CorrelationReport
    from pluralrm.grading import Grader
    from pluralrm.http import Settings
    from pluralrm.metrics.overview import Comparison
    from pluralrm.metrics.personalization import Personalization
    from pluralrm.models.personal.fitting import FitManifest
    from pluralrm.policies.best_of_n import BestOfN
    from pluralrm.policies.policy import Policy
    from pluralrm.policies.pool import Pool
    from pluralrm.report import ReportPage
    from pluralrm.study import StudyResult
    from pluralrm.training.job import TrainingJob
    from pluralrm.training.outcome import GradedTraining

Model = RewardModel | str
Named = Condition | str
Folders = str | Path | Sequence[str | Path]

_BENCHMARK = "a benchmark's name such as 'pocket-prb', a path, or a Benchmark"
_MODEL = "a model's name such as 'bm25' or 'hf:FOLDER', or an object with spec and score(queries)"
_CONDITION = "a condition's name such as 'none' or 'raw:10', or an object with spec and queries(benchmark, items)"
_RUNS = "a folder of runs, a list of folders, or runs that 'score' returned"


# ---------------------------------------------------------------- score


class ScoreOptions(TypedDict, total=False):
    """What `score` takes by name."""

    out: str | Path
    domains: Sequence[str]
    limit: int | None
    seed: int
    workers: int
    fresh: bool
    settings: "Settings | None"
    progress: Shown


@overload
def score(  # type: ignore[overload-overlap] # a text is one name, though it is a sequence of texts too
    benchmark: Benchmark | str | Path, model: Model, condition: Named = ..., **options: Unpack[ScoreOptions]
) -> Run: ...
@overload
def score(
    benchmark: Benchmark | str | Path | Sequence[Benchmark | str | Path],
    model: Model | Sequence[Model],
    condition: Named | Sequence[Named] = ...,
    **options: Unpack[ScoreOptions],
) -> list[Run]: ...
def score(  # noqa: PLR0913 - the verb of the package: each argument is a decision of its user
    benchmark: Benchmark | str | Path | Sequence[Benchmark | str | Path],
    model: Model | Sequence[Model],
    condition: Named | Sequence[Named] = "none",
    *,
    out: str | Path = "runs",
    domains: Sequence[str] = (),
    limit: int | None = None,
    seed: int = 0,
    workers: int = 1,
    fresh: bool = False,
    settings: "Settings | None" = None,
    progress: Shown = None,
) -> Run | list[Run]:
    """Score and return the Run; with a list of models, conditions or benchmarks, the runs of every combination.

    Rows are kept below `out`, and the same call resumes them. Of several combinations, one that cannot be scored is
    left out with a warning. `seed` is that of the order of candidates in benchmarks that are opened here.
    """
    several = any(isinstance(one, list | tuple) for one in (benchmark, model, condition))
    cells = [
        (bench, _model(one), _condition(shown, settings))
        for bench in [_benchmark(one, seed) for one in _listed(benchmark)]
        for shown in _listed(condition)
        for one in _listed(model)
    ]
    if not cells:
        raise SpecError("nothing to score: wanted at least one benchmark, one model and one condition")
    runs: list[Run] = []
    left_out: list[str] = []
    for bench, one, shown in cells:
        title = f"{bench.card.name} × {one if isinstance(one, str) else one.spec} × {shown.spec}"
        try:
            with watching(progress, title) as tell:
                runs.append(
                    score_cell(
                        *(bench, one, shown),
                        out=out,
                        domains=domains,
                        limit=limit,
                        workers=workers,
                        fresh=fresh,
                        settings=settings,
                        progress=tell,
                    )
                )
        except ConditionError as exc:
            if not several:
                raise
            left_out.append(f"{title}: {exc}")
    if not runs:
        raise ConditionError("\n  ".join(["nothing can be scored:", *left_out]))
    for reason in left_out:
        warnings.warn(f"left out {reason}", stacklevel=2)
    return runs if several else runs[0]


def _listed(found: Any) -> list[Any]:  # noqa: ANN401 - a model's list of models is a list of models
    return list(found) if isinstance(found, list | tuple) else [found]


def _benchmark(found: object, seed: int = 0) -> Benchmark:
    if isinstance(found, Benchmark):
        return found
    check_type(found, (str, Path), "benchmark", _BENCHMARK)
    return benchmarks.load_benchmark(str(found), seed=seed)


def _model(found: Model) -> Model:
    if not isinstance(found, str):
        _require(found, ("spec", "score"), "model", _MODEL)
    return found


def _condition(found: Named, settings: "Settings | None" = None) -> Condition:
    if not isinstance(found, str):
        _require(found, ("spec", "queries"), "condition", _CONDITION)
        return found
    return load_condition(found, cache=settings.cache if settings else None, settings=settings)


def _require(found: object, names: Sequence[str], name: str, wanted: str) -> None:
    if isinstance(found, type):
        raise SpecError(f"{name} is the class {found.__name__}; wanted an object of it: {found.__name__}()")
    if not all(hasattr(found, one) for one in names):
        check_type(found, (), name, wanted)


# ---------------------------------------------------------------- runs


def _runs(found: Run | Folders | Sequence[Run]) -> list[Run]:
    if isinstance(found, Run):
        return [found]
    if isinstance(found, str | Path):
        return load_runs(found)
    check_type(found, (list, tuple), "runs", _RUNS)
    several = list(cast("Sequence[object]", found))
    for one in several:
        check_type(one, (Run, str, Path), "runs", _RUNS)
    if not several:
        raise SpecError(f"no runs; wanted {_RUNS}")
    return [run for one in several for run in ([one] if isinstance(one, Run) else load_runs(cast("str", one)))]


def personalization(runs: Run | Folders | Sequence[Run], *, seed: int = 0) -> "list[Personalization]":
    """Return lift, gain and a verdict for each model and own condition among the runs, or those below a folder."""
    from pluralrm.metrics import personalization as measure

    return [
        told
        for group in _same_items(_runs(runs))
        for told in measure([run for run in group if run.complete], seed=seed)
    ]


def _same_items(runs: Iterable[Run]) -> list[list[Run]]:
    groups: dict[tuple[str, frozenset[str]], list[Run]] = {}
    for run in runs:
        if run.done:
            groups.setdefault((run.benchmark_hash, frozenset(row.item for row in run.rows)), []).append(run)
    return list(groups.values())


def compare(
    runs: Run | Folders | Sequence[Run] = "runs", *, names: Mapping[str, str] | None = None, seed: int = 0
) -> "Comparison":
    """Return the answer in one row per model: rank, accuracy, lift, gain and verdict; runs on other items apart."""
    from pluralrm.metrics.overview import Comparison, overview

    groups = _same_items(_runs(runs))
    if not groups:
        raise SpecError("no run has a row yet; the same call of 'score' resumes them")
    given = {run.model: run.name for group in groups for run in group if run.name} | dict(names or {})
    return Comparison(tuple(overview(group, seed=seed) for group in groups), given)


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
    for one in folders:
        check_type(one, (str, Path), "runs", "a folder of runs, or a list of folders: a report reads their files")
    check_type(out, (str, Path), "out", "the name of a file such as 'report.html'")
    return write_report(folders, out, text=text, figures=figures, seed=seed, force=force)


# ---------------------------------------------------------------- downstream


def sample(  # noqa: PLR0913 - a verb of the package
    benchmark: Benchmark | str | Path,
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
    settings: "Settings | None" = None,
    progress: Shown = None,
) -> "Pool":
    """Draw n answers per item into the pool in the folder `out`, and return it; the same call resumes it."""
    from pluralrm.policies.policy import Draw
    from pluralrm.policies.sample import sample as sample_pool

    bench, shown = _benchmark(benchmark, seed), _condition(condition, settings)
    if not isinstance(policy, str):
        _require(policy, ("spec", "answer"), "policy", "a policy's name such as 'chat:MODEL,url=URL', or an object")
    draw = Draw(n=n, temperature=temperature, top_p=top_p, max_tokens=max_tokens, seed=seed)
    with watching(progress, f"{bench.card.name} × {policy if isinstance(policy, str) else policy.spec}") as tell:
        options = {"draw": draw, "domains": domains, "limit": limit, "fresh": fresh}
        return sample_pool(bench, policy, shown, out=out, settings=settings, progress=tell, **options)  # type: ignore[arg-type]


def best_of_n(  # noqa: PLR0913 - a verb of the package
    pool: "Pool | str | Path",
    model: Model | Sequence[Model],
    condition: Named | Sequence[Named] = "none",
    *,
    grader: "Grader | str",
    ks: Sequence[int] = (),
    benchmark: Benchmark | str | Path | None = None,
    settings: "Settings | None" = None,
    progress: Shown = None,
) -> "BestOfN":
    """Let reward models pick among a pool's answers, grade all of them, and return what the picks are worth.

    `ks` are 1, 2, 4, ... by default; `benchmark` is named where the pool's was loaded from a path. Outcomes are written
    beside the pool.
    """
    from pluralrm.grading import check_independent, open_grader
    from pluralrm.policies.best_of_n import best_of_n as measure
    from pluralrm.policies.best_of_n import score_pool
    from pluralrm.policies.grades import grade_folder, grade_pool, read_grades
    from pluralrm.policies.outcomes import write_outcomes
    from pluralrm.policies.pool import Pool, load_pool, source
    from pluralrm.stats.best_of import powers_of_two

    if not isinstance(pool, Pool):
        check_type(pool, (str, Path), "pool", "the folder of a pool, or a Pool that 'sample' returned")
        pool = load_pool(pool)
    bench = source(pool) if benchmark is None else _benchmark(benchmark)
    marker = open_grader(grader, settings=settings) if isinstance(grader, str) else grader
    _require(marker, ("spec", "grade"), "grader", "a grader's name such as 'truth' or 'per-aspect:MODEL,url=URL'")
    models, shown = [_model(one) for one in _listed(model)], [_condition(one, settings) for one in _listed(condition)]
    named = [one for one in models if isinstance(one, str)]
    check_independent(marker.spec, marker.model, picks=named, conditions=[one.spec for one in shown])
    chosen = sorted(set(ks)) or powers_of_two(pool.n)
    runs = []
    for seen, one in product(shown, models):
        with watching(progress, f"{pool.folder} × {one if isinstance(one, str) else one.spec}") as tell:
            runs.append(score_pool(pool, bench, one, seen, settings=settings, progress=tell))
    with watching(progress, f"{pool.folder} × {marker.spec}") as tell:
        done = grade_pool(pool, bench, marker, progress=tell)
    if done.open or not all(run.complete for run in runs):
        raise OutageError(f"{pool.folder}: some answers have no score or no grade yet; the same call tries them again")
    found = measure(pool, bench, runs, read_grades(grade_folder(pool, marker)), ks=chosen)
    write_outcomes(pool, bench, runs, found, grader=marker.spec)
    return found


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
    from pluralrm.correlate import columns_of_outcomes, columns_of_runs, read_published, without_controls
    from pluralrm.correlate import correlate as correlate_columns
    from pluralrm.policies.outcomes import find_outcomes, load_outcome

    if csv is not None:
        table = read_published(csv)
        return correlate_columns(
            *([table.numbers(table.column(name)) for name in _listed(side)] for side in (benchmark, downstream)),
            rbo_p=rbo_p,
            seed=seed,
        )
    first, second = _columns(benchmark), _columns(downstream)
    runs = [] if first else _runs(cast("Folders", benchmark))
    if not second:
        paths = [Path(one) for one in _listed(downstream) if isinstance(one, str | Path)]
        if not (found := find_outcomes(paths)):
            named = ", ".join(map(str, paths)) or "downstream"
            raise SpecError(
                f"{named}: no outcome at or below it; wanted a pool of 'best_of_n', or a training with a grader"
            )
        second = columns_of_outcomes([load_outcome(path) for path in found], k)
    kept, left_out = (first, []) if first else without_controls(columns_of_runs(runs), runs, second)
    report = correlate_columns(kept, second, rbo_p=rbo_p, seed=seed)
    return replace(report, notes=(*report.notes, *left_out))


def _columns(side: object) -> "list[Column]":
    from pluralrm.correlate import Column

    return [one for one in _listed(side) if isinstance(one, Column)]


def study(
    file: str | Path,
    *,
    out: str | Path,
    settings: "Settings | None" = None,
    fresh: Collection[str] = (),
    progress: Shown = None,
) -> "StudyResult":
    """Do what a study lacks, write study.json and study.html to `out`, and return what was found."""
    from pluralrm.study import StudyDeclaration
    from pluralrm.study import study as do_study

    if not isinstance(file, StudyDeclaration):
        check_type(file, (str, Path), "file", "the name of a study in TOML")

    return do_study(file, out=out, settings=settings, fresh=fresh, watch=lambda title: StepProgress(progress, title))


# ---------------------------------------------------------------- what is learned


def fit(
    algorithm: str,
    benchmark: Benchmark | str | Path,
    *,
    out: str | Path,
    features: str = "tfidf",
    seed: int = 0,
    shuffle_labels: bool = False,
    **hyperparameters: str | float,
) -> "FitManifest":
    """Fit a reward model that adapts to each user, from the context pairs of a benchmark; personal:OUT loads it."""
    from pluralrm.models.personal import fitting
    from pluralrm.models.personal.algorithms import find, read_settings

    check_type(algorithm, (str,), "algorithm", "the name of one, such as 'bt' or 'lore'")
    find(algorithm)
    chosen = read_settings(algorithm, {name: str(value) for name, value in hyperparameters.items()})
    wanted = fitting.FitRequest(chosen, features, seed, "shuffled" if shuffle_labels else "own")
    return fitting.fit(_benchmark(benchmark), wanted, Path(out))


def train(  # noqa: PLR0913, PLR0917 - a verb of the package
    algorithm: Literal["ppo", "grpo"],
    benchmark: Benchmark | str | Path,
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
    **training: str | float,
) -> "GradedTraining":
    """Train a policy (lm:FOLDER) by PPO or GRPO on a reward model; the same call resumes. `training` are its settings.

    With a grader the answers to the test users are graded before and after.
    """
    if algorithm not in {"ppo", "grpo"}:
        raise SpecError(f"algorithm is {algorithm!r}; wanted 'ppo' or 'grpo'")
    from pluralrm.policies.policy import open_local
    from pluralrm.training.settings import read_grpo_settings, read_ppo_settings

    texts = {name: str(value) for name, value in training.items()}
    chosen = read_ppo_settings(texts) if algorithm == "ppo" else read_grpo_settings(texts)
    opened = open_local(policy, settings)  # what follows loads torch
    from pluralrm.grading import check_independent, open_grader
    from pluralrm.models.shaping import parse_shaping
    from pluralrm.training.job import GrpoJob, PpoJob
    from pluralrm.training.rewards import open_rewarder

    bench, seen = _benchmark(benchmark), _condition(condition, settings)
    shown = seen if reward_condition is None else _condition(reward_condition, settings)
    marker = open_grader(grader, settings=settings) if isinstance(grader, str) else grader
    if marker is not None and isinstance(reward, str):
        check_independent(marker.spec, marker.model, picks=[reward], conditions=[shown.spec], does="rewards")
    kind = PpoJob if algorithm == "ppo" else GrpoJob
    job = kind(
        benchmark=bench,
        policy=opened,
        condition=seen,
        rewarder=open_rewarder(_model(reward), bench, shown, settings=settings, chosen=chosen),
        reward_condition=shown.spec,
        settings=chosen,  # type: ignore[arg-type] # of this algorithm
        shaping=parse_shaping(shaping),
        grader=marker,
        seed=seed,
        domains=domains,
        limit=limit,
    )
    return _trained(job, algorithm, Path(out), steps=steps, n=n)


def _trained(job: "TrainingJob", algorithm: str, out: Path, *, steps: int, n: int) -> "GradedTraining":
    """Train, grade where there is a grader, and write the training's page."""
    from pluralrm.files import replace_file
    from pluralrm.training.outcome import GradedTraining, outcome
    from pluralrm.training.records import read_run
    from pluralrm.training.report import report_page

    try:
        module = import_module(f"pluralrm.training.{algorithm}")
    except ImportError as exc:
        if (exc.name or "").startswith("pluralrm"):
            raise
        raise MissingExtraError(f"train {algorithm}", algorithm) from exc
    done = module.train(job, out, steps=steps)
    result = None if job.grader is None else outcome(job, done, job.grader, n=n)
    done = done if result is None else done.after(result.final)
    replace_file(out / "report.html", report_page(read_run(out), done.steps, done.evaluations, final=done.final))
    return GradedTraining(job.domains[0] if len(job.domains) == 1 else "", done, result)
