"""Records through stages: the engine of every build. docs/design/build.md says how it works."""

from pluralrm.build.pipeline.building import Built, build
from pluralrm.build.pipeline.decisions import Going
from pluralrm.build.pipeline.folder import Folder
from pluralrm.build.pipeline.funnel import COLUMNS, Counts, Funnel, funnel_rows
from pluralrm.build.pipeline.lines import Spent
from pluralrm.build.pipeline.pools import Member, Pools, Role, open_pools
from pluralrm.build.pipeline.records import Product, Record
from pluralrm.build.pipeline.stages import Calls, Pipeline, Sieve, Stage
from pluralrm.build.pipeline.work import (
    Answers,
    Ask,
    Asks,
    Decision,
    Kept,
    Refusal,
    Rejected,
    Work,
    ask,
    ask_all,
    at_once,
    until_accepted,
)

__all__ = [
    "COLUMNS",
    "Answers",
    "Ask",
    "Asks",
    "Built",
    "Calls",
    "Counts",
    "Decision",
    "Folder",
    "Funnel",
    "Going",
    "Kept",
    "Member",
    "Pipeline",
    "Pools",
    "Product",
    "Record",
    "Refusal",
    "Rejected",
    "Role",
    "Sieve",
    "Spent",
    "Stage",
    "Work",
    "ask",
    "ask_all",
    "at_once",
    "build",
    "funnel_rows",
    "open_pools",
    "until_accepted",
]
