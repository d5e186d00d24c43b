"""What reports, studies, audits, claims and trainings look like: HTML pages, tables, and plots (matplotlib only here).

`document` loads no matplotlib; `plots`, `lines` and `frame` do. Equal input gives equal bytes: no dates, hashed ids
with a fixed salt, no settings of the machine. Text in a plot stays text. Colours, named here, are CSS variables, for a
light and a dark page; each kind of mark also has a shape of its own, so that no reading depends on colour.
"""

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


_LIGHT = (
    "--paper:#fffffe;--raised:#f5f7f9;--ink:#1c2228;--muted:#59636e;--line:#dfe4e9;--accent:#0b5cab;"
    "--alarm:#b80f28;--alarm-soft:#fdecee;--up:#dcebfa;--down:#fbe6d3;--good:#0a7a3c;--good-soft:#eef7f1;"
    "--partial:#8a5a00;color-scheme:light;"
)
_DARK = (
    "--paper:#15191d;--raised:#1d2227;--ink:#e8eaed;--muted:#9aa5b1;--line:#343b43;--accent:#7fbdf9;"
    "--alarm:#ff8787;--alarm-soft:#3a1d20;--up:#17334d;--down:#45301c;--good:#54c98a;--good-soft:#16291f;"
    "--partial:#e0ad4d;color-scheme:dark;"
)


def scheme_css() -> str:
    """Return the CSS variables of a light and a dark page, chosen by the reader's system or by the switch."""
    light, dark = (
        own + "".join(f"--plot-{name}:{getattr(colour, scope)};" for name, colour in COLOURS.items())
        for own, scope in ((_LIGHT, "light"), (_DARK, "dark"))
    )
    return (
        f":root{{{light}}}\n"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}\n"
        f":root[data-theme=dark]{{{dark}}}\n"
    )
