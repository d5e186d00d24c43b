"""How a text is written, not what it says: some twenty numbers per text."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from pluralrm.stats.clusters import FloatArray

WORD = re.compile(r"\w+(?:['\u2019]\w+)*")
_SENTENCE_END = re.compile(r"[.!?…]+(?=\s|$)\s*|\n\s*")

# Counted per 100 words, so that length alone moves none of them.
_RATES: Mapping[str, re.Pattern[str]] = {
    "commas": re.compile(r","),
    "colons, semicolons": re.compile(r"[:;]"),
    "dashes, brackets": re.compile(r"[–—()\[\]]| - "),
    "quotation marks": re.compile(r"[\"“”«»]"),
    "question marks": re.compile(r"\?"),
    "exclamation marks": re.compile(r"!"),
    "digits": re.compile(r"\d"),
    "capitals": re.compile(r"[A-Z]"),
    "emphasis, headings": re.compile(r"\*\*|^#+ ", re.MULTILINE),
    "list lines": re.compile(r"^\s*(?:[-*•]|\(?\w{1,2}[.)])\s", re.MULTILINE),
    "line breaks": re.compile(r"\n+"),
    "contractions": re.compile(r"\w['\u2019](?:s|t|re|ve|ll|d|m)\b", re.IGNORECASE),
    "first person": re.compile(r"\b(?:i|me|my|mine|we|us|our|ours)\b", re.IGNORECASE),
    "second person": re.compile(r"\b(?:you|your|yours|yourself)\b", re.IGNORECASE),
    "hedges": re.compile(
        r"\b(?:may|might|could|perhaps|maybe|possibly|probably|likely|usually|often|sometimes|generally|tend|tends"
        r"|seem|seems|consider|rather|somewhat|about)\b",
        re.IGNORECASE,
    ),
    "negations": re.compile(r"\b(?:no|not|never|nothing|none|without|avoid)\b|n['\u2019]t\b", re.IGNORECASE),
}

FEATURES: tuple[str, ...] = (
    "characters",
    "sentences",
    "words per sentence",
    "letters per word",
    "different words",
    *_RATES,
)
"""The names of the columns of `style`."""


def style(texts: Sequence[str]) -> FloatArray:
    """Return (texts, features); an empty text has zeros. Counts are on a log scale, where twice as many is one step."""
    return np.array([_numbers(text) for text in texts]).reshape(len(texts), len(FEATURES))


def _numbers(text: str) -> list[float]:
    words = WORD.findall(text)
    if not words:
        return [0.0] * len(FEATURES)
    sentences = max(1, len(_SENTENCE_END.findall(text.rstrip())) + (text.rstrip()[-1] not in ".!?…"))
    rates = [100 * len(pattern.findall(text)) / len(words) for pattern in _RATES.values()]
    return [
        float(np.log(len(text))),
        float(np.log(sentences)),
        float(np.log(len(words) / sentences)),
        sum(map(len, words)) / len(words),
        # Guiraud's ratio: the share of different words falls with length, this hardly does.
        len({word.lower() for word in words}) / len(words) ** 0.5,
        *np.log1p(rates).tolist(),
    ]
