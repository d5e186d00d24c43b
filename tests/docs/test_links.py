"""Every link of README and docs leads somewhere: file, heading, picture. Of addresses elsewhere the form is read."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.docs.pages import PAGES, anchors, links, name


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = [f"{name(page)}:{number}: {target}" for number, target in links(page) if not leads(page, target)]
    assert not broken


def leads(page: Path, target: str) -> bool:
    """Return whether a link's target is there: a well-formed address, or a file and in it the heading."""
    parts = urlsplit(target)
    if parts.scheme:
        return parts.scheme == "https" and "." in parts.netloc
    file = (page.parent / parts.path).resolve() if parts.path else page
    return file.exists() and (not parts.fragment or (file.suffix == ".md" and parts.fragment in anchors(file)))


def test_a_picture_has_words_for_those_who_do_not_see_it() -> None:
    assert not [name(page) for page in PAGES if "![](" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize(
    ("target", "there"),
    [
        ("page.md", True),
        ("#a-heading-two-words--a-link-too-", True),
        ("page.md#the-same", True),
        ("page.md#the-same-1", True),
        ("page.md#the-same-2", False),
        ("#in-a-block", False),
        ("nowhere.md", False),
        ("https://example.org/a", True),
        ("http://example.org/a", False),
        ("https://nowhere", False),
    ],
)
def test_a_link_that_leads_nowhere_is_found(tmp_path: Path, target: str, there: bool) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A heading: `two words` & [a link](x.md), too!\n## The same\n## The same\n```\n# In a block\n```\n"
    )
    assert anchors(page) == {"a-heading-two-words--a-link-too", "the-same", "the-same-1"}
    assert leads(page, target.rstrip("-")) is there
