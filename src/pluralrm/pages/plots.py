"""The plots: rows of values with intervals, rows of spreads, small curves. Each can be drawn wide and narrow."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pluralrm.pages import svg
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
from pluralrm.pages.style import MARKS, Tone, ink

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
class Panel:
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
        return svg.standalone(self._drawn(WIDE), self.title, self.words)

    def inline(self, prefix: str = "", *, narrow: bool = False) -> str:
        """Return the SVG for a page; `narrow` is for a phone, and `prefix` keeps ids apart."""
        ids = f"{prefix}{self.name}-{'n' if narrow else 'w'}-"
        return svg.inline(self._drawn(NARROW if narrow else WIDE), self.title, self.words, prefix=ids)

    def pdf(self) -> bytes:
        """Return the PDF, with its fonts embedded."""
        with settings():
            return saved(self.draw(WIDE), "pdf", {"CreationDate": None, "Producer": None, "Creator": None})

    def _drawn(self, layout: Layout) -> bytes:
        with settings():
            return saved(self.draw(layout), "svg", {"Date": None, "Creator": None})


def write_plots(plots: Mapping[str, Plot], folder: Path) -> list[Path]:
    """Write every plot as SVG and as PDF, under its name; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, plot in plots.items():
        for suffix, content in (("svg", plot.svg().encode()), ("pdf", plot.pdf())):
            written.append(folder / f"{name}.{suffix}")
            written[-1].write_bytes(content)
    return written


def interval_plot(
    name: str,
    labels: Sequence[str],
    panels: Sequence[Panel],
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
        for place, panel in enumerate(panels):
            axes = frame.axes(figure, place, marked=marked)
            _draw_panel(axes, panel, len(labels), frame)
            axes.set_xlim(*_span(panels))
            axes.set_xlabel(x_label if place == 0 else "", loc="left")
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
        for place, found in enumerate(spreads):
            if found is not None:
                at = [place + frame.shift] * 2
                axes.plot([found.low, found.high], at, color=ink("plain"), linewidth=1.2)
                axes.plot([found.lower, found.upper], at, color=ink("plain"), linewidth=6, alpha=0.45)
                axes.plot([found.middle], at[:1], color=ink("plain"), marker="o", markersize=5)
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
        for place, curve in enumerate(curves):
            across, down = place % columns, place // columns
            at = box(left + across * (width + GAP), 26 + down * deep, width, 112, whole=(layout.width, height))
            axes = figure.add_axes(at)
            _draw_curve(axes, curve, line, int(width / 7))
            axes.set_ylim(*_reach(curves, line))
            axes.tick_params(labelleft=across == 0)
            axes.set_xlabel(labels[0] if place == 0 else "", loc="left")
            axes.set_ylabel(labels[1] if place == 0 else "", loc="top")
        return figure

    return Plot(name, title, words, draw)


def _draw_panel(axes: Axes, panel: Panel, rows: int, frame: Frame) -> None:
    drawn = [series for series in panel.series if any(series.dots)]
    for place in range(rows) if frame.layout.above else range(0, rows, 2):
        axes.axhline(place + 0.5, color=ink("grid"), linewidth=0.6)  # a hairline: the eye keeps its line
    if panel.line is not None:
        axes.axvline(panel.line, color=ink("muted"), linewidth=1, linestyle=(0, (4, 3)))
    for place, band in enumerate(panel.bands):
        if band.dot.low is not None and band.dot.high is not None:
            axes.axvspan(band.dot.low, band.dot.high, color=ink(band.tone), alpha=_SHADE, linewidth=0, zorder=0.5)
        axes.axvline(band.dot.value, color=ink(band.tone), linewidth=1.6, linestyle=_STROKES[place % 2])
    for order, (series, mark) in enumerate(zip(drawn, _looks(drawn), strict=True)):
        shift = frame.shift + (order - (len(drawn) - 1) / 2) * _APART / frame.row
        for place, dot in enumerate(series.dots):
            if dot is not None:
                at = [place + shift] * 2
                if dot.low is not None and dot.high is not None:
                    axes.plot([dot.low, dot.high], at, color=mark.colour, linewidth=1.6, solid_capstyle="round")
                axes.add_line(mark.at([dot.value], at[:1]))


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
    found = []
    for series in drawn:
        shapes, filled = MARKS[series.tone]
        turn = used[series.tone] = used.get(series.tone, -1) + 1
        face = ink(series.tone if filled else "paper")
        found.append(_Look(ink(series.tone), shapes[turn % len(shapes)], face))
    return found


def _keys(panel: Panel) -> list[Line2D]:
    """Return the lines of the legend: those of the first panel, for all have the same series."""
    drawn = [series for series in panel.series if any(series.dots)]
    keys = [look.handle(series.name) for series, look in zip(drawn, _looks(drawn), strict=True) if series.name]
    return keys + [_band_key(band, place) for place, band in enumerate(panel.bands)]


def _band_key(band: Band, place: int) -> Line2D:
    name, stroke = shortened(band.name, 40), _STROKES[place % 2]
    return Line2D([], [], color=ink(band.tone), linewidth=1.6, linestyle=stroke, label=name)


def _span(panels: Sequence[Panel]) -> tuple[float, float]:
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
    axes.plot(range(len(counts)), [curve.points[count].value for count in counts], color=ink("own"), linewidth=1.4)
    for place, count in enumerate(counts):
        dot = curve.points[count]
        if dot.low is not None and dot.high is not None:
            axes.plot([place, place], [dot.low, dot.high], color=ink("own"), linewidth=1.6, solid_capstyle="round")
        axes.plot([place], [dot.value], marker="o", markersize=5, color=ink("own"))
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
        shown = [key for place, key in enumerate(_KEYS) if any(step[place + 1] for step in steps)]
        frame.legend([_key(*key) for key in shown])
        figure = frame.figure()
        axes = frame.axes(figure, 0, marked=())
        longest = max((sum(step[1:]) for step in steps), default=0) or 1
        for place, step in enumerate(steps):
            at, left = place + frame.shift, 0
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
