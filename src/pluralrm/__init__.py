"""pluralrm: does a reward model know whose preference it is judging?

>>> import pluralrm
>>> pluralrm.score("pocket-prb", ["bm25", "longest"], ["none", "raw:10", "swapped:10"])  # doctest: +SKIP
>>> print(pluralrm.compare("runs"))  # doctest: +SKIP

Names load on first use, so that importing this package loads nothing heavy.
"""

import sys
from functools import cache, wraps
from importlib import import_module
from inspect import isfunction, signature
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pluralrm._version import __version__

if TYPE_CHECKING:
    from pluralrm.align import evaluate_one
    from pluralrm.annotate.stand_in import stand_in as stand_in
    from pluralrm.api import best_of_n, compare, correlate, fit, personalization, report, sample, score, study, train
    from pluralrm.benchmarks import load_benchmark
    from pluralrm.card import Card as Card
    from pluralrm.conditions import load_condition
    from pluralrm.core import Benchmark, Estimate, Failure, Item, Query, RewardModel, Run, Verdict
    from pluralrm.core import Exchange as Exchange
    from pluralrm.core import Post as Post
    from pluralrm.core import Row as Row
    from pluralrm.core import User as User
    from pluralrm.core import UserView as UserView
    from pluralrm.errors import PluralrmError
    from pluralrm.metrics import leaderboard, paired_difference, summary
    from pluralrm.models import load_model
    from pluralrm.runs import load_run, load_runs
    from pluralrm.shards import merge as merge
    from pluralrm.templates import render
    from pluralrm.testing import check_benchmark, check_reward_model

_HOMES = {
    "align": ("evaluate_one",),
    "annotate.stand_in": ("stand_in",),
    "api": (
        *("best_of_n", "compare", "correlate", "fit", "personalization"),
        *("report", "sample", "score", "study", "train"),
    ),
    "benchmarks": ("load_benchmark",),
    "card": ("Card",),
    "conditions": ("load_condition",),
    "core": (
        *("Benchmark", "Estimate", "Exchange", "Failure", "Item", "Post"),
        *("Query", "RewardModel", "Row", "Run", "User", "UserView", "Verdict"),
    ),
    "errors": ("PluralrmError",),
    "metrics": ("leaderboard", "paired_difference", "summary"),
    "models": ("load_model",),
    "runs": ("load_run", "load_runs"),
    "shards": ("merge",),
    "templates": ("render",),
    "testing": ("check_benchmark", "check_reward_model"),
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Benchmark",
    "Estimate",
    "Failure",
    "Item",
    "PluralrmError",
    "Query",
    "RewardModel",
    "Run",
    "Verdict",
    "__version__",
    "best_of_n",
    "check_benchmark",
    "check_reward_model",
    "compare",
    "correlate",
    "evaluate_one",
    "fit",
    "leaderboard",
    "load_benchmark",
    "load_condition",
    "load_model",
    "load_run",
    "load_runs",
    "paired_difference",
    "personalization",
    "render",
    "report",
    "sample",
    "score",
    "study",
    "summary",
    "train",
]
"""The public names. `merge`, `stand_in` and parts of items and rows (Card, Exchange, Post, Row, User, UserView) too."""


class _Verb(ModuleType):
    """A package of ours that is called like a verb (`report`, `correlate`, `study`), and can be called."""

    def __call__(self, *args: object, **options: object) -> object:
        """Return what the verb of this name returns."""
        return _public(self.__name__.rpartition(".")[2])(*args, **options)


class _Package(ModuleType):
    """This package. Python binds a package inside it as soon as that is imported, though a verb has its name."""

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and _NAMES.get(name) == "api":
            value.__class__ = _Verb
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> object:
    if name not in _NAMES:
        raise AttributeError(f"module 'pluralrm' has no attribute {name!r}")
    return _public(name)


@cache
def _public(name: str) -> Any:  # noqa: ANN401 - whatever has this name
    """Return what a public name stands for; a function whose arguments do not fit says so in a SpecError."""
    value = getattr(import_module(f"pluralrm.{_NAMES[name]}"), name)
    if not isfunction(value):
        return value
    from pluralrm.errors import call_error, check_options

    shape = signature(value)

    @wraps(value)
    def checked(*args: object, **options: object) -> object:
        try:
            shape.bind(*args, **options)
        except TypeError as exc:
            raise call_error(name, shape, args, options) from exc
        check_options(shape, options)
        return value(*args, **options)

    return checked


def __dir__() -> list[str]:
    return sorted(__all__)
