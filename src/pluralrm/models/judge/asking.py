"""The judge itself: queries in, calls out, replies read, what cannot be read asked once more, verdicts in order.

Calls are handed to the chat model one by one as it has room for them, so that later ones are on their way while earlier
replies are read. A second try joins that stream as soon as its first is known to be unreadable.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from pluralrm.chat import ChatModel, ChatReply, ChatRequest
from pluralrm.chat.reading import Markers, reason_of, spoken, whole
from pluralrm.core import Failure, Identified, Query, Verdict
from pluralrm.errors import ModelError
from pluralrm.http import Metered, Tally
from pluralrm.models.judge.calls import Asked, Call
from pluralrm.models.judge.fences import fenced, mark_of
from pluralrm.models.judge.styles import Order, Outcome, Style
from pluralrm.models.judge.verdicts import without_copies
from pluralrm.templates import Template

_NOTHING = "(no text)"
"""What stands for an empty reply in the conversation that goes on: some servers refuse a message without text."""


@dataclass(frozen=True, slots=True)
class _Line:
    """What is on its way: queries without a verdict, calls without a reply, and calls to be asked once more."""

    queries: deque[Asked] = field(default_factory=deque)
    sent: deque[Call] = field(default_factory=deque)
    unread: deque[Call] = field(default_factory=deque)


@dataclass(frozen=True)
class Judge:
    """A chat model that is asked for verdicts in one style.

    `may_send` allows that what a user wrote leaves this machine.
    """

    spec: str
    chat: ChatModel
    style: Style
    template: Template
    seed: int = 0
    reasoning: Markers | None = None
    may_send: bool = False
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def identity(self) -> Mapping[str, str]:
        """What must not change while a run is resumed: the model and its server, the template, every setting."""
        served = self.chat.identity if isinstance(self.chat, Identified) else {"model": self.chat.name}
        return {**served, "template": self.template.hash, **self.facts}

    @property
    def tally(self) -> Tally:
        """What was asked so far; nothing where the chat model keeps no account, as a script does."""
        return self.chat.tally if isinstance(self.chat, Metered) else Tally()

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        """Yield one Verdict per query, in order; ModelError where a query shows posts that may not be sent."""
        line = _Line()
        for reply in self.chat.complete(self._requests(queries, line)):
            self._settle(line.sent.popleft(), reply, line)
            yield from self._verdicts(line)
        for reply in self.chat.complete(self._second_tries(line)):  # of calls that were among the last
            self._settle(line.sent.popleft(), reply, line)
        yield from self._verdicts(line)

    def _verdicts(self, line: _Line) -> Iterator[Verdict]:
        """Yield the verdicts at the head of the line that are decided."""
        while line.queries and line.queries[0].decided:
            yield line.queries.popleft().verdict(self.style)

    # ------------------------------------------------------------ asking

    def _requests(self, queries: Iterable[Query], line: _Line) -> Iterator[ChatRequest]:
        """Yield every request, and note in the line what its reply will belong to."""
        for query in queries:
            self._check_sending(query)
            asked = Asked(query, [self._call(query, order) for order in self.style.orders(query)])
            line.queries.append(asked)
            for call in asked.calls:
                yield from self._second_tries(line)
                line.sent.append(call)
                yield call.request

    def _second_tries(self, line: _Line) -> Iterator[ChatRequest]:
        """Yield the request that asks once more, with the reason in a further message, for each unread call."""
        while line.unread:
            call = line.unread.popleft()
            call.request = self._second(call)
            line.sent.append(call)
            yield call.request

    def _check_sending(self, query: Query) -> None:
        told = query.notes or (query.user is not None and (query.user.posts or query.user.pairs))
        if told and not (self.may_send or self.chat.local):
            raise ModelError(
                f"{self.spec}: the judge is not on this machine, and item {query.id!r} shows it what a user wrote. "
                "Allow that with send=posts in the spec (which --send-posts writes there), or choose a condition that "
                "shows nothing of the user, such as 'none'"
            )

    def _call(self, query: Query, order: Order) -> Call:
        answers = [query.candidates[place] for place in order]
        mark = mark_of(answers, f"{query.id}\n{query.prompt}", seed=self.seed)
        named = zip(self.style.names(len(order)), answers, strict=True)
        text = self.template.render(query, [fenced(name, answer, mark) for name, answer in named])
        request = ChatRequest((("user", text),), self.style.sampling, template=self.template.hash)
        return Call(query, order, request)

    def _second(self, call: Call) -> ChatRequest:
        reason = reason_of(call.unread) if call.unread else ""
        said = spoken(call.text, self.reasoning)
        before = said.strip() if isinstance(said, str) else ""
        asked = f"No verdict can be read from this: {reason}. {self.style.again}"
        return replace(
            call.request, messages=(*call.request.messages, ("assistant", before or _NOTHING), ("user", asked))
        )

    # ------------------------------------------------------------ reading

    def _settle(self, call: Call, reply: ChatReply | Failure, line: _Line) -> None:
        """Give a call its outcome; what cannot be read for the first time goes to `line.unread`."""
        if isinstance(reply, Failure):
            call.outcome = reply
            return
        call.keep(reply)
        outcome = self._outcome(call, reply)
        if isinstance(outcome, Failure) and outcome.kind == "parse" and call.unread is None:
            call.unread = outcome
            line.unread.append(call)
        else:
            call.outcome = outcome

    def _outcome(self, call: Call, reply: ChatReply) -> Outcome:
        if not self.style.whole and reply.finish_reason != "content_filter":
            return self.style.read(reply.text, reply, len(call.order))
        said = whole(reply, self.reasoning, self.style.sampling.max_tokens)
        if isinstance(said, Failure):
            return said
        return self.style.read(without_copies(said, call.answers), reply, len(call.order))
