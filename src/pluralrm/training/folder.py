"""The folder of a training, open for writing by one process: lines are on disk as they come, and none is cut."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Generic, Literal, NamedTuple, TypeVar

from pluralrm.display import brief
from pluralrm.errors import RunError
from pluralrm.journal import Journal
from pluralrm.policies.policy import parse_policy
from pluralrm.training.measures import Alarm, FinalGrades, alarms
from pluralrm.training.records import (
    HELD_OUT,
    METRICS,
    TRAINING,
    Evaluation,
    EvaluationLine,
    Step,
    StepLine,
    TrainingManifest,
    line_of,
    read_lines,
    read_run,
)

POLICY = "policy"
"""The folder of the trained policy, inside that of the training."""


class TrainingFolder(Journal[TrainingManifest], Generic[Step, Evaluation]):
    """One training, whose lines are of two kinds; `steps` and `evaluations` hold what is on disk, by step."""

    def __init__(self, path: Path, manifest: TrainingManifest, step: type[Step], evaluation: type[Evaluation]) -> None:
        super().__init__(path, TRAINING, manifest)
        self._kinds = step, evaluation
        self._began = time.monotonic()
        self.steps: dict[int, Step] = {}
        self.evaluations: dict[int, Evaluation] = {}

    def _resume(self) -> None:
        super()._resume()
        step, evaluation = self._kinds
        self.steps = read_lines(self.path / METRICS, step)
        self.evaluations = read_lines(self.path / HELD_OUT, evaluation)
        if not TRAINING.holds(self.path):
            self.note("incomplete", 0)

    def has(self, steps: int) -> bool:
        """Return whether so many steps are done and their policy is written; RunError where there are more."""
        _check_steps(self.path, self.manifest, steps)
        done = self.manifest.status == "complete" and self.manifest.steps == steps
        return done and (self.path / POLICY).exists()

    def add_step(self, record: Step) -> None:
        """Put a step's line on disk, where it is not there already: a step that is computed again says the same."""
        if self.steps.get(record.step) != record:
            self.append(METRICS, line_of(record))
            self.steps[record.step] = record

    def add_evaluation(self, record: Evaluation) -> None:
        """Put an evaluation's line on disk, where it is not there already."""
        if self.evaluations.get(record.step) != record:
            self.append(HELD_OUT, line_of(record))
            self.evaluations[record.step] = record

    def note(self, status: Literal["incomplete", "complete"], steps: int) -> None:
        """Write run.json: how many steps are done and kept."""
        now = time.monotonic()
        state = {
            "status": status,
            "steps": steps,
            "masked": sum(one.masked for one in self.steps.values() if one.step < steps),
            "seconds": round(self.manifest.seconds + now - self._began, 3),
        }
        self._began, self.manifest = now, self.manifest.model_copy(update=state)
        self.write(self.manifest)


def check_begun(path: Path, facts: Mapping[str, object], steps: int) -> None:
    """Raise where a folder holds a training of which some fact is another, or that has more steps."""
    if TRAINING.holds(path):
        earlier = TRAINING.read(path)
        TRAINING.check_same(path, earlier.model_copy(update=dict(facts)).facts(), earlier.facts())
        _check_steps(path, earlier, steps)


def _check_steps(path: Path, found: TrainingManifest, steps: int) -> None:
    if found.steps > steps:
        raise RunError(f"{path} holds a training of {found.steps} steps, wanted {steps}")


Step_co = TypeVar("Step_co", bound=StepLine, covariant=True)
Evaluation_co = TypeVar("Evaluation_co", bound=EvaluationLine, covariant=True)


class TrainingProgress(NamedTuple, Generic[Step_co, Evaluation_co]):
    """What is said after a step: its line, the last evaluation where there is one, and what has gone off.

    `step` is None before the first one, when the watched users have been asked.
    """

    step: Step_co | None
    steps: int
    evaluation: Evaluation_co | None
    alarms: Sequence[Alarm]


class FinishedTraining(NamedTuple, Generic[Step_co, Evaluation_co]):
    """What a training came to; `policy` is a folder for `lm:`."""

    folder: Path
    policy: Path
    steps: Mapping[int, Step_co]
    evaluations: Mapping[int, Evaluation_co]
    alarms: Sequence[Alarm]
    final: FinalGrades | None = None
    """None until the test users have been asked."""

    def __repr__(self) -> str:
        return brief(self)

    def after(self, final: FinalGrades) -> "FinishedTraining[Step_co, Evaluation_co]":
        """Return the same with the alarms that the test users' answers set off too."""
        return self._replace(final=final, alarms=alarms(self.steps, self.evaluations, final=final))

    @property
    def spec(self) -> str:
        """Return what `--policy` takes it as: asked as in training, by the same template."""
        return str(replace(parse_policy(read_run(self.folder).policy), target=str(self.policy)))


def progress_of(folder: TrainingFolder[Step, Evaluation], step: int, steps: int) -> TrainingProgress[Step, Evaluation]:
    """Return what is said after one of so many steps; after step -1, before the first."""
    done = {number: one for number, one in folder.steps.items() if number <= step}
    seen = {number: one for number, one in folder.evaluations.items() if number <= max(step, 0)}
    return TrainingProgress(done.get(step), steps, next(reversed(seen.values()), None), alarms(done, seen))


def finished_training(folder: TrainingFolder[Step, Evaluation], steps: int) -> FinishedTraining[Step, Evaluation]:
    """Return what so many steps came to."""
    # Lines of later steps, which a kill left without weights, say nothing of this policy.
    lines = {step: one for step, one in folder.steps.items() if step < steps}
    seen = {step: one for step, one in folder.evaluations.items() if step <= steps}
    return FinishedTraining(folder.path, folder.path / POLICY, lines, seen, alarms(lines, seen))
