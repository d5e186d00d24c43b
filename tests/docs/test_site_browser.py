"""The site in a real browser: nothing is fetched from elsewhere, nothing is cut, and a screen reader finds its way."""

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.browser.chromium import AXE
from tests.docs.site import build

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
SIZES = [(1280, 900), (390, 844)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("site"))


@pytest.mark.timeout(1800)  # some sixty pages, each read by axe
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_every_page_is_whole_and_can_be_reached_at_any_width_and_light(
    browser: "Browser", site: Path, size: tuple[int, int], dark: bool
) -> None:
    if not AXE.exists():
        pytest.skip("no axe-core: make test-browser installs it")
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if dark else "light"
    )
    page = context.new_page()
    wrong: list[str] = []
    page.on("request", lambda request: wrong.append(request.url) if elsewhere(request.url, site) else None)
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    for file in sorted(site.rglob("*.html")):
        page.goto(file.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0], file.name
        assert not wrong, file.name
        page.evaluate(AXE.read_text(encoding="utf-8"))
        assert serious(page) == [], file.name
    assert not wrong
    context.close()


def elsewhere(url: str, site: Path) -> bool:
    """Return whether an address is neither a file of the site nor within the page itself."""
    return not url.startswith((site.as_uri(), "data:"))


def serious(page: "Page") -> list[tuple[str, list[str]]]:
    """Return what a screen reader or a keyboard would stumble over, with the first places."""
    found = page.evaluate("axe.run(document, {preload: false, resultTypes: ['violations']})")["violations"]
    return [
        (one["id"], [str(node["target"]) for node in one["nodes"]][:3])
        for one in found
        if one["impact"] in {"serious", "critical"}
    ]


def test_a_word_is_found_without_a_server(browser: "Browser", site: Path) -> None:
    page = browser.new_page()
    page.goto((site / "search.html").as_uri() + "?q=swapped")
    found = page.locator("#search-results a", has_text="Conditions").first
    found.wait_for(timeout=120_000)
    assert Path(urlsplit(str(found.get_attribute("href"))).path).name == "conditions.html"
    found.click()
    assert page.locator("h1").inner_text().startswith("Conditions")
    page.close()
