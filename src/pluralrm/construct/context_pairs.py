"""Context pairs for users who have none: a chat model reads a user's posts and invents choices.

It is shown posts alone: never the question, the candidates or the rubric of an item. What it writes are not the user's
choices, and every output of a run that shows them says so.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from pluralrm.benchmarks.context_pairs import ItemTexts, PairRow, UserRow, joined, one_answer, posts_hash
from pluralrm.benchmarks.rows import Place
from pluralrm.benchmarks.sources import Source, read_checked
from pluralrm.chat import KEYS, ChatCall, ChatModel, ChatRole, open_role, require_posts_allowed, sampling
from pluralrm.chat.completions import identity_of, reason_of, unreadable
from pluralrm.core import OPEN_KINDS, Benchmark, Failure, User
from pluralrm.digests import digest
from pluralrm.errors import BenchmarkError, RunError
from pluralrm.files import append, drop_torn_line, held, replace_file
from pluralrm.http import Settings
from pluralrm.journal import Journal, JournalKind
from pluralrm.runs.records import keyed_lines
from pluralrm.shards import FoundShard, Merger, Shard, ShardedDocument, ShardProgress, named_whole, united
from pluralrm.specs import Form, parse
from pluralrm.templates import load_template

TEMPLATE = "synthesize-pairs-v1"
FORM = Form("required", KEYS)
_TOKENS = 4096
_PAIRS = TypeAdapter(list[PairRow])
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(?P<text>.*)\n```", re.DOTALL | re.IGNORECASE)
_PROBE: Mapping[str, str | Sequence[str]] = {"posts": ("A first post.", "A second post."), "count": "4"}


@dataclass(frozen=True)
class PairWriter:
    """A chat model, and how it is asked for `count` pairs from a user's first `posts` posts.

    The first in stored order: a ranking by the question would tell the writer what the question is about.
    """

    role: ChatRole
    count: int = 8
    posts: int = 10

    @property
    def made(self) -> str:
        """The hash of all that shapes a reply, but for the address of the server."""
        model = {key: value for key, value in identity_of(self.role.chat).items() if key != "url"}
        return digest([model, *self.role.drawing.values(), self.role.template.hash, self.count, self.posts])

    def calls(self, user: User) -> list[ChatCall[tuple[PairRow, ...]]]:
        """Return the call about a user; no name is part of it, so equal posts make equal requests."""
        posts = [post.text for post in user.posts[: self.posts]]
        text = self.role.template.fill(posts=posts, count=str(self.count))
        again = f'Reply with a JSON list of {self.count} objects with "prompt", "preferred" and "other", nothing else.'
        return [self.role.call(text, lambda reply: read_pairs(reply, self.count), again)]


class PairsProgress(NamedTuple):
    """Users with posts: those with a line, those that wait for their server; pairs kept and refused; why none.

    `why` is what became of the first of those that wait.
    """

    users: int
    done: int
    open: int
    pairs: int
    refused: int
    failures: Mapping[str, int]
    why: str = ""


def open_writer(
    text: str, *, count: int = 8, posts: int = 10, chat: ChatModel | None = None, settings: Settings | None = None
) -> PairWriter:
    """Return the writer of `MODEL,url=URL,...`; a server elsewhere is asked only where the spec says send=posts."""
    spec = parse(f"writer:{text}", {"writer": FORM}, noun="writer")
    template = load_template(spec.options.get("template", TEMPLATE))
    template.require_slots(_PROBE, ("posts", "count"))
    role = open_role(spec, template, sampling(spec, _TOKENS), chat=chat, settings=settings)
    require_posts_allowed(role.chat, text, "pairs are written from what users wrote")
    return PairWriter(role, count, posts)


def read_pairs(text: str, count: int) -> tuple[PairRow, ...] | Failure:
    """Return the pairs of a reply: a JSON list of so many, each of two different answers to a question.

    A code fence around the JSON is form and does not count.
    """
    bare = text.strip()
    fenced = _FENCE.fullmatch(bare)
    try:
        pairs = _PAIRS.validate_python(json.loads(fenced["text"] if fenced else bare))
    except ValidationError:
        return unreadable("not a list of objects with prompt, preferred and other, each a text", text)
    except (ValueError, RecursionError):
        return unreadable("not JSON and nothing else", text)
    if len(pairs) != count:
        return unreadable(f"the list has {len(pairs)} objects, wanted {count}", text)
    if any(map(one_answer, pairs)):
        return unreadable("preferred and other are the same text", text)
    return tuple(pairs)


def write_pairs(
    bench: Benchmark,
    name: str,
    writer: PairWriter,
    out: Path,
    *,
    limit: int | None = None,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
    shard: Shard | None = None,
) -> PairsProgress:
    """Write a line for each user with posts who has none in the file; `name` is the benchmark's spec.

    A user whose server gave no answer gets no line: the same call asks again. RunError while another process writes
    the file: both would pay for the same users. A shard writes those of its users into a folder beside the file.
    """
    users = list({user.id: user for user in bench.users_before if user.posts}.values())[:limit]
    if not users:
        raise BenchmarkError(f"{bench.card.name}: found no user with posts, wanted at least one to write from")
    if out.suffix != ".jsonl":
        raise RunError(f"{out}: found a file of type {out.suffix!r}, wanted .jsonl, to be read as a benchmark")
    if shard is None:
        with held(out, _busy(out)):
            return _written(bench, users, (name, writer), out, progress=progress)
    names = tuple(user.id for user in users)
    manifest = PairsManifest(benchmark=name, writer=writer.role.chat.name, made=writer.made, users=names, shard=shard)
    mine = set(shard.of(names))
    with Journal(shard.folder(out), PAIRS, manifest) as folder:
        folder.write(manifest)
        (folder.path / _LINES).touch()
        own = [user for user in users if user.id in mine]
        return _written(bench, own, (name, writer), folder.path / _LINES, progress=progress)


def _busy(out: Path) -> RunError:
    return RunError(f"{out}: another process writes pairs into this file; wait for it or stop it")


def _written(
    bench: Benchmark,
    todo: Sequence[User],
    source: tuple[str, PairWriter],
    out: Path,
    *,
    progress: Callable[[int, int], None],
) -> PairsProgress:
    name, writer = source
    rows = _earlier(bench, name, writer, out)
    missing, item_texts = [user for user in todo if user.id not in rows], ItemTexts(bench.items)
    waiting: list[str] = []
    for user, [call] in writer.role.ask(missing, writer.calls):
        if isinstance(call.outcome, Failure) and call.outcome.kind in OPEN_KINDS:
            waiting.append(call.outcome.detail)
        else:
            row = _row(user, call.outcome or (), source, item_texts)
            append(out, f"{row.model_dump_json()}\n".encode())
            rows[user.id] = row
        progress(len(rows), len(todo))
    return _progress([rows[user.id] for user in todo if user.id in rows], len(todo), waiting)


def _earlier(bench: Benchmark, name: str, writer: PairWriter, out: Path) -> dict[str, UserRow]:
    """Return the lines that are there, by user; a file of another command is a RunError."""
    drop_torn_line(out)
    rows = _rows_in(out)
    row = rows[0][0] if rows else None
    if row and (row.benchmark, row.writer, row.made) != (name, writer.role.chat.name, writer.made):
        raise RunError(
            f"{out}: was written from another benchmark, by another writer or with other options; name a new file"
        )
    joined(bench, rows)
    return {row.id: row for row, _ in rows}


def _rows_in(file: Path) -> list[tuple[UserRow, Place]]:
    if not file.stat().st_size:
        return []
    return list(read_checked([Source(file)], UserRow, lambda row, location, _domain: (row, location)))


def _row(
    user: User, outcome: tuple[PairRow, ...] | Failure, source: tuple[str, PairWriter], item_texts: ItemTexts
) -> UserRow:
    name, writer = source
    pairs = () if isinstance(outcome, Failure) else outcome
    usable = [pair for pair in pairs if not item_texts.overlaps(pair)]
    if isinstance(outcome, Failure):
        failure = f"{outcome.kind}: {reason_of(outcome)}"
    else:
        failure = "" if usable else "overlap: every pair has a question or an answer of an item"
    return UserRow(
        id=user.id,
        benchmark=name,
        writer=writer.role.chat.name,
        made=writer.made,
        posts=posts_hash(user),
        pairs=usable,
        refused=len(pairs) - len(usable),
        failure=failure,
    )


def _progress(rows: Sequence[UserRow], users: int, waiting: Sequence[str]) -> PairsProgress:
    failures: dict[str, int] = {}
    for row in rows:
        if row.failure:
            failures[row.failure] = failures.get(row.failure, 0) + 1
    pairs, refused = sum(len(row.pairs) for row in rows), sum(row.refused for row in rows)
    return PairsProgress(users, len(rows), len(waiting), pairs, refused, failures, waiting[0] if waiting else "")


# ---------------------------------------------------------------- shards

_LINES = "users.jsonl"


class PairsManifest(ShardedDocument):
    """pairs.json in the folder of a shard: who writes for which users, all of the selection in their order."""

    benchmark: str
    writer: str
    made: str
    users: tuple[str, ...]

    def facts(self) -> Mapping[str, object]:
        """Return what must be the same for a shard to be resumed."""
        return {**self.model_dump(include={"benchmark", "writer", "made", "users"}), "shard": self.part}


PAIRS = JournalKind(
    noun="set of pairs",
    manifest="pairs.json",
    record=PairsManifest,
    error=RunError,
    source="'pluralrm construct pairs' writes one with --shard",
    anew="remove the folder and write its pairs again",
    other="Name another file with -o",
)


def shard_of_pairs(out: Path, shard: Shard, done: PairsProgress) -> ShardProgress:
    """Return how far a shard is, of which `write_pairs` returned this; a user without pairs counts as failed."""
    failed = sum(done.failures.values())
    return ShardProgress(str(shard.folder(out)), shard.index, shard.count, done.done, done.users, failed)


class PairsMerger(Merger[PairsManifest]):
    """Makes a file of pairs of its shards: the bytes of the file that one process writes."""

    kind = PAIRS

    def facts(self, folder: Path, manifest: PairsManifest) -> Mapping[str, object]:  # noqa: ARG002 - all in the manifest
        """Return what must be the same for pairs to stand in one file."""
        return {**manifest.facts(), "users": digest(manifest.users), "shard": ""}

    def label(self, manifest: PairsManifest) -> str:
        """Return who writes for whom."""
        return f"pairs of {manifest.benchmark} by {manifest.writer}"

    def unfinished(self, folder: Path, manifest: PairsManifest) -> str:
        """Return for how many users of a shard there are lines where some have none."""
        own = set(manifest.users if manifest.shard is None else manifest.shard.of(manifest.users))
        text = file.read_bytes() if (file := folder / _LINES).exists() else b""
        if not text.endswith(b"\n"):  # a kill left no line, or the last without its end
            lines = text.count(b"\n")
            return f"{lines:,} of {len(own):,} users" if own else ""
        rows = {row.id for row, _ in _rows_in(file)}
        if others := rows - own:
            raise PAIRS.damaged(folder / _LINES, f"found the user {min(others)!r}, who is none of this shard")
        return "" if rows == own else f"{len(rows):,} of {len(own):,} users"

    def place(self, shard: FoundShard[PairsManifest]) -> Path:
        """Return the file, as the shard's folder is called."""
        return Path(named_whole(shard.folder))

    def holds(self, folder: Path, shards: Sequence[FoundShard[PairsManifest]]) -> bool:
        """Return whether the file has the lines of the shards; RunError where it has others."""
        if not folder.exists() or not folder.stat().st_size:
            return False
        if folder.read_bytes() != b"".join(self._lines(shards)):
            raise RunError(f"{folder} holds other pairs than those shards; merge into another folder (-o)")
        return True

    def merge(self, folder: Path, shards: Sequence[FoundShard[PairsManifest]], command: str) -> bool:  # noqa: ARG002 - a file is there whole or not at all
        """Write the file at once."""
        with held(folder, _busy(folder)):
            if self.holds(folder, shards):
                return False
            replace_file(folder, self._lines(shards))
        return True

    def _lines(self, shards: Sequence[FoundShard[PairsManifest]]) -> Iterator[bytes]:
        files = [partial(keyed_lines, shard.folder / _LINES, "id") for shard in shards]
        return united(((user,) for user in shards[0].manifest.users), files)
