"""What verl is told: Hydra overrides of its `ppo_trainer`, ours or those of the published protocol."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

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
    prompt_tokens: int = 4096
    answer_tokens: int = 512
    temperature: float = 1.0
    kl_coefficient: float = 0.001
    """0 trains without a KL penalty, as published."""
    gpus: int = 1
    nodes: int = 1
    per_gpu: int = 4
    """Answers per GPU in one pass."""
    rollout: str = "vllm"
    seed: int = 0
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
            "data.filter_overlong_prompts": False,
            "data.truncation": "error",
            "data.seed": self.seed,
            "actor_rollout_ref.model.path": policy,
            "actor_rollout_ref.actor.optim.lr": self.actor_rate,
            **_under("actor_rollout_ref.actor", sizes),
            "actor_rollout_ref.actor.use_kl_loss": False,
            **_under("actor_rollout_ref.ref", per_gpu),
            **_under("actor_rollout_ref.rollout", per_gpu),
            "actor_rollout_ref.rollout.name": self.rollout,
            "actor_rollout_ref.rollout.temperature": self.temperature,
            "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,
            "critic.model.path": policy,
            "critic.optim.lr": self.critic_rate,
            **_under("critic", sizes),
            "algorithm.adv_estimator": "gae",
            "algorithm.use_kl_in_reward": self.kl_coefficient > 0,
            "algorithm.kl_ctrl.kl_coef": self.kl_coefficient,
            "reward.custom_reward_function.path": "pkg://pluralrm.serve.verl",
            "reward.custom_reward_function.name": "compute_score",
            "trainer.project_name": "pluralrm",
            "trainer.experiment_name": name,
            "trainer.default_local_dir": f"{out}/checkpoints",
            "trainer.validation_data_dir": f"{out}/generations",
            "trainer.total_epochs": self.epochs,
            "trainer.n_gpus_per_node": self.gpus,
            "trainer.nnodes": self.nodes,
            "trainer.save_freq": self.save_every,
            "trainer.test_freq": self.test_every,
            "trainer.val_before_train": True,
            "trainer.logger": ("console",),
        }


def read_settings(texts: Sequence[str]) -> VerlSettings:
    """Return the settings that KEY=VALUE texts change; an unknown key or a value of another type is a SpecError."""
    kinds: dict[str, type] = {field.name: type(field.default) for field in fields(VerlSettings)}
    found: dict[str, Value] = {}
    for text in texts:
        key, mark, value = text.partition("=")
        if key not in kinds or not mark:
            raise SpecError(f"--set {text}: wanted KEY=VALUE.{did_you_mean(key, kinds)}")
        try:
            found[key] = kinds[key](value)
        except ValueError as exc:
            raise SpecError(f"--set {text}: wanted a {kinds[key].__name__}") from exc
    return VerlSettings(**found)  # type: ignore[arg-type] # each value has its field's type


def _under(place: str, values: Mapping[str, Value]) -> dict[str, Value]:
    return {f"{place}.{name}": value for name, value in values.items()}


def spelled(overrides: Mapping[str, Value]) -> list[str]:
    """Return them as Hydra reads them on a command line; a path is quoted, so that nothing in it is an operator."""
    return [f"{name}={_spelled(value)}" for name, value in overrides.items()]


def _spelled(value: Value) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, tuple):
        return f"[{','.join(map(_spelled, value))}]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    return str(value)
