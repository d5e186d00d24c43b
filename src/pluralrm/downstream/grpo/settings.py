"""Every number of GRPO that can be chosen. `read_settings` takes them as texts, from `--set key=value`.

>>> read_settings({"batch": "4", "answers": "8", "rows": "16"}).rows
16
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import inf, isfinite
from typing import Literal, get_args

from pluralrm.core import digest
from pluralrm.downstream.draw import Draw
from pluralrm.errors import SpecError, did_you_mean

OnFailure = Literal["raise", "mask"]
Loss = Literal["grpo", "dapo", "dr_grpo", "bnpo"]
"""TRL's names of how a loss per token becomes one number."""
Scale = Literal["group", "batch", "none"]
"""By which standard deviation an advantage is divided."""
Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True, slots=True)
class GrpoSettings:
    """How a policy is trained. The rate is AdamW's, constant, without weight decay; `rows` are answers per pass."""

    batch: int = 16
    """Prompts per step."""
    answers: int = 8
    """Answers to each: a group, whose mean reward is the baseline."""
    updates: int = 1
    """Optimizer steps on the answers of a step, each on its own part of them."""
    rows: int = 16
    max_tokens: int = 512
    temperature: float = 1.0
    rate: float = 1e-6
    clip: float = 0.2
    max_norm: float = 1.0
    """Of the gradient."""
    kl_coefficient: float = 0.04
    """TRL's beta: weight of the KL to the policy as it was; 0 for none."""
    loss: Loss = "dapo"
    scale: Scale = "group"
    precision: Precision = "float32"
    on_failure: OnFailure = "raise"
    most_masked: float = 0.5
    validation: float = 0.1
    """Share of the users on whom the policy is watched."""
    test: float = 0.2
    checkpoint_every: int = 10

    @property
    def drawn(self) -> int:
        """Answers per step."""
        return self.batch * self.answers

    @property
    def passes(self) -> int:
        """Passes over `rows` answers per optimizer step."""
        return self.drawn // (self.rows * self.updates)

    def draw_by(self, seed: str) -> Draw:
        """Return how answers are drawn, each by a seed derived from this one: from the whole distribution."""
        number = int(digest(seed)[:8], 16)
        return Draw(n=1, temperature=self.temperature, top_p=1.0, max_tokens=self.max_tokens, seed=number)

    def to_json(self) -> dict[str, str]:
        """Return every setting as text."""
        return {name: str(value) for name, value in asdict(self).items()}


_RANGES: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(("batch", "updates", "rows", "max_tokens", "checkpoint_every"), (1, inf)),
    "answers": (2, inf),
    **dict.fromkeys(("rate", "kl_coefficient"), (0, inf)),
    "max_norm": (1e-9, inf),
    "temperature": (1e-2, 2),
    "clip": (1e-9, 1),
    "most_masked": (0, 1),
    "validation": (0, 0.5),
    "test": (0, 0.5),
}
_WORDS: Mapping[str, tuple[str, ...]] = {
    "loss": get_args(Loss),
    "scale": get_args(Scale),
    "precision": get_args(Precision),
    "on_failure": get_args(OnFailure),
}


def read_settings(texts: Mapping[str, str]) -> GrpoSettings:
    """Return the settings that some texts change; an unknown key or a value out of range is a SpecError."""
    kinds = {field.name: type(field.default) for field in fields(GrpoSettings)}
    for key in texts:
        if key not in kinds:
            raise SpecError(f"grpo has no setting {key!r}.{did_you_mean(key, kinds)}")
    values = {key: _value(key, text, kinds[key]) for key, text in texts.items()}
    return checked(GrpoSettings(**values))  # type: ignore[arg-type] # each value has its field's type


def checked(settings: GrpoSettings) -> GrpoSettings:
    """Return the settings, or raise the SpecError that says which of them cannot be."""
    for key, (low, high) in _RANGES.items():
        value = getattr(settings, key)
        if not (isfinite(value) and low <= value <= high):
            wanted = f"at least {low:g}" if high == inf else f"a number from {low:g} to {high:g}"
            raise SpecError(f"grpo: {key} is {value}; wanted {wanted}")
    for key, words in _WORDS.items():
        if str(getattr(settings, key)) not in words:
            raise SpecError(f"grpo: {key} is {getattr(settings, key)!r}; wanted {', '.join(words)}")
    if settings.drawn % (settings.rows * settings.updates):
        raise SpecError(
            f"grpo: batch * answers is {settings.drawn}, rows * updates is {settings.rows * settings.updates}; wanted "
            "a multiple of it: passes over the answers of a step are of one size"
        )
    return settings


def _value(key: str, text: str, kind: type) -> object:
    try:
        return kind(text)
    except ValueError as exc:
        raise SpecError(f"grpo: {key} is {text!r}; wanted {'a whole number' if kind is int else 'a number'}") from exc
