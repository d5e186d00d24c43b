"""The loop: draw, reward, look, learn; a line per step, now and then an evaluation and a checkpoint.

Whatever stops it leaves what was trained on disk, and the same call goes on from there as if nothing had been.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pluralrm.downstream.policies import parse_policy
from pluralrm.downstream.ppo.actor import Actor, open_actor
from pluralrm.downstream.ppo.alarms import Alarm, alarms
from pluralrm.downstream.ppo.answering import Answered, answers_to
from pluralrm.downstream.ppo.checkpoint import Checkpoints, State
from pluralrm.downstream.ppo.experience import experience, look
from pluralrm.downstream.ppo.export import write_policy
from pluralrm.downstream.ppo.folder import PpoFolder
from pluralrm.downstream.ppo.heldout import HeldOut
from pluralrm.downstream.ppo.job import Job, manifest_of
from pluralrm.downstream.ppo.kl import next_coefficient
from pluralrm.downstream.ppo.measures import deviation, mean, repetition
from pluralrm.downstream.ppo.prompts import Prompt, assembled, of_step
from pluralrm.downstream.ppo.records import EvaluationRecord, StepRecord
from pluralrm.downstream.ppo.rewards import Settled, check_enough, rewarded, scored_by
from pluralrm.downstream.ppo.settings import checked
from pluralrm.downstream.ppo.update import open_optimizer, update
from pluralrm.errors import BenchmarkError, RunError
from pluralrm.models.neural.loading import settings as loading_settings

POLICY = "policy"
"""The folder of the trained policy, inside that of the training."""


class Told(NamedTuple):
    """What is said after a step: its line, the last evaluation where there is one, and what has gone off."""

    step: StepRecord
    steps: int
    evaluation: EvaluationRecord | None
    alarms: Sequence[Alarm]


class Trained(NamedTuple):
    """What a training came to; `policy` is a folder for `lm:`."""

    folder: Path
    policy: Path
    steps: Mapping[int, StepRecord]
    evaluations: Mapping[int, EvaluationRecord]
    alarms: Sequence[Alarm]


def train(job: Job, out: str | Path, *, steps: int, tell: Callable[[Told], None] | None = None) -> Trained:
    """Train until so many steps are done, all told, and return what came of it; what is done is not done again."""
    checked(job.settings)
    job.shaping.check(scored_by(job.rewarder), job.reward_condition)
    parts = job.parts()
    if job.grader is not None and (reason := job.grader.unsupported(parts.validation)) is not None:
        raise BenchmarkError(f"{job.benchmark.card.name} {reason}")
    prompts = {
        name: assembled(job.benchmark, items, job.condition, job.policy, max_tokens=job.settings.max_tokens)
        for name, items in parts._asdict().items()
    }
    left_out = {f"{name} {kind}": count for name, one in prompts.items() for kind, count in one.left_out.items()}
    manifest = manifest_of(job, parts, left_out)
    actor = open_actor(job.policy.folder, loading_settings(parse_policy(job.policy.spec)), job.settings, seed=job.seed)
    with PpoFolder(Path(out), manifest) as folder:
        run = _Run(job, folder, actor, prompts={name: one.prompts for name, one in prompts.items()})
        run.go(steps, tell or _quiet)
        policy = write_policy(actor, job.policy.folder, folder.path / POLICY)
        folder.note("complete", steps)
        # Lines of later steps, which a kill left without weights, say nothing of this policy.
        lines = {step: one for step, one in folder.steps.items() if step < steps}
        seen = {step: one for step, one in folder.evaluations.items() if step <= steps}
        return Trained(folder.path, policy, lines, seen, alarms(lines, seen))


class _Run:
    """A training under way."""

    def __init__(self, job: Job, folder: PpoFolder, actor: Actor, *, prompts: Mapping[str, Sequence[Prompt]]) -> None:
        self._job, self._folder, self._actor, self._prompts = job, folder, actor, prompts["train"]
        self._held_out = HeldOut(job.policy, prompts["validation"], job.rewarder, job.grader, job.settings, job.seed)
        self._optimizer = open_optimizer(actor, job.settings)
        self._kept = Checkpoints(folder.path, actor, self._optimizer)

    def go(self, steps: int, tell: Callable[[Told], None]) -> None:
        """Do the steps that are missing; RunError where more are done than are wanted."""
        state = self._kept.load() or State(step=0, coefficient=self._job.settings.kl_coefficient)
        if state.step > steps:
            raise RunError(f"{self._folder.path} holds a training of {state.step} steps, wanted {steps}")
        while state.step < steps:
            try:
                self._evaluate(state.step, due=state.step % self._job.settings.evaluate_every == 0)
                answered, settled = self._rewarded(state.step)
            except BaseException:  # an outage, Ctrl-C: nothing of this step has moved a weight yet
                self._keep(state)
                raise
            state = self._learn(state, answered, settled)
            tell(self._told(state.step - 1, steps))
            if state.step % self._job.settings.checkpoint_every == 0:
                self._keep(state)
        self._keep(state)  # first, or an outage in the last evaluation would cost the steps since the checkpoint
        self._evaluate(state.step, due=state.step not in self._folder.evaluations)

    def _keep(self, state: State) -> None:
        self._kept.save(state)
        self._folder.note("incomplete", state.step)

    def _evaluate(self, step: int, *, due: bool) -> None:
        if due and self._held_out.prompts:
            self._folder.add_evaluation(self._held_out.evaluate(self._actor, step))

    def _told(self, step: int, steps: int) -> Told:
        folder = self._folder
        done = {number: one for number, one in folder.steps.items() if number <= step}
        seen = {number: one for number, one in folder.evaluations.items() if number <= step}
        return Told(done[step], steps, next(reversed(seen.values()), None), alarms(done, seen))

    def _rewarded(self, step: int) -> tuple[Answered, Settled]:
        """Return the step's answers and their rewards; what stops the training stops it here."""
        job, chosen = self._job, self._job.settings
        asked = of_step(self._prompts, step, batch=chosen.batch, seed=job.seed)
        several = [prompt for prompt in asked for _ in range(chosen.answers)]
        draw = chosen.draw_by(f"{job.seed}:{step}")
        answered = answers_to(self._actor, job.policy, several, draw, rows=chosen.rows)
        settled = rewarded(job.rewarder, answered.asked, chosen.on_failure)
        check_enough(job.rewarder.spec, settled, step=step, most_masked=chosen.most_masked)
        return answered, settled

    def _learn(self, state: State, answered: Answered, settled: Settled) -> State:
        """Move the weights, write the step's line and return the state after it."""
        chosen, job = self._job.settings, self._job
        shaped = [None if reward is None else job.shaping.shaped(reward) for reward in settled.rewards]
        if state.step == 0:
            self._actor.critic.begin_at(mean([one for one in shaped if one is not None]))
        looked = look(self._actor, answered, rows=chosen.rows)
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
        self._folder.add_step(_line(state, answered, settled, shaped=shaped, told={**told, **said}))
        if chosen.kl_target:
            coefficient = next_coefficient(
                state.coefficient,
                said["kl"],
                target=chosen.kl_target,
                horizon=chosen.kl_horizon,
                answers=len(answered.answers),
            )
            return State(step=state.step + 1, coefficient=coefficient)
        return State(step=state.step + 1, coefficient=state.coefficient)


def _line(
    state: State,
    answered: Answered,
    settled: Settled,
    *,
    shaped: Sequence[float | None],
    told: Mapping[str, float],
) -> StepRecord:
    rewards = [one for one in settled.rewards if one is not None]
    ids = [one.ids for one in answered.answers]
    return StepRecord(
        step=state.step,
        answers=len(ids),
        masked=settled.rewards.count(None),
        failures=dict(settled.failures),
        reward=mean(rewards),
        reward_sd=deviation(rewards),
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
        length=mean([len(one) for one in ids]),
        cut=mean([float(one.cut) for one in answered.answers]),
        repetition=mean([repetition(one) for one in ids]),
    )


def _quiet(told: Told) -> None:
    """Tell nobody."""
