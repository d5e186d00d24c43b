"""What a server is shown of a query: messages for its own chat template, or a text rendered by one from here.

All of the query is sent, or as many of its posts as the server reads, the least relevant dropped first. This is
`models/neural/prompts.py` with the tokenizer at the other end of a line: where it must be asked, several queries are
asked about in one go.
"""

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from pluralrm.core import Failure, Query
from pluralrm.errors import ModelError, SpecError
from pluralrm.models.neural.folder import CONFIG_FILE, ChatTemplate, load_chat_template
from pluralrm.templates import Message, Template, keeping

PLAIN = "plain"
"""`chat=plain`: question and answer with an empty line between them, for rewards that know no chat."""
_PLAIN_SOURCE = (
    "{% for message in messages %}{{ message.content }}"
    "{% if add_generation_prompt or not loop.last %}{{ '\n\n' }}{% endif %}{% endfor %}"
)
_NAMED = re.compile(r"\b(?:bos|cls|eos|mask|pad|sep|unk)_token\b")
BOS = "bos_token"


class SentConversation(NamedTuple):
    """One candidate's conversation as it is sent."""

    messages: tuple[Message, ...]
    text: str | None = None
    """The whole of it, where a chat template from here wrote it; None where the server's own does."""
    prompt: str = ""
    """The text up to where the answer begins."""
    public: bool = False
    """Whether nothing of it was written by a user."""

    @property
    def size(self) -> int:
        """Bytes of what is sent (UTF-8): no text has more tokens, apart from those that a chat template adds."""
        texts = [message.content for message in self.messages] if self.text is None else [self.text]
        return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


@dataclass(frozen=True, slots=True)
class Speech:
    """The way from a query to what is sent; without `chat` the server's own chat template writes the text."""

    template: Template
    chat: ChatTemplate | None = None

    def of(self, query: Query) -> list[SentConversation]:
        """Return one conversation per candidate, in which it is the assistant's turn."""
        turns = self.template.turns(query)
        return [self._said(turns, answer)._replace(public=not query.private) for answer in query.candidates]

    def say(self, question: str, answer: str) -> SentConversation:
        """Return the conversation of a question and its answer."""
        return self._said([Message("user", question)], answer)

    def _said(self, turns: Sequence[Message], answer: str) -> SentConversation:
        messages = (*turns, Message("assistant", answer))
        if self.chat is None:
            return SentConversation(messages)
        return SentConversation(messages, self.chat.render(messages), self.chat.render(turns, prompting=True))

    @property
    def bos(self) -> str:
        """The BOS that the chat template writes, as a text; empty where it is not known."""
        return self.chat.special.get(BOS, "") if self.chat else ""

    def without_bos(self) -> "Speech":
        """Return the same without the BOS: some servers put one before every text."""
        if self.chat is None:
            return self
        return replace(self, chat=replace(self.chat, special={**self.chat.special, BOS: ""}))

    @property
    def facts(self) -> dict[str, str]:
        """What the identity keeps."""
        return {"template": self.template.hash, "chat template": self.chat.hash if self.chat else "the server's"}


def chat_template(kind: str, source: str) -> ChatTemplate:
    """Return the chat template that `chat=` names: `plain`, a folder with a tokenizer, or a file beside or without one.

    One that names a special token that nothing here spells is refused: it would be left out without a word.
    """
    if source == PLAIN:
        return ChatTemplate(_PLAIN_SOURCE)
    path = Path(source)
    if not path.exists():
        raise SpecError(
            f"{kind}: chat is {source!r}, which is not there; wanted the folder of the model's tokenizer, "
            f"a .jinja file, or {PLAIN!r}"
        )
    folder = path if path.is_dir() else path.parent
    template = load_chat_template(folder, None if path.is_dir() else path)
    named_tokens = sorted(set(_NAMED.findall(template.source)))
    if named_tokens and not (folder / CONFIG_FILE).is_file():
        raise ModelError(
            f"{kind}: the chat template {source!r} writes {named_tokens[0]}, and there is no {CONFIG_FILE} beside it "
            "that says what that is. Name the folder of the model's tokenizer: chat=FOLDER"
        )
    return template


Count = int | Failure
Counter = Callable[[Sequence[SentConversation]], Iterable[Count]]
"""How long conversations are, in the order given."""
Speaker = Callable[[Query], list[SentConversation]]


# ---------------------------------------------------------------- what fits


class FittedQuery(NamedTuple):
    """What is sent for each candidate of a query, how long it is where that was counted, and how many posts it has."""

    query: Query
    sent: tuple[SentConversation | Failure, ...]
    counts: tuple[int | None, ...]
    posts_kept: int


@dataclass(frozen=True, slots=True)
class Room:
    """How much a server reads; without a limit nothing is dropped, and the server itself refuses what is too long."""

    limit: int | None
    spare: int = 0
    """What a chat template adds, in the unit of the limit."""
    unit: str = "tokens"

    def surely(self, conversations: Sequence[SentConversation]) -> bool:
        """Return whether all fit without counting: no token is shorter than a byte."""
        return self.limit is None or all(conversation.size + self.spare <= self.limit for conversation in conversations)


def fitted(queries: Iterable[Query], speak: Speaker, room: Room, count: Counter) -> Iterator[FittedQuery]:
    """Yield what is sent of each query, in order."""
    source = iter(queries)
    while some := list(islice(source, _TOGETHER)):
        yield from _side_by_side([_search(query, speak, room) for query in some], count)


_TOGETHER = 32
"""Queries whose lengths are asked for together."""

_Search = Generator[list[SentConversation], Sequence[Count], FittedQuery]


def _side_by_side(searches: Sequence[_Search], count: Counter) -> list[FittedQuery]:
    """Return what each search finds; what they want to know in one round is counted in one go."""
    done: dict[int, FittedQuery] = {}
    requests: dict[int, list[SentConversation]] = {}

    def go_on(index: int, counts: Sequence[Count] | None) -> None:
        try:
            requests[index] = searches[index].send(counts) if counts is not None else next(searches[index])
        except StopIteration as stop:
            done[index] = stop.value

    for number in range(len(searches)):
        go_on(number, None)
    while requests:
        pending, requests = requests, {}
        counts = iter(count([conversation for conversations in pending.values() for conversation in conversations]))
        for number, conversations in pending.items():
            go_on(number, list(islice(counts, len(conversations))))
    return [done[index] for index in range(len(searches))]


# ---------------------------------------------------------------- one query


class _Measured(NamedTuple):
    """The conversations of a query with some of its posts, and how long each is."""

    said: list[SentConversation]
    counts: list[int]

    def fit(self, limit: int, which: Iterable[bool]) -> bool:
        """Return whether some of them fit."""
        return all(count <= limit for count, needed in zip(self.counts, which, strict=True) if needed)


class _LostError(Exception):
    """A length that the server did not give."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.detail)


def _search(query: Query, speak: Speaker, room: Room) -> _Search:
    """Yield conversations to be counted, take their counts, and return what is sent.

    Where one length is missing, nothing is sent: all candidates have to show as many posts.
    """
    width = len(query.candidates)
    try:
        return (yield from _most_posts(query, speak, room))
    except _LostError as lost:
        return FittedQuery(query, (lost.failure,) * width, (None,) * width, 0)


def _most_posts(query: Query, speak: Speaker, room: Room) -> _Search:
    posts = len(query.user.posts) if query.user else 0
    whole = speak(query)
    if room.limit is None or room.surely(whole):
        return FittedQuery(query, tuple(whole), (None,) * len(whole), posts)
    measures = {posts: (yield from _measured(query, speak, posts))}
    if measures[posts].fit(room.limit, (True,) * len(whole)):
        return FittedQuery(query, tuple(whole), tuple(measures[posts].counts), posts)
    if posts:
        measures[0] = yield from _measured(query, speak, 0)
    can = [count <= room.limit for count in measures[0].counts]
    most, ceiling = 0, posts + 1 if any(can) else 1
    while ceiling - most > 1:  # without any post all fit that can; the more posts, the longer
        middle = (most + ceiling) // 2
        if middle not in measures:
            measures[middle] = yield from _measured(query, speak, middle)
        most, ceiling = (middle, ceiling) if measures[middle].fit(room.limit, can) else (most, middle)
    return _cut(query, measures[most], measures[0], can=can, room=room)._replace(posts_kept=most)


def _measured(
    query: Query, speak: Speaker, posts: int
) -> Generator[list[SentConversation], Sequence[Count], _Measured]:
    conversations = speak(keeping(query, posts))
    counts = yield conversations
    for count in counts:
        if isinstance(count, Failure):
            raise _LostError(count)
    return _Measured(conversations, [count for count in counts if isinstance(count, int)])


def _cut(query: Query, measure: _Measured, bare: _Measured, *, can: Sequence[bool], room: Room) -> FittedQuery:
    """Return what is sent with the posts that fit; what is too long without any has failed."""
    failures = [Failure("too_long", f"{count} {room.unit}, limit {room.limit}") for count in bare.counts]
    sent = zip(measure.said, failures, can, strict=True)
    counts = zip(measure.counts, can, strict=True)
    return FittedQuery(
        query,
        tuple(conversation if able else failure for conversation, failure, able in sent),
        tuple(count if able else None for count, able in counts),
        0,
    )
