"""The layout of PersonalRewardBench (arXiv 2506.05598): preferences of Chatbot-Arena and PRISM users, split by row.

One row, shortened (hub: MichaelR207/prism_personalized_0125 and MichaelR207/chatbot_arena_personalized_0125):

    {"user_id": "u17", "conversation_id": "c3", "split": "test", "dataset": "prism",
     "context": [{"role": "user", "content": "Is it rude to leave a party early?"}],
     "chosen": {"role": "model", "content": "Not if you thank the host. ..."}, "chosen_score": 87,
     "rejected": {"role": "model", "content": "Etiquette differs between cultures. ..."}, "rejected_score": 40,
     "prediction_some-judge": "...", "prediction_flip_some-judge": "...", "reasoning_some-judge": "...", ...}

Rows of the splits train and val are their user's context pairs, rows of test are items. `source` or `dataset` is the
domain, and `id` may be left out. The two scores, the conversation, what three columns say of the pair, and what the
five published judges chose, in both orders, are tags of the item under the names of their columns.
`users=train|test` keeps a part of the users, for fitting and evaluating.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue

from pluralrm.benchmarks.dirt import Dirt, dirt_of
from pluralrm.benchmarks.preferences import LabelledChoice, Turn, conversation, items_of, read_choices, users_of
from pluralrm.benchmarks.rows import Place, shortened
from pluralrm.benchmarks.schema import Id, Label, Part
from pluralrm.benchmarks.sources import find_sources, hub_snapshot, local_card, local_path
from pluralrm.card import Card
from pluralrm.core import Benchmark
from pluralrm.errors import SpecError, did_you_mean
from pluralrm.specs import Spec

HUB: Mapping[str, str] = {
    "prism": "MichaelR207/prism_personalized_0125",
    "arena": "MichaelR207/chatbot_arena_personalized_0125",
}

CARD = Card(
    name="personal-rb",
    summary="PersonalRewardBench: preferences of real users, some shown as context, the others to be predicted",
    licence="see the data set's page",
    source=f"hub: {' (set=prism), '.join(HUB.values())} (set=arena)",
    labelled="by the users themselves, between two answers of models in a chat",
    citation="Michael J. Ryan, Omar Shaikh, Aditri Bhagirath, Daniel Frees, William Held and Diyi Yang. SynthesizeMe! "
    "Inducing Persona-Guided Prompts for Personalized Reward Models in LLMs. arXiv:2506.05598, 2025.",
)

TAGS = (
    *("conversation_id", "chosen_score", "rejected_score"),
    *("personalizable_query", "personalizable_responses", "agreement"),
)
"""The columns that become tags, beside those of the judges."""
JUDGED = "prediction_"
"""What a column that says what a published judge chose begins with; `prediction_flip_` has the answers swapped."""
_REASONED = ("reasoning_", "query_reasoning", "response_reasoning")
"""Columns of the format that are not read: texts, some of them long."""
_LONGEST_TAG = 200


class PreferenceRow(Part):
    """One preference of one user; the columns that are not named here become tags, or are not read."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)

    id: Id | None = None
    user_id: Id
    split: Literal["train", "val", "validation", "test"]
    source: Label = ""
    dataset: Label = ""
    context: Annotated[list[Turn], Field(min_length=1)]
    chosen: Turn
    rejected: Turn


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `personal-rb:PATH[,users=train|test]`, or of the hub with `set=prism` or `set=arena`."""
    users, dirt = users_of(spec), dirt_of(spec)
    if not spec.target:
        return _from_hub(spec, seed, dirt)
    if on_hub := sorted(spec.options.keys() & {"set", "revision"}):
        raise SpecError(f"benchmark {str(spec)!r}: {on_hub[0]}= is for the hub, and this is a path; leave it out")
    path = local_path(spec.target)
    items = items_of(read_choices(find_sources(path), PreferenceRow, _choices(dirt), dirt), users, seed, dirt)
    card = local_card(CARD, path, [item.domain for item in items], {})
    return Benchmark(dirt.onto(card), items, seed)


def _from_hub(spec: Spec, seed: int, dirt: Dirt) -> Benchmark:
    name = spec.options.get("set", "")
    if name not in HUB:
        found = f"set is {name!r}" if name else "found neither a path nor a set"
        raise SpecError(f"benchmark 'personal-rb': {found}; wanted set=prism or set=arena.{did_you_mean(name, HUB)}")
    folder = hub_snapshot(HUB[name], spec.options.get("revision", ""), ["*.parquet", "*.jsonl", "*.json"])
    items = items_of(
        read_choices(find_sources(folder), PreferenceRow, _choices(dirt), dirt), users_of(spec), seed, dirt
    )
    card = replace(CARD, name=f"{CARD.name}-{name}", source=f"hub: {HUB[name]}", revision=folder.name)
    return Benchmark(dirt.onto(card), items, seed)


def _choices(dirt: Dirt) -> Callable[[PreferenceRow, Place, int], list[LabelledChoice]]:
    """Return what makes the choice of a row, and names the columns that are neither read nor of the format."""

    def made(row: PreferenceRow, place: Place, number: int) -> list[LabelledChoice]:
        for name in row.__pydantic_extra__:
            if name not in TAGS and not name.startswith((JUDGED, *_REASONED)):
                dirt.ignore(name)
        return _choice(row, place, number)

    return made


def _choice(row: PreferenceRow, place: Place, number: int) -> list[LabelledChoice]:
    for name, answer in (("chosen", row.chosen), ("rejected", row.rejected)):
        if answer.role != "assistant":
            raise place.refuse(f"{name}.role", found=f"the role of the {answer.role}", wanted="an assistant's answer")
    if row.chosen.content.strip() == row.rejected.content.strip():
        raise place.refuse("rejected", found="the same text as chosen", wanted="two different answers")
    return [
        LabelledChoice(
            id=row.id or f"{row.user_id}-{row.split}-{number}",
            user=row.user_id,
            role="item" if row.split == "test" else "context",
            prompt=conversation(row.context),
            preferred=row.chosen.content,
            other=row.rejected.content,
            place=place,
            domain=row.source.strip() or row.dataset.strip() or "chat",
            tags=_tags(row.__pydantic_extra__) if row.split == "test" else {},
        )
    ]


def _tags(columns: Mapping[str, JsonValue]) -> dict[str, str]:
    """Return the columns that say something of the pair; texts of reasoning are left alone, and null is no tag."""
    return {
        name: _tag(value)
        for name, value in columns.items()
        if value is not None and (name in TAGS or name.startswith(JUDGED))
    }


def _tag(value: JsonValue) -> str:
    if isinstance(value, float):  # Parquet has floats where a column has a null, JSON has whole numbers
        return f"{value:.12g}"
    return shortened(value if isinstance(value, str) else json.dumps(value), _LONGEST_TAG)
