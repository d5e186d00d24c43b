"""`pluralrm construct prb --demo`: eight questions of users of pocket-prb, and what recorded models make of them.

prb.toml holds the prose, prb-calls.jsonl the recording. Two questions come without their aspects, so that a planner has
to find them.
"""

import tomllib
from dataclasses import replace

from pluralrm.benchmarks import load_benchmark
from pluralrm.construct.demo import URL, shipped
from pluralrm.construct.pipeline import Record, Role
from pluralrm.construct.prb import Question, Rules, records_of, roles

CASSETTE = shipped("prb-calls.jsonl")
BENCHMARK = "pocket-prb"
RULES = Rules(rejected="both")
WRITER, JUDGE, PLANNER = "demo-writer", "demo-judge", "demo-planner"


def demo_records() -> list[Record]:
    """Return the eight questions; those for which the prose has a planner's aspects come without their own."""
    prose = tomllib.loads(shipped("prb.toml").read_text(encoding="utf-8"))["record"]
    planned = {one["id"]: "aspects" in one for one in prose}
    found = [record for record in records_of(load_benchmark(BENCHMARK)) if record.id in planned]
    return [_without_aspects(record) if planned[record.id] else record for record in found]


def _without_aspects(record: Record) -> Record:
    return replace(record, source=record[Question].model_copy(update={"aspects": ()}))


def demo_roles(url: str = URL) -> list[Role]:
    """Return who writes, judges and plans, at an address."""
    return roles(*([f"{model},url={url}"] for model in (WRITER, JUDGE, PLANNER)))
