"""The curves of a training by PPO as one HTML file."""

from collections.abc import Mapping

from pluralrm.training import report
from pluralrm.training.alarms import FinalGrades
from pluralrm.training.records import EvaluationLine, StepLine, TrainingManifest
from pluralrm.training.report import Curve

_CURVES = (
    Curve("reward", "Reward of the training answers", "as the model gives it"),
    Curve("kl", "KL from the reference", "nats per answer"),
    Curve("entropy", "Entropy", "nats per token"),
    Curve("clip_fraction", "Clipped tokens", "share"),
    Curve("value_loss", "Value loss", "of the critic"),
    Curve("length", "Length", "tokens per answer"),
)


def report_page(
    run: TrainingManifest,
    steps: Mapping[int, StepLine],
    evaluations: Mapping[int, EvaluationLine],
    *,
    final: FinalGrades | None = None,
) -> str:
    """Return the page; equal lines give equal bytes."""
    return report.report_page(run, steps, evaluations, _CURVES, final=final)
