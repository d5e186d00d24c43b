"""`lm:FOLDER`: a language model in a folder, or on the hub, as a policy; prompts are assembled as those of `hf:`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby

from pluralrm.chat.completions import Markers
from pluralrm.chat.role import reasoning_markers
from pluralrm.core import Failure, Query
from pluralrm.errors import SpecError
from pluralrm.http import Settings
from pluralrm.models.neural.folder import ModelFolder
from pluralrm.models.neural.kind import chat_assembler, folder_of, template_of
from pluralrm.models.neural.loading import settings
from pluralrm.models.neural.prompts import Assembler
from pluralrm.policies.generate import Network, continuations, open_network
from pluralrm.policies.policy import AnswerRequest, Draw, PolicyAnswer, policy_answer
from pluralrm.specs import Spec
from pluralrm.templates import Message, Template

_BATCH = 16


@dataclass(frozen=True)
class LocalPolicy:
    """A language model that answers prompts, `batch` answers to one prompt at a time."""

    spec: str
    template: Template
    prompts: Assembler
    network: Callable[[], Network]
    """Opens the weights on its first call, and returns the same afterwards."""
    folder: ModelFolder
    reasoning: Markers | None = None
    batch: int = _BATCH
    prompt_tokens: int | None = None
    """Of a prompt at most; None where only the model's own length limits it."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What must not change while a pool is resumed; files are hashed, no weight is held in memory."""
        return {
            "revision": self.folder.revision,
            "weights": self.folder.hash(),
            "template": self.template.hash,
            "chat template": self.prompts.template.hash,
            "reasoning": repr(self.reasoning),
            "batch": str(self.batch),
            **({} if self.prompt_tokens is None else {"prompt tokens": str(self.prompt_tokens)}),
        }

    def answer(self, asks: Iterable[AnswerRequest], draw: Draw) -> Iterator[PolicyAnswer | Failure]:
        """Yield one answer per ask, in order; a prompt that leaves no room for the longest answer has none."""
        prompts = self.leaving_room(draw.max_tokens)
        for _, several in groupby(asks, key=lambda ask: ask.query.id):
            yield from self._answers(list(several), prompts, draw)

    def _answers(
        self, asks: Sequence[AnswerRequest], prompts: Assembler, draw: Draw
    ) -> Iterator[PolicyAnswer | Failure]:
        query = asks[0].query
        assembled = prompts.assemble(query, self.conversations)
        [encoded] = assembled.sequences
        if isinstance(encoded, Failure):
            yield from [encoded] * len(asks)
            return
        kept = assembled.posts_kept if query.user is not None and query.user.posts else None
        network, seeds, width = self.network(), [ask.seed for ask in asks], min(self.batch, draw.n)
        opened = self.opened(query)
        for one in continuations(network, encoded.ids, seeds, draw, width=width):
            text = opened + network.text(one.ids)
            yield policy_answer(text, self.reasoning, cut=one.cut, tokens=len(one.ids), posts_kept=kept)

    def conversations(self, query: Query) -> list[list[Message]]:
        """Return the one conversation that a query is to a policy: it is the assistant's turn."""
        return [self.template.turns(query)]

    def opened(self, query: Query) -> str:
        """Return what opens a reasoning block where the chat template opens one itself, else nothing."""
        if self.reasoning is None:
            return ""
        [turns] = self.conversations(query)
        prompt = self.prompts.template.render(turns, prompting=True)
        return self.reasoning.open if prompt.rstrip().endswith(self.reasoning.open) else ""

    def leaving_room(self, tokens: int) -> Assembler:
        """Return the assembler of prompts of `prompt_tokens` at most, after which an answer of so many tokens fits."""
        limit = self.prompts.limit
        if limit is not None and limit <= tokens:
            raise SpecError(f"max_tokens is {tokens}; this model reads at most {limit} tokens, the prompt included")
        known = [self.prompt_tokens, None if limit is None else limit - tokens]
        least = min((one for one in known if one is not None), default=None)
        return Assembler(self.prompts.template, self.prompts.tokenizer, least)


def lm(spec: Spec, _: Settings | None) -> LocalPolicy:
    """Return the policy of `lm:FOLDER`."""
    template, folder, chosen = template_of(spec), folder_of(spec), settings(spec)
    return LocalPolicy(
        spec=str(spec),
        template=template,
        prompts=chat_assembler(spec, folder),
        network=cache(lambda: open_network(folder, chosen)),
        folder=folder,
        reasoning=reasoning_markers(spec),
        batch=spec.integer("batch", _BATCH, least=1),
        prompt_tokens=spec.integer("prompt_tokens", 0, least=1) if "prompt_tokens" in spec.options else None,
    )
