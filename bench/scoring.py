"""Speed of scoring with a local neural reward model: the way published scripts go, against ours, interleaved.

    python bench/scoring.py [--rounds 5] [--shapes pairs,pairs-posts,rmgap,bon16,bon64] [--write]

The naive way: batches of 8 in file order, padded, each candidate a full sequence. It runs twice, with the allocator as
it is and with one that keeps freed memory, which is worth much to long padded batches; ours sets what it needs itself.
Each way is a process of its own that loads the same folder of random weights and waits; rounds go through all of them
in turn. The naive way runs on a part (a whole number of batches), and its time is scaled by the tokens of the whole.
Tokenization is left out on every side. `--write` puts the table into bench/RESULTS.md.
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
import transformers

from pluralrm.models.neural.folder import open_folder
from pluralrm.models.neural.loading import LoadSettings, open_head
from pluralrm.models.neural.trees import StateRequest, grow, pooled

BATCH = 8
CLEAR = Path("/proc/self/clear_refs")
"""Linux forgets a process's peak memory when 5 is written here."""
VOCABULARY = 32_000
CONFIG = transformers.Qwen2Config(
    vocab_size=VOCABULARY,
    hidden_size=512,
    num_hidden_layers=12,
    num_attention_heads=8,
    num_key_value_heads=2,
    intermediate_size=1536,
    max_position_embeddings=8192,
    num_labels=1,
    pad_token_id=0,
)
TUNED = {"MALLOC_MMAP_THRESHOLD_": str(4 << 30), "MALLOC_TRIM_THRESHOLD_": str(16 << 30)}
WAYS = ("naive", "tuned", "ours")


COLUMNS = (
    "shape",
    "naive, answers/s",
    "ours, answers/s",
    "ratio",
    "ratio to a tuned allocator",
    "of matmul peak",
    "peak memory, naive",
    "ours",
    "largest difference of scores",
)


class Shape(NamedTuple):
    """Prompts, and answers per prompt, with the ranges of their lengths in tokens."""

    title: str
    prompts: int
    prompt: tuple[int, int]
    answers: int
    answer: tuple[int, int]
    naive_part: int
    """Sequences that the naive way runs on."""


SHAPES = {
    "pairs": Shape("pairs, no posts", 192, (25, 60), 2, (90, 170), 64),
    "pairs-posts": Shape("pairs, 10 posts", 32, (1500, 2500), 2, (90, 170), 8),
    "rmgap": Shape("RMGAP, 4 answers", 72, (60, 120), 4, (100, 600), 48),
    "bon16": Shape("best of 16, 10 posts", 4, (2000, 2400), 16, (100, 200), 8),
    "bon64": Shape("best of 64, 10 posts", 4, (2000, 2400), 64, (100, 200), 8),
}


def groups(shape: Shape) -> list[list[tuple[int, ...]]]:
    """Return token ids: per prompt one sequence per answer; every answer ends as a turn of a chat does."""
    draw = random.Random(shape.title)

    def tokens(span: tuple[int, int]) -> tuple[int, ...]:
        return tuple(draw.randrange(10, VOCABULARY) for _ in range(draw.randint(*span)))

    prompts = [tokens(shape.prompt) for _ in range(shape.prompts)]
    return [[prompt + tokens(shape.answer) + (2, 3) for _ in range(shape.answers)] for prompt in prompts]


def flops(shape: Shape) -> float:
    """Return the arithmetic of the distinct tokens: twice the weights that each passes, and its attention."""
    total = 0.0
    weights = non_embedding_weights()
    for group in groups(shape):
        chains = grow([[pooled(ids, 0) for ids in group]]).chains
        total += 2 * weights * sum(len(chain.ids) for chain in chains)
        seen = sum(len(chain.ids) * (chain.before + len(chain.ids) / 2) for chain in chains)
        total += 4 * CONFIG.num_hidden_layers * CONFIG.hidden_size * seen
    return total


def non_embedding_weights() -> int:
    width, heads, keys = CONFIG.hidden_size, CONFIG.num_attention_heads, CONFIG.num_key_value_heads
    attention = width * width * 2 + 2 * width * (width // heads) * keys
    return int(CONFIG.num_hidden_layers * (attention + 3 * width * CONFIG.intermediate_size))


def matmul_peak(device: str) -> float:
    """Return the best floating-point operations per second of square float32 products."""
    best = 0.0
    for size in (1024, 1536, 2048):
        one, two = torch.randn(size, size, device=device), torch.randn(size, size, device=device)
        for _ in range(8):
            best = max(best, 2 * size**3 / timed(partial(torch.mm, one, two), device))
    return best


def timed(work: Callable[[], object], device: str) -> float:
    if device != "cpu":
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - start


# ---------------------------------------------------------------- one way, in a process of its own


def naive(folder: str, device: str) -> Callable[[Sequence[Sequence[int]]], list[float]]:
    """Return the published scripts' loop over sequences."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    model.eval().to(device)

    def score(sequences: Sequence[Sequence[int]]) -> list[float]:
        scores: list[float] = []
        for start in range(0, len(sequences), BATCH):
            batch = sequences[start : start + BATCH]
            width = max(map(len, batch))
            ids = torch.tensor([[*ids, *[0] * (width - len(ids))] for ids in batch])
            mask = torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids in batch])
            with torch.no_grad():
                scores += model(input_ids=ids.to(device), attention_mask=mask.to(device)).logits[:, 0].tolist()
        return scores

    return score


def ours(folder: str, device: str) -> Callable[[Sequence[Sequence[StateRequest]]], list[float]]:
    """Return this package's engine over groups."""
    engine = open_head(open_folder(folder, kind="hf"), LoadSettings(dtype="float32", device=device))
    return lambda some: [float(value[0, 0]) for group in engine.values(some) for value in group]


def work(way: str, folder: str, device: str) -> None:
    """Answer one line per line of standard input: the seconds, the scores, the peak memory."""
    by_us, naively = (ours(folder, device), None) if way == "ours" else (None, naive(folder, device))
    for line in sys.stdin:
        shape = SHAPES[line.strip()]
        asked = [[pooled(ids, 0) for ids in group] for group in groups(shape)]
        flat = [ids for group in groups(shape) for ids in group][: shape.naive_part]
        _forget_peak(device)
        start = _now(device)
        scores = by_us(asked) if by_us is not None else naively(flat) if naively is not None else []
        seconds = _now(device) - start
        print(json.dumps({"seconds": seconds, "scores": scores, "peak": _peak(device)}), flush=True)


def _now(device: str) -> float:
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter()


def _forget_peak(device: str) -> None:
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
    elif CLEAR.exists():
        CLEAR.write_text("5")


def _peak(device: str) -> int:
    """Return the most bytes held since the last forgetting; of the whole process where that cannot be forgotten."""
    if device != "cpu":
        return int(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 if not CLEAR.exists() else _high_water()


def _high_water() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


# ---------------------------------------------------------------- all ways, in turn


class Answer(NamedTuple):
    """What a way says of a shape."""

    seconds: float
    scores: list[float]
    peak: int


class Process:
    """A way that waits for shapes."""

    def __init__(self, way: str, folder: str, device: str) -> None:
        self._child = subprocess.Popen(  # noqa: S603 - this file
            [sys.executable, __file__, "--work", way, "--folder", folder, "--device", device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | (TUNED if way == "tuned" else {}),
        )

    def run(self, shape: str) -> Answer:
        """Return what the way says of a shape."""
        assert self._child.stdin is not None and self._child.stdout is not None  # noqa: S101, PT018
        self._child.stdin.write(shape + "\n")
        self._child.stdin.flush()
        return Answer(**json.loads(self._child.stdout.readline()))

    def close(self) -> None:
        """End the process."""
        assert self._child.stdin is not None  # noqa: S101
        self._child.stdin.close()
        self._child.wait()


def table(shapes: Sequence[str], rounds: int, device: str) -> Iterator[str]:
    """Yield the lines of a Markdown table, shape by shape."""
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        transformers.AutoModelForSequenceClassification.from_config(CONFIG).save_pretrained(folder)
        ways = {way: Process(way, folder, device) for way in WAYS if device == "cpu" or way != "tuned"}
        yield f"| {' | '.join(COLUMNS)} |"
        yield "|---" * len(COLUMNS) + "|"
        for name in shapes:
            for process in ways.values():
                process.run("pairs")  # warm
            yield line(name, ways, rounds, device)
        for process in ways.values():
            process.close()


def line(name: str, ways: dict[str, Process], rounds: int, device: str) -> str:
    """Return the table's line of a shape."""
    shape = SHAPES[name]
    answers = shape.prompts * shape.answers
    lengths = [len(ids) for group in groups(shape) for ids in group]
    scale = sum(lengths) / sum(lengths[: shape.naive_part])
    said: dict[str, list[Answer]] = {way: [] for way in ways}
    peak = 0.0
    for _ in range(rounds):
        peak = max(peak, matmul_peak(device))
        for way, process in ways.items():
            said[way].append(process.run(name))
        print(
            f"  {name}: {', '.join(f'{way} {said[way][-1].seconds:.2f} s' for way in ways)}",
            file=sys.stderr,
            flush=True,
        )
    seconds = {way: [a.seconds * (1 if way == "ours" else scale) for a in several] for way, several in said.items()}
    middle = {way: statistics.median(several) for way, several in seconds.items()}
    ratios = [slow / fast for slow, fast in zip(seconds["naive"], seconds["ours"], strict=True)]
    truth, found = said["naive"][-1], said["ours"][-1]
    cells = (
        shape.title,
        f"{answers / middle['naive']:.2f} (from {shape.naive_part} of {answers})",
        f"{answers / middle['ours']:.2f}",
        f"{middle['naive'] / middle['ours']:.2f} ({min(ratios):.2f}–{max(ratios):.2f})",
        f"{middle['tuned'] / middle['ours']:.2f}" if "tuned" in middle else "–",
        f"{flops(shape) / middle['ours'] / peak:.0%}",
        f"{truth.peak / 2**20:.0f} MiB",
        f"{found.peak / 2**20:.0f} MiB",
        f"{max(abs(a - b) for a, b in zip(truth.scores, found.scores, strict=False)):.1e}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--work", choices=WAYS)
    parser.add_argument("--folder", default="")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    chosen = parser.parse_args()
    if chosen.work:
        work(chosen.work, chosen.folder, chosen.device)
        return
    lines = []
    for text in table(chosen.shapes.split(","), chosen.rounds, chosen.device):
        print(text, flush=True)
        lines.append(text)
    if chosen.write:
        head = (
            f"# Scoring\n\n`make bench-hf`: torch {torch.__version__}, transformers {transformers.__version__}, "
            f"{chosen.device}, {torch.get_num_threads()} threads, float32, random weights of Qwen2's shape "
            f"({non_embedding_weights() / 1e6:.0f} M beside the embeddings). Medians of {chosen.rounds} rounds; ratios "
            "with their range over the rounds.\n\n"
        )
        Path(__file__).with_name("RESULTS.md").write_text(head + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
