"""Texts as numbers: some twenty rates of style, and sparse rows of words, word pairs or letter groups."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import sparse

from pluralrm.stats.clusters import FloatArray, IntArray

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


STOP_WORDS = frozenset(
    """
    a about above after again all also am an and any are as at be because been before being below between both but
    by can could did do does doing done down during each either else even every few for from further had has have
    having he her here hers him his how however i if in into is isn't it it's its itself just least less let like
    may me might more most much must my near no nor not now of off on once one only onto or other our ours out over
    own per quite rather really same shall she should since so some such than that that's the their theirs them then
    there these they this those though through thus to too toward under until up upon us very was we were what when
    where whether which while who whom whose why will with within without would yes yet you your yours
    """.split()  # noqa: SIM905 - a table of words
)


class Incidence(NamedTuple):
    """Which text has what: (texts, p) of 0 and 1, and the name of each column."""

    values: sparse.csr_array
    names: tuple[str, ...]


def tokens(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return WORD.findall(text.lower())


def content_words(text: str) -> set[str]:
    """Return the words that carry a topic: no function words, no single letters."""
    return {word for word in tokens(text) if len(word) > 1 and word not in STOP_WORDS}


def word_pairs(text: str) -> list[str]:
    """Return neighbouring words."""
    return [f"{first} {second}" for first, second in pairwise(tokens(text))]


def letter_groups(text: str) -> set[str]:
    """Return the groups of three and four characters within words; a word's ends count as spaces."""
    return {
        f" {word} "[start : start + size]
        for word in set(tokens(text))
        for size in (3, 4)
        for start in range(max(1, len(word) + 3 - size))
    }


def distinct(texts: Sequence[str]) -> tuple[list[str], IntArray]:
    """Return the texts once each, sorted, and where each of the given ones is among them."""
    known = sorted(set(texts))
    place = {text: number for number, text in enumerate(known)}
    return known, np.array([place[text] for text in texts], dtype=np.intp)


def incidence(texts: Sequence[str], parts: Callable[[str], Iterable[str]]) -> Incidence:
    """Return which text has which part, columns in the order of their first text; no part at all gives no column."""
    columns: dict[str, int] = {}
    found, ends = [], [0]
    for text in texts:
        found.extend(sorted({columns.setdefault(part, len(columns)) for part in sorted(set(parts(text)))}))
        ends.append(len(found))
    shape = (len(texts), len(columns))
    return Incidence(sparse.csr_array((np.ones(len(found)), found, ends), shape=shape), tuple(columns))


def weighted(texts: Sequence[str]) -> sparse.csr_array:
    """Return rows of length 1: 1 + log(count) of each word times its inverse document frequency; 0 without words."""
    columns: dict[str, int] = {}
    found, counts, ends = [], [], [0]
    for text in texts:
        for word, count in sorted(Counter(tokens(text)).items()):
            found.append(columns.setdefault(word, len(columns)))
            counts.append(count)
        ends.append(len(found))
    rows = sparse.csr_array((1 + np.log(counts), found, ends), shape=(len(texts), len(columns)))
    frequency = np.bincount(found, minlength=len(columns))
    rows = rows.multiply(np.log((1 + len(texts)) / (1 + frequency)) + 1).tocsr()
    return unit(rows)


def unit(rows: sparse.csr_array) -> sparse.csr_array:
    """Return the rows divided by their lengths; an empty row stays empty."""
    size = np.sqrt(rows.multiply(rows).sum(axis=1))
    return sparse.csr_array(sparse.diags_array(1 / np.where(size > 0, size, 1)) @ rows)


def latent(texts: Sequence[str], dimensions: int, seed: int) -> FloatArray:
    """Return (texts, dimensions or fewer): the strongest singular directions of the weighted words."""
    from sklearn.utils.extmath import randomized_svd

    rows = weighted(texts)
    if not rows.nnz:
        return np.zeros((len(texts), 1))
    left, strengths, _ = randomized_svd(rows, min(dimensions, *rows.shape), random_state=seed)
    coordinates: FloatArray = left * strengths
    return coordinates


def products(rows: sparse.csr_array, first: IntArray, second: IntArray) -> FloatArray:
    """Return the inner product of each row in `first` with the row at the same place in `second`."""
    found: FloatArray = rows[first].multiply(rows[second]).sum(axis=1)
    return found
