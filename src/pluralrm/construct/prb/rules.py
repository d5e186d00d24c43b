"""What is declared of a set before it is built: kinds, thresholds, attempts. All of it stands in the data card."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pluralrm.construct.prb.products import BEST, WORST, Kind
from pluralrm.errors import RunError
from pluralrm.retrieval import Ranking

NAME = "prb"
"""Of the pipeline, and of sets from files of the builder's own."""

RejectedKinds = Literal["published", "contrary", "both"]
KINDS: Mapping[RejectedKinds, tuple[Kind, ...]] = {
    "published": ("published",),
    "contrary": ("contrary",),
    "both": ("published", "contrary"),
}
_POINTS = {"floor": (WORST, BEST), "margin": (0, BEST - WORST)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Thresholds of the gates. Shares are of the points that judges could give."""

    rejected: RejectedKinds = "published"
    posts: int = 10
    ranking: Ranking = field(default_factory=Ranking)
    attempts: int = 3
    most_words: int = 100
    band: float = 1.25
    """The longer of two answers has at most so many times the words of the shorter."""
    high: float = 0.75
    """The share of the aspects' points that a chosen answer has at least."""
    low: float = 0.25
    """The share that a rejected answer has at most."""
    opposite: float = 0.5
    """The share of the points for the opposite taste that a contrary answer has at least."""
    margin: int = 1
    """Points of 1 to 5 by which two answers may differ in each dimension of quality."""
    floor: int = 3
    """Points that both have at least."""
    coverage: float = 0.25
    """By how much the shares of the question's parts that chosen and contrary cover may differ."""

    def __post_init__(self) -> None:
        for name in ("high", "low", "opposite", "coverage"):
            if not 0 <= getattr(self, name) <= 1:
                raise RunError(f"{name} is {getattr(self, name)}; wanted a share from 0 to 1")
        if self.low >= self.high:
            raise RunError(f"low is {self.low} and high {self.high}; wanted low below high, or both answers would do")
        if not 1 <= self.band < math.inf:
            raise RunError(f"band is {self.band}; wanted 1 or more: the longer answer's words over the shorter's")
        for name, (least, most) in _POINTS.items():
            if not least <= getattr(self, name) <= most:
                raise RunError(
                    f"{name} is {getattr(self, name)}; wanted {least} to {most}, in points of quality, which is rated "
                    f"from {WORST} to {BEST}"
                )
        for name in ("posts", "attempts", "most_words"):
            if getattr(self, name) < 1:
                raise RunError(f"{name} is {getattr(self, name)}; wanted at least 1")

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of rejected answers that are built, in their order."""
        return KINDS[self.rejected]

    def settings(self, *names: str) -> dict[str, str | int | float]:
        """Return some of these by name, for what a stage declares."""
        return {name: getattr(self, name) for name in names}
