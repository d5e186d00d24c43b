"""What a model says by transformers alone: its own chat template, one sequence at a time, no padding, float32.

Nothing of the package is used here. Where an answer stands is found by the tokenizer's character offsets.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Turns = list[tuple[str, str]]


class Plain:
    """A folder's tokenizer and model."""

    def __init__(self, folder: Path, auto: str = "AutoModelForCausalLM") -> None:
        import torch
        import transformers

        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = getattr(transformers, auto).from_pretrained(folder, dtype=torch.float32).eval()

    def text(self, turns: Turns, *, prompting: bool = False) -> str:
        messages = [{"role": role, "content": content} for role, content in turns]
        return str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompting))

    def logits(self, ids: list[int], **inputs: list[int]) -> NDArray[np.float64]:
        """Return the logits of a single sequence."""
        import torch

        tensors = {name: torch.tensor([value]) for name, value in {"input_ids": ids, **inputs}.items()}
        with torch.inference_mode():
            logits: NDArray[np.float64] = self.model(**tensors).logits[0].double().numpy()
        return logits

    def reward(self, prompt: str, answer: str) -> NDArray[np.float64]:
        """Return the head's labels for a conversation."""
        text = self.text([("user", prompt), ("assistant", answer)])
        return self.logits(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def reward_of_pair(self, prompt: str, answer: str) -> NDArray[np.float64]:
        """Return the head's labels for two texts, as the tokenizer encodes a pair."""
        return self.logits(**_renamed(self.tokenizer(prompt, answer)))

    def logprobs(self, prompt: str, answer: str, *, to_the_end: bool = False) -> NDArray[np.float64]:
        """Return the log-probs of the tokens that overlap the answer; `to_the_end` adds all that stand after it."""
        text = self.text([("user", prompt), ("assistant", answer)])
        first = text.index(answer, len(self.text([("user", prompt)], prompting=True)))
        last = len(text) if to_the_end else first + len(answer)
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids = encoded["input_ids"]
        logits = self.logits(ids)
        top = logits.max(axis=1, keepdims=True)
        logs = logits - top - np.log(np.exp(logits - top).sum(axis=1, keepdims=True))
        places = [place for place, (begin, end) in enumerate(encoded["offset_mapping"]) if begin < last and end > first]
        return np.array([logs[place - 1, ids[place]] for place in places])


def _renamed(encoded: dict[str, list[int]]) -> dict[str, list[int]]:
    return {"ids" if name == "input_ids" else name: value for name, value in encoded.items()}
