"""The site builds without a warning, holds every page, and loads nothing from elsewhere."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT
from tests.docs.site import build

_LOADED = {"src", "srcset", "href", "data", "poster", "background", "action", "style"}
_ELSEWHERE = re.compile(r"^\s*(https?:)?//|url\(\s*['\"]?(https?:)?//", re.IGNORECASE)
_STYLE = re.compile(r"(?:url\(|@import)\s*['\"]?\s*(?:https?:)?//", re.IGNORECASE)


class Loading(HTMLParser):
    """Collects what a page has its reader's browser load from elsewhere; links that a reader follows are none of it."""

    def __init__(self) -> None:
        super().__init__()
        self.elsewhere: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if tag != "a" and name in _LOADED and _ELSEWHERE.search(value or ""):
                self.elsewhere.append(f"<{tag} {name}={value}>")


def loaded(html: str) -> list[str]:
    """Return what an HTML text loads from elsewhere."""
    reader = Loading()
    reader.feed(html)
    return reader.elsewhere + _STYLE.findall(html)


@pytest.mark.pages
def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    site = build(tmp_path)
    docs = ROOT / "docs"
    for page in PAGES:
        if page.is_relative_to(docs):
            assert (site / page.relative_to(docs)).with_suffix(".html").exists(), page
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        assert not loaded(page.read_text(encoding="utf-8")), page
    for sheet in site.rglob("*.css"):
        assert not _STYLE.search(sheet.read_text(encoding="utf-8")), sheet


def test_what_is_loaded_from_elsewhere_is_found() -> None:
    for html in (
        '<script src="https://cdn.example.org/a.js"></script>',
        '<link rel="preconnect" href="//fonts.example.org">',
        '<img src="a.png" srcset="http://example.org/b.png 2x">'.replace('srcset="', 'srcset=" '),
        "<style>@import 'https://example.org/a.css';</style>",
        '<p style="background: url(https://example.org/a.png)">',
    ):
        assert loaded(html), html
    assert not loaded('<a href="https://example.org">there</a><script src="_static/a.js"></script>')
