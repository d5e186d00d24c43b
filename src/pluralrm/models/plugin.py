"""Other people's reward models: `python:package.module:Class,key=value`.

The module is found as `python -m` would find it (the current folder first); keys become keyword arguments, as strings.
"""

import hashlib
import importlib
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pluralrm.core import Identified, Query, RewardModel, Verdict
from pluralrm.errors import ModelError, did_you_mean
from pluralrm.specs import Spec


@dataclass(frozen=True)
class Plugin:
    """Somebody's model under the spec that named it; what it yields is checked before it is believed."""

    spec: str
    model: RewardModel
    identity: Mapping[str, str] = field(default_factory=dict)

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        """Yield the model's verdicts; anything else it yields is a TypeError that says what was wanted."""
        for verdict in self.model.score(queries):
            if not isinstance(verdict, Verdict):
                raise TypeError(f"score() yielded {type(verdict).__name__}; wanted pluralrm.Verdict((score, ...))")
            yield verdict


def load(spec: Spec) -> Plugin:
    """Return the model that `python:module:Class` names, made with the spec's keys."""
    module_name, _, attribute = spec.target.partition(":")
    if not (module_name and attribute):
        raise ModelError(f"found 'python:{spec.target}', wanted python:package.module:Class")
    module = _import(module_name)
    maker = getattr(module, attribute, None)
    if maker is None:
        names = [name for name in vars(module) if not name.startswith("_")]
        raise ModelError(f"module {module_name!r} has no {attribute!r}.{did_you_mean(attribute, names)}")
    model = _make(maker, spec)
    if not callable(getattr(model, "score", None)):
        raise ModelError(f"{spec.target!r} has no score(queries) method; see docs/add-a-model.md")
    return Plugin(str(spec), model, _identity(module.__file__, model))


def _import(name: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 - a module
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name is None or not (name == exc.name or name.startswith(f"{exc.name}.")):
            raise  # the user's module was found; something that it imports was not
        raise ModelError(f"no module {name!r} in the current folder or on the Python path") from exc


def _make(maker: object, spec: Spec) -> RewardModel:
    if not callable(maker):
        raise ModelError(f"{spec.target!r} is not a class or a function that makes a model")
    try:
        inspect.signature(maker).bind(**spec.options)
    except TypeError as exc:
        raise ModelError(f"{spec.target!r} cannot be made with {dict(spec.options)}: {exc}") from exc
    model: RewardModel = maker(**spec.options)
    return model


def _identity(file: str | None, model: RewardModel) -> dict[str, str]:
    """Return what must stay the same while a run is resumed: the module's bytes and what the model says of itself."""
    facts = dict(model.identity) if isinstance(model, Identified) else {}
    if file is not None:
        facts["module"] = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    return facts
