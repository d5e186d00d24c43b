"""The page of promises: each has tests that exist, and says what was seen."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
ROW = re.compile(r"^\| (\d+) \|(.*)\|(.*)\|(.*)\|$", re.MULTILINE)


def rows() -> list[tuple[str, ...]]:
    return [found.groups() for found in ROW.finditer(PAGE.read_text(encoding="utf-8"))]


def test_there_are_26_promises_in_order() -> None:
    assert [number for number, *_ in rows()] == [str(number) for number in range(1, 27)]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_a_promise_names_tests_and_what_was_seen(row: tuple[str, ...]) -> None:
    _, promise, shown, seen = row
    assert promise.strip()
    assert NAMED.search(shown)
    assert re.search(r"\d", seen), "a figure"


@pytest.mark.parametrize(("file", "test"), sorted(set(NAMED.findall(PAGE.read_text(encoding="utf-8")))))
def test_every_test_that_is_named_exists(file: str, test: str) -> None:
    assert re.search(rf"^def {test}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
