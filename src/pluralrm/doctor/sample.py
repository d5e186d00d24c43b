"""Which queries are looked at, and how the model reads one of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from pluralrm.core import Benchmark, Condition, Failure, Item, Query
from pluralrm.errors import BenchmarkError, ConditionError, did_you_mean
from pluralrm.models.neural.folder import ModelFolder
from pluralrm.models.neural.kind import NeuralModel, load_tokenizer
from pluralrm.models.neural.prompts import Assembled
from pluralrm.models.neural.trees import StateRequest

MOST = 200
"""Items whose length is looked at."""

T = TypeVar("T")


class Look(NamedTuple):
    """A query and what became of it on the way to token ids."""

    query: Query
    assembled: Assembled

    @property
    def posts(self) -> int:
        """How many posts the condition shows."""
        return len(self.query.user.posts) if self.query.user else 0

    @property
    def loses_posts(self) -> bool:
        """True where posts were dropped, for all candidates alike."""
        return self.assembled.posts_kept < self.posts

    @property
    def fails(self) -> bool:
        """True where a conversation is too long even without posts."""
        return any(isinstance(one, Failure) and one.kind == "too_long" for one in self.assembled.sequences)

    @property
    def unread(self) -> bool:
        """True where the tokenizer makes nothing of a conversation."""
        return any(isinstance(one, Failure) and one.kind == "unsupported" for one in self.assembled.sequences)


@dataclass(frozen=True, slots=True)
class TokenView:
    """One conversation as the model reads it: ids[start:end] are the assistant's text."""

    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    """What the vocabulary calls each id."""
    start: int
    end: int
    read: tuple[int, ...]
    """The places whose states are read; none where there is nothing to read."""
    answer: str
    """The assistant's text before it became tokens."""


class Pieces:
    """A folder's tokenizer as scripts load it: what ids are called, and at which side it would pad."""

    def __init__(self, folder: ModelFolder) -> None:
        self._tokenizer = load_tokenizer(folder)
        self.side = str(self._tokenizer.padding_side)

    def of(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Return what the vocabulary calls each id; an empty text for an id that it does not have."""
        return tuple(piece or "" for piece in self._tokenizer.convert_ids_to_tokens(list(ids)))

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of some ids, special tokens included."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))


def chosen(benchmark: Benchmark, condition: Condition, item: str) -> list[Item]:
    """Return the item to be shown and up to 199 others, evenly spaced; without a name the first one is shown."""
    items = [one for one in benchmark.items if one.candidates]
    if not items:
        raise BenchmarkError(f"{benchmark.card.name} has prompts only: no answer whose tokens could be looked at")
    reason = condition.unsupported(benchmark)
    if reason is not None:
        raise ConditionError(reason)
    shown = next((one for one in items if one.id == item), None) if item else items[0]
    if shown is None:
        raise BenchmarkError(f"{benchmark.card.name} has no item {item!r}.{did_you_mean(item, [i.id for i in items])}")
    others = [one for one in items if one is not shown]
    return [shown, *spaced(others, MOST - 1)]


def spaced(items: Sequence[T], most: int) -> list[T]:
    """Return at most so many, evenly spaced: a benchmark may be sorted by domain."""
    count = min(len(items), most)
    return [items[place * len(items) // count] for place in range(count)]


def look(model: NeuralModel, query: Query) -> Look:
    """Return what becomes of a query."""
    return Look(query, model.prompts.assemble(query, model.formula.conversations))


def views(model: NeuralModel, sample: Look, pieces: Pieces) -> list[TokenView | Failure]:
    """Return every conversation of a query as the model reads it."""
    answers = [turns[-1].content for turns in model.formula.conversations(sample.query)]
    found: list[TokenView | Failure] = []
    for one, answer in zip(sample.assembled.sequences, answers, strict=True):
        if isinstance(one, Failure):
            found.append(one)
            continue
        ask = model.formula.ask(one)
        ids, read = (ask.ids, ask.wanted) if isinstance(ask, StateRequest) else (one.ids, ())
        found.append(TokenView(ids, pieces.of(ids), one.start, one.end, read, answer))
    return found
