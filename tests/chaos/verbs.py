"""Every verb that writes, small: what a child does in a folder, and how a finished folder is known."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pluralrm.benchmarks import load_benchmark
from pluralrm.grading import open_grader
from pluralrm.http import Settings
from pluralrm.runs import score
from tests.builders import Scripted, bakery
from tests.chaos.kills import Verb

# Work is imported where it is done: the tests of one verb need not load what another builds on.


def _says(name: str, key: str = "status", value: str = "complete") -> Callable[[Path], bool]:
    def looks_finished(folder: Path) -> bool:
        files = [path for path in folder.rglob(name) if ".new" not in str(path)]
        return bool(files) and all(json.loads(file.read_bytes())[key] == value for file in files)

    return looks_finished


def _is_there(name: str = "") -> Callable[[Path], bool]:
    return lambda folder: (folder / name).exists()


# ---------------------------------------------------------------- score


def score_alone(folder: Path) -> None:
    moods = {"i0002": "parse", "i0040": "nan", "i0090": "raise"}
    run = score(bakery(300), Scripted(moods=moods), "raw:2", out=folder)
    assert run.complete


def score_shared(folder: Path, workers: int) -> None:
    run = score(bakery(200), "python:tests.builders:SlowLength,milliseconds=1", "recent:2", out=folder, workers=workers)
    assert run.complete


def score_judge(folder: Path, url: str) -> None:
    settings = Settings(cache=folder.parent / "cache", concurrency=4)
    run = score(bakery(40), f"judge:m,url={url}", "raw:2", out=folder, settings=settings)
    assert run.complete


# ---------------------------------------------------------------- sample, grade


def sample_pool(folder: Path) -> None:
    from pluralrm.policies.policy import Draw, load_policy
    from pluralrm.policies.sample import sample

    bench = load_benchmark("simulated:users=40,items=2,seed=3")
    assert sample(bench, load_policy("simulated"), "none", out=folder, draw=Draw(n=4)).complete


def make_pool(folder: Path) -> None:
    from tests.policies.pools import babbled

    babbled(folder, items=30, n=8)


def grade_pool_of(folder: Path) -> None:
    from pluralrm.policies.grades import grade_pool
    from pluralrm.policies.pool import load_pool
    from tests.grading.markers import scripted
    from tests.policies.pools import BENCH

    grade_pool(load_pool(folder / "pool"), BENCH, open_grader("joint:m", chat=scripted()))


def _all_graded(folder: Path) -> bool:
    files = list(folder.rglob("grades.jsonl"))
    return bool(files) and files[0].read_bytes().count(b"\n") == 30 * 7


# ---------------------------------------------------------------- construct


def construct_small(folder: Path, url: str) -> None:
    from pluralrm.construct.pipeline import build
    from pluralrm.construct.release import release
    from tests.construct.pipeline.released import released
    from tests.construct.pipeline.worlds import PIPELINE, flour, opened

    with opened(folder, url, settings=Settings(concurrency=4)) as (opened_folder, pools):
        built = build(PIPELINE, flour(30), opened_folder, pools)
        assert built.complete
        release(built, *released(built))


def construct_prb(folder: Path, url: str) -> None:
    from tests.construct.prb.child import main

    assert main(url, str(folder), "8") == 0


def construct_rmgap(folder: Path, url: str) -> None:
    from tests.construct.rmgap.worlds import released_from

    assert released_from(url, folder, 9)


# ---------------------------------------------------------------- fit, study, plan, export


def fit_pairs(folder: Path, algorithm: str = "bt") -> None:
    from pluralrm.models.personal.algorithms import read_settings
    from pluralrm.models.personal.fitting import FitRequest, fit

    bench = load_benchmark("simulated:users=20,items=1,posts=2,pairs=6,seed=1")
    fit(bench, FitRequest(read_settings(algorithm, {})), folder)


def study_small(folder: Path) -> None:
    from pluralrm.study import study
    from tests.study.studies import small

    study(small(models=["random", "longest", "known:posts", "known:taste,blur=1"]), out=folder)


def plan_people(folder: Path) -> None:
    from pluralrm.annotate.plan import write_plan
    from tests.annotate.plans import pair_plan

    if not folder.exists():
        write_plan(pair_plan(), folder)


def export_verl(folder: Path) -> None:
    from pluralrm.training.verl import export
    from tests.training.verl.test_exporting import SMALL, what

    if not folder.exists():
        export(what(), folder, SMALL)


# ---------------------------------------------------------------- with torch


def tiny(folder: Path) -> None:
    from pluralrm.training.tiny import tiny_policy

    if not folder.exists():
        tiny_policy(folder, steps=3)


def train_ppo(folder: Path, policy: str) -> None:
    from pluralrm.models.personal.networks import threads
    from pluralrm.policies.policy import load_policy
    from pluralrm.training.ppo import train
    from tests.training.ppo.trained import job

    with threads():
        train(job(load_policy(f"lm:{policy}")), folder, steps=3)  # type: ignore[arg-type] # a local one


def train_grpo(folder: Path, policy: str) -> None:
    from pluralrm.models.personal.networks import threads
    from pluralrm.policies.policy import load_policy
    from pluralrm.training.grpo import train
    from tests.training.grpo.trained import job

    with threads():
        train(job(load_policy(f"lm:{policy}")), folder, steps=3)  # type: ignore[arg-type] # a local one


CALLS = frozenset(("calls.jsonl", "cache"))
"""Replies are kept in the order in which they came."""

LOCAL = {
    "score": Verb(score_alone, _says("run.json")),
    "score, 2 workers": Verb(partial(score_shared, workers=2), _says("run.json"), workers=True, clock=0.3),
    "score, 3 workers": Verb(partial(score_shared, workers=3), _says("run.json"), workers=True, clock=0.3),
    "score, 4 workers": Verb(partial(score_shared, workers=4), _says("run.json"), workers=True, clock=0.3),
    "sample": Verb(sample_pool, _says("pool.json")),
    "grade": Verb(grade_pool_of, _all_graded, prepare=make_pool),
    "fit bt": Verb(fit_pairs, _says("fit.json"), clock=0.4),
    "study": Verb(study_small, _is_there("study.html")),
    "annotate plan": Verb(plan_people, _is_there()),
    "train verl export": Verb(export_verl, _is_there()),
}
TINY = {"train tiny": Verb(tiny, _is_there(), clock=0.5)}


def asking(url: str, name: str) -> Verb:
    """Return a verb that asks a server."""
    works = {
        "score judge": (score_judge, _says("run.json")),
        "construct": (construct_small, _is_there("release/README.md")),
        "construct prb": (construct_prb, _is_there("release/README.md")),
        "construct rmgap": (construct_rmgap, _is_there("release/README.md")),
    }
    work, looks_finished = works[name]
    return Verb(partial(work, url=url), looks_finished, CALLS, unordered=True)


def trained(kind: str, policy: Path) -> Verb:
    """Return a training of a policy."""
    work, loose = (train_ppo, frozenset[str]()) if kind == "ppo" else (train_grpo, frozenset(("checkpoints",)))
    return Verb(partial(work, policy=str(policy)), _says("run.json"), loose, clock=0.4)
