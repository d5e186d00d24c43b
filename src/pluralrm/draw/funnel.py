"""How many of what came in are left after each step, and what became of the others."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pluralrm.draw.frame import SMALL, Frame, Layout, wide
from pluralrm.draw.palette import Tone, ink
from pluralrm.draw.plots import Plot

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
