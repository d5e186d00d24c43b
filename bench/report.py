"""How long a large report takes, how much memory, how many bytes: 2,830 items x 20 models x 3 conditions, synthetic.

The runs are written as `pluralrm score` writes them: ten posts of some 220 words for each user, answers of 100 words.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pluralrm.card import Card
from pluralrm.core import Benchmark, Item, Post, Query, User, Verdict
from pluralrm.runs import score

WORDS = [
    f"{stem}{end}"
    for stem in ("garden", "melod", "harbour", "ledger", "saffron", "timber", "orbit", "velvet")
    for end in ("", "s", "ly", "ing", "ed", "ish", "er", "ness")
]
CONDITIONS = ("none", "raw:10", "swapped:10")


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


def benchmark(items: int) -> Benchmark:
    card = Card("synthetic", "Random words, seeded", "Apache-2.0", "bench/report.py", "by a seed")
    return Benchmark(card, tuple(item(place) for place in range(items)))


def item(place: int) -> Item:
    rng = random.Random(place)
    user = User(f"u{place:05}", tuple(Post(f"u{place:05}-{n}", text(rng, 220), "diary") for n in range(10)))
    preferred = rng.randrange(2)
    answers = tuple(text(rng, rng.randint(80, 100)) + " @" * (side == preferred) for side in range(2))
    return Item(
        f"item-{place:05}",
        text(rng, 30),
        answers,
        preferred,
        user.id,
        ("Art_and_Entertainment", "Lifestyle_and_Personal_Development", "Society_and_Culture")[place % 3],
        ("first", "second"),
        user,
        {"category": WORDS[place % len(WORDS)]},
    )


def text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, k=words))


def make(folder: Path, items: int, models: int) -> None:
    bench = benchmark(items)
    for number in range(models):
        for condition in CONDITIONS:
            score(bench, Noisy(f"org/model-{number:02}-{1 + number % 4}B", 0.1 + number / 40), condition, out=folder)
        print(f"\r{number + 1} of {models} models", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def report(folder: Path) -> None:
    """Build the report in this process and print what it took; imports are counted."""
    began = time.perf_counter()
    from pluralrm.report import write_report

    made = write_report([folder], folder / "report.html")
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = (folder / "report.html").stat().st_size / 1e6
    held = [{"items": table.items, "complete": table.complete, "total": table.total} for table in made.tables]
    print(json.dumps({"seconds": round(seconds, 1), "peak MiB": round(peak), "MB": round(size, 2), "tables": held}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=2_830)
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--runs", type=Path, help="Folder of the runs; made where it is empty.")
    parser.add_argument("--only-report", action="store_true")
    asked = parser.parse_args()
    if asked.only_report:
        report(asked.runs)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.runs or Path(temporary)
        if not any(folder.rglob("run.json")):
            make(folder, asked.items, asked.models)
        # A process of its own: the peak of memory is then the report's, not that of making the runs.
        subprocess.run([sys.executable, __file__, "--only-report", "--runs", str(folder)], check=True)  # noqa: S603


if __name__ == "__main__":
    main()
