"""Items with many candidates, one to three of them the best: every step from a file to a leaderboard."""

import json
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench import Outcome, Setup, Shape, Work
from pluralrm import load_benchmark, load_runs, score
from pluralrm.core import Run
from pluralrm.metrics import leaderboard

LENGTH = 100
"""Characters of a candidate."""


class Files(NamedTuple):
    """A file of items, and the folder in which runs of it go."""

    spec: str
    items: int
    folder: Path

    def scored(self) -> Run:
        """Return a new run."""
        with TemporaryDirectory(dir=self.folder) as out:
            return score(load_benchmark(self.spec), "longest", out=out)


def rows(setup: Setup) -> Files:
    rng, folder, items = random.Random(0), setup.folder(), setup.size(10_000, 10)
    filler = "".join(rng.choices("abcdefghij klmnop", k=4 * LENGTH))
    with (folder / "rows.jsonl").open("w", encoding="utf-8") as file:
        for number in range(items):
            starts = [rng.randrange(2 * LENGTH) for _ in range(50)]
            texts = [f"{number}-{n} {filler[start : start + LENGTH]}" for n, start in enumerate(starts)]
            best = rng.randint(1, 3)
            row = {"id": f"tied:{number}", "prompt": f"Question {number}?", "candidates": texts}
            file.write(json.dumps(row | {"grades": [float(n < best) for n in range(50)]}) + "\n")
    return Files(f"rows:{folder / 'rows.jsonl'}", items, folder)


candidates = Shape("candidates", "10,000 items of 50 candidates from a file to a leaderboard", rows, unit="items")


@candidates.side
def load(data: Files) -> Work:
    return lambda: Outcome(units=len(load_benchmark(data.spec).items))


@candidates.side
def load_and_score(data: Files) -> Work:
    return lambda: Outcome(units=len(data.scored().rows))


@candidates.side
def read_run(data: Files) -> Work:
    score(load_benchmark(data.spec), "longest", out=data.folder / "runs")
    return lambda: Outcome(units=sum(len(run.rows) for run in load_runs(data.folder / "runs")))


@candidates.side
def compare(data: Files) -> Work:
    run = data.scored()

    def work() -> Outcome:
        leaderboard([run])
        return Outcome(units=data.items)

    return work
