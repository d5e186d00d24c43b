"""The numbers that every training has, and how those of one algorithm are read from `--set key=value` and checked."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import inf, isfinite
from typing import Literal, NamedTuple, TypeVar, get_args

from pluralrm.core import digest
from pluralrm.errors import SpecError, did_you_mean
from pluralrm.policies.draw import Draw

OnFailure = Literal["raise", "mask"]
Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """What an algorithm's settings begin with; each has defaults of its own for batch and answers."""

    batch: int = 16
    """Prompts per step."""
    answers: int = 1
    """Answers to each."""
    rows: int = 16
    """Answers per pass."""
    max_tokens: int = 512
    temperature: float = 1.0
    precision: Precision = "float32"
    on_failure: OnFailure = "raise"
    most_masked: float = 0.5
    """Share of a step's answers without a reward beyond which training stops."""
    validation: float = 0.1
    """Share of the users on whom training is watched."""
    test: float = 0.2
    checkpoint_every: int = 10

    @property
    def drawn(self) -> int:
        """Answers per step."""
        return self.batch * self.answers

    def draw_by(self, seed: str) -> Draw:
        """Return how answers are drawn, each by a seed derived from this one: from the whole distribution."""
        number = int(digest(seed)[:8], 16)
        return Draw(n=1, temperature=self.temperature, top_p=1.0, max_tokens=self.max_tokens, seed=number)

    def to_json(self) -> dict[str, str]:
        """Return every setting as text."""
        return {name: str(value) for name, value in asdict(self).items()}


class Limits(NamedTuple):
    """Which values the settings of an algorithm can have; `name` is how messages call it."""

    name: str
    ranges: Mapping[str, tuple[float, float]]
    words: Mapping[str, tuple[str, ...]]


RANGES: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(("batch", "answers", "rows", "max_tokens", "checkpoint_every"), (1, inf)),
    "temperature": (1e-2, 2),
    "most_masked": (0, 1),
    "validation": (0, 0.5),
    "test": (0, 0.5),
}
"""Of the common settings."""
WORDS: Mapping[str, tuple[str, ...]] = {"precision": get_args(Precision), "on_failure": get_args(OnFailure)}

Chosen = TypeVar("Chosen", bound=TrainingSettings)


def read(kind: type[Chosen], texts: Mapping[str, str], limits: Limits) -> Chosen:
    """Return the settings that some texts change; an unknown key, or a text of another type, is a SpecError."""
    kinds = {field.name: type(field.default) for field in fields(kind)}
    for key in texts:
        if key not in kinds:
            raise SpecError(f"{limits.name} has no setting {key!r}.{did_you_mean(key, kinds)}")
    return kind(**{key: _value(key, text, kinds[key], limits) for key, text in texts.items()})  # type: ignore[arg-type]


def check(settings: TrainingSettings, limits: Limits) -> None:
    """Raise the SpecError that says which of the settings cannot be."""
    for key, (low, high) in limits.ranges.items():
        value = getattr(settings, key)
        if not (isfinite(value) and low <= value <= high):
            wanted = f"at least {low:g}" if high == inf else f"a number from {low:g} to {high:g}"
            raise SpecError(f"{limits.name}: {key} is {value}; wanted {wanted}")
    for key, words in limits.words.items():
        if str(getattr(settings, key)) not in words:
            raise SpecError(f"{limits.name}: {key} is {getattr(settings, key)!r}; wanted {', '.join(words)}")


def _value(key: str, text: str, kind: type, limits: Limits) -> object:
    if kind is str:
        return text
    if kind is bool:
        if text not in limits.words[key]:
            raise SpecError(f"{limits.name}: {key} is {text!r}; wanted {' or '.join(limits.words[key])}")
        return text == "True"
    try:
        return kind(text)
    except ValueError as exc:
        wanted = "a whole number" if kind is int else "a number"
        raise SpecError(f"{limits.name}: {key} is {text!r}; wanted {wanted}") from exc
