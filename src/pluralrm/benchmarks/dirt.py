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

import json
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from itertools import count as count_from
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from pluralrm.benchmarks import load_benchmark, spec_of
from pluralrm.benchmarks.rows import Place, Refused, exists, shortened, visible
from pluralrm.card import Card, LoadReport
from pluralrm.core import Benchmark, Post
from pluralrm.errors import BenchmarkError, RowError, SpecError, did_you_mean
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

    def hold(self, row: Mapping[str, object], location: Place) -> None:
        """Note the row itself, for who records what a load keeps."""
        self._raw = _Raw(row, location)

    def accept(self) -> None:
        """Count the row that was read, and what was noted while it was."""
        self.rows += 1
        if self._record is not None and self._raw.place is not None:
            self._record.append(KeptRow(self._raw.row, self._raw.place, frozenset(self._row.ignored)))
        self._kept.take(self._row)
        self._raw = _Raw()

    def settle(self) -> None:
        """Count what was noted of all rows together, after the last one was accepted."""
        self._kept.take(self._row)

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

    def leave_out(self, what: str, why: str, count: int = 1) -> None:
        """Note things of accepted rows that are dropped after all."""
        if count:
            self._kept.dropped[what, why] += count

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

    def take(self, other: "_Counts") -> None:
        """Add what the other one has, and leave it empty: this is done for every row."""
        for name, counts in vars(other).items():
            if counts:
                getattr(self, name).update(counts)
                counts.clear()


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
    rows: list[KeptRow] = []
    token = _record.set(rows)
    try:
        yield rows
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
    result: dict[str, Post] = {}
    count = 0
    for post in posts:
        count += 1
        seen = texts.setdefault(post.id, set())
        if not post.text.strip():
            dirt.drop("posts", "blank")
        elif post.text in seen:
            dirt.drop("posts", "repeated")
        else:
            seen.add(post.text)
            if post.id in result:
                dirt.rename("posts")
            name = free_id(post.id, result)
            result[name] = post if name == post.id else replace(post, id=name)
    if count:
        dirt.read("posts", count)
    return tuple(result.values())


def free_id(name: str, taken: Container[str]) -> str:
    """Return the id, or `id#2` and so on where it is taken."""
    if name not in taken:
        return name
    return next(new for number in count_from(2) if (new := f"{name}#{number}") not in taken)


# ---- A copy of somebody's files that loads without dirt: what a load would leave out is not in it, and nothing else
# moves.
#
# Bad rows, blank and repeated posts, repeated pairs and unknown columns go; a post that has the id of another gets a
# new one. Every file becomes JSON lines. The copy must read as the same benchmark, content hash and all, or it is
# removed.

_POSTS = ("posts", "profile")
"""The columns in which the formats have posts."""


class Mended(NamedTuple):
    """The benchmark of the mended files, and what was done to the ones before."""

    benchmark: Benchmark
    done: LoadReport
    files: tuple[Path, ...]


def mend(name: str, out: Path) -> Mended:
    """Write the files of a benchmark without their dirt to `out`: a .jsonl file for a file, a folder for a folder."""
    spec = spec_of(name)
    path = Path(spec.target).expanduser()
    if not spec.target or not exists(path):
        raise BenchmarkError(f"{visible(name)}: is no file or folder, and only those are mended")
    _check(path, out)
    with recorded() as rows:
        benchmark = load_benchmark(str(Spec(spec.kind, spec.target, {**spec.options, SKIP: BAD_ROWS})))
    if not rows:
        raise BenchmarkError(f"{visible(name)}: a benchmark of this kind is not mended")
    files: dict[Path, list[str]] = {}
    for each in rows:
        files.setdefault(_place(path, Path(each.place.file), out), []).append(_line(each))
    for file, lines in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(lines), encoding="utf-8")
    options = {key: value for key, value in spec.options.items() if key != SKIP}
    return Mended(_same(benchmark, Spec(spec.kind, str(out), options), tuple(files)), benchmark.card.load, tuple(files))


def _check(path: Path, out: Path) -> None:
    if exists(out):
        raise BenchmarkError(f"{visible(str(out))}: is there already; name a new {'folder' * path.is_dir() or 'file'}")
    if path.is_file() and out.suffix != ".jsonl":
        raise BenchmarkError(f"{visible(str(out))}: found a file of type {out.suffix!r}, wanted .jsonl")


def _same(benchmark: Benchmark, spec: Spec, files: tuple[Path, ...]) -> Benchmark:
    """Return the benchmark of the mended files, or remove them where they read as another one."""
    problem: BenchmarkError | None = None
    try:
        mended = load_benchmark(str(spec), seed=benchmark.seed)
    except BenchmarkError as exc:
        problem = exc
    else:
        if mended.content_hash == benchmark.content_hash:
            return mended
    for file in files:
        file.unlink()
    raise BenchmarkError(
        f"{visible(spec.target)}: would read as another benchmark than the rows that are good. Where the name "
        "of a file tells the domain of its rows, give the mended one a name that begins like it"
    ) from problem


def _place(path: Path, file: Path, out: Path) -> Path:
    return out if path.is_file() else (out / file.relative_to(path)).with_suffix(".jsonl")


def _line(record: KeptRow) -> str:
    row = dict(record.row)
    for column in record.ignored:
        row = _without(row, column.split("."))
    for field in _POSTS:
        if isinstance(posts := row.get(field), list):
            row[field] = _posts(posts)
    if isinstance(pairs := row.get("pairs"), list):
        row["pairs"] = list({_pair_key(pair): pair for pair in reversed(pairs)}.values())[::-1]
    return json.dumps(row, ensure_ascii=True, default=_plain) + "\n"


def _plain(value: object) -> str:
    """Return a date of a Parquet file as text."""
    as_text: Callable[[], str] | None = getattr(value, "isoformat", None)
    if as_text is None:
        raise BenchmarkError(f"cannot write a {type(value).__name__} as JSON")
    return as_text()


def _without(row: Mapping[str, object], steps: list[str]) -> dict[str, object]:
    """Return a row without the column `profile[].score`, told as its steps."""
    step, *inner = steps
    key = step.removesuffix("[]")
    if not inner:
        return {name: value for name, value in row.items() if name != step}
    value = row.get(key)
    if isinstance(value, dict):
        return {**row, key: _without(value, inner)}
    if isinstance(value, list):
        return {**row, key: [_without(each, inner) if isinstance(each, dict) else each for each in value]}
    return dict(row)


def _posts(posts: list[object]) -> list[object]:
    """Return the posts that `dirt.clean_posts` keeps, under the ids that it gives them."""
    result: list[object] = []
    ids: set[str] = set()
    met: set[Hashable] = set()
    for post in posts:
        facts = post if isinstance(post, dict) else {"text": post}
        text, name = str(facts.get("text") or ""), facts.get("id")
        key = (str(name), text) if name is not None else (None, facts.get("date") or "", text)
        if not text.strip() or key in met:
            continue
        met.add(key)
        if name is not None and str(name) in ids:
            post = facts | {"id": free_id(str(name), ids)}  # noqa: PLW2901 - the post under its new id
        if isinstance(post, dict) and post.get("id") is not None:
            ids.add(str(post["id"]))
        result.append(post)
    return result


def _pair_key(pair: object) -> Hashable:
    return json.dumps(pair, sort_keys=True, default=str)
