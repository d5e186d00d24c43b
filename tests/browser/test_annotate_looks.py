"""The page of annotators as it looks, in a real browser: on a phone, in the dark, and with texts that attack it."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pluralrm.annotate.judgments import read_judgments
from pluralrm.annotate.plan import AnnotationPlan
from pluralrm.annotate.planner import PlanRequest, make_plan
from tests.annotate.plans import fours, pair_plan, pairs
from tests.annotate.serving import judgment, serving
from tests.browser.annotating import ALL, DESK, PHONE, PLAN, press, serious, title, visit
from tests.report.folders import PAYLOADS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

# ---------------------------------------------------------------- texts that attack


def hostile(plan: AnnotationPlan) -> AnnotationPlan:
    """Return the plan with attacks, a huge text, writing from right to left and Markdown in every text."""
    markdown = "# Heading\n\n**bold** [link](https://elsewhere.example) ![image](https://elsewhere.example/x.png)"
    arabic = "\u0645\u0631\u062d\u0628\u0627 \u202eevil\u202c \u0628\u0627\u0644\u0639\u0627\u0644\u0645"
    texts = ["\n".join(PAYLOADS), "word " * 40_000, "x" * 100_000, f"{arabic}\r\n{markdown}"]

    def changed(place: int) -> str:
        return f"begins {place} {texts[place % 4]} ends"

    items = tuple(
        replace(
            item,
            prompt=changed(place),
            candidates=(changed(place + 1), changed(place + 3)),
            posts=tuple(changed(place + post) for post in range(4)),
            narrative=changed(place + 2),
        )
        for place, item in enumerate(plan.items)
    )
    return replace(plan, items=items)


def _spelled(text: str) -> str:
    """Return a text as it stands on the page: what turns the direction of writing can be seen."""
    return text.replace("\r\n", "\n").replace("\u202e", r"\u202e").replace("\u202c", r"\u202c")


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_attacks_are_read_as_text(browser: "Browser", tmp_path: Path, size: tuple[int, int]) -> None:
    plan = hostile(PLAN)
    with serving(plan, tmp_path / "plan") as server, visit(browser, server, size=size) as at:
        page = at.open()
        for number, screen in enumerate(plan.by_annotator["a01"], 1):
            title(page, f"{number} of 4")
            press(page, "p")
            item = plan.item[screen.item]
            spelled = [_spelled(item.candidates[place]) for place in screen.order]
            assert page.locator(".answer .text").all_text_contents() == spelled
            assert page.evaluate("window.ran") is None
            assert (
                page.evaluate(
                    "document.querySelectorAll('main img, main iframe, main a, main script, main strong').length"
                )
                == 0
            )
            assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
            press(page, *ALL, "Enter")
        title(page, "All judged")


# ---------------------------------------------------------------- to look at, and to be read aloud

SMALL = """[...document.querySelectorAll('button, .options label, summary, textarea')]
  .filter(one => one.checkVisibility()).map(one => [one.textContent.trim().slice(0, 20), one.getBoundingClientRect()])
  .filter(([, box]) => box.height < 36 || box.left < 0 || box.right > innerWidth + 1).map(([text]) => text)"""
CUT = """[...document.querySelectorAll('.options span, button')].filter(one => one.checkVisibility())
  .filter(one => one.scrollWidth > one.clientWidth + 1 || one.getBoundingClientRect().width
    > one.parentElement.getBoundingClientRect().width + 1).map(one => one.textContent)"""


LOOKS = [(DESK, False), (DESK, True), (PHONE, False), (PHONE, True), ((320, 640), False)]


@pytest.mark.parametrize("looks", LOOKS)
@pytest.mark.parametrize("task", ["pair", "four", "own"])
def test_the_page_fits_and_can_be_read_aloud(
    browser: "Browser", tmp_path: Path, task: str, looks: tuple[tuple[int, int], bool]
) -> None:
    size, dark = looks
    ask = PlanRequest(2, each=1, items=4, checks=0, repeats=0, examples=0, mode="own" if task == "own" else "validate")
    plan = make_plan(fours() if task == "four" else pairs(), ask, key="k")
    with serving(plan, tmp_path / "plan") as server, visit(browser, server, size=size, dark=dark) as at:
        page = at.open()
        title(page, "Item 1")
        for _ in range(2):
            assert serious(page) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
            assert page.evaluate(SMALL) == []
            assert page.evaluate(CUT) == []
            press(page, "p", "1")
            page.locator("#guide").evaluate("fold => { fold.open = true; }")
        if task != "four":
            wanted = "you rather get?" if task == "own" else "better for this asker?"
            assert wanted in page.locator("legend").first.inner_text()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [DESK, PHONE])
def test_the_admin_sees_everybody_and_takes_the_judgments_home(
    browser: "Browser", tmp_path: Path, size: tuple[int, int], dark: bool
) -> None:
    import random

    rng = random.Random(0)
    plan = pair_plan(2, each=2, items=4, checks=1, repeats=0, examples=1, arms=("narrative",))
    with serving(plan, tmp_path / "plan") as server, visit(browser, server, "admin", size=size, dark=dark) as at:
        for screen in plan.screens[:-1]:
            said = judgment(screen.handle, rng, comment="=HYPERLINK(1)<img src=x onerror=alert(1)>")
            assert server.say(screen.annotator, said).status == 200
        page = at.open()
        page.get_by_text("11 of 12 screens judged by 2 annotators").wait_for()
        assert page.locator("#annotators tr").count() == 2
        assert page.locator("#agreement tr").count() == 5
        assert serious(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        with page.expect_download() as download:
            page.locator("#judgments").click()
        download.value.save_as(tmp_path / "judgments.jsonl")
        assert read_judgments(plan, tmp_path / "judgments.jsonl") == read_judgments(plan, server.folder)
