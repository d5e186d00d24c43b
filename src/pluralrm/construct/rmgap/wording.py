"""What is measured of a text by its words alone: a named style, a run of words that is copied, numbers that changed.

>>> named_style("Keep it formal, please.")
'formal'
>>> shared_run("He said that the jar is cold now.", "They say that the jar is cold now, too.", 6)
'that the jar is cold now'

A word is a run of letters and digits, in lower case; a hyphen or an apostrophe ends it.
"""

import re
from collections.abc import Iterator

from pluralrm.benchmarks.rmgap import STYLES

COPIED = 8
"""So many words in a row that stand in two texts are copied."""

_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return [found.casefold() for found in _WORD.findall(text)]


# ---------------------------------------------------------------- a style that is named

_SAID = {
    "style": "style styles stylistic tone tones",
    "Formality": "formality formally informally casually",
    "Conciseness": "conciseness concisely tersely brief briefly succinct succinctly verbosity verbosely lengthy",
    "Technicality": "technicality technically jargon laymen laypeople layperson specialised specialized",
    "Objectivity": "objectivity objectively subjectivity subjectively opinionated impartial",
    "Structural_Coherence": "structure structured structural coherence coherent organised rigor rigour rigorously",
}
"""Words for a style beside the names of the levels."""


def _level_words() -> Iterator[str]:
    """Yield the words of the levels' names; "highly" and "strictly" alone name nothing."""
    for levels in STYLES.values():
        for level in levels:
            yield from (word for word in level.split("_") if word not in {"highly", "strictly", "semi", "well"})


STYLE_WORDS = frozenset(_level_words()) | {word for line in _SAID.values() for word in line.split()}


def named_style(text: str, original: str = "") -> str:
    """Return the first word that names a style, or an empty text; a word of the original prompt gives nothing away."""
    known = STYLE_WORDS.difference(words(original))
    return next((word for word in words(text) if word in known), "")


# The letter of an answer is a capital: "an answer a child gives" names none.
_LABEL = re.compile(r"\b(?i:R[1-4])\b|\b(?i:response|answer)\s+(?:[1-4]|[A-D])\b")


def named_response(text: str) -> str:
    """Return the first name of a response, as "response 2" or "R2", or an empty text."""
    found = _LABEL.search(text)
    return found[0] if found else ""


# ---------------------------------------------------------------- words in a row


def shared_run(text: str, other: str, count: int = COPIED, *, besides: str = "") -> str:
    """Return the first `count` words in a row that both texts have and `besides` has not, or an empty text."""
    copied = set(_runs(other, count)).difference(_runs(besides, count))
    return next((" ".join(run) for run in _runs(text, count) if run in copied), "")


def _runs(text: str, count: int) -> Iterator[tuple[str, ...]]:
    found = words(text)
    return (tuple(found[place : place + count]) for place in range(len(found) - count + 1))


def numbers(text: str) -> list[str]:
    """Return the numbers of a text in digits, sorted: a paraphrase has the same."""
    return sorted(_NUMBER.findall(text))
