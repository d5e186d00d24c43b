"""Why a text may not stay, by rules that ask nobody: its form, its length, its wording, its likeness to the other."""

import re
from collections.abc import Iterator, Sequence

from pluralrm.audit.near import near_duplicates, normalised
from pluralrm.benchmarks.lamp_qa import AspectRow
from pluralrm.construct.pipeline.work import Refusal
from pluralrm.construct.plain import faulty
from pluralrm.construct.prb.wording import leaked

_LABEL = re.compile(
    r"^[\s#*_>-]*(?:(?:the |my |final |full )*(?:answer|option|version|response|candidate)(?: ?[a-c1-3])?"
    r"|analysis|explanation|reasoning|rationale|commentary|notes?|word count|chosen|rejected)[*_ ]*:",
    re.IGNORECASE | re.MULTILINE,
)
_OPENING = re.compile(
    r"^(?:sure|certainly|of course|absolutely|here(?:'s|’s| is| are)|below (?:is|are))\b[^\n]*:\s*\n", re.IGNORECASE
)
_TALK = re.compile(
    r"\b(?:this|the) (?:user|person)(?:'s|’s)? (?:posts?|aspects?|expectations?|preferences?|rubric|profile)\b"
    r"|\brubric aspects?\b|\(\s*(?:about |approx\.? |~)?\d+ words?\s*\)|\bas an ai\b",
    re.IGNORECASE,
)
_FORM = re.compile(r"\A\s*(?:```|\{|\[\s*[{\"]|#{1,6}\s)")


def words_in(text: str) -> int:
    """Return how many words a text has: what stands between blanks."""
    return len(text.split())


LETTERS = 20
"""Characters for each word that an answer may have: a text without blanks is not one word to whoever reads it."""
QUOTED = 4
"""Words that a quotation has at least."""


def form(text: str, most: int) -> Iterator[Refusal]:
    """Yield why a text is not one answer of at most so many words and nothing else."""
    if why := faulty(text, most * LETTERS):
        # Nothing else is looked for: millions of characters would take their time.
        yield Refusal("format", why)
        return
    count = words_in(text)
    if not normalised(text):
        yield Refusal("format", "it says nothing")
    if count > most:
        yield Refusal("format", f"it has {count} words, wanted at most {most}")
    for what, pattern in (("a label", _LABEL), ("an opening remark", _OPENING), ("talk of its making", _TALK)):
        if (found := pattern.search(text)) is not None:
            yield Refusal("format", f"it has {what}, {found[0].strip()!r}; wanted the answer alone")
    if _FORM.search(text) is not None:
        yield Refusal("format", "it begins with a heading, a code fence or JSON; wanted the answer in plain words")


def length(text: str, other: str, *, band: float) -> Iterator[Refusal]:
    """Yield why a text is too long or too short beside the other one."""
    count, beside = words_in(text), words_in(other)
    least, most = beside / band, beside * band
    if not least <= count <= most:
        yield Refusal("length", f"it has {count} words, wanted {-int(-least // 1)} to {int(most)}")


def wording(text: str, aspects: Sequence[AspectRow], *, question: str) -> Iterator[Refusal]:
    """Yield the aspects whose own words a text repeats."""
    for one in aspects:
        if found := leaked(one.aspect, text, question):
            yield Refusal("wording", f"it repeats the words {found!r}; say what you mean in other words")


def alike(text: str, other: str) -> bool:
    """Return whether two texts say nearly the same, as `pluralrm audit` measures it."""
    return normalised(text) == normalised(other) or bool(len(near_duplicates([text, other]).first))


def likeness(text: str, other: str) -> Iterator[Refusal]:
    """Yield that a text nearly repeats the other one."""
    if alike(text, other):
        yield Refusal("similar", "it nearly repeats another answer to this question; write a different one")


def quoted(evidence: str, sources: Sequence[str], least: int = QUOTED) -> bool:
    """Return whether so many words or more are a passage of one of the sources; marks and case do not count."""
    passage = normalised(evidence)
    return len(passage.split()) >= least and any(f" {passage} " in f" {normalised(one)} " for one in sources)
