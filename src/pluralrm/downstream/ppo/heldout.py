"""The validation users, asked again and again with the same seeds: how reward, grade, length and KL come along."""

from collections.abc import Sequence
from dataclasses import dataclass

from pluralrm.core import Failure
from pluralrm.downstream.local import LocalPolicy
from pluralrm.downstream.ppo.actor import Actor
from pluralrm.downstream.ppo.answering import Answered, answers_to
from pluralrm.downstream.ppo.experience import look
from pluralrm.downstream.ppo.measures import mean, repetition
from pluralrm.downstream.ppo.prompts import Prompt
from pluralrm.downstream.ppo.records import EvaluationRecord
from pluralrm.downstream.ppo.rewards import Rewarder, rewarded
from pluralrm.downstream.ppo.settings import PpoSettings
from pluralrm.errors import OutageError
from pluralrm.grading import Grader


@dataclass(frozen=True)
class HeldOut:
    """Who is watched, and by whom; `grader` is None where nobody grades."""

    policy: LocalPolicy
    prompts: Sequence[Prompt]
    rewarder: Rewarder
    grader: Grader | None
    settings: PpoSettings
    seed: int

    def evaluate(self, actor: Actor, step: int) -> EvaluationRecord:
        """Return what the policy does after so many steps; None stands for a reward or a grade that failed."""
        draw = self.settings.draw_by(f"{self.seed}:held-out")  # the same at every step: common random numbers
        answered = answers_to(actor, self.policy, self.prompts, draw, rows=self.settings.rows)
        rewards = rewarded(self.rewarder, answered.asked, self.settings.on_failure).rewards
        return EvaluationRecord(
            step=step,
            items=tuple(prompt.item.id for prompt in self.prompts),
            users=tuple(prompt.item.cluster for prompt in self.prompts),
            rewards=tuple(rewards),
            grades=tuple(self._grades(answered)),
            length=mean([len(one.ids) for one in answered.answers]),
            repetition=mean([repetition(one.ids) for one in answered.answers]),
            **look(actor, answered, rows=self.settings.rows).told(),
        )

    def _grades(self, answered: Answered) -> list[float | None]:
        if self.grader is None:
            return [None] * len(answered.texts)
        pairs = zip(answered.prompts, answered.texts, strict=True)
        asked = [(prompt.item, text) for prompt, text in pairs if isinstance(text, str)]
        graded = list(self.grader.grade(asked))
        if missing := sum(one.open for one in graded):
            raise OutageError(
                f"{self.grader.spec}: {missing} of {len(graded)} watched answers have no grade yet. What was "
                "trained is kept; the same command goes on"
            )
        given = iter(graded)
        grades = [next(given).grade if isinstance(text, str) else text for text in answered.texts]
        return [None if isinstance(grade, Failure) else grade for grade in grades]
