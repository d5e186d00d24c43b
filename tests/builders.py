"""Small real benchmarks and reward models for tests: implementations, not mocks."""

import json
import random
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from pluralrm.card import Card
from pluralrm.core import Aspect, Benchmark, Failure, Item, Oracle, Post, Query, Run, User, Verdict
from pluralrm.journal import unsealed_line

WORDS = tuple("dough crust oven flour rest fold steam salt rye spelt stone heat crumb proof yeast water".split())  # noqa: SIM905
DOMAINS = ("Bread", "Cake", "Pie")


def card(name: str = "bakery", **changes: object) -> Card:
    facts: dict[str, object] = {
        "name": name,
        "summary": "Questions about baking.",
        "licence": "Apache-2.0",
        "source": "made by a test",
        "labelled": "by a seed",
        **changes,
    }
    return Card(**facts)  # type: ignore[arg-type]


def bakery(items: int = 12, *, width: int = 2, posts: int = 4, canary: str = "", name: str = "bakery") -> Benchmark:
    """Return a benchmark of one user per item; `canary` is planted into every oracle text."""
    return Benchmark(card(name), tuple(_item(number, width, posts, canary) for number in range(items)))


def _text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words))


def _item(number: int, width: int, posts: int, canary: str) -> Item:
    rng = random.Random(f"bakery:{number}")
    user = User(f"u{number}", tuple(Post(f"u{number}-p{p}", _text(rng, 12), "baking") for p in range(posts)))
    return Item(
        id=f"i{number:04}",
        prompt=_text(rng, 8),
        candidates=tuple(f"{_text(rng, rng.randint(5, 25))} {place}" for place in range(width)),
        preferred=rng.randrange(width),
        cluster=user.id,
        domain=DOMAINS[number % 3],
        candidate_ids=tuple(f"c{place}" for place in range(width)),
        user=user,
        tags={"shift": "night" if number % 2 else "day"},
        oracle=Oracle((Aspect(f"wants steam {canary}", f"said so {canary}", f"crust {canary}"),), f"A baker. {canary}"),
    )


@dataclass
class Scripted:
    """A reward model that scores by length, and does what `moods` says on some items."""

    spec: str = "scripted"
    moods: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            self.asked.append(query.id)
            time.sleep(self.seconds)
            yield self._answer(query)

    def _answer(self, query: Query) -> Verdict:
        mood = self.moods.get(query.id)
        if mood == "raise":
            raise ValueError(f"no idea about {query.id}")
        if mood == "nan":
            return Verdict((float("nan"),) * len(query.candidates))
        if mood == "short":
            return Verdict((1.0,))
        if mood is not None:
            return Verdict((Failure(mood, "as told"),) * len(query.candidates))  # type: ignore[arg-type]
        return Verdict(tuple(float(len(candidate)) for candidate in query.candidates))


class SlowLength:
    """For child processes: `python:tests.builders:SlowLength,milliseconds=1`."""

    spec = "slow-length"

    def __init__(self, milliseconds: str = "1") -> None:
        self._seconds = float(milliseconds) / 1000

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            time.sleep(self._seconds)
            yield Verdict(tuple(len(candidate) / 7 for candidate in query.candidates))


def edit_json(file: Path, **changes: object) -> None:
    """Change members of a JSON file that pluralrm wrote, as one that is of another program: without its check."""
    found = json.loads(file.read_text(encoding="utf-8"))
    found.pop("check", None)
    file.write_text(json.dumps(found | changes), encoding="utf-8")


def empty_run(folder: Path) -> None:
    """Leave of a run folder what a kill before the first row leaves."""
    (folder / "rows.jsonl").write_text("")
    edit_json(folder / "run.json", status="incomplete", rows=0, rows_hash="")


def as_before(folder: Path, *without: str) -> None:
    """Make of a run folder one of a version that kept no checks, no list of items, and rows without some members."""
    rows = [json.loads(unsealed_line(line)) for line in (folder / "rows.jsonl").read_bytes().splitlines()]
    kept = [{key: value for key, value in row.items() if key not in without} for row in rows]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
    (folder / "items.jsonl.gz").unlink()
    edit_json(folder / "run.json", rows_hash="", items_hash="")


def left_open(run: Run, items: Collection[str]) -> Run:
    """Return the run as it is when a server gave no answer on some items."""
    down = Failure("transport", "down")
    rows = [replace(row, scores=(down,) * len(row.scores)) if row.item in items else row for row in run.rows]
    return replace(run, rows=tuple(rows), complete=False)
