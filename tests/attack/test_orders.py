"""Who won where: calls of votes and of scores, turns brought back to one numbering, failures that hide nothing."""

from dataclasses import replace

import numpy as np
import pytest

from pluralrm.attack.orders import Ordered, balanced, calls_of, likeness, order_of
from pluralrm.core import Vote
from tests.attack.scored import PARSE
from tests.metrics.rows import row, run


def test_a_turned_row_is_read_by_the_numbers_before_the_turn() -> None:
    # Candidates 0, 1, 2 shown as 1, 2, 0; the last one shown, candidate 0, wins.
    [call] = calls_of(row("i", (0.0, 0.0, 1.0), 2), 1)
    assert call == ((1, 2, 0), (0.0, 0.0, 1.0))


def test_votes_are_calls_and_a_ranking_has_its_first() -> None:
    votes = (Vote((0, 1), "1"), Vote((1, 0), "tie"), Vote((1, 0), "parse"), Vote((0, 1, 2), "2>0>1"))
    calls = calls_of(row("i", (1.0, 0.0, 0.5), votes=votes))
    assert [call.won for call in calls] == [(0.0, 1.0), (0.5, 0.5), None, (0.0, 0.0, 1.0)]


def test_ties_share_and_failures_are_no_win() -> None:
    assert calls_of(row("i", (1.0, 1.0)))[0].won == (0.5, 0.5)
    assert calls_of(row("i", (1.0, PARSE)))[0].won is None


@pytest.mark.parametrize(
    ("orders", "even"),
    [([(0, 1), (1, 0)], True), ([(0, 1)], False), ([(0, 1, 2), (1, 2, 0), (2, 0, 1)], True), ([(0, 1), (1, 2)], False)],
)
def test_orders_are_balanced_where_everybody_stands_everywhere(orders: list[tuple[int, ...]], *, even: bool) -> None:
    width = 1 + max(max(order) for order in orders)
    one = row("i", tuple(map(float, range(width))), votes=tuple(Vote(order, "0") for order in orders))
    assert balanced(one) == even
    assert not balanced(replace(one, votes=()))


def _turns(width: int, winner: int | None) -> Ordered:
    """Return a judge that puts place `winner` first in every turn, or candidate 0 where that is None."""

    def scores(shift: int) -> tuple[float, ...]:
        top = (-shift) % width if winner is None else winner
        return tuple(float(-((place - top) % width)) for place in range(width))

    runs = [run([row(f"i{n}", scores(shift), (-shift) % width) for n in range(30)]) for shift in range(width)]
    return Ordered.of(runs[0], dict(enumerate(runs[1:], 1)))


@pytest.mark.parametrize("width", [2, 3, 4, 5])
def test_a_judge_of_places_has_no_leads_and_wins_one_place_alone(width: int) -> None:
    judge = _turns(width, 0)
    assert np.abs(judge.leads["i0"]).max() < 1e-12
    items, wins, fair = judge.place(0)
    assert (len(items.rows), wins.mean(), fair.mean()) == (30, 1.0, pytest.approx(1 / width))
    assert judge.place(1)[1].mean() == 0.0
    earned, first = judge.credits()
    assert earned.mean() == pytest.approx(1 / width)
    assert first is not None
    assert first.mean() == 1.0


@pytest.mark.parametrize("width", [2, 3, 4, 5])
def test_a_judge_of_candidates_has_full_leads_and_fair_places(width: int) -> None:
    judge = _turns(width, None)
    order = order_of(judge.items.rows[0])
    assert order is not None
    assert likeness(judge.leads["i0"], order) == pytest.approx(1.0)
    assert likeness(judge.leads["i0"], -order) == pytest.approx(-1.0)
    assert all(judge.place(place)[1].mean() == pytest.approx(1 / width) for place in range(width))
    assert judge.credits()[0].mean() == 1.0


def test_a_failed_call_earns_nothing_and_is_fair_about_places() -> None:
    base = run([row("a", (1.0, 0.0)), row("b", (PARSE, PARSE))])
    turn = run([row("a", (PARSE, 1.0), 1), row("b", (0.0, 1.0), 1)])
    judge = Ordered.of(base, {1: turn})
    assert judge.credits()[0].tolist() == [0.5, 0.5]
    assert judge.place(0)[1].tolist() == [0.75, 0.25]
    assert judge.unknown == 1.0
