"""The one way from a Query to token ids: rendered, encoded whole, posts dropped where it is too long.

Nothing here is found by lengths of strings. Where an answer begins and ends is seen from the ids: they are compared
with those of the same conversation with other answers.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_letters, digits
from typing import NamedTuple

from pluralrm.core import Failure, Query
from pluralrm.errors import SpecError
from pluralrm.models.neural.chat import ChatTemplate
from pluralrm.models.neural.tokens import StandIns, Tokenizer, shared
from pluralrm.templates import Message

Conversation = Sequence[Message]
Speaker = Callable[[Query], Sequence[Conversation]]
"""All the conversations that one query asks about; as many, in one order, however many posts the query has."""

ANSWERS = "assistant"
_PROBES = f"x7{ascii_letters}{digits}"
"""Two of these stand in for any answer: as they share no token, what both leave alike is not shaped by an answer."""

_LENGTHS = ("max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length", "max_seq_len", "seq_length")
_UNSET = 10**9
"""Tokenizers that know no limit say a number far beyond this."""


class Encoded(NamedTuple):
    """A whole conversation as token ids, special tokens included, nothing cut."""

    ids: tuple[int, ...]
    start: int
    """First token that the assistant's text shapes."""
    end: int
    """One past the last; `start == end` where the text is empty, or where it is the assistant's turn to speak."""
    second: int = 0
    """For pairs, where the tokenizer's own type ids turn from 0 to 1; 0 where they do not."""


class Assembled(NamedTuple):
    """What a query's conversations became, in the order asked for, and how many posts are in all of them."""

    sequences: tuple[Encoded | Failure, ...]
    posts_kept: int


class Assembler:
    """Conversations through a chat template, encoded whole.

    A conversation that ends with the user is rendered up to where the assistant would speak.
    """

    def __init__(self, template: ChatTemplate, tokenizer: Tokenizer, limit: int | None = None) -> None:
        self.template = template
        self.tokenizer = tokenizer
        self.limit = limit
        self._probes = [*tokenizer.told_apart(_PROBES), *_PROBES][:2]

    def assemble(self, query: Query, conversations: Speaker) -> Assembled:
        """Return the sequences of a query; posts are dropped from the end, for all alike, until they fit the limit."""
        return _fitted(query, conversations, self._encode, self.limit)

    def _encode(self, conversations: Sequence[Conversation]) -> list[Encoded]:
        stand_ins = self.tokenizer.stand_ins(_contents(conversations), avoiding=self.template.source)
        heads = list(dict.fromkeys(tuple(turns[:-1]) for turns in conversations if _answered(turns)))
        probes = [(*head, Message(ANSWERS, text)) for head in heads for text in self._probes]
        texts = [self._render(turns, stand_ins) for turns in [*conversations, *probes]]
        ids = self.tokenizer.encode(texts, stand_ins)
        probed = ids[len(conversations) :]
        around = {
            head: _Surroundings.between(one, other, blank=self._render((*head, Message(ANSWERS, "")), stand_ins))
            for head, one, other in zip(heads, probed[::2], probed[1::2], strict=True)
        }
        return [
            around[tuple(turns[:-1])].spanned(found, text)
            if _answered(turns)
            else Encoded(found, len(found), len(found))
            for turns, text, found in zip(conversations, texts, ids, strict=False)
        ]

    def _render(self, turns: Conversation, stand_ins: StandIns) -> str:
        hidden = [Message(turn.role, self.tokenizer.hide(turn.content, stand_ins)) for turn in turns]
        return self.template.render(hidden, prompting=not _answered(turns))


@dataclass(frozen=True, slots=True)
class PairAssembler:
    """(question, answer) by the tokenizer's own encoding of two texts, for encoders that know no chat.

    The question is all that comes before the last turn; roles are not written.
    """

    tokenizer: Tokenizer
    limit: int | None = None

    def assemble(self, query: Query, conversations: Speaker) -> Assembled:
        """Return the sequences of a query; posts are dropped from the end, for all alike, until they fit the limit."""
        return _fitted(query, conversations, self._encode, self.limit)

    def _encode(self, conversations: Sequence[Conversation]) -> list[Encoded]:
        questions = ("\n\n".join(turn.content for turn in turns[:-1]) for turns in conversations)
        pairs = [(question, turns[-1].content) for question, turns in zip(questions, conversations, strict=True)]
        return [Encoded(*pair) for pair in self.tokenizer.encode_pairs(pairs)]


def sequence_limit(config: Mapping[str, object], model_max_length: int, wanted: int | None) -> int | None:
    """Return how many tokens a sequence may have, or None where neither model nor user says.

    That is the least of the config's positions, the tokenizer's length and what is wanted; wanting more is a SpecError.
    """
    nested = config.get("text_config")
    configs = (config, nested) if isinstance(nested, Mapping) else (config,)
    known = [found for one in configs for name in _LENGTHS if isinstance(found := one.get(name), int) and found > 0]
    own = min([*known, *([model_max_length] if 0 < model_max_length < _UNSET else [])], default=None)
    if wanted is None or own is None:
        return own if wanted is None else wanted
    if wanted > own:
        raise SpecError(f"max_tokens is {wanted}; this model reads at most {own} tokens")
    return wanted


# ---------------------------------------------------------------- the answer's span


class _Surroundings(NamedTuple):
    """What a conversation is around its last answer, learned from two probes in the answer's place."""

    ids: tuple[int, ...]
    """With one of the probes."""
    before: int
    after: int
    """How many ids the probes share at each side."""
    blank: str
    """The text without an answer."""

    @classmethod
    def between(cls, one: tuple[int, ...], other: tuple[int, ...], *, blank: str) -> "_Surroundings":
        """Return the surroundings that two probes have in common."""
        return cls(one, shared(one, other), shared(one[::-1], other[::-1]), blank)

    def spanned(self, ids: tuple[int, ...], text: str) -> Encoded:
        """Return the ids with the answer's place in them."""
        # An answer may begin with the very token of one probe, and then not with that of the other: so no more is
        # shared with all answers than the probes share with each other.
        start = shared(ids, self.ids, self.before)
        end = len(ids) - shared(ids[::-1], self.ids[::-1], self.after)
        return Encoded(ids, start, start if text == self.blank else max(start, end))


def _awaiting(ids: tuple[int, ...]) -> Encoded:
    """Return the ids of a conversation in which the assistant has yet to speak."""
    return Encoded(ids, len(ids), len(ids))


def _answered(turns: Conversation) -> bool:
    return turns[-1].role == ANSWERS


def _contents(conversations: Sequence[Conversation]) -> set[str]:
    return {turn.content for turns in conversations for turn in turns}


# ---------------------------------------------------------------- what does not fit


def _fitted(
    query: Query, speak: Speaker, encode: Callable[[Sequence[Conversation]], list[Encoded]], limit: int | None
) -> Assembled:
    posts = len(query.user.posts) if query.user else 0
    known = {posts: encode(speak(query))}
    if limit is None or all(len(one.ids) <= limit for one in known[posts]):
        return Assembled(tuple(map(_some, known[posts])), posts)

    def with_posts(kept: int) -> list[Encoded]:
        if kept not in known:
            known[kept] = encode(speak(_keeping(query, kept)))
        return known[kept]

    barest = with_posts(0)
    can_fit = [len(one.ids) <= limit for one in barest]

    def fits(kept: int) -> bool:
        return all(len(one.ids) <= limit for one, can in zip(with_posts(kept), can_fit, strict=True) if can)

    # Without any post all fit that can; the more posts, the longer.
    kept = bisect_left(range(1, posts + 1), True, key=lambda kept: not fits(kept)) if any(can_fit) else 0
    sequences = [
        _some(one) if can else Failure("too_long", f"{len(bare.ids)} tokens, limit {limit}")
        for one, bare, can in zip(with_posts(kept), barest, can_fit, strict=True)
    ]
    return Assembled(tuple(sequences), kept)


def _some(one: Encoded) -> Encoded | Failure:
    """Return a conversation of at least one token: there are tokenizers that know none of a text and say nothing."""
    return one if one.ids else Failure("unsupported", "the tokenizer makes no token of the text: another model's?")


def _keeping(query: Query, posts: int) -> Query:
    """Return the query with its first posts only, the most relevant."""
    return query if query.user is None else replace(query, user=replace(query.user, posts=query.user.posts[:posts]))
