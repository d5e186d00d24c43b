"""Takes the pictures of README and tutorial: `make.py REPORT STUDY docs/images/report.png`.

REPORT is the demo's, STUDY the page of the two-minute study. The tutorial's pictures go beside the README's. Each shows
one part of a page, from its heading down.
"""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

ABOVE, BELOW = 12, 4
"""Pixels around what is shown; the next row of a table begins with six empty ones."""


def main(report: Path, study: Path, picture: Path) -> None:
    """Write `picture` and the tutorial's three."""
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        page = browser.new_page()
        page.goto(report.resolve().as_uri())
        # The last benchmark of the demo is the simulated one: the only one with a model that is personalized.
        part = page.locator("section.benchmark").last
        pair = part.locator("h3", has_text="Lift and gain")
        take(page, pair, part.locator("figure figcaption").first, picture, width=1100)
        board = part.locator("[aria-label='Leaderboard of simulated under raw:10'] table")
        take(page, board, board, picture.with_name("tutorial-board.png"), width=980)
        item = page.locator(".item", has_text="art-01").first
        item.locator("summary").first.click()
        take(page, item, item.locator("tbody tr").nth(7), picture.with_name("tutorial-item.png"), width=980)
        page.goto(study.resolve().as_uri())
        plot = page.locator("figure .onwide").first
        take(page, plot, plot, picture.with_name("tutorial-against.png"), width=800)
        browser.close()


def take(page: "Page", top: "Locator", bottom: "Locator", picture: Path, *, width: int) -> None:
    """Write what a window of this width shows from one element down to the end of another."""
    page.set_viewport_size({"width": width, "height": 1000})
    first, last = top.bounding_box(), bottom.bounding_box()
    if first is None or last is None:
        sys.exit(f"{picture.name}: the report does not show what belongs there")
    down = page.evaluate("window.scrollY")
    start, end = first["y"] + down - ABOVE, last["y"] + last["height"] + down + BELOW
    page.screenshot(path=picture, full_page=True, clip={"x": 0, "y": start, "width": width, "height": end - start})


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
