"""Plots: numbers and labels in, SVG text or PDF out. The only package that imports matplotlib.

Equal input gives equal bytes: no dates, hashed ids with a fixed salt, no settings of the machine. Text stays text, so
that it can be searched and read aloud. In a page the colours are CSS variables (`palette_css`), for a light and a
dark page; each kind of mark also has a shape of its own, so that no reading depends on colour.
"""

from pluralrm.draw.funnel import FunnelStep, funnel_plot
from pluralrm.draw.lines import Line, Point, line_plot, scatter_plot
from pluralrm.draw.palette import COLOURS, Tone, palette_css
from pluralrm.draw.plots import Band, Curve, Dot, Panel, Plot, Series, Spread, curve_plot, interval_plot, spread_plot

__all__ = [
    "COLOURS",
    "Band",
    "Curve",
    "Dot",
    "FunnelStep",
    "Line",
    "Panel",
    "Plot",
    "Point",
    "Series",
    "Spread",
    "Tone",
    "curve_plot",
    "funnel_plot",
    "interval_plot",
    "line_plot",
    "palette_css",
    "scatter_plot",
    "spread_plot",
]
