"""Records through stages: the engine of every build. docs/design/construct.md says how it works."""

from pluralrm.construct.pipeline.building import Built, build
from pluralrm.construct.pipeline.decisions import Going
from pluralrm.construct.pipeline.folder import Folder
from pluralrm.construct.pipeline.funnel import COLUMNS, Counts, Funnel, funnel_rows
from pluralrm.construct.pipeline.lines import Spent
from pluralrm.construct.pipeline.pools import Member, Pools, Role, open_pools
from pluralrm.construct.pipeline.records import Product, Record
from pluralrm.construct.pipeline.stages import Calls, Pipeline, Sieve, Stage
from pluralrm.construct.pipeline.work import (
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
