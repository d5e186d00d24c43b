"""`chat:MODEL`: a policy behind an OpenAI-compatible server. Its replies are kept, recorded and replayed as a judge's.

>>> from pluralrm.chat import ScriptedChat
>>> from pluralrm.core import Query
>>> policy = open_chat("chat:scripted", chat=ScriptedChat(lambda request: f"Rye, says {request.tag}."))
>>> [said.text for said in policy.answer([Ask(Query("q1", "Which flour?", ()), 0, seed=7)], Draw(n=1))]
['Rye, says q1 0.']
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from pluralrm.chat import ChatModel, ChatReply, ChatRequest, Sampling
from pluralrm.chat.completions import whole
from pluralrm.chat.role import ChatRole, open_role
from pluralrm.core import Failure
from pluralrm.http import Settings, Tally
from pluralrm.policies.draw import Draw
from pluralrm.policies.policies import Ask, Said, answered, parse_policy
from pluralrm.specs import Spec
from pluralrm.templates import DEFAULT, Message, load_template


@dataclass(frozen=True)
class ChatPolicy:
    """A chat model that answers prompts."""

    spec: str
    role: ChatRole

    @property
    def identity(self) -> Mapping[str, str]:
        """What must not change while a pool is resumed: the model and its server, the template."""
        return {**self.role.identity, "reasoning": repr(self.role.reasoning)}

    @property
    def tally(self) -> Tally:
        """What was asked so far."""
        return self.role.tally

    def answer(self, asks: Iterable[Ask], draw: Draw) -> Iterator[Said | Failure]:
        """Yield one answer or failure per ask, in order; PrivacyError at posts that may not be sent."""
        for reply in self.role.chat.complete(self._requests(asks, draw)):
            yield reply if isinstance(reply, Failure) else self._said(reply)

    def _requests(self, asks: Iterable[Ask], draw: Draw) -> Iterator[ChatRequest]:
        query, turns = None, tuple[Message, ...]()  # one conversation for all answers to a query
        for ask in asks:
            if ask.query is not query:
                query, turns = ask.query, tuple(self.role.template.turns(ask.query))
            role = replace(self.role, sampling=Sampling(draw.temperature, draw.top_p, draw.max_tokens, ask.seed))
            tag, stand_in = f"{query.id} {ask.index}", f"Answer {ask.index} to {query.id}."
            yield role.request(turns, public=not query.private, tag=tag, stand_in=stand_in)

    def _said(self, reply: ChatReply) -> Said | Failure:
        cut = reply.finish_reason == "length"
        text = reply.text if cut else whole(reply)
        if isinstance(text, Failure):
            return text
        tokens = None if reply.usage is None else reply.usage.completion
        return answered(text, self.role.reasoning, cut=cut, tokens=tokens)


def chat(spec: Spec, settings: Settings | None) -> ChatPolicy:
    """Return the policy of `chat:MODEL`."""
    return open_chat(spec, settings=settings)


def open_chat(spec: Spec | str, *, chat: ChatModel | None = None, settings: Settings | None = None) -> ChatPolicy:
    """Return the policy; `chat` stands in for the server that the spec names, `settings` say how one is used."""
    if isinstance(spec, str):
        spec = parse_policy(spec)
    template = load_template(spec.options.get("template", DEFAULT))
    return ChatPolicy(str(spec), open_role(spec, template, Sampling(), chat=chat, settings=settings))
