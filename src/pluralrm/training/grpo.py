"""GRPO: prompts, answers and rewards are ours, loss and steps are those of TRL's trainer; docs/design/training.md.

The only module that knows TRL. It is given ids and rewards. TRL 1.16 reports each training to its authors by default;
here it does not.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from logging import ERROR, getLogger
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from datasets import Dataset
from huggingface_hub import constants
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import GRPOConfig, GRPOTrainer
from trl import __version__ as trl_version

from pluralrm.errors import ModelError, RunError, SpecError
from pluralrm.models.neural.kind import load_tokenizer
from pluralrm.models.neural.loading import LoadSettings, quietly
from pluralrm.models.neural.loading import settings as loading_settings
from pluralrm.policies.local import Network, open_network
from pluralrm.policies.policy import parse_policy
from pluralrm.serve.watch import WatchFolder
from pluralrm.training.actor import trainable, write_policy
from pluralrm.training.job import GrpoJob, PreparedJob, TrainingPrompt, of_step, prepared_for
from pluralrm.training.measures import FinishedTraining, TrainingProgress, finished_training, progress_of
from pluralrm.training.records import POLICY, EvaluationLine, GrpoStep, TrainingFolder
from pluralrm.training.rollout import StepAnswers, draw_step, line_of_step, threads_for, watch, watching
from pluralrm.training.settings import check_grpo_settings

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CHECKPOINTS = "checkpoints"
Logs = Mapping[str, float | None]
Progress = TrainingProgress[GrpoStep, EvaluationLine]
Finished = FinishedTraining[GrpoStep, EvaluationLine]
Folder = TrainingFolder[GrpoStep, EvaluationLine]


def train(job: GrpoJob, out: str | Path, *, steps: int, progress: Callable[[Progress], None] | None = None) -> Finished:
    """Train to so many steps in all, resuming what is on disk, and return what came of it."""
    check_grpo_settings(job.settings)
    ready = prepared_for(job, "grpo", Path(out), steps=steps, more={"trl": trl_version})
    with TrainingFolder(Path(out), ready.manifest, GrpoStep, EvaluationLine) as folder:
        if not folder.has(steps):  # else no weight is read
            with threads_for(job.policy.folder), watching(job, folder.path) as second:
                _Run(job, folder, ready, steps=steps, second=second).go(progress or (lambda _: None))
        return finished_training(folder, steps)


class _Run:
    """A training under way."""

    def __init__(
        self, job: GrpoJob, folder: Folder, ready: PreparedJob, *, steps: int, second: WatchFolder | None
    ) -> None:
        self._job, self._folder, self._ready, self._steps = job, folder, ready, steps
        self._training = TrlTraining(job, ready.train, folder.path, steps=steps, watch=second)

    def go(self, progress: Callable[[Progress], None]) -> None:
        """Do the steps that are missing, look at the validation users before and after, and write the policy."""
        done = self._folder.manifest.steps
        if not done:
            self._look(0)
            progress(progress_of(self._folder, -1, self._steps))
        self._training.go(done, lambda step, logs: progress(self._add(step, logs)), self._checkpointed)
        self._look(self._steps)
        write_policy(self._training.network.model, self._job.policy.folder, self._folder.path / POLICY)
        self._folder.note("complete", self._steps)

    def _checkpointed(self, done: int) -> None:
        self._folder.note("incomplete", done)

    def _add(self, step: int, logs: Logs) -> Progress:
        self._folder.add_step(_line(step, self._training.drawn[step], logs))
        return progress_of(self._folder, step, self._steps)

    def _look(self, step: int) -> None:
        """Ask the validation users, before and after with the same seeds: common random numbers."""
        if not self._ready.validation or step in self._folder.evaluations:
            return
        with self._training.computing() as network:
            self._folder.add_evaluation(watch(self._job, network, self._ready.validation, step).line)


def _line(step: int, drawn: StepAnswers, logs: Logs) -> GrpoStep:
    values = {name: value for name, value in logs.items() if value is not None}
    return GrpoStep(
        **line_of_step(step, drawn).model_dump(),
        kl=values.get("kl"),
        entropy=values["entropy"],
        clip_fraction=values["clip_ratio/region_mean"],
        groups_alike=values["frac_reward_zero_std"],
        loss=values["loss"],
        norm=values["grad_norm"],
    )


# ---------------------------------------------------------------- TRL's trainer


class TrlTraining:
    """TRL's trainer on a job's prompts, with answers and rewards of ours."""

    def __init__(
        self,
        job: GrpoJob,
        prompts: Sequence[TrainingPrompt],
        folder: Path,
        *,
        steps: int,
        watch: WatchFolder | None = None,
    ) -> None:
        self._watch = watch
        self._job, self._prompts, self._folder = (
            job,
            {prompt.item.id: prompt for prompt in prompts},
            folder / CHECKPOINTS,
        )
        how = _alone(loading_settings(parse_policy(job.policy.spec)), job)
        self.network = open_network(job.policy.folder, how)
        _check_positions(self.network.model, job)
        self._drawing = False
        self.drawn: dict[int, StepAnswers] = {}
        """The last step's answers, by step."""
        with without_telemetry():
            self._trainer = GRPOTrainer(
                model=self.network.model,
                reward_funcs=[self.rewards],
                args=_config(job, self._folder, steps=steps, device=how.device),
                train_dataset=_rows(job, prompts, steps),
                processing_class=_padded(load_tokenizer(job.policy.folder), job),
                rollout_func=self.rollouts,
            )
        self._trainer.remove_callback(transformers.PrinterCallback)

    def go(self, done: int, on_step: Callable[[int, Logs], None], on_kept: Callable[[int], None]) -> None:
        """Train on after so many steps, to the last; what stops it between two steps leaves a checkpoint."""
        updates = self._job.settings.updates
        self._trainer.add_callback(_Telling(on_step, on_kept, updates))
        checkpoint = self._folder / f"{PREFIX_CHECKPOINT_DIR}-{done * updates}"
        if done and not checkpoint.exists():
            raise RunError(f"{checkpoint} is gone, and with it {done} steps; name another folder with -o to begin anew")
        try:
            with without_telemetry():
                self._trainer.train(resume_from_checkpoint=str(checkpoint) if done else None)
        except BaseException:  # an outage, Ctrl-C
            if self._drawing and self._trainer.state.global_step:  # nothing of this step has moved a weight yet
                with without_telemetry():
                    self._trainer._save_checkpoint(self._trainer.model, trial=None)  # noqa: SLF001 - no public way
                on_kept(self._trainer.state.global_step // updates)
            raise

    @contextmanager
    def computing(self) -> Iterator[Network]:
        """Answer in the precision of the training, without dropout."""
        model = self.network.model
        training = model.training
        model.eval()
        try:
            with self._trainer.accelerator.autocast():
                yield self.network
        finally:
            model.train(training)

    def rollouts(self, prompts: Sequence[str], trainer: "GRPOTrainer") -> dict[str, object]:
        """Return what TRL asks of a rollout: one answer to each prompt, which it has by the item's id."""
        self._drawing = True
        step = trainer.state.global_step // self._job.settings.updates
        batch = [self._prompts[name] for name in prompts]
        with self.computing() as network:
            drawn = draw_step(self._job, network, batch, step, watch=self._watch)
        self.drawn = {step: drawn}
        # TRL shuffles a step's answers by the global stream: so it does the same in a resumed training.
        torch.manual_seed(self._job.settings.draw_by(f"{self._job.seed}:{step}").seed)
        self._drawing = False
        ids = [list(answer.ids) for answer in drawn.answered.answers]
        return {"prompt_ids": [list(prompt.ids) for prompt in batch], "completion_ids": ids, "logprobs": None}

    def rewards(self, completion_ids: Sequence[Sequence[int]], **_columns: object) -> list[float | None]:
        """Return the shaped rewards of a step's answers; None leaves an answer out of its group."""
        [drawn] = self.drawn.values()
        raw, shaping = rewards_of(drawn, completion_ids), self._job.shaping
        return [None if reward is None else shaping.shaped(reward) for reward in raw]


def rewards_of(drawn: StepAnswers, ids: Sequence[Sequence[int]]) -> list[float | None]:
    """Return the rewards of the answers that TRL asks about; ModelError where others were drawn."""
    if [tuple(answer) for answer in ids] != [answer.ids for answer in drawn.answered.answers]:
        raise ModelError(
            "TRL asks for rewards of other answers than were drawn; wanted trl 1.16: pip install trl==1.16"
        )
    return drawn.settled.rewards


class _Telling(transformers.TrainerCallback):  # type: ignore[misc] # without the extra it is no class
    """Passes on what TRL says after each step, and that a checkpoint is written."""

    def __init__(self, on_step: Callable[[int, Logs], None], on_kept: Callable[[int], None], updates: int) -> None:
        self._on_step, self._on_kept, self._updates = on_step, on_kept, updates

    def on_log(self, args: object, state: Any, control: object, logs: Any = None, **_: object) -> None:  # noqa: ANN401, ARG002
        if "completions/mean_length" in logs:  # not so the summary at the end
            self._on_step(state.global_step // self._updates - 1, logs)

    def on_save(self, args: object, state: Any, control: object, **_: object) -> None:  # noqa: ANN401, ARG002
        self._on_kept(state.global_step // self._updates)


def _rows(job: GrpoJob, prompts: Sequence[TrainingPrompt], steps: int) -> Dataset:
    """Return the prompts of every step by their items' ids: those that PPO would have with this seed and batch."""
    batch = job.settings.batch
    ids = [prompt.item.id for step in range(steps) for prompt in of_step(prompts, step, batch=batch, seed=job.seed)]
    return Dataset.from_dict({"prompt": ids})


def _config(job: GrpoJob, folder: Path, *, steps: int, device: str) -> GRPOConfig:
    chosen = job.settings
    return GRPOConfig(
        output_dir=str(folder),
        max_steps=steps * chosen.updates,
        per_device_train_batch_size=chosen.rows,
        gradient_accumulation_steps=chosen.passes,
        steps_per_generation=chosen.passes * chosen.updates,
        num_generations=chosen.answers,
        shuffle_dataset=False,
        max_completion_length=chosen.max_tokens,
        temperature=chosen.temperature,
        learning_rate=chosen.rate,
        lr_scheduler_type="constant",
        weight_decay=0.0,
        max_grad_norm=chosen.max_norm,
        beta=chosen.kl_coefficient,
        epsilon=chosen.clip,
        loss_type=chosen.loss,
        scale_rewards=chosen.scale,
        disable_dropout=True,
        gradient_checkpointing=False,
        bf16=chosen.precision == "bfloat16",
        use_cpu=device == "cpu",
        trust_remote_code=job.policy.folder.trusted,
        seed=job.seed,
        logging_steps=chosen.updates,
        save_steps=chosen.checkpoint_every * chosen.updates,
        save_total_limit=2,  # the one that run.json names is there while the next is written
        report_to="none",
        disable_tqdm=True,
        push_to_hub=False,
    )


def _alone(how: LoadSettings, job: GrpoJob) -> LoadSettings:
    """Return how weights are loaded: in full precision, with an attention that has a gradient, on one device."""
    if how.device not in {"", "cpu", "cuda"}:
        raise SpecError(f"{job.policy.spec}: device is {how.device!r}; GRPO wants cpu, cuda, or no word of it")
    if how.device != "cpu" and torch.cuda.device_count() > 1:
        raise SpecError(
            f"GRPO trains on one GPU, found {torch.cuda.device_count()}: show it one with CUDA_VISIBLE_DEVICES=0; "
            "'train verl export' is for several"
        )
    device = how.device or ("cuda" if torch.cuda.is_available() else "cpu")
    return trainable(replace(how, device=device), job.policy.folder, whole=True)


def _padded(tokenizer: "transformers.PreTrainedTokenizerBase", job: GrpoJob) -> "transformers.PreTrainedTokenizerBase":
    """Return the tokenizer with a token that pads, which none sees; TRL pads at the left of prompts."""
    if tokenizer.eos_token is None:
        raise ModelError(f"{job.policy.spec}: its tokenizer names no token that ends a text, and TRL wants one")
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _check_positions(model: "PreTrainedModel", job: GrpoJob) -> None:
    """Raise where padding at the left changes what a model says: TRL pads, and does not tell it the positions."""
    ids = torch.arange(1, 9, device=model.device)[None]
    padded = torch.cat([torch.zeros_like(ids[:, :5]), ids], dim=1)
    seen = (torch.arange(13, device=model.device) >= 5).long()[None]
    with torch.no_grad():
        alone = model(input_ids=ids, use_cache=False).logits[0, -1]
        beside = model(input_ids=padded, attention_mask=seen, use_cache=False).logits[0, -1]
    apart = float((alone.log_softmax(-1) - beside.log_softmax(-1)).abs().max())
    if apart > (0.5 if model.dtype != torch.float32 else 1e-2):
        raise ModelError(
            f"{job.policy.spec}: padded at the left, as TRL pads, it gives other log-probs (by up to {apart:.2g}): it "
            "counts positions from the first token. 'pluralrm train ppo' trains it"
        )


@contextmanager
def without_telemetry() -> Iterator[None]:
    """Keep TRL from reporting to its authors, and its logs (which quote prompts) and bars off the terminal."""
    setting, level = constants.HF_HUB_DISABLE_TELEMETRY, getLogger("trl").level
    constants.HF_HUB_DISABLE_TELEMETRY = True
    getLogger("trl").setLevel(ERROR)
    try:
        with quietly(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="You are using 'rollout_func'")
            warnings.filterwarnings("ignore", message=".*gradient_checkpointing", category=FutureWarning)  # TRL's word
            yield
    finally:
        constants.HF_HUB_DISABLE_TELEMETRY = setting
        getLogger("trl").setLevel(level)
