"""Context pairs for users who have none: a chat model reads a user's posts and invents choices.

It is shown posts alone: never the question, the candidates or the rubric of an item. What it writes are not the user's
choices, and every output of a run that shows them says so.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from pluralrm.benchmarks.context_pairs import ItemTexts, PairRow, UserRow, joined, one_answer, posts_hash
from pluralrm.benchmarks.sources import Source, read_checked
from pluralrm.chat import ChatModel
from pluralrm.chat.completions import identity_of, reason_of, unreadable
from pluralrm.chat.role import KEYS, ChatCall, ChatRole, open_role, require_posts_allowed, sampling
from pluralrm.core import OPEN_KINDS, Benchmark, Failure, User, digest
from pluralrm.errors import BenchmarkError, RunError
from pluralrm.files import append, drop_torn_line, lock_file
from pluralrm.http import Settings
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
        return [self.role.call(text, lambda said: read_pairs(said, self.count), again)]


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
        found = _PAIRS.validate_python(json.loads(fenced["text"] if fenced else bare))
    except ValidationError:
        return unreadable("not a list of objects with prompt, preferred and other, each a text", text)
    except (ValueError, RecursionError):
        return unreadable("not JSON and nothing else", text)
    if len(found) != count:
        return unreadable(f"the list has {len(found)} objects, wanted {count}", text)
    if any(map(one_answer, found)):
        return unreadable("preferred and other are the same text", text)
    return tuple(found)


def write_pairs(
    bench: Benchmark,
    name: str,
    writer: PairWriter,
    out: Path,
    *,
    limit: int | None = None,
    tell: Callable[[int, int], None] = lambda _done, _of: None,
) -> PairsProgress:
    """Write a line for each user with posts who has none in the file; `name` is the benchmark's spec.

    A user whose server gave no answer gets no line: the same call asks again. RunError while another process writes
    the file: both would pay for the same users.
    """
    with _held(out):
        return _written(bench, name, writer, out, limit=limit, tell=tell)


@contextmanager
def _held(out: Path) -> Iterator[None]:
    if out.suffix != ".jsonl":
        raise RunError(f"{out}: found a file of type {out.suffix!r}, wanted .jsonl, to be read as a benchmark")
    try:
        lock = lock_file(out)
    except BlockingIOError as exc:
        raise RunError(f"{out}: another process writes pairs into this file; wait for it or stop it") from exc
    try:
        yield
    finally:
        os.close(lock)


def _written(
    bench: Benchmark,
    name: str,
    writer: PairWriter,
    out: Path,
    *,
    limit: int | None,
    tell: Callable[[int, int], None],
) -> PairsProgress:
    users = {user.id: user for user in bench.users_before if user.posts}
    if not users:
        raise BenchmarkError(f"{bench.card.name}: found no user with posts, wanted at least one to write from")
    wanted = list(users.values())[:limit]
    known = _known(bench, name, writer, out)
    missing, asked = [user for user in wanted if user.id not in known], ItemTexts(bench.items)
    waiting: list[str] = []
    for user, [call] in writer.role.ask(missing, writer.calls):
        if isinstance(call.outcome, Failure) and call.outcome.kind in OPEN_KINDS:
            waiting.append(call.outcome.detail)
        else:
            row = _row(user, call.outcome or (), (name, writer), asked)
            append(out, f"{row.model_dump_json()}\n".encode())
            known[user.id] = row
        tell(len(known), len(wanted))
    return _progress([known[user.id] for user in wanted if user.id in known], len(wanted), waiting)


def _known(bench: Benchmark, name: str, writer: PairWriter, out: Path) -> dict[str, UserRow]:
    """Return the lines that are there, by user; a file of another command is a RunError."""
    drop_torn_line(out)
    if not out.stat().st_size:
        joined(bench, ())
        return {}
    rows = list(read_checked([Source(out)], UserRow, lambda row, place, _domain: (row, place)))
    row = rows[0][0]
    if (row.benchmark, row.writer, row.made) != (name, writer.role.chat.name, writer.made):
        raise RunError(
            f"{out}: was written from another benchmark, by another writer or with other options; name a new file"
        )
    joined(bench, rows)
    return {row.id: row for row, _ in rows}


def _row(
    user: User, outcome: tuple[PairRow, ...] | Failure, source: tuple[str, PairWriter], asked: ItemTexts
) -> UserRow:
    name, writer = source
    found = () if isinstance(outcome, Failure) else outcome
    kept = [pair for pair in found if not asked.overlaps(pair)]
    if isinstance(outcome, Failure):
        failure = f"{outcome.kind}: {reason_of(outcome)}"
    else:
        failure = "" if kept else "overlap: every pair has a question or an answer of an item"
    return UserRow(
        id=user.id,
        benchmark=name,
        writer=writer.role.chat.name,
        made=writer.made,
        posts=posts_hash(user),
        pairs=kept,
        refused=len(found) - len(kept),
        failure=failure,
    )


def _progress(rows: Sequence[UserRow], users: int, waiting: Sequence[str]) -> PairsProgress:
    failures: dict[str, int] = {}
    for row in rows:
        if row.failure:
            failures[row.failure] = failures.get(row.failure, 0) + 1
    pairs, refused = sum(len(row.pairs) for row in rows), sum(row.refused for row in rows)
    return PairsProgress(users, len(rows), len(waiting), pairs, refused, failures, waiting[0] if waiting else "")
