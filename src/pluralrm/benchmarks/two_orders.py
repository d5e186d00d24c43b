"""JudgeBench (arXiv 2410.12784): two answers to a hard question, one of them right.

One row, shortened (hub: ScalerLab/JudgeBench, one file for each model that answered):

    {"pair_id": "81ec", "original_id": "10646", "source": "mmlu-pro-computer science", "response_model": "gpt-4o-...",
     "question": "How many bits does the channel carry? ...", "response_A": "Three. ...", "response_B": "Two. ...",
     "label": "B>A"}

`split=gpt` (the leaderboard's, and the default) or `split=claude`, by the model that answered; pairs of the other one
in a file or folder are left out and counted. The domain is the category: knowledge, reasoning, math or coding. Tags:
`source`, `original_id`, `response_model`. Pairs on one question are one cluster.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pluralrm.benchmarks.dataset import Dataset, comparison, differ, load_dataset, read_items
from pluralrm.benchmarks.dirt import Dirt
from pluralrm.benchmarks.preferences import word_of
from pluralrm.benchmarks.rows import Place, describe
from pluralrm.benchmarks.schema import Id, Label, Part, Text
from pluralrm.benchmarks.sources import Source
from pluralrm.card import Card
from pluralrm.core import Benchmark, Item
from pluralrm.errors import BenchmarkError
from pluralrm.specs import Spec

HUB = "ScalerLab/JudgeBench"

CATEGORIES: Mapping[str, str] = {
    "mmlu-pro": "knowledge",
    "livebench-reasoning": "reasoning",
    "livebench-math": "math",
    "livecodebench": "coding",
}
"""What a source begins with, and the category that it is of."""
COUNTS: Mapping[str, int] = {"knowledge": 154, "reasoning": 98, "math": 56, "coding": 42}
"""The 350 pairs of GPT-4o; the 270 of Claude are published without their categories."""

CARD = Card(
    name="judgebench",
    summary="JudgeBench: two answers of one model to a hard question, one of them right; 350 pairs",
    licence="MIT on the hub, none in the repository",
    source=f"hub: {HUB} (split gpt)",
    labelled="by the known answers of the questions: one of the two responses is right",
    citation="Sijun Tan, Siyuan Zhuang, Kyle Montgomery, William Y. Tang, Alejandro Cuadron, Chenguang Wang, Raluca "
    "Ada Popa and Ion Stoica. JudgeBench: A Benchmark for Evaluating LLM-based Judges. arXiv:2410.12784, 2024.",
    cluster="prompt",
    rule="JudgeBench",
)


class JudgeBenchRow(Part):
    """A question with two responses; the label names the right one."""

    pair_id: Id
    original_id: Id | None = None
    source: Text
    question: Text
    response_model: Label = ""
    response_A: Text  # noqa: N815 - the names of the format
    response_B: Text  # noqa: N815
    label: Literal["A>B", "B>A"]


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `judgebench`, `judgebench,split=claude` (the hub) or `judgebench:PATH`."""
    split = word_of(spec, "split", ("gpt", "claude"))
    card = CARD if split == "gpt" else replace(CARD, name="judgebench.claude", source=f"hub: {HUB} (split claude)")

    def read(sources: Sequence[Source], dirt: Dirt) -> Sequence[Item]:
        def items_of(row: JudgeBenchRow, location: Place, _domain: str) -> list[Item]:
            dirt.read("pairs", 1)
            if row.response_model.startswith(split) or not row.response_model:
                return [_item(row, location, seed)]
            dirt.drop("pairs", "of the other split")
            return []

        items = list(read_items(sources, JudgeBenchRow, items_of, dirt))
        if not items:
            raise BenchmarkError(f"judgebench: found no pair of split={split} among {dirt.rows:,}")
        return items

    counts = (COUNTS,) if split == "gpt" else ()
    return load_dataset(spec, seed, Dataset(card, counts, {HUB: (f"data/{split}-*",)}), read)


def _item(row: JudgeBenchRow, location: Place, seed: int) -> Item:
    category = next((name for start, name in CATEGORIES.items() if row.source.startswith(start)), "")
    if not category:
        raise location.refuse("source", found=describe(row.source), wanted=f"one that begins with {_BEGINNINGS}")
    answers = {"response_A": row.response_A, "response_B": row.response_B}
    right, wrong = answers if row.label == "A>B" else reversed(answers)
    differ([answers[right]], [answers[wrong]], location, "response_B")
    tags = {"source": row.source, "original_id": row.original_id or "", "response_model": row.response_model}
    chosen, rejected = {right: answers[right]}, {wrong: answers[wrong]}
    return comparison(row.pair_id, row.question, chosen, rejected, seed=seed, domain=category, tags=tags)


_BEGINNINGS = ", ".join(CATEGORIES)


# ---- LLMBar

LLMBAR_COUNTS: Mapping[str, int] = {"Natural": 100, "Neighbor": 134, "GPTInst": 92, "GPTOut": 47, "Manual": 46}
FILE = "dataset.json"

LLMBAR_CARD = Card(
    name="llmbar",
    summary="LLMBar: which of two outputs follows the instruction; 419 instances, most of them adversarial",
    licence="MIT",
    source="https://github.com/princeton-nlp/LLMBar, folder Dataset/LLMBar",
    labelled="by the authors, who kept instances with one objectively better output",
    citation="Zhiyuan Zeng, Jiatong Yu, Tianyu Gao, Yu Meng, Tanya Goyal and Danqi Chen. Evaluating Large Language "
    "Models at Evaluating Instruction Following. arXiv:2310.07641, 2023.",
    cluster="prompt",
    average="macro",
    rule="LLMBar",
)
"""LLMBar (arXiv 2310.07641): which of two outputs follows the instruction?

One row of a subset's `dataset.json`, one JSON list (Dataset/LLMBar of https://github.com/princeton-nlp/LLMBar):

    {"input": "Name a fruit in one word.", "output_1": "Plum", "output_2": "A plum is a fruit.", "label": 1}

The domain is the subset, by the folder: Natural, or Neighbor, GPTInst, GPTOut or Manual of Adversarial. What
evaluators said, in the folders beside `dataset.json`, is not read.
"""


class LlmbarRow(Part):
    """An instruction with two outputs; the label is the number of the better one."""

    input: Text
    output_1: Text
    output_2: Text
    label: Literal[1, 2]


def load_llmbar(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `llmbar:PATH`: the folder Dataset/LLMBar, a subset's folder or its dataset.json."""

    def items(row: LlmbarRow, location: Place, subset: str) -> list[Item]:
        return [_instance(row, location, subset or "all", seed)]

    def read(sources: Sequence[Source], dirt: Dirt) -> Iterable[Item]:
        files = [source for source in sources if source.file.name == FILE] or sources
        return read_items(files, LlmbarRow, items, dirt)

    return load_dataset(spec, seed, Dataset(LLMBAR_CARD, (LLMBAR_COUNTS,), domains=tuple(LLMBAR_COUNTS)), read)


def _instance(row: LlmbarRow, location: Place, subset: str, seed: int) -> Item:
    answers = {"output_1": row.output_1, "output_2": row.output_2}
    better, other = answers if row.label == 1 else reversed(answers)
    differ([answers[better]], [answers[other]], location, "output_2")
    chosen, rejected = {better: answers[better]}, {other: answers[other]}
    return comparison(f"{subset}/{location.line}", row.input, chosen, rejected, seed=seed, domain=subset)
