"""Runs the tests. The function that they test is a proxy: the call is answered by another process, in another sandbox.

Tests and expected values never leave this process, and what comes back is a plain value, compared here.

Are the tests themselves at fault? They run once more, and a stand-in takes the place of every answer: it is at once a
little of every plain value, adds, compares, iterates and indexes. Tests that cannot be asked, or do not end, with it as
well are at fault; where they do end with it, what the code answered is.
"""

import ast
import builtins
import importlib
import linecache
import sys
import types
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from pluralrm.validate.inside import OVERREAD, Channel, UnfitError, decode, encode, limit, open_channel


class VerdictError(BaseException):
    """Ends the tests with a verdict. Not an Exception: a test that catches one must not catch this."""

    def __init__(self, kind: str, reason: str) -> None:
        self.kind, self.reason = kind, reason
        super().__init__(kind, reason)


DECIDED: list[VerdictError] = []
"""The first verdict stands, also where a bare `except` in the tests has caught it."""


def decide(kind: str, reason: str) -> VerdictError:
    """Return the end of the tests, to be raised: `wrong`; `unsupported`, for a reason that lies in them; else `fit`."""
    DECIDED.append(VerdictError(kind, reason))
    return DECIDED[0]


# ---------------------------------------------------------------- stand-ins for answers


_MOST = 20_000
"""Uses of stand-ins, and errors that these make, after which whatever is slow is so by answers."""
_PLAIN: tuple[type, ...] = (
    int,
    float,
    complex,
    str,
    bytes,
    bytearray,
    list,
    tuple,
    set,
    frozenset,
    dict,
    range,
    Fraction,
    Decimal,
)
_NAMES = frozenset(name for kind in (*_PLAIN, type(iter([])), type(_ for _ in ())) for name in dir(kind))
MISSED, SWALLOWED = "__missed__", "__swallowed__"
_THEIRS = (ImportError, SyntaxError)
"""Errors that no answer makes. Names that are nowhere bound are found before the tests run."""

_uses = 0


def _use() -> bool:
    """Count one use, and return True every other time: what waits for either ends."""
    global _uses  # noqa: PLW0603 - one process, one run of the tests
    _uses += 1
    if _uses > _MOST:
        raise decide("fit", "")
    return _uses % 2 == 1


class ValueStandIn:
    """What takes the place of an unseen answer."""

    def __getattr__(self, name: str) -> object:
        _use()
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in _NAMES:
            raise decide("unsupported", f"the tests use .{name} of what the code returns, which may only be plain")
        return lambda *_args, **_kwargs: ValueStandIn()

    def __call__(self, *_args: object, **_kwargs: object) -> object:
        """End the tests: no plain value can be called."""
        raise decide("unsupported", "the tests call what the code returns, and only plain values are returned")

    def __next__(self) -> object:
        if _use():
            return ValueStandIn()
        raise StopIteration

    def __iter__(self) -> object:
        _use()
        return iter([ValueStandIn()])

    def __hash__(self) -> int:
        return 1

    def __setitem__(self, key: object, value: object) -> None:
        _use()

    def __delitem__(self, key: object) -> None:
        _use()

    def __complex__(self) -> complex:
        return 1 + 0j

    def __format__(self, spec: str) -> str:
        return "1"


def _truth(*_: object) -> bool:
    return _use()


def _same(*_: object) -> ValueStandIn:
    _use()
    return ValueStandIn()


def _constant(value: object) -> Callable[..., object]:
    def returned(*_: object) -> object:
        _use()
        return value

    return returned


_BINARY = "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and or xor"
for _name in _BINARY.split():
    for _side in ("", "r"):
        setattr(ValueStandIn, f"__{_side}{_name}__", _same)
for _name in ("getitem", "neg", "pos", "abs", "invert", "round", "trunc", "floor", "ceil", "reversed"):
    setattr(ValueStandIn, f"__{_name}__", _same)
for _name in ("eq", "ne", "lt", "le", "gt", "ge", "contains", "bool"):
    setattr(ValueStandIn, f"__{_name}__", _truth)
for _name, _value in {"len": 1, "index": 1, "int": 1, "float": 1.0, "str": "1", "repr": "1", "bytes": b"1"}.items():
    setattr(ValueStandIn, f"__{_name}__", _constant(_value))


class Nobody:
    """In the place of the code: every function is there, and answers at once."""

    raised: BaseException | None = None
    answered, told = False, ""

    def __init__(self) -> None:
        self.calls, self.missed = 0, 0

    def find(self, names: list[str]) -> list[str]:
        """Return all of them."""
        return names

    def proxy(self, name: str) -> Callable[..., object]:
        """Return a function that returns a stand-in, where a call of it can be sent."""

        def called(*args: object, **kwargs: object) -> object:
            self.calls += 1
            before = _uses
            _use()
            try:
                encode(args), encode(kwargs)
            except UnfitError as exc:
                if _uses == before + 1:  # no stand-in is in it
                    raise decide("unsupported", f"a test calls {name} with {exc}, which cannot be sent to it") from exc
            return ValueStandIn()

        return called

    def miss(self) -> None:
        """Go on after an error: with a stand-in there are some. The first may be the tests' own."""
        error = sys.exception()
        if isinstance(error, _THEIRS) and not self.missed:
            raise decide("unsupported", f"the tests raise {type(error).__name__}: {error}"[:160])
        if not isinstance(error, MemoryError):  # a stand-in takes none
            _use()
        self.missed += 1


class Heedless(ast.NodeTransformer):
    """Makes tests go through all that they say, whatever is raised: asserts are evaluated, and ask for nothing."""

    def __init__(self, counted: Callable[[ast.Assert], ast.stmt]) -> None:
        self._counted = counted

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Guard each statement of each block."""
        super().generic_visit(node)
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                setattr(node, field, [guarded for statement in block for guarded in self._guarded(statement)])
        return node

    def _guarded(self, statement: ast.stmt) -> list[ast.stmt]:
        if isinstance(statement, (ast.Global, ast.Nonlocal)) or (
            isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        ):
            return [statement]
        after: list[ast.stmt] = []
        if isinstance(statement, ast.Assert):
            after = [self._counted(statement)]
            statement = ast.copy_location(ast.Expr(statement.test), statement)
        missed = ast.Expr(ast.Call(ast.Name(MISSED, ast.Load()), [], []))
        handler = ast.ExceptHandler(ast.Name(SWALLOWED, ast.Load()), None, [missed])
        return [ast.copy_location(ast.Try([statement], [handler], [], []), statement), *after]


# ---------------------------------------------------------------- the exam


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
            error = reply["raised"]
            raise decide("wrong", f"the code raises when it is loaded: {_summary(error)}")
        defined = reply.get("found")
        return [name for name in names if isinstance(defined, list) and name in defined]

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


def _summary(error: object) -> str:
    if not isinstance(error, dict):
        return "something unreadable"
    classes = error.get("classes")
    name = str(classes[0]) if isinstance(classes, list) and classes else "something"
    return f"{name}: {error.get('message')}"[:_SHOWN]


def _exception(error: object, summary: str) -> Exception:
    """Return the nearest built-in exception; what is none, such as SystemExit, is a verdict."""
    message = str(error.get("message")) if isinstance(error, dict) else ""
    classes = error.get("classes") if isinstance(error, dict) else None
    for name in map(str, classes if isinstance(classes, list) else []):
        kind = getattr(builtins, name, None)
        if name in _NOT_BY_MESSAGE or not isinstance(kind, type) or not issubclass(kind, BaseException):
            continue
        if issubclass(kind, Exception):
            return kind(message)
        break
    raise decide("wrong", summary)


def _bring_back(args: tuple[object, ...], changed: object) -> None:
    """Give lists, sets and dicts the content that a function which returned None left in them."""
    if not isinstance(changed, tuple) or len(changed) != len(args):
        return
    for argument, value in zip(args, changed, strict=True):
        if type(argument) is not type(value):
            continue
        if isinstance(argument, (list, bytearray)):
            argument.clear()
            argument.extend(value)  # type: ignore[arg-type]
        elif isinstance(argument, (set, dict)):
            argument.clear()
            argument.update(value)  # type: ignore[arg-type, call-overload]


# ---------------------------------------------------------------- the tests


class _Counted(ast.NodeTransformer):
    """Counts what is asserted: tests in which nothing is prove nothing."""

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        return [node, _counted(node)]


def _counted(node: ast.Assert) -> ast.stmt:
    return ast.copy_location(ast.Expr(ast.Call(ast.Name(_COUNT, ast.Load()), [], [])), node)


_Subject = Candidate | Nobody


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


def _names(tree: ast.Module, entry: str, code: _Subject) -> dict[str, object]:
    """Return what the names stand for that tests use and do not bind: functions of the code, or modules."""
    free = unbound(tree)
    names = list(dict.fromkeys([*([entry] if entry else []), *free]))
    defined = code.find(names)
    if isinstance(code, Nobody):
        dotted = [node.value for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
        modules = {base.id for base in dotted if isinstance(base, ast.Name)} & sys.stdlib_module_names
        defined = [name for name in defined if name == entry or name not in modules]
    bound: dict[str, object] = {name: code.proxy(name) for name in defined}
    for name in free:
        # Published tests lean on what the prompt imports.
        if name not in bound and name != entry and name in sys.stdlib_module_names:
            bound[name] = importlib.import_module(name)
    missing = [name for name in names if name not in bound and name != "candidate"]
    if entry in missing or (missing and not entry):
        raise decide("wrong", f"the code defines no {entry or missing[0]!s}")
    if missing:
        raise decide("unsupported", f"the tests use {missing[0]}, which neither they nor the code define")
    return {"candidate": bound[entry], **bound} if entry else bound


def run(tests: str, entry: str, code: _Subject) -> None:
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


def _as_python(code: _Subject) -> dict[str, object]:
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


def verdict(tests: str, entry: str, code: _Subject) -> tuple[str, str]:
    """Return what the tests say, and why: right, wrong, unsupported, or unfit where an answer may be the reason."""
    kind, reason = _verdict(tests, entry, code)
    return ("unfit" if kind == "unsupported" and code.answered else kind), reason


def _verdict(tests: str, entry: str, code: _Subject) -> tuple[str, str]:
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


def _blamed(exc: BaseException, code: _Subject) -> tuple[str, str]:
    """Return whether an error says something of the code, and what."""
    if exc is code.raised:
        return "wrong", code.told
    if isinstance(exc, AssertionError):
        detail = f" ({message})" if (message := _message(exc)) else ""
        return "wrong", f"{_line(exc)} does not hold{detail}"[: 2 * _SHOWN]
    unsupported = isinstance(exc, (NameError, ImportError, SyntaxError, SystemExit)) or not code.calls
    # Else it is most likely what a value was not made for, as in len(None).
    return ("unsupported" if unsupported else "wrong"), f"{_line(exc)} raised {type(exc).__name__}: {_message(exc)}"[
        : 2 * _SHOWN
    ]


def _message(exc: BaseException) -> str:
    """Return what an error says; '' where it holds what cannot be written, such as a number of 5,000 digits."""
    try:
        return str(exc)
    except Exception:  # noqa: BLE001 - whatever it holds
        return ""


def _line(exc: BaseException) -> str:
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
    code: _Subject = Nobody() if setup["alone"] else Candidate(channel)
    channel.write(verdict(str(setup["tests"]), str(setup["entry"]), code), b"!")
