"""What is told of a training while it goes, and what it came to."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from pluralrm.policies.policies import parse_policy
from pluralrm.training.alarms import Alarm, FinalGrades, alarms
from pluralrm.training.folder import POLICY, TrainingFolder
from pluralrm.training.records import Evaluation, EvaluationLine, Step, StepLine, read_run

Step_co = TypeVar("Step_co", bound=StepLine, covariant=True)
Evaluation_co = TypeVar("Evaluation_co", bound=EvaluationLine, covariant=True)


class Told(NamedTuple, Generic[Step_co, Evaluation_co]):
    """What is said after a step: its line, the last evaluation where there is one, and what has gone off.

    `step` is None before the first one, when the watched users have been asked.
    """

    step: Step_co | None
    steps: int
    evaluation: Evaluation_co | None
    alarms: Sequence[Alarm]


class Trained(NamedTuple, Generic[Step_co, Evaluation_co]):
    """What a training came to; `policy` is a folder for `lm:`."""

    folder: Path
    policy: Path
    steps: Mapping[int, Step_co]
    evaluations: Mapping[int, Evaluation_co]
    alarms: Sequence[Alarm]
    final: FinalGrades | None = None
    """None until the test users have been asked."""

    def after(self, final: FinalGrades) -> "Trained[Step_co, Evaluation_co]":
        """Return the same with the alarms that the test users' answers set off too."""
        return self._replace(final=final, alarms=alarms(self.steps, self.evaluations, final=final))

    @property
    def spec(self) -> str:
        """Return what `--policy` takes it as: asked as in training, by the same template."""
        return str(replace(parse_policy(read_run(self.folder).policy), target=str(self.policy)))


def told_of(folder: TrainingFolder[Step, Evaluation], step: int, steps: int) -> Told[Step, Evaluation]:
    """Return what is said after one of so many steps; after step -1, before the first."""
    done = {number: one for number, one in folder.steps.items() if number <= step}
    seen = {number: one for number, one in folder.evaluations.items() if number <= max(step, 0)}
    return Told(done.get(step), steps, next(reversed(seen.values()), None), alarms(done, seen))


def trained_in(folder: TrainingFolder[Step, Evaluation], steps: int) -> Trained[Step, Evaluation]:
    """Return what so many steps came to."""
    # Lines of later steps, which a kill left without weights, say nothing of this policy.
    lines = {step: one for step, one in folder.steps.items() if step < steps}
    seen = {step: one for step, one in folder.evaluations.items() if step <= steps}
    return Trained(folder.path, folder.path / POLICY, lines, seen, alarms(lines, seen))
