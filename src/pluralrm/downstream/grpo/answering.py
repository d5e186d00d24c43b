"""Answers as PPO draws them, and their rewards: what TRL's trainer asks for in every step.

TRL is given token ids and numbers, no text: what the policy is shown and what the reward model reads is made here, by
the path of `sample` and of `score`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pluralrm.core import Failure
from pluralrm.downstream.generate import Network
from pluralrm.downstream.grpo.job import GrpoJob
from pluralrm.downstream.policies import answered
from pluralrm.downstream.ppo.prompts import Prompt
from pluralrm.downstream.ppo.rewards import Asked, Settled, Text, rewarded
from pluralrm.downstream.ppo.rollout import Answer, draw_answers
from pluralrm.errors import ModelError


class Drawn(NamedTuple):
    """Answers to prompts, in order, and what became of their rewards."""

    answers: Sequence[Answer]
    settled: Settled


def draw(job: GrpoJob, network: Network, prompts: Sequence[Prompt], *, seed: str) -> Drawn:
    """Return one answer to each prompt with its reward; the model is asked once for each."""
    chosen = job.settings
    how = chosen.draw_by(seed)
    seeds = [how.seed_of(prompt.item.id, place) for place, prompt in enumerate(prompts)]
    answers = draw_answers(network, [prompt.ids for prompt in prompts], seeds, how, rows=chosen.rows)
    texts = [_text(job, network, prompt, one) for prompt, one in zip(prompts, answers, strict=True)]
    return Drawn(answers, rewarded(job.rewarder, _asked(prompts, texts), chosen.on_failure))


def of_answers(drawn: Drawn, ids: Sequence[Sequence[int]]) -> list[float | None]:
    """Return the rewards of the answers that TRL asks about; ModelError where others were drawn."""
    if [tuple(one) for one in ids] != [one.ids for one in drawn.answers]:
        raise ModelError(
            "TRL asks for rewards of other answers than were drawn; wanted trl 1.16: pip install trl==1.16"
        )
    return drawn.settled.rewards


def _text(job: GrpoJob, network: Network, prompt: Prompt, answer: Answer) -> Text:
    """Return what the answer says, read as `sample` reads it."""
    written = prompt.opened + network.text(answer.spoken)
    said = answered(written, job.policy.reasoning, cut=answer.cut, tokens=len(answer.spoken))
    return said if isinstance(said, Failure) else said.text


def _asked(prompts: Sequence[Prompt], texts: Sequence[Text]) -> list[Asked]:
    """Return answers that stand beside each other and are to one item together."""
    found: list[Asked] = []
    for prompt, text in zip(prompts, texts, strict=True):
        if found and found[-1].item.id == prompt.item.id:
            found[-1] = found[-1]._replace(answers=(*found[-1].answers, text))
        else:
            found.append(Asked(prompt.item, (text,)))
    return found
