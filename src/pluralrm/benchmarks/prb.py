"""Personalized RewardBench (arXiv 2604.07343): which of two answers did this user want?

One row, shortened; the hub has one Parquet file for each domain (`Art_and_Entertainment/test-00000-of-00001.parquet`):

    {"id": "writers_1203", "question": "How do I keep a reader in a slow first chapter?", "category": "writers",
     "narrative": "I have finished a draft that my friends put down after ten pages ...",
     "profile": [{"id": "writers_866", "category": "writers", "text": "Is a prologue always a bad idea? ..."}, ...],
     "rubric_aspects": [{"aspect": "Slow is not the same as empty", "evidence": "... put down after ten pages",
                         "reason": "The draft is slow on purpose; a fight on page one does not help."}, ...],
     "chosen": "Give the slowness something to wait for. ...",
     "rejected": "Open on your strongest conflict. ..."}

The questions are those of LaMP-QA's test split: a row is a LaMP-QA row with two answers. Narrative and rubric are
oracle fields. One LLM wrote both answers: for `chosen` it was told the aspects that the user expects, for `rejected`
to avoid them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue

from pluralrm.benchmarks import placed
from pluralrm.benchmarks.dataset import Dataset, load_dataset
from pluralrm.benchmarks.dirt import Dirt, dirt_of
from pluralrm.benchmarks.lamp_qa import COUNTS, DOMAINS, QuestionRow, question
from pluralrm.benchmarks.preferences import (
    LabelledChoice,
    Turn,
    conversation,
    items_of,
    read_choices,
    users_of,
    with_split,
)
from pluralrm.benchmarks.rows import Place
from pluralrm.benchmarks.schema import Id, Label, Part, Text, as_tag
from pluralrm.benchmarks.sources import Source, find_sources, hub_snapshot, local_card, read_checked, target_path
from pluralrm.card import Card
from pluralrm.core import Benchmark, Item
from pluralrm.errors import SpecError, did_you_mean
from pluralrm.specs import Spec

HUB = "QiyaoMa/Personalized-RewardBench"

CARD = Card(
    name="prb",
    summary="Personalized RewardBench: two answers to one question, one of them follows what this user expects",
    licence="Apache-2.0",
    source=f"hub: {HUB}",
    labelled="by construction: one LLM wrote both answers, told to meet or to avoid the aspects that the user expects",
    citation="Qiyao Ma, Dechen Gao, Rui Cai, Boqi Zhao, Hanchu Zhou, Junshan Zhang and Zhe Zhao. Personalized "
    "RewardBench: Evaluating Reward Models with Human Aligned Personalization. arXiv:2604.07343, 2026.",
    notes="One question per user, so no labelled pairs to learn a user from. The rejected answer may lose on coverage "
    "of the question rather than on taste.",
)


class PrbRow(QuestionRow):
    """A question with the answer that its user wanted and one that misses it."""

    chosen: Text
    rejected: Text


_SET = Dataset(CARD, (COUNTS["test"],), {HUB: tuple(f"{domain}/*.parquet" for domain in DOMAINS)}, DOMAINS)


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `prb` (the hub; `revision=` for a fixed one) or `prb:PATH`, candidates placed by seed."""
    return load_dataset(spec, seed, _SET, lambda sources, dirt: read_items(sources, seed, dirt))


def read_items(sources: Sequence[Source], seed: int, dirt: Dirt) -> tuple[Item, ...]:
    """Return the items of some files in the format, candidates placed by seed."""
    return tuple(
        read_checked(
            sources,
            PrbRow,
            lambda row, location, domain: _item(question(row, location, domain, dirt), row, location, seed),
            dirt,
        )
    )


def _item(item: Item, row: PrbRow, location: Place, seed: int) -> Item:
    if row.chosen.strip() == row.rejected.strip():
        raise location.refuse("rejected", found="the same text as chosen", wanted="two different answers")
    answers = {"chosen": row.chosen, "rejected": row.rejected}
    order = placed(answers, row.id, seed)
    return replace(
        item,
        candidates=tuple(answers[key] for key in order),
        preferred=order.index("chosen"),
        candidate_ids=tuple(order),
    )


# ---- PersonalRewardBench

PERSONAL_RB_HUB: Mapping[str, str] = {
    "prism": "MichaelR207/prism_personalized_0125",
    "arena": "MichaelR207/chatbot_arena_personalized_0125",
}

PERSONAL_RB_CARD = Card(
    name="personal-rb",
    summary="PersonalRewardBench: preferences of real users, some shown as context, the others to be predicted",
    licence="see the data set's page",
    source=f"hub: {' (set=prism), '.join(PERSONAL_RB_HUB.values())} (set=arena)",
    labelled="by the users themselves, between two answers of models in a chat",
    citation="Michael J. Ryan, Omar Shaikh, Aditri Bhagirath, Daniel Frees, William Held and Diyi Yang. SynthesizeMe! "
    "Inducing Persona-Guided Prompts for Personalized Reward Models in LLMs. arXiv:2506.05598, 2025.",
)
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
`users=train|test` keeps a part of the users, for fitting and evaluating (the split `id-70-30`).
"""

TAGS = (
    *("conversation_id", "chosen_score", "rejected_score"),
    *("personalizable_query", "personalizable_responses", "agreement"),
)
"""The columns that become tags, beside those of the judges."""
JUDGED = "prediction_"
"""What a column that says what a published judge chose begins with; `prediction_flip_` has the answers swapped."""
_REASONED = ("reasoning_", "query_reasoning", "response_reasoning")
"""Columns of the format that are not read: texts, some of them long."""


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


def load_personal_rb(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `personal-rb:PATH[,users=train|test]`, or of the hub with `set=prism` or `set=arena`."""
    users, dirt = users_of(spec), dirt_of(spec)
    if spec.target:
        folder, card = target_path(spec, "set", "revision"), PERSONAL_RB_CARD
    else:
        folder, card = _from_hub(spec)

    def choices(row: PreferenceRow, location: Place, number: int) -> list[LabelledChoice]:
        for name in row.__pydantic_extra__:
            if name not in TAGS and not name.startswith((JUDGED, *_REASONED)):
                dirt.ignore(name)
        return _choice(row, location, number)

    items = items_of(read_choices(find_sources(folder), PreferenceRow, choices, dirt), users, seed, dirt)
    if spec.target:
        card = local_card(card, folder, [item.domain for item in items], {})
    return Benchmark(dirt.onto(with_split(card, users)), items, seed)


def _from_hub(spec: Spec) -> tuple[Path, Card]:
    name = spec.options.get("set", "")
    if name not in PERSONAL_RB_HUB:
        actual = f"set is {name!r}" if name else "found neither a path nor a set"
        raise SpecError(
            f"benchmark 'personal-rb': {actual}; wanted set=prism or set=arena.{did_you_mean(name, PERSONAL_RB_HUB)}"
        )
    hub = PERSONAL_RB_HUB[name]
    folder = hub_snapshot(hub, spec.options.get("revision", ""), ["*.parquet", "*.jsonl", "*.json"])
    name = f"{PERSONAL_RB_CARD.name}-{name}"
    return folder, replace(PERSONAL_RB_CARD, name=name, source=f"hub: {hub}", revision=folder.name)


def _choice(row: PreferenceRow, location: Place, number: int) -> list[LabelledChoice]:
    for name, answer in (("chosen", row.chosen), ("rejected", row.rejected)):
        if answer.role != "assistant":
            raise location.refuse(
                f"{name}.role", found=f"the role of the {answer.role}", wanted="an assistant's answer"
            )
    if row.chosen.content.strip() == row.rejected.content.strip():
        raise location.refuse("rejected", found="the same text as chosen", wanted="two different answers")
    return [
        LabelledChoice(
            id=row.id or f"{row.user_id}-{row.split}-{number}",
            user=row.user_id,
            role="item" if row.split == "test" else "context",
            prompt=conversation(row.context),
            preferred=row.chosen.content,
            other=row.rejected.content,
            place=location,
            domain=row.source.strip() or row.dataset.strip() or "chat",
            tags=_tags(row.__pydantic_extra__) if row.split == "test" else {},
        )
    ]


def _tags(columns: Mapping[str, JsonValue]) -> dict[str, str]:
    """Return the columns that say something of the pair; texts of reasoning are left alone, and null is no tag."""
    return {
        name: as_tag(value)
        for name, value in columns.items()
        if value is not None and (name in TAGS or name.startswith(JUDGED))
    }
