"""The curves of a training as one HTML file: what was given, how far the policy went, what looks wrong."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from pluralrm.downstream.ppo.alarms import Thresholds, alarms, change
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
    found = []
    for what, title in (("rewards", "Held-out reward"), ("grades", "Held-out grade")):
        known = {
            step: [value for value in getattr(one, what) if value is not None] for step, one in evaluations.items()
        }
        points = {step: mean(values) for step, values in known.items() if values}
        if points:
            found.append(_plot(what, title, "mean over validation items", points))
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
    found = [(name, change(evaluations[0], evaluations[-1], name)) for name in ("rewards", "grades")]
    return [(name, str(one)) for name, one in found if one is not None]
