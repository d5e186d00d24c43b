"""`pluralrm demo`: the main job with embedded data, and what to try next."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.terminal import console, note

if TYPE_CHECKING:
    from pluralrm.runs import Cell

_NEXT = """
What to try next
  one item, and exactly what the model was given
      pluralrm show {run} --item {item}
  the same ranking with every pairwise difference
      pluralrm compare {out} --json
  your own model: a class with score(queries), in my_model.py
      pluralrm check python:my_model:MyModel
      pluralrm score pocket-prb -m python:my_model:MyModel -c recent:10
  the real benchmarks
      pluralrm list benchmarks
"""


def demo(
    out: Path = typer.Option(Path("demo-runs"), "--out", "-o", help="Folder of the runs."),
) -> None:
    """Score the baselines on the two shipped benchmarks: no download, no key, no GPU, a few seconds."""
    from pluralrm.cli.board import print_boards
    from pluralrm.demo import run_demo

    reasons: Counter[str] = Counter()

    def skipped(cell: "Cell") -> None:
        reasons[cell.skip or ""] += 1

    runs = list(run_demo(out, skipped))
    note(f"{len(runs)} runs in {out}")
    for reason, times in reasons.items():
        note(f"skipped ({times}×): {reason}")
    print_boards(runs)
    shown = next(run for run in runs if run.model == "lsa")
    console().print(_NEXT.format(out=out, run=shown.path, item=shown.rows[0].item).rstrip())
