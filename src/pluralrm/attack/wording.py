r"""What a judge is shown that should not matter: candidates in another order, a question or answers in other words.

>>> plain("I don't know. It's late, i.e. we can't go.\nSorry.", random.Random(1))
"I do not know. It's late, that is, we cannot go.\n\nSorry."

Each is a pure function from an item to the changed item. Rewriting is by rule: contractions that mean one thing are
spelled out (or made, where there is none), abbreviations spelled out, paragraphs set anew; lists and code keep their
lines.
"""

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from pluralrm.core import Benchmark, Item

Alter = Callable[[Item, int], Item | None]
"""Takes an item and the seed; None where the item has nothing to change."""


def turned(shift: int) -> Alter:
    """Return what turns the candidates of an item: the one at place `shift` comes first; None where there is none."""

    def alter(item: Item, seed: int) -> Item | None:
        del seed
        count = len(item.candidates)
        if shift >= count:
            return None
        order = [(position + shift) % count for position in range(count)]
        return replace(
            item,
            candidates=tuple(item.candidates[index] for index in order),
            candidate_ids=tuple(item.candidate_ids[index] for index in order) if item.candidate_ids else (),
            preferred=None if item.preferred is None else order.index(item.preferred),
            grades=tuple(item.grades[index] for index in order) if item.grades else (),
        )

    return alter


_OPENINGS = (
    "Here is what I would like to know.",
    "This is my question.",
    "I have the following question.",
    "Could you help me with this?",
)


def question(item: Item, seed: int) -> Item:
    """Return the item with its question in other words: an opening, and the rules for texts. It stays one prompt."""
    rng = random.Random(f"{seed}:{item.id}:question")
    return replace(item, prompt=f"{rng.choice(_OPENINGS)}\n\n{plain(item.prompt, rng)}", prompt_id=item.crossed)


def answers(item: Item, seed: int) -> Item | None:
    """Return the item with all of its answers in other words, by the same rules; None where no rule applies."""
    texts = tuple(plain(text, random.Random(f"{seed}:{item.id}:{text}")) for text in item.candidates)
    if texts == item.candidates or len(set(texts)) < len(set(item.candidates)):
        return None
    return replace(item, candidates=texts)


def derived(benchmark: Benchmark, name: str, does: str, alter: Alter, *, seed: int = 0) -> Benchmark:
    """Return the items that can be changed, each changed, as a benchmark with a hash of its own."""
    items = (item for each in benchmark.items if (item := alter(each, seed)) is not None)
    card = replace(
        benchmark.card,
        name=f"{benchmark.card.name}+{name}",
        summary=f"{benchmark.card.name}, where {does}",
        metrics=benchmark.card.metrics[:1],
    )
    return Benchmark(card, tuple(items), benchmark.seed)


_NEGATED = ("do", "does", "did", "is", "are", "was", "were", "would", "should", "could", "has", "have", "had")
_CONTRACTIONS: Mapping[str, str] = {
    "cannot": "can't",
    "will not": "won't",
    "I am": "I'm",
    **{f"{verb} not": f"{verb}n't" for verb in _NEGATED},
    **{f"{who} will": f"{who}'ll" for who in ("I", "you", "we", "they", "it")},
    **{f"{who} are": f"{who}'re" for who in ("you", "we", "they")},
}
"""Those of 's and 'd are left out: they mean several things."""
_ABBREVIATIONS: Mapping[str, str] = {"e.g.": "for example,", "i.e.": "that is,", "etc.": "and so on."}


def _rules(words: Mapping[str, str], after: str) -> dict[re.Pattern[str], str]:
    return {re.compile(rf"(?<![\w'’]){re.escape(old)}{after}", re.IGNORECASE): new for old, new in words.items()}


_SPELLED_OUT = _rules({short: long for long, short in _CONTRACTIONS.items()}, r"(?![\w'’])")
_CONTRACTED = _rules(_CONTRACTIONS, r"(?![\w'’])")
_EXPANDED = _rules(_ABBREVIATIONS, ",?")
_LAYOUT = re.compile(r"```|^(?: {2,}|\t)\S|^\s*[|>#]|^\s*(?:[-*+]|\d+[.)])\s", re.MULTILINE)
"""Code, tables, lists and headings: their lines mean something."""
_LINE = re.compile(r"(?<!\n)\n(?!\n)")
_SENTENCE = re.compile(r"(?<=\w{2}[.!?]) +(?=[A-Z])")


def plain(text: str, rng: random.Random) -> str:
    """Return a text that says the same: contractions and abbreviations the other way round, paragraphs set anew."""
    straight = text.replace("’", "'")
    whole = _replaced(straight, _SPELLED_OUT)
    whole = _replaced(whole if whole != straight else _replaced(straight, _CONTRACTED), _EXPANDED)
    if _LAYOUT.search(text):
        return whole
    if "\n" in whole.strip():
        return _LINE.sub("\n\n", whole) if _LINE.search(whole) else re.sub(r"\n{2,}", "\n", whole)
    ends = [match.span() for match in _SENTENCE.finditer(whole)]
    if not ends:
        return whole
    start, end = rng.choice(ends)
    return f"{whole[:start]}\n\n{whole[end:]}"


def _replaced(text: str, rules: Mapping[re.Pattern[str], str]) -> str:
    for pattern, words in rules.items():
        text = pattern.sub(partial(_cased, words), text)
    return text


def _cased(words: str, match: re.Match[str]) -> str:
    """Return the words with a capital where the text had one."""
    return words[0].upper() + words[1:] if match[0][0].isupper() else words
