"""Dirt in other people's files: one policy, one collector.

| a file has | a loader |
|---|---|
| columns that the format does not know | ignores them, each named once |
| a post that is blank, or stands there twice (same id, same text) | drops it, counted |
| two posts of one id with different texts | keeps both, the second under a new id, counted |
| no `category`, `source`, `group`, `narrative` (a field marked `EXPECTED`) | leaves it empty, counted |
| equal answers, an id twice, no label, a line that is no row | refuses it; with `skip=bad-rows` skips it, counted |

A loader makes one `Dirt` per load and hands it on; nothing else is needed:

    dirt = dirt_of(spec)                                           # reads skip=bad-rows
    rows = read_checked(sources, PairRow, make, dirt)              # unknown columns, EXPECTED fields, bad rows
    posts = clean_posts((Post(...) for each in row.profile), dirt) # inside make(row, place, domain)
    dirt.drop("posts", "blank")                                    # inside make: any other thing dropped
    Benchmark(dirt.onto(card), items, seed)                        # the counts: card, run.json, terminal, report

What is noted while a row is read counts only if the row is kept: a refused row leaves one error and nothing else.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from itertools import chain
from itertools import count as count_from
from types import MappingProxyType
from typing import NamedTuple

from pluralrm.benchmarks.rows import Place, Refused, shortened
from pluralrm.card import Card, LoadReport
from pluralrm.core import Post
from pluralrm.errors import RowError, SpecError, did_you_mean
from pluralrm.specs import Spec

SKIP = "skip"
"""The spec key of every benchmark that is read from files."""
BAD_ROWS = "bad-rows"

_HINT = "add ,skip=bad-rows to continue without them"


def dirt_of(spec: Spec) -> "Dirt":
    """Return the collector for one load; `skip` must be `bad-rows` where it is given."""
    word = spec.options.get(SKIP, "")
    if word not in {"", BAD_ROWS}:
        raise SpecError(
            f"benchmark {spec.kind!r}: skip is {word!r}; wanted {BAD_ROWS}.{did_you_mean(word, [BAD_ROWS])}"
        )
    return Dirt(skip=bool(word))


class Dirt:
    """What one load ignored, dropped, left empty and skipped; see the module for the policy."""

    def __init__(self, *, skip: bool = False) -> None:
        self._skip = skip
        self._refused = Refused()
        self._skipped: Counter[str] = Counter()
        self.rows = 0
        self._kept, self._row = _Counts(), _Counts()
        self._record, self._raw = _record.get(), _Raw()

    def ignore(self, column: str) -> None:
        """Note a column that the format does not know, such as `profile[].score`."""
        self._row.ignored.add(column)

    def read(self, what: str, count: int) -> None:
        """Note how many things (`posts`) a row holds, those that are dropped included."""
        self._row.read[what] += count

    def drop(self, what: str, why: str) -> None:
        """Note one thing (`posts`) that is left out, and why in one or two words (`blank`)."""
        self._row.dropped[what, why] += 1

    def rename(self, what: str) -> None:
        """Note one thing (`posts`) that is kept under a new id."""
        self._row.renamed[what] += 1

    def keep(self, what: str) -> None:
        """Note one thing (`prompts whose ...`) that stays as it is, and that a reader of the numbers should know of."""
        self._row.kept[what] += 1

    def default(self, field: str) -> None:
        """Note that an expected field is missing and left empty."""
        self._row.defaulted[field] += 1

    def forget(self) -> None:
        """Forget what was noted of this row, which is dropped whole."""
        self._row, self._raw = _Counts(), _Raw()

    def hold(self, row: Mapping[str, object], place: Place) -> None:
        """Note the row itself, for who records what a load keeps."""
        self._raw = _Raw(row, place)

    def accept(self) -> None:
        """Count the row that was read, and what was noted while it was."""
        self.rows += 1
        self._kept.add(self._row)
        if self._record is not None and self._raw.place is not None:
            self._record.append(KeptRow(self._raw.row, self._raw.place, frozenset(self._row.ignored)))
        self._row, self._raw = _Counts(), _Raw()

    def refuse(self, error: RowError) -> None:
        """Keep the error of a row instead of the row, or count it where bad rows are skipped."""
        self.rows += 1
        self._row, self._raw = _Counts(), _Raw()
        if self._skip:
            self._skipped[_field(error)] += 1
        else:
            self._refused.keep(error)

    def recall(self, error: RowError, what: str, why: str, *, drop: bool = False) -> None:
        """Refuse one of the things (`preferences`) that accepted rows hold; with `drop`, or skip=bad-rows, drop it."""
        if self._skip or drop:
            self._kept.dropped[what, why] += 1
        else:
            self._refused.keep(error)

    def tell(self) -> None:
        """Raise the first refused row with the messages of nine others and the total, if there is any."""
        self._refused.tell(_HINT)

    @property
    def skipped(self) -> int:
        """How many bad rows were left out."""
        return self._skipped.total()

    def report(self) -> LoadReport:
        """Return what was counted."""
        dropped: dict[str, dict[str, int]] = {}
        for (what, why), count in sorted(self._kept.dropped.items()):
            dropped.setdefault(what, {})[why] = count
        return LoadReport(
            rows=self.rows,
            skipped=dict(sorted(self._skipped.items())),
            read=dict(sorted(self._kept.read.items())),
            dropped=dropped,
            renamed=dict(sorted(self._kept.renamed.items())),
            kept=dict(sorted(self._kept.kept.items())),
            defaulted=dict(sorted(self._kept.defaulted.items())),
            ignored=tuple(shortened(column) for column in sorted(self._kept.ignored)),
        )

    def onto(self, card: Card) -> Card:
        """Return the card with what was counted."""
        return replace(card, load=self.report())


class _Counts:
    """What is noted row by row."""

    def __init__(self) -> None:
        self.read: Counter[str] = Counter()
        self.dropped: Counter[tuple[str, str]] = Counter()
        self.renamed: Counter[str] = Counter()
        self.kept: Counter[str] = Counter()
        self.defaulted: Counter[str] = Counter()
        self.ignored: set[str] = set()

    def add(self, other: "_Counts") -> None:
        self.read.update(other.read)
        self.dropped.update(other.dropped)
        self.renamed.update(other.renamed)
        self.kept.update(other.kept)
        self.defaulted.update(other.defaulted)
        self.ignored |= other.ignored


class KeptRow(NamedTuple):
    """A row that a load kept, as its file has it, and the columns of it that were ignored."""

    row: Mapping[str, object]
    place: Place
    ignored: frozenset[str]


class _Raw(NamedTuple):
    row: Mapping[str, object] = MappingProxyType({})
    place: Place | None = None


_record: ContextVar["list[KeptRow] | None"] = ContextVar("record", default=None)


@contextmanager
def recorded() -> Iterator[list[KeptRow]]:
    """Record the rows that loads within the context keep."""
    kept: list[KeptRow] = []
    token = _record.set(kept)
    try:
        yield kept
    finally:
        _record.reset(token)


def _field(error: RowError) -> str:
    """Return the field of a refused row without the numbers in it: `profile[3].id` is `profile[].id`."""
    head, *rest = error.field.split("[")
    return "".join([head, *(f"[]{part.partition(']')[2]}" for part in rest)]).rstrip("0123456789 ")


# ---------------------------------------------------------------- posts


def clean_posts(posts: Iterable[Post], dirt: Dirt) -> tuple[Post, ...]:
    """Return the posts of a row without blank and repeated ones, each under an id of its own."""
    texts: dict[str, set[str]] = {}
    kept: dict[str, Post] = {}
    count = 0
    for post in posts:
        count += 1
        known = texts.setdefault(post.id, set())
        if not post.text.strip():
            dirt.drop("posts", "blank")
        elif post.text in known:
            dirt.drop("posts", "repeated")
        else:
            known.add(post.text)
            if post.id in kept:
                dirt.rename("posts")
            name = free_id(post.id, kept)
            kept[name] = post if name == post.id else replace(post, id=name)
    if count:
        dirt.read("posts", count)
    return tuple(kept.values())


def free_id(name: str, taken: Container[str]) -> str:
    """Return the id, or `id#2` and so on where it is taken."""
    return next(new for new in chain([name], (f"{name}#{number}" for number in count_from(2))) if new not in taken)
