"""A small pipeline of the tests' own, servers that answer it, and ways to break them: kills, faults.

    with FakeChat(faulty(answer, 0.3)) as server, opened(tmp_path / "b", server.url) as (folder, pools):
        build(PIPELINE, flour(20), folder, pools)

`kills` is for every pipeline: it takes the command of a child that builds, and the server that the child asks.
"""

import json
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path

from pluralrm.chat import ChatModel
from pluralrm.chat.completions import unreadable
from pluralrm.construct.pipeline import (
    Acceptance,
    Decision,
    Folder,
    ModelCall,
    Pipeline,
    Pools,
    Product,
    Record,
    Refusal,
    Rejection,
    Role,
    Sieve,
    Stage,
    StandIn,
    Work,
    ask,
    ask_all,
    at_once,
    filler,
    open_pools,
    until_accepted,
)
from pluralrm.core import Failure
from pluralrm.http import Settings
from pluralrm.templates import Template
from tests.fake_chat import Action, FakeChat, Seen, reply, reset, say, status, truncated
from tests.forked import Forked

# ---------------------------------------------------------------- the pipeline

WRITE = Template(
    "flour-write",
    "Answer in the manner {{ manner }}: {{ question }}{% if why %} Not again ({{ attempt }}): {{ why }}{% endif %}",
)
MARK = Template("flour-mark", "MARK from 1 to 5: {{ text }}")
CHECK = Template("flour-check", "YES or NO, does it say what to do? {{ text }}")
MOST = 3


class Question(Product):
    text: str
    posts: tuple[str, ...]


class Shown(Product):
    posts: tuple[str, ...]


class Once(Product):
    pass


class Answers(Product):
    chosen: str
    rejected: str


class Checked(Product):
    by: tuple[str, ...]


def show(record: Record) -> Decision:
    posts = record[Question].posts
    return Acceptance(Shown(posts=posts[:2])) if posts else Rejection("bare", f"{record.id} wrote nothing")


def once(records: Sequence[Record]) -> list[Decision]:
    first: dict[str, str] = {}
    for record in records:
        first.setdefault(record[Question].text, record.id)
    return [
        Acceptance(Once()) if (other := first[record[Question].text]) == record.id else Rejection("twin", f"as {other}")
        for record in records
    ]


def read_mark(text: str) -> int | Failure:
    return int(text) if text in {"1", "2", "3", "4", "5"} else unreadable("not a number from 1 to 5", text)


def answers(record: Record) -> Work[Decision]:
    """Both answers, each written anew until it has a mark of at least 3."""
    made = []
    for manner in ("plain", "grand"):
        found = yield from until_accepted(partial(_write, record, manner), _judge, MOST)
        if isinstance(found, Rejection):
            return found
        made.append(found)
    (chosen, first), (rejected, second) = made
    return Acceptance(Answers(chosen=chosen, rejected=rejected), attempts=first + second)


def _write(record: Record, manner: str, attempt: int, why: Sequence[Refusal]) -> Work[str | Refusal]:
    text = WRITE.fill(
        manner=manner, question=record[Question].text, attempt=str(attempt), why="; ".join(one.said for one in why)
    )
    stand_in = StandIn(filler(6, record.id, manner, attempt))
    said = yield from ask(ModelCall("writer", text, WRITE, str.strip, tag=str(attempt), stand_in=stand_in))
    return Refusal("unwritten", said.detail) if isinstance(said, Failure) else said


def _judge(text: str, attempt: int) -> Work[Sequence[Refusal]]:
    stand_in = StandIn("5", "" if attempt + 1 == MOST else "1")
    again = "Reply with a number from 1 to 5."
    mark = yield from ask(ModelCall("judge", MARK.fill(text=text), MARK, read_mark, again, stand_in=stand_in))
    if isinstance(mark, Failure):
        return [Refusal("unjudged", mark.kind)]
    return [] if mark >= 3 else [Refusal("quality", f"{mark} of 5")]


def check(record: Record) -> Work[Decision]:
    made = record[Answers]
    asked = [
        ModelCall(
            "checker",
            CHECK.fill(text=text),
            CHECK,
            lambda said: said == "YES" or (said != "NO" and _odd(said)),
            turn=turn,
            stand_in=StandIn("YES"),
        )
        for turn, text in enumerate((made.chosen, made.rejected))
    ]
    said = yield from ask_all(asked)
    if any(isinstance(one, Failure) for one in said):
        return Rejection("unchecked")
    return Acceptance(Checked(by=("one", "two"))) if all(said) else Rejection("says_nothing")


def _odd(said: str) -> Failure:
    return unreadable("neither YES nor NO", said)


PIPELINE = Pipeline(
    "flour",
    Question,
    (
        Stage("shown", Shown, at_once(show), gate="users without posts"),
        Sieve("once", Once, once, gate="a question that another record has"),
        Stage(
            "answers",
            Answers,
            answers,
            reads=(Shown,),
            gate="answers with a mark below 3",
            templates=(WRITE, MARK),
            settings={"least": 3, "most": MOST},
        ),
        Stage(
            "checked",
            Checked,
            check,
            reads=(Answers,),
            gate="answers that say nothing",
            templates=(CHECK,),
        ),
    ),
)


def flour(count: int) -> list[Record]:
    """Return records: every tenth is bare, every eleventh a twin of the one before."""
    return [
        Record(
            f"q{number:03}",
            "Bread",
            Question(text=_question(number), posts=() if number % 10 == 9 else ("Rye.", "Oats.")),
        )
        for number in range(count)
    ]


def _question(number: int) -> str:
    return f"Which flour for loaf {number - 1 if number % 11 == 10 else number}?"


# ---------------------------------------------------------------- who answers


def chance(text: str) -> float:
    """Return a number below 1 that a text always has."""
    return int(sha256(text.encode()).hexdigest()[:8], 16) / 2**32


def said(prompt: str) -> str:
    """Return what is replied to a prompt, the same wherever it is asked."""
    if prompt.startswith("MARK"):
        return str(1 + int(chance(prompt) * 2) if chance(prompt) < 0.4 else 3 + int(chance(prompt + "!") * 3))
    if prompt.startswith("YES or NO"):
        return "NO" if chance(prompt) < 0.1 else "YES"
    return f"Use {('spelt', 'rye', 'oat')[int(chance(prompt) * 3)]} {chance(prompt):.6f}."


def answer(seen: Seen) -> Action:
    """Reply over HTTP; a second try is answered as the first."""
    return say(said(str(seen.body["messages"][0]["content"])))


def faulty(answer: Callable[[Seen], Action], share: float, *, seed: int = 0) -> Callable[[Seen], Action]:
    """Return the same server with so many errors of all kinds: 500s, resets, cut JSON, empty and garbage texts."""
    rng = random.Random(seed)
    kinds: tuple[Callable[[Seen], Action], ...] = (
        lambda _: status(500),
        lambda _: reset,
        lambda seen: truncated(answer(seen)),
        lambda _: say(""),
        lambda _: say("\ud83d garbage \x00 {{ 7 * 7 }} </s>"),
        lambda _: reply({"choices": []}),
        lambda _: say("cut", finish="length"),
    )
    return lambda seen: rng.choice(kinds)(seen) if rng.random() < share else answer(seen)


ROLES = {"writer": ("model-a", "model-b"), "judge": ("model-c",), "checker": ("model-a", "model-c")}


@contextmanager
def opened(
    path: Path,
    url: str = "",
    *,
    settings: Settings | None = None,
    chats: Mapping[str, ChatModel] | None = None,
    roles: Mapping[str, Sequence[str]] = ROLES,
    sync_seconds: float = 1.0,
) -> Iterator[tuple[Folder, Pools]]:
    """Open a folder and the pools of the small pipeline; `url` goes with every model."""
    named = [Role(role, [f"{model},url={url}" if url else model for model in models]) for role, models in roles.items()]
    with (
        Folder(path, sync_seconds=sync_seconds) as folder,
        open_pools(named, settings=folder.settings(settings or Settings()), chats=chats) as pools,
    ):
        yield folder, pools


# ---------------------------------------------------------------- what is found on disk, and kills


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, by its path there."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def decisions(folder: Path) -> dict[str, list[dict[str, object]]]:
    """Return the lines of every stage, by file, in the order of the records."""
    found = {}
    for path in sorted((folder / "stages").iterdir()):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        found[path.name] = sorted(lines, key=lambda line: str(line["id"]))
    return found


def kills(begin: Callable[[], Forked], server: FakeChat, *, times: int, gap: tuple[int, int], seed: int = 0) -> int:
    """Begin a child so often, and kill it after some more calls, by chance from `gap`; return how many died of it.

    A child that ends before its kill ends the series: there is nothing left to do.
    """
    rng = random.Random(seed)
    for number in range(times):
        goal = len(server.requests) + rng.randint(*gap)
        child = begin()
        while len(server.requests) < goal and child.poll() is None:
            time.sleep(0.001)
        time.sleep(rng.random() * 0.01)  # also between two calls, and while a decision is written
        child.kill()
        code = child.wait(240)
        if code != -signal.SIGKILL:
            assert code == 0
            return number
    return times
