"""pluralrm: does a reward model know whose preference it is judging?

>>> import pluralrm
>>> bench = pluralrm.load_benchmark("pocket-prb")
>>> run = pluralrm.score(bench, "longest", "none", out="runs")  # doctest: +SKIP
>>> print(pluralrm.leaderboard([run]))  # doctest: +SKIP

Names load on first use, so that importing this package loads nothing heavy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from pluralrm._version import __version__

if TYPE_CHECKING:
    from pluralrm.align import evaluate_one
    from pluralrm.benchmarks import load_benchmark
    from pluralrm.card import Card
    from pluralrm.conditions import load_condition
    from pluralrm.core import (
        Benchmark,
        Estimate,
        Exchange,
        Failure,
        Item,
        Post,
        Query,
        RewardModel,
        Row,
        Run,
        User,
        UserView,
        Verdict,
    )
    from pluralrm.errors import PluralrmError
    from pluralrm.metrics import leaderboard, summary
    from pluralrm.models import load_model
    from pluralrm.runs import load_run, score
    from pluralrm.templates import render
    from pluralrm.testing import check_benchmark, check_reward_model

_HOMES = {
    "align": ("evaluate_one",),
    "benchmarks": ("load_benchmark",),
    "card": ("Card",),
    "conditions": ("load_condition",),
    "core": (
        *("Benchmark", "Estimate", "Exchange", "Failure", "Item", "Post"),
        *("Query", "RewardModel", "Row", "Run", "User", "UserView", "Verdict"),
    ),
    "errors": ("PluralrmError",),
    "metrics": ("leaderboard", "summary"),
    "models": ("load_model",),
    "runs": ("load_run", "score"),
    "templates": ("render",),
    "testing": ("check_benchmark", "check_reward_model"),
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Benchmark",
    "Card",
    "Estimate",
    "Exchange",
    "Failure",
    "Item",
    "PluralrmError",
    "Post",
    "Query",
    "RewardModel",
    "Row",
    "Run",
    "User",
    "UserView",
    "Verdict",
    "__version__",
    "check_benchmark",
    "check_reward_model",
    "evaluate_one",
    "leaderboard",
    "load_benchmark",
    "load_condition",
    "load_model",
    "load_run",
    "render",
    "score",
    "summary",
]


def __getattr__(name: str) -> object:
    if name not in _NAMES:
        raise AttributeError(f"module 'pluralrm' has no attribute {name!r}")
    return getattr(import_module(f"pluralrm.{_NAMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
