"""The public names: a call from names and paths, results as tables, and errors that say what was wanted."""

import dataclasses
import io
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

import pluralrm
from pluralrm.display import Tabular, whole
from pluralrm.progress import JobStep, ProgressLine
from pluralrm.runs import Progress
from tests.builders import Scripted, bakery


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of two baselines under own posts and both controls."""
    folder = tmp_path_factory.mktemp("api") / "runs"
    pluralrm.score("pocket-prb", ["bm25", "longest"], ["none", "raw:10", "swapped:10"], out=folder)
    return folder


def test_at_most_32_names_and_each_is_there() -> None:
    assert len(pluralrm.__all__) <= 32
    assert all(getattr(pluralrm, name) is not None for name in pluralrm.__all__)
    assert sorted(pluralrm.__all__) == dir(pluralrm)


def test_names_alone_are_one_run_in_the_folder_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = pluralrm.score("pocket-prb", "longest", limit=4)
    assert (run.model, run.condition, run.done, Path(run.path).parts[0]) == ("longest", "none", 4, "runs")
    assert [one.path for one in pluralrm.load_runs("runs")] == [run.path]


def test_lists_are_every_combination_and_one_that_cannot_be_is_left_out_with_a_warning(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="left out pocket-prb × lsa × none: .*needs posts"):
        found = pluralrm.score("pocket-prb", ["lsa", Scripted()], ["none", "raw:2"], out=tmp_path, limit=3)
    assert [(run.model, run.condition) for run in found] == [
        ("scripted", "none"),
        ("lsa", "raw:2"),
        ("scripted", "raw:2"),
    ]
    with pytest.raises(pluralrm.PluralrmError, match="nothing can be scored:\n  pocket-prb × lsa × none"):
        pluralrm.score("pocket-prb", ["lsa"], out=tmp_path)


def test_replaced_items_are_never_answered_from_the_runs_of_the_old_ones(tmp_path: Path) -> None:
    # A copy by `dataclasses.replace` has the content hash of the benchmark that it was made of.
    bench = bakery(9)
    turned = tuple(dataclasses.replace(item, preferred=int(not item.preferred)) for item in bench.items)
    edited = dataclasses.replace(bench, items=turned)
    shares = [pluralrm.summary(pluralrm.score(each, "longest", out=tmp_path)) for each in (bench, edited)]
    first, second = (share.metrics["accuracy"].value for share in shares)
    assert first + second == pytest.approx(1)
    assert first != second
    assert len(pluralrm.load_runs(tmp_path)) == 2


def test_options_by_name_are_the_spec() -> None:
    url = "http://127.0.0.1:9/v1"
    named = pluralrm.load_model("judge", model="m,1", url=url, style="pointwise", max_tokens=9)
    assert named.spec == f"judge:m%2C1,max_tokens=9,style=pointwise,url={url}"
    assert pluralrm.load_model("random", seed=3).spec == "random,seed=3"


# ---------------------------------------------------------------- tables


def test_compare_says_what_the_command_exports(runs: Path) -> None:
    from pluralrm.metrics.overview import overview, overviews_text
    from pluralrm.specs import short_names

    found = pluralrm.compare(runs)
    every = overview(pluralrm.load_runs(runs))
    names = short_names([row.model for row in every.rows])
    assert found.to_text("csv") == overviews_text([every], [names], "csv")
    assert [row["model"] for row in found.to_dict()] == ["bm25", "longest"]
    assert pluralrm.compare(runs, names={"bm25": "Best Match"}).to_dict()[0]["model"] == "Best Match"
    [told, blind] = pluralrm.personalization(runs)
    assert (told.gain, blind.verdict) == (every.rows[0].personal and every.rows[0].personal.gain, "blind")


def test_every_table_has_rows_of_the_same_columns_that_a_data_frame_takes(runs: Path) -> None:
    board = pluralrm.leaderboard(pluralrm.load_runs(runs))
    tables: list[Tabular] = [pluralrm.compare(runs), board, pluralrm.load_runs(runs)[0]]
    for table in tables:
        rows, columns = table.to_dict(), table.to_dict(orient="list")
        assert [list(row) for row in rows] == [list(columns)] * len(rows)
        assert {len(column) for column in columns.values()} == {len(rows)}
        flat = (str, int, float, bool, type(None))
        values = [
            one for row in rows for value in row.values() for one in (value if isinstance(value, list) else [value])
        ]
        assert all(isinstance(value, flat) for value in values)
    with pytest.raises(pluralrm.PluralrmError, match="orient is 'index'; wanted 'records' or 'list'"):
        board.to_dict(orient="index")  # type: ignore[call-overload]


def test_pandas_and_polars_take_the_rows(runs: Path) -> None:
    import pandas as pd  # type: ignore[import-untyped] # statsmodels brings it

    frame = pd.DataFrame(pluralrm.compare(runs).to_dict(orient="records"))
    assert list(frame["verdict"])[1] == "ignores user"


def test_no_text_acts_in_a_notebook(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    model = Scripted(evil)
    found = [pluralrm.score(bakery(6), model, shown, out=tmp_path) for shown in ("none", "raw:1", "swapped:1")]
    for table in (pluralrm.compare(tmp_path), pluralrm.leaderboard(found), found[0]):
        page = table._repr_html_()
        assert page.startswith("<table>")
        assert evil not in page
        assert "&lt;script&gt;" in page


def test_one_run_is_compared_as_a_list_of_one(tmp_path: Path) -> None:
    run = pluralrm.score(bakery(6), "longest", out=tmp_path)
    assert pluralrm.compare(run).to_dict() == pluralrm.compare([run]).to_dict() != []


def test_what_a_policy_answers_is_sampled_graded_and_predicted_in_four_calls(tmp_path: Path) -> None:
    world = "simulated:users=4,items=2,domains=1"
    models = ["known:taste,domains=1", "longest", "shortest", "random"]
    pool = pluralrm.sample(world, "simulated", out=tmp_path / "pool", n=4, progress=False)
    found = pluralrm.best_of_n(pool, models, grader="truth", ks=[1, 4], progress=False)
    assert [(row["model"], row["k"]) for row in found.to_dict()] == [(model, k) for model in models for k in (1, 4)]
    assert found.curves[0].last.grade.value == found.oracle[-1].value  # who knows the taste picks the best
    runs = pluralrm.score(world, models, out=tmp_path / "runs", progress=False)
    [cell] = pluralrm.correlate(runs, tmp_path / "pool").cells
    assert (len(cell.models), cell["spearman"].estimate.n) == (4, 4)
    fitted = pluralrm.fit("bt", "simulated:users=12,pairs=4", out=tmp_path / "fit", epochs=2)
    assert (fitted.algorithm, fitted.settings["epochs"]) == ("bt", 2)
    assert max(len(repr(one)) for one in (pool, found, fitted, cell)) < 700


# ---------------------------------------------------------------- short


def test_no_repr_is_long(runs: Path) -> None:
    bench = pluralrm.load_benchmark("pocket-prb")
    several = pluralrm.load_runs(runs)
    results = [bench, several[0], pluralrm.compare(runs), pluralrm.leaderboard(several), pluralrm.summary(several[0])]
    results += [pluralrm.personalization(runs)[0], pluralrm.paired_difference(several[0], several[1])]
    query = next(iter(pluralrm.load_condition("raw:10").queries(bench, bench.items[:1])))
    for result in [*results, query]:
        assert max(len(repr(one)) for one in _inside(result)) < 600


def _inside(value: object) -> list[object]:
    """Return an object and everything of ours in it."""
    if dataclasses.is_dataclass(value):
        return [value, *(one for field in dataclasses.fields(value) for one in _inside(getattr(value, field.name)))]
    several = list(value.values()) if isinstance(value, Mapping) else value
    return [one for each in several for one in _inside(each)] if isinstance(several, list | tuple) else []


def test_the_whole_of_a_query_hashes_as_it_always_did() -> None:
    plain = dataclasses.make_dataclass(
        "Post", [("id", str), ("text", str), ("category", str), ("date", str)], frozen=True
    )
    bench = pluralrm.load_benchmark("pocket-prb")
    post = bench.users[0].posts[0]
    assert whole((post,)) == repr((plain(post.id, post.text, post.category, post.date),))
    assert whole(bench.items[0].user).startswith(
        "User(id='art-01', posts=(Post(id='art-01-p01', text='My children gave"
    )


# ---------------------------------------------------------------- progress


def test_a_notebook_has_one_line_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    def display(data: Mapping[str, str], *, raw: bool, display_id: bool) -> object:
        assert raw
        assert display_id
        shown.append(data["text/plain"])
        return SimpleNamespace(update=lambda data, raw: shown.append(f"again {data['text/plain']} {raw}"))

    shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1), display=SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython", shell)
    line = ProgressLine()
    line.expect([JobStep("a job", "a model", 4)] * 2)
    line.begin("a job")
    line.update(Progress(0, 4, 0, 0))
    line.update(Progress(4, 4, 1, 0))
    assert shown[0] == "a job: run 1/2"
    assert shown[1] == "again a job: run 1/2, 0/4 True"
    assert shown[2:] == ["again a job: run 1/2, 4/4, 1 failed True"]


def test_a_terminal_has_one_line_and_a_pipe_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for screen, seen in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", screen)
        pluralrm.score("pocket-prb", "longest", limit=2, out=tmp_path, fresh=True)
        assert ("pocket-prb × longest × none: 2/2" in screen.getvalue()) is seen
        assert screen.getvalue().endswith("\r\x1b[2K") is seen


def test_a_function_hears_of_it_and_false_is_quiet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[Progress] = []
    pluralrm.score("pocket-prb", "longest", limit=2, out=tmp_path, progress=heard.append)
    pluralrm.score("pocket-prb", "bm25", limit=2, out=tmp_path, progress=False)
    assert (heard[0].done, heard[-1].done) == (0, 2)
    assert capsys.readouterr() == ("", "")


# ---------------------------------------------------------------- verbs that are packages too


@pytest.mark.parametrize("verb", ["report", "correlate", "study"])
def test_a_verb_can_be_called_after_its_package_was_imported(verb: str) -> None:
    package: object = import_module(f"pluralrm.{verb}")
    called: Callable[..., object] = getattr(pluralrm, verb)
    assert called is package
    with pytest.raises(pluralrm.PluralrmError):
        called(3, 3) if verb != "study" else called(3, out="x")


def test_report_writes_its_page(runs: Path, tmp_path: Path) -> None:
    page = pluralrm.report(runs, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page.html
    assert len(repr(page)) < 300
