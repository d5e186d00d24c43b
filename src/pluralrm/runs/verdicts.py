"""Queries in, in windows; one verdict per query out, whatever the model does meanwhile.

A query that its condition could not make whole fails without the model being asked.
"""

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from pluralrm.conditions.notes import PreparedQuery, Preparing
from pluralrm.core import Benchmark, Condition, Item, Query, RewardModel, Verdict
from pluralrm.errors import ModelError, PluralrmError
from pluralrm.ordered import in_order

Answered = Iterator[tuple[Query, Verdict]]


def prepared(condition: Condition, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[PreparedQuery]:
    """Yield what a condition makes of each item, in order."""
    if isinstance(condition, Preparing):
        return condition.prepared(benchmark, items)
    return map(PreparedQuery, condition.queries(benchmark, items))


def answered(verdicts: Callable[[Iterable[Query]], Answered], made: Iterable[PreparedQuery]) -> Answered:
    """Yield each query with its verdict, in order; what the condition said stands before what the model said."""

    def asked(one: PreparedQuery) -> list[Query]:
        return [one.query] if one.failure is None else []

    for one, got in in_order(made, asked, verdicts):
        if one.failure is not None:
            yield one.query, Verdict((one.failure,) * len(one.query.candidates), exchanges=one.exchanges)
        for query, verdict in got:
            yield query, replace(verdict, exchanges=one.exchanges + verdict.exchanges) if one.exchanges else verdict


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
    found, wanted = len(verdict.scores), len(rest[0].candidates)
    if found != wanted:
        return Verdict.failed("crash", f"{found} scores for {wanted} candidates", wanted)
    return verdict


def describe(exc: Exception) -> str:
    """Return an exception in one line, with the place where it was raised."""
    frames = traceback.extract_tb(exc.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(exc).__name__}: {exc}{place}"[:500]
