"""Why a text or a record may not stay: form, length, wording, likeness, what judges gave it, and repeats in the set.

An answer that repeats the wording of what the user expects gives the label away by its words, not by its taste.
"""

import re
from collections.abc import Iterator, Sequence

from pluralrm.audit.embedder import STOP_WORDS, tokens
from pluralrm.audit.near import near_duplicates, normalised
from pluralrm.benchmarks.lamp_qa import AspectRow
from pluralrm.construct.filters import faulty
from pluralrm.construct.pipeline.stages import Acceptance, Decision, Record, Refusal, Rejection
from pluralrm.construct.prb.products import SIDES, AnswerSide, Balanced, Chosen, Kind, Marks, Rules, Unrepeated
from pluralrm.grading.grader import share

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
"""Characters for each word that an answer may have: a text without blanks is not one word to a reader."""
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
        if (match := pattern.search(text)) is not None:
            yield Refusal("format", f"it has {what}, {match[0].strip()!r}; wanted the answer alone")
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
    for aspect in aspects:
        if repeated := leaked(aspect.aspect, text, question):
            yield Refusal("wording", f"it repeats the words {repeated!r}; say what you mean in other words")


def alike(text: str, other: str) -> bool:
    """Return whether two texts say nearly the same, as `pluralrm audit` measures it."""
    return normalised(text) == normalised(other) or bool(len(near_duplicates([text, other]).first))


def likeness(text: str, other: str) -> Iterator[Refusal]:
    """Yield that a text nearly repeats the other one."""
    if alike(text, other):
        yield Refusal("similar", "it nearly repeats another answer to this question; write a different one")


def quoted(evidence: str, sources: Sequence[str]) -> bool:
    """Return whether QUOTED words or more are a passage of one of the sources; marks and case do not count."""
    passage = normalised(evidence)
    return len(passage.split()) >= QUOTED and any(f" {passage} " in f" {normalised(source)} " for source in sources)


OWN, PART, RUN = 3, 2 / 3, 4
"""How many of a title's own words an answer may not have, which part of them, and how many in a row."""

_ENDING = re.compile(r"(?:ings?|ed|es|s|ly|'s|’s)$")
_SHORTEST = 4
"""Letters that a word keeps without its ending: 'bed' and 'string' have none."""


def leaked(title: str, answer: str, question: str) -> str:
    """Return the words of the title that an answer repeats, '' where these are too few.

    >>> leaked("Nothing counted, logged or ticked", "Keep a pen away: nothing counted or logged, no ticked boxes.", "")
    'nothing, counted, logged, ticked'
    >>> leaked("Nothing counted, logged or ticked", "Leave pen and paper in the drawer and play.", "")
    ''

    A title's own words are its content words that the question does not use, without their endings. An answer repeats
    the title where it has at least three of these and at least two thirds of them, or a run of four or more words of
    the title (a shorter title: all of it) with two content words in it, which the question has not.
    """
    spoken, query = {_stem(word) for word in tokens(answer)}, {_stem(word) for word in tokens(question)}
    own = {_stem(word): word for word in tokens(title) if _content(word) and _stem(word) not in query}
    shared = [word for stem, word in own.items() if stem in spoken]
    if len(shared) >= OWN and len(shared) >= PART * len(own):
        return ", ".join(shared)
    return _run(tokens(title), f" {' '.join(tokens(answer))} ", f" {' '.join(tokens(question))} ")


def _run(title: list[str], answer: str, question: str) -> str:
    """Return the first run of RUN words of the title in the answer, extended as far as it goes."""
    least = min(RUN, len(title))
    for start in range(len(title) - least + 1):
        for end in range(len(title), start + least - 1, -1):
            words = title[start:end]
            phrase = f" {' '.join(words)} "
            if phrase in answer and phrase not in question and sum(map(_content, words)) >= 2:
                return phrase.strip()
    return ""


def _content(word: str) -> bool:
    return len(word) > 2 and word not in STOP_WORDS


def _stem(word: str) -> str:
    bare = _ENDING.sub("", word)
    return bare if len(bare) >= _SHORTEST else word


_EPSILON = 1e-9


def refusals(
    marks: Marks, beside: Marks | None, *, side: AnswerSide, rules: Rules, rubric: Sequence[AspectRow]
) -> list[Refusal]:
    """Return why an answer of these marks may not stay; `beside` are the chosen one's, None for itself."""
    refused = [*_adherence(marks, side, rules, rubric), *_quality(marks, beside, rules)]
    if side.task == "contrary" and beside is not None:
        refused += [*_opposite(marks, rules, rubric), *_coverage(marks, beside, rules)]
    return refused


def _adherence(marks: Marks, side: AnswerSide, rules: Rules, rubric: Sequence[AspectRow]) -> Iterator[Refusal]:
    """Yield that a chosen answer gives too little of what the user expects, or a rejected one too much."""
    part = share(marks.adherence)
    if side.task == "meet" and part < rules.high - _EPSILON:
        missed = _titles(rubric, [points < 2 for points in marks.adherence])
        yield Refusal(
            "adherence", f"it gives {part:.0%} of what is expected, wanted {rules.high:.0%}; too little: {missed}"
        )
    if side.task != "meet" and part > rules.low + _EPSILON:
        excess = _titles(rubric, [points > 0 for points in marks.adherence])
        yield Refusal(
            "adherence", f"it gives {part:.0%} of what it has to do without, wanted {rules.low:.0%} at most: {excess}"
        )


def _quality(marks: Marks, beside: Marks | None, rules: Rules) -> Iterator[Refusal]:
    """Yield the dimensions of quality in which an answer is below the floor or too far from the chosen one."""
    other = beside.quality.model_dump() if beside else {}
    for name, points in marks.quality.model_dump().items():
        if points < rules.floor:
            yield Refusal("quality", f"its {name} is rated {points} of 5, wanted {rules.floor} or more")
        elif abs(points - other.get(name, points)) > rules.margin:
            yield Refusal(
                "quality",
                f"its {name} is rated {points} of 5, wanted within {rules.margin} of the other's {other[name]}",
            )


def _opposite(marks: Marks, rules: Rules, rubric: Sequence[AspectRow]) -> Iterator[Refusal]:
    """Yield that an answer is not plainly of the opposite taste."""
    part = share(marks.opposite)
    if part < rules.opposite - _EPSILON:
        missed = _titles(rubric, [points < 2 for points in marks.opposite])
        yield Refusal(
            "opposite", f"it goes the opposite way in {part:.0%}, wanted {rules.opposite:.0%}; not plainly: {missed}"
        )


def _coverage(marks: Marks, beside: Marks, rules: Rules) -> Iterator[Refusal]:
    """Yield that an answer does not speak to the same of the question as the chosen one."""
    part, other = share(marks.coverage), share(beside.coverage)
    if abs(part - other) > rules.coverage + _EPSILON:
        yield Refusal(
            "coverage",
            f"it covers {part:.0%} of what is asked, wanted within {rules.coverage:.0%} of the other's {other:.0%}",
        )
    lost = [number for number, points in enumerate(marks.coverage, 1) if not points and beside.coverage[number - 1]]
    if lost:
        yield Refusal(
            "coverage", f"it leaves out part {', '.join(map(str, lost))} of the question, which the other covers"
        )


def _titles(rubric: Sequence[AspectRow], flags: Sequence[bool]) -> str:
    return "; ".join(aspect.aspect for aspect, flag in zip(rubric, flags, strict=True) if flag)


ERROR_RATE = 0.05
"""How often a set without a length artefact is told that it has one, for each kind."""


def unrepeated(records: Sequence[Record], kinds: Sequence[Kind]) -> list[Decision]:
    """Return for each record whether its answers are new; of two that nearly repeat each other the smaller id stays."""
    texts = [(index, text) for index, record in enumerate(records) for text in _answers(record, kinds)]
    like: dict[int, set[int]] = {index: set() for index in range(len(records))}
    for twins in _alike([text for _, text in texts]):
        first, second = sorted(texts[twin][0] for twin in twins)
        if first != second:
            like[second].add(first)
    accepted: set[int] = set()
    decided: list[Decision] = []
    for index in range(len(records)):
        if before := sorted(like[index] & accepted):
            decided.append(Rejection("repeated_answer", f"nearly an answer of record {records[before[0]].id!r}"))
        else:
            accepted.add(index)
            decided.append(Acceptance(Unrepeated()))
    return decided


def _answers(record: Record, kinds: Sequence[Kind]) -> list[str]:
    return [record[Chosen].text, *(record[SIDES[kind].makes].text for kind in kinds)]


def _alike(texts: Sequence[str]) -> set[tuple[int, int]]:
    """Return pairs of places whose texts say nearly the same; equal texts by their words, however short."""
    near = near_duplicates(list(texts))
    pairs = set(zip(near.first.tolist(), near.second.tolist(), strict=True))
    first: dict[str, int] = {}
    for index, text in enumerate(map(normalised, texts)):
        if first.setdefault(text, index) != index:
            pairs.add((first[text], index))
    return pairs


# ---------------------------------------------------------------- length


def balanced(records: Sequence[Record], kinds: Sequence[Kind]) -> list[Decision]:
    """Return which records stay, so that the longer answer is not the chosen one more, or less, often than by chance.

    Where an exact binomial test excludes one half, as many records leave as make the two cases equally frequent,
    those with the largest difference in length first: an artefact that was found is taken out, not made insignificant.
    """
    extra = {kind: {record.id: _extra(record, kind) for record in records} for kind in kinds}
    dropped: dict[str, Rejection] = {}
    while surplus := next(filter(None, (_surplus(extra[kind], dropped, kind) for kind in kinds)), None):
        dropped |= surplus
    return [dropped.get(record.id) or Acceptance(_balanced(record, kinds)) for record in records]


def _balanced(record: Record, kinds: Sequence[Kind]) -> Balanced:
    return Balanced(longer=tuple(kind for kind in kinds if _extra(record, kind) > 0))


def _extra(record: Record, kind: Kind) -> int:
    """Return by how many characters the chosen answer is the longer."""
    return len(record[Chosen].text) - len(record[SIDES[kind].makes].text)


def length_p(longer: int, shorter: int) -> float:
    """Return the two-sided p-value of so many records in which the chosen answer is the longer, or the shorter, one."""
    from scipy.stats import binomtest

    return float(binomtest(longer, longer + shorter).pvalue) if longer + shorter else 1.0


def _surplus(extra: dict[str, int], dropped: dict[str, Rejection], kind: Kind) -> dict[str, Rejection]:
    """Return the records that have to leave for the sake of one kind; none where the lengths tell nothing."""
    left = {record: by for record, by in extra.items() if by and record not in dropped}
    longer, shorter = sum(by > 0 for by in left.values()), sum(by < 0 for by in left.values())
    p = length_p(longer, shorter)
    if p >= ERROR_RATE:
        return {}
    side = 1 if longer > shorter else -1
    leaning = sorted(
        (record for record, by in left.items() if by * side > 0), key=lambda name: (-abs(left[name]), name)
    )
    word = "longer" if side > 0 else "shorter"
    why = (
        f"{kind}: the chosen answer is the {word} one in {max(longer, shorter)} of {longer + shorter} records "
        f"(p = {p:.2g}); this one by {{}} characters"
    )
    surplus = leaning[: abs(longer - shorter)]
    return {record: Rejection("length_artefact", why.format(abs(left[record]))) for record in surplus}
