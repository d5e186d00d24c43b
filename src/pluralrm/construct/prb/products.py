"""What the stages of `construct prb` make of a question, and the rules that are declared before."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pluralrm.benchmarks.lamp_qa import AspectRow, PostRow
from pluralrm.benchmarks.schema import Part
from pluralrm.construct.pipeline.stages import Product
from pluralrm.errors import RunError
from pluralrm.retrieval import Ranking

Kind = Literal["published", "contrary"]
"""What a rejected answer misses: the aspects, given to its writer to avoid; or the taste, at the same coverage."""


class PersonalQuestion(Product):
    """What came in: a question, who asks it, and what is known of what they expect."""

    user: str
    question: str
    category: str
    narrative: str
    posts: tuple[PostRow, ...]
    aspects: tuple[AspectRow, ...]


class DistinctQuestion(Product):
    """This user and this question came once; `posts_hash` is of the posts, whatever their order and ids."""

    posts_hash: str


class Shown(Product):
    """The posts that models are shown, most relevant first."""

    posts: tuple[PostRow, ...]


class QuestionRubric(Product):
    """What the user expects; `given` where it came in with the question."""

    aspects: tuple[AspectRow, ...]
    given: bool


class QuestionParts(Product):
    """What the question asks for, from any user."""

    parts: tuple[str, ...]


WORST, BEST = 1, 5
"""What quality is rated by."""


class Quality(Part):
    """General quality from WORST to BEST, by a judge who knows of no user."""

    factuality: int
    relevance: int
    helpfulness: int


class Marks(Part):
    """What judges gave one answer: 0 to 2 per aspect, per part of the question, and per aspect for its opposite."""

    adherence: tuple[int, ...]
    quality: Quality
    coverage: tuple[int, ...] = ()
    opposite: tuple[int, ...] = ()


class PairAnswer(Product):
    """A text that passed its gates, and what judges gave it."""

    text: str
    marks: Marks


class Chosen(PairAnswer):
    """The answer that gives the user what they expect."""


class Published(PairAnswer):
    """The rejected answer whose writer was told to avoid the aspects."""


class Contrary(PairAnswer):
    """The rejected answer of the opposite taste, with the same coverage."""


class Unrepeated(Product):
    """No answer of this record nearly repeats one of a record before it."""


class Balanced(Product):
    """This record may stay; `longer` names the kinds of which its chosen answer is longer than the rejected one."""

    longer: tuple[Kind, ...]


Task = Literal["meet", "avoid", "contrary"]
"""What a writer is told to do with the aspects."""


class AnswerSide(NamedTuple):
    """A kind of rejected answer: its product, and what its writer is told to do with the aspects."""

    makes: type[PairAnswer]
    task: Task


CHOSEN = AnswerSide(Chosen, "meet")
SIDES: dict[Kind, AnswerSide] = {
    "published": AnswerSide(Published, "avoid"),
    "contrary": AnswerSide(Contrary, "contrary"),
}


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
