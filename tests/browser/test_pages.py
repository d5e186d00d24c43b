"""Audit, claim and training pages in a real browser: the parts that they share with the report, by keyboard too."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pluralrm.annotate.claim import claimed
from pluralrm.annotate.claim_page import claim_page
from pluralrm.annotate.planner import PlanRequest, make_plan
from pluralrm.annotate.rehearsal import RehearsalWorld, rehearsed
from pluralrm.audit import audit, audit_page
from pluralrm.training.records import HELD_OUT, METRICS, PpoEvaluation, PpoStep, read_lines, read_run
from tests.browser.chromium import AXE
from tests.browser.test_report_page import _CUT, _OVERLAPS, SIZES, opened, quiet, unfold
from tests.builders import bakery
from tests.construct.worlds import pairs
from tests.study.ppo.written import recipe, write

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module", params=["audit", "claim", "training"])
def page_file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an audit that finds leaks, a claim in two arms, and a training with an alarm."""
    folder = tmp_path_factory.mktemp(request.param)
    write_page = {"audit": _audit, "claim": _claim, "training": _training}[request.param]
    (folder / "page.html").write_text(write_page(folder), encoding="utf-8")
    return folder / "page.html"


def _audit(folder: Path) -> str:
    del folder
    return audit_page(audit(pairs(120, "length"), relabellings=299))


def _claim(folder: Path) -> str:
    del folder
    plan = make_plan(bakery(12), PlanRequest(6, checks=0, repeats=0, examples=0, condition="raw:2"), key="k")
    return claim_page(claimed(plan, rehearsed(plan, RehearsalWorld())))


def _training(folder: Path) -> str:
    from pluralrm.training.outcome import report_page

    job = recipe()
    training = next(iter(job.trainings(folder)))
    write(job, training, constant=True)
    steps, evaluations = (
        read_lines(training.folder / name, kind) for name, kind in ((METRICS, PpoStep), (HELD_OUT, PpoEvaluation))
    )
    return report_page(read_run(training.folder), steps, evaluations)  # type: ignore[arg-type]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_the_answer_comes_first_and_nothing_is_cut_or_found_by_axe(
    browser: "Browser", page_file: Path, size: tuple[int, int], dark: bool
) -> None:
    page = opened(browser, page_file, size=size, dark=dark)
    answer = page.locator(".verdict").first.bounding_box()
    first = page.locator("main table, main figure").locator("visible=true").first.bounding_box()
    assert answer is not None
    assert first is not None
    assert answer["y"] + answer["height"] <= first["y"] < size[1]
    page.evaluate("document.querySelectorAll('.tabs').forEach(one => one.lastElementChild.click())")
    unfold(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert page.evaluate(_OVERLAPS) == []
    assert page.evaluate(_CUT) == []
    if AXE.exists():
        page.evaluate(AXE.read_text(encoding="utf-8"))
        script = "axe.run().then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.html.slice(0, 120))]))"
        assert page.evaluate(script) == []
    quiet(page)


def test_tabs_folds_and_sorting_work_by_keyboard(browser: "Browser", page_file: Path) -> None:
    page = opened(browser, page_file)
    tabs = page.locator(".tabs a")
    for index in range(tabs.count()):
        tabs.nth(index).focus()
        page.keyboard.press("Enter")
        assert tabs.nth(index).get_attribute("aria-current") == "true"
        shown = page.locator("section[data-part]:visible")
        assert shown.count() == 1
        assert f"#{shown.get_attribute('data-part')}" == tabs.nth(index).get_attribute("href")
    head = page.locator("table.sorts:visible thead button").first
    head.focus()
    page.keyboard.press("Enter")
    assert page.locator("table.sorts:visible th[aria-sort]").count() == 1
    fold = page.locator("details.part > summary").locator("visible=true").first
    fold.focus()
    page.keyboard.press("Space")
    assert fold.evaluate("one => one.parentElement.open")
    quiet(page)


def test_an_address_opens_its_tab_and_its_folds(browser: "Browser", page_file: Path) -> None:
    page = opened(browser, page_file)
    for part in page.locator("section[data-part]").evaluate_all("all => all.map(one => one.dataset.part)"):
        page.evaluate(f"location.hash = {part!r}")
        page.locator(f"section[data-part={part!r}]").wait_for()
        assert page.locator(f"section[data-part={part!r}]").is_visible()
    quiet(page)


def test_without_a_script_every_part_is_there(browser: "Browser", page_file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(page_file.as_uri())
    assert page.locator("[data-part]:visible").count() == page.locator("[data-part]").count()
    context.close()


def test_who_wants_no_motion_gets_none(browser: "Browser", page_file: Path) -> None:
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.goto(page_file.as_uri())
    moving = "document.getAnimations().length + [...document.querySelectorAll('*')].filter(one => ['animationName', "
    moving += "'scrollBehavior'].some(key => !['none', 'auto'].includes(getComputedStyle(one)[key]))).length"
    assert page.evaluate(moving) == 0
    context.close()
