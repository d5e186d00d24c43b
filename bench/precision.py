"""Speed of a reward head in bfloat16 and float16 against float32, and how far its scores move.

    python bench/precision.py [--rounds 3] [--shapes pairs,pairs-posts,rmgap,bon16,bon64] [--part 4]

On the shapes of scoring.py, the first 1/part of the prompts. One process holds the same random weights in each dtype;
rounds go through all of them in turn. Prints one row of a Markdown table per shape.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Mapping
from itertools import combinations

import torch
import transformers
from scoring import CONFIG, SHAPES, groups, timed

from pluralrm.models.neural.engine import Calculator, Values
from pluralrm.models.neural.folder import open_folder
from pluralrm.models.neural.loading import DTYPES, LoadSettings, open_head
from pluralrm.models.neural.trees import pooled

EXACT, *LOW = DTYPES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--part", type=int, default=4)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as path:
        torch.manual_seed(0)
        transformers.AutoModelForSequenceClassification.from_config(CONFIG).save_pretrained(path)
        folder = open_folder(path, kind="hf")
        engines = {dtype: open_head(folder, LoadSettings(dtype=dtype, device=chosen.device)) for dtype in DTYPES}
    heads = " | ".join(f"{name}, ratio | moved at most | flips" for name in LOW)
    print(f"| shape | float32, answers/s | {heads} |")
    for name in chosen.shapes.split(","):
        print(line(name, engines, chosen), flush=True)


def line(name: str, engines: Mapping[str, Calculator], chosen: argparse.Namespace) -> str:
    """Return the table's line of a shape."""
    prompts = groups(SHAPES[name])
    requests = [[pooled(ids, 0) for ids in group] for group in prompts[: max(2, len(prompts) // chosen.part)]]
    seconds: dict[str, list[float]] = {dtype: [] for dtype in DTYPES}
    scores: dict[str, list[list[float]]] = {}
    for turn in range(chosen.rounds + 1):  # the first warms
        work = requests if turn else requests[:1]
        for dtype, engine in engines.items():
            values: list[Values] = []
            spent = timed(lambda e=engine, w=work, v=values: v.extend(e.values(w)), chosen.device)  # type: ignore[misc]
            scores[dtype] = [[float(value[0, 0]) for value in group] for group in values]
            seconds[dtype] += [spent] * bool(turn)
            print(f"  {name}, {dtype}: {spent:.2f} s", file=sys.stderr, flush=True)
    exact = scores[EXACT]
    cells = [SHAPES[name].title, f"{sum(map(len, requests)) / statistics.median(seconds[EXACT]):.2f}"]
    for dtype in LOW:
        ratios = [slow / fast for slow, fast in zip(seconds[EXACT], seconds[dtype], strict=True)]
        both = [list(zip(*sides, strict=True)) for sides in zip(exact, scores[dtype], strict=True)]
        pairs = [(a - c) * (b - d) <= 0 for group in both for (a, b), (c, d) in combinations(group, 2)]
        cells.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})")
        cells.append(f"{max(abs(a - b) for group in both for a, b in group):.1g}")
        cells.append(f"{sum(pairs)} of {len(pairs)}")
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
