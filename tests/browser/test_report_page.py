"""The report in a real browser: nothing runs, nothing is asked for, nothing is cut, everything can be reached."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from pluralrm.annotate.planner import PlanRequest, make_plan
from pluralrm.annotate.rehearsal import RehearsalWorld, rehearsed
from pluralrm.benchmarks import load_benchmark
from pluralrm.benchmarks.simulated.scorers import posts_known
from pluralrm.core import Benchmark, Run
from pluralrm.metrics.overview import overviews_text
from pluralrm.metrics.personalization import personalization
from pluralrm.metrics.units import top_credit
from pluralrm.report import Beside, PlanJudgments, build_report, read_sources, write_report
from pluralrm.report.sections import sections
from pluralrm.report.view import ReportView, ViewServer
from pluralrm.runs import load_runs, score
from tests.browser.chromium import AXE
from tests.builders import bakery
from tests.report.folders import PAYLOADS, folders, hostile, hostile_bench, rmgap_folders

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
SIZES = [(1280, 900), (390, 844)]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("plain")
    beside = people(bakery(40, canary="CANARY"))
    write_report([folders(runs / "a", items=40), rmgap_folders(runs / "b")], runs / "report.html", beside=beside)
    return runs / "report.html"


@pytest.fixture(scope="module")
def attack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("attack")
    write_report([hostile(runs / "a")], runs / "report.html", beside=people(hostile_bench()))
    return runs / "report.html"


def people(bench: Benchmark) -> Beside:
    """Return a rehearsal of people who judge a benchmark, in both arms."""
    plan = make_plan(bench, PlanRequest(6, checks=0, repeats=0, examples=0, condition="raw:2"), key="k")
    return Beside(people=[PlanJudgments(plan, rehearsed(plan, RehearsalWorld()))])


def opened(browser: "Browser", file: Path, *, size: tuple[int, int] = SIZES[0], dark: bool = False) -> "Page":
    """Open a report; whatever it asks for beside itself, and whatever goes wrong in it, fails the test at `close`."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if dark else "light"
    )
    page = context.new_page()
    page.set_default_timeout(120_000)
    wrong: list[str] = []
    page.on("request", lambda request: wrong.append(request.url) if request.url != file.as_uri() else None)
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    page.goto(file.as_uri())
    page.wrong = wrong  # type: ignore[attr-defined]
    return page


def quiet(page: "Page") -> None:
    """Close the page; nothing was asked for, nothing complained."""
    assert page.wrong == []  # type: ignore[attr-defined]
    page.context.close()


def unfold(page: "Page") -> None:
    """Open every item and every fold, those inside opened ones too."""
    while page.locator("button.more:visible").count():
        page.locator("button.more:visible").first.click()
    page.evaluate("document.querySelectorAll('.unfold[aria-expanded=false]').forEach(one => one.click())")
    for _ in range(3):
        page.evaluate("document.querySelectorAll('details').forEach(box => { box.open = true; })")
        page.wait_for_timeout(300)


def test_attacks_run_nothing_and_are_read_as_text(browser: "Browser", attack: Path) -> None:
    page = opened(browser, attack)
    unfold(page)
    assert page.evaluate("window.ran") is None
    assert page.evaluate("document.scripts.length") == 3
    text = page.evaluate("document.body.textContent")
    for payload in PAYLOADS:
        assert f"prompt {payload}" in text
        assert f"answer {payload}" in text
        assert f"post 1 {payload}" in text
    strange = "document.querySelectorAll('img, iframe, link, base, main style, main script:not([type])').length"
    assert page.evaluate(strange) == 0
    for box in page.locator(".scroll:visible, .item summary:visible").all()[:40]:
        box.hover()
    assert page.evaluate("window.ran") is None
    quiet(page)


def test_searching_with_an_attack_runs_nothing(browser: "Browser", attack: Path) -> None:
    page = opened(browser, attack)
    page.locator(".items input[type=search]").fill(PAYLOADS[2])
    page.wait_for_timeout(400)
    page.locator("#filter").fill(PAYLOADS[2])
    assert 2 <= page.locator(".item").count() < 36
    assert page.evaluate("window.ran") is None
    quiet(page)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_the_page_never_scrolls_sideways_and_nothing_overlaps(
    browser: "Browser", plain: Path, size: tuple[int, int], dark: bool
) -> None:
    page = opened(browser, plain, size=size, dark=dark)
    for _ in range(2):
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        assert page.evaluate(_OVERLAPS) == []
        assert page.evaluate(_CUT) == []
        unfold(page)
    quiet(page)


@pytest.mark.parametrize("dark", [False, True])
def test_only_the_matrix_of_all_pairs_is_wider_than_a_desk(browser: "Browser", tmp_path: Path, dark: bool) -> None:
    models = ("hf:an-organisation/Some-Reward-Model-Gemma-2-27B-v0.2", "judge:another/model,style=pairwise")
    runs = folders(tmp_path / "a", items=40, models=models, conditions=LONG_CONDITIONS)
    write_report([runs, rmgap_folders(tmp_path / "b")], tmp_path / "report.html")
    page = opened(browser, tmp_path / "report.html", dark=dark)
    unfold(page)
    wide = page.evaluate(_WIDER)
    assert all(name.startswith("Paired differences") for name in wide), wide
    assert page.locator("table.models").count() == 2
    quiet(page)


LONG_CONDITIONS = ("none", "raw:2,by=random,seed=1234567", "swapped:2,by=random,seed=1234567", "noise:2", "oracle")
_WIDER = """
[...document.querySelectorAll(".scroll")].filter(box => box.scrollWidth > box.clientWidth + 1)
  .map(box => box.getAttribute("aria-label"))
"""
_OVERLAPS = """
(() => {
  const found = [];
  for (const svg of document.querySelectorAll(".plot svg, .quadrants")) {
    const boxes = [...svg.querySelectorAll("text")].map(text => [text.textContent, text.getBoundingClientRect()])
      .filter(([, box]) => box.width > 0);
    boxes.forEach(([one, a], place) => boxes.slice(place + 1).forEach(([other, b]) => {
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 1 && high > 3) { found.push(`${svg.getAttribute("aria-label")}: ${one} / ${other}`); }
    }));
  }
  return found;
})()
"""
_CUT = """
(() => {
  const found = [];
  for (const svg of document.querySelectorAll(".plot svg, .quadrants")) {
    const whole = svg.getBoundingClientRect();
    for (const text of svg.querySelectorAll("text")) {
      const box = text.getBoundingClientRect();
      if (box.width && (box.left < whole.left - 1 || box.right > whole.right + 1 || box.bottom > whole.bottom + 1)) {
        found.push(`${svg.getAttribute("aria-label")}: ${text.textContent}`);
      }
    }
  }
  for (const box of document.querySelectorAll("main p, main li, h1, h2, h3, summary, figcaption, .text, button")) {
    const at = box.getBoundingClientRect();
    const outside = at.width && at.right > window.innerWidth + 1;
    if (outside && !box.closest(".scroll")) { found.push(box.textContent.slice(0, 60)); }
  }
  return found;
})()
"""


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_axe_finds_nothing(browser: "Browser", plain: Path, size: tuple[int, int], dark: bool) -> None:
    if not AXE.exists():
        pytest.skip("no axe-core: make test-browser installs it")
    page = opened(browser, plain, size=size, dark=dark)
    page.locator(".item summary").first.click()
    page.evaluate("document.querySelectorAll('main details:not(.item)').forEach(box => { box.open = true; })")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    violations = [
        (one["id"], one["impact"], [node["target"] for node in one["nodes"]][:3]) for one in found["violations"]
    ]
    assert violations == []
    quiet(page)


def test_the_keyboard_reaches_every_control(browser: "Browser", plain: Path) -> None:
    page = opened(browser, plain)
    wanted = page.evaluate(f"[...document.querySelectorAll({_CONTROLS!r})].filter({_SHOWN}).length")
    reached: set[str] = set()
    for _ in range(wanted + 5):
        page.keyboard.press("Tab")
        place = page.evaluate(
            f"[...document.querySelectorAll({_CONTROLS!r})].filter({_SHOWN}).indexOf(document.activeElement)"
        )
        seen = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        if place >= 0:
            assert seen != "none"
            reached.add(str(place))
    assert len(reached) == wanted
    quiet(page)


_CONTROLS = "a[href], button, input, select, summary, [tabindex='0']"
_SHOWN = "(one) => one.checkVisibility()"


def test_the_skip_link_comes_first_and_the_switch_turns_the_page_dark(browser: "Browser", plain: Path) -> None:
    page = opened(browser, plain)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#main"
    colour = "getComputedStyle(document.body).backgroundColor"
    mark = "getComputedStyle(document.querySelector('.plot svg text')).fill"
    before = page.evaluate(colour), page.evaluate(mark)
    page.locator("#theme").click()
    after = page.evaluate(colour), page.evaluate(mark)
    assert before[0] != after[0]
    assert before[1] != after[1]
    page.locator("#theme").click()
    assert (page.evaluate(colour), page.evaluate(mark)) == before
    quiet(page)


def test_items_are_found_by_any_of_their_words_and_by_outcome(browser: "Browser", plain: Path) -> None:
    page = opened(browser, plain)
    box = page.locator(".items").first
    assert "40 items, the first 10 shown" in box.locator("[role=status]").inner_text()
    for _ in range(3):
        box.locator("button.more").click()
    assert box.locator(".item").count() == 40
    box.locator("input").fill("i0007")
    page.wait_for_timeout(400)
    assert box.locator(".item").count() == 1
    box.locator(".item summary").first.click()
    box.get_by_text("What each model was given").wait_for()
    box.locator("input").fill("")
    box.locator("select").nth(1).select_option("differ")
    page.wait_for_timeout(400)
    assert 0 < box.locator(".item").count() <= 40
    quiet(page)


@pytest.mark.parametrize("file", ["plain", "attack"])
def test_people_are_drawn_behind_the_runs_and_reached_from_the_leaderboard(
    browser: "Browser", file: str, request: pytest.FixtureRequest
) -> None:
    page = opened(browser, request.getfixturevalue(file))
    page.get_by_role("link", name="beside people").first.click()
    assert page.evaluate("location.hash") == "#b1-people"
    assert page.locator(".board .people").count() == page.locator(".board").first.locator("tbody tr").count()
    plot = page.locator(".onwide svg[aria-label^='REHEARSAL']")
    assert plot.count() == 1
    shown = plot.locator("text").all_text_contents()
    assert [text for text in shown if "one person" in text] == [
        "REHEARSAL: one person, the posts alone",
        "REHEARSAL: one person, the narrative too",
    ]
    shades = plot.locator("path").evaluate_all("all => all.filter(one => getComputedStyle(one).opacity < 0.5).length")
    assert shades == 2
    quiet(page)


def test_a_page_of_one_run_opens(browser: "Browser", tmp_path: Path) -> None:
    runs = folders(tmp_path / "runs", conditions=["none"], items=3)
    source = read_sources([runs])[:1]
    file = tmp_path / "one.html"
    file.write_text(build_report(source).html, encoding="utf-8")
    page = opened(browser, file)
    assert page.locator(".item").count() == 3
    quiet(page)


# ---------------------------------------------------------------- the first screen


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on simulated users: a model that knows its user, baselines, and all controls."""
    runs = tmp_path_factory.mktemp("world")
    bench = load_benchmark("simulated:users=60,items=1")
    for condition in ("none", "raw:10", "swapped:10", "oracle"):
        for model in ("bm25", "longest", "random") if condition != "oracle" else ("bm25",):
            score(bench, model, condition, out=runs)
        if condition != "oracle":
            score(bench, posts_known(bench), condition, out=runs)
    score(load_benchmark("pocket-rmgap"), "longest", "none", out=runs)
    write_report([runs], runs / "report.html")
    return runs


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_answer_table_and_plot_are_on_the_first_screen(
    browser: "Browser", world: Path, size: tuple[int, int], dark: bool
) -> None:
    page = opened(browser, world / "report.html", size=size, dark=dark)
    answer = page.locator(".answered:visible .verdict")
    assert answer.inner_text().startswith("1 of 4 models are personalized: simulated-posts-known")
    assert len(answer.inner_text().split()) <= 30
    for part in (answer, page.locator("table.models:visible"), page.locator(".quadrants:visible")):
        box = part.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= size[1]
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    quiet(page)


def test_names_and_heads_are_printed(browser: "Browser", world: Path) -> None:
    page = opened(browser, world / "report.html")
    named = _names(page)
    page.emulate_media(media="print")
    assert _names(page) == named
    assert page.locator("table.models:visible thead button:visible").count() == 6
    assert page.locator(".exports:visible, #theme:visible, button.more:visible, .controls:visible").count() == 0
    for width in (794, 1100):  # A4 upright and across
        page.set_viewport_size({"width": width, "height": 1100})
        assert page.locator(".scroll:has(> table.models):visible").evaluate("one => one.scrollWidth <= one.clientWidth")
        assert page.locator("table.models:visible .chip").first.bounding_box()["x"] < width  # type: ignore[index]
    quiet(page)


def _names(page: "Page") -> list[str]:
    return page.locator("table.models:visible > tbody:visible > tr:first-child .unfold").all_inner_texts()


def test_rows_sort_unfold_and_are_filtered_by_mouse_and_keyboard(browser: "Browser", world: Path) -> None:
    page = opened(browser, world / "report.html")
    ordered = _names(page)
    assert ordered[0] == "simulated-posts-known"
    first = page.locator("table.models:visible .unfold").first
    first.focus()
    page.keyboard.press("Enter")
    assert first.get_attribute("aria-expanded") == "true"
    below = page.locator(".unfolded:visible")
    assert below.count() == 1
    said = below.inner_text()
    for fact in ("none", "swapped:10", "own", "rank", "p of own − other, adjusted", "is personalized", "failed"):
        assert fact in said
    page.get_by_text("raw:10").first.click()
    assert below.count() == 0
    gain = page.locator("table.models:visible thead button").filter(has_text="gain")
    gain.click()
    head = page.locator("table.models:visible th[aria-sort]")
    assert (head.inner_text(), head.get_attribute("aria-sort")) == ("gain: own − other user", "descending")
    gain.click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert _names(page)[-1] == "simulated-posts-known"
    page.locator("#control-runs").check()
    page.get_by_role("button", name="Show all 13 rows").click()
    assert page.locator("table.models:visible > tbody.control:visible").count() == 9
    page.locator("#baselines").uncheck()
    page.locator("#control-runs").uncheck()
    assert _names(page) == ["simulated-posts-known"]
    page.locator("#baselines").check()
    page.locator("#filter").fill("BM2")
    assert _names(page) == ["bm25"]
    quiet(page)


def test_items_that_flip_or_are_right_with_own_posts_alone_are_those_of_the_rows(
    browser: "Browser", world: Path
) -> None:
    runs = {(run.model, run.condition): run for run in load_runs([world])}
    flips = next(one for one in personalization(_simulated(runs)) if one.model == "bm25").numbers["swap_sensitivity"]
    page = opened(browser, world / "report.html")
    page.locator("a[aria-label='items of bm25 under raw:10']").click()
    box = page.locator(".items:visible")
    assert box.locator("select").first.evaluate("one => one.selectedOptions[0].textContent") == "bm25 · raw:10"
    box.get_by_label("Outcome").select_option("flips")
    assert flips is not None
    assert box.locator("[role=status]").inner_text().startswith(f"{round(flips.value * flips.n)} item")
    box.get_by_label("Outcome").select_option("own")
    own, *controls = (
        {row.item for row in runs["bm25", condition].rows if top_credit(row) == 1}
        for condition in ("raw:10", "none", "swapped:10")
    )
    assert box.locator("[role=status]").inner_text().startswith(f"{len(own.difference(*controls))} item")
    box.get_by_label("Model").select_option(label="longest · raw:10")
    box.get_by_label("Outcome").select_option("r")
    right = sum(top_credit(row) == 1 for row in runs["longest", "raw:10"].rows)
    assert box.locator("[role=status]").inner_text().startswith(f"{right} item")
    quiet(page)


def _simulated(runs: "dict[tuple[str, str], Run]") -> "list[Run]":
    return [run for run in runs.values() if run.card.cluster == "user"]


def test_an_address_opens_its_item_and_its_benchmark(browser: "Browser", world: Path) -> None:
    page = opened(browser, world / "report.html")
    item = next(run for run in load_runs([world]) if run.benchmark == "pocket-rmgap").rows[-1].item
    assert page.locator(".tabs [aria-current]").inner_text() == "simulated 1/4"
    page.evaluate(f"location.hash = '#pocket-rmgap/' + encodeURIComponent({item!r})")
    page.locator(".item[open]").wait_for()
    assert page.locator(".item[open] .id").inner_text() == item
    assert page.locator(".tabs [aria-current]").inner_text() == "pocket-rmgap"
    page.get_by_role("link", name="simulated 1/4").click()
    assert page.locator("table.models:visible .unfold").count() >= 4
    quiet(page)


def test_the_tables_for_papers_are_those_of_the_metrics(browser: "Browser", world: Path, tmp_path: Path) -> None:
    found = sections(read_sources([world]))
    page = opened(browser, world / "report.html")
    for form, name in (("csv", "models.csv"), ("markdown", "models.md"), ("latex", "models.tex")):
        with page.expect_download() as waiting:
            page.locator(f"button[data-form={form}]").click()
        assert waiting.value.suggested_filename == name
        waiting.value.save_as(tmp_path / name)
        wanted = overviews_text([one.overview for one in found], [one.names for one in found], form)  # type: ignore[arg-type]
        assert (tmp_path / name).read_text() == wanted
    page.wrong[:] = [one for one in page.wrong if not one.startswith("blob:")]  # type: ignore[attr-defined]
    quiet(page)


# ---------------------------------------------------------------- the live view

_SLOW = """
import time

class Slow:
    spec = "slow"

    def score(self, queries):
        from pluralrm.core import Verdict

        for query in queries:
            time.sleep(0.2)
            yield Verdict(tuple(float(len(text)) for text in query.candidates))
"""


@pytest.fixture
def live(tmp_path: Path) -> Iterator[ViewServer]:
    (tmp_path / "runs").mkdir()
    with ViewServer(ReportView(tmp_path / "runs")) as made:
        thread = Thread(target=made.run)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def test_progress_moves_while_runs_are_scored_and_a_killed_one_is_stopped(
    browser: "Browser", live: ViewServer, tmp_path: Path
) -> None:
    (tmp_path / "slow.py").write_text(_SLOW)
    context = browser.new_context(viewport={"width": SIZES[0][0], "height": SIZES[0][1]})
    page = context.new_page()
    page.set_default_timeout(120_000)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text))
    page.goto(live.address)
    page.get_by_text("0 of 0 runs complete").wait_for()
    words = ["score", "pocket-prb", "-m", "python:slow:Slow", "-c", "none", "-o", "runs"]
    command = [sys.executable, "-c", "from pluralrm.cli import main; main()", *words]
    scorer = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        bar = page.locator("#live progress")
        bar.wait_for()
        seen = {0}
        while len(seen) < 3:
            seen.add(int(bar.evaluate("one => one.value")))
            page.wait_for_timeout(100)
        assert page.locator("#live .chip").inner_text().lower() == "running"
        [manifest] = (tmp_path / "runs").rglob("run.json")
        manifest.with_name("workers.txt").write_text("7 replicas, 1 died\n")  # as a scorer on a cluster says
        page.locator("#live li", has_text=", 7 replicas, 1 died").wait_for()
        assert bar.evaluate("one => one.max") == 60
    finally:
        scorer.kill()
        scorer.wait()
    page.locator("#live .chip", has_text="stopped").wait_for()
    assert "1 stopped" in page.locator("#live").inner_text()
    table = page.locator("table.models:visible")
    table.locator("th", has_text="slow").wait_for()
    score(load_benchmark("pocket-prb"), "longest", "none", out=tmp_path / "runs")
    table.locator("th", has_text="longest").wait_for()
    assert page.locator(".item summary").count() == 10
    assert wrong == []
    context.close()
