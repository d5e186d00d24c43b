"""How a conversation begins at the server, and what in it is no text: BOS and other control tokens, by its own ids."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from pluralrm.core import Failure
from pluralrm.errors import ServiceError
from pluralrm.http import Call
from pluralrm.models.served.dialects import Dialect, Manner, ServerTokens, Tokenizing, plain, read_tokens
from pluralrm.models.served.server import MISSING, UNCHECKED, HeadOptions, HeadServer
from pluralrm.models.served.speech import SentConversation, Speech

_MARKER = re.compile(r"<[^<>\s]+>|\[/?[A-Z_]+\]")
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
"""A piece of a vocabulary that stands for a byte: no text can spell it."""
_WELL_KNOWN = (
    *("<s>", "</s>", "<unk>", "<pad>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"),
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"),
    *("<|start_header_id|>", "<|end_header_id|>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>"),
)
"""Those of the families of models that most reward heads are made of: a chat template need not write all of them."""


PROBE = ("Which flour makes a good sourdough?", "Rye, or a strong wheat flour. Both ferment well.")
"""A question and an answer in which no token is special."""


class Beginning(NamedTuple):
    """How conversations have to be put so that they begin as they should, and what was seen of that."""

    speech: Speech
    special: bool
    bos: str
    tokens: ServerTokens | None
    """Those of the probe; None where the server shows none."""


class ServerTokenizer:
    """The server's tokenizer."""

    def __init__(self, server: HeadServer, tokenizing: Tokenizing, model: str) -> None:
        self._server = server
        self._tokenizing = tokenizing
        self._model = model

    def there(self, *, needed: bool) -> bool:
        """Return whether the route exists; where it does not answer, whether it is needed."""
        found = self._server.attempt(self.call(plain("a"), special=False))
        if isinstance(found, Failure):
            return needed
        return not (isinstance(found, ServiceError) and found.status in MISSING)

    def call(self, spoken: SentConversation, *, special: bool, marks: Mapping[str, str] | None = None) -> Call:
        """Return the question for a conversation's tokens; without marks it is asked anew in every run."""
        body = self._tokenizing.body(spoken, Manner(self._model, special))
        return Call(self._tokenizing.route, body, marks or {}, fresh=marks is None, public=spoken.public)

    def tokens(self, spoken: SentConversation, *, special: bool = False) -> ServerTokens:
        """Return a conversation's tokens."""
        return self._server.ask(self.call(spoken, special=special), read_tokens)

    def added(self) -> int | None:
        """Return the token that the tokenizer puts before every text, if any."""
        bare, whole = self.tokens(plain("a")).ids, self.tokens(plain("a"), special=True).ids
        return whole[0] if len(whole) > len(bare) and whole[1 : 1 + len(bare)] == bare else None

    def singles(self, texts: Iterable[str]) -> dict[str, int]:
        """Return those of the texts that are one token each, wherever they stand, with its id."""
        several = list(texts)
        calls = [self.call(plain(text * 2), special=False) for text in several]
        found = zip(several, self._server.ask_all(calls, read_tokens), strict=True)
        return {text: read.ids[-1] for text, read in found if len(read.ids) > 1 and read.ids[-1] == read.ids[-2]}


def beginning(
    server: HeadServer, reader: ServerTokenizer, dialect: Dialect, *, speech: Speech, options: HeadOptions
) -> Beginning:
    """Return the way to put a conversation so that it begins with the right number of BOS, or raise ServiceError."""
    added = reader.added()
    bos = reader.singles([speech.bos]).get(speech.bos) if added is None and speech.bos else added
    if bos is None and options.bos is not None:
        raise server.refuse("its tokenizer adds no BOS, so which token is one is unknown: leave bos= out")
    goal = options.bos if options.bos is not None else int(added is not None)
    loose = options.bos is None and added is None  # whether it writes one is the chat template's affair; two are wrong
    counts = []
    for said, special in _ways(dialect, speech, options):
        tokens = reader.tokens(said.say(*PROBE), special=special)
        counts.append(_bos_count(tokens.ids, bos))
        if counts[-1] == goal or (loose and counts[-1] <= 1):
            return Beginning(said, special, "none is known" if bos is None else str(counts[-1]), tokens)
    raise server.refuse(
        f"a conversation begins with {counts[0]} BOS, wanted {goal}. {_advice(dialect, counts[0], goal)}"
    )


def unchecked(server: HeadServer, dialect: Dialect, *, speech: Speech, options: HeadOptions) -> Beginning:
    """Return the beginning where tokens are not accessible; a ServiceError where the spec does not allow that."""
    if dialect.tokenizing and options.checked:
        raise server.refuse(
            f"has no route {dialect.tokenizing.route}, so the BOS of a conversation cannot be counted. Open that route "
            f"(a proxy may hide it), or take the text as it is with bos={UNCHECKED}"
        )
    return Beginning(speech, dialect.adds_special, UNCHECKED, None)


def _ways(dialect: Dialect, speech: Speech, options: HeadOptions) -> Iterator[tuple[Speech, bool]]:
    """Yield the ways to put a conversation, the one that needs no thought first."""
    yield speech, dialect.adds_special
    if dialect.adds_special:
        yield speech.without_bos(), True
    elif options.bos:
        yield speech, True


def _bos_count(ids: Sequence[int], bos: int | None) -> int:
    """Return how many BOS stand first; where none is known, how often the first token does, if it is doubled."""
    first = bos if bos is not None else next(iter(ids), None)
    count = sum(1 for _ in takewhile(lambda place: place == first, ids))
    return count if bos is not None or count > 1 else 0


def _advice(dialect: Dialect, found: int, goal: int) -> str:
    if found > goal and not dialect.adds_special:
        return "Take one out of the chat template: chat=FILE.jinja with one of yours"
    if found > goal:
        return "The server adds one to every text: take it out of the chat template (chat=FILE.jinja)"
    if dialect.adds_special:
        return f"Where that is how the model was trained, say so with bos={found}"
    return (
        "The chat template writes none: say how the model was trained, with bos=0 (unchanged) or bos=1 (the "
        "tokenizer adds its own, if it has one)"
    )


# ---------------------------------------------------------------- control tokens


def controls(begun: Beginning, speech: Speech, reader: ServerTokenizer | None) -> tuple[str, ...]:
    """Return the control tokens that the server would read out of anybody's text, as far as they can be known.

    `speech` is the one of the spec, in which the chat template writes its own BOS.
    """
    said = speech.say(*PROBE)
    written = begun.tokens.strings if said.text is None and begun.tokens else _MARKER.findall(said.text or "")
    special = speech.chat.special.values() if speech.chat else ()
    markers = [text for text in (*written, *special) if _MARKER.fullmatch(text) and not _BYTE.fullmatch(text)]
    if reader is None:
        return tuple(dict.fromkeys(markers))
    return tuple(reader.singles(dict.fromkeys([*markers, *_WELL_KNOWN])))


def spelled(controls: Sequence[str], texts: Sequence[str]) -> str | None:
    """Return the first control token that some text spells out, or None."""
    return next((control for control in controls for text in texts if control in text), None)
