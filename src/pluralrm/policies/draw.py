"""How answers are drawn, and the seed of each."""

import hashlib
from dataclasses import dataclass

from pluralrm.errors import SpecError

_BITS = 31
"""Servers take seeds of at least so many bits."""


@dataclass(frozen=True, slots=True)
class Draw:
    """N answers per item from softmax(logits / temperature), among the likeliest tokens that make up `top_p`.

    The defaults are those of the best-of-N protocol of Personalized RewardBench.
    """

    n: int = 16
    temperature: float = 1.0
    top_p: float = 0.9
    max_tokens: int = 512
    seed: int = 0

    def __post_init__(self) -> None:
        wanted = {
            "n": (self.n >= 1, "at least 1"),
            "temperature": (0 <= self.temperature <= 2, "a number from 0 to 2"),
            "top_p": (0 < self.top_p <= 1, "a number above 0, at most 1"),
            "max_tokens": (self.max_tokens >= 1, "at least 1"),
        }
        for name, (sound, words) in wanted.items():
            if not sound:
                raise SpecError(f"{name} is {getattr(self, name)}; wanted {words}")
        if self.temperature == 0 and self.n > 1:
            raise SpecError(f"temperature 0 gives one answer {self.n} times; wanted n = 1, or a temperature above 0")

    def seed_of(self, item: str, index: int) -> int:
        """Return the seed of one answer: what is drawn before it, or beside it, changes nothing."""
        found = hashlib.sha256(f"{self.seed}:{index}:{item}".encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(found[:4], "big") >> (32 - _BITS)
