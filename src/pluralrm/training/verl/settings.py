"""What verl is told: Hydra overrides of its `ppo_trainer`, ours or those of the published protocol."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import inf

from pluralrm.errors import SpecError, did_you_mean

Value = str | int | float | bool | tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerlSettings:
    """The numbers of a training. The defaults are those of the published protocol, but for the KL penalty."""

    batch: int = 128
    minibatch: int = 16
    actor_rate: float = 5e-7
    critic_rate: float = 5e-6
    epochs: int = 1
    prompt_tokens: int = 8192
    answer_tokens: int = 512
    temperature: float = 1.0
    kl_coefficient: float = 0.001
    """0 trains without a KL penalty, as published."""
    gpus: int = 1
    """Of one machine, for the reward server listens on its loopback alone."""
    per_gpu: int = 4
    """Answers per GPU in one pass."""
    rollout: str = "vllm"
    seed: int = 0
    """Of the order of the prompts, of their answers and of the minibatches."""
    parts_seed: int = 0
    """Of who is trained on, watched and kept for the end: trainings that are compared share it."""
    save_every: int = 50
    test_every: int = 50

    def overrides(self, *, policy: str, name: str, train: str, validation: str, out: str) -> dict[str, Value]:
        """Return every key that differs from verl's own, by its path."""
        sizes = {"ppo_micro_batch_size_per_gpu": self.per_gpu, "ppo_mini_batch_size": self.minibatch}
        per_gpu = {"log_prob_micro_batch_size_per_gpu": self.per_gpu}
        return {
            "data.train_files": train,
            "data.val_files": validation,
            "data.train_batch_size": self.batch,
            "data.max_prompt_length": self.prompt_tokens,
            "data.max_response_length": self.answer_tokens,
            **_loaded("data.custom_cls", "dataset", "WholePrompts"),
            "data.seed": self.seed,
            "actor_rollout_ref.model.path": policy,
            "actor_rollout_ref.actor.optim.lr": self.actor_rate,
            **_under("actor_rollout_ref.actor", sizes),
            "actor_rollout_ref.actor.use_kl_loss": False,
            "actor_rollout_ref.actor.data_loader_seed": self.seed,
            **_under("actor_rollout_ref.ref", per_gpu),
            **_under("actor_rollout_ref.rollout", per_gpu),
            "actor_rollout_ref.rollout.name": self.rollout,
            "actor_rollout_ref.rollout.temperature": self.temperature,
            "actor_rollout_ref.rollout.seed": self.seed,
            "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,
            # Answers to the watched users are drawn as those to the others; verl's own would be greedy.
            "actor_rollout_ref.rollout.val_kwargs.do_sample": True,
            "actor_rollout_ref.rollout.val_kwargs.temperature": self.temperature,
            "critic.model.path": policy,
            "critic.optim.lr": self.critic_rate,
            **_under("critic", sizes),
            "critic.data_loader_seed": self.seed,
            "algorithm.adv_estimator": "gae",
            "algorithm.use_kl_in_reward": self.kl_coefficient > 0,
            "algorithm.kl_ctrl.kl_coef": self.kl_coefficient,
            "reward.custom_reward_function.path": "pkg://pluralrm.serve.trainers",
            "reward.custom_reward_function.name": "compute_score",
            "trainer.project_name": "pluralrm",
            "trainer.experiment_name": name,
            "trainer.default_local_dir": f"{out}/checkpoints",
            "trainer.validation_data_dir": f"{out}/generations",
            "trainer.total_epochs": self.epochs,
            "trainer.n_gpus_per_node": self.gpus,
            "trainer.nnodes": 1,
            "trainer.save_freq": self.save_every,
            "trainer.test_freq": self.test_every,
            "trainer.val_before_train": True,
            "trainer.logger": ("console",),
            **_loaded("trainer.v1.sampler.custom_sampler", "sampler", "EveryReward"),
        }


_RANGES: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(("batch", "minibatch", "epochs", "prompt_tokens", "answer_tokens", "gpus", "per_gpu"), (1, inf)),
    **dict.fromkeys(("save_every", "test_every"), (1, inf)),
    **dict.fromkeys(("actor_rate", "critic_rate", "kl_coefficient", "seed", "parts_seed"), (0, inf)),
    "temperature": (1e-2, 2),
}
ROLLOUTS = ("vllm", "sglang")
"""What draws the answers, by verl's names."""


def read_verl_settings(texts: Sequence[str]) -> VerlSettings:
    """Return the settings that KEY=VALUE texts change; an unknown key or a value of another type is a SpecError."""
    kinds: dict[str, type] = {field.name: type(field.default) for field in fields(VerlSettings)}
    values: dict[str, Value] = {}
    for text in texts:
        key, mark, value = text.partition("=")
        if key not in kinds or not mark:
            raise SpecError(
                f"--set {text}: wanted KEY=VALUE, with one of {', '.join(kinds)}.{did_you_mean(key, kinds)}"
            )
        if key in values:
            raise SpecError(f"--set {text}: {key} is given twice; --no-kl gives kl_coefficient, too")
        try:
            values[key] = kinds[key](value)
        except ValueError as exc:
            raise SpecError(f"--set {text}: wanted a {kinds[key].__name__}") from exc
    return checked(VerlSettings(**values))  # type: ignore[arg-type] # each value has its field's type


def checked(settings: VerlSettings) -> VerlSettings:
    """Return the settings; a SpecError says which of them cannot be, before verl has loaded any weights."""
    for key, (low, high) in _RANGES.items():
        value = getattr(settings, key)
        if not (low <= value <= high and value < inf):
            usage = f"at least {low:g}" if high == inf else f"a number from {low:g} to {high:g}"
            raise SpecError(f"verl: {key} is {value}; wanted {usage}")
    if settings.rollout not in ROLLOUTS:
        raise SpecError(f"verl: rollout is {settings.rollout!r}; wanted {' or '.join(ROLLOUTS)}")
    if settings.minibatch > settings.batch:
        raise SpecError(
            f"verl: minibatch is {settings.minibatch}, of a batch of {settings.batch}; wanted at most the batch"
        )
    if settings.batch % settings.gpus:
        raise SpecError(f"verl: batch is {settings.batch}; wanted a multiple of gpus, {settings.gpus}")
    return settings


def _loaded(prefix: str, module: str, name: str) -> dict[str, Value]:
    """Return the two keys by which verl loads a class of this package."""
    return {f"{prefix}.path": f"pkg://pluralrm.training.verl.{module}", f"{prefix}.name": name}


def _under(prefix: str, values: Mapping[str, Value]) -> dict[str, Value]:
    return {f"{prefix}.{name}": value for name, value in values.items()}


_INTERPOLATION = re.compile(r"(\\*)\$\{")
_BEFORE_QUOTE = re.compile(r"(\\*)('|$)")


def quoted(text: str) -> str:
    """Return a text quoted for Hydra, where backslashes count before a quote or a `${` alone."""
    whole = _INTERPOLATION.sub(r"\1\1\\${", text)
    return _BEFORE_QUOTE.sub(lambda match: f"{2 * match[1]}{chr(92) if match[2] else ''}{match[2]}", whole)


def spelled(overrides: Mapping[str, Value]) -> list[str]:
    """Return them as Hydra reads them on a command line; a path is quoted, so that nothing in it is an operator."""
    return [f"{name}={_spelled(value)}" for name, value in overrides.items()]


def _spelled(value: Value) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, tuple):
        return f"[{','.join(map(_spelled, value))}]"
    if isinstance(value, str):
        return f"'{quoted(value)}'"
    return str(value)
