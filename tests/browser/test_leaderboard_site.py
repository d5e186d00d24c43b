"""The leaderboard of 60 runs on each of three benchmarks in a real browser: small, reachable, sorted and filtered."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.benchmarks.simulated.scorers import posts_known
from pluralrm.core import Benchmark, Query, RewardModel, Verdict
from pluralrm.exchange.leaderboard import write_site
from pluralrm.report import read_sources
from pluralrm.runs import score
from tests.browser.chromium import AXE
from tests.browser.test_report_page import opened
from tests.report.folders import hostile

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
MODELS = 20


class Noisy:
    """The one that knows its users, with noise: the lower the number, the more."""

    def __init__(self, bench: Benchmark, number: int) -> None:
        self.inner: RewardModel = posts_known(bench)
        self.number = number
        self.spec = f"hf:an-organisation/reward-model-{number:02d}"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        asked = list(queries)
        for query, verdict in zip(asked, self.inner.score(asked), strict=True):
            scores = [float(value) for value in verdict.scores if isinstance(value, float)]
            noise = (self._noise(f"{query.id}{text}{bool(query.user)}") for text in query.candidates)
            yield Verdict(tuple(value * self.number / MODELS + each for value, each in zip(scores, noise, strict=True)))

    def _noise(self, text: str) -> float:
        return int(hashlib.sha256(f"{self.number}{text}".encode()).hexdigest()[:8], 16) / 2**32 - 0.5


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("leaderboard")
    for users, items in ((40, 2), (30, 3), (30, 4)):
        bench = load_benchmark(f"simulated:users={users},items={items},seed={items}")
        models: list[RewardModel] = [*(Noisy(bench, number) for number in range(MODELS - 1)), load_baseline()]
        for model in models:
            for condition in ("none", "raw:5", "swapped:5"):
                score(bench, model, condition, out=out / "runs")
    sources = read_sources([out / "runs"])
    assert len(sources) == 3 * 60
    write_site(sources, out / "site")
    return out / "site"


def load_baseline() -> RewardModel:
    from pluralrm.models import load_model

    return load_model("longest")


def quiet(page: "Page", folder: Path) -> None:
    """Close the page; it asked for no file but those of the site."""
    assert [text for text in page.wrong if not text.startswith(folder.as_uri())] == []  # type: ignore[attr-defined]
    page.context.close()


def names(page: "Page") -> list[str]:
    return page.locator(".filtered:visible tbody tr:visible th a").all_inner_texts()


def test_the_site_is_small(site: Path) -> None:
    assert sum(file.stat().st_size for file in site.rglob("*") if file.is_file()) < 3_000_000
    assert len(list((site / "models").iterdir())) == MODELS


def test_models_are_sorted_and_filtered(browser: "Browser", site: Path) -> None:
    page = opened(browser, site / "index.html")
    assert len(names(page)) == MODELS
    ranked = names(page)
    head = page.locator(".filtered:visible th button").filter(has_text="model")
    head.click()
    assert names(page) == sorted(ranked)
    page.locator(".filtered:visible th button").filter(has_text="accuracy").click()
    values = [float(text) for text in page.locator(".filtered:visible tbody td.n strong").all_inner_texts()]
    assert values == sorted(values, reverse=True)
    page.locator("#filter").fill("MODEL-1")
    assert names(page) == [name for name in names(page) if "model-1" in name]
    assert page.locator("#count").inner_text() == f"{len(names(page))} of {MODELS}"
    page.locator("#filter").fill("")
    page.locator("#baselines").uncheck()
    assert len(names(page)) == MODELS - 1
    verdicts = page.locator(".filtered:visible tbody tr:visible .chip")
    every = verdicts.all_text_contents()
    page.locator("#verdict").select_option(every[0])
    assert verdicts.all_text_contents() == [verdict for verdict in every if verdict == every[0]]
    quiet(page, site)


def test_tabs_lead_to_benchmarks_and_models_to_their_pages(browser: "Browser", site: Path) -> None:
    page = opened(browser, site / "index.html")
    page.get_by_role("link", name="All benchmarks").click()
    assert len(names(page)) == MODELS
    assert page.locator(".filtered:visible thead th").count() == 4
    page.locator(".filtered:visible tbody a").first.click()
    page.wait_for_url("**/models/*.html")
    assert page.locator("tbody tr").count() == 3
    page.get_by_text("Card for a README").click()
    assert "model-index:" in page.locator("pre").inner_text()
    page.locator(".about a").click()
    page.wait_for_url("**/index.html")
    quiet(page, site)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [(1280, 900), (390, 844)])
def test_axe_finds_nothing_and_no_page_scrolls_sideways(
    browser: "Browser", site: Path, size: tuple[int, int], dark: bool
) -> None:
    if not AXE.exists():
        pytest.skip("no axe-core: make test-browser installs it")
    for file in (site / "index.html", next((site / "models").iterdir())):
        page = opened(browser, file, size=size, dark=dark)
        page.evaluate("document.querySelectorAll('details').forEach(box => { box.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        assert [(one["id"], [node["target"] for node in one["nodes"]][:3]) for one in found["violations"]] == []
        quiet(page, site)


def test_attacks_run_nothing(browser: "Browser", tmp_path: Path) -> None:
    write_site(read_sources([hostile(tmp_path / "runs")]), tmp_path / "site")
    for file in (tmp_path / "site").rglob("*.html"):
        page = opened(browser, file)
        page.evaluate("document.querySelectorAll('details').forEach(box => { box.open = true; })")
        assert page.evaluate("window.ran") is None
        assert page.evaluate("document.querySelectorAll('img, iframe, link, base').length") == 0
        quiet(page, tmp_path / "site")
