"""A chat model that writes notes about users: posts in, notes out; what cannot be read is asked once more.

Requests are handed to the chat model as it has room for them, so that later ones are on their way while earlier replies
are read. A second try joins that stream as soon as its first is known to be unreadable.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from pluralrm.chat import ChatModel, ChatReply, ChatRequest, Sampling
from pluralrm.chat.reading import Markers, reason_of, spoken, whole
from pluralrm.core import Exchange, Failure, Identified, Query, UserView
from pluralrm.templates import Template

Notes = tuple[str, ...]
_NOTHING = "(no text)"
"""What stands for an empty reply in the conversation that goes on: some servers refuse a message without text."""


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


@dataclass(slots=True)
class Errand:
    """A query on its way; `shown` has the ranked posts. `notes` is None until it is known what came of it."""

    shown: Query
    request: ChatRequest
    notes: Notes | Failure | None = None
    unread: Failure | None = None
    text: str = ""
    exchanges: list[Exchange] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Line:
    """Errands whose notes have not been handed out, those without a reply, and those to be asked once more."""

    errands: deque[Errand] = field(default_factory=deque)
    sent: deque[Errand] = field(default_factory=deque)
    unread: deque[Errand] = field(default_factory=deque)


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
        served = self.chat.identity if isinstance(self.chat, Identified) else {"model": self.chat.name}
        asked = {"sampling": repr(self.sampling), "reasoning": repr(self.reasoning)}
        return {**served, "template": self.template.hash, **asked}

    def write(self, shown: Iterable[Query]) -> Iterator[Errand]:
        """Yield one errand with its notes per query, in order; a user without posts has no notes."""
        line = _Line()
        for reply in self.chat.complete(self._requests(shown, line)):
            self._settle(line.sent.popleft(), reply, line)
            yield from _settled(line)
        for reply in self.chat.complete(self._second_tries(line)):  # of requests that were among the last
            self._settle(line.sent.popleft(), reply, line)
            yield from _settled(line)
        yield from _settled(line)

    # ------------------------------------------------------------ asking

    def _requests(self, shown: Iterable[Query], line: _Line) -> Iterator[ChatRequest]:
        """Yield every request, and note in the line what its reply will belong to."""
        for query in shown:
            yield from self._second_tries(line)
            errand = Errand(query, self._request(query))
            line.errands.append(errand)
            if query.user is None or not query.user.posts:
                errand.notes = ()
                continue
            line.sent.append(errand)
            yield errand.request

    def _second_tries(self, line: _Line) -> Iterator[ChatRequest]:
        """Yield the request that asks once more, with the reason in a further message, for each unread errand."""
        while line.unread:
            errand = line.unread.popleft()
            errand.request = self._second(errand)
            line.sent.append(errand)
            yield errand.request

    def _request(self, query: Query) -> ChatRequest:
        """Return what is asked; neither candidates nor names are part of it, so equal posts make equal requests."""
        posts = query.user.posts if query.user else ()
        prompt = query.prompt if self.task.question else ""
        told = replace(query, id="", prompt=prompt, candidates=(), user=UserView("", posts))
        return ChatRequest((("user", self.template.render(told)),), self.sampling, template=self.template.hash)

    def _second(self, errand: Errand) -> ChatRequest:
        reason = reason_of(errand.unread) if errand.unread else ""
        said = spoken(errand.text, self.reasoning)
        before = said.strip() if isinstance(said, str) else ""
        asked = f"This cannot be used: {reason}. {self.task.again}"
        messages = (*errand.request.messages, ("assistant", before or _NOTHING), ("user", asked))
        return replace(errand.request, messages=messages)

    # ------------------------------------------------------------ reading

    def _settle(self, errand: Errand, reply: ChatReply | Failure, line: _Line) -> None:
        """Give an errand its notes; what cannot be read for the first time goes to `line.unread`."""
        notes = reply if isinstance(reply, Failure) else self._read(errand, reply)
        if isinstance(reply, ChatReply) and isinstance(notes, Failure) and notes.kind == "parse" and not errand.unread:
            errand.unread = notes
            line.unread.append(errand)
        elif isinstance(notes, Failure):
            errand.notes = Failure(notes.kind, f"no {self.task.noun}: {notes.detail}")
        else:
            errand.notes = tuple(f"{self.task.lead}{note}" for note in notes)

    def _read(self, errand: Errand, reply: ChatReply) -> Notes | Failure:
        errand.text = reply.text
        errand.exchanges.append(Exchange(errand.request.messages[-1][1], reply.text))
        said = whole(reply, self.reasoning, self.sampling.max_tokens)
        return said if isinstance(said, Failure) else self.task.read(said)


def _settled(line: _Line) -> Iterator[Errand]:
    """Yield the errands at the head of the line of which it is known what came."""
    while line.errands and line.errands[0].notes is not None:
        yield line.errands.popleft()
