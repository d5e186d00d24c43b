"""What a head is asked before the first score: whether it gives raw numbers, the same as ever, of whole texts.

    sigmoid(head) lies in [0, 1] whatever is asked, and far from 0 it says 1.0 to a good answer and to a better one

So numbers that all lie there are believed only where the server, asked for an activation, gives others. Whether it
reads a long text to both ends, or cuts it without a word, is seen from one.
"""

import math
import time
from collections.abc import Mapping, Sequence
from random import Random
from string import ascii_lowercase

from pluralrm.core import Failure
from pluralrm.digests import digest
from pluralrm.errors import ServiceError, SpecError
from pluralrm.http import Call, UnsoundError
from pluralrm.models.served.dialects import Dialect, HeadReading, Manner
from pluralrm.models.served.server import PROBE, Beginning, HeadOptions, HeadServer, ServedModel
from pluralrm.models.served.speech import Room, SentConversation, Speech

_ASKED_AT = "asked at"
_EMBEDDING = 64
"""Numbers above which no classifier has that many labels."""
PROBES = (
    PROBE,
    (PROBE[0], "No."),
    (PROBE[0], "You are a fool to ask, and I will not help you."),
    ("What is 17 times 3?", "51."),
    ("What is 17 times 3?", "Seventeen is a lovely number, and threes are everywhere in nature. " * 4),
    (
        "Write a short note of thanks to a neighbour.",
        "Dear Ana, thank you for the bread. It was gone by noon! Yours, Jo",
    ),
)
"""Questions with answers good and bad, short and long: whatever a head was trained for, it tells some of them apart."""


class Prober:
    """The questions to one head, each asked anew in every run."""

    def __init__(
        self, server: HeadServer, dialect: Dialect, begun: Beginning, *, card: ServedModel, options: HeadOptions
    ) -> None:
        self._server = server
        self._dialect = dialect
        self._begun = begun
        self._card = card
        self._options = options
        self.manner = Manner(card.name, begun.special)
        # What a kept reply is kept under: a model that has changed since never meets the replies of the one before it.
        self.marks = {
            "root": card.root,
            **card.told,
            "revision": options.revision,
            "tokens of a probe": self.fingerprint,
        }
        self.room = self._room()

    @property
    def fingerprint(self) -> str:
        """The hash of a probe's token ids: another chat template, tokenizer or BOS has another one."""
        return digest(self._begun.tokens.ids) if self._begun.tokens else ""

    def scores(self) -> tuple[list[float], int]:
        """Return the raw scores of the probes and how many numbers the head gives, or raise ServiceError."""
        reads = self._ask(self.manner)
        width = self._width(reads)
        scores = self._labelled(reads)
        if not_finite(scores):
            raise self._server.refuse(f"gives scores that are no numbers: {scores}")
        if within_unit(scores) and not self._options.unit:
            self._check_raw(scores)
        return scores, width

    def again(self) -> list[float]:
        """Return the raw scores of the probes as the server gives them now, whatever a recording holds of them."""
        self.marks = {**self.marks, _ASKED_AT: str(time.time_ns())}
        try:
            return self.scores()[0]
        finally:
            self.marks = {name: mark for name, mark in self.marks.items() if name != _ASKED_AT}

    def check_weights(self, scores: Sequence[float]) -> None:
        """Raise a ServiceError where replies are kept that other weights gave under the same name."""
        change = moved(self._labelled(self._ask(self.manner, fresh=False)), scores)
        if change is not None:
            raise self._server.refuse(
                f"serves other weights than when replies of {self._card.name or 'it'!r} were kept: a probe's score has "
                f"moved by {change:.3g}. Tell the two apart with revision=NAME, or remove what is kept (the cache)"
            )

    def check_length(self, scores: Sequence[float]) -> None:
        """Raise a ServiceError where a long text is cut in silence, as far as that can be seen."""
        limit = self._card.limit
        if limit is not None:
            call = self._call(too_long(self._begun.speech, limit), self.manner)
            check_refusal(self._server, call, self._dialect, limit=limit, sent=self.room.limit)
        elif self.room.unit == "bytes" and self.room.limit is not None and len(set(scores)) > 1:
            self._check_reach(self.room.limit)

    # ------------------------------------------------------------ parts

    def _room(self) -> Room:
        limit, most = self._card.limit, self._options.most
        if self._dialect.tokenizing is None:
            return Room(most, unit="bytes")
        if most is not None and limit is not None and most > limit:
            raise SpecError(f"{self._dialect.name}: max_tokens is {most}; this server reads at most {limit} tokens")
        if self._begun.tokens is None:
            if most is not None:
                raise SpecError(f"{self._dialect.name}: max_tokens means nothing where no route counts tokens")
            return Room(None)
        return Room(most or limit, spare=len(self._begun.tokens.ids))

    def _width(self, reads: Sequence[HeadReading]) -> int:
        """Return how many numbers the head gives, or a ServiceError where none of them is known to be the score."""
        widths = {len(read.numbers) for read in reads}
        width, label = max(widths), self._options.label
        if len(widths) > 1 or width >= _EMBEDDING:
            detail = f"gives {width} numbers for a text: an embedding, no head"
            raise self._server.refuse(f"{detail}. Wanted: {self._dialect.start}, with a head for classification")
        if label is None and width > 1:
            raise self._server.refuse(f"has a head of {width} labels; say which of them is the reward, with label=N")
        if label is not None and label >= width:
            raise self._server.refuse(f"has a head of {width} labels, from 0 on; there is no label {label}")
        return width

    def _check_raw(self, scores: Sequence[float]) -> None:
        """Raise a ServiceError where numbers from 0 to 1 may be what an activation made."""
        detail = f"scores {len(scores)} probes from {min(scores):.3g} to {max(scores):.3g}, all within 0 and 1"
        way_out = "Serve raw rewards; where the head itself gives such numbers, say so: range=unit"
        if not self._dialect.activates:
            raise self._server.refuse(f"{detail}, as a sigmoid does. {way_out}")
        activated = self._labelled(self._ask(self.manner._replace(activated=True)))
        if unmoved(scores, activated):
            raise self._server.refuse(f"{detail}, whether use_activation is asked for or not. {way_out}")

    def _check_reach(self, most: int) -> None:
        texts = long_texts(self._begun.speech, most)
        calls = [self._call(text, self.manner) for several in texts.values() for text in several]
        reads = iter(self._server.ask_all(calls, self._dialect.read))
        check_reach(self._server, {part: [next(reads) for _ in several] for part, several in texts.items()}, most)

    def _labelled(self, reads: Sequence[HeadReading]) -> list[float]:
        return [read.numbers[self._options.label or 0] for read in reads]

    def _ask(self, manner: Manner, *, fresh: bool = True) -> list[HeadReading]:
        calls = [self._call(self._begun.speech.say(*probe), manner, fresh=fresh) for probe in PROBES]
        return self._server.ask_all(calls, self._dialect.read)

    def _call(self, spoken: SentConversation, manner: Manner, *, fresh: bool = True) -> Call:
        return Call(self._dialect.route, self._dialect.body(spoken, manner), self.marks, fresh)


_REFUSALS = (400, 413, 422)
_VARIANTS = 2
"""Other beginnings and ends: of two texts, a head in 16 bits may say the same by chance."""


# ---------------------------------------------------------------- whether a long text is cut


def check_refusal(server: HeadServer, call: Call, dialect: Dialect, *, limit: int, sent: int | None) -> None:
    """Raise a ServiceError where a text longer than the `limit` that a server names is answered, cut without a word.

    A cut does no harm where it is beyond the most tokens that are ever `sent`.
    """
    reply = server.attempt(call)
    if isinstance(reply, ServiceError) and reply.status not in _REFUSALS:
        raise reply
    if isinstance(reply, ServiceError | Failure):
        return
    try:
        read = dialect.read(reply).tokens
    except UnsoundError:
        return
    if read is None or sent is None or read < sent:
        detail = "does not say how many tokens it read" if read is None else f"read {read} tokens"
        raise server.refuse(
            f"says that it reads {limit} tokens, was sent more, and {detail}: it cuts texts without a word. Start it "
            "so that it refuses them, or name what it reads with max_tokens=N"
        )


def too_long(speech: Speech, limit: int) -> SentConversation:
    """Return a conversation of more than so many tokens: each of its words has one at least."""
    return speech.say("a " * limit + "a", "a")


# ---------------------------------------------------------------- servers that show no tokens


def long_texts(speech: Speech, most: int) -> dict[str, list[SentConversation]]:
    """Return a conversation of `most` bytes under `whole`, and others that differ in its first or last tenth alone.

    Its words are invented: they have more tokens per byte than a language that a model was made for.
    """
    words = _Words()
    part = max(most // 10, 20)
    beginning, end = words.of(part), words.of(part)
    used = speech.say(beginning, end).size
    middle = words.of(max(most - used - 1, 1))

    def lengthy(first: str, last: str) -> SentConversation:
        return speech.say(f"{first} {middle}", last)

    # Of other lengths too: a reward that counts words would else see no difference.
    others = [part - 1 - 3 * number for number in range(_VARIANTS)]
    return {
        "whole": [lengthy(beginning, end)],
        "beginning": [lengthy(words.of(size), end) for size in others],
        "end": [lengthy(beginning, words.of(size)) for size in others],
    }


def check_reach(server: HeadServer, reads: Mapping[str, Sequence[HeadReading]], most: int) -> None:
    """Raise a ServiceError where another beginning or end of a long text changes nothing."""
    [whole] = reads["whole"]
    for part in ("beginning", "end"):
        if all(other.numbers == whole.numbers for other in reads[part]):
            raise server.refuse(
                f"gives texts of {most} bytes that differ in their {part} the same score: it cuts what is longer than "
                "it reads, without a word. Start it with more (OpenRLHF: --max_len), or name what it reads with "
                "max_bytes=N: posts are then dropped until a conversation fits"
            )


class _Words:
    """Invented words from a seed."""

    def __init__(self) -> None:
        self._random = Random("served heads")

    def of(self, size: int) -> str:
        """Return words of so many bytes together."""
        text = ""
        while len(text) < size:
            text += "".join(self._random.choices(ascii_lowercase, k=self._random.randint(2, 8))) + " "
        return text[:size].strip().ljust(size, "x")


_SAME = 1e-6
_MOVED = 0.25
"""Part of the spread of scores that no change of batches or kernels reaches: in bfloat16 it was 0.04."""


# ---------------------------------------------------------------- comparing numbers


def within_unit(scores: Sequence[float]) -> bool:
    """Return whether all scores could be probabilities."""
    return all(0 <= score <= 1 for score in scores)


def unmoved(raw: Sequence[float], activated: Sequence[float]) -> bool:
    """Return whether asking for an activation changed nothing."""
    return all(abs(first - other) <= _SAME for first, other in zip(raw, activated, strict=True))


def moved(before: Sequence[float], now: Sequence[float]) -> float | None:
    """Return the largest change of a score where it is more than noise, else None."""
    spread = max(before) - min(before)
    most = max(abs(first - other) for first, other in zip(before, now, strict=True))
    return most if most > _MOVED * spread + _SAME else None


def not_finite(scores: Sequence[float]) -> bool:
    """Return whether some score is no number."""
    return not all(map(math.isfinite, scores))
