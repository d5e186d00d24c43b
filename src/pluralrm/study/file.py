"""The study file: TOML, of which nothing is guessed. What does not fit names file, table and key.

>>> declared = declare({"benchmarks": ["pocket-prb"], "models": ["longest", "bm25"]})
>>> declared.conditions, declared.best_of_n
(('none',), None)
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from pluralrm.display import brief
from pluralrm.errors import SpecError, StudyError, did_you_mean
from pluralrm.policies.policy import has_weights, parse_policy
from pluralrm.specs import Form, Spec, parse, split_name
from pluralrm.stats.best_of import powers_of_two
from pluralrm.stats.ranking import RBO_P
from pluralrm.training.rewards import parse_shaping
from pluralrm.training.settings import PpoSettings, read_ppo_settings

Some = Annotated[tuple[str, ...], Field(min_length=1)]
Whole = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]


class FileTable(BaseModel):
    """A table of the file: its keys are written with hyphens, and one that is unknown is an error."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=lambda name: name.rstrip("_").replace("_", "-")
    )


class BestOf(FileTable):
    """[best-of-n]: a policy's answers, who picks among them and who grades the picks."""

    policy: str = ""
    from_: str = ""
    """A file of answers, in place of a policy."""
    benchmark: str = ""
    """Whose prompts are answered; the first of the study where left out."""
    condition: str = "none"
    """What the policy sees."""
    n: Whole = 16
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.9
    max_tokens: Whole = 512
    limit: Whole | None = None
    domains: tuple[str, ...] = ()
    k: tuple[Whole, ...] = ()
    see: tuple[str, ...] = ()
    """The conditions under which reward models pick; those of the study where left out."""
    grader: str
    grade: Literal["all", "selected"] = "all"

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if bool(self.policy) == bool(self.from_):
            which = "both" if self.policy else "neither"
            raise ValueError(f"found {which} of policy and from, wanted one of them")
        if self.from_ and (keys := self.model_fields_set & _DRAWN):
            names = ", ".join(sorted(name.replace("_", "-") for name in keys))
            raise ValueError(f"found {names} beside from, wanted neither: the answers in the file are drawn already")
        return self

    def ks(self, n: int) -> tuple[int, ...]:
        """Return the points of the curves of a pool of n answers."""
        return tuple(sorted(set(self.k or powers_of_two(n))))


_DRAWN = {"n", "temperature", "top_p", "max_tokens", "limit", "domains"}
TINY = "tiny"
"""A policy for simulated users that the study trains itself; `tiny,steps=N` learns to write for so many steps."""
_TINY: Mapping[str, Form] = {TINY: Form(keys=("steps",))}
_SHAPINGS: Mapping[str, Form] = {"raw": Form(keys=("clip",)), "z": Form(keys=("clip",))}


class Ppo(FileTable):
    """[ppo]: a policy is trained against each reward model, and what it answers then is graded."""

    policy: str
    """lm:FOLDER, or tiny."""
    benchmark: str = ""
    """Whose prompts are trained on, and users kept for the end; the first of the study where left out."""
    evaluate_on: str = ""
    """Another benchmark whose questions are asked before and after, such as that whose ranking is correlated."""
    condition: str = "none"
    """What the policy sees, in training and in the end."""
    see: tuple[str, ...] = ()
    """The conditions under which reward models reward; those of the study where left out."""
    rewards: tuple[str, ...] = ()
    """Some of the study's models; all where left out."""
    steps: Whole
    seeds: tuple[Seed, ...] = ()
    """A training for each; the study's seed where left out."""
    n: Whole = 1
    """Graded answers to each item of the test users, before and after."""
    grader: str
    shaping: str = "raw"
    """raw or z, with ,clip=X; for z each reward model is scored on answers of the untrained policy."""
    domains: tuple[str, ...] = ()
    limit: Whole | None = None
    per_domain: bool = False
    """A policy for each domain; what is graded is the answers of all of them."""
    settings: dict[str, bool | int | float | str] = {}

    @field_validator("seeds", "rewards", "see")
    @classmethod
    def _once(cls, values: tuple[str | int, ...]) -> tuple[str | int, ...]:
        if twice := [value for index, value in enumerate(values) if value in values[:index]]:
            raise ValueError(f"found {twice[0]!r} twice, wanted it once")
        return values

    @model_validator(mode="after")
    def _readable(self) -> Self:
        try:
            self.chosen()
            self.scaled()
            if self.tiny is None and not has_weights(self.policy):
                raise ValueError(f"policy: found {self.policy!r}, wanted lm:FOLDER or tiny: its weights are trained")
        except SpecError as exc:
            raise ValueError(str(exc)) from exc
        return self

    @property
    def tiny(self) -> Spec | None:
        """The policy that is to be made, where it is not a folder's."""
        return parse(self.policy, _TINY, noun="policy") if self.policy.partition(",")[0] == TINY else None

    @property
    def named(self) -> str:
        """The policy in its canonical spelling, as folders and --fresh name it."""
        return str(self.tiny or parse_policy(self.policy))

    def chosen(self) -> PpoSettings:
        """Return the settings of every training."""
        return read_ppo_settings({key: str(value) for key, value in self.settings.items()})

    def scaled(self) -> Spec:
        """Return whether rewards are taken as they are, or put on a scale; with the largest that is let through."""
        spec = parse(self.shaping, _SHAPINGS, noun="shaping")
        parse_shaping(str(Spec("raw", options=spec.options)))
        return spec


class Correlated(FileTable):
    """[correlate]: which points of the curves are downstream results, and how they are compared."""

    k: tuple[Whole, ...] = ()
    rbo_p: Annotated[float, Field(gt=0, lt=1)] = RBO_P


class StudyDeclaration(FileTable):
    """The whole file."""

    title: str = ""
    benchmarks: Some
    models: Some
    names: tuple[str, ...] = ()
    """What the models are called, '' where one goes by its spec; nothing where all do."""
    conditions: Some = ("none",)
    seed: Seed = 0
    limit: Whole | None = None
    domains: tuple[str, ...] = ()
    best_of_n: BestOf | None = None
    ppo: Ppo | None = None
    correlate: Correlated = Correlated()

    __repr__ = brief

    @model_validator(mode="after")
    def _named_once(self) -> Self:
        for key in ("benchmarks", "models", "conditions"):
            names: Sequence[str] = getattr(self, key)
            if twice := [name for index, name in enumerate(names) if name in names[:index]]:
                raise ValueError(f"{key}: found {twice[0]!r} twice, wanted it once")
        return self

    @model_validator(mode="after")
    def _names_of_models(self) -> Self:
        if self.names and len(self.names) != len(self.models):
            raise ValueError(f"names: found {len(self.names)} for {len(self.models)} models, wanted one for each")
        names = [name for name in self.names if name]
        if twice := next((name for name in names if names.count(name) > 1), ""):
            raise ValueError(f"models: two are named {twice!r}; give each a name of its own")
        return self

    @model_validator(mode="after")
    def _known_rewards(self) -> Self:
        for name in self.ppo.rewards if self.ppo else ():
            if name not in self.models:
                names = [*self.models, *filter(None, self.names)]
                raise ValueError(f"[ppo] rewards: {name!r} is none of models.{did_you_mean(name, names)}")
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
        return self.model_dump(mode="json", by_alias=True, exclude=None if self.names else {"names"})


def read_study(file: str | Path) -> StudyDeclaration:
    """Return the study in a TOML file; a StudyError says what does not fit."""
    try:
        table = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise StudyError(
            f"cannot read {str(file)!r}: {reason}. Wanted a study in TOML; see 'pluralrm study --help'"
        ) from exc
    return declare(table, str(file))


def declare(table: Mapping[str, object], where: str = "the study") -> StudyDeclaration:
    """Return the study that a table holds; `where` is what an error calls it."""
    table = _with_names(table, where)
    try:
        # As JSON: a list is what a tuple is written as, and nothing else is taken for anything else.
        declared = StudyDeclaration.model_validate_json(json.dumps(table, default=str))
    except ValidationError as exc:
        # A key that is misspelled is missing too: the misspelled one is what to mend.
        errors = sorted(exc.errors(include_url=False), key=lambda error: error["type"] != "extra_forbidden")
        raise StudyError(f"{where}: {_message(errors[0])}") from exc
    return declared


def _with_names(table: Mapping[str, object], where: str) -> Mapping[str, object]:
    """Return the file with models that are tables, { name = "ours", model = "hf:..." }, as specs and names."""
    models = table.get("models")
    if not isinstance(models, list):
        return table
    tables = [model if isinstance(model, Mapping) else _table(model) for model in models]
    if not any(entry.get("name", "?") for entry in tables):
        return table
    for entry in tables:
        if set(entry) != {"name", "model"}:
            usage = 'a spec, NAME=SPEC, or { name = "ours", model = "hf:..." }'
            raise StudyError(f"{where}: models: found {dict(entry)}, wanted {usage}")
    specs = {str(entry["name"]): entry["model"] for entry in tables if entry["name"]}
    ppo = table.get("ppo")
    if isinstance(ppo, Mapping) and isinstance(rewards := ppo.get("rewards"), list):
        table = {**table, "ppo": {**ppo, "rewards": [specs.get(str(reward), reward) for reward in rewards]}}
    return {**table, "models": [entry["model"] for entry in tables], "names": [entry["name"] for entry in tables]}


def _table(model: object) -> dict[str, object]:
    """Return the table of NAME=SPEC; what is no text is left to the schema."""
    name, spec = split_name(model) if isinstance(model, str) else ("", model)
    return {"name": name, "model": spec}


_TABLES: Mapping[str, type[FileTable]] = {
    "": StudyDeclaration,
    "best-of-n": BestOf,
    "ppo": Ppo,
    "correlate": Correlated,
}


def _message(error: ErrorDetails) -> str:
    """Return where it is, what was found and what was wanted."""
    *before, key = [str(part) for part in error["loc"]] or [""]
    table = before[0] if before and before[0] in _TABLES else ""
    head = f"[{table}] " if table else ""
    name = next((part for part in reversed([*before[bool(table) :], key]) if not part.isdigit()), "")
    if error["type"] == "extra_forbidden":
        keys = [field.alias or own for own, field in _TABLES[table].model_fields.items()]
        return f"{head}no key {key!r}.{did_you_mean(key, keys)}"
    if error["type"] == "missing":
        return f"{head}no {key!r}; wanted one; see 'pluralrm study --help'"
    if error["type"] == "value_error":
        of = "" if not before else f"{name}: "
        table = key if key in _TABLES else table
        return f"{f'[{table}] ' if table else ''}{of}{error['msg'].removeprefix('Value error, ')}"
    return f"{head}{name}: found {error['input']!r}. {error['msg']}"
