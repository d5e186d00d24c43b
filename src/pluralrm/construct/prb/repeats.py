"""Set-level gates: answers that came before, and lengths that give the label away."""

from collections.abc import Sequence

from scipy.stats import binomtest

from pluralrm.audit.near import near_duplicates, normalised
from pluralrm.construct.pipeline.records import Record
from pluralrm.construct.pipeline.work import Decision, Kept, Rejected
from pluralrm.construct.prb.products import SIDES, Balanced, Chosen, Kind, Unrepeated

ERROR_RATE = 0.05
"""How often a set without a length artefact is told that it has one, for each kind."""


def unrepeated(records: Sequence[Record], kinds: Sequence[Kind]) -> list[Decision]:
    """Return for each record whether its answers are new; of two that nearly repeat each other the smaller id stays."""
    texts = [(place, text) for place, record in enumerate(records) for text in _answers(record, kinds)]
    like: dict[int, set[int]] = {place: set() for place in range(len(records))}
    for one, other in _alike([text for _, text in texts]):
        first, second = sorted((texts[one][0], texts[other][0]))
        if first != second:
            like[second].add(first)
    kept: set[int] = set()
    decided: list[Decision] = []
    for place in range(len(records)):
        if before := sorted(like[place] & kept):
            decided.append(Rejected("repeated_answer", f"nearly an answer of record {records[before[0]].id!r}"))
        else:
            kept.add(place)
            decided.append(Kept(Unrepeated()))
    return decided


def _answers(record: Record, kinds: Sequence[Kind]) -> list[str]:
    return [record[Chosen].text, *(record[SIDES[kind].makes].text for kind in kinds)]


def _alike(texts: Sequence[str]) -> set[tuple[int, int]]:
    """Return pairs of places whose texts say nearly the same; equal texts by their words, however short."""
    found = near_duplicates(list(texts))
    pairs = set(zip(found.first.tolist(), found.second.tolist(), strict=True))
    first: dict[str, int] = {}
    for place, text in enumerate(map(normalised, texts)):
        if first.setdefault(text, place) != place:
            pairs.add((first[text], place))
    return pairs


# ---------------------------------------------------------------- length


def balanced(records: Sequence[Record], kinds: Sequence[Kind]) -> list[Decision]:
    """Return which records stay, so that the longer answer is not the chosen one more, or less, often than by chance.

    Where an exact binomial test excludes one half, as many records leave as make the two cases equally frequent,
    those with the largest difference in length first: an artefact that was found is taken out, not made insignificant.
    """
    extra = {kind: {record.id: _extra(record, kind) for record in records} for kind in kinds}
    dropped: dict[str, Rejected] = {}
    while surplus := next(filter(None, (_surplus(extra[kind], dropped, kind) for kind in kinds)), None):
        dropped |= surplus
    return [dropped.get(record.id) or Kept(_balanced(record, kinds)) for record in records]


def _balanced(record: Record, kinds: Sequence[Kind]) -> Balanced:
    return Balanced(longer=tuple(kind for kind in kinds if _extra(record, kind) > 0))


def _extra(record: Record, kind: Kind) -> int:
    """Return by how many characters the chosen answer is the longer."""
    return len(record[Chosen].text) - len(record[SIDES[kind].makes].text)


def length_p(longer: int, shorter: int) -> float:
    """Return the two-sided p-value of so many records in which the chosen answer is the longer, or the shorter, one."""
    return float(binomtest(longer, longer + shorter).pvalue) if longer + shorter else 1.0


def _surplus(extra: dict[str, int], dropped: dict[str, Rejected], kind: Kind) -> dict[str, Rejected]:
    """Return the records that have to leave for the sake of one kind; none where the lengths tell nothing."""
    left = {record: by for record, by in extra.items() if by and record not in dropped}
    longer, shorter = sum(by > 0 for by in left.values()), sum(by < 0 for by in left.values())
    p = length_p(longer, shorter)
    if p >= ERROR_RATE:
        return {}
    side = 1 if longer > shorter else -1
    leaning = sorted((record for record, by in left.items() if by * side > 0), key=lambda one: (-abs(left[one]), one))
    word = "longer" if side > 0 else "shorter"
    why = (
        f"{kind}: the chosen answer is the {word} one in {max(longer, shorter)} of {longer + shorter} records "
        f"(p = {p:.2g}); this one by {{}} characters"
    )
    surplus = leaning[: abs(longer - shorter)]
    return {record: Rejected("length_artefact", why.format(abs(left[record]))) for record in surplus}
