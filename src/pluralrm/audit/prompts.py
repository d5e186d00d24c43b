"""What prompt and answers together may give away, still without the user: overlap, matching style, words that cue.

On a benchmark in which every answer wins equally often (RMGAP) the answers alone are at chance by design, and these
are the only probes that can find anything.
"""

import re
from collections.abc import Mapping

import numpy as np

from pluralrm.audit.comparisons import Comparisons
from pluralrm.audit.features import Features, scaled, standardised
from pluralrm.audit.style import FEATURES, style
from pluralrm.audit.vectors import distinct, incidence, latent, products, tokens, weighted, word_pairs
from pluralrm.stats.clusters import FloatArray

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


def overlap(table: Comparisons) -> Features:
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
    return Features(scaled(table, np.stack(columns, axis=1)), _OVERLAPS)


def matching_style(table: Comparisons) -> Features:
    """Return how alike prompt and answer are in each feature of style, and whether a named wish is met."""
    asked, prompts, answers = _styles(table)
    cued = np.array([[bool(cue.search(text)) for cue in _CUES.values()] for text in asked], dtype=np.float64)
    wished = answers[:, [FEATURES.index(feature) for _, feature in _CUES]]
    alike = style(asked)
    columns = np.hstack([standardised(alike)[prompts] * answers, cued[prompts] * wished])
    names = [f"{feature} where the prompt has more" for feature in FEATURES]
    names += [f"{feature} after {asker}" for asker, feature in _CUES]
    return Features(scaled(table, columns), tuple(names))


def cue_words(table: Comparisons, seed: int) -> Features:
    """Return each answer's style times each of the strongest directions of the prompts' words."""
    asked, prompts, answers = _styles(table)
    directions = latent(asked, CUE_DIRECTIONS, seed)[prompts]
    products_of_both = (directions[:, :, None] * answers[:, None, :]).reshape(len(prompts), -1)
    return Features(scaled(table, products_of_both))


def _styles(table: Comparisons) -> tuple[list[str], np.ndarray, FloatArray]:
    """Return the prompts once each, the prompt of each row, and each answer's style beside that of its rivals."""
    asked, index = distinct([item.prompt for item in table.items])
    texts, answers = distinct(table.texts)
    own = standardised(style(texts))[answers]
    means = np.add.reduceat(own, table.starts, axis=0) / table.sizes[:, None]
    return asked, index[table.owners], own - means[table.owners]
