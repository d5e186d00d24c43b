"""The validation users, asked again and again with the same seeds: what reward and grade their answers have."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from pluralrm.core import Failure
from pluralrm.errors import OutageError
from pluralrm.grading import Grade, Grader
from pluralrm.policies.generate import Network
from pluralrm.training.answering import Answered, answers_to
from pluralrm.training.job import TrainingJob
from pluralrm.training.measures import mean
from pluralrm.training.prompts import Prompt
from pluralrm.training.records import EvaluationLine
from pluralrm.training.rewards import rewarded


class Watched(NamedTuple):
    """The answers of the users who are watched, and the line about them."""

    answered: Answered
    line: EvaluationLine


def watch(job: TrainingJob, network: Network, prompts: Sequence[Prompt], step: int) -> Watched:
    """Return what the policy does after so many steps; None stands for a reward or a grade that failed."""
    draw = job.settings.draw_by(f"{job.seed}:held-out")  # the same at every step: common random numbers
    answered = answers_to(network, job.policy, prompts, draw, rows=job.settings.rows)
    # One answer to each: what compares answers has no score for it, which is no reason to stop.
    settled = rewarded(job.rewarder, answered.asked, job.settings.on_failure, spared="unsupported")
    graded = [] if job.grader is None else _graded(job.grader, answered)
    line = EvaluationLine(
        step=step,
        items=tuple(prompt.item.id for prompt in prompts),
        users=tuple(prompt.item.cluster for prompt in prompts),
        rewards=tuple(settled.rewards),
        grades=tuple(None if isinstance(one, Failure) else one for one in graded) or (None,) * len(prompts),
        failures=dict(sorted(Counter(one.kind for one in graded if isinstance(one, Failure)).items())),
        length=mean([len(one.ids) for one in answered.answers]),
    )
    return Watched(answered, line)


def _graded(grader: Grader, answered: Answered) -> list[Grade]:
    """Return the grade of each answer; one that says nothing has its own failure for it."""
    pairs = zip(answered.prompts, answered.texts, strict=True)
    asked = [(prompt.item, text) for prompt, text in pairs if isinstance(text, str)]
    graded = list(grader.grade(asked))
    if missing := sum(one.open for one in graded):
        raise OutageError(
            f"{grader.spec}: {missing} of {len(graded)} watched answers have no grade yet. What was trained is kept; "
            "the same command goes on"
        )
    given = iter(graded)
    return [next(given).grade if isinstance(text, str) else text for text in answered.texts]
