"""What the table of items holds where not everything fits."""

import json
from dataclasses import replace
from typing import Any

import pytest

from pluralrm.core import Failure
from pluralrm.digests import digest
from pluralrm.report.items import _drawn, _hashes, _scores, item_table
from pluralrm.report.sections import Section, read_sources, sections
from tests.metrics.rows import row
from tests.report.folders import folders


@pytest.fixture(scope="module")
def section(tmp_path_factory: pytest.TempPathFactory) -> Section:
    [found] = sections(read_sources([folders(tmp_path_factory.mktemp("runs"), items=60)]))
    return found


@pytest.mark.parametrize("room", [3_000, 10_000, 20_000, 40_000, 400_000])
def test_the_table_keeps_to_its_room_and_says_what_it_holds(section: Section, room: int) -> None:
    table = item_table(section, room)
    data = json.loads(json.dumps(table.data))
    assert (len(data["items"]), len(data["views"])) == (table.items, table.complete)
    assert table.total == 60
    # One item may stand over the edge: it was begun before the edge was reached.
    assert len(json.dumps(data, separators=(",", ":"))) <= room + 4_000
    if room == 400_000:
        assert table.complete == table.items == 60


def test_more_room_only_adds(section: Section) -> None:
    tables: list[Any] = [item_table(section, room).data for room in (5_000, 15_000, 45_000)]
    held = [{item[0] for item in table["items"]} for table in tables]
    assert held[0] < held[1] <= held[2]


def test_items_are_drawn_evenly_over_domains_whatever_the_order_of_the_file() -> None:
    rows = [row(f"i{n}", (1, 0), domain="Bread" if n < 30 else "Cake") for n in range(40)]
    drawn = _drawn(rows)
    assert drawn[:20:2] != sorted(drawn[:20:2])
    assert sum(int(name[1:]) >= 30 for name in drawn[:20]) == 10
    assert sorted(drawn) == sorted(one.item for one in rows)
    assert _drawn([*rows[:30][::-1], *rows[30:][::-1]]) == drawn


def test_rounding_never_ties_what_differed() -> None:
    failures: dict[tuple[str, str], int] = {}
    for scores in ((1.00001, 1.00002), (123456.0, 123457.0), (0.1, 0.1 + 1e-16), (1e-300, 2e-300)):
        shown = _scores(scores, failures, text=True)
        assert len(set(shown)) == len(set(scores))
    assert _scores((0.5, 0.5), failures, text=True) == [0.5, 0.5]
    assert not failures


def test_a_failure_is_no_number_and_its_words_can_be_left_out() -> None:
    failures: dict[tuple[str, str], int] = {}
    scores = (Failure("parse", "said: secret"), 1.0)
    assert _scores(scores, failures, text=True) == ["0", 1.0]
    assert _scores(scores, failures, text=False) == ["1", 1.0]
    assert list(failures) == [("parse", "said: secret"), ("parse", "")]


def test_an_item_has_the_posts_that_each_model_had_room_for(section: Section) -> None:
    """Two models under one condition, and the second keeps one post of several."""
    full, last = (run for run in section.runs if run.condition == "raw:2")
    few = replace(last, rows=tuple(replace(each, posts=1) for each in last.rows))
    boards = tuple(
        replace(board, runs=tuple(few if run is last else run for run in board.runs)) for board in section.boards
    )
    data: Any = item_table(replace(section, boards=boards), 4_000_000).data
    places = {place: len(view[2]) for view, several in data["views"]["0"] for place in several}
    assert places[section.runs.index(full)] == full.rows[0].posts == 2
    assert places[section.runs.index(last)] == 1


def test_an_input_that_is_not_what_the_row_saw_is_not_shown(section: Section) -> None:
    changed = [replace(one, input_hash="0" * 64) for one in section.first.rows]
    boards = tuple(
        replace(board, runs=tuple(replace(run, rows=tuple(changed)) for run in board.runs)) for board in section.boards
    )
    table = item_table(replace(section, boards=boards), 400_000)
    assert table.complete == 0
    assert table.items == 60


def test_the_hash_of_an_input_does_not_depend_on_the_order_of_its_keys() -> None:
    record = {"prompt": "Tea \u2019or\u2019 coffee?", "item": "i", "candidates": ["a", "\ud800"], "user": None}
    assert digest(record) in _hashes(record)
    assert set(_hashes(dict(sorted(record.items())))) == {digest(record)}
    assert digest(record) not in _hashes(record | {"user": 1})
