"""The page of annotators in a real browser: by keyboard alone, on a phone, offline, and with texts that attack it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pluralrm.build.annotate.design import Plan
from pluralrm.build.annotate.folder import write_plan
from pluralrm.build.annotate.judgments import Judgment, PairAnswers, read_judgments, standing
from pluralrm.build.annotate.plan import Ask, make_plan
from tests.browser.chromium import AXE
from tests.build.annotate.plans import fours, pair_plan, pairs
from tests.build.annotate.serving import Child, Served, judgment, serving
from tests.report.folders import PAYLOADS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = pytest.mark.browser
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
        page.set_default_timeout(10_000)
        page.on("request", lambda request: None if self._own(request.url) else self.wrong.append(request.url))
        page.on("console", lambda message: None if "ERR_INTERNET" in message.text else self.wrong.append(message.text))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("dialog", lambda dialog: self.wrong.append(dialog.message))
        where = "admin" if self.whose == "admin" else ""
        page.goto(f"http://127.0.0.1:{self.server.port}/{where}#{self.server.tokens[self.whose]}")
        return page

    def _own(self, url: str) -> bool:
        return url.startswith((f"http://127.0.0.1:{self.server.port}/", "blob:"))

    def kept(self, plan: Plan = PLAN) -> list[Judgment]:
        """Return all that the server keeps of this annotator."""
        return [one for one in read_judgments(plan, self.server.folder) if one.annotator == self.whose]


@contextmanager
def visit(
    browser: "Browser", server: Served, whose: str = "a01", *, size: tuple[int, int] = DESK, dark: bool = False
) -> Iterator[Visit]:
    """Yield an annotator's browser; at the end nothing may have gone wrong in it."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if dark else "light"
    )
    found = Visit(context, server, whose, [])
    yield found
    context.close()
    assert found.wrong == []


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with serving(PLAN, tmp_path / "plan") as found:
        yield found


def title(page: "Page", text: str) -> None:
    page.locator("h1:visible", has_text=text).wait_for()


def press(page: "Page", *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def saved(page: "Page") -> None:
    page.locator("#saved", has_text=re.compile("^Saved$")).wait_for()


ALL = "2" + "1234" + "543216" + "4"
"""Overall slightly A; A, slightly A, equal, slightly B; scores A and B in turn; personal fit decided."""


def test_everything_is_done_by_keyboard_alone(browser: "Browser", server: Served) -> None:
    with visit(browser, server) as at:
        page = at.open()
        title(page, "Example 1 of 4")
        press(page, *ALL, "Enter")
        page.locator("#message", has_text="You chose: slightly A").wait_for()
        title(page, "Item 2 of 4")
        press(page, *ALL, "c")  # a comment, in which digits are digits
        page.keyboard.type("12345 cup")
        press(page, "Control+Enter")
        title(page, "Item 3 of 4")
        press(page, "u")  # taken back
        title(page, "Item 2 of 4")
        assert page.locator("#comment").input_value() == "12345 cup"
        press(page, "5", "Control+Enter")
        title(page, "Item 3 of 4")
        press(page, "Enter", "Space", "ArrowRight", "ArrowRight", "ArrowDown")  # by arrows, then up again
        press(page, "3", "ArrowUp", "ArrowRight", "ArrowDown", *"234543216", "4", "ArrowUp", "5", "Enter")
        title(page, "Item 4 of 4")
        press(page, *ALL)
        assert page.evaluate("document.activeElement.id") == "save"
        press(page, "Enter")
        title(page, "All judged")
        saved(page)
        assert serious(page) == []
        said = [one.answers for one in standing(at.kept())]
        found = {one.handle: one.answers for one in standing(at.kept())}
        screens = PLAN.by_annotator["a01"]
        assert len(said) == len(screens) == 4
        first, second, third, _ = (found[screen.handle] for screen in screens)
        assert isinstance(first, PairAnswers)
        assert isinstance(second, PairAnswers)
        assert isinstance(third, PairAnswers)
        assert (first.overall, first.factuality, first.personal_fit) == ("slightly_a", "a", "slightly_b")
        assert (first.scores_a.factuality, first.scores_b.factuality, first.scores_b.helpfulness) == (5, 4, None)
        assert first.decided == "personal_fit"
        assert (second.overall, second.comment) == ("b", "12345 cup")
        assert (third.overall, third.factuality, third.decided) == ("equal", "slightly_b", None)
        assert [one.revision for one in at.kept() if one.handle == screens[1].handle] == [1, 2, 3]
        assert all(0 < one.seconds < 60 for one in at.kept() if one.answers is not None)


def test_the_overall_choice_is_asked_for_alone_and_nothing_is_saved_half(browser: "Browser", server: Served) -> None:
    with visit(browser, server) as at:
        page = at.open()
        title(page, "Example 1")
        assert page.locator("fieldset:visible").count() == 1
        page.locator("#save").click()
        assert "better for this asker?" in page.locator("#missing").inner_text()
        press(page, "1")
        assert page.locator("fieldset:visible").count() == 12
        page.locator("#save").click()
        assert page.locator("#missing").inner_text() == "Not answered yet: Factuality"
        assert at.kept() == []


def test_a_double_click_saves_once_and_touches_no_other_item(browser: "Browser", server: Served) -> None:
    with visit(browser, server) as at:
        page = at.open()
        title(page, "Example 1")
        press(page, *ALL)
        page.locator("#save").dblclick()
        title(page, "Item 2")
        saved(page)
        assert not page.locator("#missing").is_visible()
        assert len(at.kept()) == 1


def test_what_was_judged_offline_is_sent_later_though_the_tab_was_closed(browser: "Browser", server: Served) -> None:
    with visit(browser, server) as at:
        page = at.open()
        title(page, "Example 1")
        page.wait_for_timeout(300)  # the next two items are fetched ahead
        at.context.set_offline(True)
        press(page, *ALL, "Enter")
        title(page, "Item 2")
        press(page, *ALL, "Enter")
        page.locator("#saved", has_text="2 judgments wait in this browser").wait_for()
        title(page, "Item 3")
        press(page, "2", "5")
        page.close()
        assert at.kept() == []
        at.context.set_offline(False)
        again = at.open()
        title(again, "Item 3")
        saved(again)
        assert [one.handle for one in at.kept()] == [screen.handle for screen in PLAN.by_annotator["a01"][:2]]
        chosen = again.locator("fieldset.first input:checked + span, fieldset:nth-of-type(1) input:checked + span")
        assert chosen.first.inner_text() == "slightly A"  # half of an item is still there too
        assert again.locator("#count").inner_text() == "2 of 4 judged"


def test_nobody_is_sent_away_before_all_is_on_the_server(browser: "Browser", server: Served) -> None:
    with visit(browser, server) as at:
        page = at.open()
        for number in range(1, 5):
            title(page, f"{number} of 4")
            page.wait_for_timeout(200)
            at.context.set_offline(number > 2)
            press(page, *ALL, "Enter")
        title(page, "All judged")
        page.locator("#done-text", has_text="Please keep this page open").wait_for()
        assert len(at.kept()) == 2
        at.context.set_offline(False)
        page.locator("#done-text", has_text="you may close this page").wait_for()
        assert len(at.kept()) == 4


def test_a_server_that_is_away_for_a_while_loses_nothing(browser: "Browser", tmp_path: Path) -> None:
    with serving(PLAN, tmp_path / "plan") as server, visit(browser, server) as at:
        page = at.open()
        title(page, "Example 1")
        page.wait_for_timeout(300)
        page.route("**/api/judgments", lambda route: route.abort())  # before it arrives
        press(page, *ALL, "Enter")
        page.locator("#saved", has_text="1 judgment waits").wait_for()
        page.unroute("**/api/judgments")
        page.route("**/api/judgments", lambda route: (route.fetch(), route.abort()))  # after it arrived: no answer
        page.wait_for_timeout(2500)
        page.unroute("**/api/judgments")
        saved(page)
        assert len(at.kept()) == 1
        at.wrong[:] = [text for text in at.wrong if "ERR_FAILED" not in text]


def test_a_server_that_is_killed_and_comes_back_gets_all_that_was_said_meanwhile(
    browser: "Browser", tmp_path: Path
) -> None:
    write_plan(PLAN, tmp_path / "plan")
    child = Child(tmp_path / "plan")
    try:
        child.read_links(3)
        with visit(browser, Served(child.port, child.links, folder=tmp_path / "plan")) as at:
            page = at.open()
            title(page, "Example 1")
            press(page, *ALL, "Enter")
            saved(page)
            page.wait_for_timeout(500)
            child.kill()
            for number in (2, 3):
                title(page, f"Item {number}")
                press(page, *ALL, "Enter")
            page.locator("#saved", has_text="2 judgments wait").wait_for()
            child.start()
            title(page, "Item 4")
            press(page, *ALL, "Enter")
            title(page, "All judged")
            page.locator("#done-text", has_text="you may close this page").wait_for(timeout=40_000)
            assert [one.revision for one in at.kept()] == [1, 1, 1, 1]
            at.wrong[:] = [text for text in at.wrong if "ERR_CONNECTION" not in text]
    finally:
        child.kill()


def test_the_back_button_shows_what_one_said(browser: "Browser", server: Served) -> None:
    with visit(browser, server) as at:
        page = at.open()
        title(page, "Example 1")
        press(page, *ALL, "Enter")
        title(page, "Item 2")
        press(page, "1", "1")
        page.go_back()
        title(page, "Example 1")
        assert "You judged this before" in page.locator("#told").inner_text()
        assert page.locator("input:checked").count() == 12
        page.locator("#leave").click()
        title(page, "Item 2")
        assert page.locator("input:checked").count() == 2
        page.go_back()
        title(page, "Example 1")
        press(page, "4", "Control+Enter")
        title(page, "Item 2")
        saved(page)
        assert [(one.revision, one.answers.overall) for one in at.kept() if isinstance(one.answers, PairAnswers)] == [
            (1, "slightly_a"),
            (2, "slightly_b"),
        ]


def test_two_tabs_keep_one_judgment_and_say_so(browser: "Browser", server: Served) -> None:
    with visit(browser, server) as at:
        first, second = at.open(), at.open()
        for page in (first, second):
            title(page, "Example 1")
        press(first, *ALL, "Enter")
        saved(first)
        press(second, *ALL.replace("2", "5"), "Enter")
        second.locator("#message", has_text="judged elsewhere").wait_for()
        title(second, "Item 2")
        (kept,) = at.kept()
        assert isinstance(kept.answers, PairAnswers)
        assert kept.answers.overall == "slightly_a"
        at.wrong[:] = [text for text in at.wrong if "409" not in text]


def test_a_wrong_link_shows_nothing(browser: "Browser", server: Served) -> None:
    server.tokens["nobody"] = "forged"
    for whose, text in (("nobody", "This link does not work"), ("admin", "screens judged")):
        with visit(browser, server, whose) as at:
            page = at.open()
            page.get_by_text(text).first.wait_for()
            assert serious(page) == []
            assert page.locator(".answer").count() == 0
            at.wrong[:] = [text for text in at.wrong if "401" not in text]


# ---------------------------------------------------------------- texts that attack


def hostile(plan: Plan) -> Plan:
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
    ask = Ask(2, each=1, items=4, checks=0, repeats=0, examples=0, mode="own" if task == "own" else "validate")
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
