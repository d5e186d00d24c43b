"""Every number of PPO that can be chosen. `read_settings` takes them as texts, from `--set key=value`.

>>> read_settings({"batch": "32", "kl_in": "none"}).batch
32
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import inf, isfinite
from typing import Literal, get_args

from pluralrm.core import digest
from pluralrm.downstream.draw import Draw
from pluralrm.errors import SpecError, did_you_mean

KlIn = Literal["reward", "loss", "none"]
OnFailure = Literal["raise", "mask"]
Estimator = Literal["k1", "k2", "k3"]
"""Of a KL divergence; `kl.py` has the formulas."""
Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True, slots=True)
class PpoSettings:
    """How a policy is trained. Rates are AdamW's, without weight decay; `rows` are answers per pass."""

    batch: int = 128
    """Prompts per step."""
    answers: int = 1
    """Answers to each."""
    minibatch: int = 16
    epochs: int = 1
    """Passes over the answers of a step."""
    rows: int = 16
    max_tokens: int = 512
    temperature: float = 1.0
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
    precision: Precision = "float32"
    lora: int = 0
    """Rank of the adapters; 0 trains all weights."""
    alpha: float = 16.0
    on_failure: OnFailure = "raise"
    most_masked: float = 0.5
    validation: float = 0.1
    """Share of the users on whom training is watched."""
    test: float = 0.2
    evaluate_every: int = 10
    checkpoint_every: int = 10

    def draw_by(self, seed: str) -> Draw:
        """Return how answers are drawn, each by a seed derived from this one: from the whole distribution."""
        number = int(digest(seed)[:8], 16)
        return Draw(n=1, temperature=self.temperature, top_p=1.0, max_tokens=self.max_tokens, seed=number)

    def to_json(self) -> dict[str, str]:
        """Return every setting as text."""
        return {name: str(value) for name, value in asdict(self).items()}


_RANGES: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(("batch", "answers", "minibatch", "epochs", "rows", "max_tokens"), (1, inf)),
    **dict.fromkeys(("evaluate_every", "checkpoint_every"), (1, inf)),
    **dict.fromkeys(("actor_rate", "critic_rate", "entropy", "kl_coefficient", "kl_target", "lora", "alpha"), (0, inf)),
    **dict.fromkeys(("value_clip", "max_norm", "kl_horizon"), (1e-9, inf)),
    "temperature": (1e-2, 2),
    "clip": (1e-9, 1),
    "discount": (0, 1),
    "decay": (0, 1),
    "most_masked": (0, 1),
    "validation": (0, 0.5),
    "test": (0, 0.5),
}
_WORDS: Mapping[str, tuple[str, ...]] = {
    "kl_in": get_args(KlIn),
    "kl": get_args(Estimator),
    "precision": get_args(Precision),
    "on_failure": get_args(OnFailure),
    "whiten": ("True", "False"),
}


def read_settings(texts: Mapping[str, str]) -> PpoSettings:
    """Return the settings that some texts change; an unknown key or a value out of range is a SpecError."""
    kinds = {field.name: type(field.default) for field in fields(PpoSettings)}
    for key in texts:
        if key not in kinds:
            raise SpecError(f"ppo has no setting {key!r}.{did_you_mean(key, kinds)}")
    values = {key: _value(key, text, kinds[key]) for key, text in texts.items()}
    return checked(PpoSettings(**values))  # type: ignore[arg-type] # each value has its field's type


def checked(settings: PpoSettings) -> PpoSettings:
    """Return the settings, or raise the SpecError that says which of them cannot be."""
    for key, (low, high) in _RANGES.items():
        value = getattr(settings, key)
        if not (isfinite(value) and low <= value <= high):
            wanted = f"at least {low:g}" if high == inf else f"a number from {low:g} to {high:g}"
            raise SpecError(f"ppo: {key} is {value}; wanted {wanted}")
    for key, words in _WORDS.items():
        if str(getattr(settings, key)) not in words:
            raise SpecError(f"ppo: {key} is {getattr(settings, key)!r}; wanted {', '.join(words)}")
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
    drawn = settings.batch * settings.answers
    if settings.kl_horizon <= drawn / 5:
        raise SpecError(
            f"ppo: kl_horizon is {settings.kl_horizon:g}; wanted more than a fifth of the {drawn} answers of a step, "
            "or the coefficient would fall to 0 and below, and pay for divergence"
        )


def _value(key: str, text: str, kind: type) -> object:
    if kind is str:
        return text
    if kind is bool:
        if text not in _WORDS[key]:
            raise SpecError(f"ppo: {key} is {text!r}; wanted {' or '.join(_WORDS[key])}")
        return text == "True"
    try:
        return kind(text)
    except ValueError as exc:
        raise SpecError(f"ppo: {key} is {text!r}; wanted {'a whole number' if kind is int else 'a number'}") from exc
