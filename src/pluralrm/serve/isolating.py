"""Scores the queries of a batch; where the model breaks on one of them, the others get their scores all the same.

A batch on which the model raises is halved, and its halves again, until what breaks stands alone: one broken query
among 1,024 costs twenty calls more. An outage is nobody's fault and is not asked again, nor is a model that miscounts.
A condition that raises on one of several items is searched in the same way (`desk.py`).
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pluralrm.core import Failure, Query, RewardModel, Score
from pluralrm.errors import ModelError, OutageError, PluralrmError
from pluralrm.runs.windows import MiscountError, verdicts
from pluralrm.serve.numbers import trainable

_CALLS = 256
"""Of the model for one batch, at most: where all of a large batch breaks, not every query can be asked alone."""

Answer = tuple[Score, ...] | PluralrmError
"""What became of one query: a score per candidate, or what the model raised."""


@dataclass
class Scored:
    """What became of a batch: an answer per query, in order, and what was computed for it."""

    answers: list[Answer]
    calls: int = 0
    queries: int = 0
    """That gave scores, after those of one prompt were put together."""
    distinct: int = 0
    """Candidates of these queries."""
    failures: dict[str, int] = field(default_factory=dict)

    @property
    def broken(self) -> int:
        """Queries that have no scores."""
        return sum(isinstance(answer, PluralrmError) for answer in self.answers)


def scored(model: RewardModel, queries: Sequence[Query], *, relative: bool) -> Scored:
    """Return what became of each query; equal prompts are asked as one, but of a model that compares answers."""
    found = Scored([ModelError(f"{model.spec}: was not asked")] * len(queries))

    def broken(places: Sequence[int], exc: PluralrmError) -> None:
        for place in places:
            found.answers[place] = exc

    places = [place for group in _groups(queries, relative=relative) for place in group]
    compute = partial(_compute, model, queries, relative=relative, found=found)
    found.calls = isolated(places, compute, broken)
    return found


def isolated(
    places: Sequence[int],
    compute: Callable[[Sequence[int]], None],
    broken: Callable[[Sequence[int], PluralrmError], None],
) -> int:
    """Compute at all places, at the halves of those where that raises, and tell what is `broken`; return the calls."""
    waiting, calls = deque([places]), 0
    while waiting:
        places = waiting.popleft()
        calls += 1
        try:
            compute(places)
        except OutageError as exc:
            broken([*places, *(place for others in waiting for place in others)], exc)
            break
        except PluralrmError as exc:
            room = calls + len(waiting) + 2 <= _CALLS
            if len(places) > 1 and room and not isinstance(exc, MiscountError):
                half = len(places) // 2
                waiting.extend((places[:half], places[half:]))
            else:
                broken(places, exc)
    return calls


def _compute(
    model: RewardModel, queries: Sequence[Query], places: Sequence[int], *, relative: bool, found: Scored
) -> None:
    """Write the scores of some queries; nothing where the model raises, for its order is known only in the end."""
    groups = _groups([queries[place] for place in places], relative=relative)
    merged = [_merged([queries[places[one]] for one in group]) for group in groups]
    try:
        given = [tuple(map(trainable, verdict.scores)) for verdict in verdicts(model, merged)]
    except SystemExit as exc:  # it would end the event loop with the model's own exit code, which may be 0
        raise ModelError(f"{model.spec}: left the program by SystemExit({exc.code}) instead of scoring") from exc
    found.queries += len(merged)
    found.distinct += sum(len(query.candidates) for query in merged)
    for group, query, row in zip(groups, merged, given, strict=True):
        for failure in (score for score in row if isinstance(score, Failure)):
            found.failures[failure.kind] = found.failures.get(failure.kind, 0) + 1
        scores = dict(zip(query.candidates, row, strict=True))
        for place in (places[one] for one in group):
            own = queries[place]
            # One that was asked alone gets them as they came, equal answers or not.
            found.answers[place] = row if query is own else tuple(scores[text] for text in own.candidates)


def _groups(queries: Sequence[Query], *, relative: bool) -> list[list[int]]:
    """Return the places of queries that may be asked as one: those of one prompt and one user."""
    if relative:
        return [[place] for place in range(len(queries))]
    groups: dict[Query, list[int]] = {}
    for place, query in enumerate(queries):
        groups.setdefault(replace(query, candidates=()), []).append(place)
    return list(groups.values())


def _merged(queries: Sequence[Query]) -> Query:
    """Return one query with every distinct candidate, in the order in which they came; one alone stays as it is."""
    if len(queries) == 1:
        return queries[0]
    return replace(queries[0], candidates=tuple(dict.fromkeys(one for query in queries for one in query.candidates)))
