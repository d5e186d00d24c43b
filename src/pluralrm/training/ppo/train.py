"""The loop: draw, reward, look, learn; a line per step, now and then an evaluation and a checkpoint.

Whatever stops it leaves what was trained on disk, and the same call goes on from there as if nothing had been.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pluralrm.errors import RunError
from pluralrm.models.neural.loading import settings as loading_settings
from pluralrm.policies.policies import parse_policy
from pluralrm.training import trained as shared
from pluralrm.training.export import write_policy
from pluralrm.training.folder import POLICY, TrainingFolder
from pluralrm.training.heldout import watch
from pluralrm.training.job import Prepared, prepared_for
from pluralrm.training.measures import mean, repetition
from pluralrm.training.ppo.actor import Actor, open_actor
from pluralrm.training.ppo.checkpoint import Checkpoints, State
from pluralrm.training.ppo.experience import experience, look
from pluralrm.training.ppo.job import Job
from pluralrm.training.ppo.kl import next_coefficient
from pluralrm.training.ppo.records import EvaluationRecord, StepRecord
from pluralrm.training.ppo.settings import checked
from pluralrm.training.ppo.update import open_optimizer, update
from pluralrm.training.prompts import of_step
from pluralrm.training.step import Drawn, draw_step, line_of_step
from pluralrm.training.threads import threads_for

Told = shared.Told[StepRecord, EvaluationRecord]
Trained = shared.Trained[StepRecord, EvaluationRecord]
Folder = TrainingFolder[StepRecord, EvaluationRecord]


def train(job: Job, out: str | Path, *, steps: int, tell: Callable[[Told], None] | None = None) -> Trained:
    """Train until so many steps are done, all told, and return what came of it; what is done is not done again."""
    checked(job.settings)
    ready = prepared_for(job, "ppo", Path(out), steps=steps)
    with TrainingFolder(Path(out), ready.manifest, StepRecord, EvaluationRecord) as folder:
        if not folder.has(steps):  # else no weight is read
            with threads_for(job.policy.folder):
                how = loading_settings(parse_policy(job.policy.spec))
                actor = open_actor(job.policy.folder, how, job.settings, seed=job.seed)
                _Run(job, folder, actor, ready).go(steps, tell or _quiet)
                write_policy(actor.whole(), job.policy.folder, folder.path / POLICY)
            folder.note("complete", steps)
        return shared.trained_in(folder, steps)


class _Run:
    """A training under way."""

    def __init__(self, job: Job, folder: Folder, actor: Actor, ready: Prepared) -> None:
        self._job, self._folder, self._actor, self._ready = job, folder, actor, ready
        self._optimizer = open_optimizer(actor, job.settings)
        self._kept = Checkpoints(folder.path, actor, self._optimizer)

    def go(self, steps: int, tell: Callable[[Told], None]) -> None:
        """Do the steps that are missing; RunError where more are done than are wanted."""
        state = self._kept.load() or State(step=0, coefficient=self._job.settings.kl_coefficient)
        if state.step > steps:  # a kill between a checkpoint and its note
            raise RunError(f"{self._folder.path} holds a training of {state.step} steps, wanted {steps}")
        while state.step < steps:
            try:
                self._evaluate(state.step, due=state.step % self._job.settings.evaluate_every == 0)
                if state.step == 0:  # grades that mostly fail are no news for the end of a step that takes an hour
                    tell(shared.told_of(self._folder, -1, steps))
                drawn = self._drawn(state.step)
            except BaseException:  # an outage, Ctrl-C: nothing of this step has moved a weight yet
                self._keep(state)
                raise
            state = self._learn(state, drawn)
            tell(shared.told_of(self._folder, state.step - 1, steps))
            if state.step % self._job.settings.checkpoint_every == 0:
                self._keep(state)
        self._keep(state)  # first, or an outage in the last evaluation would cost the steps since the checkpoint
        self._evaluate(state.step, due=state.step not in self._folder.evaluations)

    def _keep(self, state: State) -> None:
        self._kept.save(state)
        self._folder.note("incomplete", state.step)

    def _evaluate(self, step: int, *, due: bool) -> None:
        if not (due and self._ready.validation):
            return
        with self._actor.computing():
            answered, line = watch(self._job, self._actor.network, self._ready.validation, step)
        record = EvaluationRecord(
            **line.model_dump(),
            repetition=mean([repetition(one.ids) for one in answered.answers]),
            **look(self._actor, answered, rows=self._job.settings.rows).told(),
        )
        self._folder.add_evaluation(record)

    def _drawn(self, step: int) -> Drawn:
        """Return the step's answers and their rewards."""
        chosen = self._job.settings
        asked = of_step(self._ready.train, step, batch=chosen.batch, seed=self._job.seed)
        several = [prompt for prompt in asked for _ in range(chosen.answers)]
        with self._actor.computing():
            return draw_step(self._job, self._actor.network, several, step)

    def _learn(self, state: State, drawn: Drawn) -> State:
        """Move the weights, write the step's line and return the state after it."""
        chosen, job = self._job.settings, self._job
        shaped = [None if reward is None else job.shaping.shaped(reward) for reward in drawn.settled.rewards]
        if state.step == 0:
            self._actor.critic.begin_at(mean([one for one in shaped if one is not None]))
        looked = look(self._actor, drawn.answered, rows=chosen.rows)
        learned = experience(looked, shaped, state.coefficient, chosen)
        told = update(
            self._actor,
            self._optimizer,
            learned,
            chosen,
            coefficient=state.coefficient,
            seed=f"{job.seed}:{state.step}",
        )
        said = looked.told()
        self._folder.add_step(_line(state, drawn, shaped=shaped, told={**told, **said}))
        if chosen.kl_target:
            coefficient = next_coefficient(
                state.coefficient,
                said["kl"],
                target=chosen.kl_target,
                horizon=chosen.kl_horizon,
                answers=len(drawn.answered.answers),
            )
            return State(step=state.step + 1, coefficient=coefficient)
        return State(step=state.step + 1, coefficient=state.coefficient)


def _line(state: State, drawn: Drawn, *, shaped: Sequence[float | None], told: Mapping[str, float]) -> StepRecord:
    return StepRecord(
        **line_of_step(state.step, drawn).model_dump(),
        shaped=mean([one for one in shaped if one is not None]),
        kl=told["kl"],
        kl_coefficient=state.coefficient,
        entropy=told["entropy"],
        clip_fraction=told["clipped"],
        value_clip_fraction=told["value_clipped"],
        policy_loss=told["policy"],
        value_loss=told["value"],
        actor_norm=told["actor_norm"],
        critic_norm=told["critic_norm"],
    )


def _quiet(told: Told) -> None:
    """Tell nobody."""
