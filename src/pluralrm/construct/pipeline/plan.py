"""What a build would ask and cost: two dry runs of its stages, on stand-ins for the replies; nothing is sent.

The stages themselves say what reply would be accepted, and what reply would have its text refused while it may still be
written anew. So what is counted is what the stages ask, and no second program has to know it.
"""

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from pathlib import Path
from typing import NamedTuple

from pluralrm.construct.pipeline.engine import BuildProgress, build, sampled
from pluralrm.construct.pipeline.folder import Folder, Spent
from pluralrm.construct.pipeline.pools import Role, open_pools
from pluralrm.construct.pipeline.stages import Pipeline, Record, StandIns
from pluralrm.errors import RunError
from pluralrm.http import DryRun, Price, Settings, Usage


class Range(NamedTuple):
    """Where every text is accepted at once; where each is written as often as it may be."""

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
class BuildPlan:
    """What a build of so many records would ask. A reply that cannot be read is asked once more, on top of `most`."""

    pipeline: str
    records: int
    rows: tuple[PlannedCalls, ...]
    total: PlannedCalls

    def to_json(self) -> dict[str, object]:
        """Return everything under its name."""
        rows = [row.to_json() for row in self.rows]
        return {"pipeline": self.pipeline, "records": self.records, "calls": rows, "total": self.total.to_json()}


_Calls = dict[tuple[str, str], list[Spent]]
"""What was asked, by stage and role."""


def plan(
    pipeline: Pipeline,
    records: Iterable[Record],
    roles: Sequence[Role],
    *,
    limit: int | None = None,
    settings: Settings | None = None,
    tell: Callable[[BuildProgress], None] = lambda _progress: None,
) -> BuildPlan:
    """Return what a build would ask from its beginning; its decisions go to a folder that is then deleted."""
    settings = settings or Settings()
    dry = replace(settings, dry_run=DryRun(), replay=None, max_cost=None)
    chosen, counts = sampled(records, limit), []
    passes: tuple[StandIns, ...] = ("accepted", "refused")
    for stand_ins in passes:
        with (
            tempfile.TemporaryDirectory(prefix="pluralrm-plan-") as scratch,
            Folder(Path(scratch, "build")) as folder,
            open_pools(roles, settings=dry) as pools,
        ):
            pools.stand_ins = stand_ins
            built = build(pipeline, chosen, folder, pools, tell=tell)
            if not built.complete:
                raise RunError(f"the dry run came to no end: {built.why}")
            counts.append(_by_role((stage.stage, spent) for stage in built.funnel.stages for spent in stage.spent))
    least, most = counts
    stages = {stage: place for place, (stage, _) in enumerate({**most, **least})}
    keys = sorted({*least, *most}, key=lambda key: (stages[key[0]], key[1]))
    rows = [_row(key, least.get(key, []), most.get(key, []), settings.prices) for key in keys]
    all_least, all_most = ([spent for found in calls.values() for spent in found] for calls in counts)
    return BuildPlan(pipeline.name, len(chosen), tuple(rows), _row(("all", ""), all_least, all_most, settings.prices))


def _by_role(calls: Iterable[tuple[str, Spent]]) -> _Calls:
    found: _Calls = {}
    for stage, spent in calls:
        found.setdefault((stage, spent.role), []).append(spent)
    return found


def _row(
    key: tuple[str, str], least: Sequence[Spent], most: Sequence[Spent], prices: Mapping[str, Price]
) -> PlannedCalls:
    def both(value: Callable[[Spent], float]) -> Range:
        return Range(fsum(map(value, least)), fsum(map(value, most)))

    def cost(spent: Spent) -> float:
        return prices[spent.model].of(Usage(spent.tokens_in, spent.tokens_out))

    priced = bool(most) and all(spent.model in prices for spent in (*least, *most))
    return PlannedCalls(
        *key,
        both(lambda spent: spent.calls),
        both(lambda spent: spent.tokens_in),
        both(lambda spent: spent.tokens_out),
        both(cost) if priced else None,
    )
