"""Every number of GRPO that can be chosen. `read_settings` takes them as texts, from `--set key=value`.

>>> read_settings({"batch": "4", "answers": "8", "rows": "16"}).rows
16
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal, get_args

from pluralrm.errors import SpecError
from pluralrm.training.settings import RANGES, WORDS, Limits, TrainingSettings, check, read

Loss = Literal["grpo", "dapo", "dr_grpo", "bnpo"]
"""TRL's names of how a loss per token becomes one number."""
Scale = Literal["group", "batch", "none"]
"""By which standard deviation an advantage is divided."""


@dataclass(frozen=True, slots=True)
class GrpoSettings(TrainingSettings):
    """How a policy is trained. The rate is AdamW's, constant, without weight decay; `rows` are answers per pass."""

    answers: int = 8
    """To each prompt: a group, whose mean reward is the baseline."""
    updates: int = 1
    """Optimizer steps on the answers of a step, each on its own part of them."""
    rate: float = 1e-6
    clip: float = 0.2
    max_norm: float = 1.0
    """Of the gradient."""
    kl_coefficient: float = 0.04
    """TRL's beta: weight of the KL to the policy as it was; 0 for none."""
    loss: Loss = "dapo"
    scale: Scale = "group"

    @property
    def passes(self) -> int:
        """Passes over `rows` answers per optimizer step."""
        return self.drawn // (self.rows * self.updates)


LIMITS = Limits(
    "grpo",
    {
        **RANGES,
        "updates": (1, inf),
        "answers": (2, inf),
        **dict.fromkeys(("rate", "kl_coefficient"), (0, inf)),
        "max_norm": (1e-9, inf),
        "clip": (1e-9, 1),
    },
    {**WORDS, "loss": get_args(Loss), "scale": get_args(Scale)},
)


def read_settings(texts: Mapping[str, str]) -> GrpoSettings:
    """Return the settings that some texts change; an unknown key or a value out of range is a SpecError."""
    return checked(read(GrpoSettings, texts, LIMITS))


def checked(settings: GrpoSettings) -> GrpoSettings:
    """Return the settings, or raise the SpecError that says which of them cannot be."""
    check(settings, LIMITS)
    if settings.drawn % (settings.rows * settings.updates):
        raise SpecError(
            f"grpo: batch * answers is {settings.drawn}, rows * updates is {settings.rows * settings.updates}; wanted "
            "a multiple of it: passes over the answers of a step are of one size"
        )
    return settings
