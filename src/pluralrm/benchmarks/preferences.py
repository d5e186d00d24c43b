"""What formats of labelled preferences by user share: some of a user's are context pairs, the others are items.

The same choice is never both: a context pair that holds the preferred answer of one of the user's items is refused.
`users=train|test` keeps a part of the users, told by their ids, so that a model can be fitted on some people and be
evaluated on others: the split `id-70-30`, its seen users `train` and its unseen ones `test`.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator

from pluralrm.benchmarks.dataset import judgment
from pluralrm.benchmarks.dirt import Dirt
from pluralrm.benchmarks.promises import plain
from pluralrm.benchmarks.rows import Place, visible
from pluralrm.benchmarks.schema import Part, PartT, Text, checked, wanted
from pluralrm.benchmarks.sources import Source, read_each, refuse_again
from pluralrm.card import Card
from pluralrm.core import ContextPair, Item, User
from pluralrm.errors import BenchmarkError, SpecError, did_you_mean
from pluralrm.specs import Spec

PREFERENCES = "preferences"
"""What a LoadReport counts here."""
Role = Literal["context", "item"]
Users = Literal["all", "train", "test"]

TRAIN_SHARE = 0.7
"""The share of the users of `users=train`."""
SPLIT = "id-70-30"
"""The name of this split: papers on the same data have others."""


SPEAKERS: Mapping[str, tuple[str, ...]] = {
    "user": ("user", "human", "person", "prompter"),
    "assistant": ("assistant", "model", "gpt", "chatgpt", "bot", "chatbot", "ai"),
    "system": ("system", "developer"),
}
"""Who speaks, and the roles that data sets give them, in any case. Any other role is refused."""
_SPEAKER = {role: speaker for speaker, roles in SPEAKERS.items() for role in roles}
_TITLES = {"user": "Person", "assistant": "Assistant", "system": "System"}


def _speaker(role: str) -> str:
    speakers = "; ".join(f"{', '.join(roles)} ({speaker})" for speaker, roles in SPEAKERS.items())
    return _SPEAKER.get(role.strip().lower()) or wanted(f"one of {speakers}")


Speaker = Annotated[str, AfterValidator(_speaker)]
"""A role that becomes its key in SPEAKERS."""


class Turn(Part):
    """Something said in a conversation."""

    role: Speaker
    content: Text


@dataclass(frozen=True, slots=True)
class LabelledChoice:
    """One labelled preference of one user, and where it stands in the data."""

    id: str
    user: str
    role: Role
    prompt: str
    preferred: str
    other: str
    place: Place
    domain: str = "chat"
    others: Mapping[str, str] = field(default_factory=dict)
    """Further answers that were not preferred, by their candidate ids."""
    tags: Mapping[str, str] = field(default_factory=dict)
    talk: str = ""
    """The conversation it is part of."""


def read_choices(
    sources: Sequence[Source],
    model: type[PartT],
    make: Callable[[PartT, Place, int], Sequence[LabelledChoice]],
    dirt: Dirt,
) -> Iterator[LabelledChoice]:
    """Yield what `make(row, place, number of the row)` returns for every row; no id may come twice, no file be empty.

    Rows are numbered from 1 through all files; those that are refused are told together at the end.
    """
    seen: dict[str, Place] = {}

    def new(raw: Mapping[str, object], location: Place, _domain: str) -> Sequence[LabelledChoice]:
        choices = make(checked(model, raw, location, dirt), location, dirt.rows + 1)
        for choice in choices:
            refuse_again(choice.id, seen, location)
        seen.update((choice.id, location) for choice in choices)
        dirt.read(PREFERENCES, len(choices))
        return choices

    for batch in read_each(sources, new, dirt):
        yield from batch


@dataclass
class _Person:
    context: list[LabelledChoice] = field(default_factory=list)
    asked: list[LabelledChoice] = field(default_factory=list)


def users_of(spec: Spec) -> Users:
    """Return which users a spec wants; an unknown word is a SpecError."""
    return word_of(spec, "users", get_args(Users))  # type: ignore[return-value]


def with_split(card: Card, users: Users) -> Card:
    """Return the card of a part of the users, which says of which split it is."""
    if users == "all":
        return card
    part = f"users={users} of the split {SPLIT}: {'seen' if users == 'train' else 'unseen'} users, by id."
    return replace(card, notes=f"{card.notes} {part}".strip())


def word_of(spec: Spec, key: str, words: Sequence[str]) -> str:
    """Return an option that is one of some words, the first of them by default; an unknown word is a SpecError."""
    value = spec.options.get(key, words[0])
    if value not in words:
        near = did_you_mean(value, words).partition(" Known: ")[0]
        raise SpecError(f"benchmark {spec.kind!r}: {key} is {value!r}; wanted {' or '.join(words)}.{near}")
    return value


def conversation(turns: Sequence[Turn]) -> str:
    """Return the turns before an answer as one prompt: a person's only turn as it is, several with who speaks."""
    if len(turns) == 1 and turns[0].role == "user":
        return turns[0].content
    return "\n\n".join(f"{_TITLES[turn.role]}: {turn.content}" for turn in turns)


def items_of(
    choices: Iterable[LabelledChoice],
    users: Users,
    seed: int,
    dirt: Dirt,
    *,
    split_here: bool = False,
    traits: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> tuple[Item, ...]:
    """Return the items in the order of their rows, each with its user's context pairs; candidates placed by seed.

    A context pair that holds a preferred answer of its user's items is refused, or dropped where bad rows are skipped;
    with `split_here` the loader chose what is an item, the file is not at fault, and such a pair is always dropped.
    """
    people: dict[str, _Person] = {}
    items: list[LabelledChoice] = []
    for choice in choices:
        if not in_part(choice.user, users):
            continue
        person = people.setdefault(choice.user, _Person())
        (person.context if choice.role == "context" else person.asked).append(choice)
        if choice.role == "item":
            items.append(choice)
    by_name = {
        name: User(name, (), _pairs(person, dirt, drop=split_here), traits.get(name, {}))
        for name, person in people.items()
    }
    dirt.tell()
    if not items:
        where = next((f"{visible(person.context[0].place.file)}: " for person in people.values() if person.context), "")
        raise BenchmarkError(f"{where}found no item of users={users}, wanted at least one: none of these users has one")
    return tuple(_item(choice, by_name[choice.user], seed) for choice in items)


def in_part(user: str, users: Users) -> bool:
    """Return whether a user is of a part of the users; the id alone decides."""
    # No seed: who trains and who is evaluated must not depend on how candidates are placed.
    return users == "all" or (random.Random(f"users:{user}").random() < TRAIN_SHARE) == (users == "train")


def items_in_part(items: Iterable[Item], users: Users, file: str = "") -> tuple[Item, ...]:
    """Return the items of a part of the users; none is a BenchmarkError, which begins with the `file`."""
    members = tuple(item for item in items if in_part(item.cluster, users))
    if not members:
        raise BenchmarkError(f"{file}found no item of users={users}, wanted at least one")
    return members


def _pairs(person: _Person, dirt: Dirt, *, drop: bool) -> tuple[ContextPair, ...]:
    """Return the context pairs that hold no preferred answer of the same user's items."""
    items = {plain(choice.preferred): choice for choice in person.asked}
    pairs = []
    for choice in person.context:
        item = next((items[text] for text in map(plain, (choice.preferred, choice.other)) if text in items), None)
        if item is None:
            pairs.append(ContextPair(choice.id, choice.prompt, choice.preferred, choice.other))
            continue
        actual = f"the preferred answer of the item at {item.place}"
        wanted_here = "context pairs that hold no preferred answer of the same user's items"
        error = choice.place.refuse("(row)", found=actual, wanted=wanted_here)
        dirt.recall(error, PREFERENCES, "with the preferred answer of an item", drop=drop)
    return tuple(pairs)


def _item(choice: LabelledChoice, user: User, seed: int) -> Item:
    others = {"rejected": choice.other, **choice.others}
    answers = {"chosen": (choice.preferred, 1.0), **{name: (text, 0.0) for name, text in others.items()}}
    item = judgment(choice.id, choice.prompt, answers, seed=seed, domain=choice.domain, user=user)
    return replace(item, tags=choice.tags)
