"""Takes the README's picture: lift, gain and the conditions plot of the demo's report (`make screenshot`)."""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

report, picture = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
with sync_playwright() as playwright:
    arguments = ["--no-sandbox", "--disable-gpu"]
    browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
    page = browser.new_page(viewport={"width": 1100, "height": 1000})
    page.goto(report.as_uri())
    # The last benchmark of the demo is the simulated one: the only one with a model that is personalized.
    page.locator("h3", has_text="Lift and gain").last.evaluate("heading => heading.scrollIntoView()")
    page.screenshot(path=picture)
    browser.close()
