"""The numbers that every training has, and how those of one algorithm are read from `--set key=value` and checked."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import inf, isfinite
from typing import Literal, NamedTuple, TypeVar, get_args

from pluralrm.digests import digest
from pluralrm.errors import SpecError, did_you_mean
from pluralrm.policies.policy import Draw

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


class SettingLimits(NamedTuple):
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


def read(kind: type[Chosen], texts: Mapping[str, str], limits: SettingLimits) -> Chosen:
    """Return the settings that some texts change; an unknown key, or a text of another type, is a SpecError."""
    kinds = {field.name: type(field.default) for field in fields(kind)}
    for key in texts:
        if key not in kinds:
            raise SpecError(f"{limits.name} has no setting {key!r}.{did_you_mean(key, kinds)}")
    return kind(**{key: _value(key, text, kinds[key], limits) for key, text in texts.items()})  # type: ignore[arg-type]


def check(settings: TrainingSettings, limits: SettingLimits) -> None:
    """Raise the SpecError that says which of the settings cannot be."""
    for key, (low, high) in limits.ranges.items():
        value = getattr(settings, key)
        if not (isfinite(value) and low <= value <= high):
            usage = f"at least {low:g}" if high == inf else f"a number from {low:g} to {high:g}"
            raise SpecError(f"{limits.name}: {key} is {value}; wanted {usage}")
    for key, words in limits.words.items():
        if str(getattr(settings, key)) not in words:
            raise SpecError(f"{limits.name}: {key} is {getattr(settings, key)!r}; wanted {', '.join(words)}")


def _value(key: str, text: str, kind: type, limits: SettingLimits) -> object:
    if kind is str:
        return text
    if kind is bool:
        if text not in limits.words[key]:
            raise SpecError(f"{limits.name}: {key} is {text!r}; wanted {' or '.join(limits.words[key])}")
        return text == "True"
    try:
        return kind(text)
    except ValueError as exc:
        usage = "a whole number" if kind is int else "a number"
        raise SpecError(f"{limits.name}: {key} is {text!r}; wanted {usage}") from exc


KlIn = Literal["reward", "loss", "none"]
KlEstimator = Literal["k1", "k2", "k3"]
"""Of a KL divergence; `ppo.py` has the formulas."""


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
    kl: KlEstimator = "k1"
    kl_coefficient: float = 0.05
    kl_target: float = 0.0
    """Nats per answer; above 0 the coefficient adapts."""
    kl_horizon: float = 10_000.0
    lora: int = 0
    """Rank of the adapters; 0 trains all weights."""
    alpha: float = 16.0
    evaluate_every: int = 10


PPO_LIMITS = SettingLimits(
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
    {**WORDS, "kl_in": get_args(KlIn), "kl": get_args(KlEstimator), "whiten": ("True", "False")},
)


def read_ppo_settings(texts: Mapping[str, str]) -> PpoSettings:
    """Return the settings that some texts change; an unknown key or a value out of range is a SpecError."""
    return check_ppo_settings(read(PpoSettings, texts, PPO_LIMITS))


def check_ppo_settings(settings: PpoSettings) -> PpoSettings:
    """Return the settings, or raise the SpecError that says which of them cannot be."""
    check(settings, PPO_LIMITS)
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


GrpoLoss = Literal["grpo", "dapo", "dr_grpo", "bnpo"]
"""TRL's names of how a loss per token becomes one number."""
GrpoScale = Literal["group", "batch", "none"]
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
    loss: GrpoLoss = "dapo"
    scale: GrpoScale = "group"

    @property
    def passes(self) -> int:
        """Passes over `rows` answers per optimizer step."""
        return self.drawn // (self.rows * self.updates)


GRPO_LIMITS = SettingLimits(
    "grpo",
    {
        **RANGES,
        "updates": (1, inf),
        "answers": (2, inf),
        **dict.fromkeys(("rate", "kl_coefficient"), (0, inf)),
        "max_norm": (1e-9, inf),
        "clip": (1e-9, 1),
    },
    {**WORDS, "loss": get_args(GrpoLoss), "scale": get_args(GrpoScale)},
)


def read_grpo_settings(texts: Mapping[str, str]) -> GrpoSettings:
    """Return the settings that some texts change; an unknown key or a value out of range is a SpecError."""
    return check_grpo_settings(read(GrpoSettings, texts, GRPO_LIMITS))


def check_grpo_settings(settings: GrpoSettings) -> GrpoSettings:
    """Return the settings, or raise the SpecError that says which of them cannot be."""
    check(settings, GRPO_LIMITS)
    if settings.drawn % (settings.rows * settings.updates):
        raise SpecError(
            f"grpo: batch * answers is {settings.drawn}, rows * updates is {settings.rows * settings.updates}; wanted "
            "a multiple of it: passes over the answers of a step are of one size"
        )
    return settings


def read_settings(algorithm: str, chosen: Mapping[str, object]) -> PpoSettings | GrpoSettings:
    """Return the settings of an algorithm that some values change; SpecError where there is no such algorithm."""
    if algorithm not in {"ppo", "grpo"}:
        raise SpecError(f"algorithm is {algorithm!r}; wanted 'ppo' or 'grpo'")
    texts = {name: str(value) for name, value in chosen.items()}
    return read_ppo_settings(texts) if algorithm == "ppo" else read_grpo_settings(texts)
