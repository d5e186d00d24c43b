"""What PPO adds to the lines of a training."""

from pydantic import FiniteFloat

from pluralrm.training.records import EvaluationLine, StepLine


class StepRecord(StepLine):
    """One line of metrics.jsonl; `shaped` is the reward that was learned from."""

    shaped: FiniteFloat
    kl: FiniteFloat
    """Nats per answer, from the reference."""
    kl_coefficient: FiniteFloat
    entropy: FiniteFloat
    """Nats per token."""
    clip_fraction: FiniteFloat
    value_clip_fraction: FiniteFloat
    policy_loss: FiniteFloat
    value_loss: FiniteFloat
    actor_norm: FiniteFloat
    critic_norm: FiniteFloat


class EvaluationRecord(EvaluationLine):
    """One line of held-out.jsonl."""

    repetition: FiniteFloat
    kl: FiniteFloat
    entropy: FiniteFloat
