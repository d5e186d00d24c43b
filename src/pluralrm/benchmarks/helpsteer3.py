"""HelpSteer3 preference (arXiv 2505.11475): two answers in a conversation, judged by several people without ids.

A row (hub: nvidia/HelpSteer3, `preference/SPLIT.jsonl.gz`), shortened:

    {"domain": "general", "language": "english", "context": [{"role": "user", "content": "Name a fruit."}],
     "response1": "Plum.", "response2": "Yes.", "overall_preference": -2,
     "individual_preference": [{"score": -2}, {"score": -1}]}

`split=validation` (default), `train` or `all`. Without ids no person's judgments can be put together: a comparison is
one item with the aggregate as its label. Below 0 the first answer is better, by so many grades; 0 is a tie, dropped and
counted. Tags: `language`, `scores` (of each person), `disagreement` (their highest less their lowest), `strength`,
`place` (of the better answer in the file). An item's id is the hash of its content; an equal row is dropped.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from pluralrm.benchmarks.dataset import Dataset, judgment, load_dataset, read_items
from pluralrm.benchmarks.dirt import Dirt
from pluralrm.benchmarks.preferences import Turn, conversation, word_of
from pluralrm.benchmarks.rows import Place
from pluralrm.benchmarks.schema import Label, NullAsNoList, Part
from pluralrm.benchmarks.sources import Source
from pluralrm.card import Card
from pluralrm.core import Benchmark, Item
from pluralrm.digests import digest
from pluralrm.specs import Spec

HUB = "nvidia/HelpSteer3"
ROWS = {"validation": 2_017, "train": 38_459}

CARD = Card(
    name="helpsteer3",
    summary="HelpSteer3 preference: two answers in a conversation, the aggregate of several people's scores",
    licence="CC BY 4.0",
    source=f"hub: {HUB} (preference, split validation)",
    labelled="by people who scored each pair from -3 to 3; the label is their aggregate",
    citation="Zhilin Wang and others. HelpSteer3-Preference: Open Human-Annotated Preference Data across Diverse Tasks "
    "and Languages. arXiv:2505.11475, 2025.",
    notes="Ties are left out; a grade is the size of the aggregate.",
    cluster="prompt",
)

Preference = Annotated[int, Field(ge=-3, le=3)]


class IndividualPreference(Part):
    """One person's score of a pair."""

    score: Preference
    reasoning: object = None
    feedback1: object = None
    feedback2: object = None


class HelpSteerRow(Part):
    """A conversation with two answers."""

    domain: Label = ""
    language: Label = ""
    context: Annotated[list[Turn], Field(min_length=1)]
    response1: Label
    response2: Label
    overall_preference: Preference
    individual_preference: Annotated[list[IndividualPreference], NullAsNoList] = Field(default_factory=list)


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `helpsteer3`, `helpsteer3,split=train` (the hub) or `helpsteer3:PATH`."""
    split = word_of(spec, "split", (*ROWS, "all"))
    card = CARD if split == "validation" else replace(CARD, name=f"helpsteer3.{split}", source=f"hub: {HUB} ({split})")

    def read(sources: Sequence[Source], dirt: Dirt) -> Sequence[Item]:
        seen: set[str] = set()

        def items_of(row: HelpSteerRow, _location: Place, _domain: str) -> list[Item]:
            item, why = _item(row, seed), ""
            if row.response1.strip() == row.response2.strip() or not row.response1.strip() or not row.response2.strip():
                why = "of equal or empty answers"
            elif not row.overall_preference:
                why = "tied"
            elif item.id in seen:
                why = "repeated"
            dirt.read("comparisons", 1)
            seen.add(item.id)
            if why:
                dirt.drop("comparisons", why)
            return [] if why else [item]

        of_split = [source for source in sources if source.file.name.startswith(split)]
        return list(read_items(of_split or sources, HelpSteerRow, items_of, dirt))

    files = tuple(f"preference/{name}.jsonl.gz" for name in ROWS if split in {name, "all"})
    rows = sum(count for name, count in ROWS.items() if split in {name, "all"})
    return load_dataset(spec, seed, Dataset(card, hubs={HUB: files}, rows=rows), read)


def _item(row: HelpSteerRow, seed: int) -> Item:
    prompt, aggregate = conversation(row.context), row.overall_preference
    scores = [each.score for each in row.individual_preference]
    tags = {"language": row.language.strip(), "strength": str(abs(aggregate)), "place": "12"[aggregate > 0]}
    if scores:
        tags |= {"scores": ",".join(map(str, scores)), "disagreement": str(max(scores) - min(scores))}
    answers = {
        "response1": (row.response1, float(max(-aggregate, 0))),
        "response2": (row.response2, float(max(aggregate, 0))),
    }
    name = digest([prompt, answers, scores])[:16]
    return judgment(name, prompt, answers, seed=seed, domain=row.domain.strip() or "all", tags=tags)
