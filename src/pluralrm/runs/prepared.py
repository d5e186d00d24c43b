"""Queries on their way to a model; one that its condition could not make whole fails without the model being asked."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from pluralrm.conditions.notes import Prepared, Preparing
from pluralrm.core import Benchmark, Condition, Item, Query, Verdict
from pluralrm.ordered import in_order

Answered = Iterator[tuple[Query, Verdict]]


def prepared(condition: Condition, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Prepared]:
    """Yield what a condition makes of each item, in order."""
    if isinstance(condition, Preparing):
        return condition.prepared(benchmark, items)
    return map(Prepared, condition.queries(benchmark, items))


def answered(verdicts: Callable[[Iterable[Query]], Answered], made: Iterable[Prepared]) -> Answered:
    """Yield each query with its verdict, in order; what the condition said stands before what the model said."""

    def asked(one: Prepared) -> list[Query]:
        return [one.query] if one.failure is None else []

    for one, got in in_order(made, asked, verdicts):
        if one.failure is not None:
            yield one.query, Verdict((one.failure,) * len(one.query.candidates), exchanges=one.exchanges)
        for query, verdict in got:
            yield query, replace(verdict, exchanges=one.exchanges + verdict.exchanges) if one.exchanges else verdict
