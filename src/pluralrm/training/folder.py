"""The folder of a training, open for writing by one process: lines are on disk as they come, and none is cut."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Generic, Literal

from pluralrm.errors import RunError
from pluralrm.journal import Journal
from pluralrm.training.records import (
    HELD_OUT,
    METRICS,
    TRAINING,
    Evaluation,
    Step,
    TrainingManifest,
    line_of,
    read_lines,
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
