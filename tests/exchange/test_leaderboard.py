"""A leaderboard as files: the numbers of `compare`, a page per model, nothing that acts, nothing of others replaced."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pluralrm.cli import app
from pluralrm.errors import MetricError, RunError
from pluralrm.exchange.leaderboard import Site, build_site, group_letters, write_site
from pluralrm.pages import GENERATOR
from pluralrm.report.sections import read_sources, sections
from tests.docs.test_site import loaded
from tests.report.folders import PAYLOADS, folders, hostile, rmgap_folders, unfinished


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    folders(out / "a", items=24, models=("hf:/home/me/Longer", "hf:/home/me/longer"))
    rmgap_folders(out / "b")
    unfinished(out / "c")
    return out


@pytest.fixture(scope="module")
def site(runs: Path) -> Site:
    return build_site(read_sources([runs]))


class Links(HTMLParser):
    """Collects where links lead."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.feed(html)

    def handle_starttag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.targets += [value for name, value in attrs if name == "href" and value]


def test_the_data_are_those_of_compare(runs: Path, site: Site) -> None:
    printed = json.loads(CliRunner().invoke(app, ["compare", str(runs), "--json"]).stdout)
    boards = {board["benchmark_hash"]: board for board in printed}
    data = json.loads(site.files["leaderboard.json"])
    assert len(data["benchmarks"]) == len(boards) == 3
    for benchmark in data["benchmarks"]:
        entries = boards[benchmark["benchmark_hash"]]["entries"]
        for row in benchmark["models"]:
            names = (row["model"], f"hf:/home/me/{row['model']}")
            entry = next(each for each in entries if each["model"] in names and each["condition"] == row["condition"])
            value = entry["metrics"][row["metric"]]
            assert (row["value"], row["value_low"], row["value_n"]) == (value["value"], value["low"], value["n"])


def test_every_link_leads_to_a_file_and_nothing_is_loaded(site: Site) -> None:
    pages = {name: text for name, text in site.files.items() if name.endswith(".html")}
    assert len(pages) == 1 + 4  # the unfinished model has none
    for name, html in pages.items():
        assert GENERATOR in html
        assert loaded(html) == []
        assert "default-src 'none'" in html
        folder = Path(name).parent
        for target in Links(html).targets:
            file = (folder / target.partition("#")[0]).as_posix().replace("models/../", "")
            assert file in site.files or target.startswith("#"), target
    files = [name.lower() for name in site.files]
    assert len(set(files)) == len(files), "two files differ by case alone"


def test_no_path_of_this_machine_and_no_text_of_an_item_is_published(runs: Path, site: Site) -> None:
    everything = "\n".join(site.files.values())
    assert "/home/me" not in everything
    assert str(runs) not in everything
    assert "CANARY" not in everything


def test_equal_runs_give_equal_bytes(runs: Path, site: Site) -> None:
    assert build_site(read_sources([runs])).files == site.files


def test_letters_say_which_models_differ(runs: Path) -> None:
    for section in sections(read_sources([runs])):
        letters, board = group_letters(section.overview), section.overview.board
        keys = [(entry.summary.model, entry.summary.condition) for entry in board.entries]
        for pair in board.differences:
            one, other = (set(letters[keys[place]]) for place in (pair.first, pair.second))
            assert bool(one & other) != pair.significant


def test_all_benchmarks_are_beside_each_other_in_the_order_of_mean_places(tmp_path: Path) -> None:
    for items in (24, 16, 8):
        folders(tmp_path / str(items), items=items, models=("a", "b"))
    site = build_site(read_sources([tmp_path]))
    tables = [
        [row["model"] for row in board["models"] if row["rank_low"] is not None]
        for board in json.loads(site.files["leaderboard.json"])["benchmarks"]
    ]
    names = {name for table in tables for name in table}
    means = {name: sum(table.index(name) for table in tables) for name in names}
    links = re.findall(r'<a href="models/(\w)\.html">', site.files["index.html"])
    assert links[-len(names) :] == sorted(names, key=lambda name: means[name])


def test_the_site_is_a_static_space(site: Site) -> None:
    assert re.match(r'---\ntitle: ".+"\nsdk: static\napp_file: index.html\n---\n', site.files["README.md"])


def test_what_is_not_ours_stays(runs: Path, tmp_path: Path) -> None:
    sources = read_sources([runs / "b"])
    (tmp_path / "models").mkdir()
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")
    (tmp_path / ".git").write_text("a clone", encoding="utf-8")
    (tmp_path / "index.html").write_text("<html>mine</html>", encoding="utf-8")
    with pytest.raises(RunError, match="exists and is not"):
        write_site(sources, tmp_path)
    (tmp_path / "index.html").unlink()
    write_site(read_sources([runs]), tmp_path)
    before = {path.name for path in (tmp_path / "models").iterdir()}
    write_site(sources, tmp_path)
    assert {path.name for path in (tmp_path / "models").iterdir()} < before
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "mine"
    assert (tmp_path / ".git").exists()
    (tmp_path / "models/mine.html").write_text("mine", encoding="utf-8")
    with pytest.raises(RunError, match="exists and is not"):
        write_site(sources, tmp_path)


def test_the_verb_says_the_answers_and_what_it_wrote(runs: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["leaderboard", str(runs), "-o", str(tmp_path / "site"), "--title", "Ours"])
    assert done.exit_code == 0, done.output
    assert "bakery" in done.stdout
    assert "5 models, 7 files" in done.stderr
    assert "<title>Ours</title>" in (tmp_path / "site/index.html").read_text(encoding="utf-8")


def test_runs_without_rows_are_an_error() -> None:
    with pytest.raises(MetricError, match="none of the runs has a row"):
        build_site([])


def test_attacks_are_texts(tmp_path: Path) -> None:
    site = build_site(read_sources([hostile(tmp_path)]))
    for name, html in site.files.items():
        if name.endswith(".html"):
            assert html.count("<script") == 1
            assert not re.search(r"<(img|iframe|svg onload|link|base|a href=javascript)", html)
        assert re.fullmatch(r"[\w.=/-]+", name)
    assert any(
        PAYLOADS[0] in str(row["model"])
        for row in json.loads(site.files["leaderboard.json"])["benchmarks"][0]["models"]
    )
