"""Names in a column beside a plot, each at the end of a line that leads to its mark: none hides another."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pluralrm.draw.frame import RIGHT, SMALL, Layout, wide
from pluralrm.draw.palette import ink

LINE = 16.0
"""Pixels of one name."""
_LEAD = 14
"""Pixels between the plot and the names, which the leading lines cross."""
_LETTERS = {False: 30, True: 17}
"""Of a name, on a wide figure and on a narrow one."""
_HEAD = 4
"""Letters of a name's beginning that stay where its middle is shown."""


class Named(NamedTuple):
    """A name as it fits, where its mark is, in the data's units, and the colour of the line that leads there."""

    name: str
    x: float
    y: float
    colour: str = ink("muted")


def fitted(names: Sequence[str], layout: Layout) -> tuple[list[str], float]:
    """Return the names as they fit, and how many pixels their column takes."""
    found = apart(names, _LETTERS[layout.above])
    return found, max(wide(text, SMALL) for text in found) + _LEAD + RIGHT


def apart(names: Sequence[str], letters: int) -> list[str]:
    """Return each name in so many letters at most: its beginning and end, cut where no two become alike.

    Names that differ in the middle alone show that, and those that no cut tells apart are numbered: were they whole,
    they would leave no room for the plot.
    """
    middle = letters // 2
    for begin in sorted(range(letters), key=lambda begin: abs(begin - middle)):
        cut = [_cut(name, letters, begin) for name in names]
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


def _cut(name: str, letters: int, begin: int) -> str:
    if len(name) <= letters:
        return name
    return f"{name[:begin]}…{name[len(name) - (letters - 1 - begin) :]}"


def write_names(figure: Figure, axes: Axes, named: Sequence[Named]) -> None:
    """Write the names beside the plot in the order of the marks, each at the end of a line that leads to its mark."""
    at = axes.get_position()
    high, wide_ = figure.get_size_inches()[1] * 72, figure.get_size_inches()[0] * 72
    places = [axes.transData.transform((one.x, one.y)) for one in named]
    order = sorted(range(len(named)), key=lambda place: (-places[place][1], places[place][0], named[place].name))
    rows = spread([float(places[place][1]) for place in order], LINE, low=at.y0 * high, high=at.y1 * high)
    for place, row in zip(order, rows, strict=True):
        start, end = places[place][0] / wide_, at.x1 + (_LEAD - 4) / wide_
        lead = Line2D(
            [start, end], [places[place][1] / high, row / high], color=named[place].colour, linewidth=0.6, alpha=0.6
        )
        lead.set_transform(figure.transFigure)
        figure.add_artist(lead)
        x = at.x1 + _LEAD / wide_
        figure.text(x, row / high, named[place].name, color=ink("ink"), fontsize=SMALL, va="center_baseline")


def spread(wanted: Sequence[float], gap: float, *, low: float, high: float) -> list[float]:
    """Return places from high to low at least `gap` apart and between the ends, as near to the wanted ones as may be.

    Neighbours that are too near move together, by as much up as down.
    """
    blocks: list[tuple[float, int]] = []  # the mean of what its members want, and how many they are
    for number, place in enumerate(wanted):
        # With every step taken off, places that are too near are places in the wrong order.
        blocks.append((place + gap * number, 1))
        while len(blocks) > 1 and blocks[-1][0] > blocks[-2][0]:
            (mean, count), (before, many) = blocks.pop(), blocks.pop()
            blocks.append(((mean * count + before * many) / (count + many), count + many))
    flat = [mean for mean, count in blocks for _ in range(count)]
    top, bottom = high - gap / 2, low + gap / 2 + gap * (len(flat) - 1)
    return [min(max(mean, bottom), max(top, bottom)) - gap * number for number, mean in enumerate(flat)]
