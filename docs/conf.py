"""How `make docs` builds the site: Sphinx, MyST for Markdown, Furo for the looks. Nothing is fetched, now or later."""

from pygments.lexers.data import JsonLexer  # type: ignore[import-untyped]
from sphinx.application import Sphinx

from pluralrm._version import __version__

project = "pluralrm"
author = "The pluralrm developers"
release = __version__
copyright = f"{author}, Apache-2.0"  # noqa: A001 - the name that Sphinx reads
language = "en"
smartquotes = False  # -- begins an option, and is no dash

extensions = ["myst_parser"]
exclude_patterns = ["images"]
nitpicky = True
highlight_language = "none"
myst_heading_anchors = 4
myst_links_external_new_tab = False

html_theme = "furo"
html_title = f"pluralrm {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False  # the pages' source is one click away in the repository that they came from
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"


def setup(app: Sphinx) -> None:
    """Colour JSON lines as JSON, and let keyboard and screen reader reach what the theme leaves out."""
    app.add_lexer("jsonl", JsonLexer)
    app.connect("html-page-context", _reachable, priority=900)  # after the theme has filled in its own


def _reachable(_app: Sphinx, _page: str, _template: str, context: dict[str, str], _tree: object) -> None:
    # What scrolls sideways must take the focus, or no key moves it; a heading has a level.
    if "body" in context:
        body = context["body"].replace("<pre>", '<pre tabindex="0">')
        context["body"] = body.replace('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper')
    navigation = context["furo_navigation_tree"]
    context["furo_navigation_tree"] = navigation.replace('role="heading"', 'role="heading" aria-level="2"')
