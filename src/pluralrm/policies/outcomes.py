"""Outcomes on disk: what a reward model did to a policy, graded by another model, one row per item.

OUT/<model>/<condition>-<hash8>/outcome.json  whose picks, from which pool, graded by whom, at which k
OUT/<model>/<condition>-<hash8>/rows.jsonl    rows as those of a run: `scores` are grades, one per k, in [0, 1]

`candidates` name the k ("best-of-1", "best-of-2", ...), `preferred` is the place of the largest, `lengths` are the
characters that the pick is expected to have.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Required, TypedDict

import numpy as np

from pluralrm.card import Average
from pluralrm.cluster import Cluster
from pluralrm.core import Benchmark, Condition, RewardModel, Row, Run
from pluralrm.digests import digest
from pluralrm.display import Record, Tabular
from pluralrm.errors import OutageError, RunError
from pluralrm.files import replace_file
from pluralrm.grading import Grader, check_independent
from pluralrm.http import Settings
from pluralrm.journal import JournalKind, Manifest, provenance
from pluralrm.metrics.estimates import synthesised, written_pairs
from pluralrm.policies.best_of_n import BestOfCurve, BestOfN, PoolOptions, best_of_n, score_pool, score_pool_shard
from pluralrm.policies.grades import grade_folder, grade_pool, read_grades, shard_of_grades
from pluralrm.policies.pool import Pool, items_of, lengths, score_table
from pluralrm.progress import JobDisplay, JobStep, Shown
from pluralrm.runs import records
from pluralrm.runs.records import slug
from pluralrm.shards import Shard, ShardProgress
from pluralrm.stats.best_of import check_ks, expected_best_of, first_best_of, powers_of_two

_FOLDER = "outcomes"


class OutcomeManifest(Manifest):
    """outcome.json: where the rows came from."""

    kind: Literal["best-of-n", "ppo", "grpo"] = "best-of-n"
    way: Literal["exact", "first", "trained"]
    """Over all subsets of k, or of the first k alone; or what a policy that was trained answers, k = 1."""
    model: str
    condition: str
    shown_rubric: bool
    """True for an upper control: the reward model was shown what its picks are graded by."""
    pairs: str = ""
    """Whose pairs the reward model was shown, where a chat model wrote them; none in older outcomes."""
    policy_pairs: str = ""
    """The same of the policy."""
    policy: str
    policy_condition: str
    pool_hash: str
    """What several models have in common: the pool they pick from, or all of a training but its reward."""
    grader: str
    benchmark: str
    benchmark_hash: str
    average: Average
    ks: tuple[int, ...]
    items: int
    failed: int
    """Items with an answer, a score or a grade that failed; what is missing there earned nothing."""
    failures: dict[str, int] = {}
    """Answers without a grade, by kind: of a policy that was trained, or of the pool; none in older outcomes."""
    versions: dict[str, str]
    git: str
    started: str


OUTCOME = JournalKind(
    noun="outcome",
    manifest="outcome.json",
    record=OutcomeManifest,
    error=RunError,
    source="'pluralrm best-of-n' and 'pluralrm train ppo' write one",
    anew="let the same command write it again",
)


@dataclass(frozen=True, repr=False)
class Outcome(Tabular):
    """What one reward model did to one policy: rows whose scores are grades, one per k."""

    manifest: OutcomeManifest
    rows: tuple[Row, ...]
    path: str

    @property
    def model(self) -> str:
        """The reward model whose picks were graded."""
        return self.manifest.model

    def records(self) -> list[Record]:
        """Return a row per item: the grade of the pick from k answers, for each k."""
        names = [f"best_of_{k}" for k in self.manifest.ks]
        return [
            {"item": row.item, "cluster": row.cluster, "domain": row.domain}
            | {name: score if isinstance(score, float) else None for name, score in zip(names, row.scores, strict=True)}
            for row in self.rows
        ]

    def grades(self) -> list[float]:
        """Return the grade of each item at the largest k."""
        return [score for row in self.rows if isinstance(score := row.scores[-1], float)]


class BestOfOptions(TypedDict, total=False):
    """What `pluralrm.best_of_n` takes by name."""

    grader: Required[Grader | str]
    ks: Sequence[int]
    benchmark: Benchmark | str | Path | None
    on: str
    settings: Settings | None
    progress: Shown


class PickingJob(NamedTuple):
    """Reward models that pick among a pool's answers, each under a condition, and who grades the answers."""

    pool: Pool
    benchmark: Benchmark
    cells: Sequence[tuple[Condition, RewardModel | str]]
    grader: Grader


def pick(
    job: PickingJob,
    ks: Sequence[int] = (),
    *,
    settings: Settings | None,
    on: Cluster | None,
    display: JobDisplay,
    shard: Shard | None = None,
) -> BestOfN | list[ShardProgress]:
    """Score and grade all answers, write the outcomes, and return what the picks are worth; of a shard how far it is.

    OutageError where some answers have no score or no grade yet.
    """
    (pool, bench, cells, grader), runs, shards = job, list[Run](), list[ShardProgress]()
    check_ks(chosen := sorted(set(ks)) or powers_of_two(pool.n), pool.n)
    names = [model if isinstance(model, str) else model.spec for _, model in cells]
    specs = [model for _, model in cells if isinstance(model, str)]
    check_independent(grader.spec, grader.model, picks=specs, conditions=[seen.spec for seen, _ in cells])
    titles = [f"{pool.folder} × {name} × {seen.spec}" for name, (seen, _) in zip(names, cells, strict=True)]
    steps = [JobStep(title, name, 1) for title, name in zip(titles, names, strict=True)]
    display.expect([*steps, JobStep(f"{pool.folder} × {grader.spec}", grader.spec, 1)])
    options: PoolOptions = {"settings": settings, "on": on, "progress": display.update}
    for title, (seen, model) in zip(titles, cells, strict=True):
        display.begin(title)
        if shard is None:
            runs.append(score_pool(pool, bench, model, seen, **options))
        else:
            shards.append(score_pool_shard(pool, bench, model, seen, shard=shard, **options))
    display.begin(f"{pool.folder} × {grader.spec}")
    done = grade_pool(pool, bench, grader, progress=display.update, shard=shard, on=on)
    if shard is not None:
        return [*shards, shard_of_grades(pool, grader, shard, done)]
    if done.open or not all(run.complete for run in runs):
        raise OutageError(f"{pool.folder}: some answers have no score or no grade yet; the same call tries them again")
    grades = read_grades(grade_folder(pool, grader))
    result = best_of_n(pool, bench, runs, grades, ks=chosen)
    write_outcomes(pool, bench, runs, result, grader=grader.spec)
    return result


def write_outcomes(
    pool: Pool, benchmark: Benchmark, runs: Sequence[Run], best_of_n: BestOfN, *, grader: str
) -> list[Path]:
    """Write one folder per curve beside the pool and return them; the same curves give the same rows."""
    folders = []
    for run, curve in zip(runs, best_of_n.curves, strict=True):
        manifest = _manifest(pool, benchmark, run, curve, best_of_n=best_of_n, grader=grader)
        shape = digest([manifest.pool_hash, run.condition, grader, manifest.way, manifest.ks])[:8]
        folder = Path(pool.folder) / _FOLDER / slug(run.model) / f"{slug(run.condition)}-{shape}"
        write_outcome(folder, manifest, _rows(pool, benchmark, run, curve, exact=best_of_n.exact))
        folders.append(folder)
    return folders


def load_outcome(path: str | Path) -> Outcome:
    """Return the outcome in a folder."""
    folder = Path(path)
    manifest, file = OUTCOME.read(folder), folder / records.ROWS
    if not file.exists():
        raise OUTCOME.damaged(file, "the file is missing")
    parsed = OUTCOME.lines(file, records.RowRecord, lambda row: f"row of item {row.item!r}")
    rows = tuple(map(records.row_of, parsed))
    if len(rows) != manifest.items:
        raise OUTCOME.damaged(file, f"found {len(rows):,} rows, and {OUTCOME.manifest} has {manifest.items:,} items")
    return Outcome(manifest, rows, str(folder))


def find_outcomes(paths: Sequence[str | Path]) -> list[Path]:
    """Return the outcome folders at or below some paths, sorted."""
    folders = [file.parent for path in paths for file in sorted(Path(path).rglob(OUTCOME.manifest))]
    return list(dict.fromkeys(folders))


def _manifest(
    pool: Pool, benchmark: Benchmark, run: Run, curve: BestOfCurve, *, best_of_n: BestOfN, grader: str
) -> OutcomeManifest:
    return OutcomeManifest.model_validate(
        {
            "way": "exact" if best_of_n.exact else "first",
            "model": curve.model,
            "condition": curve.condition,
            "shown_rubric": curve.shown_rubric,
            "pairs": synthesised(run),
            "policy_pairs": written_pairs(benchmark.card, pool.reveals),
            "policy": pool.policy,
            "policy_condition": pool.condition,
            "pool_hash": pool.content_hash,
            "grader": grader,
            "benchmark": pool.benchmark,
            "benchmark_hash": pool.benchmark_hash,
            "average": benchmark.card.average,
            "ks": [point.k for point in curve.points],
            "items": len(pool.samples),
            "failed": curve.last.grade.failed,
            "failures": dict(best_of_n.failures),
            **provenance(),
        }
    )


def _rows(pool: Pool, benchmark: Benchmark, run: Run, curve: BestOfCurve, *, exact: bool) -> Iterator[Row]:
    ks = [point.k for point in curve.points]
    scores = np.nan_to_num(score_table(pool, run), nan=-np.inf, neginf=-np.inf)
    sizes = (expected_best_of if exact else first_best_of)(scores, lengths(pool), ks)
    inputs: Mapping[str, str] = {row.item: row.input_hash for row in run.rows}
    posts = {row.item: row.posts for row in run.rows}
    for index, item in enumerate(items_of(pool, benchmark)):
        yield Row(
            item=item.id,
            cluster=item.cluster,
            domain=item.domain,
            preferred=len(ks) - 1,
            scores=tuple(map(float, np.clip(curve.values[index], 0.0, 1.0))),
            candidate_ids=tuple(f"best-of-{k}" for k in ks),
            lengths=tuple(map(round, sizes[index].tolist())),
            tags=item.tags,
            posts=posts.get(item.id, 0),
            input_hash=inputs.get(item.id, ""),
            prompt=item.crossed,
        )


def write_outcome(folder: Path, manifest: OutcomeManifest, rows: Iterator[Row]) -> None:
    """Write the folder of one outcome."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / records.ROWS, "".join(map(records.row_line, rows)))
        replace_file(folder / OUTCOME.manifest, manifest.to_json())
    except OSError as exc:
        raise RunError(f"cannot write to {folder}: {exc.strerror or exc}. Name another place with -o") from exc
