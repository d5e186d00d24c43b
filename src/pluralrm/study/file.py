"""The study file: TOML, of which nothing is guessed. What does not fit names file, table and key.

>>> declared = declare({"benchmarks": ["pocket-prb"], "models": ["longest", "bm25"]})
>>> declared.conditions, declared.best_of_n
(('none',), None)
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from pydantic import ValidationError, model_validator
from pydantic_core import ErrorDetails

from pluralrm.errors import StudyError, did_you_mean
from pluralrm.study.tables import BestOf, Correlated, Ppo, Seed, Some, Table, Whole


class Declared(Table):
    """The whole file."""

    title: str = ""
    benchmarks: Some
    models: Some
    conditions: Some = ("none",)
    seed: Seed = 0
    limit: Whole | None = None
    domains: tuple[str, ...] = ()
    best_of_n: BestOf | None = None
    ppo: Ppo | None = None
    correlate: Correlated = Correlated()

    @model_validator(mode="after")
    def _named_once(self) -> Self:
        for key in ("benchmarks", "models", "conditions"):
            names: Sequence[str] = getattr(self, key)
            if twice := [name for place, name in enumerate(names) if name in names[:place]]:
                raise ValueError(f"{key}: found {twice[0]!r} twice, wanted it once")
        return self

    @model_validator(mode="after")
    def _known_rewards(self) -> Self:
        for name in self.ppo.rewards if self.ppo else ():
            if name not in self.models:
                raise ValueError(f"[ppo] rewards: {name!r} is none of models.{did_you_mean(name, self.models)}")
        return self

    @property
    def see(self) -> tuple[str, ...]:
        """The conditions under which reward models pick among answers."""
        return (self.best_of_n and self.best_of_n.see) or self.conditions

    @property
    def rewarded_under(self) -> tuple[str, ...]:
        """The conditions under which reward models reward a policy."""
        return (self.ppo and self.ppo.see) or self.conditions

    @property
    def rewards(self) -> tuple[str, ...]:
        """The models that reward a policy."""
        return (self.ppo and self.ppo.rewards) or self.models

    def to_json(self) -> dict[str, object]:
        """Return the file as it was read, with every default filled in."""
        return self.model_dump(mode="json", by_alias=True)


def read_study(file: str | Path) -> Declared:
    """Return the study in a TOML file; a StudyError says what does not fit."""
    try:
        table = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as exc:
        raise StudyError(
            f"cannot read {str(file)!r}: {exc}. Wanted a study in TOML; see 'pluralrm study --help'"
        ) from exc
    return declare(table, str(file))


def declare(table: Mapping[str, object], where: str = "the study") -> Declared:
    """Return the study that a table holds; `where` is what an error calls it."""
    try:
        # As JSON: a list is what a tuple is written as, and nothing else is taken for anything else.
        declared = Declared.model_validate_json(json.dumps(table, default=str))
    except ValidationError as exc:
        raise StudyError(f"{where}: {_said(exc.errors(include_url=False)[0])}") from exc
    return declared


_TABLES: Mapping[str, type[Table]] = {"": Declared, "best-of-n": BestOf, "ppo": Ppo, "correlate": Correlated}


def _said(error: ErrorDetails) -> str:
    """Return where it is, what was found and what was wanted."""
    *before, key = [str(part) for part in error["loc"]] or [""]
    table = before[0] if before and before[0] in _TABLES else ""
    head = f"[{table}] " if table else ""
    name = next((part for part in reversed([*before[bool(table) :], key]) if not part.isdigit()), "")
    if error["type"] == "extra_forbidden":
        known = [field.alias or own for own, field in _TABLES[table].model_fields.items()]
        return f"{head}no key {key!r}.{did_you_mean(key, known)}"
    if error["type"] == "missing":
        return f"{head}no {key!r}; wanted one; see 'pluralrm study --help'"
    if error["type"] == "value_error":
        of = "" if not before else f"{name}: "
        table = key if key in _TABLES else table
        return f"{f'[{table}] ' if table else ''}{of}{error['msg'].removeprefix('Value error, ')}"
    return f"{head}{name}: found {error['input']!r}. {error['msg']}"
