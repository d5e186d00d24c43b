"""The frame of a figure: rows with labels, panels of equal width, a legend, and matplotlib's settings."""

import io
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from textwrap import wrap

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FixedFormatter

from pluralrm.pages import COLOURS, ink
from pluralrm.text import visible

SIZE, SMALL = 12.5, 11.5
"""Of the text, in the unit of everything here: a figure has 72 units an inch and is shown at one pixel a unit."""
RIGHT, GAP = 16, 18
_BOTTOM, _ABOVE = 44, 17


@dataclass(frozen=True, slots=True)
class Layout:
    """How wide a figure is, and whether the labels of rows stand above them or to their left."""

    width: int
    above: bool


WIDE = Layout(720, above=False)
NARROW = Layout(350, above=True)
"""For a phone: the same figure at a size that needs no scrolling."""


class Frame:
    """A figure with labelled rows and, side by side, panels over them."""

    def __init__(self, layout: Layout, labels: Sequence[str], titles: Sequence[str], *, row: float) -> None:
        self.layout, self._labels = layout, [shortened(label, 46 if layout.above else 36) for label in labels]
        self.row = row + _ABOVE * layout.above
        self.shift = _ABOVE / 2 / self.row if layout.above else 0.0
        widest = max((wide(label, SIZE) for label in self._labels), default=0)
        self._left = 18 if layout.above else widest + 18
        self._width = (layout.width - self._left - RIGHT - GAP * (len(titles) - 1)) / len(titles)
        self._titles = [in_lines(title, int(self._width / 7.2)) for title in titles]
        self._keys, self._columns = 0, 1
        self._top = 10 + 16 * max(title.count("\n") + bool(title) for title in self._titles)

    def legend(self, handles: Sequence[Line2D]) -> None:
        """Keep room for a legend; called before `figure`."""
        widest = max((wide(str(handle.get_label()), SMALL) for handle in handles), default=0)
        self._columns = max(1, min(6, len(handles), int(self.layout.width / (widest + 52))))
        self._keys = -(-len(handles) // self._columns)
        self._handles = handles

    def figure(self) -> Figure:
        """Return the empty figure."""
        self.top = self._top + 20 * self._keys
        # On a narrow figure the name of the axis may take two lines.
        self.height = self.top + self.row * len(self._labels) + _BOTTOM + 14 * self.layout.above
        figure = Figure(figsize=(self.layout.width / 72, self.height / 72), dpi=72)
        if self._keys:
            at = (4 / self.layout.width, 1 - 4 / self.height)
            look = {"ncols": self._columns, "frameon": False, "borderpad": 0}
            figure.legend(handles=self._handles, loc="upper left", bbox_to_anchor=at, **look)
        return figure

    def axes(self, figure: Figure, index: int, *, marked: Collection[int]) -> Axes:
        """Return the axes of one panel; the rows' labels go with the first, those in `marked` in red."""
        left, rows = self._left + index * (self._width + GAP), len(self._labels)
        whole = self.layout.width, self.height
        axes = figure.add_axes(box(left, self.top, self._width, self.row * rows, whole=whole))
        axes.set_ylim(rows - 0.5, -0.5)
        axes.set_yticks([])
        for row, label in enumerate(self._labels if index == 0 else ()):
            tone = ink("oracle" if row in marked else "ink")
            if self.layout.above:
                height = 1 - (self.top + self.row * row + 10) / self.height
                ground = {"facecolor": ink("paper"), "edgecolor": "none", "pad": 1}
                figure.text(8 / self.layout.width, height, label, color=tone, fontsize=SIZE, va="center", bbox=ground)
            else:
                height = 1 - (self.top + self.row * (row + 0.5)) / self.height
                at = (self._left - 8) / self.layout.width
                figure.text(at, height, label, color=tone, fontsize=SIZE, va="center", ha="right")
        axes.set_title(self._titles[index], loc="left", fontsize=SIZE, color=ink("ink"))
        axes.locator_params(axis="x", nbins=max(2, int(self._width / 60)))
        return axes


def box(
    left: float, top: float, width: float, height: float, *, whole: tuple[float, float]
) -> tuple[float, float, float, float]:
    """Return pixels from the upper left corner as matplotlib's fractions from the lower left one."""
    return left / whole[0], 1 - (top + height) / whole[1], width / whole[0], height / whole[1]


@lru_cache(maxsize=4096)
def wide(text: str, size: float) -> float:
    """Return how many pixels a text takes in the font that lays it out; a page's own font is hardly ever wider."""
    width, _, _ = text_to_path.get_text_width_height_descent(visible(text), FontProperties(size=size), False)
    return float(width)


def shortened(text: str, width: int, begin: int | None = None) -> str:
    """Return a label that fits, its middle left out where it is too long: model names differ at both ends.

    `begin` letters stay at its beginning, about half of them by default.
    """
    text = visible(text)
    if len(text) <= width:
        return text
    begin = width // 2 - 1 if begin is None else begin
    return f"{text[:begin]}…{text[len(text) - (width - 1 - begin) :]}"


def in_lines(title: str, width: int) -> str:
    """Return a title in as many lines as it needs; only a word that no line can hold loses its middle."""
    words = " ".join(shortened(word, width) for word in title.split())
    return "\n".join(wrap(words, width, break_long_words=False, break_on_hyphens=False))


@contextmanager
def settings() -> Iterator[None]:
    """Draw and save under our settings alone, whatever a matplotlibrc on this machine says."""
    with mpl.rc_context(), warnings.catch_warnings():
        # A script that the layout font lacks is drawn by the reader's own fonts: the text is in the file.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        mpl.rcParams.update(_RC)  # type: ignore[arg-type]
        yield


def saved(figure: Figure, kind: str, metadata: Mapping[str, None]) -> bytes:
    """Return the bytes of a file, under `settings`, without dates; characters that no format takes are spelled out."""
    for text in figure.findobj(Text):
        text.set_text(visible(text.get_text()))
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(ticks := axis.get_major_formatter(), FixedFormatter):
                ticks.seq = [visible(label) for label in ticks.seq]
    file = io.BytesIO()
    figure.savefig(file, format=kind, metadata=dict(metadata))
    return file.getvalue()


# The backend is left as it is. Not by mpl.rcdefaults(), which first reads matplotlib's 28 style files.
_RC: Mapping[str, object] = {str(name): value for name, value in mpl.rcParamsDefault.items() if name != "backend"} | {
    "font.family": "DejaVu Sans",
    "font.size": SMALL,
    "svg.fonttype": "none",
    "svg.hashsalt": "pluralrm",
    "pdf.fonttype": 42,
    "text.parse_math": False,  # a model may be called $\frac
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.edgecolor": COLOURS["grid"].light,
    "axes.labelcolor": COLOURS["muted"].light,
    "axes.labelsize": SMALL,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.grid.axis": "x",
    "axes.axisbelow": True,
    "grid.color": COLOURS["grid"].light,
    "grid.linewidth": 0.8,
    "xtick.color": COLOURS["grid"].light,
    "xtick.labelcolor": COLOURS["muted"].light,
    "ytick.color": COLOURS["grid"].light,
    "ytick.labelcolor": COLOURS["muted"].light,
    "ytick.major.size": 0,
    "xtick.major.size": 0,
    "legend.fontsize": SMALL,
    "legend.labelcolor": COLOURS["ink"].light,
    "legend.handlelength": 1.6,
    "legend.columnspacing": 1.6,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
}
