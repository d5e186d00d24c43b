"""The room in which a stranger's chat template runs: out of reach of this process, and within a budget.

A template may use the filters, tests, methods and functions listed here and no others. The list leaves out what makes
much from little (`center`, `zfill`, `round`, ...). What is on it has a price: all that a template makes (a value, an
output, a turn of a loop, a call) is paid for from one Budget, and what multiplies is paid for before it is made. So the
time and the memory of a render are bounded by the budget, whatever the template says.
"""

import json
import re
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from datetime import UTC, datetime
from functools import lru_cache
from operator import length_hint
from string import Formatter
from types import BuiltinMethodType, MethodType
from typing import cast

from jinja2 import Template, nodes, pass_context
from jinja2 import TemplateError as JinjaError
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

STEP = 20
"""The price of one operation, one call, one turn of a loop; sizes come on top."""
_VALUE = 4
_AT_ONCE = 8
"""Characters for the price of one, where texts are searched or put together: that goes at the memory's speed."""

_SMALLEST = 1_000_000
_PER_CHARACTER = 400
_LARGEST_NUMBER = 2**64
_LARGEST_POWER = 64
_LARGEST_INDENT = 64
_CONTAINERS = (list, tuple, dict, KeysView, ValuesView, ItemsView)


class Budget:
    """What is left for one render; it grows with the characters that the template is given."""

    def __init__(self, characters: int) -> None:
        self._left = _SMALLEST + _PER_CHARACTER * characters

    def spend(self, cost: int) -> None:
        """Pay, or raise a SecurityError."""
        self._left -= cost
        if self._left < 0:
            raise SecurityError("it makes far more than a chat template has to (a loop or a text without end?)")

    def weigh(self, value: object) -> int:
        """Pay for a value with all that it contains, as often as it would be written out; return the price."""
        before, waiting = self._left, [value]
        while waiting:
            here = waiting.pop()
            self.spend(_VALUE + (len(here) if isinstance(here, (str, *_CONTAINERS)) else 0))
            if isinstance(here, _CONTAINERS):
                waiting += here
                waiting += here.values() if isinstance(here, dict) else ()
            elif isinstance(here, int) and not -_LARGEST_NUMBER < here < _LARGEST_NUMBER:
                raise SecurityError("it makes a whole number beyond 64 bits")
        return before - self._left

    def work(self, subject: object, *others: object) -> None:
        """Pay for the most that can be made of a subject with others, or searched in it: each part with all of them.

        So much at most comes of `replace`, `join`, `%` or `format`, and so long at most takes `rfind` or `strip`.
        """
        self.weigh(subject)
        self.spend(STEP + length_hint(subject, 1) * self.weigh(others) // _AT_ONCE)

    def gather(self, items: Iterable[object]) -> list[object]:
        """Return the items as a list, each paid for as it comes."""
        gathered = []
        for item in items:
            self.weigh(item)
            gathered.append(item)
        return gathered

    def count(self, items: Iterable[object], price: int) -> list[object]:
        """Return the items as a list, at one price each, whatever they hold."""
        counted = []
        for item in items:
            self.spend(price)
            counted.append(item)
        return counted

    def operate(self, operator: str, left: object, right: object) -> None:
        """Pay for what an operator will make; powers and wide formats are a SecurityError."""
        if operator == "%" and isinstance(left, str):
            check_format(left)
            self.work(left, right)
        elif operator == "**" and isinstance(right, int) and abs(right) > _LARGEST_POWER:
            raise SecurityError(f"it raises to the power of {right}")
        elif operator == "*":
            self.spend(max(0, _repeated(left, right), _repeated(right, left)))
        self.spend(STEP + self.weigh((left, right)))


def _repeated(text: object, times: object) -> int:
    return len(text) * times if isinstance(text, (str, list, tuple)) and isinstance(times, int) else 0


def check_format(text: str) -> None:
    """Raise where a text for `%` may ask for a width of more than 999, or for one that an argument says."""
    if re.search(r"\d{4}|%[-#0 +\d.]*\*", text):
        raise SecurityError("it formats with a width")


def check_fields(text: str) -> None:
    """Raise where a text for `str.format` has a field wider than 999, or as wide as an argument says."""
    for _, _, form, _ in Formatter().parse(text):
        if form and re.search(r"\d{4}|\{", form):
            raise SecurityError("it formats with a width")


def check_indent(width: object) -> None:
    """Raise where a text would be indented by far."""
    if isinstance(width, int) and width > _LARGEST_INDENT:
        raise SecurityError(f"it indents by {width}")


TODAY = datetime(2024, 7, 26, tzinfo=UTC)
"""What a template that asks for the date is told, on every day: a score must not change overnight."""

FAULTS = (JinjaError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What a template can raise while it runs."""
COMPILE_FAULTS = (*FAULTS, MemoryError, SyntaxError)
"""What Python can raise, besides, over the code that a template is turned into."""

_LONGEST_SOURCE = 100_000
_BUDGET = "the budget"  # not an identifier, and so out of a template's reach; so are these filters:
_WEIGH, _COUNT, _STEP = "weigh it", "count it", "pay a step"

_SCOPES = ("_loop_vars", "_block_vars")  # what Jinja adds to the arguments of any call

_METHODS = frozenset(
    """capitalize casefold changed count cycle endswith find format format_map get index isalnum isalpha isascii
    isdecimal isdigit islower isnumeric isspace istitle isupper items join keys lower lstrip partition removeprefix
    removesuffix replace rfind rindex rpartition rsplit rstrip split splitlines startswith strip swapcase title upper
    values""".split()  # noqa: SIM905
)
_FILTERS = frozenset(
    """abs capitalize count d default dictsort e escape first float indent int items join last length list lower map max
    min reject rejectattr replace reverse safe select selectattr sort string title trim unique upper""".split()  # noqa: SIM905
)
_SHALLOW = frozenset({"length", "count"})
"""Filters that look into nothing, and take the same time over anything."""
_TESTS = frozenset(TESTS) - {"filter", "test"}
_BY_ATTRIBUTE = ("attr", "map", "selectattr", "rejectattr")
_INHERITANCE = (nodes.Extends, nodes.Include, nodes.Import, nodes.FromImport, nodes.Block)


# ---------------------------------------------------------------- what a template is given


class _Namespace(Namespace):
    """Jinja's namespace, which shows nothing of what it holds: through namespaces a value could contain itself."""

    def __repr__(self) -> str:
        return "<namespace>"


class _Dict:
    """`dict(...)` without the class behind it."""

    def __call__(self, *args: object, **kwargs: object) -> dict[object, object]:
        return dict(*args, **kwargs)  # type: ignore[return-value]


def _raise_exception(message: object) -> None:
    raise JinjaError(str(message))


def _strftime_now(form: str) -> str:
    if re.search(r"%[^a-zA-Z%]*\d", form):
        raise SecurityError("it formats a date with a width")
    return TODAY.strftime(form)


@pass_context
def _tojson(
    context: Context, value: object, ensure_ascii: object = False, indent: int | str | None = None, **how: object
) -> str:
    """Return JSON without the escapes that HTML needs."""
    budget = _budget(context)
    budget.weigh([value, *how.values()])
    check_indent(indent)
    chunks = json.JSONEncoder(ensure_ascii=bool(ensure_ascii), indent=indent, **how).iterencode(value)  # type: ignore[arg-type]
    return "".join(cast("list[str]", budget.gather(chunks)))


def _budget(context: Context) -> Budget:
    return cast("Budget", context[_BUDGET])


def _filter(name: str, plain: ImmutableSandboxedEnvironment) -> Callable[..., object]:
    @pass_context
    def run(context: Context, subject: object, *args: object, **kwargs: object) -> object:
        budget = _budget(context)
        if name not in _SHALLOW:
            budget.work(subject, *args, *kwargs.values())
        if name == "indent":
            check_indent(args[0] if args else kwargs.get("width"))
        value = plain.call_filter(name, subject, args, kwargs, context=context)
        if isinstance(value, Iterator):
            return iter(budget.gather(value))
        budget.weigh(value)
        return value

    return run


def _test(plain: Callable[..., object]) -> Callable[..., object]:
    @pass_context
    def run(context: Context, *args: object, **kwargs: object) -> object:
        _budget(context).weigh([*args, *kwargs.values()])
        return plain(*args, **kwargs)

    return run


@pass_context
def _weigh(context: Context, value: object) -> object:
    _budget(context).weigh(value)
    return value


@pass_context
def _count(context: Context, items: Iterable[object], price: int) -> list[object]:
    return _budget(context).count(items, price)


@pass_context
def _step(context: Context, price: int) -> None:
    _budget(context).spend(price)


class _Generation(Extension):
    """`{% generation %}` marks what the assistant says, for training; here it only is a scope."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True)).set_lineno(line)


class _Room(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with a list of what is allowed, and a price on it."""

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def __init__(self) -> None:
        # Not optimized, and with a finalize that needs the context: else the compiler computes constant expressions.
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, loopcontrols],
            optimized=False,
            finalize=_weigh,
        )
        plain = ImmutableSandboxedEnvironment()
        listed = {name: _filter(name, plain) for name in _FILTERS}
        self.filters = {**listed, "tojson": _tojson, _WEIGH: _weigh, _COUNT: _count, _STEP: _step}
        self.tests = {name: _test(cast("Callable[..., object]", TESTS[name])) for name in _TESTS}
        self.globals = {
            "range": self.globals["range"],
            "dict": _Dict(),
            "namespace": _Namespace,
            "raise_exception": _raise_exception,
            "strftime_now": _strftime_now,
        }

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        """Return what an operator makes, paid for."""
        budget = _budget(context)
        budget.operate(operator, left, right)
        value = super().call_binop(context, operator, left, right)
        budget.weigh(value)
        return value

    def call(self, context: Context, obj: object, /, *args: object, **kwargs: object) -> object:
        """Return what a function, a method or a macro returns, paid for."""
        if isinstance(obj, (BuiltinMethodType, MethodType)) and obj.__name__ not in _METHODS:
            raise SecurityError(f"it calls .{obj.__name__}(), which no chat template needs")
        budget = _budget(context)
        method = getattr(obj, "__wrapped__", obj)  # `str.format` comes in a wrapper of the sandbox
        own = [value for name, value in kwargs.items() if name not in _SCOPES]
        budget.work(getattr(method, "__self__", None), *args, *own)
        value = super().call(context, obj, *args, **kwargs)
        budget.weigh(value)
        return value

    def wrap_str_format(self, value: object) -> Callable[..., str] | None:
        """Return the sandbox's own `str.format`, once its fields are checked; None for anything else."""
        wrapped = super().wrap_str_format(value)
        if wrapped is not None:
            check_fields(value.__self__)  # type: ignore[attr-defined]
        return wrapped


# ---------------------------------------------------------------- from source to a template


class _Priced(NodeTransformer):
    """Puts a price on what the environment does not hear of: loops, macros, literals, `~`, comparisons, slices."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        weight = _weight(node)
        self.generic_visit(node)
        node.iter = _call(_COUNT, node.iter, nodes.Const(weight))
        return node

    def visit_Macro(self, node: nodes.Macro | nodes.CallBlock) -> nodes.Node:  # noqa: N802
        weight = _weight(node)
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(_call(_STEP, nodes.Const(weight)), lineno=node.lineno))
        return node

    visit_CallBlock = visit_Macro  # noqa: N815

    def visit_List(self, node: nodes.Expr) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return node if getattr(node, "ctx", "load") != "load" else _call(_WEIGH, node)

    visit_Tuple = visit_Dict = visit_List  # noqa: N815

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.nodes = [_call(_WEIGH, part) for part in node.nodes]
        return _call(_WEIGH, node)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.expr = _call(_WEIGH, node.expr)
        for operand in node.ops:
            if not isinstance(operand.expr, nodes.Const):
                operand.expr = _call(_WEIGH, operand.expr)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            return _call(_WEIGH, node)
        if not isinstance(node.arg, nodes.Const):
            node.arg = _call(_WEIGH, node.arg)
        return node


def _weight(node: nodes.Node) -> int:
    """Return what one turn of a loop, or one call of a macro, costs: its parts, and the text that it may write."""
    written = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
    return STEP + sum(1 for _ in node.find_all(nodes.Node)) + written


def _call(name: str, value: nodes.Node, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(value, name, list(args), [], None, None, lineno=value.lineno)


@lru_cache(maxsize=32)
def compile_template(source: str) -> Template:
    """Return the compiled template; a SecurityError says what is refused, other errors are among COMPILE_FAULTS."""
    if len(source) > _LONGEST_SOURCE:
        raise SecurityError(f"it has {len(source)} characters, more than {_LONGEST_SOURCE}")
    room = _Room()
    tree = room.parse(source)
    refused = next(_refused(tree), None)
    if refused is not None:
        raise SecurityError(refused)
    tree = _Priced().visit(tree)
    tree.set_environment(room)
    return room.template_class.from_code(room, room.compile(tree), room.make_globals(None))


def render(template: Template, variables: Mapping[str, object], *, characters: int) -> str:
    """Return the text of a compiled template; what it may spend grows with the characters that it is given."""
    return template.render({**variables, _BUDGET: Budget(characters)})


def _refused(tree: nodes.Template) -> Iterator[str]:
    """Yield what a template must not even spell: hidden attributes, other templates, loops that call themselves."""
    for node in tree.find_all(nodes.Node):
        if isinstance(node, _INHERITANCE):
            yield f"line {node.lineno}: it uses {type(node).__name__.lower()}"
        if isinstance(node, nodes.For) and node.recursive:
            yield f"line {node.lineno}: it loops recursively"
        for name in _attributes(node):
            if any(part.startswith("_") for part in name.split(".")):
                yield f"line {node.lineno}: it reaches for {name!r}"


def _attributes(node: nodes.Node) -> Iterator[str]:
    """Yield the names of attributes and keys that a node spells out."""
    if isinstance(node, (nodes.Getattr, nodes.NSRef)):
        yield node.attr
    if isinstance(node, nodes.Getitem):
        yield from _spelled([node.arg])
    if isinstance(node, nodes.Filter) and node.name in _BY_ATTRIBUTE:
        yield from _spelled([*node.args, *(keyword.value for keyword in node.kwargs)])


def _spelled(expressions: Iterable[nodes.Node]) -> Iterator[str]:
    for node in expressions:
        if isinstance(node, nodes.Const) and isinstance(node.value, str):
            yield node.value
