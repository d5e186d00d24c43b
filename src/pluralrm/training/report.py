"""The curves of a training as one HTML file: what was given, how far the policy went, what looks wrong."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pluralrm.pages.document import Figure, PageTable, columns, render
from pluralrm.pages.lines import PlotLine, line_plot
from pluralrm.pages.plots import Dot, Plot
from pluralrm.training.measures import FinalGrades, Thresholds, alarms, held_out_changes, mean
from pluralrm.training.records import Algorithm, EvaluationLine, StepLine, TrainingManifest

_POINTS = 60
"""Of a curve at most: each is the mean of as many steps as it takes."""


class StepCurve(NamedTuple):
    """What of each step's line is drawn, and how it is called."""

    name: str
    title: str
    unit: str


_CURVES: Mapping[Algorithm, Sequence[StepCurve]] = {
    "ppo": (
        StepCurve("reward", "Reward of the training answers", "as the model gives it"),
        StepCurve("kl", "KL from the reference", "nats per answer"),
        StepCurve("entropy", "Entropy", "nats per token"),
        StepCurve("clip_fraction", "Clipped tokens", "share"),
        StepCurve("value_loss", "Value loss", "of the critic"),
        StepCurve("length", "Length", "tokens per answer"),
    ),
    "grpo": (
        StepCurve("reward", "Reward of the training answers", "as the model gives it"),
        StepCurve("groups_alike", "Groups alike", "share of answers whose group had one reward"),
        StepCurve("kl", "KL from the policy as it was", "nats per token"),
        StepCurve("entropy", "Entropy", "nats per token"),
        StepCurve("clip_fraction", "Clipped tokens", "share"),
        StepCurve("length", "Length", "tokens per answer"),
    ),
}


def report_page(
    run: TrainingManifest,
    steps: Mapping[int, StepLine],
    evaluations: Mapping[int, EvaluationLine],
    *,
    final: FinalGrades | None = None,
) -> str:
    """Return the page; equal lines give equal bytes."""
    plots = [*_held_out(evaluations), *_of_steps(list(steps.values()), _CURVES[run.kind])]
    settings = [(name, str(value)) for name, value in sorted(run.settings.items())]
    caption = f"What was chosen, and the defaults; rewards are {run.shaping}, seed {run.seed}."
    return render(
        "pluralrm.training",
        "training.html.jinja",
        title=f"{run.policy} trained by {run.reward}",
        run=run,
        alarms=alarms(steps, evaluations, final=final),
        thresholds=Thresholds()._asdict(),
        figures=[Figure(plot, plot.title) for plot in plots],
        changes=_changes(list(evaluations.values())),
        settings=PageTable("Settings", columns("setting", "value"), settings, caption),
    ).html


def _of_steps(steps: Sequence[StepLine], curves: Sequence[StepCurve]) -> list[Plot]:
    if not steps:
        return []
    size = -(-len(steps) // _POINTS)
    parts = [steps[first : first + size] for first in range(0, len(steps), size)]
    found = []
    for name, title, unit in curves:
        points = {part[-1].step: mean(known) for part in parts if (known := _known(part, name))}
        found += [_plot(name, title, unit, points)] if points else []
    return found


def _known(steps: Sequence[StepLine], name: str) -> list[float]:
    """Return a number of each step that has it."""
    return [value for step in steps if (value := getattr(step, name)) is not None]


def _held_out(evaluations: Mapping[int, EvaluationLine]) -> list[Plot]:
    known = {step: [value for value in one.rewards if value is not None] for step, one in evaluations.items()}
    rewards = {step: mean(values) for step, values in known.items() if values}
    found = [_plot("rewards", "Held-out reward", "mean over validation items", rewards)] if rewards else []
    if any(grade is not None for one in evaluations.values() for grade in one.grades):
        grades = {step: mean([grade or 0.0 for grade in one.grades]) for step, one in evaluations.items()}
        found.append(_plot("grades", "Held-out grade", "mean over validation items, a failed one being 0", grades))
    return found


def _plot(name: str, title: str, unit: str, points: Mapping[int, float]) -> Plot:
    last = max(points)
    words = f"{title}, {unit}: {points[min(points)]:.3g} at step {min(points)}, {points[last]:.3g} at step {last}."
    line = PlotLine(title, {float(step): Dot(value) for step, value in points.items()})
    return line_plot(name, [line], title=title, words=words, labels=("step", unit))


def _changes(evaluations: Sequence[EvaluationLine]) -> list[tuple[str, str]]:
    """Return how reward and grade of the validation users changed from the first evaluation to the last."""
    found = held_out_changes(evaluations)._asdict()
    return [(name, str(one)) for name, one in found.items() if one is not None]
