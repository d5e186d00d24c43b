"""The plots: rows of values with intervals, rows of spreads, small curves. Each can be drawn wide and narrow.

matplotlib's SVG becomes one for a page: no style attribute, colours as CSS variables, a title and a description.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pluralrm.core import Estimate
from pluralrm.errors import PluralrmError
from pluralrm.pages import COLOURS, MARKS, Tone, ink
from pluralrm.pages.frame import (
    GAP,
    NARROW,
    RIGHT,
    SMALL,
    WIDE,
    Frame,
    Layout,
    box,
    in_lines,
    saved,
    settings,
    shortened,
    wide,
)
from pluralrm.text import visible

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_FONT = re.compile(r"(?:(bold|\d{3}) )?([\d.]+)px (.*)")
_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_GEOMETRY = {"d", "x", "y", "width", "height", "transform", "stroke-width", "font-size"}


def standalone(drawn: bytes, title: str, words: str) -> str:
    """Return the SVG as a file of its own, in the light colours."""
    root = _tree(drawn, title, words)
    root.set("xmlns", "http://www.w3.org/2000/svg")
    return ET.tostring(root, encoding="unicode") + "\n"


def inline(drawn: bytes, title: str, words: str, *, prefix: str) -> str:
    """Return the SVG for a page, its colours CSS variables, its text in the page's font, its ids with a prefix."""
    root = _tree(drawn, title, words)
    _own_ids(root, prefix)
    names = {colour.light: f"var(--plot-{name})" for name, colour in COLOURS.items()}
    for element in root.iter():
        for key in ("fill", "stroke"):
            if (value := element.get(key)) is not None:
                element.set(key, names.get(value, value))
        element.attrib.pop("font-family", None)
    return ET.tostring(root, encoding="unicode")


def _tree(drawn: bytes, title: str, words: str) -> ET.Element:
    """Return the figure as SVG elements with presentation attributes only, a title, a description and a role."""
    root = ET.fromstring(drawn)  # noqa: S314 - our own output
    _drop(root, {f"{_SVG}metadata", f"{_SVG}style"})
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        _restyle(element)
    _drop_unused_ids(root)
    for key, value in {"role": "img", "aria-label": visible(title), "stroke-linejoin": "round"}.items():
        root.set(key, value)
    for key in ("width", "height"):
        root.set(key, root.get(key, "").removesuffix("pt"))
    root.attrib.pop("version", None)
    for index, (tag, text) in enumerate((("title", title), ("desc", words))):
        child = ET.Element(tag)
        child.text = visible(text)
        root.insert(index, child)
    return root


def _drop(root: ET.Element, tags: set[str]) -> None:
    for parent in root.iter():
        for child in [child for child in parent if child.tag in tags]:
            parent.remove(child)


def _restyle(element: ET.Element) -> None:
    """Turn a style attribute, which a strict policy would not apply, into presentation attributes."""
    for declaration in filter(None, (part.strip() for part in element.attrib.pop("style", "").split(";"))):
        key, _, value = declaration.partition(":")
        font = _FONT.fullmatch(value.strip()) if key == "font" else None
        if font is None:
            element.set(key, value.strip())
            continue
        element.set("font-size", font[2])
        element.set("font-family", font[3])
        if font[1]:
            element.set("font-weight", font[1])
    if (link := element.attrib.pop(_HREF, None)) is not None:
        element.set("href", link)
    for key in sorted(_GEOMETRY.intersection(element.attrib)):
        element.set(key, _NUMBER.sub(lambda match: f"{float(match[0]):.2f}", element.attrib[key]))


_REFERENCE = re.compile(r"#([\w-]+)")


def _references(root: ET.Element) -> set[str]:
    names = set()
    for element in root.iter():
        for key in ("href", "clip-path"):
            names.update(_REFERENCE.findall(element.get(key, "")))
    return names


def _drop_unused_ids(root: ET.Element) -> None:
    used = _references(root)
    for element in root.iter():
        if element.get("id") not in used:
            element.attrib.pop("id", None)


def _own_ids(root: ET.Element, prefix: str) -> None:
    """Give every id a prefix: several plots stand in one page."""
    for element in root.iter():
        if (name := element.get("id")) is not None:
            element.set("id", prefix + name)
        for key in ("href", "clip-path"):
            if (value := element.get(key)) is not None:
                element.set(key, _REFERENCE.sub(rf"#{prefix}\1", value))


_APART, _MARK = 9, 5.5
"""Pixels between two marks of one row, and across a mark."""
_SHADE = 0.16
_STROKES: tuple[tuple[int, tuple[int, ...]], ...] = ((0, ()), (0, (1, 2)))
"""Of one band's line and of another's: they can be distinguished without colour."""


class Dot(NamedTuple):
    """A value and its interval, where it has one."""

    value: float
    low: float | None = None
    high: float | None = None


def dot_of(estimate: Estimate, times: float = 100) -> Dot:
    """Return an Estimate as a dot, in per cent unless another unit is named."""
    low, high = (None if end is None else times * end for end in (estimate.low, estimate.high))
    return Dot(times * estimate.value, low, high)


@dataclass(frozen=True, slots=True)
class Series:
    """One mark per row; None where a row has none."""

    name: str
    dots: Sequence[Dot | None]
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Band:
    """A value that holds for all rows: a line across them, over the shaded stretch of its interval."""

    name: str
    dot: Dot
    tone: Tone = "second"


@dataclass(frozen=True, slots=True)
class PlotPanel:
    """Series over the same rows, with a vertical line at a value that means something, and bands."""

    title: str
    series: Sequence[Series]
    line: float | None = None
    bands: Sequence[Band] = ()


class QuantileBar(NamedTuple):
    """Five quantiles: 5, 25, 50, 75 and 95 per cent."""

    low: float
    lower: float
    middle: float
    upper: float
    high: float


@dataclass(frozen=True, slots=True)
class PostCurve:
    """Values over whole numbers, such as numbers of posts, for one model."""

    title: str
    points: Mapping[int, Dot]


@dataclass(frozen=True)
class Plot:
    """A figure, its title and what it shows in words, for those who cannot see it."""

    name: str
    title: str
    words: str
    draw: Callable[[Layout], Figure]

    def svg(self) -> str:
        """Return the SVG as a file of its own."""
        return standalone(self._drawn(WIDE), self.title, self.words)

    def inline(self, prefix: str = "", *, narrow: bool = False) -> str:
        """Return the SVG for a page; `narrow` is for a phone, and `prefix` keeps ids apart."""
        ids = f"{prefix}{self.name}-{'n' if narrow else 'w'}-"
        return inline(self._drawn(NARROW if narrow else WIDE), self.title, self.words, prefix=ids)

    def pdf(self) -> bytes:
        """Return the PDF, with its fonts embedded."""
        with settings():
            return saved(self.draw(WIDE), "pdf", {"CreationDate": None, "Producer": None, "Creator": None})

    def _drawn(self, layout: Layout) -> bytes:
        with settings():
            return saved(self.draw(layout), "svg", {"Date": None, "Creator": None})


def write_plots(plots: Mapping[str, Plot], folder: Path) -> list[Path]:
    """Write every plot as SVG and as PDF, under its name; return the files."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise PluralrmError(f"cannot write plots into {str(folder)!r}: {exc.strerror}. Name another folder") from exc
    written = []
    for name, plot in plots.items():
        for suffix, content in (("svg", plot.svg().encode()), ("pdf", plot.pdf())):
            written.append(folder / f"{name}.{suffix}")
            written[-1].write_bytes(content)
    return written


def interval_plot(
    name: str,
    labels: Sequence[str],
    panels: Sequence[PlotPanel],
    *,
    title: str,
    words: str,
    x_label: str,
    marked: Collection[int] = (),
) -> Plot:
    """Return rows of values with their intervals, one panel beside the other; labels in `marked` stand in red."""

    def draw(layout: Layout) -> Figure:
        deepest = max(sum(any(series.dots) for series in panel.series) for panel in panels)
        frame = Frame(layout, labels, [panel.title for panel in panels], row=max(20.0, _APART * (deepest + 1)))
        frame.legend(_keys(panels[0]))
        figure = frame.figure()
        for index, panel in enumerate(panels):
            axes = frame.axes(figure, index, marked=marked)
            _draw_panel(axes, panel, len(labels), frame)
            axes.set_xlim(*_span(panels))
            axes.set_xlabel(x_label if index == 0 else "", loc="left")
        return figure

    return Plot(name, title, words, draw)


def spread_plot(
    name: str,
    labels: Sequence[str],
    spreads: Sequence[QuantileBar | None],
    *,
    title: str,
    words: str,
    x_label: str,
    marked: Collection[int] = (),
) -> Plot:
    """Return one bar per row: thin from 5 to 95 per cent, thick over the middle half, a mark at the median."""

    def draw(layout: Layout) -> Figure:
        frame = Frame(layout, labels, [""], row=20.0)
        figure = frame.figure()
        axes = frame.axes(figure, 0, marked=marked)
        axes.axvline(0, color=ink("muted"), linewidth=1)
        rows = [(row + frame.shift, spread) for row, spread in enumerate(spreads) if spread is not None]
        axes.plot(*_bars([(at, spread.low, spread.high) for at, spread in rows]), color=ink("plain"), linewidth=1.2)
        thick = _bars([(at, spread.lower, spread.upper) for at, spread in rows])
        axes.plot(*thick, color=ink("plain"), linewidth=6, alpha=0.45)
        middles = [spread.middle for _, spread in rows], [at for at, _ in rows]
        axes.plot(*middles, color=ink("plain"), linestyle="", marker="o", markersize=5)
        axes.set_xlabel(in_lines(x_label, int(layout.width / 7)), loc="left")
        return figure

    return Plot(name, title, words, draw)


def curve_plot(
    name: str, curves: Sequence[PostCurve], *, title: str, words: str, labels: tuple[str, str], line: float
) -> Plot:
    """Return one small panel per curve with one scale for all; `labels` name the two axes."""

    def draw(layout: Layout) -> Figure:
        columns, left, deep = min(2 if layout.above else 4, len(curves)), 44, 174
        height = 26 + deep * -(-len(curves) // columns) + 16
        figure = Figure(figsize=(layout.width / 72, height / 72), dpi=72)
        width = (layout.width - left - RIGHT - GAP * (columns - 1)) / columns
        for index, curve in enumerate(curves):
            across, down = index % columns, index // columns
            at = box(left + across * (width + GAP), 26 + down * deep, width, 112, whole=(layout.width, height))
            axes = figure.add_axes(at)
            _draw_curve(axes, curve, line, int(width / 7))
            axes.set_ylim(*_reach(curves, line))
            axes.tick_params(labelleft=across == 0)
            axes.set_xlabel(labels[0] if index == 0 else "", loc="left")
            axes.set_ylabel(labels[1] if index == 0 else "", loc="top")
        return figure

    return Plot(name, title, words, draw)


def _draw_panel(axes: Axes, panel: PlotPanel, rows: int, frame: Frame) -> None:
    drawn = [series for series in panel.series if any(series.dots)]
    heights = range(rows) if frame.layout.above else range(0, rows, 2)  # of hairlines: the eye keeps its line
    across = _bars([(row + 0.5, 0, 1) for row in heights])
    axes.plot(*across, color=ink("grid"), linewidth=0.6, transform=axes.get_yaxis_transform())
    if panel.line is not None:
        axes.axvline(panel.line, color=ink("muted"), linewidth=1, linestyle=(0, (4, 3)))
    for index, band in enumerate(panel.bands):
        if band.dot.low is not None and band.dot.high is not None:
            axes.axvspan(band.dot.low, band.dot.high, color=ink(band.tone), alpha=_SHADE, linewidth=0, zorder=0.5)
        axes.axvline(band.dot.value, color=ink(band.tone), linewidth=1.6, linestyle=_STROKES[index % 2])
    for order, (series, mark) in enumerate(zip(drawn, _looks(drawn), strict=True)):
        shift = frame.shift + (order - (len(drawn) - 1) / 2) * _APART / frame.row
        dots = [(row + shift, dot) for row, dot in enumerate(series.dots) if dot is not None]
        axes.plot(*_intervals(dots), color=mark.colour, linewidth=1.6, solid_capstyle="round")
        axes.add_line(mark.at([dot.value for _, dot in dots], [at for at, _ in dots]))


def _intervals(rows: Sequence[tuple[float, Dot]]) -> tuple[list[float], list[float]]:
    """Return x and y of the intervals at these heights as one line with gaps, which costs as much as one interval."""
    return _bars([(at, dot.low, dot.high) for at, dot in rows if dot.low is not None and dot.high is not None])


def _bars(rows: Sequence[tuple[float, float, float]]) -> tuple[list[float], list[float]]:
    x = [end for _, low, high in rows for end in (low, high, nan)]
    return x, [y for at, _, _ in rows for y in (at, at, nan)]


class _Look(NamedTuple):
    colour: str
    shape: str
    face: str

    def handle(self, name: str) -> Line2D:
        """Return the line of a legend."""
        line = self.at([], [])
        line.set(linestyle="-", linewidth=1.6, label=shortened(name, 40))
        return line

    def at(self, x: Sequence[float], y: Sequence[float]) -> Line2D:
        """Return the mark at one place, or at none."""
        line = Line2D(x, y, color=self.colour, linestyle="", markersize=_MARK, markerfacecolor=self.face)
        line.set_marker(self.shape)
        return line


def _looks(drawn: Sequence[Series]) -> list[_Look]:
    """Return the look of each series' marks: several of one tone differ in shape."""
    used: dict[str, int] = {}
    looks = []
    for series in drawn:
        shapes, filled = MARKS[series.tone]
        turn = used[series.tone] = used.get(series.tone, -1) + 1
        face = ink(series.tone if filled else "paper")
        looks.append(_Look(ink(series.tone), shapes[turn % len(shapes)], face))
    return looks


def _keys(panel: PlotPanel) -> list[Line2D]:
    """Return the lines of the legend: those of the first panel, for all have the same series."""
    drawn = [series for series in panel.series if any(series.dots)]
    keys = [look.handle(series.name) for series, look in zip(drawn, _looks(drawn), strict=True) if series.name]
    return keys + [_band_key(band, index) for index, band in enumerate(panel.bands)]


def _band_key(band: Band, index: int) -> Line2D:
    name, stroke = shortened(band.name, 40), _STROKES[index % 2]
    return Line2D([], [], color=ink(band.tone), linewidth=1.6, linestyle=stroke, label=name)


def _span(panels: Sequence[PlotPanel]) -> tuple[float, float]:
    """Return the one scale of all panels, with some air on both sides."""
    marks = [end for panel in panels for series in panel.series for dot in series.dots if dot for end in dot]
    marks += [end for panel in panels for band in panel.bands for end in band.dot]
    ends = [end for end in [*marks, *(panel.line for panel in panels)] if end is not None]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    air = max(1.0, 0.05 * (high - low))
    return low - air, high + air


def _reach(curves: Sequence[PostCurve], line: float) -> tuple[float, float]:
    ends = [end for curve in curves for dot in curve.points.values() for end in dot if end is not None]
    return min([*ends, line]) - 3, max([*ends, line]) + 3


def _draw_curve(axes: Axes, curve: PostCurve, line: float, width: int) -> None:
    counts = sorted(curve.points)
    axes.axhline(line, color=ink("muted"), linewidth=1, linestyle=(0, (4, 3)))
    axes.plot(
        range(len(counts)),
        [curve.points[count].value for count in counts],
        color=ink("own"),
        linewidth=1.4,
        marker="o",
        markersize=5,
    )
    ends, places = _intervals([(index, curve.points[count]) for index, count in enumerate(counts)])
    axes.plot(places, ends, color=ink("own"), linewidth=1.6, solid_capstyle="round")
    axes.set_xticks(range(len(counts)), [str(count) for count in counts])
    axes.set_xlim(-0.4, len(counts) - 0.6)
    axes.set_title(shortened(curve.title, width), loc="left", fontsize=SMALL, color=ink("ink"))
    axes.locator_params(axis="y", nbins=4)


_ROW = 26.0
_THICK = 0.62
"""Of a row that stands alone; a label above takes its share."""
_KEYS: tuple[tuple[str, Tone], ...] = (("kept", "plain"), ("rejected", "oracle"), ("waiting", "second"))


class FunnelStep(NamedTuple):
    """One step: of what came to it, what was kept, rejected, and waits."""

    name: str
    kept: int
    rejected: int
    waiting: int


def funnel_plot(name: str, steps: Sequence[FunnelStep], *, title: str, words: str, x_label: str) -> Plot:
    """Return one bar per step, as long as what came to it, parted into what became of it; counts stand beside it."""

    def draw(layout: Layout) -> Figure:
        frame = Frame(layout, [step.name for step in steps], [""], row=_ROW)
        keys = [key for index, key in enumerate(_KEYS) if any(step[index + 1] for step in steps)]
        frame.legend([_key(*key) for key in keys])
        figure = frame.figure()
        axes = frame.axes(figure, 0, marked=())
        longest = max((sum(step[1:]) for step in steps), default=0) or 1
        for row, step in enumerate(steps):
            at, left = row + frame.shift, 0
            for count, (_, tone) in zip(step[1:], _KEYS, strict=True):
                axes.barh(at, count, left=left, height=_THICK * _ROW / frame.row, color=ink(tone))
                left += count
            axes.annotate(_told(step), (left, at), (6, 0), textcoords="offset points", va="center", color=ink("ink"))
        room = max((wide(_told(step), SMALL) for step in steps), default=0) + 12
        across = axes.get_position().width * layout.width
        axes.set_xlim(0, longest / max(1 - room / across, 0.15))  # the counts stand behind the longest bar
        axes.locator_params(axis="x", integer=True)
        axes.set_xlabel(x_label, loc="left")
        return figure

    return Plot(name, title, words, draw)


def _told(step: FunnelStep) -> str:
    """Return the counts in words, so that no reading depends on colour."""
    ends = ((step.kept, "kept"), (step.rejected, "rejected"), (step.waiting, "waiting"))
    return ", ".join(f"{count:,} {end}" for count, end in ends if count or end == "kept")


def _key(name: str, tone: Tone) -> Line2D:
    return Line2D([], [], color=ink(tone), linestyle="", marker="s", markersize=SMALL - 3, label=name)
