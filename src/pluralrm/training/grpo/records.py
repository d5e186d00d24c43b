"""What GRPO adds to the lines of a training: what TRL told."""

from pydantic import FiniteFloat

from pluralrm.training.records import StepLine


class StepRecord(StepLine):
    """One line of metrics.jsonl."""

    kl: FiniteFloat | None
    """Nats per token, from the policy as it was; None without a penalty, for nobody computes it then."""
    entropy: FiniteFloat
    """Nats per token."""
    clip_fraction: FiniteFloat
    groups_alike: FiniteFloat
    """Share of the answers whose group had one reward: they teach nothing."""
    loss: FiniteFloat
    norm: FiniteFloat
