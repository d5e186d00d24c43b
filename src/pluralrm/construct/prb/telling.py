"""What the data card says of a set that only this pipeline knows: its two sides, who judged, how to make it again."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields

from pydantic import JsonValue, TypeAdapter

from pluralrm.benchmarks.sources import LOCAL
from pluralrm.construct.pipeline import Built, Pools, Record
from pluralrm.construct.prb.answers import WRITER
from pluralrm.construct.prb.equivalence import Difference, adherence, differences
from pluralrm.construct.prb.judges import JUDGE
from pluralrm.construct.prb.products import SIDES, Chosen, Kind, Rubric
from pluralrm.construct.prb.repeats import length_p
from pluralrm.construct.prb.rubric import PLANNER
from pluralrm.construct.prb.rules import NAME, Rules
from pluralrm.construct.release import About
from pluralrm.core import Card, Estimate

MEANING: Mapping[Kind, str] = {
    "published": "the writer was told the aspects as things to avoid, so an answer may lose on coverage of the "
    "question rather than on taste",
    "contrary": "the writer was told to cover the same and to go the opposite way in each aspect",
}
_LIMITS = (
    "Nobody was asked: which answer a user prefers follows from how the two were written, and judges are models.",
    "The audit guesses from answers and questions; what it does not find may be there.",
)


def about(built: Built, rules: Rules, card: Card, *, licence: str = "") -> About:
    """Return what is to be said of a set; `card` is that of its input."""
    kinds, extras = rules.kinds, TypeAdapter(dict[str, JsonValue])
    planned = any(not record[Rubric].given for record in built.kept)
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
    """Return what a set is named after, and its source. The name of a builder's own file is nobody else's concern."""
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
        "equivalence": [one.to_json() for one in differences(records, kind)],
        "chosen is longer": {"longer": more, "shorter": less, "p": round(length_p(more, less), 4)},
        "aspects found by a planner": sum(not record[Rubric].given for record in records),
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


def _percent(found: Estimate) -> str:
    ends = "" if found.low is None or found.high is None else f" [{found.low:.0%}, {found.high:.0%}]"
    return f"{found.value:.0%}{ends}"


def _longer(records: Sequence[Record], kind: Kind) -> tuple[int, int]:
    """Return in how many records the chosen answer is the longer, and in how many the shorter."""
    extra = [len(record[Chosen].text) - len(record[SIDES[kind].makes].text) for record in records]
    return sum(by > 0 for by in extra), sum(by < 0 for by in extra)


def _sentence(one: Difference) -> str:
    low, high = one.estimate.low, one.estimate.high
    ends = one.estimate.method if low is None or high is None else f"90% interval {low:+.2f} to {high:+.2f}"
    verdict = "equivalence is not shown" if one.verdict == "not shown" else one.verdict
    return f"{one.dimension} {one.estimate.value:+.2f} ({ends}), margin {one.margin:g}: {verdict}."


# ---------------------------------------------------------------- making it again


def command(built: Built, rules: Rules, licence: str = "") -> str:
    """Return what makes the set again from its input and its cassette, without a server."""
    said = ["pluralrm", "construct", "prb", "INPUT", "-o", "DIR", "--replay", "calls.jsonl"]
    for role in (WRITER, JUDGE, PLANNER):
        said += [word for spec in built.pools.published(role) for word in (f"--{role}", spec)]
    said += [*options(rules), *(["--licence", licence] if licence else [])]
    if built.manifest.limit is not None:
        said += ["--limit", str(built.manifest.limit)]
    return shlex.join(said)


def options(rules: Rules) -> list[str]:
    """Return the options that say these rules: everything that is not the default."""
    usual, said = Rules(), []
    for name in (field.name for field in fields(Rules)):
        if name != "ranking" and (value := getattr(rules, name)) != getattr(usual, name):
            said += [f"--{name.replace('_', '-')}", str(value)]
    by = rules.ranking.options.get("by")
    return [*said, "--by", by] if by else said
