"""Where rewards come from: a model here, or a server; and what becomes of one that failed. There is no default.

A reward is a number that a reward model gave. Whatever else happened is a Failure, which stops the training or leaves
the answer out of it, as declared.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from pluralrm.core import (
    OPEN_KINDS,
    Benchmark,
    Condition,
    Failure,
    FailureKind,
    Identified,
    Item,
    Query,
    RewardModel,
    Run,
    Score,
)
from pluralrm.errors import ConditionError, ModelError, OutageError, ServiceError
from pluralrm.http import Settings
from pluralrm.models import load_model, misfit, never_alone, unsupported
from pluralrm.models.declarations import Informed
from pluralrm.models.shaping import Scale, scale_of
from pluralrm.policies.pool import Pool, score_table
from pluralrm.runs.verdicts import prepared, verdicts
from pluralrm.serve.client import RewardClient, trainable
from pluralrm.training.settings import OnFailure, TrainingSettings

Text = str | Failure
"""What an answer says, or why it says nothing."""


class RewardRequest(NamedTuple):
    """The answers to one item, of which at least one is wanted a score for."""

    item: Item
    answers: tuple[Text, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """Those that can be scored."""
        return tuple(one for one in self.answers if isinstance(one, str))


class Rewarder(Protocol):
    """Anything that scores answers to items of the benchmark."""

    @property
    def spec(self) -> str:
        """What names it in files and tables."""
        ...

    @property
    def identity(self) -> Mapping[str, str]:
        """What must not change while a training is resumed."""
        ...

    @property
    def reveals(self) -> frozenset[str]:
        """What of the users stands before it, the rubric too where it is an upper control."""
        ...

    def scores(self, asked: Sequence[RewardRequest]) -> list[list[Score]]:
        """Return one Score per text, in order."""
        ...


# ---------------------------------------------------------------- a model here


@dataclass
class LocalRewarder:
    """A reward model of this process, under its condition."""

    model: RewardModel
    condition: Condition
    benchmark: Benchmark
    _queries: dict[str, Query | Failure] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (reason := self.condition.unsupported(self.benchmark)) is not None:
            raise ConditionError(reason)

    @property
    def spec(self) -> str:
        """The model's."""
        return self.model.spec

    @property
    def identity(self) -> Mapping[str, str]:
        """The model's and the condition's."""
        model = self.model.identity if isinstance(self.model, Identified) else {}
        shown = self.condition.identity if isinstance(self.condition, Identified) else {}
        return {**model, **{f"condition {name}": fact for name, fact in shown.items()}}

    @property
    def reveals(self) -> frozenset[str]:
        """What the condition shows, and what the model knows by itself."""
        informed = self.model.reveals if isinstance(self.model, Informed) else frozenset()
        return frozenset({*self.condition.reveals, *informed})

    def scores(self, asked: Sequence[RewardRequest]) -> list[list[Score]]:
        """Return one Score per text; a query that the condition could not make whole fails all of its texts."""
        made = list(self._made([one.item for one in asked]))
        whole = [
            replace(query, candidates=one.texts)
            for one, query in zip(asked, made, strict=True)
            if isinstance(query, Query) and one.texts
        ]
        given = verdicts(self.model, whole) if whole else iter(())
        return [
            [query] * len(one.texts) if isinstance(query, Failure) else list(next(given).scores) if one.texts else []
            for one, query in zip(asked, made, strict=True)
        ]

    def _made(self, items: Sequence[Item]) -> Iterator[Query | Failure]:
        """Yield what the model is shown of each item; a failure is not kept, so that it is tried again."""
        new = list({item.id: item for item in items if not isinstance(self._queries.get(item.id), Query)}.values())
        for item, one in zip(new, prepared(self.condition, self.benchmark, new), strict=True):
            self._queries[item.id] = one.failure or one.query
        return (self._queries[item.id] for item in items)


# ---------------------------------------------------------------- a server

_ROLLOUTS = 256
"""Per request."""
_SERVED = "served:"


@dataclass(frozen=True)
class ServedRewarder:
    """A reward server of `pluralrm serve`, started on this benchmark for this run; it has shaken hands."""

    client: RewardClient
    spec: str
    identity: Mapping[str, str]
    reveals: frozenset[str]
    on_failure: OnFailure

    def scores(self, asked: Sequence[RewardRequest]) -> list[list[Score]]:
        """Return one Score per text; an outage is an OutageError, or a failure of each where those are masked."""
        found = iter(self._asked([one for one in asked if one.texts]))
        return [next(found) if one.texts else [] for one in asked]

    def _asked(self, asked: Sequence[RewardRequest]) -> list[list[Score]]:
        found: list[list[Score]] = []
        for first in range(0, len(asked), _ROLLOUTS):
            several = asked[first : first + _ROLLOUTS]
            try:
                found += self.client.scores([{"item": one.item.id, "candidates": list(one.texts)} for one in several])
            except OutageError as exc:
                if self.on_failure == "raise":
                    raise
                found += [[Failure("transport", str(exc))] * len(one.texts) for one in several]
        return found


def served(client: RewardClient, benchmark: Benchmark, condition: str, on_failure: OnFailure) -> ServedRewarder:
    """Return the server's rewards; ServiceError where it was started on other items or under another condition."""
    told = client.handshake()
    wanted = {"benchmark_hash": benchmark.content_hash, "condition": condition}
    for name, value in wanted.items():
        if told.get(name) != value:
            raise ServiceError(
                f"the reward server's {name.replace('_', ' ')} is {str(told.get(name))[:40]!r}, wanted {value[:40]!r}: "
                "start it with the same --benchmark and -c as the training's reward"
            )
    facts = told.get("facts")
    shapes = {str(name): str(fact) for name, fact in facts.items()} if isinstance(facts, Mapping) else {}
    shown = told.get("reveals")
    reveals = frozenset(map(str, shown)) if isinstance(shown, (list, tuple)) else frozenset()
    return ServedRewarder(
        client, f"{_SERVED}{told['model']}", {**shapes, "model": str(told["model"])}, reveals, on_failure
    )


def open_rewarder(
    model: RewardModel | str | None,
    benchmark: Benchmark,
    condition: Condition,
    *,
    settings: Settings | None,
    chosen: TrainingSettings,
) -> Rewarder:
    """Return what rewards: a server where no model is named; raise where the model cannot reward these answers."""
    if model is None:
        return served(RewardClient.from_environment(), benchmark, condition.spec, chosen.on_failure)
    if isinstance(model, str):
        if chosen.answers < 2 and (why := never_alone(model)):
            raise ModelError(f"{why}: found answers=1, wanted --set answers=2 or more")
        if why := unsupported(model, condition):
            raise ConditionError(why)
        if why := misfit(model, benchmark):
            raise ModelError(why)
        model = load_model(model, settings=settings)
    return LocalRewarder(model, condition, benchmark)


def scored_by(rewarder: Rewarder) -> str:
    """Return the spec of the model that scores, here or behind a server."""
    return rewarder.spec.removeprefix(_SERVED)


# ---------------------------------------------------------------- what becomes of them


class Rewards(NamedTuple):
    """A number per answer, None where it is left out, and how many failed of what."""

    rewards: list[float | None]
    failures: Mapping[str, int]


def rewarded(
    rewarder: Rewarder, asked: Sequence[RewardRequest], on_failure: OnFailure, *, spared: FailureKind | None = None
) -> Rewards:
    """Return a reward per answer, in order; a failed one raises, unless it is `spared`, or is None and counted."""
    scores: list[Score] = []
    for one, given in zip(asked, rewarder.scores(asked), strict=True):
        of_texts = map(trainable, given)
        scores += [next(of_texts) if isinstance(answer, str) else answer for answer in one.answers]
    failures = [score for score in scores if isinstance(score, Failure)]
    if on_failure == "raise" and (stopping := [one for one in failures if one.kind != spared]):
        raise _stopped(rewarder.spec, stopping, len(scores))
    rewards = [None if isinstance(score, Failure) else score for score in scores]
    return Rewards(rewards, dict(sorted(Counter(failure.kind for failure in failures).items())))


def check_enough(spec: str, settled: Rewards, *, step: int, most_masked: float) -> None:
    """Raise where too many of a step's answers have no reward to go on with the rest."""
    answers, lost = len(settled.rewards), settled.rewards.count(None)
    if lost < answers and lost <= most_masked * answers:
        return
    reasons = ", ".join(f"{count} {kind}" for kind, count in settled.failures.items())
    told = (
        f"{spec}: {lost} of {answers} answers of step {step} have no reward ({reasons}), wanted at most "
        f"{most_masked:.0%}. What was trained is kept"
    )
    if any(kind in OPEN_KINDS for kind in settled.failures):
        raise OutageError(f"{told}; the same command resumes")
    raise ModelError(f"{told}, but the same answers would fail again: they are no outage's. See what the policy writes")


def _stopped(spec: str, failures: Sequence[Failure], answers: int) -> ModelError | OutageError:
    outage = next((one for one in failures if one.kind in OPEN_KINDS), None)
    first = outage or failures[0]
    told = f"{spec}: {len(failures)} of {answers} answers have no reward ({first.kind}: {first.detail[:200]})"
    if outage is not None:
        return OutageError(f"{told}. What was trained is kept; the same command resumes")
    return ModelError(f"{told}. --set on_failure=mask leaves such answers out and counts them")


def scale_on(pool: Pool, run: Run) -> Scale:
    """Return mean and deviation of a run's scores over all samples of the pool that it scored."""
    scores = score_table(pool, run).ravel().tolist()
    known = [score for score in scores if math.isfinite(score)]
    return scale_of(
        known,
        model=run.model,
        condition=run.condition,
        pool_hash=pool.content_hash,
        failed=len(scores) - len(known),
    )
