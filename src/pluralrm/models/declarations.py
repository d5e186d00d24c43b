"""What a model says of itself: that it knows of users what no condition shows it, that it compares answers, what it was
fitted on, and how much of a benchmark's texts it reads.
"""

from typing import NamedTuple, Protocol, runtime_checkable

from pluralrm.core import Benchmark, Reveals, RewardModel
from pluralrm.errors import ModelError
from pluralrm.plugin import read_reveals


@runtime_checkable
class Informed(Protocol):
    """A reward model that knows of users what no condition shows it, as an upper control does; outputs say so."""

    @property
    def reveals(self) -> frozenset[Reveals]:
        """What the model has before it, whatever the condition."""
        ...


def reveals_of(model: RewardModel) -> frozenset[Reveals]:
    """Return what a model says that it knows, nothing where it says nothing; ModelError for unknown words."""
    if not isinstance(model, Informed):
        return frozenset()
    return read_reveals(model.reveals, type(model).__name__, ModelError)


@runtime_checkable
class Comparing(Protocol):
    """A class that says whether a candidate's score depends on the other candidates of its query."""

    @property
    def compares(self) -> bool:
        """False for what scores each answer by itself, so that it can be asked about one alone."""
        ...


def compares_of(declared: object) -> bool:
    """Return what a class, or a model, says of company: True where it says nothing; ModelError for no such word."""
    if not isinstance(declared, Comparing):
        return True
    found: object = declared.compares
    if not isinstance(found, bool):
        name = declared.__name__ if isinstance(declared, type) else type(declared).__name__
        raise ModelError(f"{name}: compares is {found!r}; wanted True or False")
    return found


class LossPoint(NamedTuple):
    """One point of the loss curves: the mean loss on training users and on those held out."""

    number: int
    training: float
    held_out: float


class TrainingHistory(NamedTuple):
    """How a model came to be: on whom, at what cost, and how the loss went."""

    told: str
    curve: tuple[LossPoint, ...]


@runtime_checkable
class TrainedModel(Protocol):
    """A reward model that keeps whom and what it was trained on."""

    @property
    def training(self) -> TrainingHistory:
        """How it was trained, for reports."""
        ...

    def met(self, benchmark: Benchmark) -> list[str]:
        """Return what a reader must know: users of the benchmark, or its very items, that were trained on."""
        ...


class WindowCount(NamedTuple):
    """How many texts there are, how many are longer than an embedding model's window, and whether those are cut."""

    texts: int
    longer: int
    cut: bool

    def __str__(self) -> str:
        if not self.longer:
            return f"all of {self.texts:,} questions and answers fit into the embedding model's window"
        count = f"{self.longer:,} of {self.texts:,} texts are longer than the embedding model's window"
        if self.cut:
            return f"{count} and CUT OFF, answers at their end: fitted before answers were read apart. Fit it anew"
        return f"{count}: read in several, none cut"


@runtime_checkable
class Reads(Protocol):
    """A reward model that can tell how much of a benchmark's texts it reads."""

    def reading(self, benchmark: Benchmark) -> WindowCount:
        """Return the count over questions and answers."""
        ...
