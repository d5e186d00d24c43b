"""An audit as one HTML page that runs nothing and asks for nothing."""

from importlib.resources import files

from pluralrm._version import __version__
from pluralrm.audit.result import Audit, percent
from pluralrm.audit.words import counts, found_from, reading
from pluralrm.page import fragment, page

_PACKAGE = "pluralrm.audit"


def audit_page(audit: Audit) -> str:
    """Return the page: the verdict, every probe with its interval drawn, every finding."""
    title = f"Audit of {audit.benchmark}"
    told = {
        "counts": counts(audit),
        "reading": reading(audit),
        "percent": percent,
        "found_from": found_from,
        "version": __version__,
    }
    body = fragment(_PACKAGE, "audit.html.jinja", title=title, audit=audit, **told)
    style = files(_PACKAGE).joinpath("html", "audit.css").read_text(encoding="utf-8")
    return page(title, body, styles=[style])
