"""Plots are the same bytes each time, fit a strict page, and can be read without seeing them."""

import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from pluralrm.pages import COLOURS
from pluralrm.pages.frame import in_lines
from pluralrm.pages.lines import PlotLine, PlotPoint, line_plot, scatter_plot
from pluralrm.pages.plots import (
    Band,
    Dot,
    Plot,
    PlotPanel,
    PostCurve,
    QuantileBar,
    Series,
    curve_plot,
    interval_plot,
    spread_plot,
)

STRANGE = ["$\\frac{a}{b}$", "<b>&\"'", "模型", "x" * 90, "]]></svg><script>"]


def parsed(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - what draw has just written


def plots(name: str = "plot") -> list[Plot]:
    labels = ["one", "two", *STRANGE]
    dots: list[Dot | None] = [Dot(50, 40, 60), None, *(Dot(10.0 * n) for n in range(len(STRANGE)))]
    panels = [
        PlotPanel(
            "first", [Series("none", dots, "none"), Series("raw:2", dots, "own"), Series("raw:9", dots, "own")], 50
        ),
        PlotPanel("a title of many words that must go to a second line", [Series("oracle", dots, "oracle")], 50),
    ]
    said: Any = {"title": "A title & more", "words": "What <it> shows"}
    curves = [PostCurve(one, {0: Dot(50), 9: Dot(60, 50, 70)}) for one in labels]
    return [
        interval_plot(name, labels, panels, x_label="per cent", marked={1}, **said),
        spread_plot(name, labels, [QuantileBar(-2, -1, 0, 1, 2), *[None] * (len(labels) - 1)], x_label="gap", **said),
        curve_plot(name, curves, labels=("x", "y"), line=50, **said),
    ]


@pytest.mark.parametrize("kind", range(3))
@pytest.mark.parametrize("narrow", [False, True])
def test_a_plot_in_a_page_needs_no_style_and_names_itself(kind: int, narrow: bool) -> None:
    plot = plots()[kind]
    text = plot.inline("b1-", narrow=narrow)
    root = parsed(text)
    assert root.get("role") == "img"
    assert root.get("aria-label") == plot.title
    assert [child.text for child in root][:2] == [plot.title, plot.words]
    for element in root.iter():
        assert not {"style", "class", "onload"} & set(element.attrib)
        assert element.tag in {"svg", "title", "desc", "defs", "g", "path", "use", "text", "tspan", "clipPath", "rect"}
        for key in ("fill", "stroke"):
            assert not element.get(key, "").startswith("#"), element.attrib
    assert "{http" not in text


@pytest.mark.parametrize("kind", range(3))
def test_labels_stay_text_as_they_are(kind: int) -> None:
    words = [element.text for element in parsed(plots()[kind].inline()).iter() if element.tag in {"text", "tspan"}]
    for label in ("one", "two", *STRANGE[:3]):
        assert label in words
    assert any(word and word.startswith("xxxxx") and "…" in word for word in words)


@pytest.mark.parametrize("place", range(5))
def test_a_label_with_control_characters_is_drawn_with_them_spelled_out(place: int) -> None:
    bad = "ba\x00\x07king\x1b[31m\ud800\ufffe"
    said: Any = {"title": f"A title {bad}", "words": f"Words {bad}"}
    plot = [
        lambda: interval_plot("p", [bad, "b"], [PlotPanel(bad, [Series(bad, [Dot(5), None])])], x_label=bad, **said),
        lambda: spread_plot("p", [bad], [QuantileBar(-2, -1, 0, 1, 2)], x_label=bad, **said),
        lambda: curve_plot("p", [PostCurve(bad, {0: Dot(50), 9: Dot(60)})], labels=(bad, bad), line=50, **said),
        lambda: line_plot(
            "p", [PlotLine(bad, {0.0: Dot(1), 1.0: Dot(2)})], labels=(bad, bad), above={0.0: bad}, **said
        ),
        lambda: scatter_plot(
            "p", [PlotPoint(bad, Dot(1), Dot(2)), PlotPoint("b", Dot(2), Dot(1))], labels=(bad, bad), **said
        ),
    ][place]()
    for text in (plot.svg(), plot.inline(), plot.inline(narrow=True)):
        root = parsed(text)
        assert r"Words ba\x00\x07king\x1b[31m\ud800\ufffe" in [element.text for element in root.iter()]
    assert plot.pdf().startswith(b"%PDF")


@pytest.mark.parametrize("kind", [0, *(pytest.param(kind, marks=pytest.mark.slow) for kind in (1, 2))])
def test_equal_numbers_give_equal_bytes(kind: int) -> None:
    first, second = plots()[kind], plots()[kind]
    drawn, pdf = first.svg(), first.pdf()
    assert first.inline() == second.inline()
    assert drawn == second.svg() == first.svg()
    assert pdf == second.pdf()
    assert pdf.startswith(b"%PDF")
    assert b"CreationDate" not in pdf


def test_a_title_takes_as_many_lines_as_it_needs_and_loses_no_word() -> None:
    title = "Lifestyle and Personal Development"
    assert in_lines(title, 12).splitlines() == ["Lifestyle", "and Personal", "Development"]
    assert in_lines("", 9) == ""
    assert in_lines("x" * 30, 9) == "xxx…xxxxx"


def test_ids_of_two_plots_in_one_page_never_meet() -> None:
    ids: list[str] = []
    for plot in (plots("a")[0], plots("b")[0]):
        for narrow in (False, True):
            text = plot.inline("b1-", narrow=narrow)
            own = re.findall(r' id="([^"]+)"', text)
            assert set(re.findall(r"#([\w-]+)", text)) <= set(own)
            ids += own
    assert len(ids) == len(set(ids))


def test_a_file_of_its_own_keeps_its_colours_and_opens_as_xml() -> None:
    text = plots()[0].svg()
    root = parsed(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "var(--" not in text
    assert COLOURS["oracle"].light in text


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", [name for name in COLOURS if name not in {"paper", "grid"}])
def test_every_mark_and_text_stands_out_on_both_pages(name: str) -> None:
    for shade in ("light", "dark"):
        wanted = 4.5 if name in {"ink", "muted", "oracle"} else 3.0
        assert _contrast(getattr(COLOURS[name], shade), getattr(COLOURS["paper"], shade)) >= wanted


def test_light_colours_differ_so_that_each_can_become_its_variable() -> None:
    assert len({colour.light for colour in COLOURS.values()}) == len(COLOURS)


def test_a_band_is_a_named_line_over_a_shade_and_the_scale_holds_all_of_it() -> None:
    bands = [Band("people", Dot(80, 70, 90)), Band("others", Dot(20), "noise")]
    panel = PlotPanel("", [Series("", [Dot(50, 45, 55)])], 50, bands)
    bare = PlotPanel("", [Series("", [Dot(50, 45, 55)])], 50)
    drawn, without = (
        parsed(interval_plot("p", ["row"], [one], title="t", words="w", x_label="x").inline()) for one in (panel, bare)
    )
    words = [element.text for element in drawn.iter() if element.tag in {"text", "tspan"}]
    assert {"people", "others", "20", "80"} <= set(words)  # both values lie on the axis
    shades = [
        [
            one
            for one in root.iter("path")
            if one.get("fill") == "var(--plot-second)" and float(one.get("opacity", 1)) < 1
        ]
        for root in (drawn, without)
    ]
    assert list(map(len, shades)) == [1, 0]  # a value without an interval has no shade
    left, right = (float(re.findall(r"[\d.]+", shades[0][0].get("d", ""))[place]) for place in (0, 4))
    [line] = [one for one in drawn.iter("path") if one.get("stroke") == "var(--plot-second)" and _upright(one)]
    at = float(re.findall(r"[\d.]+", line.get("d", ""))[0])
    assert at == pytest.approx((left + right) / 2, abs=0.1)


def _upright(path: ET.Element) -> bool:
    numbers = re.findall(r"[\d.]+", path.get("d", ""))
    return len(numbers) == 4 and numbers[0] == numbers[2] and numbers[1] != numbers[3]
