"""One answer of a policy, and how it ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from pluralrm.core import Failure, FinalKind

Answered = Literal["stop", "length", "empty"]
"""How an answer ends: whole, cut off at its longest, or whole and without a word."""
ANSWERED: tuple[str, ...] = get_args(Answered)
Finish = Answered | FinalKind
FINAL: Mapping[str, FinalKind] = {kind: kind for kind in get_args(FinalKind)}
"""What a failure's kind is as a finish; none that leaves a sample open is among them."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer: the `index`-th of its item. `tokens` is None where nobody counted them.

    Where `finish` is the kind of a failure there is no answer: `text` is empty, and `detail` says why.
    """

    item: str
    index: int
    text: str
    finish: Finish = "stop"
    tokens: int | None = None
    seed: int | None = None
    detail: str = ""
    posts_kept: int | None = None
    """How many posts fitted into the prompt; None where the policy drops none."""

    @property
    def failure(self) -> Failure | None:
        """Why there is no answer; None where there is one, though it be cut off or empty."""
        return None if self.finish in ANSWERED else Failure(FINAL[self.finish], self.detail)
