"""The critic: a small head that reads the policy's states and says what reward is still to come."""

import torch

from pluralrm.models.personal.tuning import seeded


class Critic(torch.nn.Module):  # type: ignore[misc] # torch is not followed
    """Two layers over the trunk's last states. It begins as one number, 0 until `begin_at` says which."""

    def __init__(self, width: int, *, seed: int) -> None:
        super().__init__()
        with seeded(seed):
            self.inner = torch.nn.Linear(width, width)
        self.outer = torch.nn.Linear(width, 1)
        torch.nn.init.zeros_(self.outer.weight)
        torch.nn.init.zeros_(self.outer.bias)

    def begin_at(self, value: float) -> None:
        """Say the same everywhere, until it is trained: the mean of what is to come."""
        with torch.no_grad():
            self.outer.bias.fill_(value)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return the value in each state: states (..., width) without their gradient, values (...)."""
        # The trunk belongs to the actor: a critic that moved it would move the policy under a constant reward.
        hidden = torch.nn.functional.gelu(self.inner(states.detach().float()))
        return self.outer(hidden)[..., 0].float()
