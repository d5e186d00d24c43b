"""The one way from a Query to token ids: rendered, encoded whole, posts dropped where it is too long.

Text becomes ids by a model's own tokenizer, without its surprises: nothing is added, cut or padded. Special tokens come
from templates only. One that a user spells out (`<s>` in a piece of HTML) is read as the characters that it is: a
private twin of the tokenizer knows the special tokens under secret names, and only those that a template wrote are
called by them.

Nothing here is found by lengths of strings. Where an answer begins and ends is seen from the ids: they are compared
with those of the same conversation with other answers.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from secrets import token_hex
from string import ascii_letters, digits
from typing import TYPE_CHECKING, NamedTuple

from pluralrm.core import Failure, Query
from pluralrm.errors import ModelError, SpecError
from pluralrm.folders import panics_are_errors
from pluralrm.models.neural.folder import ChatTemplate
from pluralrm.templates import Message, keeping

if TYPE_CHECKING:
    from tokenizers import Encoding
    from tokenizers import Tokenizer as Backend
    from transformers import PreTrainedTokenizerBase


_PRIVATE = range(0xF0000, 0xFFFFE)
"""Characters that mean nothing to anybody (Unicode's private plane 15)."""

StandIns = Mapping[str, str]
"""For each special token that some texts spell out, a private character that is in none of them."""


class TokenPair(NamedTuple):
    """Two texts as an encoder reads them."""

    ids: tuple[int, ...]
    start: int
    """First token of the second text; `start == end` where it has none."""
    end: int
    second: int
    """Where the tokenizer's own type ids turn from 0 to 1; 0 where it does not tell the texts apart."""


class Tokenizer:
    """A model's tokenizer, read-only: its copies share the vocabulary, and no switch of the original reaches them."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        backend: Backend | None = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise ModelError(
                f"{tokenizer.name_or_path}: its tokenizer has no tokenizer.json and cannot be turned into one; wanted "
                "a folder whose tokenizer AutoTokenizer loads as a fast one"
            )
        self.named: dict[str, str] = dict(tokenizer.special_tokens_map)
        self.bos: int | None = tokenizer.bos_token_id
        self.eos: int | None = tokenizer.eos_token_id
        self.pad: int | None = tokenizer.pad_token_id
        self.unknown: int | None = tokenizer.unk_token_id
        self.max_length: int = tokenizer.model_max_length
        self._gives_types = "token_type_ids" in tokenizer.model_input_names
        added = backend.get_added_tokens_decoder()
        self.specials: dict[str, int] = {token.content: token_id for token_id, token in added.items() if token.special}
        self._pattern = _any_of(self.specials)
        secret = token_hex(8)  # so that no text can spell the name
        self._names = {text: f"\ue000{secret}:{number}\ue001" for number, text in enumerate(self.specials)}
        self._open = _Twin(backend, {})
        self._secret = _Twin(backend, self._names, unknown=tokenizer.unk_token)
        self._always_secret = any(not self._secret.leaks.isdisjoint(ids) for ids in self._secret.raw(self.specials))

    @property
    def would_add_bos(self) -> bool:
        """True where the tokenizer by itself, without a chat template, puts a BOS first."""
        return self.bos is not None and self._open.first_added() == self.bos

    def count_bos(self, ids: Sequence[int]) -> int:
        """Return how many BOS tokens a sequence begins with; 0 where the tokenizer has none."""
        return sum(1 for _ in takewhile(lambda token_id: token_id == self.bos, ids))

    def told_apart(self, characters: str) -> list[str]:
        """Return those of the characters that are each another token, the ones unknown to the vocabulary last."""
        first: dict[int, str] = {}
        for character, ids in zip(characters, self.encode_plain(characters), strict=True):
            if ids:  # some vocabularies drop what they do not know
                first.setdefault(ids[-1], character)
        return [first[token_id] for token_id in sorted(first, key=lambda token_id: token_id == self.unknown)]

    def stand_ins(self, texts: Iterable[str], *, avoiding: str = "") -> StandIns:
        """Return a stand-in for each special token that the texts spell out, in no text and not in `avoiding`."""
        several = set(texts)
        spelled = sorted({token for text in several for token in self._pattern.findall(text)})
        taken = set(avoiding).union(*several) if spelled else ()
        free = (character for character in map(chr, _PRIVATE) if character not in taken)
        return dict(zip(spelled, free, strict=False))

    def hide(self, text: str, stand_ins: StandIns) -> str:
        """Return the text with its special tokens replaced, so that they can be told from those of a template."""
        return self._pattern.sub(lambda match: stand_ins[match[0]], text) if stand_ins else text

    def encode(self, texts: Sequence[str], stand_ins: StandIns | None = None) -> list[tuple[int, ...]]:
        """Return each text's ids, in one call; what the stand-ins stand for is read as characters."""
        if not stand_ins and not self._always_secret:
            return self._open.encode(texts)
        tokens = {stand_in: token for token, stand_in in (stand_ins or {}).items()}
        renamed = (self._pattern.sub(lambda match: self._names[match[0]], text) for text in texts)
        return self._secret.encode([_any_of(tokens).sub(lambda match: tokens[match[0]], text) for text in renamed])

    def encode_plain(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Return each text's ids where nothing in it is special."""
        return self._secret.encode(texts)

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[TokenPair]:
        """Return the tokenizer's own encoding of two texts, with the special tokens that it puts around them."""
        encodings = self._secret.encode_pairs(pairs)
        return encodings if self._gives_types else [pair._replace(second=0) for pair in encodings]


class _Twin:
    """A copy of a tokenizer that shares its vocabulary, in which some added tokens have other names."""

    def __init__(self, backend: "Backend", names: Mapping[str, str], unknown: str | None = None) -> None:
        self._backend = _copy(backend, names)
        added = backend.get_added_tokens_decoder().items()
        ids = {
            self._backend.token_to_id(names.get(token.content, token.content)): token_id for token_id, token in added
        }
        inside = {text: backend.model.token_to_id(text) for text in names if text != unknown}
        self._letters = {token_id: text for text, token_id in inside.items() if token_id is not None}
        self._meaning = {raw: token_id for raw, token_id in ids.items() if raw != token_id and raw is not None}
        self._touched = self._meaning.keys() | self._letters.keys()
        own = self._backend.get_added_tokens_decoder().values()
        self._added = _any_of(token.content for token in own if not token.normalized)
        self._longest = max((len(token.content) for token in own), default=0)
        firm = (token for token in own if not token.normalized and not token.lstrip and not token.content[:1].isspace())
        self._cutting = set() if any(token.single_word for token in own) else {token.content for token in firm}

    @property
    def leaks(self) -> "frozenset[int]":
        """The ids of renamed tokens that are in the vocabulary as well: from it they come only out of characters."""
        return frozenset(self._letters)

    def raw(self, texts: Iterable[str]) -> list[list[int]]:
        """Return ids as the vocabulary gives them."""
        return [encoding.ids for encoding in self._encodings(list(texts))]

    def first_added(self) -> int | None:
        """Return the token that the tokenizer puts before a text, if any."""
        [encoding] = self._encodings(["a"], around=True)
        return encoding.ids[0] if encoding.special_tokens_mask[:1] == [1] else None

    def encode(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Return each text's ids; what the texts have in common is encoded once, as far as that leaves no trace."""
        cut = self._cut(texts)
        pieces = [texts[0][:cut], *(text[cut:] for text in texts)] if texts else [""]
        encodings = self._encodings(pieces)
        common, *own = [
            tuple(ids) if self._plain(ids := encoding.ids) else self._read(encoding)[0] for encoding in encodings
        ]
        return [common + ids for ids in own]

    def _cut(self, texts: Sequence[str]) -> int:
        """Return the last place in the texts' common beginning where the tokenizer itself splits before anything else.

        That is before an added token. Only one that is not near the end counts: there, some text could go on to a
        longer token that begins earlier.
        """
        if len(texts) < 2:
            return 0
        common = texts[0][: shared(min(texts), max(texts))]
        sure = len(common) - self._longest
        return max((match.start() for match in self._added.finditer(common) if self._cuts(match, sure)), default=0)

    def _cuts(self, match: re.Match[str], sure: int) -> bool:
        return match[0] in self._cutting and match.start() <= sure

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[TokenPair]:
        """Return each pair's ids and where its second text stands."""
        return [self._pair(encoding) for encoding in self._encodings(list(pairs), around=True)]

    def _encodings(self, texts: Sequence[str] | Sequence[tuple[str, str]], *, around: bool = False) -> "list[Encoding]":
        with panics_are_errors():
            encodings: list[Encoding] = self._backend.encode_batch_fast(texts, add_special_tokens=around)
            return encodings

    def _pair(self, encoding: "Encoding") -> TokenPair:
        ids, sources = self._read(encoding)
        texts = [encoding.sequence_ids[source] for source in sources]
        types = [encoding.type_ids[source] for source in sources]
        start = texts.index(1) if 1 in texts else len(ids)
        return TokenPair(ids, start, start + texts.count(1), types.index(1) if 1 in types else 0)

    def _plain(self, ids: list[int]) -> bool:
        return not self._touched or self._touched.isdisjoint(ids)

    def _read(self, encoding: "Encoding") -> tuple[tuple[int, ...], list[int]]:
        """Return the ids that the model knows and, for each, the place in the encoding that it comes from."""
        read = [
            (token_id, source)
            for source, (raw, around) in enumerate(zip(encoding.ids, encoding.special_tokens_mask, strict=True))
            for token_id in ([raw] if around else self._known(raw))
        ]
        return tuple(token_id for token_id, _ in read), [source for _, source in read]

    def _known(self, raw: int) -> list[int]:
        text = self._letters.get(raw)
        if text is None:
            return [self._meaning.get(raw, raw)]
        # The vocabulary itself takes these characters for the special token (Unigram does); one by one it cannot.
        return [token.id for letter in text for token in self._backend.model.tokenize(letter)]


def _copy(backend: "Backend", names: Mapping[str, str]) -> "Backend":
    """Return a tokenizer with the same vocabulary, steps and ids, in which added tokens may have other names."""
    from tokenizers import AddedToken
    from tokenizers import Tokenizer as Backend

    twin = Backend(backend.model)
    for step in ("normalizer", "pre_tokenizer", "post_processor"):
        if getattr(backend, step) is not None:
            setattr(twin, step, getattr(backend, step))
    first, added = backend.get_vocab_size(with_added_tokens=False), backend.get_added_tokens_decoder()
    # New ids are given in this order: those beyond the vocabulary stay what they are, renamed ones inside come after.
    in_order = [added[token_id] for token_id in sorted(added, key=lambda token_id: (token_id < first, token_id))]
    twin.add_tokens(
        [
            AddedToken(
                names.get(token.content, token.content),
                single_word=token.single_word,
                lstrip=token.lstrip,
                rstrip=token.rstrip,
                normalized=token.normalized and token.content not in names,
                special=token.special,
            )
            for token in in_order
        ]
    )
    return twin


def shared(first: Sequence[object], other: Sequence[object], most: int | None = None) -> int:
    """Return how many first elements two sequences have in common, at most `most`."""
    high = min(len(first), len(other)) if most is None else most
    if first[:high] == other[:high]:
        return high
    return bisect_left(range(high), True, key=lambda index: first[: index + 1] != other[: index + 1])


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """Return what matches the longest of some texts; nothing where there are none."""
    return re.compile("|".join(map(re.escape, sorted(filter(None, texts), key=len, reverse=True))) or "(?!)")


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
            head: _Surroundings.between(first, other, blank=self._render((*head, Message(ANSWERS, "")), stand_ins))
            for head, first, other in zip(heads, probed[::2], probed[1::2], strict=True)
        }
        return [
            around[tuple(turns[:-1])].spanned(sequence, text)
            if _answered(turns)
            else Encoded(sequence, len(sequence), len(sequence))
            for turns, text, sequence in zip(conversations, texts, ids, strict=False)
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


def sequence_limit(config: Mapping[str, object], model_max_length: int, cap: int | None) -> int | None:
    """Return how many tokens a sequence may have, or None where neither model nor user says.

    That is the least of the config's positions, the tokenizer's length and what is wanted; wanting more is a SpecError.
    """
    nested = config.get("text_config")
    configs = (config, nested) if isinstance(nested, Mapping) else (config,)
    limits = [
        length for config in configs for name in _LENGTHS if isinstance(length := config.get(name), int) and length > 0
    ]
    own = min([*limits, *([model_max_length] if 0 < model_max_length < _UNSET else [])], default=None)
    if cap is None or own is None:
        return own if cap is None else cap
    if cap > own:
        raise SpecError(f"max_tokens is {cap}; this model reads at most {own} tokens")
    return cap


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
    def between(cls, first: tuple[int, ...], other: tuple[int, ...], *, blank: str) -> "_Surroundings":
        """Return the surroundings that two probes have in common."""
        return cls(first, shared(first, other), shared(first[::-1], other[::-1]), blank)

    def spanned(self, ids: tuple[int, ...], text: str) -> Encoded:
        """Return the ids with the answer's place in them."""
        # An answer may begin with the very token of one probe, and then not with that of the other: so no more is
        # shared with all answers than the probes share with each other.
        start = shared(ids, self.ids, self.before)
        end = len(ids) - shared(ids[::-1], self.ids[::-1], self.after)
        return Encoded(ids, start, start if text == self.blank else max(start, end))


def _answered(turns: Conversation) -> bool:
    return turns[-1].role == ANSWERS


def _contents(conversations: Sequence[Conversation]) -> set[str]:
    return {turn.content for turns in conversations for turn in turns}


# ---------------------------------------------------------------- what does not fit


def _fitted(
    query: Query, speak: Speaker, encode: Callable[[Sequence[Conversation]], list[Encoded]], limit: int | None
) -> Assembled:
    posts = len(query.user.posts) if query.user else 0
    encodings = {posts: encode(speak(query))}
    if limit is None or all(len(encoding.ids) <= limit for encoding in encodings[posts]):
        return Assembled(tuple(map(_some, encodings[posts])), posts)

    def with_posts(count: int) -> list[Encoded]:
        if count not in encodings:
            encodings[count] = encode(speak(keeping(query, count)))
        return encodings[count]

    barest = with_posts(0)
    can_fit = [len(encoding.ids) <= limit for encoding in barest]

    def fits(count: int) -> bool:
        return all(len(encoding.ids) <= limit for encoding, can in zip(with_posts(count), can_fit, strict=True) if can)

    # Without any post all fit that can; the more posts, the longer.
    most = bisect_left(range(1, posts + 1), True, key=lambda count: not fits(count)) if any(can_fit) else 0
    sequences = [
        _some(encoding) if can else Failure("too_long", f"{len(bare.ids)} tokens, limit {limit}")
        for encoding, bare, can in zip(with_posts(most), barest, can_fit, strict=True)
    ]
    return Assembled(tuple(sequences), most)


def _some(encoded: Encoded) -> Encoded | Failure:
    """Return a conversation of at least one token: there are tokenizers that know none of a text and say nothing."""
    return (
        encoded if encoded.ids else Failure("unsupported", "the tokenizer makes no token of the text: another model's?")
    )
