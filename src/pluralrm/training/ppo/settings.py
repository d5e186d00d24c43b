"""Every number of PPO that can be chosen. `read_settings` takes them as texts, from `--set key=value`.

>>> read_settings({"batch": "32", "kl_in": "none"}).batch
32
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal, get_args

from pluralrm.errors import SpecError
from pluralrm.training.settings import RANGES, WORDS, Limits, TrainingSettings, check, read

KlIn = Literal["reward", "loss", "none"]
Estimator = Literal["k1", "k2", "k3"]
"""Of a KL divergence; `kl.py` has the formulas."""


@dataclass(frozen=True, slots=True)
class PpoSettings(TrainingSettings):
    """How a policy is trained. Rates are AdamW's, without weight decay; `rows` are answers per pass."""

    batch: int = 128
    minibatch: int = 16
    epochs: int = 1
    """Passes over the answers of a step."""
    actor_rate: float = 1e-6
    critic_rate: float = 1e-5
    clip: float = 0.2
    value_clip: float = 0.5
    discount: float = 1.0
    decay: float = 0.95
    """Lambda of the generalised advantages."""
    whiten: bool = True
    entropy: float = 0.0
    max_norm: float = 1.0
    """Of the gradient of the actor, and of that of the critic."""
    kl_in: KlIn = "reward"
    kl: Estimator = "k1"
    kl_coefficient: float = 0.05
    kl_target: float = 0.0
    """Nats per answer; above 0 the coefficient adapts."""
    kl_horizon: float = 10_000.0
    lora: int = 0
    """Rank of the adapters; 0 trains all weights."""
    alpha: float = 16.0
    evaluate_every: int = 10


LIMITS = Limits(
    "ppo",
    {
        **RANGES,
        **dict.fromkeys(("minibatch", "epochs", "evaluate_every"), (1, inf)),
        **dict.fromkeys(
            ("actor_rate", "critic_rate", "entropy", "kl_coefficient", "kl_target", "lora", "alpha"), (0, inf)
        ),
        **dict.fromkeys(("value_clip", "max_norm", "kl_horizon"), (1e-9, inf)),
        "clip": (1e-9, 1),
        "discount": (0, 1),
        "decay": (0, 1),
    },
    {**WORDS, "kl_in": get_args(KlIn), "kl": get_args(Estimator), "whiten": ("True", "False")},
)


def read_settings(texts: Mapping[str, str]) -> PpoSettings:
    """Return the settings that some texts change; an unknown key or a value out of range is a SpecError."""
    return checked(read(PpoSettings, texts, LIMITS))


def checked(settings: PpoSettings) -> PpoSettings:
    """Return the settings, or raise the SpecError that says which of them cannot be."""
    check(settings, LIMITS)
    if settings.kl_in == "loss" and settings.kl == "k1":
        raise SpecError("ppo: kl=k1 has a gradient of mean 0 in the loss; wanted kl=k2 or kl=k3, or kl_in=reward")
    if settings.kl_target:
        _check_adaptive(settings)
    return settings


def _check_adaptive(settings: PpoSettings) -> None:
    """Raise where the coefficient has nothing to weigh, cannot move, or would fall below 0 in one step."""
    if settings.kl_in == "none" or settings.kl_coefficient == 0:
        raise SpecError(
            f"ppo: kl_target is {settings.kl_target:g}, but kl_in is {settings.kl_in} and kl_coefficient "
            f"{settings.kl_coefficient:g}: there is no penalty to adapt; wanted one, or kl_target=0"
        )
    if settings.kl_horizon <= settings.drawn / 5:
        raise SpecError(
            f"ppo: kl_horizon is {settings.kl_horizon:g}; wanted more than a fifth of the {settings.drawn} answers of "
            "a step, or the coefficient would fall to 0 and below, and pay for divergence"
        )
