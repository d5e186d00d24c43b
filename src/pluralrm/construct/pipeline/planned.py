"""What a build would ask and cost, from what its stages declare; nobody is asked."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import fsum
from typing import NamedTuple

from pluralrm.construct.pipeline.engine import sampled
from pluralrm.construct.pipeline.pools import Pools
from pluralrm.construct.pipeline.stages import Pipeline, Record, Stage
from pluralrm.http import Price, Usage


class Range(NamedTuple):
    """At least, where all goes well at once and no record is rejected on the way; at most."""

    least: float
    most: float


@dataclass(frozen=True, slots=True)
class PlannedCalls:
    """What a stage asks in a role. `cost` is None where a model's price is not known."""

    stage: str
    role: str
    calls: Range
    tokens_in: Range
    tokens_out: Range
    cost: Range | None

    def to_json(self) -> dict[str, object]:
        """Return the fields under their names."""
        ranges = {"calls": self.calls, "tokens_in": self.tokens_in, "tokens_out": self.tokens_out, "cost": self.cost}
        told = {name: None if found is None else found._asdict() for name, found in ranges.items()}
        return {"stage": self.stage, "role": self.role, **told}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a build of so many records would ask.

    `most` is with every text written as often as it may be. A reply that cannot be read is asked once more, which may
    double it; a record that is rejected asks less.
    """

    pipeline: str
    records: int
    rows: tuple[PlannedCalls, ...]

    @property
    def total(self) -> PlannedCalls:
        """All rows together."""
        return _sum("all", "", self.rows)

    def to_json(self) -> dict[str, object]:
        """Return everything under its name."""
        rows = [row.to_json() for row in self.rows]
        return {"pipeline": self.pipeline, "records": self.records, "calls": rows, "total": self.total.to_json()}


def plan(
    pipeline: Pipeline,
    records: Iterable[Record],
    pools: Pools,
    *,
    limit: int | None = None,
    prices: Mapping[str, Price] | None = None,
) -> Plan:
    """Return what a build would ask from its beginning."""
    chosen, rows = sampled(records, limit), []
    for stage in pipeline.stages:
        if isinstance(stage, Stage):
            roles: dict[str, list[PlannedCalls]] = {}
            for record in chosen:
                for calls in _of_record(stage, record, pools, prices or {}):
                    roles.setdefault(calls.role, []).append(calls)
            rows += [_sum(stage.name, role, found) for role, found in roles.items()]
    return Plan(pipeline.name, len(chosen), tuple(rows))


def _of_record(stage: Stage, record: Record, pools: Pools, prices: Mapping[str, Price]) -> Iterator[PlannedCalls]:
    for declared in stage.calls(record):
        price = prices.get(pools.models(declared.role, record.id)[0])
        counts = Range(declared.least, declared.most)
        one = None if price is None else price.of(Usage(declared.tokens_in, declared.tokens_out))
        yield PlannedCalls(
            stage.name,
            declared.role,
            counts,
            _times(counts, declared.tokens_in),
            _times(counts, declared.tokens_out),
            None if one is None else _times(counts, one),
        )


def _times(counts: Range, each: float) -> Range:
    return Range(counts.least * each, counts.most * each)


def _sum(stage: str, role: str, rows: Iterable[PlannedCalls]) -> PlannedCalls:
    found = list(rows)
    costs = [row.cost for row in found]
    known = [cost for cost in costs if cost is not None]
    return PlannedCalls(
        stage,
        role,
        _added([row.calls for row in found]),
        _added([row.tokens_in for row in found]),
        _added([row.tokens_out for row in found]),
        _added(known) if known and len(known) == len(costs) else None,
    )


def _added(ranges: list[Range]) -> Range:
    return Range(fsum(one.least for one in ranges), fsum(one.most for one in ranges))
