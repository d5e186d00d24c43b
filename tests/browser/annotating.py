"""Annotators in a browser, for the tests of their page: what they ask for, what goes wrong, what axe finds."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pluralrm.annotate.judgments import Judgment, read_judgments
from pluralrm.annotate.plan import AnnotationPlan
from tests.annotate.plans import pair_plan
from tests.annotate.serving import Served
from tests.browser.chromium import AXE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

DESK, PHONE = (1280, 900), (390, 844)
PLAN = pair_plan(2, each=1, items=4, checks=1, repeats=0, examples=1, arms=("narrative",))


@dataclass
class Visit:
    """A browser of one annotator, what it asked for elsewhere, and what went wrong in it."""

    context: "BrowserContext"
    server: Served
    whose: str
    wrong: list[str]

    def open(self) -> "Page":
        """Open the annotator's link in a new tab."""
        page = self.context.new_page()
        page.set_default_timeout(120_000)
        page.on("request", lambda request: None if self._own(request.url) else self.wrong.append(request.url))
        page.on("console", lambda message: None if "ERR_INTERNET" in message.text else self.wrong.append(message.text))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("dialog", lambda dialog: self.wrong.append(dialog.message))
        where = "admin" if self.whose == "admin" else ""
        page.goto(f"http://127.0.0.1:{self.server.port}/{where}#{self.server.tokens[self.whose]}")
        return page

    def _own(self, url: str) -> bool:
        return url.startswith((f"http://127.0.0.1:{self.server.port}/", "blob:"))

    def kept(self, plan: AnnotationPlan = PLAN) -> list[Judgment]:
        """Return all that the server keeps of this annotator."""
        return [one for one in read_judgments(plan, self.server.folder) if one.annotator == self.whose]


_BEGIN = """
addEventListener("DOMContentLoaded", () => {
  const intro = document.getElementById("intro");
  const begin = () => { if (intro && !intro.hidden) { document.getElementById("begin").click(); } };
  if (intro) { new MutationObserver(begin).observe(intro, {attributes: true}); begin(); }
});
"""


@contextmanager
def visit(
    browser: "Browser",
    server: Served,
    whose: str = "a01",
    *,
    size: tuple[int, int] = DESK,
    dark: bool = False,
    begun: bool = True,
) -> Iterator[Visit]:
    """Yield an annotator's browser; at the end nothing may have gone wrong in it.

    The first page is gone through at once, unless `begun` is False.
    """
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if dark else "light"
    )
    if begun:
        context.add_init_script(_BEGIN)
    found = Visit(context, server, whose, [])
    yield found
    context.close()
    assert found.wrong == []


def title(page: "Page", text: str) -> None:
    page.locator("h1:visible", has_text=text).wait_for()


def press(page: "Page", *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def saved(page: "Page") -> None:
    page.locator("#saved", has_text=re.compile("^Saved$")).wait_for()


def serious(page: "Page") -> list[object]:
    """Return what axe finds that would stop somebody."""
    if not AXE.exists():
        pytest.skip("no axe-core: make test-browser installs it")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        (one["id"], one["impact"], [node["target"] for node in one["nodes"]][:3])
        for one in found["violations"]
        if one["impact"] in {"serious", "critical", "moderate"}
    ]


ALL = "2" + "1234" + "543216" + "52" + "4"
"""Overall slightly A; A, slightly A, equal, slightly B; ratings A and B in turn, of fit too; personal fit decided."""
