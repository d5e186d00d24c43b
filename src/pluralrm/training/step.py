"""One step as far as it is the same for every algorithm: answers and their rewards, and what its line says of both."""

from collections.abc import Sequence
from typing import NamedTuple

from pluralrm.policies.generate import Network
from pluralrm.training.answering import Answered, answers_to
from pluralrm.training.drift import errors_of, means_by_user
from pluralrm.training.job import TrainingJob
from pluralrm.training.measures import deviation, mean, repetition
from pluralrm.training.prompts import Prompt
from pluralrm.training.records import StepLine
from pluralrm.training.rewards import Settled, check_enough, rewarded


class Drawn(NamedTuple):
    """A step's answers, and what became of their rewards."""

    answered: Answered
    settled: Settled


def draw_step(job: TrainingJob, network: Network, prompts: Sequence[Prompt], step: int) -> Drawn:
    """Return one answer to each prompt with its reward; what stops the training stops it here."""
    chosen = job.settings
    answered = answers_to(network, job.policy, prompts, chosen.draw_by(f"{job.seed}:{step}"), rows=chosen.rows)
    settled = rewarded(job.rewarder, answered.asked, chosen.on_failure)
    check_enough(job.rewarder.spec, settled, step=step, most_masked=chosen.most_masked)
    return Drawn(answered, settled)


def line_of_step(step: int, drawn: Drawn) -> StepLine:
    """Return what a step's line says of its answers and their rewards, whatever was learned from them."""
    answers, settled = drawn.answered.answers, drawn.settled
    known = [one for one in settled.rewards if one is not None]
    users = [one.item.cluster for one in drawn.answered.prompts]
    measured = {
        "length": [float(len(one.ids)) for one in answers],
        "cut": [float(one.cut) for one in answers],
        "repetition": [repetition(one.ids) for one in answers],
        "masked": [float(one is None) for one in settled.rewards],
    }
    return StepLine(
        step=step,
        answers=len(answers),
        masked=settled.rewards.count(None),
        failures=dict(settled.failures),
        reward=mean(known),
        reward_sd=deviation(known),
        **{name: mean(values) for name, values in measured.items() if name != "masked"},
        errors=errors_of(measured, users),
        by_user=means_by_user(measured, users),
    )
