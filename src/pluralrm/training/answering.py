"""From prompts to answers, as text and as tokens."""

from collections.abc import Sequence
from typing import NamedTuple

from pluralrm.core import Failure
from pluralrm.policies.draw import Draw
from pluralrm.policies.generate import Network
from pluralrm.policies.local import LocalPolicy
from pluralrm.policies.policies import answered
from pluralrm.training.prompts import Prompt
from pluralrm.training.rewards import Asked, Text
from pluralrm.training.rollout import Answer, draw_answers


class Answered(NamedTuple):
    """The answers to some prompts, in their order."""

    prompts: Sequence[Prompt]
    answers: Sequence[Answer]
    texts: Sequence[Text]

    @property
    def asked(self) -> list[Asked]:
        """What rewards are wanted for: answers that stand beside each other and are to one item go together."""
        found: list[Asked] = []
        for prompt, text in zip(self.prompts, self.texts, strict=True):
            if found and found[-1].item.id == prompt.item.id:
                found[-1] = found[-1]._replace(answers=(*found[-1].answers, text))
            else:
                found.append(Asked(prompt.item, (text,)))
        return found


def answers_to(network: Network, policy: LocalPolicy, prompts: Sequence[Prompt], draw: Draw, *, rows: int) -> Answered:
    """Return one answer to each prompt; its seed is derived from the draw's, the item and the place."""
    seeds = [draw.seed_of(prompt.item.id, place) for place, prompt in enumerate(prompts)]
    answers = draw_answers(network, [prompt.ids for prompt in prompts], seeds, draw, rows=rows)
    texts = [_text(network, policy, prompt, one) for prompt, one in zip(prompts, answers, strict=True)]
    return Answered(prompts, answers, texts)


def _text(network: Network, policy: LocalPolicy, prompt: Prompt, answer: Answer) -> Text:
    """Return what the answer says, read as `sample` reads it."""
    written = prompt.opened + network.text(answer.spoken)
    said = answered(written, policy.reasoning, cut=answer.cut, tokens=len(answer.spoken))
    return said if isinstance(said, Failure) else said.text
