"""The coverage gate counts each statement that is run, and fails on a planted one that no test executes."""

from pathlib import Path

from tests import executed

TEXT = '''"""A module."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    x = 1


class Asked(Protocol):
    def ask(self) -> int: ...


def worth(value: int) -> int:
    """Return it."""
    if (
        value < 0
    ):
        return (
            -value
        )
    try:
        return value
    except ValueError:
        raise


def later() -> None:
    value: int
'''


def test_a_line_that_no_test_executes_is_named(tmp_path: Path) -> None:
    file = tmp_path / "planted.py"
    file.write_text(TEXT)
    imported, first, inside, tried, within, handler = 3, 15, 18, 21, 22, 24
    assert executed.missing({}, [file]) == {file: [imported, first, inside, tried, within, handler]}
    seen = {str(file): {imported, 16, 19, tried, within}}  # a statement is seen where any of its lines is
    assert executed.missing(seen, [file]) == {file: [handler]}
    assert executed.missing({str(file): seen[str(file)] | {handler}}, [file]) == {}


def test_the_gated_files_are_those_that_numbers_come_from() -> None:
    names = {file.relative_to(executed.SOURCE).as_posix() for file in executed.gated_files()}
    assert {"core.py", "stats/intervals.py", "metrics/official/orders.py", "runs/loop.py"} <= names
    assert all(file in executed.gated_files() for file in executed.ELSEWHERE)
