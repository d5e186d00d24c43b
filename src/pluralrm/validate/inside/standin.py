"""Are the tests themselves at fault? They run once more, and something of their own stands in for every answer.

A stand-in is at once, and is a little of every plain value: it adds, compares, iterates and indexes. Tests that cannot
be asked, or do not end, with it as well are at fault; where they do end with it, what the code answered is.
"""

import ast
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from pluralrm.validate.inside.verdict import decide
from pluralrm.validate.inside.wire import UnfitError, encode

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


class StandIn:
    """What takes the place of an answer that nobody has seen."""

    def __getattr__(self, name: str) -> object:
        _use()
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in _NAMES:
            raise decide("unsupported", f"the tests use .{name} of what the code returns, which may only be plain")
        return lambda *_args, **_kwargs: StandIn()

    def __call__(self, *_args: object, **_kwargs: object) -> object:
        """End the tests: no plain value can be called."""
        raise decide("unsupported", "the tests call what the code returns, and only plain values are returned")

    def __next__(self) -> object:
        if _use():
            return StandIn()
        raise StopIteration

    def __iter__(self) -> object:
        _use()
        return iter([StandIn()])

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


def _same(*_: object) -> StandIn:
    _use()
    return StandIn()


def _constant(value: object) -> Callable[..., object]:
    def returned(*_: object) -> object:
        _use()
        return value

    return returned


_BINARY = "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and or xor"
for _name in _BINARY.split():
    for _side in ("", "r"):
        setattr(StandIn, f"__{_side}{_name}__", _same)
for _name in ("getitem", "neg", "pos", "abs", "invert", "round", "trunc", "floor", "ceil", "reversed"):
    setattr(StandIn, f"__{_name}__", _same)
for _name in ("eq", "ne", "lt", "le", "gt", "ge", "contains", "bool"):
    setattr(StandIn, f"__{_name}__", _truth)
for _name, _value in {"len": 1, "index": 1, "int": 1, "float": 1.0, "str": "1", "repr": "1", "bytes": b"1"}.items():
    setattr(StandIn, f"__{_name}__", _constant(_value))


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
            return StandIn()

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
                setattr(node, field, [guarded for one in block for guarded in self._guarded(one)])
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
