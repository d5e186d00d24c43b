"""Queries in, in windows; one verdict per query out, whatever the model does meanwhile.

A query that its condition could not make whole fails without the model being asked.

A server can be restarted with other weights under the same name. Its scores of a few fixed probes are noted when a run
begins, asked again as the run goes on, at its end, and when it is resumed. Verdicts wait for the next such question:
what another model may have said never becomes a row.
"""

import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Protocol, runtime_checkable

from pluralrm.conditions.posts import PreparedQuery, Preparing
from pluralrm.core import OPEN_KINDS, Benchmark, Condition, Failure, Item, Query, RewardModel, Verdict
from pluralrm.errors import ModelError, OutageError, PluralrmError, RunError, ServiceError
from pluralrm.ordered import in_order
from pluralrm.plugin import broken

EVERY = 256
"""Verdicts that wait at most."""
SECONDS = 60.0
"""For so long at most, where verdicts come slowly: six questions a minute cost little."""


@runtime_checkable
class Probed(Protocol):
    """A model whose server can be asked whether it still serves the same."""

    @property
    def probes(self) -> Sequence[float]:
        """Scores of the probes when the server was first asked."""
        ...

    def changed(self, earlier: Sequence[float]) -> str:
        """Ask the probes again; return how the scores differ from earlier ones, or an empty text."""
        ...

    def forget(self) -> bool:
        """Remove the replies kept since `trust` was last called; return whether all of them are known."""
        ...

    def trust(self) -> None:
        """Take the replies kept so far for the model's own."""
        ...


def confirmed(
    model: object,
    answered: Iterator[tuple[Query, Verdict]],
    *,
    base: Sequence[float] = (),
    every: int = EVERY,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[tuple[Query, Verdict]]:
    """Yield each query with its verdict once the probes agree with `base`; ServiceError where they do not."""
    if not isinstance(model, Probed):
        yield from answered
        return
    waiting: list[tuple[Query, Verdict]] = []
    since = clock()
    for entry in answered:
        waiting.append(entry)
        if len(waiting) >= every or clock() - since >= seconds:
            yield from _confirmed(model, waiting, base)
            waiting, since = [], clock()
    if waiting:
        yield from _confirmed(model, waiting, base)


def check_resumed(model: object, base: Sequence[float], path: Path) -> None:
    """Raise a RunError where a run was begun with a model that gave other scores to the probes."""
    if isinstance(model, Probed) and base and (change := model.changed(base)):
        raise RunError(
            f"{path} holds rows of another model under the same name ({change}). Old and new rows must not mix: serve "
            "the former model again and repeat the command, or score this one into another folder (-o)"
        )


def _confirmed(
    model: Probed, waiting: Sequence[tuple[Query, Verdict]], base: Sequence[float]
) -> Iterator[tuple[Query, Verdict]]:
    """Yield what waited; items stay open where the server cannot be asked."""
    try:
        change = model.changed(base or model.probes)
    except OutageError as exc:
        model.forget()
        yield from ((query, _unconfirmed(verdict, str(exc))) for query, verdict in waiting)
        return
    if change:
        raise ServiceError(
            f"another model answers than at the start of this run: {change}. The first row that may be its is item "
            f"{waiting[0][0].id!r}; no row from there on was kept. {_next(model)}"
        )
    model.trust()
    yield from waiting


def _next(model: Probed) -> str:
    hint = "" if model.forget() else " First remove the cache and the recording, which hold replies of both models."
    return f"Serve the former model again and repeat the command, or score the new one into another folder (-o).{hint}"


def _unconfirmed(verdict: Verdict, reason: str) -> Verdict:
    """Return the verdict as an outage, unless it is one already."""
    if any(failure.kind in OPEN_KINDS for failure in verdict.failures):
        return verdict
    failure = Failure("transport", f"whether the same model gave this score could not be asked: {reason}")
    return replace(verdict, scores=(failure,) * len(verdict.scores))


Answered = Iterator[tuple[Query, Verdict]]


def prepared(condition: Condition, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[PreparedQuery]:
    """Yield what a condition makes of each item, in order."""
    if isinstance(condition, Preparing):
        return condition.prepared(benchmark, items)
    return map(PreparedQuery, condition.queries(benchmark, items))


def answered(verdicts: Callable[[Iterable[Query]], Answered], queries: Iterable[PreparedQuery]) -> Answered:
    """Yield each query with its verdict, in order; what the condition said stands before what the model said."""

    def request(entry: PreparedQuery) -> list[Query]:
        return [entry.query] if entry.failure is None else []

    for entry, pairs in in_order(queries, request, verdicts):
        if entry.failure is not None:
            yield entry.query, Verdict((entry.failure,) * len(entry.query.candidates), exchanges=entry.exchanges)
        for query, verdict in pairs:
            yield query, replace(verdict, exchanges=entry.exchanges + verdict.exchanges) if entry.exchanges else verdict


WINDOW = 1024
"""Queries handed to a model at once; it may reorder work only inside a window."""
LONG = 8 * WINDOW
"""For what is asked over HTTP, in order and with bounded room: at each window's end nothing would be on its way."""


class MiscountError(ModelError):
    """Not one verdict per query: which belongs to which is not known, so none of them is a verdict."""


def windows(queries: Iterable[Query], size: int = WINDOW) -> Iterator[list[Query]]:
    """Yield the queries in lists of at most `size`."""
    stream = iter(queries)
    while window := list(islice(stream, size)):
        yield window


def verdicts(model: RewardModel, window: Sequence[Query]) -> Iterator[Verdict]:
    """Yield one Verdict per query. A query on which the model raises gets Failure("crash"), its neighbours do not.

    After an exception the first open query is tried alone. If it was not the culprit (a model may work in its own
    order inside a window) the rest is halved until the culprit stands alone.
    """
    done = 0
    try:
        for verdict in model.score(list(window)):
            yield _fitting(model, verdict, window[done:])
            done += 1
    except PluralrmError:
        raise
    except SystemExit as exc:  # it would end the command with the model's own exit code, which may be 0, in silence
        raise broken(f"{model.spec} left the program instead of scoring", exc, ModelError) from exc
    except Exception as exc:  # noqa: BLE001 - the run loop's one broad except: a crash is a named Failure of one item
        if len(window) == 1:
            yield Verdict.failed("crash", describe(exc), len(window[0].candidates))
        else:
            yield from _one_by_one(model, window[done:])
        return
    if done < len(window):
        raise MiscountError(f"{model.spec}: {done} verdicts for {len(window)} queries; wanted one for each, in order")


def _one_by_one(model: RewardModel, rest: Sequence[Query]) -> Iterator[Verdict]:
    [first] = verdicts(model, rest[:1])
    yield first
    others = rest[1:]
    if not others:
        return
    if any(failure.kind == "crash" for failure in first.failures):
        yield from verdicts(model, others)
        return
    half = (len(others) + 1) // 2
    yield from verdicts(model, others[:half])
    if others[half:]:
        yield from verdicts(model, others[half:])


def _fitting(model: RewardModel, verdict: Verdict, rest: Sequence[Query]) -> Verdict:
    """Return the verdict if it has one score per candidate of the next query, else a failure of all of them."""
    if not rest:
        raise MiscountError(f"{model.spec}: more verdicts than queries; wanted one for each, in order")
    if not isinstance(verdict, Verdict):
        raise TypeError(f"score() yielded {type(verdict).__name__}; wanted pluralrm.Verdict((score, ...))")
    count, candidates = len(verdict.scores), len(rest[0].candidates)
    if count != candidates:
        return Verdict.failed("crash", f"{count} scores for {candidates} candidates", candidates)
    return verdict


def describe(exc: Exception) -> str:
    """Return an exception in one line, with the place where it was raised."""
    frames = traceback.extract_tb(exc.__traceback__)
    location = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(exc).__name__}: {exc}{location}"[:500]
