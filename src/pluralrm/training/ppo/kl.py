"""KL divergence from a frozen reference, estimated from sampled tokens, and the coefficient of its penalty.

    d = log p - log p_reference, at a token that was drawn from p
    k1 = d, unbiased; k2 = d^2 / 2, its gradient is that of the KL; k3 = exp(-d) - 1 + d, unbiased and never negative

Schulman 2020, "Approximating KL Divergence"; the adaptive coefficient is equation 4 of Ziegler et al. 2019.
"""

import torch

from pluralrm.training.ppo.settings import Estimator

_FARTHEST = 20.0
"""Of -d inside the exponential of k3: beyond it one token would be the whole mean."""


def estimate(log_probs: torch.Tensor, reference: torch.Tensor, estimator: Estimator) -> torch.Tensor:
    """Return the estimate at each token, in nats."""
    d = log_probs - reference
    if estimator == "k1":
        return d
    if estimator == "k2":
        return d.square() / 2
    back = (-d).clamp(-_FARTHEST, _FARTHEST)
    return back.exp() - 1 - back


def next_coefficient(coefficient: float, kl: float, *, target: float, horizon: float, answers: int) -> float:
    """Return the coefficient after a step: larger where the KL per answer was beyond the target, by at most a fifth."""
    error = min(0.2, max(-0.2, kl / target - 1))
    return coefficient * (1 + error * answers / horizon)
