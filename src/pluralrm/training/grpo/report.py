"""The curves of a training by GRPO as one HTML file."""

from collections.abc import Mapping

from pluralrm.training import report
from pluralrm.training.alarms import FinalGrades
from pluralrm.training.records import EvaluationLine, StepLine, TrainingManifest
from pluralrm.training.report import Curve

_CURVES = (
    Curve("reward", "Reward of the training answers", "as the model gives it"),
    Curve("groups_alike", "Groups alike", "share of answers whose group had one reward"),
    Curve("kl", "KL from the policy as it was", "nats per token"),
    Curve("entropy", "Entropy", "nats per token"),
    Curve("clip_fraction", "Clipped tokens", "share"),
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
