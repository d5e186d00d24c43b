"""A large benchmark, 2,830 items with ten posts a user: 60 runs compared and reported, and the items audited.

Posts of some 220 words, answers of 100; seeded scores that lean to the preferred answer, more under posts.
"""

import os
import random
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench import Outcome, Setup, Shape, Work
from bench.startup import MAIN, run
from pluralrm.audit import audit
from pluralrm.card import Card
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Item, Post, User
from pluralrm.folders import file_hash
from pluralrm.journal import LockedFolder
from pluralrm.runs import load_run
from pluralrm.runs.loop import run_folder, score_cell
from pluralrm.runs.records import INPUTS, ITEMS, ROWS, RUN, row_line

STEMS = ("garden", "melod", "harbour", "ledger", "saffron", "timber", "orbit", "velvet")
WORDS = [f"{stem}{end}" for stem in STEMS for end in ("", "s", "ly", "ing", "ed", "ish", "er", "ness")]
DOMAINS = ("Art_and_Entertainment", "Lifestyle_and_Personal_Development", "Society_and_Culture")


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


def benchmark(setup: Setup) -> Benchmark:
    card = Card("synthetic", "Random words, seeded", "Apache-2.0", "bench/report.py", "by a seed")
    return Benchmark(card, tuple(map(item, range(setup.size(2_830, 12)))))


def runs(setup: Setup) -> Path:
    """Return the folder of the runs: one model is scored, the others have its files, and scores of their own."""
    items, scored, folder = benchmark(setup), setup.folder(), setup.folder()
    for condition in map(load_condition, ("none", "raw:10", "swapped:10")):
        first = score_cell(items, "longest", condition, out=scored)
        for number in range(setup.size(20, 2)):
            model = f"org/model-{number:02}-{1 + number % 4}B"
            skill = (0.1 + number / 40) * (1.5 if condition.reveals else 1.0)
            to = run_folder(folder, items, model, condition=condition, items=items.items)
            write_run(first, to, model, skill=skill)
    return folder


def write_run(scored: Path, folder: Path, model: str, *, skill: float) -> None:
    """Write the run of another model on what a run was scored on."""
    rows = load_run(scored).rows
    scores = np.random.default_rng([*folder.name.encode(), *model.encode()]).normal(size=(len(rows), 2))
    scores[np.arange(len(rows)), np.array([row.best for row in rows])[:, 0]] += skill
    pairs = zip(rows, map(tuple, scores.tolist()), strict=True)
    with LockedFolder(folder, RUN) as other:
        for name in (INPUTS, ITEMS):
            os.link(scored / name, folder / name)
        other.append(ROWS, "".join(row_line(replace(row, scores=pair)) for row, pair in pairs))
        update = {"model": model, "rows_hash": file_hash(folder / ROWS)}
        other.write(RUN.read(scored).model_copy(update=update))


report = Shape("report", "60 runs of 2,830 items: 20 models, 3 conditions", runs, rounds=3, apart=False)


@report.side
def compare(folder: Path) -> Work:
    return lambda: run("-c", MAIN, "compare", str(folder))


@report.side
def compare_all(folder: Path) -> Work:
    """Return all 60 runs in one leaderboard, 1,770 pairs."""
    return lambda: run("-c", MAIN, "compare", "--all", str(folder))


@report.side
def write(folder: Path) -> Work:
    out = folder / "report.html"

    def work() -> Outcome:
        run("-c", MAIN, "report", str(folder), "-o", str(out), "--force")
        return Outcome(figures={"MB": out.stat().st_size / 1e6})

    return work


report_audit = Shape("report-audit", "an audit of 2,830 items with ten posts a user", benchmark, rounds=1)


@report_audit.side
def probes(items: Benchmark) -> Work:
    return lambda: Outcome(results=[probe.p or 0.0 for probe in audit(items).probes])
