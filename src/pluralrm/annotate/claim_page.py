"""claim.html: one page that opens anywhere, asks for nothing and runs nothing; ready for an appendix."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from markupsafe import Markup

from pluralrm._version import __version__
from pluralrm.annotate import claim_words
from pluralrm.annotate.claim_figures import figures
from pluralrm.annotate.claim_result import Claimed
from pluralrm.draw import Plot, palette_css
from pluralrm.page import fragment, page, schemes

_PACKAGE = "pluralrm.annotate"


@dataclass(frozen=True, slots=True)
class Drawn:
    """A plot for a desk and for a phone."""

    plot: Plot
    wide: Markup
    narrow: Markup


def claim_page(found: Claimed) -> str:
    """Return the page: the verdict, plots, and every number with its interval and method."""
    title = f"Is personal fit what separates the pairs of {found.benchmark}?"
    body = fragment(
        _PACKAGE,
        "claim.html.jinja",
        title=title,
        found=found,
        drawn=[_drawn(plot) for plot in figures(found)],
        words=claim_words,
        version=__version__,
    )
    style = files(_PACKAGE).joinpath("html", "claim.css").read_text(encoding="utf-8")
    return page(title, body, styles=[schemes(palette_css("light"), palette_css("dark")), style])


def write_figures(found: Claimed, folder: Path) -> list[Path]:
    """Write every plot as SVG and as PDF; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for plot in figures(found):
        for suffix, content in (("svg", plot.svg().encode()), ("pdf", plot.pdf())):
            file = folder / f"{plot.name}.{suffix}"
            file.write_bytes(content)
            written.append(file)
    return written


def _drawn(plot: Plot) -> Drawn:
    # Our own SVG, drawn by draw: labels are escaped there.
    return Drawn(plot, Markup(plot.inline()), Markup(plot.inline(narrow=True)))  # noqa: S704
