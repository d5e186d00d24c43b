"""Points with names beside the plot: every name is there, none hides another, and equal input gives equal bytes."""

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pluralrm.pages.lines import PlotLine, PlotPoint, apart, line_plot, scatter_plot, spread
from pluralrm.pages.plots import Dot, Plot

PLACES = st.lists(st.floats(0, 300), min_size=1, max_size=18).map(lambda found: sorted(found, reverse=True))


@given(PLACES)
def test_names_stand_apart_in_their_order_and_between_the_ends(wanted: list[float]) -> None:
    rows = spread(wanted, 16.0, low=0.0, high=300.0)
    assert all(above - below >= 16.0 - 1e-6 for above, below in pairwise(rows))
    assert max(rows) <= 300 - 8 + 1e-6
    assert min(rows) >= 8 - 1e-6


@given(PLACES)
def test_names_that_have_room_stand_where_they_belong(wanted: list[float]) -> None:
    far = [500.0 + 40 * place for place in range(len(wanted), 0, -1)]
    assert spread(far, 16.0, low=0.0, high=5000.0) == far


def test_two_names_at_one_place_share_the_way() -> None:
    assert spread([100.0, 100.0], 16.0, low=0.0, high=300.0) == [108.0, 92.0]
    assert spread([299.0, 298.0], 16.0, low=0.0, high=300.0) == [292.0, 276.0]


@given(st.lists(st.text("ab:=,", min_size=1, max_size=40), min_size=1, max_size=6, unique=True))
def test_two_names_never_become_alike(names: list[str]) -> None:
    shown = apart(names, 12)
    assert len(set(shown)) == len(names)
    assert all(len(text) <= 12 for text in shown)


def _plot(names: list[str]) -> Plot:
    points = [PlotPoint(name, Dot(place, place - 1.0, place + 1.0), Dot(5.0)) for place, name in enumerate(names)]
    return scatter_plot("s", points, title="T", words="W", labels=("across", "up"))


def test_every_name_is_written_on_a_desk_and_on_a_phone() -> None:
    names = [f"judge:model-{place},url=http://127.0.0.1:8000/v1" for place in range(25)]
    plot = _plot(names)
    for narrow, letters in ((False, 30), (True, 17)):
        svg = plot.inline(narrow=narrow)
        found = re.findall(r">([^<>]*)</text>", svg)
        assert all(text in found for text in apart(names, letters))


def test_names_that_differ_in_the_middle_alone_leave_room_for_the_plot() -> None:
    """Such as scorers of one world: their kind before, their world behind."""
    names = [f"known:posts,as=worth{blur},crowd=0.7,domains=1" for blur in ("", ",blur=0.5", ",blur=1", ",blur=2")]
    shown = apart(names, 17)
    assert shown == ["know…orth,crowd=…", "know…orth,blur=0…", "know…orth,blur=1…", "know…orth,blur=2…"]
    assert all(text in _plot(names).inline(narrow=True) for text in shown)


def test_a_name_is_text_and_nothing_else() -> None:
    svg = _plot(["<script>alert(1)</script>", "$\\frac{1}{2}$"]).inline()
    assert "<script" not in svg
    assert "style=" not in svg


def test_equal_points_give_equal_bytes() -> None:
    assert _plot(["a", "b"]).svg() == _plot(["a", "b"]).svg()
    assert _plot(["a", "b"]).pdf() == _plot(["a", "b"]).pdf()


def test_lines_can_be_named_at_their_ends() -> None:
    lines = [PlotLine(f"model {place}", {0.0: Dot(1.0), 1.0: Dot(place)}) for place in range(12)]
    plot = line_plot("l", lines, title="T", words="W", labels=("x", "y"), beside=True)
    texts = re.findall(r">(model [^<>]*)</text>", plot.inline(narrow=True))
    assert sorted(texts) == sorted(line.name for line in lines)
