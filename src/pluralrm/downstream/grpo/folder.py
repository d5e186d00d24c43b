"""The folder of a training, open for writing by one process: lines are on disk as they come, and none is cut."""

import os
import time
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from pluralrm.downstream.grpo.records import (
    HELD_OUT,
    METRICS,
    RUN,
    EvaluationRecord,
    GrpoManifest,
    StepRecord,
    line_of,
    read_lines,
    read_run,
)
from pluralrm.errors import RunError
from pluralrm.files import append, drop_torn_line, lock_folder, replace_file


class GrpoFolder:
    """One training; `steps` and `evaluations` hold what is on disk, by step."""

    def __init__(self, path: Path, manifest: GrpoManifest) -> None:
        self.path, self.manifest = path, manifest
        self._lock: int | None = None
        self._began = time.monotonic()
        self.steps: dict[int, StepRecord] = {}
        self.evaluations: dict[int, EvaluationRecord] = {}

    def __enter__(self) -> Self:
        try:
            self._lock = lock_folder(self.path)
            self._adopt()
        except BlockingIOError as exc:
            raise RunError(f"{self.path}: another process is training here; wait for it or stop it") from exc
        except OSError as exc:
            self._unlock()
            raise _cannot_write(self.path, exc) from exc
        except RunError:
            self._unlock()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _adopt(self) -> None:
        """Take over what an earlier process left: check that it is the same training, drop a torn tail."""
        if (self.path / RUN).exists():
            earlier = read_run(self.path)
            if differing := self.manifest.differs_in(earlier):
                raise RunError(
                    f"{self.path} holds a training with another {'; another '.join(differing)}. Name another folder "
                    "with -o, or give the command that began this one"
                )
            self.manifest = earlier
        for name in (METRICS, HELD_OUT):
            drop_torn_line(self.path / name)
        self.steps = read_lines(self.path / METRICS, StepRecord)
        self.evaluations = read_lines(self.path / HELD_OUT, EvaluationRecord)
        if not (self.path / RUN).exists():
            self.note("incomplete", 0)

    def add_step(self, record: StepRecord) -> None:
        """Put a step's line on disk, where it is not there already: a step that is computed again says the same."""
        if self.steps.get(record.step) != record:
            self._append(METRICS, line_of(record))
            self.steps[record.step] = record

    def add_evaluation(self, record: EvaluationRecord) -> None:
        """Put an evaluation's line on disk, where it is not there already."""
        if self.evaluations.get(record.step) != record:
            self._append(HELD_OUT, line_of(record))
            self.evaluations[record.step] = record

    def note(self, status: Literal["incomplete", "complete"], steps: int) -> None:
        """Write run.json: how many steps are done and kept."""
        now = time.monotonic()
        state = {"status": status, "steps": steps, "seconds": round(self.manifest.seconds + now - self._began, 3)}
        self._began, self.manifest = now, self.manifest.model_copy(update=state)
        try:
            replace_file(self.path / RUN, self.manifest.to_json())
        except OSError as exc:
            raise _cannot_write(self.path, exc) from exc

    def _append(self, name: str, line: str) -> None:
        try:
            append(self.path / name, line.encode())
        except OSError as exc:
            raise _cannot_write(self.path, exc) from exc


def _cannot_write(path: Path, exc: OSError) -> RunError:
    return RunError(
        f"cannot write to {path}: {exc.strerror or exc}. What is on disk is kept; make room, and the same command goes "
        "on from there"
    )
