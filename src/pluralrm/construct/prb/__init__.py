"""Pairs of answers to personal questions: one that gives the user what they expect, one that does not, else equal.

>>> from pluralrm.benchmarks import load_benchmark
>>> from pluralrm.construct.prb import Rules, prb_pipeline, records_of
>>> [stage.name for stage in prb_pipeline(Rules(rejected="contrary")).stages]
['users', 'posts', 'aspects', 'parts', 'chosen', 'contrary', 'duplicates', 'balance']
>>> len(records_of(load_benchmark("pocket-prb")))
60

docs/construct-prb.md is the how-to, docs/design/construct.md says why each gate is as it is.
"""

from collections.abc import Mapping, Sequence

from pluralrm.construct.pipeline import Role
from pluralrm.construct.prb.answers import JUDGE, PLANNER, WRITER
from pluralrm.construct.prb.products import NAME, Kind, PersonalQuestion, RejectedKinds, Rules
from pluralrm.construct.prb.stages import prb_pipeline, records_of

__all__ = ["NAME", "Kind", "PersonalQuestion", "RejectedKinds", "Rules", "prb_pipeline", "records_of", "roles"]

_TOKENS: Mapping[str, int] = {WRITER: 2048, PLANNER: 4096, JUDGE: 2048}
"""The longest reply of each role, reasoning included."""


def roles(writers: Sequence[str], judges: Sequence[str], planners: Sequence[str] = ()) -> list[Role]:
    """Return the roles of a build; where no planner is named, the writers plan."""
    specs = {WRITER: writers, JUDGE: judges, PLANNER: planners or writers}
    return [Role(name, tuple(models), _TOKENS[name]) for name, models in specs.items()]
