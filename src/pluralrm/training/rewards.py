"""Where rewards come from: a model here, or a server; and what becomes of one that failed. There is no default.

A reward is a number that a reward model gave. Whatever else happened is a Failure, which stops the training or leaves
the answer out of it, as declared.

Its scale: as the model gives it, or in standard deviations from its mean on a reference pool; clipped: `raw`,
`raw,clip=5`, `z:FILE`, `z:FILE,clip=3`. FILE is what `write_scale` wrote: whose scores, under which condition, on which
pool.

>>> shaping = parse_shaping("raw,clip=2")
>>> [shaping.shaped(score) for score in (-7.0, 0.5, 3.0)]
[-2.0, 0.5, 2.0]
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from pydantic import Field, FiniteFloat

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
from pluralrm.errors import ConditionError, ModelError, OutageError, ServiceError, SpecError
from pluralrm.files import replace_file
from pluralrm.http import Settings
from pluralrm.journal import Strict, document_text, parse_document
from pluralrm.models import load_model, misfit, never_alone, unsupported
from pluralrm.models.declarations import Informed
from pluralrm.policies.pool import Pool, score_table
from pluralrm.runs.verdicts import prepared, verdicts
from pluralrm.serve.client import RewardClient, trainable
from pluralrm.specs import Form, parse
from pluralrm.training.settings import OnFailure, TrainingSettings

_FORMS = {"raw": Form("none", ("clip",)), "z": Form("required", ("clip",))}


class Scale(Strict):
    """Where a model's scores lie on a reference pool, and which scores these are."""

    model: str
    condition: str
    pool_hash: str
    n: int = Field(ge=2)
    failed: int
    """Answers of the pool without a score: neither mean nor deviation knows of them."""
    mean: FiniteFloat
    sd: FiniteFloat = Field(gt=0)


@dataclass(frozen=True, slots=True)
class Shaping:
    """What a score becomes before it is learned from."""

    spec: str
    scale: Scale | None = None
    clip: float | None = None

    def shaped(self, score: float) -> float:
        """Return the shaped score."""
        value = score if self.scale is None else (score - self.scale.mean) / self.scale.sd
        return value if self.clip is None else min(self.clip, max(-self.clip, value))

    @property
    def identity(self) -> str:
        """All that shapes a reward, in words."""
        scale = "raw" if self.scale is None else f"z {self.scale.model_dump_json()}"
        return scale if self.clip is None else f"{scale} clip {self.clip:g}"

    @property
    def way(self) -> str:
        """What the shapings of comparable models have in common: the kind, the pool, the clip."""
        kind = "raw" if self.scale is None else f"z on {self.scale.pool_hash}"
        return kind if self.clip is None else f"{kind} clip {self.clip:g}"

    def check(self, model: str, condition: str) -> None:
        """Raise where the scale is that of another model, or of scores under another condition."""
        scale = self.scale
        if scale is not None and (scale.model, scale.condition) != (model, condition):
            raise ModelError(
                f"{self.spec}: the scale is that of {scale.model} under {scale.condition}, wanted {model} under "
                f"{condition}: score the reference pool with it"
            )


def scale_of(scores: Sequence[float], *, model: str, condition: str, pool_hash: str, failed: int = 0) -> Scale:
    """Return the mean and standard deviation (n - 1) of scores on a pool; ModelError where they do not differ."""
    if len(scores) < 2 or len(set(scores)) < 2:
        raise ModelError(
            f"{model}: found {len(set(scores))} different scores on the reference pool, wanted two or more: there is "
            "no scale. Use raw"
        )
    mean = sum(scores) / len(scores)
    sd = (sum((score - mean) ** 2 for score in scores) / (len(scores) - 1)) ** 0.5
    return Scale(model=model, condition=condition, pool_hash=pool_hash, n=len(scores), failed=failed, mean=mean, sd=sd)


def write_scale(scale: Scale, file: Path) -> None:
    """Write the scale, to be named as `z:FILE`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, document_text(scale, ascii_only=True))


def parse_shaping(text: str) -> Shaping:
    """Return the shaping of a spec; what it cannot read is a SpecError."""
    spec = parse(text, _FORMS, noun="shaping")
    return Shaping(str(spec), _read(Path(spec.target)) if spec.kind == "z" else None, _clip(spec.options.get("clip")))


def _clip(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        limit = float(text)
    except ValueError:
        limit = 0.0
    if not 0 < limit < float("inf"):
        raise SpecError(f"shaping: clip is {text!r}; wanted a number above 0")
    return limit


def _read(file: Path) -> Scale:
    try:
        return parse_document(Scale, file.read_bytes())
    except OSError as exc:
        raise SpecError(f"shaping z:{file}: cannot be read: {exc.strerror or exc}; wanted a scale's file") from exc
    except ValueError as exc:
        raise SpecError(f"shaping z:{file}: {exc}. Restore it, or make the scale again") from exc


Text = str | Failure
"""What an answer says, or why it says nothing."""


class RewardRequest(NamedTuple):
    """The answers to one item, of which at least one is wanted a score for."""

    item: Item
    answers: tuple[Text, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """Those that can be scored."""
        return tuple(answer for answer in self.answers if isinstance(answer, str))


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

    def scores(self, requests: Sequence[RewardRequest]) -> list[list[Score]]:
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
        identity = self.condition.identity if isinstance(self.condition, Identified) else {}
        return {**model, **{f"condition {name}": fact for name, fact in identity.items()}}

    @property
    def reveals(self) -> frozenset[str]:
        """What the condition shows, and what the model knows by itself."""
        informed = self.model.reveals if isinstance(self.model, Informed) else frozenset()
        return frozenset({*self.condition.reveals, *informed})

    def scores(self, requests: Sequence[RewardRequest]) -> list[list[Score]]:
        """Return one Score per text; a query that the condition could not make whole fails all of its texts."""
        queries = list(self._queries_of([request.item for request in requests]))
        whole = [
            replace(query, candidates=request.texts)
            for request, query in zip(requests, queries, strict=True)
            if isinstance(query, Query) and request.texts
        ]
        replies = verdicts(self.model, whole) if whole else iter(())
        return [
            [query] * len(ask.texts) if isinstance(query, Failure) else list(next(replies).scores) if ask.texts else []
            for ask, query in zip(requests, queries, strict=True)
        ]

    def _queries_of(self, items: Sequence[Item]) -> Iterator[Query | Failure]:
        """Yield what the model is shown of each item; a failure is not kept, so that it is tried again."""
        new = list({item.id: item for item in items if not isinstance(self._queries.get(item.id), Query)}.values())
        for item, result in zip(new, prepared(self.condition, self.benchmark, new), strict=True):
            self._queries[item.id] = result.failure or result.query
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

    def scores(self, requests: Sequence[RewardRequest]) -> list[list[Score]]:
        """Return one Score per text; an outage is an OutageError, or a failure of each where those are masked."""
        scores = iter(self._fetch([request for request in requests if request.texts]))
        return [next(scores) if request.texts else [] for request in requests]

    def _fetch(self, requests: Sequence[RewardRequest]) -> list[list[Score]]:
        scores: list[list[Score]] = []
        for first in range(0, len(requests), _ROLLOUTS):
            several = requests[first : first + _ROLLOUTS]
            try:
                scores += self.client.scores([{"item": ask.item.id, "candidates": list(ask.texts)} for ask in several])
            except OutageError as exc:
                if self.on_failure == "raise":
                    raise
                scores += [[Failure("transport", str(exc))] * len(request.texts) for request in several]
        return scores


def served(client: RewardClient, benchmark: Benchmark, condition: str, on_failure: OnFailure) -> ServedRewarder:
    """Return the server's rewards; ServiceError where it was started on other items or under another condition."""
    peer = client.handshake()
    expected = {"benchmark_hash": benchmark.content_hash, "condition": condition}
    for name, value in expected.items():
        if peer.get(name) != value:
            raise ServiceError(
                f"the reward server's {name.replace('_', ' ')} is {str(peer.get(name))[:40]!r}, wanted {value[:40]!r}: "
                "start it with the same --benchmark and -c as the training's reward"
            )
    facts = peer.get("facts")
    shapes = {str(name): str(fact) for name, fact in facts.items()} if isinstance(facts, Mapping) else {}
    names = peer.get("reveals")
    reveals = frozenset(map(str, names)) if isinstance(names, (list, tuple)) else frozenset()
    return ServedRewarder(
        client, f"{_SERVED}{peer['model']}", {**shapes, "model": str(peer["model"])}, reveals, on_failure
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
    rewarder: Rewarder, requests: Sequence[RewardRequest], on_failure: OnFailure, *, spared: FailureKind | None = None
) -> Rewards:
    """Return a reward per answer, in order; a failed one raises, unless it is `spared`, or is None and counted."""
    scores: list[Score] = []
    for request, values in zip(requests, rewarder.scores(requests), strict=True):
        of_texts = map(trainable, values)
        scores += [next(of_texts) if isinstance(answer, str) else answer for answer in request.answers]
    failures = [score for score in scores if isinstance(score, Failure)]
    if on_failure == "raise" and (stopping := [failure for failure in failures if failure.kind != spared]):
        raise _stopped(rewarder.spec, stopping, len(scores))
    rewards = [None if isinstance(score, Failure) else score for score in scores]
    return Rewards(rewards, dict(sorted(Counter(failure.kind for failure in failures).items())))


def check_enough(spec: str, settled: Rewards, *, step: int, most_masked: float) -> None:
    """Raise where too many of a step's answers have no reward to go on with the rest."""
    answers, lost = len(settled.rewards), settled.rewards.count(None)
    if lost < answers and lost <= most_masked * answers:
        return
    reasons = ", ".join(f"{count} {kind}" for kind, count in settled.failures.items())
    text = (
        f"{spec}: {lost} of {answers} answers of step {step} have no reward ({reasons}), wanted at most "
        f"{most_masked:.0%}. What was trained is kept"
    )
    if any(kind in OPEN_KINDS for kind in settled.failures):
        raise OutageError(f"{text}; the same command resumes")
    raise ModelError(f"{text}, but the same answers would fail again: they are no outage's. See what the policy writes")


def _stopped(spec: str, failures: Sequence[Failure], answers: int) -> ModelError | OutageError:
    outage = next((failure for failure in failures if failure.kind in OPEN_KINDS), None)
    first = outage or failures[0]
    message = f"{spec}: {len(failures)} of {answers} answers have no reward ({first.kind}: {first.detail[:200]})"
    if outage is not None:
        return OutageError(f"{message}. What was trained is kept; the same command resumes")
    return ModelError(f"{message}. --set on_failure=mask leaves such answers out and counts them")


def scale_on(pool: Pool, run: Run) -> Scale:
    """Return mean and deviation of a run's scores over all samples of the pool that it scored."""
    scores = score_table(pool, run).ravel().tolist()
    finite = [score for score in scores if math.isfinite(score)]
    return scale_of(
        finite, model=run.model, condition=run.condition, pool_hash=pool.content_hash, failed=len(scores) - len(finite)
    )
