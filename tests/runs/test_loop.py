"""What the loop does with verdicts, failures, crashes and outages."""

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.core import Failure, Query, Verdict
from pluralrm.errors import BenchmarkError, ConditionError, ModelError, RunError
from pluralrm.runs import Progress, find_runs, load_inputs, load_run, plan, score
from pluralrm.runs.verdicts import verdicts, windows
from tests.builders import Scripted, bakery


def test_every_item_has_one_row_in_item_order(tmp_path: Path) -> None:
    bench = bakery(30)
    run = score(bench, Scripted(), "recent:3", out=tmp_path)
    assert [row.item for row in run.rows] == [item.id for item in bench.items]
    assert run.complete
    assert {row.posts for row in run.rows} == {3}
    for row, item in zip(run.rows, bench.items, strict=True):
        assert row.scores == tuple(float(len(text)) for text in item.candidates)
        assert row.preferred == item.preferred


def test_a_run_read_back_is_the_run(tmp_path: Path) -> None:
    run = score(bakery(9), Scripted(moods={"i0002": "parse", "i0004": "nan"}), out=tmp_path)
    [folder] = find_runs([tmp_path])
    assert load_run(folder) == run
    assert run.rows[2].scores == (Failure("parse", "as told"),) * 2
    assert run.rows[4].scores == (Failure("nonfinite", "nan"),) * 2


def test_one_crash_costs_one_item(tmp_path: Path) -> None:
    model = Scripted(moods={"i0005": "raise", "i0009": "raise"})
    run = score(bakery(20), model, out=tmp_path)
    assert [row.item for row in run.rows if row.failed] == ["i0005", "i0009"]
    [failure, _] = run.rows[5].scores
    assert isinstance(failure, Failure)
    assert failure.kind == "crash"
    assert "no idea about i0005" in failure.detail
    assert "builders.py:" in failure.detail


def test_a_model_that_only_crashes_is_an_error_and_leaves_no_row(tmp_path: Path) -> None:
    bench = bakery(20)
    broken = Scripted(moods={item.id: "raise" for item in bench.items})
    with pytest.raises(ModelError, match=f"^{broken.spec} under none: the model crashed on each of its first 8 items"):
        score(bench, broken, out=tmp_path)
    assert not list(tmp_path.rglob("run.json"))
    run = score(bench, Scripted(), out=tmp_path)
    assert run.complete
    assert not any(row.failed for row in run.rows)


def test_leading_crashes_are_kept_once_the_model_answers(tmp_path: Path) -> None:
    run = score(bakery(20), Scripted(moods={f"i{n:04}": "raise" for n in range(5)}), out=tmp_path)
    assert [row.failed for row in run.rows] == [True] * 5 + [False] * 15


def test_a_wrong_number_of_scores_is_a_failure_of_that_item(tmp_path: Path) -> None:
    run = score(bakery(9), Scripted(moods={"i0003": "short"}), out=tmp_path)
    assert [row.item for row in run.rows if row.failed] == ["i0003"]
    assert "1 scores for 2 candidates" in str(run.rows[3].scores[0])


class _Miscounting:
    spec = "miscounting"

    def __init__(self, extra: int) -> None:
        self.extra = extra

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        count = len(list(queries)) + self.extra
        return iter([Verdict((1.0, 0.0))] * count)


@pytest.mark.parametrize("extra", [-1, 1])
def test_a_model_that_miscounts_is_stopped(tmp_path: Path, extra: int) -> None:
    with pytest.raises(ModelError, match="wanted one for each, in order"):
        score(bakery(9), _Miscounting(extra), out=tmp_path)


def test_an_outage_leaves_the_item_open_and_resuming_tries_only_that(tmp_path: Path) -> None:
    bench = bakery(20)
    run = score(bench, Scripted(moods={"i0007": "transport", "i0011": "deadline"}), out=tmp_path)
    assert not run.complete
    assert (run.done, len(run.rows)) == (18, 20)
    assert [row.item for row in run.rows] == [item.id for item in bench.items]
    assert [row.item for row in run.rows if row.open] == ["i0007", "i0011"]
    assert run.rows[7].scores == (Failure("transport", "as told"),) * 2
    attempts = [json.loads(line) for line in (Path(run.path) / "attempts.jsonl").read_text().splitlines()]
    assert [attempt["item"] for attempt in attempts] == ["i0007", "i0011"]
    again = Scripted()
    resumed = score(bench, again, out=tmp_path)
    assert again.asked == ["i0007", "i0011"]
    assert resumed.complete
    assert len(resumed.rows) == 20


def test_progress_begins_at_what_is_on_disk_and_counts_failures_of_earlier_processes(tmp_path: Path) -> None:
    bench, told = bakery(20), list[Progress]()
    moods = {"i0002": "parse", "i0007": "transport", "i0011": "deadline"}
    score(bench, Scripted(moods=moods), out=tmp_path, progress=told.append)
    assert (told[0], told[-1]) == (Progress(0, 20, 0, 0), Progress(18, 20, 1, 2))
    told.clear()
    score(bench, Scripted(), out=tmp_path, progress=told.append)
    assert told == [Progress(18, 20, 1, 0), Progress(19, 20, 1, 0), Progress(20, 20, 1, 0)]


def test_a_complete_run_asks_the_model_nothing(tmp_path: Path) -> None:
    bench = bakery(10)
    first = score(bench, Scripted(), out=tmp_path)
    again = Scripted()
    assert score(bench, again, out=tmp_path) == first
    assert again.asked == []


def test_a_complete_run_is_not_written_again_but_for_a_new_name(tmp_path: Path) -> None:
    bench = bakery(10)
    folder = Path(score(bench, Scripted(), out=tmp_path, alias="first").path)
    before = {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in folder.iterdir()}
    assert score(bench, Scripted(), out=tmp_path).name == "first"
    assert score(bench, Scripted(), out=tmp_path, alias="first").name == "first"
    assert {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in folder.iterdir()} == before
    score(bench, Scripted(), out=tmp_path, alias="second")
    assert load_run(folder).name == "second"


def test_fresh_starts_over(tmp_path: Path) -> None:
    bench = bakery(10)
    score(bench, Scripted(moods={"i0001": "parse"}), out=tmp_path)
    run = score(bench, Scripted(), out=tmp_path, fresh=True)
    assert not any(row.failed for row in run.rows)


class _Versioned(Scripted):
    version = "1"

    @property
    def identity(self) -> dict[str, str]:
        return {"version": self.version}


def test_a_changed_model_cannot_go_on_with_the_old_rows(tmp_path: Path) -> None:
    bench = bakery(10)
    model = _Versioned()
    score(bench, model, out=tmp_path)
    model.version = "2"
    with pytest.raises(RunError, match=r"another identity \(version: '2', was '1'\)\. .*--fresh"):
        score(bench, model, out=tmp_path)


def test_other_data_other_folder(tmp_path: Path) -> None:
    paths = {score(bakery(n), Scripted(), out=tmp_path).path for n in (8, 9)}
    paths |= {
        score(bakery(9), Scripted(), "recent:2", out=tmp_path).path,
        score(bakery(9), Scripted(), out=tmp_path, limit=4).path,
    }
    assert len(paths) == 4


def test_limit_takes_whole_clusters_in_turn_from_each_domain(tmp_path: Path) -> None:
    run = score(bakery(30), Scripted(), out=tmp_path, limit=6)
    assert sorted(row.domain for row in run.rows) == ["Bread", "Bread", "Cake", "Cake", "Pie", "Pie"]
    only = score(bakery(30), Scripted(), out=tmp_path, domains=["Pie"], limit=3)
    assert [row.domain for row in only.rows] == ["Pie"] * 3


def test_an_unknown_domain_names_the_near_one(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="Did you mean 'Cake'"):
        score(bakery(9), Scripted(), out=tmp_path, domains=["Cakes"])


def test_a_condition_without_its_material_is_refused_and_in_a_grid_skipped(tmp_path: Path) -> None:
    bare = bakery(9, posts=0)
    with pytest.raises(ConditionError, match="no posts"):
        score(bare, "longest", "recent:3", out=tmp_path)
    with pytest.raises(ConditionError, match="lsa needs posts"):
        score(bakery(9), "lsa", "none", out=tmp_path)
    cells = plan([bare], ["longest", "lsa"], ["none", "recent:3"])
    assert [cell.skip is None for cell in cells] == [True, False, False, False]
    assert all(cell.skip is None or "posts" in cell.skip for cell in cells)


def test_what_the_model_was_given_is_on_disk(tmp_path: Path) -> None:
    bench = bakery(200)
    run = score(bench, Scripted(), "recent:2", out=tmp_path)
    for number in (0, 63, 64, 199):
        item = bench.items[number]
        record = load_inputs(run.path, item.id)
        assert record["candidates"] == list(item.candidates)
        assert item.user is not None
        shown = [{"id": post.id, "category": post.category, "text": post.text} for post in item.user.posts[:2]]
        assert record["user"] == {"id": item.user.id, "posts": shown, "pairs": []}


class _Reordering:
    """Works through a window from the longest prompt to the shortest, as a batching model does; dies on some items."""

    spec = "reordering"

    def __init__(self, deadly: set[str]) -> None:
        self.deadly = deadly

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        window = list(queries)
        found: dict[str, Verdict] = {}
        for query in sorted(window, key=lambda query: -len(query.prompt)):
            if query.id in self.deadly:
                raise RuntimeError("out of luck")
            found[query.id] = Verdict(tuple(float(len(text)) for text in query.candidates))
        return (found[query.id] for query in window)


@given(deadly=st.sets(st.integers(0, 39)), size=st.integers(1, 40))
def test_crashes_are_blamed_on_the_culprits_alone(deadly: set[int], size: int) -> None:
    queries = [Query(f"q{n}", "x" * random.Random(n).randint(1, 50), ("a", "bb")) for n in range(40)]
    names = {f"q{n}" for n in deadly}
    answers = [verdict for window in windows(queries, size) for verdict in verdicts(_Reordering(names), window)]
    assert len(answers) == 40
    for query, verdict in zip(queries, answers, strict=True):
        assert bool(verdict.failures) == (query.id in names)
