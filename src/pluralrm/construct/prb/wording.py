"""Does an answer repeat the wording of what the user expects? Then the words give the label away, not the taste.

>>> leaked("Nothing counted, logged or ticked", "Keep a pen away: nothing counted or logged, no ticked boxes.", "")
'nothing, counted, logged, ticked'
>>> leaked("Nothing counted, logged or ticked", "Leave pen and paper in the drawer and play.", "")
''

An aspect's own words are the content words of its title that the question does not use, without their endings. An
answer repeats the title where it has at least three of these and at least two thirds of them, or a run of four or more
words of the title (a shorter title: all of it) with two content words in it, which the question has not.
"""

import re

from pluralrm.audit.vectors import STOP_WORDS, tokens

OWN, PART, RUN = 3, 2 / 3, 4
"""How many of a title's own words an answer may not have, which part of them, and how many in a row."""

_ENDING = re.compile(r"(?:ings?|ed|es|s|ly|'s|’s)$")
_SHORTEST = 4
"""Letters that a word keeps without its ending: 'bed' and 'string' have none."""


def leaked(title: str, answer: str, question: str) -> str:
    """Return the words of the title that an answer repeats, '' where these are too few to tell."""
    said, asked = {_stem(word) for word in tokens(answer)}, {_stem(word) for word in tokens(question)}
    own = {_stem(word): word for word in tokens(title) if _content(word) and _stem(word) not in asked}
    shared = [word for stem, word in own.items() if stem in said]
    if len(shared) >= OWN and len(shared) >= PART * len(own):
        return ", ".join(shared)
    return _run(tokens(title), f" {' '.join(tokens(answer))} ", f" {' '.join(tokens(question))} ")


def _run(title: list[str], answer: str, question: str) -> str:
    """Return the first run of RUN words of the title in the answer, extended as far as it goes."""
    least = min(RUN, len(title))
    for start in range(len(title) - least + 1):
        for end in range(len(title), start + least - 1, -1):
            words = title[start:end]
            found = f" {' '.join(words)} "
            if found in answer and found not in question and sum(map(_content, words)) >= 2:
                return found.strip()
    return ""


def _content(word: str) -> bool:
    return len(word) > 2 and word not in STOP_WORDS


def _stem(word: str) -> str:
    bare = _ENDING.sub("", word)
    return bare if len(bare) >= _SHORTEST else word
