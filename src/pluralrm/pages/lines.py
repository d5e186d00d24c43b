"""Named marks on one panel: lines with intervals between lines that bound them, and points with two intervals.

Names stand in a column beside the plot, each at the end of a line that leads to its mark: none hides another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pluralrm.pages import MARKS, Tone, ink
from pluralrm.pages.frame import RIGHT, SMALL, Layout, box, in_lines, shortened, wide
from pluralrm.pages.plots import Dot, Plot

LINE = 16.0
"""Pixels of one name."""
_LEAD = 14
"""Pixels between the plot and the names, which the leading lines cross."""
_LETTERS = {False: 30, True: 17}
"""Of a name, on a wide figure and on a narrow one."""
_HEAD = 4
"""Letters of a name's beginning that stay where its middle is shown."""


class NamedMark(NamedTuple):
    """A name as it fits, where its mark is, in the data's units, and the colour of the line that leads there."""

    name: str
    x: float
    y: float
    colour: str = ink("muted")


def fitted(names: Sequence[str], layout: Layout) -> tuple[list[str], float]:
    """Return the names as they fit, and how many pixels their column takes."""
    texts = apart(names, _LETTERS[layout.above])
    return texts, max(wide(text, SMALL) for text in texts) + _LEAD + RIGHT


def apart(names: Sequence[str], letters: int) -> list[str]:
    """Return each name in so many letters at most: its beginning and end, cut where no two become alike.

    Names that differ in the middle alone show that, and those that stay alike after any cut are numbered: whole,
    they would leave no room for the plot.
    """
    middle = letters // 2
    for begin in sorted(range(letters), key=lambda begin: abs(begin - middle)):
        cut = [shortened(name, letters, begin) for name in names]
        if len(set(cut)) == len(set(names)):
            return cut
    for start in range(_HEAD, max(map(len, names))):
        cut = [_inside(name, letters, start) for name in names]
        if len(set(cut)) == len(set(names)):
            return cut
    numbers = {name: str(number) for number, name in enumerate(dict.fromkeys(names), 1)}
    return [f"{name[: letters - 1 - len(numbers[name])]}…{numbers[name]}" for name in names]


def _inside(name: str, letters: int, start: int) -> str:
    """Return the first letters of a name, and some from a place on."""
    if len(name) <= letters:
        return name
    end = start + letters - _HEAD - 2
    more = "…" if end < len(name) else ""
    return f"{name[:_HEAD]}…{name[start:end]}{more}"


def write_names(figure: Figure, axes: Axes, named_marks: Sequence[NamedMark]) -> None:
    """Write the names beside the plot in the order of the marks, each at the end of a line that leads to its mark."""
    at = axes.get_position()
    high, wide_ = figure.get_size_inches()[1] * 72, figure.get_size_inches()[0] * 72
    places = [axes.transData.transform((mark.x, mark.y)) for mark in named_marks]
    order = sorted(
        range(len(named_marks)), key=lambda index: (-places[index][1], places[index][0], named_marks[index].name)
    )
    rows = spread([float(places[index][1]) for index in order], LINE, low=at.y0 * high, high=at.y1 * high)
    for index, row in zip(order, rows, strict=True):
        start, end = places[index][0] / wide_, at.x1 + (_LEAD - 4) / wide_
        lead = Line2D(
            [start, end],
            [places[index][1] / high, row / high],
            color=named_marks[index].colour,
            linewidth=0.6,
            alpha=0.6,
        )
        lead.set_transform(figure.transFigure)
        figure.add_artist(lead)
        x = at.x1 + _LEAD / wide_
        figure.text(x, row / high, named_marks[index].name, color=ink("ink"), fontsize=SMALL, va="center_baseline")


def spread(targets: Sequence[float], gap: float, *, low: float, high: float) -> list[float]:
    """Return places from high to low at least `gap` apart and between the ends, as near to the wanted ones as may be.

    Neighbours that are too near move together, by as much up as down.
    """
    blocks: list[tuple[float, int]] = []  # the mean of what its members want, and how many they are
    for number, target in enumerate(targets):
        # With every step taken off, places that are too near are places in the wrong order.
        blocks.append((target + gap * number, 1))
        while len(blocks) > 1 and blocks[-1][0] > blocks[-2][0]:
            (mean, count), (before, many) = blocks.pop(), blocks.pop()
            blocks.append(((mean * count + before * many) / (count + many), count + many))
    flat = [mean for mean, count in blocks for _ in range(count)]
    top, bottom = high - gap / 2, low + gap / 2 + gap * (len(flat) - 1)
    return [min(max(mean, bottom), max(top, bottom)) - gap * number for number, mean in enumerate(flat)]


_LEFT, _ABOVE, _DEEP, _BELOW = 52, 44, 250, 48
_APART = 4
"""Pixels between the bars of two models at one place."""
_DASHES = ((0, (6, 3)), (0, (1, 3)))
_SHAPES = "osDv^PX*ph"
_TONES: tuple[Tone, ...] = ("plain", "second", "swapped", "noise", "none")


@dataclass(frozen=True, slots=True)
class PlotLine:
    """A named line through some places; with `bound` it is drawn broken and without marks."""

    name: str
    points: Mapping[float, Dot]
    bound: bool = False


_FLAT = 0.01
"""A curve that moves by less of its height is drawn level."""


def line_plot(
    name: str,
    lines: Sequence[PlotLine],
    *,
    title: str,
    words: str,
    labels: tuple[str, str],
    above: Mapping[float, str] | None = None,
    beside: bool = False,
) -> Plot:
    """Return the lines on one panel; `labels` name the two axes, and `above` are places marked on the upper one.

    With `beside` each name stands at the end of its line, and not in a legend.
    """

    def draw(layout: Layout) -> Figure:
        names, column = fitted([line.name for line in lines], layout) if beside else ([], float(RIGHT))
        handles = [] if beside else [_handle(line, look) for line, look in zip(lines, _looks(lines), strict=True)]
        widest = max((wide(str(handle.get_label()), SMALL) for handle in handles), default=0)
        columns = max(1, min(4, len(handles), int(layout.width / (widest + 52))))
        top = _ABOVE + 20 * -(-len(handles) // columns)
        deep = max(_DEEP, LINE * len(names))
        height = top + deep + _BELOW + 14 * layout.above * beside
        figure = Figure(figsize=(layout.width / 72, height / 72), dpi=72)
        if handles:
            at, shape = (4 / layout.width, 1 - 4 / height), {"ncols": columns, "frameon": False, "borderpad": 0}
            figure.legend(handles=handles, loc="upper left", bbox_to_anchor=at, **shape)
        axes = figure.add_axes(box(_LEFT, top, layout.width - _LEFT - column, deep, whole=(layout.width, height)))
        axes.grid(visible=True, axis="y")
        for line, look, shift in zip(lines, _looks(lines), _shifts(lines, layout.width), strict=True):
            _draw(axes, line, look, shift)
        low, high = axes.get_ylim()
        if high - low < _FLAT * max(abs(low), abs(high)):  # else its labels are an offset, and a level curve falls
            axes.set_ylim(*((low + high) / 2 + side * _FLAT * max(abs(low), abs(high)) for side in (-1, 1)))
        axes.set_xlabel(in_lines(labels[0], int(layout.width / 7)), loc="left")
        axes.set_ylabel(labels[1], loc="top")
        _mark_above(axes, above or {})
        if beside:
            ends = zip(names, lines, _looks(lines), strict=True)
            write_names(figure, axes, [_end(name, line, look.colour) for name, line, look in ends])
        return figure

    return Plot(name, title, words, draw)


def _end(name: str, line: PlotLine, colour: str) -> NamedMark:
    """Return where a line ends; its mark may stand a few pixels aside."""
    last = max(line.points)
    return NamedMark(name, last, line.points[last].value, colour)


@dataclass(frozen=True, slots=True)
class _Look:
    colour: str
    shape: str
    face: str
    dash: tuple[int, tuple[int, ...]] = (0, ())


def _looks(lines: Sequence[PlotLine]) -> list[_Look]:
    """Return the look of each line: shapes and tones in turn, so that ten models differ without colour."""
    looks, turn = [], 0
    dashes = cycle(_DASHES)
    for line in lines:
        if line.bound:
            looks.append(_Look(ink("muted"), "", "", next(dashes)))
            continue
        colour = ink(_TONES[turn % len(_TONES)])
        looks.append(_Look(colour, _SHAPES[turn % len(_SHAPES)], colour))
        turn += 1
    return looks


def _handle(line: PlotLine, look: _Look) -> Line2D:
    handle = _path(line, look, [], [])
    handle.set_label(shortened(line.name, 40))
    return handle


def _path(line: PlotLine, look: _Look, x: Sequence[float], y: Sequence[float]) -> Line2D:
    path = Line2D(x, y, color=look.colour, linewidth=1.4, markersize=5.5, markerfacecolor=look.face)
    path.set_linestyle(look.dash)
    path.set_marker(look.shape)
    path.set_zorder(3 if line.bound else 2)  # a model that reaches its bound would else hide it
    return path


def _shifts(lines: Sequence[PlotLine], width: int) -> list[float]:
    """Return by how much each line is moved aside: the bars of one place would else hide each other."""
    places = [point for line in lines for point in line.points]
    step = _APART * (max(places) - min(places)) / width if places else 0.0
    models = [line for line in lines if not line.bound]
    return [0.0 if line.bound else (models.index(line) - (len(models) - 1) / 2) * step for line in lines]


def _draw(axes: Axes, line: PlotLine, look: _Look, shift: float) -> None:
    places = sorted(line.points)
    at = [number + shift for number in places]
    for x, number in zip(at, places, strict=True):
        dot = line.points[number]
        if not line.bound and dot.low is not None and dot.high is not None:
            axes.plot([x, x], [dot.low, dot.high], color=look.colour, linewidth=1.6, solid_capstyle="round")
    axes.add_line(_path(line, look, at, [line.points[number].value for number in places]))
    axes.autoscale_view()


def _mark_above(axes: Axes, above: Mapping[float, str]) -> None:
    """Name places on the upper edge, such as the k that a distance belongs to."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    for position, text in above.items():
        axes.annotate(
            text,
            (position, high),
            xytext=(0, 6),
            textcoords="offset points",
            ha="center",
            fontsize=SMALL,
            color=ink("muted"),
            annotation_clip=False,
        )


_SCATTER_TOP, _SCATTER_BELOW = 26, 48
_SCATTER_DEEP = 300
"""Pixels of the plot's height at least."""


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """A named place and its intervals."""

    name: str
    x: Dot
    y: Dot
    tone: Tone = "plain"


def scatter_plot(name: str, points: Sequence[PlotPoint], *, title: str, words: str, labels: tuple[str, str]) -> Plot:
    """Return the points on one panel; `labels` name the two axes."""

    def draw(layout: Layout) -> Figure:
        names, column = fitted([point.name for point in points], layout)
        deep = max(_SCATTER_DEEP, LINE * len(points))
        below = _SCATTER_BELOW + 14 * layout.above
        whole = (layout.width, _SCATTER_TOP + deep + below)
        figure = Figure(figsize=(whole[0] / 72, whole[1] / 72), dpi=72)
        across = layout.width - _LEFT - column
        axes = figure.add_axes(box(_LEFT, _SCATTER_TOP, across, deep, whole=whole))
        axes.grid(visible=True, axis="y")
        axes.set_xlim(*_reach([point.x for point in points]))
        axes.set_ylim(*_reach([point.y for point in points]))
        for point in points:
            _draw_scatter(axes, point)
        axes.locator_params(axis="x", nbins=max(2, int(across / 60)))
        axes.set_xlabel(in_lines(labels[0], int((layout.width - _LEFT) / 7)), loc="left")
        figure.text(4 / whole[0], 1 - 12 / whole[1], labels[1], color=ink("muted"), fontsize=SMALL, va="center")
        marks = zip(names, points, strict=True)
        write_names(figure, axes, [NamedMark(name, point.x.value, point.y.value) for name, point in marks])
        return figure

    return Plot(name, title, words, draw)


def _reach(dots: Sequence[Dot]) -> tuple[float, float]:
    """Return the ends of an axis, with some air on both sides."""
    ends = [end for dot in dots for end in dot if end is not None]
    low, high = min(ends), max(ends)
    air = 0.06 * (high - low) or 1.0
    return low - air, high + air


def _draw_scatter(axes: Axes, point: PlotPoint) -> None:
    (x, left, right), (y, low, high) = point.x, point.y
    colour, (shapes, filled) = ink(point.tone), MARKS[point.tone]
    if left is not None and right is not None:
        axes.plot([left, right], [y, y], color=colour, linewidth=1.2, alpha=0.5, solid_capstyle="round")
    if low is not None and high is not None:
        axes.plot([x, x], [low, high], color=colour, linewidth=1.2, alpha=0.5, solid_capstyle="round")
    mark = Line2D([x], [y], color=colour, linestyle="", markersize=6, markerfacecolor=colour if filled else "none")
    mark.set_marker(shapes[0])
    mark.set_zorder(4)
    axes.add_line(mark)
