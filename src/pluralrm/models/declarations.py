"""What a model says of itself: that it knows of users what no condition shows it, that it compares answers, what it was
fitted on, how much of a benchmark's texts it reads, and what it would compute.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Protocol, cast, get_args, runtime_checkable

from pluralrm.core import Benchmark, Query, Reveals, RewardModel, Verdict
from pluralrm.errors import ModelError
from pluralrm.plugin import Maker, Wanted, asks_of, find, prints_to_stderr, read_reveals
from pluralrm.specs import Spec


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
    value: object = declared.compares
    if not isinstance(value, bool):
        name = declared.__name__ if isinstance(declared, type) else type(declared).__name__
        raise ModelError(f"{name}: compares is {value!r}; wanted True or False")
    return value


JudgeProbe = Literal["inverted", "relabelled"]
"""A judge that is asked for the worse answer; one whose answers bear their names in reverse."""
PROBES: tuple[JudgeProbe, ...] = get_args(JudgeProbe)


@runtime_checkable
class Questionable(Protocol):
    """A reward model that is asked a question, which can be put in another form to see whether it is read."""

    def probed(self, probe: JudgeProbe) -> RewardModel | str:
        """Return the model asked so, under a spec of its own, or why that means nothing for it.

        An inverted one scores the worse candidates higher.
        """
        ...


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
            return f"{count} and CUT OFF, answers at their end: fitted before answers were read apart. Fit it again"
        return f"{count}: read in several, none cut"


@runtime_checkable
class Reads(Protocol):
    """A reward model that can tell how much of a benchmark's texts it reads."""

    def reading(self, benchmark: Benchmark) -> WindowCount:
        """Return the count over questions and answers."""
        ...


class Workload(NamedTuple):
    """What a network computes for some queries, before any weight is read."""

    queries: int = 0
    tokens: int = 0
    """Tokens that pass through the network; what a query's answers share counts once where it is computed once."""
    longest: int = 0
    """Tokens of the longest conversation."""

    def plus(self, other: "Workload") -> "Workload":
        """Return both together."""
        return Workload(self.queries + other.queries, self.tokens + other.tokens, max(self.longest, other.longest))


@runtime_checkable
class Computing(Protocol):
    """A reward model that is computed from weights."""

    @property
    def spec(self) -> str:
        """Its canonical name."""
        ...

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        """Yield one Verdict per query, in order."""
        ...

    def workload(self, queries: Iterable[Query]) -> Workload:
        """Return what the network would compute for the queries."""
        ...

    def memory(self, longest: int) -> int:
        """Return the bytes that one copy takes: its weights, and the keys and values of a conversation so long."""
        ...


_WANTED = Wanted("model", "package.module:Class", ModelError, "'pluralrm check --help'")


@dataclass(frozen=True)
class PluginModel:
    """Somebody's model under the spec that named it; what it yields is checked before it is believed."""

    spec: str
    model: RewardModel
    identity: Mapping[str, str] = field(default_factory=dict)
    reveals: frozenset[Reveals] = frozenset()
    compares: bool = True

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        """Yield the model's verdicts; anything else it yields is a TypeError that says what was wanted."""
        for verdict in _printing_to_stderr(lambda: self.model.score(queries)):
            if not isinstance(verdict, Verdict):
                raise TypeError(f"score() yielded {type(verdict).__name__}; wanted pluralrm.Verdict((score, ...))")
            yield verdict

    def probed(self, probe: JudgeProbe) -> RewardModel | str:
        """Return the class's own model for the probe, or that it declares none."""
        if not isinstance(self.model, Questionable):
            return f"{self.spec} has no method probed(probe): no question of it can be put in another form"
        variant = self.model.probed(probe)
        return variant if isinstance(variant, str) else replace(self, spec=f"{self.spec}+{probe}", model=variant)


def _printing_to_stderr(verdicts: Callable[[], Iterable[Verdict]]) -> Iterator[Verdict]:
    with prints_to_stderr():
        iterator = iter(verdicts())
    while True:
        with prints_to_stderr():
            try:
                verdict = next(iterator)
            except StopIteration:
                return
        yield verdict


def load(spec: Spec) -> PluginModel:
    """Return the model that `python:module:Class` names, made with the spec's keys."""
    maker = find(spec, _WANTED)
    declared = _compares(maker, maker.call)
    instance = maker.make()
    maker.require(instance, {"score": "score(queries)"})
    model = cast("RewardModel", instance)
    if (own := _compares(maker, model)) is not declared:
        raise ModelError(
            f"{spec.target!r} makes a model whose compares is {own}, and says {declared} itself: what is asked of it "
            f"is known before it is made; write compares = {own} in the class, or on the function that makes it"
        )
    reveals = maker.ask(lambda: reveals_of(model), "cannot say what it reveals")
    return PluginModel(str(spec), model, maker.identity(model), reveals, declared)


def compares(spec: Spec) -> bool:
    """Return whether the class that a spec names is taken to compare answers; no model is made."""
    maker = find(spec, _WANTED)
    return _compares(maker, maker.call)


def asks(spec: Spec) -> tuple[str, ...]:
    """Return the chat models that the class a spec names asks, by what it declares; no model is made."""
    return asks_of(spec, _WANTED)


def _compares(maker: Maker, declared: object) -> bool:
    return maker.ask(lambda: compares_of(declared), "cannot say whether it compares")
