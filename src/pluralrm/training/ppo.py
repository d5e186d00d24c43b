"""PPO from one reward per answer, read from top to bottom: advantages, KL, losses, a step of learning, the loop.

Tensors are (answers, tokens), masks true at the answers' real tokens. Whatever stops the loop leaves what was trained
on disk, and the same call resumes from it, to the same bytes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import torch

from pluralrm.errors import ModelError, RunError
from pluralrm.models.neural.loading import settings as loading_settings
from pluralrm.policies.policy import parse_policy
from pluralrm.serve.watch import WatchFolder
from pluralrm.training.actor import Actor, Checkpoints, State, TokenOutput, open_actor, write_policy
from pluralrm.training.job import PpoJob, PreparedJob, of_step, prepared_for, watched_steps
from pluralrm.training.measures import (
    FinishedTraining,
    TrainingProgress,
    finished_training,
    mean,
    progress_of,
    repetition,
)
from pluralrm.training.records import POLICY, PpoEvaluation, PpoStep, TrainingFolder
from pluralrm.training.rollout import (
    AnswerBatch,
    StepAnswers,
    Tokens,
    draw_step,
    line_of_step,
    padded,
    threads_for,
    watch,
    watching,
)
from pluralrm.training.settings import KlEstimator, PpoSettings, check_ppo_settings

_FARTHEST = 20.0
"""Of a log-ratio inside an exponential: beyond it one token would be the whole mean."""

# ---------------------------------------------------------------- means over a mask: a NaN elsewhere reaches nothing


def masked_total(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the sum where the mask is true."""
    return torch.where(mask, values, 0.0).sum()


def masked_mean(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the mean where the mask is true, of at least one value."""
    return masked_total(values, mask) / mask.sum()


def row_totals(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return each row's sum where the mask is true: (rows,)."""
    return torch.where(mask, values, 0.0).sum(dim=-1)


# ---------------------------------------------------------------- from a reward per answer to an advantage per token


class Advantages(NamedTuple):
    """What a token was better than expected by, and what the critic should have said there."""

    advantages: torch.Tensor
    returns: torch.Tensor


def token_rewards(scores: torch.Tensor, mask: torch.Tensor, penalties: torch.Tensor) -> torch.Tensor:
    """Return -penalty at each token, and the answer's score (answers,) on top at its last one."""
    rewards = torch.where(mask, -penalties, 0.0)
    last = mask.sum(dim=-1) - 1
    rewards[torch.arange(len(scores), device=scores.device), last] += scores
    return rewards


def gae(
    rewards: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, *, discount: float, decay: float
) -> Advantages:
    """Return generalised advantages (Schulman et al. 2016, eq. 16) and returns; both 0 beyond an answer's end.

    delta_t = r_t + discount V_(t+1) - V_t; A_t = delta_t + discount decay A_(t+1); nothing comes after the last token.
    """
    advantages = torch.zeros_like(values)
    following, ahead = torch.zeros_like(values[:, 0]), torch.zeros_like(values[:, 0])
    for column in range(values.shape[1] - 1, -1, -1):
        here = mask[:, column]
        delta = rewards[:, column] + discount * following - values[:, column]
        ahead = torch.where(here, delta + discount * decay * ahead, 0.0)
        following = torch.where(here, values[:, column], 0.0)
        advantages[:, column] = ahead
    return Advantages(advantages, torch.where(mask, advantages + values, 0.0))


def whiten(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return values of mean 0 and variance 1 over the mask (n - 1); one value alone, or equal ones, become 0."""
    count = mask.sum()
    centred = torch.where(mask, values - masked_mean(values, mask), 0.0)
    variance = centred.square().sum() / (count - 1).clamp_min(1)
    return centred * torch.rsqrt(variance + 1e-8)


# ---------------------------------------------------------------- KL divergence from the frozen reference
#
#     d = log p - log p_reference, at a token that was drawn from p
#     k1 = d, unbiased; k2 = d^2 / 2, its gradient is that of the KL; k3 = exp(-d) - 1 + d, unbiased, never negative
#
# Schulman 2020, "Approximating KL Divergence"; the adaptive coefficient is equation 4 of Ziegler et al. 2019.


def kl_estimate(log_probs: torch.Tensor, reference: torch.Tensor, estimator: KlEstimator) -> torch.Tensor:
    """Return the estimate at each token, in nats."""
    d = log_probs - reference
    if estimator == "k1":
        return d
    if estimator == "k2":
        return d.square() / 2
    back = (-d).clamp(-_FARTHEST, _FARTHEST)
    return back.exp() - 1 - back


def next_coefficient(coefficient: float, kl: float, *, target: float, horizon: float, answers: int) -> float:
    """Return the coefficient after a step: larger where the KL per answer was beyond the target, by at most a fifth."""
    error = min(0.2, max(-0.2, kl / target - 1))
    return coefficient * (1 + error * answers / horizon)


# ---------------------------------------------------------------- the two losses, per token


class ClippedLoss(NamedTuple):
    """A loss per token, and where clipping made it larger than it would have been."""

    losses: torch.Tensor
    clipped: torch.Tensor


def policy_loss(log_probs: torch.Tensor, old: torch.Tensor, advantages: torch.Tensor, clip: float) -> ClippedLoss:
    """Return max(-ratio A, -clipped ratio A): Schulman et al. 2017, eq. 7, as a loss."""
    ratio = (log_probs - old).clamp(-_FARTHEST, _FARTHEST).exp()
    plain, cut = -ratio * advantages, -ratio.clamp(1 - clip, 1 + clip) * advantages
    return ClippedLoss(torch.maximum(plain, cut), cut > plain)


def value_loss(values: torch.Tensor, old: torch.Tensor, returns: torch.Tensor, clip: float) -> ClippedLoss:
    """Return half the larger squared error, of the value and of the value kept within `clip` of the old one."""
    plain = (values - returns).square()
    cut = (old + (values - old).clamp(-clip, clip) - returns).square()
    return ClippedLoss(torch.maximum(plain, cut) / 2, cut > plain)


# ---------------------------------------------------------------- what a step learns from


class Experience(NamedTuple):
    """Of each token of the answers, (answers, R); `mask` is true where something is learned."""

    tokens: Tokens
    mask: torch.Tensor
    log_probs: torch.Tensor
    values: torch.Tensor
    reference: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor


class BatchOutput(NamedTuple):
    """What the policy and the reference say of answers before a step, and how far they are apart."""

    tokens: Tokens
    before: TokenOutput
    reference: torch.Tensor

    def measures(self) -> Mapping[str, float]:
        """Return KL in nats per answer (k3) and entropy in nats per token."""
        mask = self.tokens.mask
        kl = row_totals(kl_estimate(self.before.log_probs, self.reference, "k3"), mask).mean()
        return {"kl": float(kl), "entropy": float(masked_mean(self.before.entropies, mask))}


def batch_output(actor: Actor, answered: AnswerBatch, *, rows: int) -> BatchOutput:
    """Return what is said of answers, computed `rows` at a time."""
    prompts, answers = answered.prompts, answered.answers
    tokens = padded([prompt.ids for prompt in prompts], [prompt.ids for prompt in answers], actor.model.device)
    parts = [tokens.rows(range(first, min(first + rows, len(tokens.ids)))) for first in range(0, len(tokens.ids), rows)]
    with torch.no_grad():
        passed = [actor.passed(part) for part in parts]
    before = TokenOutput(*(torch.cat(columns) for columns in zip(*passed, strict=True)))
    return BatchOutput(tokens, before, torch.cat([actor.reference(part) for part in parts]))


def experience(
    output: BatchOutput, rewards: Sequence[float | None], coefficient: float, settings: PpoSettings
) -> Experience:
    """Return what is to be learned; an answer without a reward is left out, of every mean too."""
    tokens, device = output.tokens, output.reference.device
    has = torch.tensor([reward is not None for reward in rewards], device=device)
    # Not a number where there is none: if one of these reached a loss, training would stop, and not go on by it.
    scores = torch.tensor([math.nan if reward is None else reward for reward in rewards], device=device)
    mask = tokens.mask & has[:, None]
    far = kl_estimate(output.before.log_probs, output.reference, settings.kl)
    penalties = coefficient * far if settings.kl_in == "reward" else torch.zeros_like(far)
    per_token = token_rewards(scores, tokens.mask, penalties)
    estimates = gae(per_token, output.before.values, tokens.mask, discount=settings.discount, decay=settings.decay)
    advantages = whiten(estimates.advantages, mask) if settings.whiten else estimates.advantages
    return Experience(
        tokens,
        mask,
        output.before.log_probs,
        output.before.values,
        output.reference,
        torch.where(mask, advantages, 0.0),  # 0 times what is no number would be no number, in a gradient too
        torch.where(mask, estimates.returns, 0.0),
    )


# ---------------------------------------------------------------- one step: minibatches, and a move of the weights


class Sums(NamedTuple):
    """Over the tokens of a pass: what a loss is made of, and where it was clipped."""

    policy: torch.Tensor
    value: torch.Tensor
    entropy: torch.Tensor
    kl: torch.Tensor
    clipped: torch.Tensor
    value_clipped: torch.Tensor


def open_optimizer(actor: Actor, settings: PpoSettings) -> torch.optim.AdamW:
    """Return the optimizer of both, each with its own rate."""
    groups = [
        {"params": list(actor.trained.values()), "lr": settings.actor_rate},
        {"params": list(actor.critic.parameters()), "lr": settings.critic_rate},
    ]
    return torch.optim.AdamW(groups, weight_decay=0.0)


def update(
    actor: Actor,
    optimizer: torch.optim.Optimizer,
    learned: Experience,
    settings: PpoSettings,
    *,
    coefficient: float,
    seed: str,
) -> dict[str, float]:
    """Move the weights and return the means over minibatches; ModelError where a loss is no number any more."""
    means: list[Mapping[str, float]] = []
    for epoch in range(settings.epochs):
        order = Random(f"{seed}:{epoch}").sample(range(len(learned.mask)), len(learned.mask))
        for first in range(0, len(order), settings.minibatch):
            places = order[first : first + settings.minibatch]
            if bool(learned.mask[places].any()):
                means.append(_move(actor, optimizer, learned, places, settings, coefficient))
    return {name: mean([part[name] for part in means]) for name in means[0]} if means else {}


def _move(  # noqa: PLR0917 - the parts of one move, handed on
    actor: Actor,
    optimizer: torch.optim.Optimizer,
    learned: Experience,
    places: Sequence[int],
    settings: PpoSettings,
    coefficient: float,
) -> dict[str, float]:
    """Take one minibatch, in passes of a few rows: each adds its share of the mean over all of its tokens."""
    optimizer.zero_grad()
    tokens = learned.mask[places].sum()
    sums = []
    for first in range(0, len(places), settings.rows):
        part = _sums(actor, learned, places[first : first + settings.rows], settings)
        penalty = coefficient * part.kl if settings.kl_in == "loss" else 0.0
        loss = (part.policy + part.value + penalty - settings.entropy * part.entropy) / tokens
        loss.backward()
        sums.append(Sums(*(value.detach() for value in part)))
    logs = {name: float(sum(getattr(part, name) for part in sums) / tokens) for name in Sums._fields}
    norms = {"actor_norm": list(actor.trained.values()), "critic_norm": list(actor.critic.parameters())}
    logs |= {name: float(torch.nn.utils.clip_grad_norm_(weights, settings.max_norm)) for name, weights in norms.items()}
    if not all(map(math.isfinite, logs.values())):
        wrong = ", ".join(f"{name} {value}" for name, value in logs.items() if not math.isfinite(value))
        raise ModelError(f"training went astray: {wrong}. Use smaller rates, or precision=float32")
    optimizer.step()
    return logs


def _sums(actor: Actor, learned: Experience, places: Sequence[int], settings: PpoSettings) -> Sums:
    places = list(places)
    now, mask = actor.passed(learned.tokens.rows(places)), learned.mask[places]
    policy = policy_loss(now.log_probs, learned.log_probs[places], learned.advantages[places], settings.clip)
    value = value_loss(now.values, learned.values[places], learned.returns[places], settings.value_clip)
    far = kl_estimate(now.log_probs, learned.reference[places], settings.kl)
    return Sums(
        masked_total(policy.losses, mask),
        masked_total(value.losses, mask),
        masked_total(now.entropies, mask),
        masked_total(far, mask),
        masked_total(policy.clipped.float(), mask),
        masked_total(value.clipped.float(), mask),
    )


# ---------------------------------------------------------------- the loop

Progress = TrainingProgress[PpoStep, PpoEvaluation]
Finished = FinishedTraining[PpoStep, PpoEvaluation]
Folder = TrainingFolder[PpoStep, PpoEvaluation]


def train(job: PpoJob, out: str | Path, *, steps: int, progress: Callable[[Progress], None] | None = None) -> Finished:
    """Train to so many steps in all, resuming what is on disk, and return what came of it."""
    check_ppo_settings(job.settings)
    ready = prepared_for(job, "ppo", Path(out), steps=steps)
    with TrainingFolder(Path(out), ready.manifest, PpoStep, PpoEvaluation) as folder:
        if not folder.has(steps):  # else no weight is read
            with threads_for(job.policy.folder), watching(job, folder.path) as second:
                how = loading_settings(parse_policy(job.policy.spec))
                actor = open_actor(job.policy.folder, how, job.settings, seed=job.seed)
                _Run(job, folder, actor, ready, second=second).go(steps, progress or (lambda _: None))
                write_policy(actor.whole(), job.policy.folder, folder.path / POLICY)
            folder.note("complete", steps)
        return finished_training(folder, steps)


class _Run:
    """A training under way."""

    def __init__(
        self, job: PpoJob, folder: Folder, actor: Actor, ready: PreparedJob, *, second: WatchFolder | None
    ) -> None:
        self._watch = second
        self._job, self._folder, self._actor, self._ready = job, folder, actor, ready
        self._optimizer = open_optimizer(actor, job.settings)
        self._kept = Checkpoints(folder.path, actor, self._optimizer)

    def go(self, steps: int, progress: Callable[[Progress], None]) -> None:
        """Do the steps that are missing; RunError where more are done than are wanted."""
        state = self._kept.load() or State(step=0, coefficient=self._job.settings.kl_coefficient)
        if state.step > steps:  # a kill between a checkpoint and its note
            raise RunError(f"{self._folder.path} holds a training of {state.step} steps, wanted {steps}")
        every, evaluated = self._job.settings.evaluate_every, self._folder.evaluations
        due = watched_steps(state.step, steps, every=every, evaluated=evaluated)
        while state.step < steps:
            try:
                self._evaluate(state.step, due=state.step in due)
                if state.step == 0:  # grades that mostly fail are no news for the end of a step that takes an hour
                    progress(progress_of(self._folder, -1, steps))
                drawn = self._drawn(state.step)
            except BaseException:  # an outage, Ctrl-C: nothing of this step has moved a weight yet
                self._keep(state)
                raise
            state = self._learn(state, drawn)
            progress(progress_of(self._folder, state.step - 1, steps))
            if state.step % self._job.settings.checkpoint_every == 0:
                self._keep(state)
        self._keep(state)  # first, or an outage in the last evaluation would cost the steps since the checkpoint
        self._evaluate(state.step, due=state.step in due)

    def _keep(self, state: State) -> None:
        self._kept.save(state)
        self._folder.note("incomplete", state.step)

    def _evaluate(self, step: int, *, due: bool) -> None:
        if not (due and self._ready.validation):
            return
        with self._actor.computing():
            answered, line = watch(self._job, self._actor.network, self._ready.validation, step)
        record = PpoEvaluation(
            **line.model_dump(),
            repetition=mean([repetition(answer.ids) for answer in answered.answers]),
            **batch_output(self._actor, answered, rows=self._job.settings.rows).measures(),
        )
        self._folder.add_evaluation(record)

    def _drawn(self, step: int) -> StepAnswers:
        """Return the step's answers and their rewards."""
        chosen = self._job.settings
        batch = of_step(self._ready.train, step, batch=chosen.batch, seed=self._job.seed)
        several = [prompt for prompt in batch for _ in range(chosen.answers)]
        with self._actor.computing():
            return draw_step(self._job, self._actor.network, several, step, watch=self._watch)

    def _learn(self, state: State, drawn: StepAnswers) -> State:
        """Move the weights, write the step's line and return the state after it."""
        chosen, job = self._job.settings, self._job
        shaped = [None if reward is None else job.shaping.shaped(reward) for reward in drawn.settled.rewards]
        if state.step == 0:
            self._actor.critic.begin_at(mean([reward for reward in shaped if reward is not None]))
        output = batch_output(self._actor, drawn.answered, rows=chosen.rows)
        learned = experience(output, shaped, state.coefficient, chosen)
        losses = update(
            self._actor,
            self._optimizer,
            learned,
            chosen,
            coefficient=state.coefficient,
            seed=f"{job.seed}:{state.step}",
        )
        measures = output.measures()
        self._folder.add_step(_line(state, drawn, shaped=shaped, values={**losses, **measures}))
        if chosen.kl_target:
            coefficient = next_coefficient(
                state.coefficient,
                measures["kl"],
                target=chosen.kl_target,
                horizon=chosen.kl_horizon,
                answers=len(drawn.answered.answers),
            )
            return State(step=state.step + 1, coefficient=coefficient)
        return State(step=state.step + 1, coefficient=state.coefficient)


def _line(state: State, drawn: StepAnswers, *, shaped: Sequence[float | None], values: Mapping[str, float]) -> PpoStep:
    return PpoStep(
        **line_of_step(state.step, drawn).model_dump(),
        shaped=mean([reward for reward in shaped if reward is not None]),
        kl=values["kl"],
        kl_coefficient=state.coefficient,
        entropy=values["entropy"],
        clip_fraction=values["clipped"],
        value_clip_fraction=values["value_clipped"],
        policy_loss=values["policy"],
        value_loss=values["value"],
        actor_norm=values["actor_norm"],
        critic_norm=values["critic_norm"],
    )
