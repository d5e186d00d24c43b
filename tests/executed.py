"""The coverage gate: each line of core, stats, metrics and runs is executed by a test (`make test-coverage`).

    python -m pytest -p tests.executed

On Python 3.12 or newer each line is reported once and then no more, which costs nothing; before, a function is traced
until each of its lines was seen. Workers of a run with `--numprocesses` hand over what they saw. Not counted:
what is there for readers and type checkers alone (docstrings, `if TYPE_CHECKING`, protocols), and `ELSEWHERE`.
"""

import ast
import runpy
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

SOURCE = Path(__file__).parents[1] / "src/pluralrm"
GATED = ("card.py", "core.py", "stats/*.py", "metrics/**/*.py", "runs/*.py")
ELSEWHERE = {SOURCE / "runs/workers.py": frozenset({"_load", "_end_with", "_work"})}
"""Functions that run in a process of their own."""

_files: dict[str, set[int]] = {}
"""The lines that count."""
_open: dict[CodeType, set[int]] = {}
"""The lines of each function that were not seen yet."""
_seen: defaultdict[str, set[int]] = defaultdict(set)


def gated_files(source: Path = SOURCE) -> list[Path]:
    """Return the files whose lines count."""
    return sorted(file for pattern in GATED for file in source.glob(pattern))


@cache
def statements(file: Path) -> tuple[range, ...]:
    """Return the lines of each statement that is run, of a block its head."""
    return tuple(_statements(ast.parse(file.read_text(encoding="utf-8")).body, ELSEWHERE.get(file, frozenset())))


def missing(seen: Mapping[str, set[int]], files: Sequence[Path]) -> dict[Path, list[int]]:
    """Return the first lines of the statements of which no line was seen."""
    known = {file: seen.get(str(file), set()) for file in files}
    lines = {file: [each.start for each in statements(file) if not known[file].intersection(each)] for file in files}
    return {file: found for file, found in lines.items() if found}


def _statements(body: Sequence[ast.stmt], elsewhere: frozenset[str]) -> Iterator[range]:
    for node in body:
        if _is_read_only(node) or getattr(node, "name", "") in elsewhere:
            continue
        blocks = [value for _, value in ast.iter_fields(node) if isinstance(value, list)]
        inner = [part for block in blocks for part in block if isinstance(part, ast.stmt)]
        inner += [part for block in blocks for each in block if isinstance(each, _CLAUSES) for part in each.body]
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            last = min((part.lineno - 1 for part in inner), default=node.end_lineno or node.lineno)
            yield range(node.lineno, max(last, node.lineno) + 1)
        yield from _statements(inner, elsewhere)


_CLAUSES = (ast.ExceptHandler, ast.match_case)


def _is_read_only(node: ast.stmt) -> bool:
    """Return whether a statement is there for readers alone: a docstring, a type, or what a type checker looks at."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    if isinstance(node, ast.ClassDef):
        return any(ast.unparse(base).startswith("Protocol") for base in node.bases)
    if isinstance(node, ast.AnnAssign):
        return node.value is None
    return (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) or isinstance(node, ast.Global)


def _on_call(frame: FrameType, _event: str, _arg: object) -> Any:
    code = frame.f_code
    wanted = _files.get(code.co_filename)
    if wanted is None:
        return None
    left = _open.get(code)
    if left is None:
        left = _open[code] = {line for *_, line in code.co_lines() if line in wanted}
    return _on_line if left else None


def _on_line(frame: FrameType, event: str, _arg: object) -> Any:
    if event == "line":
        code = frame.f_code
        _open[code].discard(frame.f_lineno)
        _seen[code.co_filename].add(frame.f_lineno)
    return _on_line


def _trace(how: Any) -> None:
    threading.settrace(how)
    sys.settrace(how)


class _Monitor:
    """The same by `sys.monitoring`."""

    def __init__(self) -> None:
        self._api: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        self._tool: int = self._api.COVERAGE_ID

    def start(self) -> None:
        """Watch each function of the files from its first call on."""
        self._api.use_tool_id(self._tool, "tests.executed")
        self._api.register_callback(self._tool, self._api.events.PY_START, self._on_start)
        self._api.register_callback(self._tool, self._api.events.LINE, self._on_line)
        self._api.set_events(self._tool, self._api.events.PY_START)

    def stop(self) -> None:
        """Watch nothing any more."""
        self._api.set_events(self._tool, 0)
        self._api.free_tool_id(self._tool)

    def _on_start(self, code: CodeType, _offset: int) -> object:
        if code.co_filename in _files:
            self._api.set_local_events(self._tool, code, self._api.events.LINE)
        return self._api.DISABLE

    def _on_line(self, code: CodeType, line: int) -> object:
        _seen[code.co_filename].add(line)
        return self._api.DISABLE


_monitor = _Monitor() if sys.version_info >= (3, 12) else None


def pytest_configure() -> None:
    """Begin before a test file is imported."""
    package = find_spec("pluralrm")
    if package is None or Path(str(package.origin)).parent != SOURCE:
        raise pytest.UsageError(f"the gate counts lines of {SOURCE}, and Python imports {package and package.origin}")
    _files.update({str(file): {line for lines in statements(file) for line in lines} for file in gated_files()})
    if _monitor is None:
        _trace(_on_call)
    else:
        _monitor.start()
    for file in map(Path, _files):  # in a worker, conftest.py and what it imports come before this
        name = ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
        if name in sys.modules:
            runpy.run_path(str(file), run_name=name)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker saw; one that crashed hands over nothing."""
    for file, lines in getattr(node, "workeroutput", {}).get("executed", {}).items():
        _seen[file].update(lines)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop, and fail where a line was executed by no test."""
    if _monitor is None:
        _trace(None)
    else:
        _monitor.stop()
    worker: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if worker is not None:
        worker["executed"] = {file: sorted(lines) for file, lines in _seen.items()}
    elif missing(_seen, gated_files()):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the lines."""
    for file, lines in missing(_seen, gated_files()).items():
        name = file.relative_to(SOURCE.parents[1])
        terminalreporter.write_line(f"{name}: no test executes line {', '.join(map(str, lines))}", red=True)
