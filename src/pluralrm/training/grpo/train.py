"""A training from its first look at the validation users to the last, and the folder of the policy."""

from collections.abc import Callable
from pathlib import Path

from pluralrm.training import trained as shared
from pluralrm.training.export import write_policy
from pluralrm.training.folder import POLICY, TrainingFolder
from pluralrm.training.grpo.job import GrpoJob
from pluralrm.training.grpo.records import StepRecord
from pluralrm.training.grpo.settings import checked
from pluralrm.training.grpo.trainer import VERSION, Logs, Training
from pluralrm.training.heldout import watch
from pluralrm.training.job import Prepared, prepared_for
from pluralrm.training.records import EvaluationLine
from pluralrm.training.step import Drawn, line_of_step
from pluralrm.training.threads import threads_for

Told = shared.Told[StepRecord, EvaluationLine]
Trained = shared.Trained[StepRecord, EvaluationLine]
Folder = TrainingFolder[StepRecord, EvaluationLine]


def train(job: GrpoJob, out: str | Path, *, steps: int, tell: Callable[[Told], None] | None = None) -> Trained:
    """Train until so many steps are done, all told, and return what came of it; what is done is not done again."""
    checked(job.settings)
    ready = prepared_for(job, "grpo", Path(out), steps=steps, more={"trl": VERSION})
    with TrainingFolder(Path(out), ready.manifest, StepRecord, EvaluationLine) as folder:
        if not folder.has(steps):  # else no weight is read
            with threads_for(job.policy.folder):
                _Run(job, folder, ready, steps).go(tell or _quiet)
        return shared.trained_in(folder, steps)


class _Run:
    """A training under way."""

    def __init__(self, job: GrpoJob, folder: Folder, ready: Prepared, steps: int) -> None:
        self._job, self._folder, self._ready, self._steps = job, folder, ready, steps
        self._training = Training(job, ready.train, folder.path, steps=steps)

    def go(self, tell: Callable[[Told], None]) -> None:
        """Do the steps that are missing, look at the validation users before and after, and write the policy."""
        done = self._folder.manifest.steps
        if not done:
            self._look(0)
            tell(shared.told_of(self._folder, -1, self._steps))
        self._training.go(done, lambda step, logs: tell(self._add(step, logs)), self._kept)
        self._look(self._steps)
        write_policy(self._training.network.model, self._job.policy.folder, self._folder.path / POLICY)
        self._folder.note("complete", self._steps)

    def _kept(self, done: int) -> None:
        self._folder.note("incomplete", done)

    def _add(self, step: int, logs: Logs) -> Told:
        self._folder.add_step(_line(step, self._training.drawn[step], logs))
        return shared.told_of(self._folder, step, self._steps)

    def _look(self, step: int) -> None:
        """Ask the validation users, before and after with the same seeds: common random numbers."""
        if not self._ready.validation or step in self._folder.evaluations:
            return
        with self._training.computing() as network:
            self._folder.add_evaluation(watch(self._job, network, self._ready.validation, step).line)


def _line(step: int, drawn: Drawn, logs: Logs) -> StepRecord:
    told = {name: value for name, value in logs.items() if value is not None}
    return StepRecord(
        **line_of_step(step, drawn).model_dump(),
        kl=told.get("kl"),
        entropy=told["entropy"],
        clip_fraction=told["clip_ratio/region_mean"],
        groups_alike=told["frac_reward_zero_std"],
        loss=told["loss"],
        norm=told["grad_norm"],
    )


def _quiet(told: Told) -> None:
    """Tell nobody."""
