"""Other people's objects by name: `python:package.module:make,key=value`, wherever a name of ours is accepted.

The module is found as `python -m` would find it (the current folder first). `make` is a class or a function, and keys
become its keyword arguments, as strings. What a made object must have is checked by the caller.
"""

import hashlib
import importlib
import inspect
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TypeVar, get_args

from pluralrm.core import Identified, Reveals
from pluralrm.errors import PluralrmError, did_you_mean
from pluralrm.specs import Form, Spec

KIND = "python"
FORM = Form("required", open_keys=True, example="python:package.module:Class")
"""What a spec of this kind accepts: keys belong to the code that it names."""

_REVEALS: tuple[Reveals, ...] = get_args(Reveals)
_LIBRARIES = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
_OURS = ("<frozen ", str(Path(__file__).parent))
_NOT_THEIRS = (*_OURS, *_LIBRARIES)
"""How the names of files begin that are the library's, not the user's."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a spec is to give: its noun, the example in messages, the error that is raised, and the page about it."""

    noun: str
    example: str
    error: type[PluralrmError]
    page: str


@dataclass(frozen=True, slots=True)
class Maker:
    """The class or function that a spec names, and the file of its module."""

    spec: Spec
    wanted: Wanted
    call: Callable[..., object]
    file: str | None

    def make(self, **more: object) -> object:
        """Return what it makes with the spec's keys; `more` are arguments that are no texts."""
        options = {**self.spec.options, **more}
        try:
            inspect.signature(self.call).bind(**options)
        except TypeError as exc:
            raise self.wanted.error(f"{self.spec.target!r} cannot be made with {options}: {exc}") from exc
        return self.ask(lambda: self.call(**options), f"cannot be made with {options}")

    def takes(self, name: str) -> bool:
        """Return whether there is a parameter of this name."""
        try:
            return name in inspect.signature(self.call).parameters
        except (TypeError, ValueError):  # a class of C without a signature
            return False

    def ask(self, what: Callable[[], Answer], cannot: str) -> Answer:
        """Return what the user's code says; an exception there is an error with its place in that code."""
        try:
            with prints_to_stderr():
                return what()
        except PluralrmError:
            raise
        except (Exception, SystemExit) as exc:
            raise broken(f"{self.spec.target!r} {cannot}", exc, self.wanted.error) from exc

    def require(self, obj: object, methods: Mapping[str, str]) -> None:
        """Raise where an object lacks one of these methods; each is shown with its arguments."""
        for method, usage in methods.items():
            if not callable(getattr(obj, method, None)):
                raise self.wanted.error(
                    f"{self.spec.target!r} has no {usage} method: it makes a {type(obj).__name__}, wanted a "
                    f"{self.wanted.noun}; see {self.wanted.page}"
                )

    def identity(self, obj: object) -> dict[str, str]:
        """Return what must stay the same while work is resumed: the module's bytes, and what the object says itself."""
        facts = self.ask(lambda: dict(obj.identity) if isinstance(obj, Identified) else {}, "cannot say its identity")
        return facts if self.file is None else {**facts, "module": source_hash(self.file)}


def find(spec: Spec, kind: Wanted) -> Maker:
    """Return the class or function that a spec names; nothing is made yet."""
    module_name, _, attribute = spec.target.partition(":")
    if not (module_name and attribute):
        raise kind.error(f"found 'python:{spec.target}', wanted python:{kind.example}")
    if module_name.endswith(".py") or not all(part.isidentifier() for part in module_name.split(".")):
        raise kind.error(_no_module_name(module_name, attribute, kind))
    module = _import(module_name, kind.error)
    call: object = getattr(module, attribute, None)
    if call is None:
        names = [name for name in vars(module) if not name.startswith("_")]
        raise kind.error(f"module {module_name!r} has no {attribute!r}.{did_you_mean(attribute, names)}")
    if not callable(call):
        raise kind.error(
            f"{spec.target!r} is not a class or a function that makes a {kind.noun}: found {type(call).__name__}"
        )
    return Maker(spec, kind, call, module.__file__)


def read_reveals(declared: object, owner: str, error: type[PluralrmError]) -> frozenset[Reveals]:
    """Return a declared set of what is shown; an unknown word, or a text in place of a set, is an error."""
    if isinstance(declared, str) or not isinstance(declared, Iterable):
        raise error(f"{owner}: reveals is {declared!r}; wanted a set of {', '.join(_REVEALS)}")
    words = list(declared)
    if strange := [word for word in words if word not in _REVEALS]:
        raise error(f"{owner}: reveals {strange[0]!r}.{did_you_mean(str(strange[0]), _REVEALS)}")
    return frozenset(word for word in _REVEALS if word in words)


def prints_to_stderr() -> AbstractContextManager[object]:
    """Return what sends somebody's prints to stderr, for stdout may be JSON that another program reads.

    In the main thread alone: all threads have one stdout, and two that leave in turn would not restore it.
    """
    main = threading.current_thread() is threading.main_thread()
    return redirect_stdout(sys.stderr) if main else nullcontext()


def source_hash(file: str) -> str:
    """Return the SHA-256 of a module's bytes."""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def broken(what: str, exc: BaseException, error: type[PluralrmError]) -> PluralrmError:
    """Return the error in somebody's code with its place: the last line of theirs that Python was at."""
    problem = f"{type(exc).__name__}: {exc}"
    if isinstance(exc, SyntaxError) and exc.filename:  # its text names the line already, not always the whole path
        location, problem = f"{exc.filename}:{exc.lineno}", f"{type(exc).__name__}: {exc.msg}"
    else:
        location = place_of(exc)
    return error(": ".join(filter(None, (what, location, problem))))


def place_of(exc: BaseException) -> str:
    """Return the last line of the user's own code that Python was at, as FILE:LINE; '' where it was in ours only.

    A module that is installed lies among libraries: then it is the last line that is not ours.
    """
    frames = [frame for frame in traceback.extract_tb(exc.__traceback__) if not frame.filename.startswith(_OURS)]
    own = [frame for frame in frames if not frame.filename.startswith(_NOT_THEIRS)] or frames
    return f"{own[-1].filename}:{own[-1].lineno}" if own else ""


def _import(name: str, error: type[PluralrmError]) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        with prints_to_stderr():
            return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name is None or not (name == exc.name or name.startswith(f"{exc.name}.")):
            raise broken(f"module {name!r} cannot be imported", exc, error) from exc  # what it imports is missing
        where = "in the current folder or on the Python path"
        raise error(f"no module {name!r} {where}; wanted python:MODULE:NAME") from exc
    except PluralrmError:
        raise
    except (Exception, SystemExit) as exc:  # a script without `if __name__ == "__main__"` parses our command line
        raise broken(f"module {name!r} cannot be imported", exc, error) from exc


def _no_module_name(module: str, attribute: str, kind: Wanted) -> str:
    """Return what to write instead of a path, or of something else that Python could not import by name."""
    path = Path(module.removesuffix(".py"))
    if not path.name.isidentifier():
        return f"{module!r} is no name of a Python module; wanted python:{kind.example}"
    folder = "" if path.parent == Path() else f"go to its folder (cd {path.parent}) and "
    return f"{module!r} is a path, wanted the name of a module: {folder}write python:{path.name}:{attribute}"


def asks_of(spec: Spec, kind: Wanted) -> tuple[str, ...]:
    """Return the chat models that somebody's class says it asks (`asks = ("gpt-x",)`), and the class itself."""
    names: object = getattr(find(spec, kind).call, "asks", ())
    if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
        raise kind.error(f"{spec.target!r}: asks is {names!r}; wanted the names of chat models, as in asks = ('m',)")
    return (spec.target, *names)
