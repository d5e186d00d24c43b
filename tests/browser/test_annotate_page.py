"""The page of annotators in a real browser: by keyboard alone, offline, in two tabs, with a server that goes away."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pluralrm.annotate.judgments import PairAnswers, standing
from pluralrm.annotate.plan import write_plan
from tests.annotate.serving import Child, Served, serving
from tests.browser.annotating import ALL, PHONE, PLAN, press, saved, serious, title, visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with serving(PLAN, tmp_path / "plan") as found:
        yield found


def test_the_first_page_says_task_time_and_keys_and_is_seen_once(browser: "Browser", server: Served) -> None:
    with visit(browser, server, begun=False) as at:
        page = at.open()
        title(page, "Before you begin")
        text = page.locator("#intro").inner_text()
        assert "Judge for the asker" in text
        assert "4 items. After three of them" in text
        assert "undo: take the last judgment back" in text
        assert not page.locator("#item").is_visible()
        assert serious(page) == []
        press(page, "Enter")
        title(page, "Example 1 of 4")
        page.reload()
        title(page, "Example 1 of 4")


def test_what_is_left_is_estimated_from_ones_own_pace_after_three_items(browser: "Browser", server: Served) -> None:
    with visit(browser, server) as at:
        page = at.open()
        for number in (1, 2, 3):
            title(page, f"{number} of 4")
            assert "left" not in page.locator("#count").inner_text()
            press(page, *ALL, "Enter")
        title(page, "Item 4 of 4")
        assert page.locator("#count").inner_text() == "3 of 4 judged, less than a minute left"


def test_question_and_answers_stay_in_view_on_a_phone(browser: "Browser", server: Served) -> None:
    with visit(browser, server, size=PHONE) as at:
        page = at.open()
        title(page, "Example 1 of 4")
        press(page, "1")
        page.locator("#save").scroll_into_view_if_needed()
        panel, button = page.locator("#shown").bounding_box(), page.locator("#save").bounding_box()
        assert panel is not None
        assert button is not None
        assert panel["y"] >= -1
        assert panel["y"] + panel["height"] < button["y"] < PHONE[1]  # both are seen at once
        page.locator("#answer-1").scroll_into_view_if_needed()
        last = page.locator("#answer-1").bounding_box()
        assert last is not None
        assert 0 <= last["y"] < 0.6 * PHONE[1]


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
        press(page, "3", "ArrowUp", "ArrowRight", "ArrowDown", *"234543216", *"61", "4", "ArrowUp", "5", "Enter")
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
        fits = [
            getattr(one, "personal_fit", "not asked")
            for said in (first, third)
            for one in (said.scores_a, said.scores_b)
        ]
        assert fits == [5, 2, None, 1]
        assert first.decided == "personal_fit"
        assert (second.overall, second.comment) == ("b", "12345 cup")
        assert (third.overall, third.factuality, third.decided) == ("equal", "slightly_b", None)
        assert [one.revision for one in at.kept() if one.handle == screens[1].handle] == [1, 2, 3]
        assert all(0 < one.seconds < 600 for one in at.kept() if one.answers is not None)


def test_personal_fit_is_rated_from_1_to_5_with_a_name_for_every_button(browser: "Browser", server: Served) -> None:
    with visit(browser, server) as at:
        page = at.open()
        title(page, "Example 1 of 4")
        press(page, "1")
        heading = "How well does each answer fit this asker in particular, from 1 (not at all) to 5 (very well)?"
        page.get_by_role("heading", name=heading).wait_for()
        for letter in "AB":
            group = page.get_by_role("group", name=f"Personal fit of answer {letter}", exact=True)
            assert group.get_by_role("radio").count() == 6
            for name in ("1", "2", "3", "4", "5", "cannot tell"):
                assert group.get_by_role("radio", name=name, exact=True).count() == 1
            group.get_by_role("radio", name="4", exact=True).focus()
            press(page, "3")  # and on to the next question
            assert group.get_by_role("radio", name="3", exact=True).is_checked()
        assert serious(page) == []


def test_a_rating_that_could_not_be_told_is_there_again_after_a_reload(browser: "Browser", server: Served) -> None:
    with visit(browser, server) as at:
        page = at.open()
        title(page, "Example 1 of 4")
        press(page, *ALL.replace("524", "664"), "Enter")
        title(page, "Item 2 of 4")
        saved(page)
        page.reload()
        title(page, "Item 2 of 4")
        press(page, "u")
        title(page, "Example 1 of 4")
        assert page.locator("input:checked").count() == 14
        group = page.get_by_role("group", name="Personal fit of answer B")
        assert group.get_by_role("radio", name="cannot tell").is_checked()


def test_the_overall_choice_is_asked_for_alone_and_nothing_is_saved_half(browser: "Browser", server: Served) -> None:
    with visit(browser, server) as at:
        page = at.open()
        title(page, "Example 1")
        assert page.locator("fieldset:visible").count() == 1
        page.locator("#save").click()
        assert "better for this asker?" in page.locator("#missing").inner_text()
        press(page, "1")
        assert page.locator("fieldset:visible").count() == 14
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
        page.unroute_all(behavior="ignoreErrors")  # one may be under way
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
            page.locator("#done-text", has_text="you may close this page").wait_for(timeout=120_000)
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
        assert page.locator("input:checked").count() == 14
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
