"""Every verb that writes, small: what a child does in a folder, and how a finished folder is known."""

import contextlib
import gzip
import json
import random
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pluralrm.benchmarks import load_benchmark
from pluralrm.errors import RunError
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


def score_alone(folder: Path, items: int = 300) -> None:
    moods = {"i0002": "parse", "i0040": "nan", "i0090": "raise"}
    run = score(bakery(items), Scripted(moods=moods), "raw:2", out=folder)
    assert run.complete


def score_shared(folder: Path, workers: int) -> None:
    run = score(bakery(200), "python:tests.builders:SlowLength,milliseconds=1", "recent:2", out=folder, workers=workers)
    assert run.complete


def score_judge(folder: Path, url: str) -> None:
    settings = Settings(cache=folder.parent / "cache", concurrency=4)
    run = score(bakery(40), f"judge:m,url={url}", "raw:2", out=folder, settings=settings)
    assert run.complete


# ---------------------------------------------------------------- shards

_PARTS = 7


def _in_any_order(folder: Path) -> list[str]:
    """Return all shards, once it is seen that what a kill left of them is refused by name, or whole."""
    from pluralrm import merge

    with contextlib.suppress(RunError):
        result = merge(folder)
        assert bool(result.merged) != bool(result.refused), result
        assert all(re.search(r"missing shards? [\d, ]+ of 7|shard \d of 7 has ", line) for line in result.refused), (
            result
        )
    return [f"{index}/{_PARTS}" for index in random.sample(range(1, _PARTS + 1), _PARTS)]


def score_one(folder: Path, items: int = 300) -> None:
    score_alone(folder.parent / "one", items)


def score_parts(folder: Path, items: int = 300) -> None:
    """Score all shards in any order; those that are complete stay as they are."""
    from pluralrm.runs.loop import score_shard

    moods = {"i0002": "parse", "i0040": "nan", "i0090": "raise"}
    for part in _in_any_order(folder):
        assert score_shard(bakery(items), Scripted(moods=moods), "raw:2", out=folder, shard=part).complete


def merge_parts(folder: Path) -> None:
    """Merge all shards, and see that they are the bytes of one process; RunError where they are refused."""
    from pluralrm import merge

    merged = merge(folder)
    if merged.refused:
        raise RunError("\n".join(merged.refused))
    assert len(merged.merged) == 1
    whole = merged.merged[0].folder
    one = folder.parent / "one" / whole.relative_to(folder)
    if whole.is_file():
        assert whole.read_bytes() == one.read_bytes()
        return
    names = {file.name for file in one.iterdir() if file.is_file()} - {".lock"}
    assert {file.name for file in whole.iterdir() if file.is_file()} - {".lock"} == names
    for name in names - {"run.json", "pool.json", "grader.json"}:
        texts = [path / name for path in (whole, one)]
        first, second = (gzip.decompress(p.read_bytes()) if p.suffix == ".gz" else p.read_bytes() for p in texts)
        assert first == second, name


def score_and_merge(folder: Path, items: int = 300) -> None:
    score_parts(folder, items)
    merge_parts(folder)


def prepare_merge(folder: Path) -> None:
    score_one(folder)
    score_parts(folder)


def record_judge(folder: Path, url: str) -> None:
    settings = Settings(record=folder.parent / "tape.jsonl", concurrency=1)
    assert score(bakery(40), f"judge:m,url={url}", "raw:2", out=folder.parent / "one", settings=settings).complete


def replay_judge(folder: Path, url: str) -> None:
    """Score the shards of a judge from a cassette, and merge them."""
    from pluralrm.runs.loop import score_shard

    for part in _in_any_order(folder):
        settings = Settings(replay=folder.parent / "tape.jsonl", concurrency=4)
        assert score_shard(
            bakery(40), f"judge:m,url={url}", "raw:2", out=folder, shard=part, settings=settings
        ).complete
    merge_parts(folder)


def is_merged(folder: Path) -> bool:
    return any(".shard-" not in file.parent.name for file in folder.rglob("run.json"))


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


def sample_one(folder: Path) -> None:
    sample_pool(folder.parent / "one" / "pool")


def sample_and_merge(folder: Path) -> None:
    from pluralrm.policies.policy import Draw
    from pluralrm.policies.sample import sample_folder
    from pluralrm.shards import open_shard

    bench = load_benchmark("simulated:users=40,items=2,seed=3")
    for part in _in_any_order(folder):
        sample_folder(bench, "simulated", out=folder / "pool", draw=Draw(n=4), shard=open_shard(part))
    merge_parts(folder)


def grade_one(folder: Path) -> None:
    make_pool(folder)
    make_pool(folder.parent / "one")
    grade_pool_of(folder.parent / "one")


def grade_and_merge(folder: Path) -> None:
    from pluralrm.policies.grades import grade_pool
    from pluralrm.policies.pool import load_pool
    from tests.grading.markers import scripted
    from tests.policies.pools import BENCH

    for part in _in_any_order(folder):
        grader = open_grader("joint:m", chat=scripted())
        assert not grade_pool(load_pool(folder / "pool"), BENCH, grader, shard=part).open
    merge_parts(folder)


def _has_grades(folder: Path) -> bool:
    return any(".shard-" not in file.parent.name for file in folder.rglob("grader.json"))


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


def pairs_one(folder: Path) -> None:
    pairs_of(folder.parent / "one" / "pairs.jsonl")


def pairs_of(file: Path, shard: str | None = None) -> None:
    from pluralrm.chat import ScriptedChat
    from pluralrm.construct.context_pairs import open_writer, write_pairs
    from pluralrm.shards import open_shard
    from tests.construct.test_context_pairs import willing

    writer = open_writer("m", count=4, chat=ScriptedChat(willing))
    done = write_pairs(load_benchmark("pocket-prb"), "pocket-prb", writer, file, limit=40, shard=open_shard(shard))
    assert not done.open


def pairs_and_merge(folder: Path) -> None:
    for part in _in_any_order(folder):
        pairs_of(folder / "pairs.jsonl", part)
    merge_parts(folder)


def _has_pairs(folder: Path) -> bool:
    file = folder / "pairs.jsonl"
    return file.exists() and file.stat().st_size > 0


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
    "score --shard, merge": Verb(score_and_merge, is_merged, prepare=score_one),
    "merge": Verb(merge_parts, is_merged, prepare=prepare_merge),
    "sample --shard, merge": Verb(sample_and_merge, _is_there("pool/pool.json"), prepare=sample_one),
    "grade --shard, merge": Verb(grade_and_merge, _has_grades, prepare=grade_one),
    "construct pairs --shard, merge": Verb(pairs_and_merge, _has_pairs, prepare=pairs_one),
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
        "score --shard judge": (replay_judge, is_merged),
        "construct": (construct_small, _is_there("release/README.md")),
        "construct prb": (construct_prb, _is_there("release/README.md")),
        "construct rmgap": (construct_rmgap, _is_there("release/README.md")),
    }
    work, looks_finished = works[name]
    prepare = partial(record_judge, url=url) if work is replay_judge else None
    return Verb(partial(work, url=url), looks_finished, CALLS, unordered=True, prepare=prepare)


def trained(kind: str, policy: Path) -> Verb:
    """Return a training of a policy."""
    work, loose = (train_ppo, frozenset[str]()) if kind == "ppo" else (train_grpo, frozenset(("checkpoints",)))
    return Verb(partial(work, policy=str(policy)), _says("run.json"), loose, clock=0.4)
