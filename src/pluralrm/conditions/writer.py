"""A chat model that writes notes about users: posts in, notes out; what cannot be read is asked once more."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pluralrm.chat import ChatModel, ChatRequest, Sampling
from pluralrm.chat.replies import Errand, Markers, reader, settled
from pluralrm.chat.requests import identity_of
from pluralrm.core import Exchange, Failure, Query, UserView
from pluralrm.ordered import in_order
from pluralrm.templates import Template

Notes = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be written: how it is called and read, and what a second message asks for."""

    noun: str
    template: str
    read: Callable[[str], Notes | Failure]
    again: str
    question: bool
    """True where the question is shown beside the posts."""
    lead: str = ""
    """What each note begins with."""


class Written(NamedTuple):
    """A query, which shows the ranked posts, what was written of them or why nothing was, and what was said."""

    shown: Query
    notes: Notes | Failure
    exchanges: tuple[Exchange, ...]


@dataclass(frozen=True)
class Writer:
    """A chat model with a task. What it is shown are posts and, where the task says so, the question: nothing else."""

    task: Task
    template: Template
    sampling: Sampling
    reasoning: Markers | None
    chat: ChatModel = field(compare=False)

    @property
    def identity(self) -> Mapping[str, str]:
        """What must not change while a run is resumed: the model and its server, the template, every setting."""
        asked = {"sampling": repr(self.sampling), "reasoning": repr(self.reasoning)}
        return {**identity_of(self.chat), "template": self.template.hash, **asked}

    def write(self, shown: Iterable[Query]) -> Iterator[Written]:
        """Yield what is written for each query, in order; a user without posts has no notes."""
        read = reader(self.task.read, self.reasoning, self.sampling.max_tokens)

        def errand_for(query: Query) -> list[Errand[Notes]]:
            posts = query.user is not None and query.user.posts
            return [Errand(self._request(query), read, self.task.again, outcome=None if posts else ())]

        def settle(errands: Iterator[Errand[Notes]]) -> Iterator[Errand[Notes]]:
            return settled(self.chat, errands, self.reasoning)

        for query, (errand,) in in_order(shown, errand_for, settle):
            yield Written(query, self._notes(errand), errand.exchanges)

    def _request(self, query: Query) -> ChatRequest:
        """Return what is asked; neither candidates nor names are part of it, so equal posts make equal requests."""
        posts = query.user.posts if query.user else ()
        prompt = query.prompt if self.task.question else ""
        told = replace(query, id="", prompt=prompt, candidates=(), user=UserView("", posts))
        return ChatRequest((("user", self.template.render(told)),), self.sampling, template=self.template.hash)

    def _notes(self, errand: Errand[Notes]) -> Notes | Failure:
        found = errand.outcome or ()
        if isinstance(found, Failure):
            return Failure(found.kind, f"no {self.task.noun}: {found.detail}")
        return tuple(f"{self.task.lead}{note}" for note in found)
