"""A benchmark with context pairs that a chat model wrote from its users' posts (`pluralrm construct pairs`).

One row, shortened; each is one user of the benchmark that it names:

    {"id": "u17", "benchmark": "prb", "writer": "my-model", "made": "6f1c...", "posts": "90ab...",
     "pairs": [{"prompt": "How do I keep basil alive?", "preferred": "Split the pot. ...", "other": "Buy one. ..."}],
     "refused": 0, "failure": ""}

`posts` is the hash of the user's posts, `made` that of how the pairs were asked for. The items are the named
benchmark's; users without a row, or with a failure, have no pairs. No person chose these pairs, and the card says so.
"""

from collections.abc import Iterable
from dataclasses import replace

from pluralrm.benchmarks import load_benchmark
from pluralrm.benchmarks.promises import plain
from pluralrm.benchmarks.rows import Place, describe
from pluralrm.benchmarks.schema import BenchmarkRow, Id, Label, Part, Text
from pluralrm.benchmarks.sources import find_sources, local_card, local_path, read_checked
from pluralrm.card import Card
from pluralrm.core import Benchmark, ContextPair, Item, User
from pluralrm.digests import digest
from pluralrm.errors import BenchmarkError
from pluralrm.shards import whole_name
from pluralrm.specs import Spec

CARD = Card(
    name="context-pairs",
    summary="Another benchmark, its users with pairs that a chat model wrote from their posts",
    licence="that of the other benchmark",
    source="a file that 'pluralrm construct pairs' wrote",
    labelled="as the other benchmark's; the context pairs were chosen by no person",
    citation="none of its own: cite the other benchmark",
)

MARK = "synthesised:"
"""What the id of every such pair begins with."""


class PairRow(Part):
    """One pair as the writer gave it."""

    prompt: Text
    preferred: Text
    other: Text


class UserRow(BenchmarkRow):
    """The pairs of one user, or why there are none."""

    benchmark: Text
    writer: Id
    made: Id
    posts: Id
    pairs: list[PairRow]
    refused: int
    failure: Label


def posts_hash(user: User) -> str:
    """Return the hash of what a user wrote."""
    return digest([[post.id, post.text, post.category] for post in user.posts])


def whose(writer: str) -> str:
    """Return what every output says of pairs that a chat model wrote."""
    return f"pairs written by {writer} from the user's posts, not the user's choices"


class ItemTexts:
    """What a benchmark asks about: a pair with a question or an answer of it would show what is to be predicted."""

    def __init__(self, items: Iterable[Item]) -> None:
        items = list(items)
        self._prompts = {plain(item.prompt) for item in items}
        self._answers = {plain(text) for item in items for text in item.candidates}

    def overlaps(self, pair: PairRow) -> bool:
        """Return whether the pair has a question or an answer of the benchmark, spaces and case aside."""
        return plain(pair.prompt) in self._prompts or not self._answers.isdisjoint(
            (plain(pair.preferred), plain(pair.other))
        )


def one_answer(pair: PairRow) -> bool:
    """Return whether both answers are the same, spaces and case aside: nothing is preferred then."""
    return plain(pair.preferred) == plain(pair.other)


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark that the file names, with the pairs of the file."""
    path = local_path(spec.target)
    if shard := whole_name(path) or whole_name(path.parent):
        raise BenchmarkError(f"{path}: some users of {shard} alone; 'pluralrm merge {path.parent}' makes the whole")
    placed = list(read_checked(find_sources(path), UserRow, lambda row, location, _domain: (row, location)))
    row, location = placed[0]
    if row.benchmark.startswith(CARD.name):
        raise location.refuse("benchmark", found=describe(row.benchmark), wanted="a benchmark of its own")
    base = load_benchmark(row.benchmark, seed=seed)
    users = joined(base, placed)
    items = tuple(
        item
        if item.user is None
        else replace(item, user=replace(item.user, preferences=users[item.user.id].preferences))
        for item in base.items
    )
    local = local_card(CARD, path, [item.domain for item in items], {})
    writer = whose(row.writer)
    card = replace(
        base.card, name=local.name, pairs=writer, notes=f"{base.card.name}, with {writer}. {base.card.notes}"
    )
    return Benchmark(card, items, seed)


def joined(base: Benchmark, rows: Iterable[tuple[UserRow, Place]]) -> dict[str, User]:
    """Return the users of a benchmark by id, with their pairs; a row that does not fit them is a RowError.

    A user who asks several questions has the posts that stand with each: no pair was written from a later one.
    """
    users = {user.id: user for user in base.users_before}
    if any(user.preferences for user in base.users):
        raise BenchmarkError(f"{base.card.name}: has context pairs of its users' own choices; wanted one without")
    texts, origins = ItemTexts(base.items), set[tuple[str, str, str]]()
    for row, location in rows:
        origins.add((row.benchmark, row.writer, row.made))
        if len(origins) > 1:
            raise location.refuse("made", found="another benchmark, writer or request", wanted="that of the first row")
        user = users.get(row.id)
        if user is None or posts_hash(user) != row.posts:
            actual = "a user that the benchmark has not" if user is None else "other posts than the user has now"
            raise location.refuse("id", found=f"{describe(row.id)}, {actual}", wanted=f"users of {row.benchmark}")
        for place_in, pair in enumerate(row.pairs):
            _check(pair, texts, location, f"pairs[{place_in}]")
        users[row.id] = replace(user, preferences=_pairs(row))
    return users


def _check(pair: PairRow, item_texts: ItemTexts, location: Place, field: str) -> None:
    if one_answer(pair):
        raise location.refuse(field, found="one answer twice", wanted="two different answers")
    if item_texts.overlaps(pair):
        raise location.refuse(field, found="a question or an answer of an item", wanted="pairs that are no item")


def _pairs(row: UserRow) -> tuple[ContextPair, ...]:
    return tuple(
        ContextPair(f"{MARK}{row.id}-{number}", pair.prompt, pair.preferred, pair.other)
        for number, pair in enumerate(row.pairs, 1)
    )
