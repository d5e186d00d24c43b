"""The report as a file: complete, true to the runs, inert, and the same bytes for the same runs."""

import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pluralrm.benchmarks import load_benchmark
from pluralrm.cli import app
from pluralrm.core import Failure
from pluralrm.errors import MetricError, RunError
from pluralrm.metrics import leaderboard
from pluralrm.metrics.personalization import personalization
from pluralrm.metrics.plural import answer, plural
from pluralrm.models import load_model
from pluralrm.report import build_report, read_sources, write_report
from pluralrm.runs import find_runs, load_inputs, load_run, score
from pluralrm.text import difference, interval, percent, share
from tests.builders import Scripted, bakery, empty_run
from tests.report.folders import PAYLOADS, folders, hostile, rmgap_folders, unfinished


class Seen(HTMLParser):
    """What a parser finds: tags with their attributes, and all text outside script and style."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._inside = ""
        self.feed(html)
        self.text = "".join(self.words)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside not in {"script", "style"}:
            self.words.append(data)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folders(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def attack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile(tmp_path_factory.mktemp("attack"))


@cache
def made(*paths: Path, text: bool = True) -> str:
    return build_report(read_sources(paths), text=text).html


def data_of(html: str, number: int = 1) -> Any:
    found = re.search(rf'<script type="application/json" id="b{number}-data">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_a_report_holds_every_part(plain: Path) -> None:
    seen = Seen(made(plain))
    for heading in (
        *("Do these reward models use the user?", "How to read this", "Items", "The reading in words"),
        *("Under each condition", "By domain", "Score gaps", "Length bias", "Leaderboard", "Every pair of runs"),
        *("How the numbers were computed", "About the benchmark", "Provenance"),
    ):
        assert heading in seen.text
    assert len([tag for tag, _ in seen.tags if tag == "h1"]) == 1


def test_headings_never_skip_a_level(plain: Path) -> None:
    levels = [int(tag[1]) for tag, _ in Seen(made(plain)).tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_tables_have_captions_and_scopes(plain: Path) -> None:
    tags = Seen(made(plain)).tags
    assert sum(tag == "table" for tag, _ in tags) == sum(tag == "caption" for tag, _ in tags)
    assert all(attributes.get("scope") in {"col", "row"} for tag, attributes in tags if tag == "th")


def test_diagnostics_draw_the_rows_of_the_first_screen_and_their_tables_have_every_run(plain: Path) -> None:
    html = made(plain)
    for title in ("Accuracy by domain", "Score gaps", "Length bias"):
        drawn = re.search(rf'<svg[^>]*aria-label="{title}.*?</svg>', html, re.DOTALL)
        table = re.search(rf'aria-label="{title}[^"]*, as a table">(.*?)</table>', html, re.DOTALL)
        assert drawn is not None
        assert table is not None
        assert set(re.findall(r">((?:longer|shorter) · [^<]+)<", drawn[0])) == {"longer · raw:2", "shorter · raw:2"}
        assert len(re.findall(r"(?:longer|shorter) · ", table[1])) == 8


def test_the_answer_says_so_where_nothing_is_complete_or_a_control_is_missing(tmp_path: Path) -> None:
    run = unfinished(tmp_path / "open")
    assert (
        "No model is scored on every item yet: items that are left count as failed." in Seen(made(Path(run.path))).text
    )
    score(bakery(6), Scripted("alone"), "raw:2", out=tmp_path / "alone")
    assert "alone has no verdict:" in Seen(made(tmp_path / "alone")).text


def test_the_leaderboards_numbers_are_those_of_the_metrics(plain: Path) -> None:
    text = Seen(made(plain)).text
    board = leaderboard([load_run(path) for path in find_runs([plain])])
    for entry in board.entries:
        value = entry.summary.metrics["accuracy"]
        assert value.low is not None
        assert value.high is not None
        assert f"{100 * value.value:.1f}[{100 * value.low:.1f}, {100 * value.high:.1f}]" in text


def test_what_the_posts_are_worth_is_what_the_metrics_say(plain: Path) -> None:
    html = made(plain)
    found = personalization([load_run(path) for path in find_runs([plain])])
    assert len(found) == 2
    for one in found:
        _, _, rest = html.partition(f'<tbody class="model" data-key="{one.model} raw:2">')
        body, _, _ = rest.partition('<tbody class="model"')
        for value in (one.lift, one.gain):
            number, _, span = difference(value).partition(" ")
            assert f'<span class="value">{number}</span> <span class="sr">{span}</span>' in body
        assert f"<dt>oracle − own</dt><dd>{difference(one.numbers['oracle_gap'])}</dd>" in body
        for role, earned in one.accuracy.items():
            assert f'{share(earned.value)} <span class="span">{interval(earned)}</span>' in body, role


def test_equal_runs_give_equal_bytes(plain: Path, tmp_path: Path) -> None:
    """Whatever the folder, the hash seed, and the settings of matplotlib on the machine."""
    elsewhere = tmp_path / "a copy"
    shutil.copytree(plain, elsewhere)
    (tmp_path / "matplotlibrc").write_text("font.size: 30\naxes.facecolor: red\nsvg.fonttype: path\n")
    script = "import sys; from pluralrm.report import write_report; write_report([sys.argv[1]], sys.argv[2])"
    environment = {**os.environ, "PYTHONHASHSEED": "7", "MATPLOTLIBRC": str(tmp_path)}
    out = tmp_path / "there.html"
    subprocess.run([sys.executable, "-c", script, str(elsewhere), str(out)], env=environment, check=True)
    assert out.read_text(encoding="utf-8") == made(plain)


def test_the_only_dates_are_those_of_the_runs(plain: Path) -> None:
    html = made(plain)
    manifests = [source.manifest for source in read_sources([plain])]
    stamps = {stamp for one in manifests for stamp in (one.started, one.finished)}
    dates = set(re.findall(r"\b20\d\d-\d\d-\d\dT[\d:]+", html))
    assert dates <= {str(stamp)[:19] for stamp in stamps}


@pytest.mark.parametrize("runs", ["one", "rmgap", "unfinished", "two benchmarks"])
def test_it_is_made_of_whatever_there_is(runs: str, plain: Path, tmp_path: Path) -> None:
    paths = {
        "one": lambda: [find_runs([plain])[0]],
        "rmgap": lambda: [rmgap_folders(tmp_path)],
        "unfinished": lambda: [Path(unfinished(tmp_path).path)],
        "two benchmarks": lambda: [plain, rmgap_folders(tmp_path)],
    }[runs]()
    seen = Seen(made(*paths))
    assert "Leaderboard" in seen.text
    assert ("Which style it picks" in seen.text) == (runs in {"rmgap", "two benchmarks"})
    assert ("unfinished" in seen.text) == (runs == "unfinished")


def test_an_unfinished_run_is_said_to_be_one(tmp_path: Path, plain: Path) -> None:
    unfinished(tmp_path)
    report = build_report(read_sources([tmp_path, plain]))
    assert any("not ranked or tested: down · none has 5 of 6 items" in words for words in report.paragraphs)
    assert Seen(report.html).text.count("UNFINISHED") == 1


def test_a_run_without_rows_is_named_and_none_at_all_is_an_error(tmp_path: Path, plain: Path) -> None:
    empty = tmp_path / "empty"
    shutil.copytree(find_runs([plain])[0], empty)
    empty_run(empty)
    with pytest.raises(RunError, match=r"at or below '.*empty': 1 run, and it has no row yet"):
        made(empty)
    with pytest.raises(MetricError, match="none of the runs has a row"):
        build_report([])
    assert "Left out because it has no rows yet" in Seen(made(plain, empty)).text


def test_failures_are_told_with_kind_count_and_example(attack: Path) -> None:
    seen = Seen(made(attack))
    assert "Items without a score count as wrong" in seen.text
    for run in map(load_run, find_runs([attack])):
        failed = [row for row in run.rows if row.failed]
        if failed:
            score = failed[0].scores[0]
            assert isinstance(score, Failure)
            assert score.detail in seen.text


def test_the_page_holds_exactly_what_each_model_was_given(plain: Path) -> None:
    table = data_of(made(plain))
    texts, views, items = table["texts"], table["views"], table["items"]
    runs = {f"{run.model} · {run.condition}": run for run in map(load_run, find_runs([plain]))}
    names = [name.removesuffix(" · ORACLE") for name, _ in table["runs"]]
    checked = 0
    for place, item in enumerate(items):
        for view, shown_to in views[str(place)]:
            prompt, candidates, posts, _, notes, oracle = view
            for number in shown_to:
                given: Any = load_inputs(runs[names[number]].path, item[0])
                user = given["user"] or {"posts": []}
                assert texts[prompt] == given["prompt"]
                assert [texts[one] for one in candidates] == given["candidates"]
                assert [texts[text] for _, text in posts] == [post["text"] for post in user["posts"]]
                assert [texts[note] for note in notes] == given["notes"]
                assert oracle == given["reveals_oracle"]
                checked += 1
    assert checked == sum(len(run.rows) for run in runs.values())


def test_scores_and_outcomes_of_the_page_are_those_of_the_rows(plain: Path) -> None:
    table = data_of(made(plain))
    for number, (name, _) in enumerate(table["runs"]):
        model, condition = name.removesuffix(" · ORACLE").split(" · ")
        run = next(r for r in map(load_run, find_runs([plain])) if (r.model, r.condition) == (model, condition))
        rows = {row.item: row for row in run.rows}
        for place, item in enumerate(table["items"]):
            row = rows[item[0]]
            shown = table["scores"][number][place]
            assert shown == pytest.approx(row.scores, rel=5e-3)
            scores = [one for one in row.scores if isinstance(one, float)]
            right = scores.index(max(scores)) == row.preferred and scores.count(max(scores)) == 1
            assert (table["outcomes"][number][place] == "r") == right


def test_without_text_no_word_of_a_user_or_a_model_is_there(plain: Path, attack: Path) -> None:
    html = made(plain, text=False)
    for run in map(load_run, find_runs([plain])):
        for row in run.rows:
            given: Any = load_inputs(run.path, row.item)
            user = given["user"] or {"posts": []}
            said = [given["prompt"], *given["candidates"], *given["notes"], *(p["text"] for p in user["posts"])]
            assert not [text for text in said if text in html]
    assert PAYLOADS[8] not in Seen(made(attack, text=False)).text.replace("citation", "")[:20_000]


def test_only_oracle_runs_bring_rubric_words_and_each_is_marked(plain: Path) -> None:
    without = [path for path in find_runs([plain]) if "oracle" not in load_run(path).reveals]
    assert "CANARY" not in made(*without)
    assert "ORACLE" not in Seen(made(*without)).text
    html = made(plain)
    assert "CANARY" in html
    for row in re.findall(r"<tr[^>]*>.*?</tr>", html, re.DOTALL):
        if re.search("· oracle|<td[^>]*>oracle", row):
            assert "ORACLE" in row
            assert "alarm" in row


def test_hostile_texts_are_only_ever_text(attack: Path) -> None:
    html = made(attack)
    seen = Seen(html)
    scripts = [attributes for tag, attributes in seen.tags if tag == "script"]
    assert [one.get("type") for one in scripts] == ["application/json", "application/json", None]
    assert {tag for tag, _ in seen.tags} <= _EXPECTED
    for tag, attributes in seen.tags:
        assert not [key for key in attributes if key.startswith("on") or key in {"style", "src", "srcdoc", "action"}]
        assert str(attributes.get("href", "#")).startswith("#"), (tag, attributes)
    for payload in PAYLOADS[:4]:
        assert payload in seen.text
    table = data_of(html)
    assert {text for text in PAYLOADS if f"prompt {text}" in table["texts"]} == set(PAYLOADS)


_EXPECTED = {
    *("html", "head", "meta", "title", "style", "body", "a", "header", "main", "footer", "section", "nav", "script"),
    *("h1", "h2", "h3", "p", "ul", "ol", "li", "dl", "dt", "dd", "strong", "code", "pre", "span", "div", "button"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "details", "summary", "noscript"),
    *("input", "label", "em", "h4"),
    *("svg", "g", "path", "use", "text", "circle", "defs", "clippath", "rect", "desc", "tspan", "br"),
}


@pytest.mark.slow
def test_figures_for_papers_are_written_and_equal_in_bytes(plain: Path, tmp_path: Path) -> None:
    for folder in ("first", "second"):
        write_report([plain], tmp_path / f"{folder}.html", figures=tmp_path / folder)
    names = sorted(path.name for path in (tmp_path / "first").iterdir())
    assert {name.rpartition(".")[2] for name in names} == {"pdf", "svg"}
    assert any("conditions" in name for name in names)
    for name in names:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


def test_nothing_in_the_file_points_outside(plain: Path) -> None:
    html = re.sub(r"<script type=.application/json.*?</script>", "", made(plain), flags=re.DOTALL)
    assert not re.findall(r"(?:https?:)?//[a-z]", html)
    assert "url(http" not in html
    assert "@import" not in html


def test_models_go_by_their_names_and_no_path_of_this_machine_is_read(tmp_path: Path) -> None:
    for folder in ("rm-8b", "rm-70b"):
        score(bakery(6), Scripted(f"hf:{tmp_path}/{folder},dtype=bf16"), "none", out=tmp_path / "runs")
    score(bakery(6), "longest", "none", out=tmp_path / "runs")
    html = made(tmp_path / "runs")
    seen = Seen(re.sub("<pre.*?</pre>", "", html, flags=re.DOTALL))
    assert str(tmp_path) not in seen.text
    assert "rm-70b · none" in seen.text
    assert [name for name, _ in data_of(html)["runs"]] == ["longest · none", "rm-70b · none", "rm-8b · none"]
    titles = {attributes.get("title") for tag, attributes in seen.tags if tag == "th"}
    assert f"hf:{tmp_path}/rm-8b,dtype=bf16" in titles


def test_the_files_for_other_tools_are_what_compare_prints(plain: Path) -> None:
    texts = re.search(r'<script type="application/json" id="exports">(.*?)</script>', made(plain))
    assert texts is not None
    for form, text in json.loads(texts[1]).items():
        done = CliRunner().invoke(app, ["compare", str(plain), "--format", form])
        assert done.stdout == text
        assert "longer" in text


def test_users_of_each_model_stand_where_users_have_items_to_split(tmp_path: Path) -> None:
    for model in ("longest", "random"):
        score(load_benchmark("simulated:users=24,items=6,crossed=6"), load_model(model), "none", out=tmp_path)
    report = build_report(read_sources([tmp_path]))
    result = plural([source.run for source in read_sources([tmp_path])])
    text = " ".join(re.sub("<[^>]+>", " ", report.html).split())
    assert "Whom each model leaves behind 24 users" in text
    assert answer(result) in text
    for row in result.rows:
        assert f"{row.label} {percent(row.utilitarian)} {percent(row.worst_decile)}" in text
    assert [plot.name for plot in report.plots.values()].count("users") == 1
    assert report.html.count("if users were alike") > 2
