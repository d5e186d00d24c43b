"""What the answers alone may give away: their length, place, style, words, letters, topics. No prompt, no user."""

from collections.abc import Callable, Iterable

import numpy as np

from pluralrm.audit.comparisons import Comparisons
from pluralrm.audit.features import Features, scaled, standardised
from pluralrm.audit.style import FEATURES, style
from pluralrm.audit.vectors import distinct, incidence, latent, letter_groups, tokens
from pluralrm.stats.clusters import FloatArray

COLUMNS = 1_024
"""Of the words, and of the letter groups, those in which the candidates of most items differ."""
TOPICS = 64


def lengths(table: Comparisons) -> dict[str, FloatArray]:
    """Return two rules: pick the candidate with the most characters, or the fewest."""
    characters = np.array([len(text) for text in table.texts], dtype=np.float64)
    return {"the longest": characters, "the shortest": -characters}


def places(table: Comparisons) -> dict[str, FloatArray]:
    """Return one rule per place: pick what stands there."""
    return {
        f"number {place + 1}": (table.places == place).astype(np.float64) for place in range(int(table.sizes.max()))
    }


def style_of_answers(table: Comparisons) -> Features:
    """Return each answer's style."""
    texts, index = distinct(table.texts)
    return Features(scaled(table, standardised(style(texts))[index]), FEATURES)


def words(table: Comparisons) -> Features:
    """Return which words an answer has."""
    return _present(table, tokens)


def letters(table: Comparisons) -> Features:
    """Return which groups of three and four letters an answer has."""
    return Features(_present(table, letter_groups).values)


def topics(table: Comparisons, seed: int) -> Features:
    """Return each answer's place in a latent space of its words."""
    texts, index = distinct(table.texts)
    return Features(latent(texts, TOPICS, seed)[index])


def _present(table: Comparisons, parts: Callable[[str], Iterable[str]]) -> Features:
    """Return which parts occur, for the COLUMNS of them in which the candidates of most items differ."""
    texts, index = distinct(table.texts)
    values, names = incidence(texts, parts)
    if not names:
        return Features(np.zeros((len(index), 1)))
    rows = values[index]
    differing = (abs(table.contrasts.T @ rows) > 1e-9).sum(axis=0)
    kept = np.sort(np.argsort(-differing, kind="stable")[:COLUMNS])
    return Features(rows[:, kept], tuple(names[place] for place in kept))
