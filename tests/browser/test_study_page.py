"""study.html in a real browser: nothing runs, nothing is cut, a phone and a screen reader can read it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pluralrm.study import study
from tests.browser.chromium import AXE
from tests.browser.test_report_page import _CUT, _OVERLAPS, SIZES, opened, quiet, unfold
from tests.study.ppo.written import MODELS as TRAINED
from tests.study.ppo.written import declared, recipe, write
from tests.study.studies import MODELS, counted, done

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module", params=["picked", "trained"])
def page_of_a_study(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of a study that picks, and of one that trains."""
    folder = tmp_path_factory.mktemp("study")
    return _picked(folder) if request.param == "picked" else _trained(folder)


def _picked(folder: Path) -> Path:
    """Write a study with long names, several conditions and k, a broken model and one that cannot be."""
    long = counted(folder / ("an-organisation-with-a-long-name-" * 3), milliseconds="0")
    models = [*MODELS, long, "copy", "lsa", "python:tests.study.studies:Broken"]
    done(folder / "out", models=models, conditions=["none", "raw:3"], correlate={"k": [2, 4]})
    return folder / "out" / "study.html"


def _trained(folder: Path) -> Path:
    """Write a study with long names, alarms, a policy for each domain and a training that is missing."""
    long = counted(folder / ("an-organisation-with-a-long-name-" * 3), milliseconds="0")
    changes: dict[str, Any] = {"models": [*TRAINED, long], "ppo": {"per-domain": True}}
    changes["ppo"] |= {"settings": {"test": 0.4, "answers": 2}}
    told = recipe(**changes)
    for training in told.trainings(folder / "out"):
        if (training.cell.reward, training.seed) != ("random", 1):
            write(told, training, constant=training.cell.reward in ("longest", long))
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "torch", None)  # what is on disk is read, and nothing is trained
        study(declared(**changes), out=folder / "out")
    return folder / "out" / "study.html"


def test_the_table_of_models_sorts_by_any_column(browser: "Browser", page_of_a_study: Path) -> None:
    page = opened(browser, page_of_a_study)
    table = page.locator("table.models")
    names = table.locator("tbody th").all_inner_texts()
    table.locator("thead button", has_text="model").click()
    assert table.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    shown = table.locator("tbody th").all_inner_texts()
    assert [name.lower() for name in shown] == sorted(name.lower() for name in names)
    table.locator("thead th.n button").first.click()
    cells = [text.replace("−", "-").split() for text in table.locator("tbody td:nth-child(2)").all_inner_texts()]
    values = [float(cell[0]) for cell in cells if cell[0] != "–"]
    assert values == sorted(values, reverse=True)
    quiet(page)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_it_never_scrolls_sideways_and_nothing_overlaps_or_is_cut(
    browser: "Browser", page_of_a_study: Path, size: tuple[int, int], dark: bool
) -> None:
    page = opened(browser, page_of_a_study, size=size, dark=dark)
    for _ in range(2):
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        assert page.evaluate(_OVERLAPS) == []
        assert page.evaluate(_CUT) == []
        unfold(page)
    quiet(page)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_axe_finds_nothing(browser: "Browser", page_of_a_study: Path, size: tuple[int, int], dark: bool) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: make test-browser")
    page = opened(browser, page_of_a_study, size=size, dark=dark)
    unfold(page)
    page.evaluate(AXE.read_text(encoding="utf-8"))  # by the debugger: the page's policy allows no script of others
    found = page.evaluate("axe.run().then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.html.slice(0, 120))]))")
    assert found == []
    page.context.close()


def test_every_link_of_the_page_leads_somewhere(browser: "Browser", page_of_a_study: Path) -> None:
    page = opened(browser, page_of_a_study)
    lost = page.evaluate(
        "[...document.querySelectorAll('a[href^=\"#\"]')].filter(a => !document.querySelector(a.getAttribute('href')))"
        ".map(a => a.textContent)"
    )
    assert lost == []
    assert page.evaluate("document.querySelectorAll('h1').length") == 1
    quiet(page)
