"""What a training by PPO did to a policy: told as that of any algorithm."""

from pluralrm.downstream.training.outcome import Result, outcome

__all__ = ["Result", "outcome"]
