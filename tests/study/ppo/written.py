"""Trainings as `train ppo` leaves them on disk, written without torch: real pools and grades, and lines made up here.

What a policy answers after training is what `simulated` answers by another seed; each reward has one of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pluralrm.core import Benchmark, Row
from pluralrm.grading.truth import Truth
from pluralrm.http import Settings
from pluralrm.journal import provenance
from pluralrm.policies.grades import grade_pool
from pluralrm.policies.outcomes import OutcomeManifest, write_outcome
from pluralrm.policies.policy import Draw
from pluralrm.policies.pool import Pool
from pluralrm.policies.sample import sample
from pluralrm.runs.records import benchmark_record
from pluralrm.study import declare
from pluralrm.study.file import StudyDeclaration
from pluralrm.study.parts import benchmark_of
from pluralrm.study.ppo import Recipe, Training, recipe_of
from pluralrm.study.ppo.results import REPORT, places
from pluralrm.training.job import Questions
from pluralrm.training.records import (
    HELD_OUT,
    METRICS,
    RUN,
    PartsRecord,
    PpoEvaluation,
    PpoStep,
    TrainingManifest,
    line_of,
)

MODELS = ("longest", "shortest", "bm25", "random")
TABLE: Mapping[str, Any] = {
    "benchmarks": ["simulated:users=20,items=2,domains=2"],
    "models": list(MODELS),
    "conditions": ["raw:3"],
    "ppo": {"policy": "tiny", "steps": 4, "seeds": [0, 1], "n": 2, "grader": "truth", "settings": {"test": 0.4}},
}


def table(**changes: Any) -> dict[str, Any]:
    """Return the table of a study that trains; `ppo` changes keys of that table."""
    ppo = {**TABLE["ppo"], **changes.pop("ppo", {})}
    return {**TABLE, "ppo": ppo, **changes}


def declared(**changes: Any) -> StudyDeclaration:
    return declare(table(**changes))


def recipe(**changes: Any) -> Recipe:
    asked = declared(**changes)
    on = asked.ppo.evaluate_on if asked.ppo else ""
    evaluated = benchmark_of(asked, on) if on else None
    return recipe_of(asked, benchmark_of(asked, asked.benchmarks[0]), Settings(), evaluated=evaluated)


def write_all(told: Recipe, out: Path, *, but: Sequence[Training] = ()) -> None:
    """Write every training of a recipe, but for some."""
    for training in told.trainings(out):
        if training.cell.skip is None and training not in but:
            write(told, training)


def write(told: Recipe, training: Training, *, status: str = "complete", constant: bool = False) -> None:
    """Write one training; with `constant` all of its answers have one reward, which trips the alarm of that name."""
    asked, folder = told.declared, training.folder
    for of in told.asked(training.domain):
        where = places(folder, steps=asked.steps, n=asked.n, sub=of.place)
        bench = replace(of.benchmark, items=of.items, content_hash="")
        for path, seed in ((where.before, 1000), (where.after, sum(map(ord, training.cell.reward)))):
            pool = sample(bench, "simulated", told.condition, out=path, draw=Draw(n=asked.n, seed=seed + training.seed))
            grade_pool(pool, bench, Truth())
        _write_outcome(told, training, of, pool=pool, out=where.outcome)
    (folder / RUN).write_text(_manifest(told, training, status).to_json())
    lines = [_line(step, 0.0 if constant else 1.0) for step in range(asked.steps)]
    (folder / METRICS).write_text("".join(map(line_of, lines)))
    (folder / HELD_OUT).write_text("".join(line_of(_evaluation(told, training, step)) for step in (0, asked.steps)))
    (folder / REPORT).write_text("<p>a report</p>")


def worths(told: Recipe, pool: Pool, bench: Benchmark | None = None) -> list[float]:
    """Return the mean grade of each item's answers, asked of the grader again."""
    known = {item.id: item for item in (bench or told.benchmark).items}
    found = []
    for name, samples in pool.samples.items():
        grades = [one.grade for one in Truth().grade([(known[name], sample.text) for sample in samples])]
        found.append(sum(grade for grade in grades if isinstance(grade, float)) / len(samples))
    return found


def _write_outcome(told: Recipe, training: Training, of: Questions, *, pool: Pool, out: Path) -> None:
    clusters = {item.id: item.cluster for item in of.items}
    rows = [
        Row(name, clusters[name], "", 0, (worth,), candidate_ids=("trained",), lengths=(9,))
        for name, worth in zip(pool.samples, worths(told, pool, of.benchmark), strict=True)
    ]
    manifest = OutcomeManifest(
        kind="ppo",
        way="trained",
        model=training.cell.reward,
        condition=training.cell.condition.spec,
        shown_rubric=False,
        policy=pool.policy,
        policy_condition=pool.condition,
        pool_hash="x",
        grader=told.grader.spec,
        benchmark=of.benchmark.card.name,
        benchmark_hash=of.benchmark.content_hash,
        average="micro",
        ks=(1,),
        items=len(rows),
        failed=0,
        **provenance(),
    )
    write_outcome(out, manifest, iter(rows))


def _manifest(told: Recipe, training: Training, status: str) -> TrainingManifest:
    return TrainingManifest.model_validate(
        {
            "kind": "ppo",
            "status": status,
            "policy": "lm:policies/tiny",
            "reward": training.cell.reward,
            "identity": {},
            "benchmark": benchmark_record(told.benchmark),
            "condition": told.condition.spec,
            "reward_condition": training.cell.condition.spec,
            "reveals": (),
            "reward_reveals": (),
            "selection": {"items": 1, "domains": (), "limit": None},
            "parts": PartsRecord(train=(), validation=(), test=(), left_out={}),
            "settings": told.settings.to_json(),
            "shaping": "raw",
            "grader": told.grader.spec,
            "seed": training.seed,
            "steps": told.declared.steps,
            **provenance(),
        }
    )


def _line(step: int, deviation: float) -> PpoStep:
    zeros = {name: 0.0 for name, field in PpoStep.model_fields.items() if field.is_required()}
    known = {"step": step, "answers": 8, "masked": 0, "failures": {}, "length": 9.0, "reward_sd": deviation}
    return PpoStep.model_validate({**zeros, **known})


def _evaluation(told: Recipe, training: Training, step: int) -> PpoEvaluation:
    items = told.parts[training.domain].validation
    zeros = {name: 0.0 for name, field in PpoEvaluation.model_fields.items() if field.is_required()}
    known = {
        "step": step,
        "items": [item.id for item in items],
        "users": [item.cluster for item in items],
        "rewards": [0.0] * len(items),
        "grades": [0.25 + step / 10] * len(items),
    }
    return PpoEvaluation.model_validate({**zeros, **known})
