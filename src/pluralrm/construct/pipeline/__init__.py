"""Records through stages: the engine of every build. docs/design/construct.md says how it works.

`plan` says what a build would ask and cost: two dry runs of its stages, on stand-ins for the replies; nothing is sent.
The stages themselves say what reply would be accepted, and what reply would have its text refused while it may still be
written anew. So what is counted is what the stages ask, and no second program has to know it.
"""

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from pathlib import Path
from typing import NamedTuple

from pluralrm.construct.pipeline.engine import BuildProgress, Built, build, build_shard, sampled
from pluralrm.construct.pipeline.folder import Folder, Spent, read_lines, read_manifest
from pluralrm.construct.pipeline.funnel import COLUMNS, Counts, Funnel, funnel_rows
from pluralrm.construct.pipeline.pools import Member, Pools, Role, open_pools
from pluralrm.construct.pipeline.stages import (
    Acceptance,
    Answers,
    Decision,
    ModelCall,
    ModelCalls,
    Pipeline,
    Product,
    Record,
    Refusal,
    Rejection,
    Sieve,
    Stage,
    StandIn,
    StandIns,
    Work,
    ask,
    ask_all,
    at_once,
    filler,
    until_accepted,
)
from pluralrm.display import json_fields
from pluralrm.errors import RunError
from pluralrm.http import DryRun, Price, Settings, Usage
from pluralrm.shards import Shard

__all__ = [
    "COLUMNS",
    "Acceptance",
    "Answers",
    "BuildProgress",
    "Built",
    "Counts",
    "Decision",
    "Folder",
    "Funnel",
    "Member",
    "ModelCall",
    "ModelCalls",
    "Pipeline",
    "Pools",
    "Product",
    "Record",
    "Refusal",
    "Rejection",
    "Role",
    "Sieve",
    "Spent",
    "Stage",
    "StandIn",
    "Work",
    "ask",
    "ask_all",
    "at_once",
    "build",
    "build_shard",
    "filler",
    "funnel_rows",
    "open_pools",
    "until_accepted",
]


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
        return json_fields(self)


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """What a build of so many records would ask. A reply that cannot be read is asked once more, on top of `most`."""

    pipeline: str
    records: int
    rows: tuple[PlannedCalls, ...]
    total: PlannedCalls
    shard: str = ""

    def to_json(self) -> dict[str, object]:
        """Return everything under its name."""
        calls = {"calls": [row.to_json() for row in self.rows], "total": self.total.to_json()}
        return {"pipeline": self.pipeline, "shard": self.shard, "records": self.records, **calls}


_Calls = dict[tuple[str, str], list[Spent]]
"""What was asked, by stage and role."""


def plan(
    pipeline: Pipeline,
    records: Iterable[Record],
    roles: Sequence[Role],
    *,
    limit: int | None = None,
    settings: Settings | None = None,
    progress: Callable[[BuildProgress], None] = lambda _progress: None,
    shard: Shard | None = None,
) -> BuildPlan:
    """Return what a build, or a shard of it, would ask from its beginning; decisions go to a folder then deleted."""
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
            if shard is None:
                built = build(pipeline, chosen, folder, pools, progress=progress)
                size, complete, why = len(chosen), built.complete, built.why
            else:
                far, why = build_shard(pipeline, chosen, folder, pools, shard=shard, progress=progress)
                size, complete = far.size, far.complete
            if not complete:
                raise RunError(f"the dry run came to no end: {why}")
            manifest = read_manifest(folder.path, shards=True)
            stage_lines = zip(manifest.stages, read_lines(folder.path, manifest), strict=True)
            counts.append(
                _by_role(
                    (stage.name, spent)
                    for stage, lines in stage_lines
                    for line in lines.values()
                    for spent in line.spent
                )
            )
    least, most = counts
    stages = {stage: index for index, (stage, _) in enumerate({**most, **least})}
    keys = sorted({*least, *most}, key=lambda key: (stages[key[0]], key[1]))
    rows = [_row(key, least.get(key, []), most.get(key, []), settings.prices) for key in keys]
    all_least, all_most = ([spent for call in calls.values() for spent in call] for calls in counts)
    total = _row(("all", ""), all_least, all_most, settings.prices)
    return BuildPlan(pipeline.name, size, tuple(rows), total, "" if shard is None else str(shard))


def _by_role(calls: Iterable[tuple[str, Spent]]) -> _Calls:
    by_role: _Calls = {}
    for stage, spent in calls:
        by_role.setdefault((stage, spent.role), []).append(spent)
    return by_role


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
