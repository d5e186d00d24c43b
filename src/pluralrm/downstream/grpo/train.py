"""A training from its first look at the validation users to the last, and the folder of the policy."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from pluralrm.downstream.grpo.answering import Drawn, draw
from pluralrm.downstream.grpo.folder import GrpoFolder
from pluralrm.downstream.grpo.job import GrpoJob, manifest_of
from pluralrm.downstream.grpo.records import EvaluationRecord, StepRecord
from pluralrm.downstream.grpo.settings import checked
from pluralrm.downstream.grpo.trainer import VERSION, Logs, Training
from pluralrm.downstream.ppo.measures import deviation, mean, repetition
from pluralrm.downstream.ppo.prompts import Prompts, assembled
from pluralrm.downstream.ppo.rewards import scored_by
from pluralrm.downstream.ppo.split import asker
from pluralrm.errors import RunError, SpecError
from pluralrm.folders import LOADED
from pluralrm.models.neural.loading import quietly

POLICY = "policy"
"""The folder of the trained policy, inside that of the training."""
_WEIGHTS = (".safetensors", ".safetensors.index.json")


class Trained(NamedTuple):
    """What a training came to; `policy` is a folder for `lm:`."""

    folder: Path
    policy: Path
    steps: Mapping[int, StepRecord]
    evaluations: Mapping[int, EvaluationRecord]


def train(job: GrpoJob, out: str | Path, *, steps: int, tell: Callable[[StepRecord], None] | None = None) -> Trained:
    """Train until so many steps are done, all told, and return what came of it; what is done is not done again."""
    checked(job.settings)
    if steps < 1:
        raise SpecError(f"steps is {steps}; wanted at least 1")
    job.shaping.check(scored_by(job.rewarder), job.reward_condition)
    parts = job.parts()
    prompts = {
        name: assembled(job.benchmark, items, job.condition, job.policy, max_tokens=job.settings.max_tokens)
        for name, items in parts._asdict().items()
    }
    left_out = {f"{name} {kind}": count for name, one in prompts.items() for kind, count in one.left_out.items()}
    with GrpoFolder(Path(out), manifest_of(job, parts, left_out, trl=VERSION)) as folder:
        policy = folder.path / POLICY
        if folder.manifest.steps > steps:
            raise RunError(f"{folder.path} holds a training of {folder.manifest.steps} steps, wanted {steps}")
        if folder.manifest.status == "incomplete" or folder.manifest.steps < steps or not policy.exists():
            _Run(job, folder, prompts, steps).go(tell or _quiet)
        return Trained(folder.path, policy, folder.steps, folder.evaluations)


class _Run:
    """A training under way."""

    def __init__(self, job: GrpoJob, folder: GrpoFolder, prompts: Mapping[str, Prompts], steps: int) -> None:
        self._job, self._folder, self._watched, self._steps = job, folder, prompts["validation"].prompts, steps
        self._training = Training(job, prompts["train"].prompts, folder.path, steps=steps)

    def go(self, tell: Callable[[StepRecord], None]) -> None:
        """Do the steps that are missing, look at the validation users before and after, and write the policy."""
        done = self._folder.manifest.steps
        if not done:
            self._look(0)
        self._training.go(done, lambda step, logs: tell(self._add(step, logs)), self._kept)
        self._look(self._steps)
        _write_policy(self._job, self._training, self._folder.path / POLICY)
        self._folder.note("complete", self._steps)

    def _kept(self, done: int) -> None:
        self._folder.note("incomplete", done)

    def _add(self, step: int, logs: Logs) -> StepRecord:
        record = _line(step, self._training.drawn[step], logs)
        self._folder.add_step(record)
        return record

    def _look(self, step: int) -> None:
        """Ask the validation users, before and after with the same seeds: common random numbers."""
        if not self._watched or step in self._folder.evaluations:
            return
        with self._training.computing() as network:
            drawn = draw(self._job, network, self._watched, seed=f"{self._job.seed}:held-out")
        self._folder.add_evaluation(
            EvaluationRecord(
                step=step,
                items=tuple(one.item.id for one in self._watched),
                users=tuple(asker(one.item) for one in self._watched),
                rewards=tuple(drawn.settled.rewards),
                length=mean([len(one.ids) for one in drawn.answers]),
            )
        )


def _line(step: int, drawn: Drawn, logs: Logs) -> StepRecord:
    rewards = [one for one in drawn.settled.rewards if one is not None]
    told = {name: value for name, value in logs.items() if value is not None}
    return StepRecord(
        step=step,
        answers=len(drawn.answers),
        masked=drawn.settled.rewards.count(None),
        failures=dict(drawn.settled.failures),
        reward=mean(rewards),
        reward_sd=deviation(rewards),
        length=mean([len(one.ids) for one in drawn.answers]),
        cut=mean([float(one.cut) for one in drawn.answers]),
        repetition=mean([repetition(one.ids) for one in drawn.answers]),
        kl=told.get("kl"),
        entropy=told["entropy"],
        clip_fraction=told["clip_ratio/region_mean"],
        groups_alike=told["frac_reward_zero_std"],
        loss=told["loss"],
        norm=told["grad_norm"],
    )


def _write_policy(job: GrpoJob, training: Training, out: Path) -> None:
    """Write the trained weights, and all else as it is in the folder that they came from; at once."""
    beside, base = out.with_name(f"{out.name}.new"), job.policy.folder.path
    shutil.rmtree(beside, ignore_errors=True)
    try:
        with quietly():
            training.network.model.save_pretrained(beside)
        for file in beside.iterdir():
            if not file.name.endswith(_WEIGHTS):  # TRL has set tokens there that are none of the model's
                file.unlink()
        for file in base.iterdir():
            if file.is_file() and file.suffix in LOADED and not file.name.endswith(_WEIGHTS):
                shutil.copyfile(file, beside / file.name)
        shutil.rmtree(out, ignore_errors=True)
        beside.replace(out)
    except OSError as exc:
        raise RunError(f"cannot write {out}: {exc}. Make room; the same command writes it again") from exc


def _quiet(record: StepRecord) -> None:
    """Tell nobody."""
