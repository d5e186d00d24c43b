"""Other people's reward models: `python:package.module:Class,key=value`.

The module is found as `python -m` would find it (the current folder first); keys become keyword arguments, as strings.
"""

import hashlib
import importlib
import inspect
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pluralrm.core import Identified, Query, Reveals, RewardModel, Verdict
from pluralrm.errors import ModelError, PluralrmError, did_you_mean
from pluralrm.models.informed import compares_of, reveals_of
from pluralrm.specs import Spec

_LIBRARIES = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
_OURS = ("<frozen ", str(Path(__file__).parents[1]))
_NOT_THEIRS = (*_OURS, *_LIBRARIES)
"""How the names of files begin that are the library's, not the user's."""


@dataclass(frozen=True)
class Plugin:
    """Somebody's model under the spec that named it; what it yields is checked before it is believed."""

    spec: str
    model: RewardModel
    identity: Mapping[str, str] = field(default_factory=dict)
    reveals: frozenset[Reveals] = frozenset()
    compares: bool = True

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        """Yield the model's verdicts; anything else it yields is a TypeError that says what was wanted."""
        for verdict in self.model.score(queries):
            if not isinstance(verdict, Verdict):
                raise TypeError(f"score() yielded {type(verdict).__name__}; wanted pluralrm.Verdict((score, ...))")
            yield verdict


def load(spec: Spec) -> Plugin:
    """Return the model that `python:module:Class` names, made with the spec's keys."""
    file, maker = _named(spec)
    said = _compares(spec, maker)
    model = _make(maker, spec)
    if not callable(getattr(model, "score", None)):
        raise ModelError(f"{spec.target!r} has no score(queries) method; see docs/add-a-model.md")
    if (own := _compares(spec, model)) is not said:
        raise ModelError(
            f"{spec.target!r} makes a model whose compares is {own}, and says {said} itself: what is asked of it is "
            f"known before it is made; write compares = {own} in the class, or on the function that makes it"
        )
    return Plugin(str(spec), model, _identity(file, model), _reveals(spec, model), said)


def compares(spec: Spec) -> bool:
    """Return whether the class that a spec names is taken to compare answers; no model is made."""
    return _compares(spec, _named(spec)[1])


def _named(spec: Spec) -> tuple[str | None, object]:
    """Return the file of the module, and the class or function that makes the model."""
    module_name, _, attribute = spec.target.partition(":")
    if not (module_name and attribute):
        raise ModelError(f"found 'python:{spec.target}', wanted python:package.module:Class")
    if module_name.endswith(".py") or not all(part.isidentifier() for part in module_name.split(".")):
        raise ModelError(_no_module_name(module_name, attribute))
    module = _import(module_name)
    maker: object = getattr(module, attribute, None)
    if maker is None:
        names = [name for name in vars(module) if not name.startswith("_")]
        raise ModelError(f"module {module_name!r} has no {attribute!r}.{did_you_mean(attribute, names)}")
    return module.__file__, maker


def _import(name: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 - a module
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name is None or not (name == exc.name or name.startswith(f"{exc.name}.")):
            raise _broken(f"module {name!r} cannot be imported", exc) from exc  # it is there; what it imports is not
        raise ModelError(f"no module {name!r} in the current folder or on the Python path") from exc
    except PluralrmError:
        raise
    except Exception as exc:
        raise _broken(f"module {name!r} cannot be imported", exc) from exc


def _no_module_name(found: str, attribute: str) -> str:
    """Return what to write instead of a path, or of something else that Python could not import by name."""
    path = Path(found.removesuffix(".py"))
    if not path.name.isidentifier():
        return f"{found!r} is no name of a Python module; wanted python:package.module:Class"
    folder = "" if path.parent == Path() else f"go to its folder (cd {path.parent}) and "
    return f"{found!r} is a path, wanted the name of a module: {folder}write python:{path.name}:{attribute}"


def _broken(what: str, exc: Exception) -> ModelError:
    """Return the error in somebody's code with its place: the last line of theirs that Python was at."""
    told = f"{type(exc).__name__}: {exc}"
    if isinstance(exc, SyntaxError) and exc.filename:  # its text names the line already, not always the whole path
        place, told = f"{exc.filename}:{exc.lineno}", f"{type(exc).__name__}: {exc.msg}"
    else:
        place = place_of(exc)
    return ModelError(": ".join(filter(None, (what, place, told))))


def place_of(exc: Exception) -> str:
    """Return the last line of the user's own code that Python was at, as FILE:LINE; '' where it was in ours only.

    A model that is installed lies among libraries: then it is the last line that is not ours.
    """
    frames = [one for one in traceback.extract_tb(exc.__traceback__) if not one.filename.startswith(_OURS)]
    own = [frame for frame in frames if not frame.filename.startswith(_NOT_THEIRS)] or frames
    return f"{own[-1].filename}:{own[-1].lineno}" if own else ""


def _make(maker: object, spec: Spec) -> RewardModel:
    if not callable(maker):
        raise ModelError(f"{spec.target!r} is not a class or a function that makes a model")
    try:
        inspect.signature(maker).bind(**spec.options)
    except TypeError as exc:
        raise ModelError(f"{spec.target!r} cannot be made with {dict(spec.options)}: {exc}") from exc
    try:
        model: RewardModel = maker(**spec.options)
    except PluralrmError:
        raise
    except Exception as exc:
        raise _broken(f"{spec.target!r} cannot be made with {dict(spec.options)}", exc) from exc
    return model


def _compares(spec: Spec, declared: object) -> bool:
    try:
        return compares_of(declared)
    except PluralrmError:
        raise
    except Exception as exc:  # a property of theirs
        raise _broken(f"{spec.target!r} cannot say whether it compares", exc) from exc


def _reveals(spec: Spec, model: RewardModel) -> frozenset[Reveals]:
    try:
        return reveals_of(model)
    except PluralrmError:
        raise
    except Exception as exc:  # a property of theirs
        raise _broken(f"{spec.target!r} cannot say what it reveals", exc) from exc


def _identity(file: str | None, model: RewardModel) -> dict[str, str]:
    """Return what must stay the same while a run is resumed: the module's bytes and what the model says of itself."""
    facts = dict(model.identity) if isinstance(model, Identified) else {}
    if file is not None:
        facts["module"] = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    return facts
