"""What reports, studies, audits, claims and trainings look like: HTML pages, tables, and plots (matplotlib only there).

A page is one file that loads nothing, with one skeleton, one table, one figure and a strict CSP. It is a template in
the `html` folder of its package that extends `pages/page.html.jinja`. The one style sheet and the one script are
allowed by their hashes, so no style attribute, no handler in an attribute and no text of a model can act. Every value
that is not Markup is escaped.

`plots`, `lines` and `frame` load matplotlib. Equal input gives equal bytes: no dates, hashed ids with a fixed salt, no
settings of the machine. Text in a plot stays text. Colours, named here, are CSS variables, for a light and a dark page;
each kind of mark also has a shape of its own, so that no reading depends on colour.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Literal, NamedTuple

from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader, StrictUndefined
from markupsafe import Markup

from pluralrm.text import difference, signed, visible

if TYPE_CHECKING:
    from pluralrm.core import Estimate
    from pluralrm.pages.plots import Plot  # loads matplotlib

# ---------------------------------------------------------------- colours and marks

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


# ---------------------------------------------------------------- pages

GENERATOR = '<meta name="generator" content="pluralrm">'
"""What tells a page of ours from any other file: it stands among the first lines."""


class TableColumn(NamedTuple):
    """The head of a column and the class of its cells; `n` aligns numbers to the right."""

    head: str
    look: str = ""


class TableCell(NamedTuple):
    """A cell with an interval or note in small print, or in bold, or with a class of its own."""

    text: str
    more: str = ""
    look: str = ""
    strong: bool = False


def number_cell(text: str) -> TableCell:
    """Return a number with, in small print, its interval or why it has none."""
    value, _, span = text.partition(" ")
    return TableCell(value, span)


@dataclass(frozen=True, slots=True)
class PageTable:
    """Columns and rows of cells; the cells of column `head` name their rows."""

    label: str
    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[TableCell | str]]
    caption: str = ""
    look: str = ""
    head: int = 0


def columns(*heads: str, look: str = "") -> tuple[TableColumn, ...]:
    """Return columns of one look."""
    return tuple(TableColumn(head, look) for head in heads)


@dataclass(frozen=True)
class Figure:
    """A plot, what to know when reading it, and its numbers as a table; `prefix` keeps the ids of a page apart."""

    plot: "Plot"
    caption: str
    table: PageTable | None = None
    prefix: str = ""

    @cached_property
    def wide(self) -> Markup:
        """The plot for a desk; it is escaped XML of our own making."""
        return Markup(self.plot.inline(self.prefix))  # noqa: S704

    @cached_property
    def narrow(self) -> Markup:
        """The plot for a phone."""
        return Markup(self.plot.inline(self.prefix, narrow=True))  # noqa: S704


class Page(NamedTuple):
    """A whole document and its Content-Security-Policy, which a server also sends as a header."""

    html: str
    policy: str


def render(
    package: str,
    template: str,
    /,
    *,
    title: str,
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    connects: bool = False,
    **values: object,
) -> Page:
    """Return the page of a template; `styles` and `scripts` name files beside it that follow the common ones.

    A page that `connects` may call the server that it came from, and no other.
    """
    style = "\n".join([scheme_css() + resource("page.css"), *(resource(name, package) for name in styles)])
    script = "\n".join([resource("page.js"), *(resource(name, package) for name in scripts)])
    calls = "connect-src 'self'; " * connects
    allowed = f"style-src {_hash(style)}; script-src {_hash(script)}; {calls}"
    policy = f"default-src 'none'; {allowed}base-uri 'none'; form-action 'none'"
    raw = {"style": style, "script": script, "policy": policy, "generator": GENERATOR}
    inert = {name: Markup(text) for name, text in raw.items()}  # noqa: S704 - files of ours and hashes
    return Page(_environment(package).get_template(template).render(title=title, **inert, **values), policy)


def resource(name: str, package: str = "pluralrm.pages") -> str:
    """Return a file of a package's `html` folder."""
    return files(package).joinpath("html", name).read_text(encoding="utf-8")


@cache
def _environment(package: str) -> Environment:
    common = PrefixLoader({"pages": PackageLoader("pluralrm.pages", "html")})
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, "html"), common]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_plain,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["lead"] = lead
    return environment


def lead(text: str) -> tuple[str, str]:
    """Return an answer's first clause, and what follows it.

    >>> lead("Answers give 71.7 by length: the longest.")
    ('Answers give 71.7 by length:', ' the longest.')
    """
    clause = re.match(r".*?(?:[.:](?=\s|$)|(?= \())", text, re.DOTALL)
    end = clause.end() if clause else len(text)
    return text[:end], text[end:]


def _plain(value: object) -> object:
    return value if isinstance(value, Markup) else visible(str(value))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def data_block(name: str, value: object) -> Markup:
    """Return JSON for a script to read, as a block that no browser runs. In ASCII: it holds no `<` and no controls."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    inert = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup('<script type="application/json" id="{}">{}</script>').format(name, Markup(inert))  # noqa: S704


def chip(text: str, look: str = "", more: str = "") -> Markup:
    """Return a verdict as a coloured label (good, bad, partial or grey), with a note beside it."""
    label = Markup('<span class="{}">{}</span>').format(f"chip {look}".strip(), visible(text))
    return label + Markup(' <span class="span">{}</span>').format(visible(more)) if more else label


def interval_bar(
    estimate: "Estimate",
    chance: float,
    people: "Estimate | None" = None,
    *,
    ends: tuple[float, float] = (0.0, 1.0),
    look: str = "",
) -> Markup:
    """Return an estimate and its interval drawn between two `ends`, over chance and what people earn."""

    def pixel(value: float) -> float:
        return round(4 + 132 * (value - ends[0]) / (ends[1] - ends[0]), 1)

    drawn = []
    if people is not None:
        value, left, right = (pixel(people.value if end is None else end) for end in (None, people.low, people.high))
        drawn.append(f'<rect class="people" x="{left}" y="0" width="{round(right - left, 1)}" height="16"/>')
        drawn.append(f'<path class="person" d="M{value} 0V16"/>')
    drawn.append(f'<path class="axis" d="M4 8H136"/><path class="chance" d="M{pixel(chance)} 1V15"/>')
    if estimate.low is not None and estimate.high is not None:
        drawn.append(f'<path class="span" d="M{pixel(estimate.low)} 8H{pixel(estimate.high)}"/>')
    drawn.append(f'<circle cx="{pixel(estimate.value)}" cy="8" r="4"/>')
    svg = '<svg class="{}" width="140" height="16" viewBox="0 0 140 16" aria-hidden="true">{}</svg>'
    return Markup(svg).format(f"bar {look}".strip(), Markup("".join(drawn)))  # noqa: S704 - numbers alone


# ---------------------------------------------------------------- lift against gain


class QuadrantPoint(NamedTuple):
    """A named place with two intervals, and the colour of its verdict."""

    name: str
    x: "Estimate"
    y: "Estimate"
    look: str = ""


_WIDE, _HIGH, _EDGE = 380, 240, 16
_LETTER, _LINE, _LONGEST = 6.4, 13, 26
"""Pixels of a letter and of a line of the labels; letters of the longest."""
_STEPS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
"""Where a number may stand on both axes: the largest that both have room for."""
_Box = tuple[float, float, float, float]


def quadrants(points: Sequence[QuadrantPoint], title: str) -> Markup:
    """Return lift to the right against gain upwards, what each corner says, and as many names as find room."""
    x = _scale([point.x for point in points], _EDGE, _WIDE - _EDGE)
    y = _scale([point.y for point in points], _HIGH - _EDGE, _EDGE)
    corner = Markup('<rect class="corner" x="{}" y="{}" width="{}" height="{}"/>')
    axes = Markup('<path class="axis" d="M{} {}H{}M{} {}V{}"/>')
    drawn = [corner.format(x(0), _EDGE, round(_WIDE - _EDGE - x(0), 1), round(y(0) - _EDGE, 1))]
    drawn.append(axes.format(_EDGE, y(0), _WIDE - _EDGE, x(0), _EDGE, _HIGH - _EDGE))
    taken: list[_Box] = []
    for text, at, up, anchor in (
        ("personalized", _WIDE - _EDGE - 4.0, _EDGE + 12.0, "end"),
        ("wrong posts hurt", 1.0 * _EDGE, _EDGE + 12.0, "start"),
        ("any text helps", _WIDE - _EDGE - 4.0, _HIGH - _EDGE - 18.0, "end"),
        ("lift →", _WIDE - _EDGE - 4.0, y(0) - 4.0, "end"),
        ("↑ gain", x(0) + 4.0, _EDGE + 12.0, "start"),
    ):
        taken.append(_box(text, at, up, anchor))
        drawn.append(_text(text, at, up, anchor))
    for step in _STEPS:
        if x(step) < _WIDE - 2 * _EDGE and y(step) > 2 * _EDGE:
            for at, up in ((x(step) + 15, y(0) + 13), (x(0) - 6, y(step) + 4)):
                taken.append(_box(signed(step), at, up, "end"))
                drawn.append(_text(signed(step), at, up, "end"))
            drawn.append(Markup('<path class="axis" d="M{} {}v4M{} {}h-4"/>').format(x(step), y(0), x(0), y(step)))
            break
    places: dict[tuple[float, float], list[QuadrantPoint]] = {}
    for point in points:
        places.setdefault((x(point.x.value), y(point.y.value)), []).append(point)
        drawn.append(_cross(point, x, y))
    taken += [(at - 5, up - 5, at + 5, up + 5) for at, up in places]
    for (at, up), here in places.items():
        drawn += _label(at, up, here, taken)
    svg = '<svg class="quadrants" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    return Markup(svg).format(_WIDE, _HIGH, visible(title), Markup().join(drawn))  # noqa: S704 - escaped by format


def _scale(estimates: "Sequence[Estimate]", start: float, end: float) -> Callable[[float], float]:
    """Return the place of a value between two pixels, with 0 and some room on both sides of it."""
    ends = [
        edge for estimate in estimates for edge in (estimate.value, estimate.low, estimate.high) if edge is not None
    ]
    reach = max(0.05, *map(abs, ends))
    low, high = min(-0.6 * reach, *ends) - 0.1 * reach, max(0.6 * reach, *ends) + 0.1 * reach
    return lambda value: round(start + (value - low) / (high - low) * (end - start), 1)


def _cross(point: QuadrantPoint, x: Callable[[float], float], y: Callable[[float], float]) -> Markup:
    at, up = x(point.x.value), y(point.y.value)
    path = "" if point.x.low is None or point.x.high is None else f"M{x(point.x.low)} {up}H{x(point.x.high)}"
    path += "" if point.y.low is None or point.y.high is None else f"M{at} {y(point.y.low)}V{y(point.y.high)}"
    label = f"{point.name}: lift {difference(point.x)}, gain {difference(point.y)}"
    mark = '<g class="bar {}"><title>{}</title><path class="span" d="{}"/><circle cx="{}" cy="{}" r="4.5"/></g>'
    return Markup(mark).format(point.look or "open", visible(label), path, at, up)  # noqa: S704 - escaped by format


def _label(at: float, up: float, here: Sequence[QuadrantPoint], taken: list[_Box]) -> list[Markup]:
    """Return the names of the points at one place where they hide nothing, else none: the mark itself has them too."""
    names = [visible(point.name) for point in here]
    short = names[0] if len(names[0]) <= _LONGEST else f"{names[0][:12]}…{names[0][-12:]}"
    text = short + f" +{len(names) - 1}" * (len(names) > 1)
    for side, anchor in ((8.0, "start"), (-8.0, "end")):
        for down in (4.0, -8.0, 15.0, -20.0, 27.0):
            box = _box(text, at + side, up + down, anchor)
            inside = box[0] >= 0 and box[2] <= _WIDE and box[1] >= 0 and box[3] <= _HIGH
            if inside and not any(_meet(box, other) for other in taken):
                taken.append(box)
                return [Markup('<g class="name">{}</g>').format(_text(text, at + side, up + down, anchor))]
    return []


def _box(text: str, at: float, up: float, anchor: str) -> _Box:
    wide = _LETTER * len(text)
    left = at - wide * (anchor == "end")
    return left, up - _LINE + 3, left + wide, up + 3


def _meet(first: _Box, other: _Box) -> bool:
    return first[0] < other[2] and other[0] < first[2] and first[1] < other[3] and other[1] < first[3]


def _text(text: str, at: float, up: float, anchor: str) -> Markup:
    return Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(at, up, anchor, text)
