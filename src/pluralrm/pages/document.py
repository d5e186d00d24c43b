"""HTML pages: one file each that loads nothing, with one skeleton, one table, one figure and a strict CSP.

A page is a template in the `html` folder of its package that extends `pages/page.html.jinja`. The one style sheet and
the one script are allowed by their hashes, so no style attribute, no handler in an attribute and no text of a model can
act. Every value that is not Markup is escaped.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader, StrictUndefined
from markupsafe import Markup

from pluralrm.pages.style import scheme_css
from pluralrm.text import visible

if TYPE_CHECKING:
    from pluralrm.core import Estimate
    from pluralrm.pages.plots import Plot  # loads matplotlib

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
    return Environment(
        loader=ChoiceLoader([PackageLoader(package, "html"), common]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_plain,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _plain(value: object) -> object:
    return value if isinstance(value, Markup) else visible(str(value))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def data_block(name: str, value: object) -> Markup:
    """Return JSON for a script to read, as a block that no browser runs. In ASCII: it holds no `<` and no controls."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    inert = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup('<script type="application/json" id="{}">{}</script>').format(name, Markup(inert))  # noqa: S704


def interval_bar(found: "Estimate", chance: float, people: "Estimate | None" = None, *, look: str = "") -> Markup:
    """Return a share and its interval drawn from 0 to 100 per cent, over chance and what people earn."""
    drawn = []
    if people is not None:
        value, low, high = (_pixel(people.value if end is None else end) for end in (None, people.low, people.high))
        drawn.append(f'<rect class="people" x="{low}" y="0" width="{round(high - low, 1)}" height="16"/>')
        drawn.append(f'<path class="person" d="M{value} 0V16"/>')
    drawn.append(f'<path class="axis" d="M4 8H136"/><path class="chance" d="M{_pixel(chance)} 1V15"/>')
    if found.low is not None and found.high is not None:
        drawn.append(f'<path class="span" d="M{_pixel(found.low)} 8H{_pixel(found.high)}"/>')
    drawn.append(f'<circle cx="{_pixel(found.value)}" cy="8" r="4"/>')
    svg = '<svg class="{}" width="140" height="16" viewBox="0 0 140 16" aria-hidden="true">{}</svg>'
    return Markup(svg).format(f"bar {look}".strip(), Markup("".join(drawn)))  # noqa: S704 - numbers alone


def _pixel(share: float) -> float:
    return round(4 + 132 * share, 1)
