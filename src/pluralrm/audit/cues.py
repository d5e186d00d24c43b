"""What a probe reads of each candidate: the answers alone, or prompt and answers together. No probe sees the user.

On a benchmark in which every answer wins equally often (RMGAP) the answers alone are at chance by design, and only
overlap with the prompt, matching style and cue words can find anything.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
from scipy import sparse

from pluralrm.audit.comparisons import Comparisons
from pluralrm.audit.vectors import (
    FEATURES,
    distinct,
    incidence,
    latent,
    letter_groups,
    products,
    style,
    tokens,
    weighted,
    word_pairs,
)
from pluralrm.stats.clusters import FloatArray


class Cues(NamedTuple):
    """(N, p), and a name for each column where a column says something by itself. Sparse values are 0 and 1."""

    values: FloatArray | sparse.csr_array
    names: tuple[str, ...] = ()


def scaled(table: Comparisons, values: FloatArray) -> FloatArray:
    """Return columns divided by the root mean square of their differences within items; 0 where there is none."""
    size = np.sqrt(((table.contrasts.T @ values) ** 2).mean(axis=0))
    level = size <= 1e-9
    found: FloatArray = np.where(level, 0.0, values / np.where(level, 1.0, size))
    return found


def standardised(columns: FloatArray) -> FloatArray:
    """Return columns with mean 0 and standard deviation 1; one that never varies becomes 0."""
    spread = columns.std(axis=0)
    level = spread <= 1e-9 * (1 + np.abs(columns).max(axis=0, initial=0))
    found: FloatArray = np.where(level, 0.0, (columns - columns.mean(axis=0)) / np.where(level, 1.0, spread))
    return found


def telling(table: Comparisons, features: Cues, most: int = 3) -> str:
    """Return in words the columns in which preferred candidates differ most surely from the others.

    Most surely: by the sum of the differences over the root of the sum of their squares. Nothing without names.
    """
    if not features.names:
        return ""
    chosen = np.zeros(len(table.owners), dtype=bool)
    chosen[table.starts + table.labels] = True
    weights = np.where(chosen, 1.0, -1 / (table.sizes[table.owners] - 1))
    sums = sparse.csr_array((weights, (table.owners, np.arange(len(weights)))))
    difference = sums @ features.values
    squares = np.asarray((difference * difference).sum(axis=0)).ravel()
    evidence = np.asarray(difference.sum(axis=0)).ravel() / np.sqrt(np.maximum(squares, 1e-12))
    best = np.argsort(-np.abs(evidence), kind="stable")[:most]
    if isinstance(features.values, np.ndarray):
        return ", ".join(f"{'more' if evidence[place] > 0 else 'less'} {features.names[place]}" for place in best)
    there = features.values[:, best].toarray()
    shares = zip(best, there[chosen].mean(axis=0), there[~chosen].mean(axis=0), strict=True)
    return ", ".join(f"{features.names[place]!r} {a:.0%} against {b:.0%}" for place, a, b in shares)


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


def style_of_answers(table: Comparisons) -> Cues:
    """Return each answer's style."""
    texts, index = distinct(table.texts)
    return Cues(scaled(table, standardised(style(texts))[index]), FEATURES)


def words(table: Comparisons) -> Cues:
    """Return which words an answer has."""
    return _present(table, tokens)


def letters(table: Comparisons) -> Cues:
    """Return which groups of three and four letters an answer has."""
    return Cues(_present(table, letter_groups).values)


def topics(table: Comparisons, seed: int) -> Cues:
    """Return each answer's place in a latent space of its words."""
    texts, index = distinct(table.texts)
    return Cues(latent(texts, TOPICS, seed)[index])


def _present(table: Comparisons, parts: Callable[[str], Iterable[str]]) -> Cues:
    """Return which parts occur, for the COLUMNS of them in which the candidates of most items differ."""
    texts, index = distinct(table.texts)
    values, names = incidence(texts, parts)
    if not names:
        return Cues(np.zeros((len(index), 1)))
    rows = values[index]
    differing = (abs(table.contrasts.T @ rows) > 1e-9).sum(axis=0)
    kept = np.sort(np.argsort(-differing, kind="stable")[:COLUMNS])
    return Cues(rows[:, kept], tuple(names[place] for place in kept))


CUE_DIRECTIONS = 32

_OVERLAPS = ("words shared, weighted", "of the prompt's words", "of its words in the prompt", "word pairs shared")


def _cue(words: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{words})\b", re.IGNORECASE)


# A prompt that says so asks for more, or less, of a feature of style.
_CUES: Mapping[tuple[str, str], re.Pattern[str]] = {
    ("a prompt that asks for brevity", "characters"): _cue(
        "short|brief|briefly|quick|quickly|concise|concisely|one line|in a line|a sentence|few words|tldr|summary"
    ),
    ("a prompt that asks for detail", "characters"): _cue(
        "details?|detailed|thorough|thoroughly|in depth|comprehensive|elaborate|long|at length|full|fully|exhaustive"
    ),
    ("a prompt that asks for steps", "list lines"): _cue("lists?|steps?|bullets?|checklist|outline|numbered|points"),
    ("a prompt that asks for figures", "digits"): _cue(
        "numbers?|figures?|data|statistics|exact|exactly|precise|ratios?|percent|percentage|how many"
    ),
    ("a prompt in a formal setting", "letters per word"): _cue(
        "formal|formally|professional|official|report|academic|technical|policy|procedure|manual|committee"
    ),
    ("a prompt that asks for plain words", "letters per word"): _cue(
        "simple|simply|plain|plainly|easy|layman|beginner|child|children|kids?|casual|friendly"
    ),
    ("a prompt that asks for a view", "first person"): _cue(
        "you think|opinion|your view|would you|honest|honestly|feel"
    ),
}


def overlap(table: Comparisons) -> Cues:
    """Return how much each answer shares with its prompt: weighted words, words each way, word pairs."""
    texts, index = distinct([*table.texts, *(item.prompt for item in table.items)])
    answers, prompts = index[: len(table.texts)], index[len(table.texts) :][table.owners]
    present = incidence(texts, tokens).values
    shared, sizes = products(present, answers, prompts), np.maximum(present.sum(axis=1), 1)
    columns = [
        products(weighted(texts), answers, prompts),
        shared / sizes[prompts],
        shared / sizes[answers],
        np.log1p(products(incidence(texts, word_pairs).values, answers, prompts)),
    ]
    return Cues(scaled(table, np.stack(columns, axis=1)), _OVERLAPS)


def matching_style(table: Comparisons) -> Cues:
    """Return how alike prompt and answer are in each feature of style, and whether a named wish is met."""
    asked, prompts, answers = _styles(table)
    cued = np.array([[bool(cue.search(text)) for cue in _CUES.values()] for text in asked], dtype=np.float64)
    wished = answers[:, [FEATURES.index(feature) for _, feature in _CUES]]
    alike = style(asked)
    columns = np.hstack([standardised(alike)[prompts] * answers, cued[prompts] * wished])
    names = [f"{feature} where the prompt has more" for feature in FEATURES]
    names += [f"{feature} after {asker}" for asker, feature in _CUES]
    return Cues(scaled(table, columns), tuple(names))


def cue_words(table: Comparisons, seed: int) -> Cues:
    """Return each answer's style times each of the strongest directions of the prompts' words."""
    asked, prompts, answers = _styles(table)
    directions = latent(asked, CUE_DIRECTIONS, seed)[prompts]
    products_of_both = (directions[:, :, None] * answers[:, None, :]).reshape(len(prompts), -1)
    return Cues(scaled(table, products_of_both))


def _styles(table: Comparisons) -> tuple[list[str], np.ndarray, FloatArray]:
    """Return the prompts once each, the prompt of each row, and each answer's style beside that of its rivals."""
    asked, index = distinct([item.prompt for item in table.items])
    texts, answers = distinct(table.texts)
    own = standardised(style(texts))[answers]
    means = np.add.reduceat(own, table.starts, axis=0) / table.sizes[:, None]
    return asked, index[table.owners], own - means[table.owners]
