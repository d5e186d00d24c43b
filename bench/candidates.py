"""Items with many candidates: 10,000 items of 50 through load, score, compare, and what that takes.

python bench/candidates.py [--items 10000] [--candidates 50] [--length 100] [--format rows|rewardbench2]
"""

import argparse
import json
import random
import resource
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def write_rows(path: Path, form: str, items: int, candidates: int, *, length: int) -> Path:
    """Write items with one to three best candidates, in a format."""
    rng = random.Random(0)
    filler = "".join(rng.choices("abcdefghij klmnop", k=4 * length))
    with path.open("w", encoding="utf-8") as file:
        for number in range(items):
            texts = [
                f"{number}-{n} {filler[(cut := rng.randrange(2 * length)) : cut + length]}" for n in range(candidates)
            ]
            best = rng.randint(1, 3)
            row: dict[str, object] = {"id": f"tied:{number}", "prompt": f"Question {number}?"}
            if form == "rows":
                row |= {"candidates": texts, "grades": [float(n < best) for n in range(candidates)]}
            else:
                row |= {"subset": "Ties", "chosen": texts[:best], "rejected": texts[best:], "num_correct": best}
            file.write(f"{json.dumps(row)}\n")
    return path


def timed(name: str, step: Callable[[], T]) -> T:
    start, cpu = time.perf_counter(), time.process_time()
    result = step()
    wall, used = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:12} {wall:6.2f} s ({used:.2f} s of CPU), peak {peak:.0f} MB", flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--candidates", type=int, default=50)
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--format", choices=("rows", "rewardbench2"), default="rows")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        write_rows(path, options.format, options.items, options.candidates, length=options.length)
        print(
            f"{options.items:,} items of {options.candidates}, {path.stat().st_size / 2**20:.0f} MiB, {options.format}"
        )

        timed("import", lambda: [import_module(f"pluralrm.{name}") for name in ("metrics", "runs", "api")])
        from pluralrm import load_benchmark, load_runs, score
        from pluralrm.metrics import leaderboard

        bench = timed("load", lambda: load_benchmark(f"{options.format}:{path}"))
        out = Path(folder) / "runs"
        timed("score", lambda: score(bench, "longest", out=out))
        runs = timed("read runs", lambda: load_runs(out))
        timed("compare", lambda: leaderboard(runs))


if __name__ == "__main__":
    main()
