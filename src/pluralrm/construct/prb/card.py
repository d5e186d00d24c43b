"""What the data card says of a set that only this pipeline knows: its two sides, who judged, how to make it again."""

import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

from pydantic import JsonValue, TypeAdapter

from pluralrm.audit.result import amount
from pluralrm.audit.result import share as mean_share
from pluralrm.benchmarks.lamp_qa import DOMAINS
from pluralrm.benchmarks.prb import PrbRow
from pluralrm.benchmarks.sources import LOCAL
from pluralrm.card import Card
from pluralrm.construct.pipeline import Built, Pools, Record
from pluralrm.construct.prb.answers import JUDGE, PLANNER, WRITER
from pluralrm.construct.prb.gates import length_p
from pluralrm.construct.prb.products import (
    NAME,
    SIDES,
    Chosen,
    Kind,
    PairAnswer,
    PersonalQuestion,
    Quality,
    QuestionRubric,
    Rules,
)
from pluralrm.construct.release import About, Edition
from pluralrm.core import Estimate
from pluralrm.display import json_fields
from pluralrm.grading.grader import share

MEANING: Mapping[Kind, str] = {
    "published": "the writer was told the aspects as things to avoid, so an answer may lose on coverage of the "
    "question rather than on taste",
    "contrary": "the writer was told to cover the same and to go the opposite way in each aspect",
}
_LIMITS = (
    "No person was asked: which answer a user prefers follows from how the two were written, and judges are models.",
    "The audit guesses from answers and questions; what it does not find may be there.",
)


def about(built: Built, rules: Rules, card: Card, *, licence: str = "") -> About:
    """Return what is to be said of a set; `card` is that of its input."""
    kinds, extras = rules.kinds, TypeAdapter(dict[str, JsonValue])
    planned = any(not record[QuestionRubric].given for record in built.kept)
    name, source = _input(card)
    return About(
        name=f"{name}-{'-'.join(kinds)}",
        summary="Pairs of answers to personal questions, in the format of Personalized RewardBench: the chosen one "
        "gives the user what they expect, the rejected one does not, and else the two are alike.",
        licence=licence or f"not stated; of the input: {card.licence}",
        source=source,
        command=command(built, rules, licence),
        limits=[*_LIMITS, *(["Some aspects were found by a planner, not by the users."] if planned else [])],
        warnings=warnings(built.pools),
        extras=extras.validate_python({kind: summary(built.kept, kind) for kind in kinds}),
        sections=[(f"The two sides: {kind}", told(built.kept, kind)) for kind in kinds],
    )


def _input(card: Card) -> tuple[str, str]:
    """Return what a set is named after, and its source. The name of a builder's own file is private."""
    if card.source.startswith(LOCAL):
        return NAME, f"{card.summary}, from files of the builder's; the hash of the input says which"
    return card.name, f"{card.name} ({card.source})"


def warnings(pools: Pools) -> list[str]:
    """Return what a reader should know of who wrote and who judged."""
    writers = {member.name for member in pools.roles[WRITER]}
    both = sorted(writers & {member.name for member in pools.roles[JUDGE]})
    if not both:
        return []
    return [f"{' and '.join(both)} wrote answers and judged answers: a model may be kinder to texts of its own"]


# ---------------------------------------------------------------- the two sides


def summary(records: Sequence[Record], kind: Kind) -> dict[str, object]:
    """Return what is known of the two sides of an edition as a whole."""
    more, less = _longer(records, kind)
    return {
        "rejected": MEANING[kind],
        "pairs": len(records),
        "adherence": {
            "chosen": adherence(records, Chosen).to_json(),
            "rejected": adherence(records, SIDES[kind].makes).to_json(),
        },
        "equivalence": [difference.to_json() for difference in differences(records, kind)],
        "chosen is longer": {"longer": more, "shorter": less, "p": round(length_p(more, less), 4)},
        "aspects found by a planner": sum(not record[QuestionRubric].given for record in records),
    }


def told(records: Sequence[Record], kind: Kind) -> str:
    """Return the same in sentences."""
    more, less = _longer(records, kind)
    sides = " ".join(map(_sentence, differences(records, kind)))
    return (
        f"Rejected: {MEANING[kind]}. By the judges, chosen answers give {_percent(adherence(records, Chosen))} of what "
        f"is expected and rejected ones {_percent(adherence(records, SIDES[kind].makes))}. "
        f"Chosen minus rejected, ratings from 1 to 5, coverage as a share: {sides} "
        f"The chosen answer is the longer one in {more} of {len(records)} pairs (p = {length_p(more, less):.2g})."
    )


def _percent(estimate: Estimate) -> str:
    ends = "" if estimate.low is None or estimate.high is None else f" [{estimate.low:.0%}, {estimate.high:.0%}]"
    return f"{estimate.value:.0%}{ends}"


def _longer(records: Sequence[Record], kind: Kind) -> tuple[int, int]:
    """Return in how many records the chosen answer is the longer, and in how many the shorter."""
    extra = [len(record[Chosen].text) - len(record[SIDES[kind].makes].text) for record in records]
    return sum(by > 0 for by in extra), sum(by < 0 for by in extra)


def _sentence(difference: "SideDifference") -> str:
    low, high = difference.estimate.low, difference.estimate.high
    ends = difference.estimate.method if low is None or high is None else f"90% interval {low:+.2f} to {high:+.2f}"
    verdict = "equivalence is inconclusive" if difference.verdict == "inconclusive" else difference.verdict
    return f"{difference.dimension} {difference.estimate.value:+.2f} ({ends}), margin {difference.margin:g}: {verdict}."


# ---------------------------------------------------------------- making it again


def command(built: Built, rules: Rules, licence: str = "") -> str:
    """Return what makes the set again from its input and its cassette, without a server."""
    words = ["pluralrm", "construct", "prb", "INPUT", "-o", "DIR", "--replay", "calls.jsonl"]
    for role in (WRITER, JUDGE, PLANNER):
        words += [word for spec in built.pools.published(role) for word in (f"--{role}", spec)]
    words += [*options(rules), *(["--licence", licence] if licence else [])]
    if built.manifest.limit is not None:
        words += ["--limit", str(built.manifest.limit)]
    return shlex.join(words)


def options(rules: Rules) -> list[str]:
    """Return the options that say these rules: everything that is not the default."""
    usual, words = Rules(), []
    for name in (field.name for field in fields(Rules)):
        if name != "ranking" and (value := getattr(rules, name)) != getattr(usual, name):
            words += [f"--{name.replace('_', '-')}", str(value)]
    by = rules.ranking.options.get("by")
    return [*words, "--by", by] if by else words


MARGIN = 0.5
"""Points of 1 to 5 by which the means of two sides may differ."""
COVERAGE_MARGIN = 0.1
"""By how much the mean shares of the question's parts may differ."""

EquivalenceVerdict = Literal["equivalent", "inconclusive", "different"]


@dataclass(frozen=True, slots=True)
class SideDifference:
    """Chosen minus rejected in one dimension, with a 90% interval over users; `different` excludes 0 and the margin."""

    dimension: str
    estimate: Estimate
    margin: float

    @property
    def verdict(self) -> EquivalenceVerdict:
        """What the interval shows."""
        low, high = self.estimate.low, self.estimate.high
        if low is None or high is None:
            return "inconclusive"
        if -self.margin < low and high < self.margin:
            return "equivalent"
        return "different" if low > self.margin or high < -self.margin else "inconclusive"

    def to_json(self) -> dict[str, object]:
        """Return it under its names, for the data card."""
        fields = json_fields(self, "margin", "verdict")
        return {"dimension": self.dimension, "chosen minus rejected": self.estimate.to_json(), **fields}


def differences(records: Sequence[Record], kind: Kind) -> list[SideDifference]:
    """Return the difference in each dimension of quality, and in coverage where it was judged.

    Two one-sided tests at 5%: the sides are equivalent where the 90% interval of the mean lies within the margin.
    """
    pairs = [(record[Chosen], record[SIDES[kind].makes]) for record in records]
    users = [record.id for record in records]
    rows = [_of(name, [(_rated(good, name), _rated(bad, name)) for good, bad in pairs], users) for name in _DIMENSIONS]
    if pairs and all(good.marks.coverage and bad.marks.coverage for good, bad in pairs):
        covered = [(share(good.marks.coverage), share(bad.marks.coverage)) for good, bad in pairs]
        rows.append(_of("coverage", covered, users, COVERAGE_MARGIN))
    return rows


_DIMENSIONS = tuple(Quality.model_fields)


def _rated(answer: PairAnswer, dimension: str) -> float:
    return float(getattr(answer.marks.quality, dimension))


def _of(
    name: str, pairs: Sequence[tuple[float, float]], users: Sequence[str], margin: float = MARGIN
) -> SideDifference:
    return SideDifference(name, amount([first - other for first, other in pairs], users, level=0.90), margin)


def adherence(records: Sequence[Record], side: type[PairAnswer]) -> Estimate:
    """Return the mean share of what users expect that the answers of a side give, by the judges."""
    shares = [share(record[side].marks.adherence) for record in records]
    return mean_share(shares, [record.id for record in records])


OTHER = "benchmark"
"""The file of the domains that the loader reads from a row's category."""


def editions(records: Sequence[Record], kinds: Sequence[Kind]) -> list[Edition]:
    """Return the benchmarks that a set holds."""
    return [Edition(kind, "prb", _files(records, kind)) for kind in kinds]


def _files(records: Sequence[Record], kind: Kind) -> dict[str, list[PrbRow]]:
    """Return the rows by the name of their file, which tells their domain, as on the hub."""
    files: dict[str, list[PrbRow]] = defaultdict(list)
    for record in records:
        files[record.domain if record.domain in DOMAINS else OTHER].append(row(record, kind))
    return dict(files)


def row(record: Record, kind: Kind) -> PrbRow:
    """Return a record in the published schema."""
    question = record[PersonalQuestion]
    return PrbRow(
        id=record.id,
        question=question.question,
        category=question.category,
        narrative=question.narrative,
        profile=list(question.posts),
        rubric_aspects=list(record[QuestionRubric].aspects),
        chosen=record[Chosen].text,
        rejected=record[SIDES[kind].makes].text,
    )
