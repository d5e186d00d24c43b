"""Whether a server reads a long text to both ends, or cuts it without a word: it is shown one."""

from collections.abc import Mapping, Sequence
from random import Random
from string import ascii_lowercase

from pluralrm.core import Failure
from pluralrm.errors import ServiceError
from pluralrm.http import Call, UnsoundError
from pluralrm.models.served.desk import Desk
from pluralrm.models.served.dialect import Dialect, Read
from pluralrm.models.served.spoken import Speech, Spoken

_REFUSALS = (400, 413, 422)
_VARIANTS = 2
"""Other beginnings and ends: of two texts, a head in 16 bits may say the same by chance."""


def check_refusal(desk: Desk, call: Call, dialect: Dialect, *, limit: int, sent: int | None) -> None:
    """Raise a ServiceError where a text longer than the `limit` that a server names is answered, cut without a word.

    A cut does no harm where it is beyond the most tokens that are ever `sent`.
    """
    found = desk.attempt(call)
    if isinstance(found, ServiceError) and found.status not in _REFUSALS:
        raise found
    if isinstance(found, ServiceError | Failure):
        return
    try:
        read = dialect.read(found).tokens
    except UnsoundError:
        return
    if read is None or sent is None or read < sent:
        told = "does not say how many tokens it read" if read is None else f"read {read} tokens"
        raise desk.refuse(
            f"says that it reads {limit} tokens, was sent more, and {told}: it cuts texts without a word. Start it so "
            "that it refuses them, or name what it reads with max_tokens=N"
        )


def too_long(speech: Speech, limit: int) -> Spoken:
    """Return a conversation of more than so many tokens: each of its words has one at least."""
    return speech.say("a " * limit + "a", "a")


# ---------------------------------------------------------------- servers that show no tokens


def long_texts(speech: Speech, most: int) -> dict[str, list[Spoken]]:
    """Return a conversation of `most` bytes under `whole`, and others that differ in its first or last tenth alone.

    Its words are invented: they have more tokens per byte than a language that a model was made for.
    """
    words = _Words()
    part = max(most // 10, 20)
    beginning, end = words.of(part), words.of(part)
    used = speech.say(beginning, end).size
    middle = words.of(max(most - used - 1, 1))

    def said(first: str, last: str) -> Spoken:
        return speech.say(f"{first} {middle}", last)

    # Of other lengths too: a reward that counts words would else see no difference.
    others = [part - 1 - 3 * number for number in range(_VARIANTS)]
    return {
        "whole": [said(beginning, end)],
        "beginning": [said(words.of(size), end) for size in others],
        "end": [said(beginning, words.of(size)) for size in others],
    }


def check_reach(desk: Desk, reads: Mapping[str, Sequence[Read]], most: int) -> None:
    """Raise a ServiceError where another beginning or end of a long text changes nothing."""
    [whole] = reads["whole"]
    for place in ("beginning", "end"):
        if all(other.numbers == whole.numbers for other in reads[place]):
            raise desk.refuse(
                f"gives texts of {most} bytes that differ in their {place} the same score: it cuts what is longer than "
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
