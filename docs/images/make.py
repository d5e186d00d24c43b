"""Takes the pictures of README and tutorial from the demo's report: `make.py REPORT docs/images/report.png`.

The tutorial's pictures go beside the README's. Each shows one part of the page, from its heading down.
"""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


def main(report: Path, picture: Path) -> None:
    """Write `picture` and the tutorial's three."""
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        page = browser.new_page()
        page.goto(report.resolve().as_uri())
        # The last benchmark of the demo is the simulated one: the only one with a model that is personalized.
        take(page, page.locator("h3", has_text="Lift and gain").last, picture, (1100, 1000))
        words = page.locator("p", has=page.locator("strong", has_text="simulated")).first
        take(page, words, picture.with_name("tutorial-words.png"), (800, 510))
        board = page.locator("h3", has_text="Leaderboard").last
        take(page, board, picture.with_name("tutorial-board.png"), (980, 440))
        item = page.locator("summary", has_text="art-01").first
        item.click()
        take(page, item, picture.with_name("tutorial-item.png"), (980, 640))
        browser.close()


def take(page: "Page", top: "Locator", picture: Path, size: tuple[int, int]) -> None:
    """Write what a window of this size shows when `top` stands at its upper edge."""
    page.set_viewport_size({"width": size[0], "height": size[1]})
    top.evaluate("element => element.scrollIntoView()")
    page.screenshot(path=picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
