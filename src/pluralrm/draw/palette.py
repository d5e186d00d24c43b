"""The colours and shapes of plots, on a light and on a dark page."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

Tone = Literal["plain", "second", "none", "own", "swapped", "noise", "oracle"]
"""What a mark stands for: the roles that conditions play, and two tones for anything else."""


class Colour(NamedTuple):
    """One colour, on a light and on a dark page."""

    light: str
    dark: str


COLOURS: Mapping[str, Colour] = {
    "ink": Colour("#1c2228", "#e8eaed"),
    "muted": Colour("#59636e", "#9aa5b1"),
    "grid": Colour("#dfe4e9", "#343b43"),
    "paper": Colour("#fffffe", "#15191d"),
    "plain": Colour("#0b62b4", "#6fb6f7"),
    "second": Colour("#a85400", "#f0a35a"),
    "none": Colour("#5a646f", "#a3adb8"),
    "own": Colour("#0b62b5", "#6fb6f8"),
    "swapped": Colour("#0d7a5f", "#4cc9a4"),
    "noise": Colour("#8048a6", "#c79be6"),
    "oracle": Colour("#c4122d", "#ff7b7b"),
}
"""Every colour that a plot may use. All light values differ, so that each can be told from the others in an SVG."""

MARKS: Mapping[str, tuple[str, bool]] = {
    "plain": ("o", True),
    "second": ("s", False),
    "none": ("o", False),
    "own": ("oDvPXp", True),
    "swapped": ("sdH", False),
    "noise": ("*<8", True),
    "oracle": ("^", True),
}
"""Shapes, one after another for series of one tone, and whether they are filled."""


def ink(name: str) -> str:
    """Return a colour as matplotlib draws it: the light one, which a page then replaces by a variable."""
    return COLOURS[name].light


def palette_css(scope: Literal["light", "dark"]) -> str:
    """Return the declarations of the colours' CSS variables."""
    return "".join(f"--plot-{name}:{getattr(colour, scope)};" for name, colour in COLOURS.items())
