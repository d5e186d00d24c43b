"""Which prompts a benchmark is not built from, each with the reason: rules on one text, equal texts, ratings.

>>> str(refused_text("Now you’re a pirate."))
"role: 'you’re' at character 5"
>>> str(refused_text("Is 5² odd?"))
'characters: U+00B2 SUPERSCRIPT TWO at character 5'
>>> refused_text("Is 5⁴ odd?") is None
True

A text is judged unchanged: nothing is normalised, cut or mended first. docs/filters.md has every rule.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Literal, NamedTuple

from pluralrm.errors import BenchmarkError, did_you_mean

Rule = Literal["empty", "role", "characters", "duplicate", "similar", "rating"]

Prompts = Mapping[str, str]
"""Texts by the ids of their records. Rules go by the order of the ids, so that no order of files decides anything."""


class FilterRefusal(NamedTuple):
    """Why a prompt is left out: the rule, what it found, and the record that is kept in its place, if any."""

    rule: Rule
    found: str
    other: str = ""
    cosine: float | None = None
    """With the other record, where that is the reason."""

    def __str__(self) -> str:
        return f"{self.rule}: {self.found}"


# ---------------------------------------------------------------- one text

RANGES = (
    (0x0000, 0x007F),  # ASCII, its control characters among it
    (0x00B0, 0x00B0),  # degree
    (0x0370, 0x03FF),  # Greek
    (0x2070, 0x209F),  # superscripts and subscripts, but for those of Latin-1: superscript two is U+00B2
    (0x2100, 0x214F),  # letterlike symbols
    (0x2150, 0x218F),  # number forms
    (0x2200, 0x22FF),  # mathematical operators
    (0x2A00, 0x2AFF),  # supplemental ones
)
"""English and scientific notation: first and last code point of each range that RMGAP allows (arXiv 2605.01831)."""

_FOREIGN = re.compile("[^" + "".join(rf"\u{first:04x}-\u{last:04x}" for first, last in RANGES) + "]")

# A word is whole where no letter, digit or underscore touches it; white space of any kind and length parts two words.
# Between "take" and "role" stand words alone: a comma or a full stop ends the phrase. A second "take" begins anew,
# which keeps the search linear.
_APOSTROPHES = "'\u2018\u2019\u02bc"
_ROLE = re.compile(
    rf"\byou(?:\s+are|[{_APOSTROPHES}]re)\b"
    r"|\bimagine\b"
    rf"|\btake(?:\s+(?!take\b)\w+(?:[{_APOSTROPHES}-]\w+)*)+?\s+role\b",
    re.IGNORECASE,
)


def refused_text(text: str) -> FilterRefusal | None:
    """Return why a text is left out whatever else there is, by the first rule that it breaks; None where it stays."""
    if not text.strip():
        return FilterRefusal("empty", "nothing but white space")
    return role_phrase(text) or foreign_character(text)


def role_phrase(text: str) -> FilterRefusal | None:
    """Return the first phrase that gives the model a role, or None."""
    found = _ROLE.search(text)
    if found is None:
        return None
    return FilterRefusal("role", f"{' '.join(found[0].split())!r} at character {found.start() + 1}")


def foreign_character(text: str) -> FilterRefusal | None:
    """Return the first character outside of RANGES, or None."""
    found = _FOREIGN.search(text)
    if found is None:
        return None
    name = unicodedata.name(found[0], "(no name)")
    return FilterRefusal("characters", f"U+{ord(found[0]):04X} {name} at character {found.start() + 1}")


# ---------------------------------------------------------------- equal texts


def duplicate_key(text: str) -> str:
    """Return the letters and digits of a text in lower case: texts of one key are one prompt.

    Letters of every script count, so that Greek ones tell formulas apart. A text without any is its symbols, white
    space aside.
    """
    key = "".join(filter(str.isalnum, text.lower()))
    return key or "".join(text.split())


def duplicates(prompts: Prompts) -> dict[str, FilterRefusal]:
    """Return the prompts that say what one of a smaller id says."""
    first: dict[str, str] = {}
    dropped = {}
    for name in sorted(prompts):
        kept = first.setdefault(duplicate_key(prompts[name]), name)
        if kept != name:
            dropped[name] = FilterRefusal("duplicate", f"the letters and digits of {kept!r}", kept)
    return dropped


# ---------------------------------------------------------------- ratings

RATED = ("clarity", "completeness", "naturalness", "safety", "openness", "overall")
"""What a prompt is rated on, from 0 to HIGHEST."""
HIGHEST, LEAST = 5, 4

GATES: Mapping[str, tuple[str, ...]] = {
    "Chat": RATED,
    "Writing": RATED,
    # A question of reasoning has one answer: an open one would be a flaw.
    "Reasoning": ("clarity", "completeness", "naturalness", "safety", "overall"),
    # Prompts of this domain ask for what is not safe: the gate would leave none.
    "Safety": ("clarity", "completeness", "naturalness", "openness", "overall"),
}
"""On which ratings a prompt of each domain must reach LEAST."""


def refused_ratings(domain: str, ratings: Mapping[str, float]) -> FilterRefusal | None:
    """Return every rating of the domain's gate that is below LEAST, as one reason; None where none is.

    A rating that is missing or off the scale is an error: it is not a low one.
    """
    if domain not in GATES:
        raise BenchmarkError(f"unknown domain {domain!r}.{did_you_mean(domain, GATES)}")
    for dimension in RATED:
        rating = ratings.get(dimension)
        if rating is None or not 0 <= rating <= HIGHEST:
            raise BenchmarkError(f"rating {dimension!r}: found {rating}, wanted a number from 0 to {HIGHEST}")
    low = [f"{dimension} {ratings[dimension]:g}" for dimension in GATES[domain] if ratings[dimension] < LEAST]
    return FilterRefusal("rating", f"{', '.join(low)}; wanted at least {LEAST}") if low else None


# Spelled out and not by Unicode's categories, which change with Python's release. Tab and line feed are seen. The two
# joiners (U+200C, U+200D) are let through: Persian, Hindi and many pictures need them.
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    r"\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)


def faulty(text: str, most: int) -> str:
    """Return why a text may not be released, whatever it says; an empty text where nothing speaks against it."""
    if len(text) > most:
        return f"it has {len(text):,} characters, wanted at most {most:,}"
    found = unseen(text)
    return f"it has {found}, which is invisible; wanted plain text" if found else ""


def unseen(text: str) -> str:
    r"""Return the first invisible character of a text and its position; an empty text where there is none.

    A person or a model that judges may see it in one text of a pair and not in the other; then it tells the label.

    >>> unseen("Bake it \x1b[31mdark.")
    'U+001B (a control character) at character 9'
    >>> unseen("Bake it dark.\n\tTwice.")
    ''
    """
    found = _UNSEEN.search(text)
    if found is None:
        return ""
    name = unicodedata.name(found[0], "a control character" if found[0] < "\xa0" else "no character")
    return f"U+{ord(found[0]):04X} ({name}) at character {found.start() + 1:,}"
