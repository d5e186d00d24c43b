"""What a judge's weights say, by transformers alone, and what a run keeps of what its server said."""

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pluralrm.core import Run
from tests.models.neural.plain import Plain, Turns
from tests.vllm.folders import WORDS

CHECK, COMPARE, RATE, MUSE = WORDS.values()


class Sayer:
    """Weights and tokenizer of a judge."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._plain = Plain(folder)

    def shares(self, turns: Turns, words: Sequence[str]) -> dict[str, float]:
        """Return how likely each of some words is after some turns, as a share of what they have together."""
        tokenizer = self._plain.tokenizer
        ids = tokenizer(self._plain.text(turns, prompting=True), add_special_tokens=False)["input_ids"]
        logits = self._plain.logits(ids)[-1]
        chances = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        found = dict(zip(words, chances[tokenizer.convert_tokens_to_ids(list(words))].tolist(), strict=True))
        total = sum(found.values())
        assert total > 0.9, "the judge was not taught well enough"
        return {word: chance / total for word, chance in found.items()}


class Said(NamedTuple):
    """One exchange as its run keeps it: the last message sent, and the text that came back."""

    sent: str
    text: str


def transcripts(run: Run) -> Iterator[list[Said]]:
    """Yield the exchanges of each row, in row order."""
    with gzip.open(Path(run.path) / "transcripts.jsonl.gz", "rt") as lines:
        kept = {entry["item"]: entry["exchanges"] for entry in map(json.loads, lines)}
    for row in run.rows:
        yield [Said(one["sent"], one["said"].partition("\n\nlog-probs: ")[0]) for one in kept[row.item]]
