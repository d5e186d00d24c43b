"""Scoring with a local neural reward model: this package's engine against the way published scripts go.

That way: batches of 8 in file order, padded, each candidate a full sequence. It runs with the allocator as it is and
with one that keeps freed memory, which is worth much to long padded batches; ours sets what it needs itself. It runs on
a part (a whole number of batches), and its time is scaled by the tokens of the whole. Tokenization is left out on every
side. `at matmul peak` is the time that the arithmetic of the distinct tokens takes at the speed of the best of 24
square float32 products: its ratio is the share of the peak that the engine reaches.
"""

import random
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench import Outcome, Setup, Shape, Work

if TYPE_CHECKING:
    import transformers

Span = tuple[int, int]
Ids = tuple[int, ...]
BATCH, VOCABULARY = 8, 32_000
TUNED = {"MALLOC_MMAP_THRESHOLD_": str(4 << 30), "MALLOC_TRIM_THRESHOLD_": str(16 << 30)}


class Layout(NamedTuple):
    """Prompts, and answers per prompt, with the ranges of their lengths in tokens."""

    title: str
    prompts: int
    prompt: Span
    answers: int
    answer: Span
    part: int
    """Sequences that the published way runs on."""

    def smallest(self) -> "Layout":
        """Return two prompts of few tokens, and a part of their sequences."""
        short, tokens = ((low // 25 + 1, high // 25 + 1) for low, high in (self.prompt, self.answer))
        return Layout(self.title, 2, short, self.answers, tokens, 3)


SHAPES = {
    "pairs": Layout("pairs, no posts", 192, (25, 60), 2, (90, 170), 64),
    "pairs-posts": Layout("pairs, 10 posts", 32, (1500, 2500), 2, (90, 170), 8),
    "rmgap": Layout("RMGAP, 4 answers", 72, (60, 120), 4, (100, 600), 48),
    "bon16": Layout("best of 16, 10 posts", 4, (2000, 2400), 16, (100, 200), 8),
    "bon64": Layout("best of 64, 10 posts", 4, (2000, 2400), 64, (100, 200), 8),
}


@cache
def config(*, quick: bool = False) -> "transformers.Qwen2Config":
    """Return Qwen2's shape: 36 M weights beside the embeddings, or hardly any."""
    import transformers

    return transformers.Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=32 if quick else 512,
        num_hidden_layers=2 if quick else 12,
        num_attention_heads=8,
        num_key_value_heads=2,
        intermediate_size=64 if quick else 1536,
        max_position_embeddings=8192,
        num_labels=1,
        pad_token_id=0,
    )


def groups(layout: Layout) -> list[list[Ids]]:
    """Return token ids: per prompt one sequence per answer; every answer ends as a turn of a chat does."""
    draw = random.Random(layout.title)

    def tokens(span: Span) -> Ids:
        return tuple(draw.randrange(10, VOCABULARY) for _ in range(draw.randint(*span)))

    prompts = [tokens(layout.prompt) for _ in range(layout.prompts)]
    return [[prompt + tokens(layout.answer) + (2, 3) for _ in range(layout.answers)] for prompt in prompts]


class Sequences(NamedTuple):
    """What is scored, by which weights, where."""

    groups: list[list[Ids]]
    part: int
    folder: Path
    shape: "transformers.Qwen2Config"
    device: str

    @property
    def flat(self) -> list[Ids]:
        """All sequences in file order."""
        return [ids for group in self.groups for ids in group]

    def flops(self) -> float:
        """Return the arithmetic of the distinct tokens: twice the weights that each passes, and its attention."""
        from pluralrm.models.neural.trees import grow, pooled

        width, heads, keys = self.shape.hidden_size, self.shape.num_attention_heads, self.shape.num_key_value_heads
        attention = width * width * 2 + 2 * width * (width // heads) * keys
        weights = self.shape.num_hidden_layers * (attention + 3 * width * self.shape.intermediate_size)
        total = 0.0
        for group in self.groups:
            chains = grow([[pooled(ids, 0) for ids in group]]).chains
            attended = sum(len(chain.ids) * (chain.before + len(chain.ids) / 2) for chain in chains)
            total += 2 * weights * sum(len(chain.ids) for chain in chains)
            total += 4 * self.shape.num_hidden_layers * width * attended
        return total


def sequences(name: str, setup: Setup) -> Sequences:
    """Return the sequences of a layout, and random weights on disk."""
    import torch
    import transformers

    layout, shape, folder = SHAPES[name], config(quick=setup.quick), setup.folder()
    layout = layout.smallest() if setup.quick else layout
    torch.manual_seed(0)
    transformers.AutoModelForSequenceClassification.from_config(shape).save_pretrained(folder)
    return Sequences(groups(layout), layout.part, folder, shape, "cuda" if torch.cuda.is_available() else "cpu")


def engine(data: Sequences, *, dtype: str = "float32") -> Work:
    """Return this package's engine, all groups at once."""
    from pluralrm.models.neural.folder import open_folder
    from pluralrm.models.neural.loading import LoadSettings, open_head
    from pluralrm.models.neural.trees import pooled

    head = open_head(open_folder(str(data.folder), kind="hf"), LoadSettings(dtype=dtype, device=data.device))
    requests = [[pooled(ids, 0) for ids in group] for group in data.groups]

    def work() -> Outcome:
        scores = [float(value[0, 0]) for group in head.values(requests) for value in group]
        return Outcome(scores, len(scores), figures=gpu_memory(data.device))

    work()
    return work


def published_loop(data: Sequences) -> Work:
    """Return the published scripts' loop over a part of the sequences."""
    import torch
    import transformers

    model = transformers.AutoModelForSequenceClassification.from_pretrained(data.folder, dtype=torch.float32)
    model.eval().to(data.device)
    flat, some = data.flat, data.flat[: data.part]
    scale = sum(map(len, flat)) / sum(map(len, some))

    def logits(batch: Sequence[Ids]) -> list[float]:
        width = max(map(len, batch))
        ids = torch.tensor([[*ids, *[0] * (width - len(ids))] for ids in batch])
        mask = torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids in batch])
        with torch.no_grad():
            return list(model(input_ids=ids.to(data.device), attention_mask=mask.to(data.device)).logits[:, 0].tolist())

    def work() -> Outcome:
        scores = [score for at in range(0, len(some), BATCH) for score in logits(some[at : at + BATCH])]
        return Outcome(scores, len(flat), scale=scale, figures=gpu_memory(data.device))

    work()
    return work


def gpu_memory(device: str) -> dict[str, float]:
    """Return the peak since the last look, nothing on a CPU."""
    import torch

    if device == "cpu":
        return {}
    peak = torch.cuda.max_memory_allocated() / 2**20
    torch.cuda.reset_peak_memory_stats()
    return {"GPU, MiB": peak}


def at_matmul_peak(data: Sequences) -> Work:
    flops, answers = data.flops(), len(data.flat)

    def work() -> Outcome:
        peak = matmul_peak(data.device, 8 if data.shape.hidden_size > 32 else 1)
        return Outcome(units=answers, seconds=flops / peak, figures={"Gflop/s": peak / 1e9})

    return work


def matmul_peak(device: str, times: int) -> float:
    """Return the best floating-point operations per second of square float32 products."""
    import torch

    best = 0.0
    for size in (1024, 1536, 2048):
        one, two = torch.randn(size, size, device=device), torch.randn(size, size, device=device)
        for _ in range(times):
            best = max(best, 2 * size**3 / timed(partial(torch.mm, one, two), device))
    return best


def timed(work: Callable[[], object], device: str) -> float:
    """Return the seconds of some work, on a GPU until it is done."""
    import torch

    wait = torch.cuda.synchronize if device != "cpu" else int
    wait()
    start = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - start


for name, layout in SHAPES.items():
    scoring = Shape(
        f"scoring-{name}",
        f"{layout.title}: {layout.prompts * layout.answers} answers, float32 weights of Qwen2's shape (36 M)",
        partial(sequences, name),
        unit="answers",
        needs=("torch", "transformers"),
        tolerance=1e-4,
    )
    scoring.side(engine)
    scoring.side(published_loop)
    scoring.side(published_loop, name="published loop, tuned allocator", environment=TUNED)
    scoring.side(at_matmul_peak)
