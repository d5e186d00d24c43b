"""Runs the tests. The function that they test is a proxy: the call is answered by another process, in another sandbox.

Tests and expected values never leave this process, and what comes back is a plain value, compared here.
"""

import ast
import builtins
import importlib
import linecache
import sys
import types
from collections.abc import Callable

from pluralrm.validate.inside.channel import Channel, limit, open_channel
from pluralrm.validate.inside.standin import MISSED, SWALLOWED, Heedless, Nobody
from pluralrm.validate.inside.verdict import DECIDED, VerdictError, decide
from pluralrm.validate.inside.wire import OVERREAD, UnfitError, decode, encode

_SHOWN = 160
_COUNT = "__asserted__"
_NOT_BY_MESSAGE = frozenset({"UnicodeDecodeError", "UnicodeEncodeError", "UnicodeTranslateError", "ExceptionGroup"})
"""Exceptions that take more than a message: they pass as what they are built on."""


class Candidate:
    """The functions of the code that is judged, as proxies."""

    def __init__(self, channel: Channel) -> None:
        self.calls, self.missed, self.answered = 0, 0, False
        self.raised: BaseException | None = None
        self.told = ""
        self._channel, self._turn = channel, 0

    def find(self, names: list[str]) -> list[str]:
        """Return which of some names the code defines; a verdict where it does not even load."""
        reply = self._ask({"find": names})
        if "raised" in reply:
            told = reply["raised"]
            raise decide("wrong", f"the code raises when it is loaded: {_summary(told)}")
        found = reply.get("found")
        return [name for name in names if isinstance(found, list) and name in found]

    def proxy(self, name: str) -> Callable[..., object]:
        """Return a function that stands for one of the code's."""

        def called(*args: object, **kwargs: object) -> object:
            return self._call(name, args, kwargs)

        called.__name__ = called.__qualname__ = name
        return called

    def _call(self, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        self.calls += 1
        try:
            request = {"name": name, "args": encode(args), "kwargs": encode(kwargs)}
        except UnfitError as exc:
            raise decide("unsupported", f"a test calls {name} with {exc}, which cannot be sent to it") from exc
        reply = self._ask(request)
        self.answered = True
        if "unfit" in reply:
            what = str(reply["unfit"])[:_SHOWN]
            raise decide("unsupported", f"{name} returned {what}, which cannot be sent to the tests")
        if "raised" in reply:
            self.told = f"{name} raised {_summary(reply['raised'])}"
            self.raised = _exception(reply["raised"], self.told)
            raise self.raised
        try:
            if reply.get("args") is not None:
                _bring_back(args, decode(reply["args"]))
            return decode(reply.get("value"))
        except UnfitError as exc:
            raise decide("unsupported", f"{name} returned {exc}") from exc

    def _ask(self, request: dict[str, object]) -> dict[str, object]:
        self._turn += 1
        self._channel.write({"turn": self._turn, **request}, b"?")
        try:
            reply = self._channel.read()
        except UnfitError:
            reply = {}
        if reply.get("turn") != self._turn:
            raise decide("wrong", "the code writes to the channel that its answers come by")
        return reply


def _summary(told: object) -> str:
    if not isinstance(told, dict):
        return "something unreadable"
    classes = told.get("classes")
    name = str(classes[0]) if isinstance(classes, list) and classes else "something"
    return f"{name}: {told.get('message')}"[:_SHOWN]


def _exception(told: object, summary: str) -> Exception:
    """Return the nearest built-in exception; what is none, such as SystemExit, is a verdict."""
    message = str(told.get("message")) if isinstance(told, dict) else ""
    classes = told.get("classes") if isinstance(told, dict) else None
    for known in map(str, classes if isinstance(classes, list) else []):
        kind = getattr(builtins, known, None)
        if known in _NOT_BY_MESSAGE or not isinstance(kind, type) or not issubclass(kind, BaseException):
            continue
        if issubclass(kind, Exception):
            return kind(message)
        break
    raise decide("wrong", summary)


def _bring_back(args: tuple[object, ...], changed: object) -> None:
    """Give lists, sets and dicts the content that a function which returned None left in them."""
    if not isinstance(changed, tuple) or len(changed) != len(args):
        return
    for ours, theirs in zip(args, changed, strict=True):
        if type(ours) is not type(theirs):
            continue
        if isinstance(ours, (list, bytearray)):
            ours.clear()
            ours.extend(theirs)  # type: ignore[arg-type]
        elif isinstance(ours, (set, dict)):
            ours.clear()
            ours.update(theirs)  # type: ignore[arg-type, call-overload]


# ---------------------------------------------------------------- the tests


class _Counted(ast.NodeTransformer):
    """Counts what is asserted: tests in which nothing is prove nothing."""

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        return [node, _counted(node)]


def _counted(node: ast.Assert) -> ast.stmt:
    return ast.copy_location(ast.Expr(ast.Call(ast.Name(_COUNT, ast.Load()), [], [])), node)


_Asked = Candidate | Nobody


def unbound(tree: ast.Module) -> list[str]:
    """Return the names that tests use and neither bind nor import."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)} | set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    return list(dict.fromkeys(node.id for node in names if node.id not in bound))


def _calls(tree: ast.Module, name: str) -> bool:
    called = (node.func for statement in tree.body for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(isinstance(func, ast.Name) and func.id == name for func in called)


def _parsed(tests: str) -> ast.Module:
    try:
        tree = ast.parse(tests, "<tests>")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        raise decide("unsupported", f"the tests are not Python: {exc}"[:_SHOWN]) from exc
    if not any(isinstance(node, ast.Assert) for node in ast.walk(tree)):
        raise decide("unsupported", "the tests hold no assert")
    return tree


def _names(tree: ast.Module, entry: str, code: _Asked) -> dict[str, object]:
    """Return what the names stand for that tests use and do not bind: functions of the code, or modules."""
    wanted = unbound(tree)
    asked = list(dict.fromkeys([*([entry] if entry else []), *wanted]))
    found = code.find(asked)
    if isinstance(code, Nobody):
        dotted = [node.value for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
        modules = {base.id for base in dotted if isinstance(base, ast.Name)} & sys.stdlib_module_names
        found = [name for name in found if name == entry or name not in modules]
    bound: dict[str, object] = {name: code.proxy(name) for name in found}
    for name in wanted:
        # Published tests lean on what the prompt imports.
        if name not in bound and name != entry and name in sys.stdlib_module_names:
            bound[name] = importlib.import_module(name)
    missing = [name for name in asked if name not in bound and name != "candidate"]
    if entry in missing or (missing and not entry):
        raise decide("wrong", f"the code defines no {entry or missing[0]!s}")
    if missing:
        raise decide("unsupported", f"the tests use {missing[0]}, which neither they nor the code define")
    return {"candidate": bound[entry], **bound} if entry else bound


def run(tests: str, entry: str, code: _Asked) -> None:
    """Run the tests; VerdictError where they cannot be, AssertionError and others as they come."""
    tree = _parsed(tests)
    module = types.ModuleType("tests")
    asserted: list[bool] = []
    names = _names(tree, entry, code)
    module.__dict__.update(names, **{_COUNT: lambda: asserted.append(code.calls > 0)}, **_as_python(code))
    if isinstance(code, Nobody):
        module.__dict__.update({MISSED: code.miss, SWALLOWED: Exception})
    called = _calls(tree, "check")
    linecache.cache["<tests>"] = (len(tests), None, tests.splitlines(keepends=True), "<tests>")
    through: ast.NodeTransformer = Heedless(_counted) if isinstance(code, Nobody) else _Counted()
    exec(compile(ast.fix_missing_locations(through.visit(tree)), "<tests>", "exec"), module.__dict__)  # noqa: S102
    if isinstance(module.__dict__.get("check"), types.FunctionType) and not called:
        if not entry:
            raise decide("unsupported", "check(candidate) needs the name of the function that it checks")
        module.__dict__["check"](names[entry])
    for name, test in list(module.__dict__.items()):
        if name.startswith("test") and isinstance(test, types.FunctionType) and not test.__code__.co_argcount:
            test()
    if not any(asserted) and not code.missed:
        raise decide("unsupported", "the tests assert nothing after they have called the code")


def _as_python(code: _Asked) -> dict[str, object]:
    """Return eval, exec and compile for tests: none of them takes a text that the code may have written."""

    def guarded(name: str) -> Callable[..., object]:
        def called(*args: object) -> object:
            if code.calls:
                raise decide("unsupported", f"the tests call {name} after they have called the code")
            caller = sys._getframe(1)  # noqa: SLF001 - whose names they are
            where = (caller.f_globals, caller.f_locals) if len(args) == 1 else ()
            return getattr(builtins, name)(*args, *where)

        return called

    return {name: guarded(name) for name in ("eval", "exec", "compile")}


def verdict(tests: str, entry: str, code: _Asked) -> tuple[str, str]:
    """Return what the tests say, and why: right, wrong, unsupported, or unfit where an answer may be the reason."""
    kind, reason = _said(tests, entry, code)
    return ("unfit" if kind == "unsupported" and code.answered else kind), reason


def _said(tests: str, entry: str, code: _Asked) -> tuple[str, str]:
    try:
        run(tests, entry, code)
    except VerdictError:
        pass
    except (Exception, SystemExit) as exc:  # noqa: BLE001 - tests may raise anything
        if not DECIDED and not OVERREAD:
            return _blamed(exc, code)
    if DECIDED:
        return DECIDED[0].kind, DECIDED[0].reason
    return ("unsupported", f"a test reads {OVERREAD[0]}") if OVERREAD else ("right", "")


def _blamed(exc: BaseException, code: _Asked) -> tuple[str, str]:
    """Return whether an error says something of the code, and what."""
    if exc is code.raised:
        return "wrong", code.told
    if isinstance(exc, AssertionError):
        said = f" ({message})" if (message := _message(exc)) else ""
        return "wrong", f"{_place(exc)} does not hold{said}"[: 2 * _SHOWN]
    theirs = isinstance(exc, (NameError, ImportError, SyntaxError, SystemExit)) or not code.calls
    # Else it is most likely what a value was not made for, as in len(None).
    return ("unsupported" if theirs else "wrong"), f"{_place(exc)} raised {type(exc).__name__}: {_message(exc)}"[
        : 2 * _SHOWN
    ]


def _message(exc: BaseException) -> str:
    """Return what an error says; '' where it holds what cannot be written, such as a number of 5,000 digits."""
    try:
        return str(exc)
    except Exception:  # noqa: BLE001 - whatever it holds
        return ""


def _place(exc: BaseException) -> str:
    """Return the last line of the tests that an error came by."""
    number, trace = 0, exc.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<tests>":
            number = trace.tb_lineno
        trace = trace.tb_next
    text = linecache.getline("<tests>", number).strip()
    return f"line {number}, {text[:_SHOWN]!r}," if number else "the tests"


def main() -> None:
    """Run the tests that the process outside sends, and tell it what they say."""
    channel = open_channel()
    setup = channel.read()
    limit(setup)
    code: _Asked = Nobody() if setup["alone"] else Candidate(channel)
    channel.write(verdict(str(setup["tests"]), str(setup["entry"]), code), b"!")


if __name__ == "__main__":
    main()
