"""Community Alignment: which of four answers people of five languages prefer, in conversations of up to four turns.

A row of `community_alignment.csv` (hub: facebook/community-alignment-dataset) is one conversation, here as JSON and
without its second to fourth turns:

    {"conversation_id": "c1", "annotator_id": "a7", "assigned_lang": "en", "annotator_country": "india",
     "annotator_age": "18-34", "wave": "wave1", "is_pregenerated_first_prompt": true, "in_balanced_subset": true,
     "first_turn_prompt": "Is it rude to leave early?", "first_turn_preferred_response": "response_b",
     "first_turn_response_a": "Not at all.", "first_turn_response_b": "It depends on the host.",
     "first_turn_response_c": "Always.", "first_turn_response_d": "Say goodbye first."}

Every first turn is an item (`turns=first`): many people judge one pregenerated prompt and its answers, and each of
their judgments counts. `turns=all` adds later turns, whose prompt is the conversation so far along the preferred
answers. `context=earlier` makes only the last third of a person's conversations, rounded up, in the order of the file,
items; those before are context pairs, each the preferred answer and another one by the conversation's id. Who met a
prompt twice has two items. `subset=balanced` and `balanced-10` keep the rows of the authors' balanced subsets.

The domain is the language. Tags: `language`, `wave`, `turn`, `source` (pregenerated or own), `place` (of the preferred
answer in the file, a to d: position habit), `balanced`, `balanced_10`. Traits: what the person declared, the most
frequent value where their rows differ. A blank answer, or one that reads EMPTY STRING, is dropped; equal answers are
one; a turn without a choice, or after such a turn, is passed over. All of it is counted.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import AfterValidator, create_model

from pluralrm.benchmarks import placed
from pluralrm.benchmarks.dataset import Dataset, judgment, load_dataset
from pluralrm.benchmarks.dirt import Dirt
from pluralrm.benchmarks.preferences import PREFERENCES, Turn, conversation, in_part, users_of, with_split, word_of
from pluralrm.benchmarks.promises import plain
from pluralrm.benchmarks.rows import Place, describe
from pluralrm.benchmarks.schema import CELL_IS_TEXT, Id, Label, Part, Word, checked
from pluralrm.benchmarks.sources import Source, read_each, refuse_again
from pluralrm.card import Card
from pluralrm.core import Benchmark, ContextPair, Item, User
from pluralrm.errors import BenchmarkError
from pluralrm.specs import Spec

HUB = "facebook/community-alignment-dataset"
FILE = "community_alignment.csv"
ROWS = 90_256

CARD = Card(
    name="community-alignment",
    summary="Community Alignment: which of four answers people of five countries prefer, many of them on one prompt",
    licence="CC BY 4.0",
    source=f"hub: {HUB} ({FILE})",
    labelled="by people who chose one of four answers at each turn of a conversation",
    citation="Lily Hong Zhang and others. Cultivating Pluralism In Algorithmic Monoculture: The Community Alignment "
    "Dataset. arXiv:2507.09650, 2025.",
    notes="The domain is the language.",
)

TURNS = ("first", "second", "third", "fourth")
LETTERS = "abcd"
CHOICES = tuple(f"response_{letter}" for letter in LETTERS)
TRAITS = ("country", "age", "gender", "education_level", "ethnicity", "political")
EMPTY = "EMPTY STRING"
"""What stands in the file for an answer without text."""
END = "<|end_of_text|>"
SUBSETS = {"all": "", "balanced": "in_balanced_subset", "balanced-10": "in_balanced_subset_10"}

_Unread = Annotated[object, CELL_IS_TEXT]


Flag = Annotated[Word, AfterValidator(str.lower)]
"""True or false as a word: CSV has True, JSON true."""


class ConversationOpening(Part):
    """A conversation of one person, of which the first turn is read."""

    conversation_id: Id
    annotator_id: Id
    assigned_lang: Label = ""
    annotator_country: Label = ""
    annotator_age: Label = ""
    annotator_gender: Label = ""
    annotator_education_level: Label = ""
    annotator_ethnicity: Label = ""
    annotator_political: Label = ""
    wave: Word = ""
    is_pregenerated_first_prompt: Flag = ""
    in_balanced_subset: Flag = ""
    in_balanced_subset_10: Flag = ""


def _columns(turn: str, kind: object) -> dict[str, tuple[object, object]]:
    """Return the columns of a turn; feedback is in the data set and not read."""
    parts = ("prompt", *CHOICES, "preferred_response")
    fields: dict[str, tuple[object, object]] = {f"{turn}_turn_{part}": (kind, "") for part in parts}
    return {**fields, f"{turn}_turn_feedback": (_Unread, "")}


_ROWS: Mapping[str, type[ConversationOpening]] = {
    turns: create_model(  # type: ignore[call-overload]
        f"ConversationOf{turns.title()}",
        __base__=ConversationOpening,
        **{
            name: field
            for turn in TURNS
            for name, field in _columns(turn, Label if turns == "all" or turn == "first" else _Unread).items()
        },
    )
    for turns in ("first", "all")
}
"""The row of `turns=first`, whose later turns are not looked at, and of `turns=all`."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """One turn of a conversation."""

    id: str
    prompt: str
    answers: Mapping[str, str]
    preferred: str
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Talk:
    """The choices of one conversation."""

    person: str
    domain: str
    choices: Sequence[_Choice]


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `community-alignment` (the hub) or `community-alignment:PATH`; see the module."""
    turns, context = word_of(spec, "turns", tuple(_ROWS)), word_of(spec, "context", ("none", "earlier"))
    subset, users = SUBSETS[word_of(spec, "subset", tuple(SUBSETS))], users_of(spec)

    def read(sources: Sequence[Source], dirt: Dirt) -> Sequence[Item]:
        declared: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
        seen: dict[str, Place] = {}
        panels: set[int] = set()

        def talk_of(raw: Mapping[str, object], location: Place, _domain: str) -> _Talk | None:
            row = checked(_ROWS[turns], raw, location, dirt)
            refuse_again(row.conversation_id, seen, location, field="conversation_id")
            seen[row.conversation_id] = location
            declared[row.annotator_id][tuple(getattr(row, f"annotator_{name}").strip() for name in TRAITS)] += 1
            if not in_part(row.annotator_id, users) or (subset and getattr(row, subset) != "true"):
                return None
            choices = list(_choices(row, location, dirt, TURNS if turns == "all" else TURNS[:1]))
            dirt.read(PREFERENCES, len(choices))
            for choice in choices:
                panel = hash((row.annotator_id, choice.prompt, frozenset(choice.answers.values())))
                if panel in panels:
                    dirt.keep("judgments of what the person judged before")
                panels.add(panel)
            return _Talk(row.annotator_id, row.assigned_lang.strip() or "unknown", choices)

        talks = [talk for talk in read_each(sources, talk_of, dirt) if talk is not None and talk.choices]
        people = {name: User(name, traits=_traits(values)) for name, values in declared.items()}
        items = _items(talks, people, seed, dirt, earlier=context == "earlier")
        if not items:
            raise BenchmarkError(f"{spec.kind}: found no item among {dirt.rows:,} rows, wanted at least one")
        return items

    card = with_split(CARD, users)
    return load_dataset(spec, seed, Dataset(card, hubs={HUB: (FILE,)}, rows=ROWS), read)


def _traits(values: Counter[tuple[str, ...]]) -> dict[str, str]:
    """Return what a person declared in most of their rows; the first in order of several."""
    most = min(values, key=lambda own: (-values[own], own))
    return {name: value for name, value in zip(TRAITS, most, strict=True) if value}


def _choices(row: ConversationOpening, location: Place, dirt: Dirt, turns: Sequence[str]) -> Iterator[_Choice]:
    """Yield the turns that have a choice between answers that differ; what follows a turn without one is dropped."""
    history: list[Turn] = []
    broken = False
    dirt.read("conversations", 1)
    tags = {
        "language": row.assigned_lang.strip(),
        "wave": row.wave.strip(),
        "source": {"true": "pregenerated", "false": "own"}.get(row.is_pregenerated_first_prompt, ""),
        "balanced": row.in_balanced_subset,
        "balanced_10": row.in_balanced_subset_10,
    }
    for number, turn in enumerate(turns, 1):
        prompt, preferred = (getattr(row, f"{turn}_turn_{part}") for part in ("prompt", "preferred_response"))
        if not prompt.strip():
            broken = True
            if turn == TURNS[0]:
                dirt.drop("conversations", "without a first turn")
            continue
        dirt.read("turns", 1)
        if preferred.strip() and preferred not in CHOICES:
            raise location.refuse(
                f"{turn}_turn_preferred_response", found=describe(preferred), wanted=f"one of {', '.join(CHOICES)}"
            )
        letter = preferred.removeprefix("response_")
        texts = {each: getattr(row, f"{turn}_turn_response_{each}") for each in LETTERS}
        answers = _answers(texts, letter, dirt)
        why = "after one without a choice" if broken else _reason(letter, answers)
        if why:
            dirt.drop("turns", why)
            broken = True
            continue
        text = conversation([*history, Turn.model_construct(role="user", content=prompt)]) if history else prompt
        yield _Choice(
            f"{row.conversation_id}-{number}", text, answers, letter, tags | {"turn": str(number), "place": letter}
        )
        if turn != turns[-1]:
            history += [Turn.model_construct(role="user", content=prompt)]
            history += [Turn.model_construct(role="assistant", content=answers[letter])]


def _answers(texts: Mapping[str, str], preferred: str, dirt: Dirt) -> dict[str, str]:
    """Return the answers by letter without empty ones; of equal ones the preferred, or the first."""
    answers: dict[str, str] = {}
    different: set[str] = set()
    dirt.read("answers", len(texts))
    for letter in sorted(texts, key=lambda letter: letter != preferred):
        text = texts[letter]
        if text.endswith(END):
            text = text.removesuffix(END)
            dirt.keep(f"answers whose {END} at the end is left out")
        bare = text.strip()
        if not bare or bare == EMPTY:
            dirt.drop("answers", "empty")
        elif bare in different:
            dirt.drop("answers", "equal to another")
        else:
            different.add(bare)
            answers[letter] = text
    return answers


def _reason(preferred: str, answers: Mapping[str, str]) -> str:
    """Return why a turn is no comparison, or an empty text."""
    if not preferred.strip():
        return "without a choice"
    if preferred not in answers:
        return "with an empty preferred answer"
    return "without two answers that differ" if len(answers) < 2 else ""


def _items(
    talks: Sequence[_Talk], people: Mapping[str, User], seed: int, dirt: Dirt, *, earlier: bool
) -> tuple[Item, ...]:
    """Return the items in the order of the file; with `earlier` those of the last third of a person's conversations."""
    own: dict[str, list[_Talk]] = defaultdict(list)
    for talk in talks:
        own[talk.person].append(talk)
    users = {
        name: replace(people[name], preferences=_pairs(own[name], dirt)) if earlier else people[name] for name in own
    }
    context = {id(talk) for part in own.values() for talk in part[: len(part) - -(-len(part) // 3)]} if earlier else ()
    items = []
    for talk in talks:
        for choice in () if id(talk) in context else talk.choices:
            answers = {letter: (text, float(letter == choice.preferred)) for letter, text in choice.answers.items()}
            user, tags = users[talk.person], choice.tags
            items.append(
                judgment(choice.id, choice.prompt, answers, seed=seed, domain=talk.domain, user=user, tags=tags)
            )
    return tuple(items)


def _pairs(talks: Sequence[_Talk], dirt: Dirt) -> tuple[ContextPair, ...]:
    """Return a pair for each choice of the earlier conversations that holds no preferred answer of a later one."""
    last = -(-len(talks) // 3)
    labels = {plain(choice.answers[choice.preferred]) for talk in talks[-last:] for choice in talk.choices}
    pairs = []
    for talk in talks[:-last]:
        for choice in talk.choices:
            other = placed([letter for letter in choice.answers if letter != choice.preferred], choice.id, 0)[0]
            pair = ContextPair(choice.id, choice.prompt, choice.answers[choice.preferred], choice.answers[other])
            if labels.isdisjoint(map(plain, (pair.preferred, pair.other))):
                pairs.append(pair)
            else:
                dirt.leave_out(PREFERENCES, "with the preferred answer of an item")
    return tuple(pairs)
