"""What the stages of `construct prb` make of a question."""

from typing import Literal, NamedTuple

from pluralrm.benchmarks.lamp_qa import AspectRow, PostRow
from pluralrm.benchmarks.schema import Part
from pluralrm.construct.pipeline.records import Product
from pluralrm.grading.grade import MOST

Kind = Literal["published", "contrary"]
"""What a rejected answer misses: the aspects, given to its writer to avoid; or the taste, at the same coverage."""


class Question(Product):
    """What came in: a question, who asks it, and what is known of what they expect."""

    user: str
    question: str
    category: str
    narrative: str
    posts: tuple[PostRow, ...]
    aspects: tuple[AspectRow, ...]


class Distinct(Product):
    """This user and this question came once; `posts_hash` is of the posts, whatever their order and ids."""

    posts_hash: str


class Shown(Product):
    """The posts that models are shown, most relevant first."""

    posts: tuple[PostRow, ...]


class Rubric(Product):
    """What the user expects; `given` where it came in with the question."""

    aspects: tuple[AspectRow, ...]
    given: bool


class Parts(Product):
    """What the question asks for, whoever asks it."""

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


class Answer(Product):
    """A text that passed its gates, and what judges gave it."""

    text: str
    marks: Marks


class Chosen(Answer):
    """The answer that gives the user what they expect."""


class Published(Answer):
    """The rejected answer whose writer was told to avoid the aspects."""


class Contrary(Answer):
    """The rejected answer of the opposite taste, with the same coverage."""


class Unrepeated(Product):
    """No answer of this record nearly repeats one of a record before it."""


class Balanced(Product):
    """This record may stay; `longer` names the kinds of which its chosen answer is longer than the rejected one."""

    longer: tuple[Kind, ...]


class Side(NamedTuple):
    """A kind of rejected answer: its product, and what its writer is told to do with the aspects."""

    makes: type[Answer]
    task: Literal["meet", "avoid", "contrary"]


CHOSEN = Side(Chosen, "meet")
SIDES: dict[Kind, Side] = {"published": Side(Published, "avoid"), "contrary": Side(Contrary, "contrary")}


def share(points: tuple[int, ...]) -> float:
    """Return the sum of the points over the most that there could be; 0 where nothing was given."""
    return sum(points) / (MOST * len(points)) if points else 0.0
