"""PRISM (arXiv 2404.16019): conversations of 1,500 people with language models, with their scores and choices.

One row of its `conversations.jsonl` (hub: HannahRoseKirk/prism-alignment), shortened to what is read:

    {"conversation_id": "c1", "user_id": "user0", "conversation_type": "unguided", "conversation_history": [
       {"turn": 0, "role": "user", "content": "Is it rude to leave a party early?"},
       {"turn": 0, "role": "model", "content": "Not if you thank the host. ...", "score": 87, "if_chosen": true},
       {"turn": 0, "role": "model", "content": "Etiquette differs. ...", "score": 40, "if_chosen": false}]}

Each turn is one preference: the answer chosen, and the one scored lowest among those below it. With `answers=all` every
answer scored below it is a candidate. The scores, 1 to 100, are tags of the item either way: `score:chosen`,
`score:rejected`, and `score:other1`, `score:other2` for the answers between. A turn without a pair is passed over.

`survey.jsonl` beside it has a row per person; what they declared there becomes the user's traits:

    {"user_id": "user0", "age": "25-34 years old", "stated_prefs": {"factuality": 81},
     "religion": {"simplified": "No Affiliation"}, "system_string": "Be brief, and say when you do not know."}

What was said before is the prompt. The last third of a user's conversations, rounded up, in the order of the file, are
items; those before are context pairs, so a user with one conversation has items alone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pydantic import ConfigDict, Field, JsonValue

from pluralrm.benchmarks.dirt import Dirt, dirt_of
from pluralrm.benchmarks.preferences import (
    LabelledChoice,
    Speaker,
    Turn,
    conversation,
    items_of,
    read_choices,
    users_of,
    with_split,
    word_of,
)
from pluralrm.benchmarks.rows import Place, describe
from pluralrm.benchmarks.schema import Id, Label, Part, as_tag, checked
from pluralrm.benchmarks.sources import (
    Source,
    check_counts,
    find_sources,
    hub_snapshot,
    local_card,
    read_each,
    refuse_again,
    target_path,
)
from pluralrm.card import Card
from pluralrm.core import Benchmark
from pluralrm.specs import Spec

HUB = "HannahRoseKirk/prism-alignment"
FILE, SURVEY = "conversations.jsonl", "survey.jsonl"
COUNTS = {"conversations": 8011}

CARD = Card(
    name="prism",
    summary="PRISM: what people of many countries chose in their own conversations with language models",
    licence="CC BY 4.0 for what people wrote, CC BY-NC 4.0 for what models wrote; see the data set's page",
    source=f"hub: {HUB} ({FILE})",
    labelled="by the users themselves, by a score from 1 to 100 and a choice at each turn",
    citation="Hannah Rose Kirk and others. The PRISM Alignment Project: What Participatory, Representative and "
    "Individualised Human Feedback Reveals About the Subjective and Multicultural Alignment of Large Language Models. "
    "arXiv:2404.16019, 2024.",
)


class Utterance(Part):
    """One thing said; a model's answer has a score, and whether it was chosen."""

    turn: int
    role: Speaker
    content: Label
    score: float | None = None
    if_chosen: bool | None = None
    # The names of models least of all: nothing here may know them.
    unread = ("within_turn_id", "model_provider", "model_name")


class ConversationRow(Part):
    """One conversation of one person."""

    conversation_id: Id
    user_id: Id
    conversation_type: Label = ""
    conversation_history: list[Utterance]
    unread = (
        *("opening_prompt", "conversation_turns", "performance_attributes", "choice_attributes", "open_feedback"),
        *("generated_datetime", "timing_duration_s", "timing_duration_mins", "included_in_balanced_subset"),
    )


class SurveyRow(Part):
    """What one person declared: any columns, of which those of the study's own bookkeeping are no traits."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)

    user_id: Id


_BOOKKEEPING = ("consent", "generated_", "included_in_", "num_", "order_", "survey_only", "timing_")
"""What the names of columns begin with that say nothing of the person."""


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `prism` (the hub; `revision=`) or `prism:PATH`; `users=train|test`, `answers=all`."""
    users, answers, dirt = users_of(spec), word_of(spec, "answers", ("pair", "all")), dirt_of(spec)
    path = target_path(spec, "revision") if spec.target else None
    folder = path or hub_snapshot(HUB, spec.options.get("revision", ""), [FILE, SURVEY])
    talks: dict[str, Place] = {}

    def choices_of(row: ConversationRow, location: Place, _number: int) -> list[LabelledChoice]:
        refuse_again(row.conversation_id, talks, location, field="conversation_id")
        batch = _choices(row, location, dirt, everything=answers == "all")
        talks[row.conversation_id] = location
        return batch

    # A part of a user's conversations are items: all must be known before it can be said which.
    choices = list(read_choices(_sources(folder), ConversationRow, choices_of, dirt))
    counter, skipped = Counter({"conversations": len(talks)}), dirt.skipped
    items = items_of(_with_roles(choices), users, seed, dirt, split_here=True, traits=_traits(folder, dirt))
    if path is None:
        check_counts(CARD.name, counter, COUNTS, skipped)
        card = replace(CARD, revision=folder.name)
    else:
        card = local_card(CARD, path, list(counter.elements()), COUNTS)
    return Benchmark(dirt.onto(with_split(card, users)), items, seed)


def _traits(path: Path, dirt: Dirt) -> Mapping[str, Mapping[str, str]]:
    """Return what each person declared, by user id; nothing where no survey stands beside the conversations."""
    file = (path if path.is_dir() else path.parent) / SURVEY
    people: dict[str, Place] = {}

    def declared(raw: Mapping[str, object], location: Place, _domain: str) -> tuple[str, Mapping[str, str]]:
        row = checked(SurveyRow, raw, location, dirt)
        refuse_again(row.user_id, people, location, field="user_id", each="one row per person")
        people[row.user_id] = location
        return row.user_id, dict(_declared(row.__pydantic_extra__))

    return dict(read_each([Source(file)], declared, dirt)) if file.is_file() else {}


def _declared(columns: Mapping[str, JsonValue], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield each trait as a text, `religion.simplified` for an object's; what is null or blank was not declared."""
    for name, value in columns.items():
        if isinstance(value, dict):
            yield from _declared(value, f"{above}{name}.")
        elif not above and name.startswith(_BOOKKEEPING):
            continue
        elif value is not None and (text := value if isinstance(value, str) else as_tag(value)).strip():
            yield f"{above}{name}", text


def _sources(path: Path) -> list[Source]:
    """Return the files of conversations; the data set's folder has the survey and the single utterances beside them."""
    sources = find_sources(path)
    return [source for source in sources if source.file.name.startswith("conversations")] or sources


def _with_roles(choices: Sequence[LabelledChoice]) -> Iterator[LabelledChoice]:
    """Yield every preference; those of the last third of a user's conversations are items."""
    talks: dict[str, dict[str, int]] = {}
    for choice in choices:
        mine = talks.setdefault(choice.user, {})
        mine.setdefault(choice.talk, len(mine))
    for choice in choices:
        mine = talks[choice.user]
        is_item = mine[choice.talk] >= len(mine) - -(-len(mine) // 3)
        yield replace(choice, role="item" if is_item else "context")


def _choices(row: ConversationRow, location: Place, dirt: Dirt, *, everything: bool) -> list[LabelledChoice]:
    """Return one preference for each turn that has an answer chosen and one below it; other turns are counted."""
    history: list[Turn] = []
    choices = []
    turns = sorted({each.turn for each in row.conversation_history})
    spoken = _spoken(row, location, dirt)
    for number, turn in enumerate(turns):
        here = [each for each in spoken if each.turn == turn]
        history += [Turn(role=each.role, content=each.content) for each in here if each.role != "assistant"]
        chosen = _chosen(row, turn, location)
        if chosen is None:
            # What followed is an answer to an answer that nobody knows.
            dirt.drop("turns", "without a choice")
            for _ in turns[number + 1 :]:
                dirt.drop("turns", "after one without a choice")
            break
        pair = _pair(here, chosen)
        if pair is None or not history:
            dirt.drop("turns", "without a pair")
        else:
            choices.append(
                LabelledChoice(
                    f"{row.conversation_id}-{turn}",
                    row.user_id,
                    "context",
                    conversation(history),
                    chosen.content,
                    pair.lowest.content,
                    location,
                    row.conversation_type.strip() or "chat",
                    pair.others if everything else {},
                    pair.scores,
                    row.conversation_id,
                )
            )
        history.append(Turn(role="assistant", content=chosen.content))
    dirt.read("turns", len(turns))
    return choices


def _spoken(row: ConversationRow, location: Place, dirt: Dirt) -> list[Utterance]:
    """Return what was said without blank answers that were not chosen; anything else that is blank is a RowError."""
    spoken = []
    for number, each in enumerate(row.conversation_history):
        if each.content.strip():
            spoken.append(each)
        elif each.role == "assistant" and not each.if_chosen:
            dirt.drop("answers", "blank")
        else:
            field = f"conversation_history[{number}].content"
            raise location.refuse(field, found=describe(each.content), wanted="a text that is not empty")
    dirt.read("answers", sum(each.role == "assistant" for each in row.conversation_history))
    return spoken


def _chosen(row: ConversationRow, turn: int, location: Place) -> Utterance | None:
    """Return the answer chosen in a turn, or None; a RowError where there are two."""
    matches = [
        (number, each)
        for number, each in enumerate(row.conversation_history)
        if (each.turn, each.role, each.if_chosen) == (turn, "assistant", True)
    ]
    if len(matches) > 1:
        field = f"conversation_history[{matches[1][0]}].if_chosen"
        raise location.refuse(field, found=f"a second chosen answer in turn {turn}", wanted="one in each turn")
    return matches[0][1] if matches else None


class _Pair(NamedTuple):
    """The answer against the one chosen, further answers below that one, and the scores of all."""

    lowest: Utterance
    others: Mapping[str, str]
    scores: Mapping[str, str]


def _pair(here: Sequence[Utterance], chosen: Utterance) -> _Pair | None:
    """Return the answer with the lowest score below the one chosen, the first of several; None where there is none."""
    rest = [each for each in here if each.role == "assistant" and each is not chosen]
    below = [each for each in rest if _is_below(each, chosen)]
    if not below:
        return None
    lowest = min(below, key=lambda each: each.score or 0)
    others = {f"other{number}": each for number, each in enumerate((x for x in rest if x is not lowest), 1)}
    scored = {"chosen": chosen, "rejected": lowest, **others}
    texts = {lowest.content.strip()}
    further = {}
    for name, each in others.items():
        if _is_below(each, chosen) and each.content.strip() not in texts:
            texts.add(each.content.strip())
            further[name] = each.content
    return _Pair(lowest, further, {f"score:{k}": f"{x.score:g}" for k, x in scored.items() if x.score is not None})


def _is_below(each: Utterance, chosen: Utterance) -> bool:
    if each.score is None or chosen.score is None:
        return False
    return each.score < chosen.score and each.content.strip() != chosen.content.strip()
