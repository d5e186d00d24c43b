"""What a tracker is given: final estimates with their intervals, a table, figures, settings; curves of a training.

A reward model is a run on the board, with BENCHMARK/CONDITION/METRIC and its _low, _high, _n and _failed; a training is
a run with a row after each step; what compares models is a run of its own. Numbers, names, hashes and settings alone
are taken from the folders of the work: no text and no id of a user.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pluralrm.core import Estimate, Run
from pluralrm.digests import digest
from pluralrm.display import Record
from pluralrm.exchange.trackers import Cell, TrackedRun, TrackerLog
from pluralrm.text import flat

if TYPE_CHECKING:
    from pluralrm.report.sections import Section
    from pluralrm.training.measures import TrainingProgress
    from pluralrm.training.outcome import GradedTraining, TrainingOutcome
    from pluralrm.training.records import EvaluationLine, StepLine, TrainingManifest

Numbers = dict[str, float]
Config = dict[str, str | float]


def key(*parts: str) -> str:
    """Return the name of a number, in letters that every tracker takes.

    >>> key("pocket-prb", "swapped:10,by=prompt", "accuracy")
    'pocket-prb/swapped-10-by-prompt/accuracy'
    """
    return "/".join(re.sub(r"[^A-Za-z0-9._-]+", "-", part).strip("-.")[:80] or "x" for part in parts)


def numbers(name: str, estimate: Estimate | None) -> Numbers:
    """Return an Estimate as numbers; an interval that does not exist has no ends."""
    return {part: float(str(value)) for part, value in flat(name, estimate).items() if value is not None}


# ---------------------------------------------------------------- reward models


def log_runs(log: TrackerLog, runs: Sequence[Run]) -> None:
    """Log each model's complete runs, and their comparison: the numbers of `compare` on the same runs."""
    paths = [run.path for run in runs if run.complete]
    if not (log.live and paths):
        return
    from pluralrm.report.figures import figures
    from pluralrm.report.sections import read_sources, sections

    parts = _titled(sections(read_sources(paths)))
    hashes: Config = {key("hash", title): part.first.benchmark_hash for title, part in parts.items()}
    names = {spec: name for part in parts.values() for spec, name in part.names.items()}
    for spec, name in names.items():
        values, config = _of_model(parts, spec)
        log.begin(TrackedRun(digest([spec, values, hashes]), name, hashes | config))
        log.log(values)
    rows = [row for title, part in parts.items() for row in _rows(title, part)]
    log.begin(TrackedRun(digest([hashes, rows]), "comparison", hashes))
    log.log({key(title, "models"): len(part.names) for title, part in parts.items()})
    log.table("comparison", _COLUMNS, rows)
    for title, part in parts.items():
        for figure in (figure for group in figures(part).values() for figure in group):
            log.figure(f"figures/{key(title)}-{key(figure.plot.name)}", figure.plot.svg)
    log.end()


def _titled(parts: "Sequence[Section]") -> "dict[str, Section]":
    """Return the parts by benchmark; by a hash of the items too where one is there with several sets of them."""
    often = Counter(part.first.benchmark for part in parts)
    marks = [f"-{digest([part.first.benchmark_hash, [row.item for row in part.first.rows]])[:6]}" for part in parts]
    return {
        part.first.benchmark + mark * (often[part.first.benchmark] > 1): part
        for part, mark in zip(parts, marks, strict=True)
    }


def _of_model(parts: "Mapping[str, Section]", spec: str) -> tuple[Numbers, Config]:
    """Return what a model earned under each condition, and how it was measured."""
    values, config = Numbers(), Config(model=spec)
    for title, part in parts.items():
        name = part.names.get(spec)
        for summary in (entry.summary for entry in part.entries if entry.summary.model == name):
            for metric, estimate in summary.metrics.items():
                values |= numbers(key(title, summary.condition, metric), estimate)
        for row in (row for row in part.overview.rows if row.model == spec):
            values |= numbers(key(title, row.condition, "lift"), row.lift)
            values |= numbers(key(title, row.condition, "gain"), row.gain)
            config |= {key("verdict", title, row.condition): row.verdict} if row.verdict else {}
        for manifest in (source.manifest for source in part.sources if source.run.model == name):
            facts = {"template": manifest.identity.get("template", ""), "git": manifest.git}
            facts |= {"pluralrm": manifest.versions.get("pluralrm", ""), "started": manifest.started}
            config |= {fact: text for fact, text in facts.items() if text}
            config |= {key("seed", title): manifest.benchmark.seed, key("items", title): manifest.selection.items}
    return values, config


_COLUMNS = (
    *("benchmark", "model", "condition", "metric", "value", "low", "high", "n", "failed"),
    *("rank_low", "rank_high", "lift", "gain", "verdict"),
)


def _rows(title: str, part: "Section") -> Iterator[list[Cell]]:
    """Yield a row per model and condition, in the order of the leaderboard."""
    answers = {(part.names[row.model], row.condition): row for row in part.overview.rows}
    for entry in part.entries:
        summary, rank = entry.summary, entry.rank
        value, row = summary.metrics[summary.headline], answers.get((summary.model, summary.condition))
        effects = [effect and effect.value for effect in (row.lift, row.gain)] if row else [None, None]
        yield [
            *(title, summary.model, summary.condition, summary.headline),
            *(value.value, value.low, value.high, value.n, value.failed),
            *((rank.low, rank.high) if rank else (None, None)),
            *(*effects, row.verdict if row else ""),
        ]


# ---------------------------------------------------------------- trainings


class TrainingLog:
    """The curves of trainings, one after another, as they come; row k is what is known after k steps.

    A training is known by its settings and the moment in which it began, so that it is the same run when it is resumed,
    and when its folder is moved. What a kill kept from the store is in the journal.
    """

    def __init__(self, log: TrackerLog) -> None:
        self._log, self._folder = log, Path()

    def tell(self, folder: Path, progress: "TrainingProgress[StepLine, EvaluationLine]") -> None:
        """Log a step; before the first one of this process, what the journal has of earlier ones."""
        if not self._log.live:
            return
        if folder != self._folder:
            self._begin(folder, progress.steps)
        if progress.evaluation is not None:
            self._log.log(_held_out(progress.evaluation), progress.evaluation.step)
        if progress.step is not None:
            self._log.log(_step(progress.step), progress.step.step + 1)

    def end(self, folder: Path, steps: int, training: "GradedTraining | None" = None) -> None:
        """Log what is not logged of a training that is over, its last evaluation and its grades."""
        if not self._log.live:
            return
        self._begin(folder, steps)
        if training is not None:
            results = {"test": training.result} if training.result else {}
            results |= {key("on", training.on[0].benchmark.card.name): training.on[1]} if training.on else {}
            for whose, result in results.items():
                self._log.log(_outcome(whose, result), steps)
            self._log.log({"alarms": len(training.trained.alarms)}, steps)
        self._log.end()
        self._folder = Path()

    def _begin(self, folder: Path, steps: int) -> None:
        from pluralrm.training.records import (
            HELD_OUT,
            METRICS,
            EvaluationLine,
            GrpoStep,
            PpoEvaluation,
            PpoStep,
            read_lines,
            read_run,
        )

        run = read_run(folder)
        if folder != self._folder:
            self._folder = folder
            facts = run.model_dump(mode="json", include={"identity", "parts", "started"})
            self._log.begin(TrackedRun(digest([facts, _config(run)]), folder.name, _config(run)))
        lines = read_lines(folder / METRICS, PpoStep if run.kind == "ppo" else GrpoStep)
        evaluations = read_lines(folder / HELD_OUT, PpoEvaluation if run.kind == "ppo" else EvaluationLine)
        for row in range(steps + 1):
            if line := lines.get(row - 1):
                self._log.log(_step(line), row)
            if evaluation := evaluations.get(row):
                self._log.log(_held_out(evaluation), row)


def _config(run: "TrainingManifest") -> Config:
    names = ("kind", "policy", "reward", "condition", "reward_condition", "shaping", "grader", "watch", "seed", "git")
    facts: Config = {name: getattr(run, name) for name in names}
    facts |= {"benchmark": run.benchmark.card.name, "hash": run.benchmark.content_hash}
    facts |= {f"users/{part}": len(getattr(run.parts, part)) for part in ("train", "validation", "test")}
    facts |= {f"set/{name}": text for name, text in run.settings.items()}
    facts |= {"pluralrm": run.versions.get("pluralrm", ""), "started": run.started}
    return {name: fact for name, fact in facts.items() if fact != ""}


def _scalars(line: "StepLine | EvaluationLine", prefix: str) -> Numbers:
    """Return the numbers of a line: not its step, and nothing by user or by item."""
    fields = {name: getattr(line, name) for name in type(line).model_fields if name != "step"}
    values = {f"{prefix}/{name}": value for name, value in fields.items() if isinstance(value, int | float)}
    return {**values, f"{prefix}/failed": sum(line.failures.values())}


def _step(line: "StepLine") -> Numbers:
    return _scalars(line, "train")


def _held_out(line: "EvaluationLine") -> Numbers:
    """Return the means over the validation users' items; a grade that failed is 0, as in the report."""
    rewards = [reward for reward in line.rewards if reward is not None]
    values = _scalars(line, "held_out")
    values |= {"held_out/reward": sum(rewards) / len(rewards)} if rewards else {}
    if any(grade is not None for grade in line.grades):
        values["held_out/grade"] = sum(grade or 0.0 for grade in line.grades) / len(line.grades)
    return values


def _outcome(whose: str, result: "TrainingOutcome") -> Numbers:
    return {
        name: value
        for when in ("before", "after", "change")
        for name, value in numbers(f"{whose}/{when}", getattr(result, when)).items()
    }


# ---------------------------------------------------------------- studies


def log_study(log: TrackerLog, title: str, records: Sequence[Record], runs: Path) -> None:
    """Log the reward models whose runs are in a study's folder, and its table of who earned what as a run of its own.

    The records are those of a StudyResult: a row per model and column.
    """
    if not (log.live and records):
        return
    from pluralrm.runs import load_runs

    log_runs(log, load_runs(runs) if runs.exists() else [])
    columns = list(dict.fromkeys(column for record in records for column in record))
    rows = [[_cell(record.get(column)) for column in columns] for record in records]
    log.begin(TrackedRun(digest([title, rows]), title or "study", {"models": len({row["model"] for row in records})}))
    for record in records:
        name = key(*(str(record[part]) for part in ("side", "column", "model")))
        cells = {f"{name}{column.removeprefix('value')}": value for column, value in record.items()}
        log.log({cell: value for cell, value in cells.items() if isinstance(value, int | float)})
    log.table("study", columns, rows)
    log.end()


def _cell(value: object) -> Cell:
    return value if isinstance(value, int | float | str) or value is None else str(value)
