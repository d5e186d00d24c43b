"""The two pages: that of the annotators and that of the admin, each one file, and what it may do."""

from importlib.resources import files
from typing import NamedTuple

from markupsafe import Markup

from pluralrm.annotate.design import Declared
from pluralrm.annotate.judgments import LONGEST_COMMENT
from pluralrm.annotate.questions import guide, questions
from pluralrm.page import data_block, fragment, page, policy

_PACKAGE = "pluralrm.annotate"
_KEYS = (
    ("1 – 6", "choose, and go to the next question"),
    ("← →", "change the choice"),
    ("↑ ↓", "the question before, the next question"),
    ("Enter", "to the first question, to the next one, and save at the end"),
    ("Ctrl Enter", "save, from the comment too"),
    ("c", "write a comment"),
    ("p", "open and close the posts"),
    ("u", "undo: take the last judgment back and judge that item again"),
)


class Document(NamedTuple):
    """A page and its Content-Security-Policy, which goes out as a header too."""

    text: str
    policy: str


def annotator_page(declared: Declared) -> Document:
    """Return the page on which people judge; it is the same for all of them and holds nothing of an item."""
    asked = [one.to_json() for one in questions(declared)]
    block = data_block("asked", {"task": declared.task, "questions": asked})
    told = guide(declared.task, declared.mode)
    body = fragment(
        _PACKAGE, "annotate.html.jinja", guide=told, keys=_KEYS, asked=block, longest_comment=LONGEST_COMMENT
    )
    return _document("Annotation", body, ("client.js", "questions.js", "item.js", "annotate.js"))


def admin_page() -> Document:
    """Return the page of progress; what it shows is fetched with the admin's token."""
    return _document("Annotation: progress", fragment(_PACKAGE, "admin.html.jinja"), ("admin.js",))


def _document(title: str, body: Markup, scripts: tuple[str, ...]) -> Document:
    styles, code = [_read("annotate.css")], [_read(name) for name in scripts]
    text = page(title, body, styles=styles, scripts=code, connects=True)
    return Document(text, policy(styles=styles, scripts=code, connects=True))


def _read(name: str) -> str:
    return files(_PACKAGE).joinpath("html", name).read_text(encoding="utf-8")
