"""The curves of a training as one HTML file: what was given, how far the policy went, what looks wrong."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from pluralrm.downstream.ppo.alarms import Thresholds, alarms
from pluralrm.downstream.ppo.changes import grade_change, reward_change
from pluralrm.downstream.ppo.measures import mean
from pluralrm.downstream.ppo.records import EvaluationRecord, PpoManifest, StepRecord
from pluralrm.draw import Line, line_plot, palette_css
from pluralrm.draw.plots import Dot, Plot
from pluralrm.page import fragment, page, schemes

_POINTS = 60
"""Of a curve at most: each is the mean of as many steps as it takes."""
_CURVES = (
    ("reward", "Reward of the training answers", "as the model gives it"),
    ("kl", "KL from the reference", "nats per answer"),
    ("entropy", "Entropy", "nats per token"),
    ("clip_fraction", "Clipped tokens", "share"),
    ("value_loss", "Value loss", "of the critic"),
    ("length", "Length", "tokens per answer"),
)


class Drawn(NamedTuple):
    """A plot for a desk and for a phone."""

    title: str
    wide: Markup
    narrow: Markup


def report_page(run: PpoManifest, steps: Mapping[int, StepRecord], evaluations: Mapping[int, EvaluationRecord]) -> str:
    """Return the page; equal lines give equal bytes."""
    title = f"{run.policy} trained by {run.reward}"
    body = fragment(
        "pluralrm.downstream.ppo",
        "training.html.jinja",
        title=title,
        run=run,
        alarms=alarms(steps, evaluations),
        thresholds=Thresholds()._asdict(),
        plots=[_drawn(plot) for plot in [*_held_out(evaluations), *_of_steps(list(steps.values()))]],
        changes=_changes(list(evaluations.values())),
        settings=sorted(run.settings.items()),
    )
    return page(title, body, styles=[schemes(palette_css("light"), palette_css("dark")), _CSS])


_CSS = """
.plot svg{max-width:100%;height:auto}
.onnarrow{display:none}
@media (max-width:40rem){.onwide{display:none}.onnarrow{display:block}}
figure{margin:1.5rem 0}
"""


def _drawn(plot: Plot) -> Drawn:
    return Drawn(
        plot.title,
        Markup(plot.inline()),  # noqa: S704 - drawn here
        Markup(plot.inline(narrow=True)),  # noqa: S704 - drawn here
    )


def _of_steps(steps: Sequence[StepRecord]) -> list[Plot]:
    if not steps:
        return []
    size = -(-len(steps) // _POINTS)
    parts = [steps[first : first + size] for first in range(0, len(steps), size)]
    return [
        _plot(name, title, unit, {part[-1].step: mean([getattr(one, name) for one in part]) for part in parts})
        for name, title, unit in _CURVES
    ]


def _held_out(evaluations: Mapping[int, EvaluationRecord]) -> list[Plot]:
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
    line = Line(title, {float(step): Dot(value) for step, value in points.items()})
    return line_plot(name, [line], title=title, words=words, labels=("step", unit))


def _changes(evaluations: Sequence[EvaluationRecord]) -> list[tuple[str, str]]:
    """Return how reward and grade of the validation users changed from the first evaluation to the last."""
    if len(evaluations) < 2:
        return []
    first, last = evaluations[0], evaluations[-1]
    found = {
        "rewards": reward_change(first.rewards, last.rewards, first.users),
        "grades": grade_change(first.grades, last.grades, first.users),
    }
    return [(name, str(one)) for name, one in found.items() if one is not None]
