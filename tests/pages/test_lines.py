"""Lines on one panel: the same bytes each time, names as text, bounds that are told apart from models."""

from xml.etree import ElementTree as ET

import pytest

from pluralrm.pages.lines import PlotLine, _looks, line_plot
from pluralrm.pages.plots import Dot, Plot

NAMES = ["longest", "$\\frac{a}{b}$", "<b>&\"'", "模型", "x" * 90, "judge:m", "seventh"]


def plot(names: list[str] = NAMES) -> Plot:
    places = [0.0, 0.19, 0.64, 1.2]
    models = [
        PlotLine(name, {x: Dot(40 + 9 * row + 10 * x, 30 + 9 * row, 55 + 9 * row) for x in places})
        for row, name in enumerate(names)
    ]
    bounds = [
        PlotLine(name, {x: Dot(level) for x in places}, bound=True)
        for name, level in (("(oracle)", 99), ("(random)", 9))
    ]
    above = dict(zip(places, ["1", "2", "4", "8"], strict=True))
    labels = ("KL, nats", "grade, per cent")
    return line_plot("bon", [*models, *bounds], title="Best-of-k", words="Two models.", labels=labels, above=above)


def elements(text: str, *tags: str) -> list[ET.Element]:
    return [one for one in ET.fromstring(text).iter() if one.tag.rpartition("}")[2] in tags]  # noqa: S314 - ours


@pytest.mark.parametrize("narrow", [False, True])
def test_names_places_and_axes_are_text(narrow: bool) -> None:
    words = [one.text for one in elements(plot().inline("a-", narrow=narrow), "text", "tspan")]
    for word in (*NAMES[:4], "(oracle)", "(random)", "KL, nats", "grade, per cent", "1", "8"):
        assert word in words
    assert any(word and word.startswith("xxxxx") and "…" in word for word in words)


def test_the_same_lines_are_the_same_bytes() -> None:
    assert plot().svg() == plot().svg()


@pytest.mark.slow
def test_the_same_lines_are_the_same_bytes_in_pdf() -> None:
    pdf = plot().pdf()
    assert plot().pdf() == pdf
    assert pdf.startswith(b"%PDF")


def test_no_two_of_seven_models_look_alike_and_bounds_are_broken_lines() -> None:
    paths = elements(plot().svg(), "path")
    broken = {one.get("stroke-dasharray", "") for one in paths} - {""}
    assert len(broken) == 2
    looks = _looks([PlotLine(name, {}) for name in NAMES])
    assert len({look.shape for look in looks}) == len(NAMES)


def test_a_single_model_without_bounds_can_be_drawn() -> None:
    alone = line_plot("one", [PlotLine("m", {0.0: Dot(50)})], title="t", words="w", labels=("x", "y"))
    assert "m" in [one.text for one in elements(alone.inline(), "text", "tspan")]


def test_a_curve_that_hardly_moves_has_labels_that_can_be_read() -> None:
    # Of 6.3064 and 6.3062 the axis was labelled in offsets, cut off at the left, and the curve fell steeply.
    level = line_plot(
        "e", [PlotLine("m", {0.0: Dot(6.30642), 1.0: Dot(6.30625)})], title="t", words="w", labels=("x", "y")
    )
    words = [one.text or "" for one in elements(level.inline("a-"), "text", "tspan")]
    assert not any("+" in word or "e−" in word for word in words)
    assert "6.30" in words
