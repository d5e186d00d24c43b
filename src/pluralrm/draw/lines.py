"""Lines over one scale: several models on one panel, each with its intervals, between lines that bound them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pluralrm.draw.frame import RIGHT, SMALL, Layout, box, in_lines, shortened, wide
from pluralrm.draw.palette import Tone, ink
from pluralrm.draw.plots import Dot, Plot

_LEFT, _ABOVE, _DEEP, _BELOW = 52, 44, 250, 48
_APART = 4
"""Pixels between the bars of two models at one place."""
_DASHES = ((0, (6, 3)), (0, (1, 3)))
_SHAPES = "osDv^PX*ph"
_TONES: tuple[Tone, ...] = ("plain", "second", "swapped", "noise", "none")


@dataclass(frozen=True, slots=True)
class Line:
    """A named line through some places; with `bound` it is drawn broken and without marks."""

    name: str
    points: Mapping[float, Dot]
    bound: bool = False


def line_plot(
    name: str,
    lines: Sequence[Line],
    *,
    title: str,
    words: str,
    labels: tuple[str, str],
    above: Mapping[float, str] | None = None,
) -> Plot:
    """Return the lines on one panel; `labels` name the two axes, and `above` are places marked on the upper one."""

    def draw(layout: Layout) -> Figure:
        handles = [_handle(line, look) for line, look in zip(lines, _looks(lines), strict=True)]
        widest = max(wide(str(handle.get_label()), SMALL) for handle in handles)
        columns = max(1, min(4, len(handles), int(layout.width / (widest + 52))))
        top = _ABOVE + 20 * -(-len(handles) // columns)
        height = top + _DEEP + _BELOW
        figure = Figure(figsize=(layout.width / 72, height / 72), dpi=72)
        at = (4 / layout.width, 1 - 4 / height)
        figure.legend(handles=handles, loc="upper left", bbox_to_anchor=at, ncols=columns, frameon=False, borderpad=0)
        axes = figure.add_axes(box(_LEFT, top, layout.width - _LEFT - RIGHT, _DEEP, whole=(layout.width, height)))
        axes.grid(visible=True, axis="y")
        for line, look, shift in zip(lines, _looks(lines), _shifts(lines, layout.width), strict=True):
            _draw(axes, line, look, shift)
        axes.set_xlabel(in_lines(labels[0], int(layout.width / 7)), loc="left")
        axes.set_ylabel(labels[1], loc="top")
        _mark_above(axes, above or {})
        return figure

    return Plot(name, title, words, draw)


@dataclass(frozen=True, slots=True)
class _Look:
    colour: str
    shape: str
    face: str
    dash: tuple[int, tuple[int, ...]] = (0, ())


def _looks(lines: Sequence[Line]) -> list[_Look]:
    """Return the look of each line: shapes and tones in turn, so that ten models can be told apart without colour."""
    found, turn = [], 0
    dashes = cycle(_DASHES)
    for line in lines:
        if line.bound:
            found.append(_Look(ink("muted"), "", "", next(dashes)))
            continue
        colour = ink(_TONES[turn % len(_TONES)])
        found.append(_Look(colour, _SHAPES[turn % len(_SHAPES)], colour))
        turn += 1
    return found


def _handle(line: Line, look: _Look) -> Line2D:
    handle = _path(line, look, [], [])
    handle.set_label(shortened(line.name, 40))
    return handle


def _path(line: Line, look: _Look, x: Sequence[float], y: Sequence[float]) -> Line2D:
    path = Line2D(x, y, color=look.colour, linewidth=1.4, markersize=5.5, markerfacecolor=look.face)
    path.set_linestyle(look.dash)
    path.set_marker(look.shape)
    path.set_zorder(3 if line.bound else 2)  # a model that reaches its bound would else hide it
    return path


def _shifts(lines: Sequence[Line], width: int) -> list[float]:
    """Return by how much each line is moved aside: the bars of one place would else hide each other."""
    places = [place for line in lines for place in line.points]
    step = _APART * (max(places) - min(places)) / width if places else 0.0
    models = [line for line in lines if not line.bound]
    return [0.0 if line.bound else (models.index(line) - (len(models) - 1) / 2) * step for line in lines]


def _draw(axes: Axes, line: Line, look: _Look, shift: float) -> None:
    places = sorted(line.points)
    at = [place + shift for place in places]
    for x, place in zip(at, places, strict=True):
        dot = line.points[place]
        if not line.bound and dot.low is not None and dot.high is not None:
            axes.plot([x, x], [dot.low, dot.high], color=look.colour, linewidth=1.6, solid_capstyle="round")
    axes.add_line(_path(line, look, at, [line.points[place].value for place in places]))
    axes.autoscale_view()


def _mark_above(axes: Axes, above: Mapping[float, str]) -> None:
    """Name places on the upper edge, such as the k that a distance belongs to."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    for place, text in above.items():
        axes.annotate(
            text,
            (place, high),
            xytext=(0, 6),
            textcoords="offset points",
            ha="center",
            fontsize=SMALL,
            color=ink("muted"),
            annotation_clip=False,
        )
