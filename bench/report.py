"""A large report: 2,830 items x 20 models x 3 conditions, as `pluralrm score` writes the runs.

Ten posts of some 220 words for each user, answers of 100 words; seeded scores that lean to the first answer.
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench import Outcome, Setup, Shape, Work
from pluralrm import load_runs
from pluralrm.card import Card
from pluralrm.core import Benchmark, Item, Post, Query, User, Verdict
from pluralrm.metrics import leaderboard
from pluralrm.metrics.overview import overview, same_items
from pluralrm.report import write_report
from pluralrm.runs import score

STEMS = ("garden", "melod", "harbour", "ledger", "saffron", "timber", "orbit", "velvet")
WORDS = [f"{stem}{end}" for stem in STEMS for end in ("", "s", "ly", "ing", "ed", "ish", "er", "ness")]
DOMAINS = ("Art_and_Entertainment", "Lifestyle_and_Personal_Development", "Society_and_Culture")


@dataclass
class Noisy:
    """Scores that lean to the first answer by a little, and more under a user's posts."""

    spec: str
    skill: float

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        """Yield one seeded verdict per query."""
        for query in queries:
            rng = random.Random(f"{self.spec}:{query.id}:{query.user.id if query.user else ''}")
            lean = self.skill * (1.5 if query.user else 1.0)
            yield Verdict(tuple(rng.gauss(lean if "@" in answer else 0.0, 1.0) for answer in query.candidates))


def item(number: int) -> Item:
    rng = random.Random(number)

    def text(words: int) -> str:
        return " ".join(rng.choices(WORDS, k=words))

    user = User(f"u{number:05}", tuple(Post(f"u{number:05}-{n}", text(220), "diary") for n in range(10)))
    preferred = rng.randrange(2)
    answers = tuple(text(rng.randint(80, 100)) + " @" * (side == preferred) for side in range(2))
    labels, facets = ("first", "second"), {"category": WORDS[number % len(WORDS)]}
    id_, domain = f"item-{number:05}", DOMAINS[number % 3]
    return Item(id_, text(30), answers, preferred, user.id, domain, labels, user, facets)


def runs(setup: Setup) -> Path:
    """Return the folder of the runs."""
    folder, card = (
        setup.folder(),
        Card("synthetic", "Random words, seeded", "Apache-2.0", "bench/report.py", "by a seed"),
    )
    benchmark = Benchmark(card, tuple(map(item, range(setup.size(2_830, 12)))))
    for number in range(setup.size(20, 2)):
        for condition in ("none", "raw:10", "swapped:10"):
            model = Noisy(f"org/model-{number:02}-{1 + number % 4}B", 0.1 + number / 40)
            score(benchmark, model, condition, out=folder)
    return folder


report = Shape("report", "60 runs of 2,830 items: 20 models, 3 conditions", runs, rounds=3)


@report.side
def write(folder: Path) -> Work:
    def work() -> Outcome:
        write_report([folder], folder / "report.html", force=True)
        return Outcome(figures={"MB": (folder / "report.html").stat().st_size / 1e6})

    return work


@report.side
def compare(folder: Path) -> Work:
    """Return what `pluralrm compare` computes."""
    return lambda: list(map(overview, same_items(load_runs(folder))))


@report.side
def compare_all(folder: Path) -> Work:
    """Return all 60 runs in one leaderboard, 1,770 pairs."""
    return lambda: leaderboard(load_runs(folder))
