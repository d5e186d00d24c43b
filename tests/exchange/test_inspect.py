"""Do runs come back whole from logs of Inspect, does its viewer show them, and are our benchmarks tasks of its?"""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from pluralrm.benchmarks import load_benchmark
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Failure, Verdict
from pluralrm.errors import BenchmarkError, ConditionError, RowError
from pluralrm.exchange import evaleval
from pluralrm.exchange.evaleval import write_evaleval
from pluralrm.metrics import measure, published, summary
from pluralrm.runs import score
from tests.benchmarks.published_rows import WORLDS
from tests.benchmarks.test_people_formats import FORMATS, spec_of
from tests.browser.chromium import chromium
from tests.builders import Scripted, bakery, card
from tests.exchange.test_evaleval import checked
from tests.exchange.trips import HOSTILE, KEPT, Spoken, back, by_text, cells, numbers, plain, reordered, scored
from tests.runs.published import Seeded

pytestmark = pytest.mark.exchange
ai = pytest.importorskip("inspect_ai", reason="the extra inspect is not installed: make test-exchange")

from inspect_ai.dataset import Sample  # noqa: E402
from inspect_ai.log import EvalLog, read_eval_log, write_eval_log  # noqa: E402
from inspect_ai.scorer import Score  # noqa: E402

from pluralrm.exchange import inspect  # noqa: E402
from pluralrm.exchange.inspect import task, write_log  # noqa: E402

Cell = tuple[Benchmark, Spoken, str]
many = settings(
    max_examples=20, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@many
@given(cell=cells())
def test_a_run_comes_back_to_the_last_digit(tmp_path_factory: pytest.TempPathFactory, cell: Cell) -> None:
    folder = tmp_path_factory.mktemp("trip")
    run = scored(cell, folder)
    file = write_log(run.path, folder / "out", posts=True)
    again = back(inspect, file, cell[0], folder, form="inspect")
    assert plain(again.rows) == plain(run.rows)
    assert numbers(again) == numbers(run)
    assert (again.complete, again.failed) == (run.complete, run.failed)
    other_order = reordered(cell[0])
    again = back(inspect, file, other_order, folder, form="inspect")
    assert by_text(again, other_order) == by_text(run, cell[0])
    assert numbers(again) == numbers(run)
    log = read_eval_log(str(file))
    failed = {row.item for row in run.rows if row.failed}
    assert {sample.id for sample in log.samples if sample.error} == failed
    assert {sample.id for sample in log.samples if sample.scores} == {row.item for row in run.rows} - failed
    assert log.results.scores[0].metrics["accuracy"].value == measure(run, "accuracy").value


@many
@given(cell=cells())
def test_nothing_of_a_user_leaves_unless_allowed(tmp_path_factory: pytest.TempPathFactory, cell: Cell) -> None:
    folder = tmp_path_factory.mktemp("private")
    run = scored(cell, folder)
    file = write_log(run.path, folder / "out")
    again = back(inspect, file, cell[0], folder, form="inspect")
    if cell[2] != "none":
        assert KEPT not in read_eval_log(str(file)).model_dump_json()
        assert plain(again.rows, lambda _: "") == plain(run.rows, lambda _: "")
    else:  # no model was shown anything of the user; what it says is its own
        assert plain(again.rows) == plain(run.rows)
    assert numbers(again) == numbers(run)


@pytest.mark.parametrize("name", ["pocket-prb", "pocket-rmgap"])
def test_the_same_run_gives_the_same_bytes_with_every_interval(tmp_path: Path, name: str) -> None:
    run = score(load_benchmark(name), "bm25", out=tmp_path / "own")
    first = write_log(run.path, tmp_path / "a")
    time.sleep(2)  # the finest time in a zip file
    second = write_log(run.path, tmp_path / "b")
    assert (first.name, first.read_bytes()) == (second.name, second.read_bytes())
    log = read_eval_log(str(first))
    metrics = log.results.scores[0].metrics
    for metric, estimate in summary(run).metrics.items():
        ends = [metrics[metric + end].value if metric + end in metrics else None for end in ("", "_low", "_high")]
        assert ends == [estimate.value, estimate.low, estimate.high]
        assert metrics[metric].metadata == estimate.to_json()
    facts = log.eval.metadata["pluralrm"]
    assert (facts["content_hash"], facts["rows_hash"]) == (run.benchmark_hash, facts["rows_hash"] or "none")


def _benchmark(name: str, folder: Path) -> Benchmark:
    if name in WORLDS:
        return load_benchmark(f"{name}:{WORLDS[name](folder, 0)}")
    return load_benchmark(spec_of(name, FORMATS[name].write(folder)) if name in FORMATS else name)


@pytest.mark.parametrize("name", [*WORLDS, *FORMATS, "pocket-prb", "pocket-rmgap", "simulated:users=30"])
def test_runs_on_every_benchmark_fit_both_formats_and_come_back(tmp_path: Path, name: str) -> None:
    bench = _benchmark(name, tmp_path)
    conditions = ["none", *([FORMATS[name].sees] if name in FORMATS else [])]
    conditions = [each for each in conditions if load_condition(each).unsupported(bench) is None]
    assert conditions
    for condition in conditions:
        for failures in (0.0, 0.3):
            run = score(bench, Seeded(1, failures=failures, spec=f"seeded-{failures}"), condition, out=tmp_path / "own")
            files = write_evaleval(run.path, tmp_path / "store")
            checked(files)
            logs = [
                back(evaleval, files.aggregate, bench, tmp_path / "evaleval", form="evaleval"),
                back(inspect, write_log(run.path, tmp_path / "logs"), bench, tmp_path / "inspect", form="inspect"),
            ]
            for again in logs:
                assert plain(again.rows, lambda _: "") == plain(run.rows, lambda _: "")
                assert numbers(again) == numbers(run)
                assert published(again) == published(run)


def test_no_path_of_this_machine_is_in_a_log(tmp_path: Path) -> None:
    run = score(bakery(3), Scripted(spec=f"hf:{tmp_path}/models/rm-7b"), out=tmp_path / "own")
    log = read_eval_log(str(write_log(run.path, tmp_path / "out")))
    assert str(tmp_path) not in log.model_dump_json()
    assert log.eval.model == "hf:rm-7b"


def _edited(log: EvalLog, file: Path) -> Path:
    write_eval_log(log, str(file))
    return file


def test_a_log_of_others_is_read_by_letter_or_by_scores_and_refused_where_it_does_not_fit(tmp_path: Path) -> None:
    bench = bakery(4)
    run = score(bench, Scripted(), out=tmp_path / "own")
    log = read_eval_log(str(write_log(run.path, tmp_path / "out")))
    log.eval.metadata = None
    first, second, third, fourth = log.samples
    for sample in log.samples:
        sample.metadata, sample.choices = {}, sample.choices[::-1]
        sample.target = "BA"["AB".index(sample.target[0])]
    right = "AB"[1 - bench.items[0].best[0]]  # in their order
    first.scores = {"theirs": Score(value="C" if right == "A" else "I", answer="A")}
    second.scores = {"theirs": Score(value={"c0": 0.25, "c1": 0.75})}
    third.scores = {"theirs": Score(value=[1.5, -1.0])}
    fourth.scores = {"theirs": Score(value="I", answer="")}
    again = back(inspect, _edited(log, tmp_path / "theirs.eval"), bench, tmp_path, form="inspect")
    assert [row.scores for row in again.rows[:3]] == [(0.0, 1.0), (0.25, 0.75), (-1.0, 1.5)]
    assert [row.failed for row in again.rows] == [False, False, False, True]
    first.scores = {"theirs": Score(value="C", answer="B" if right == "A" else "A")}
    second.scores = {"theirs": Score(value={"c0": 0.25})}
    fourth.scores = {"one": Score(value="C", answer="A"), "two": Score(value="C", answer="B")}
    third.choices = ["other", "texts"]
    with pytest.raises(RowError) as refused:
        back(inspect, _edited(log, tmp_path / "bad.eval"), bench, tmp_path, form="inspect")
    for part in (
        "1: correct: found right",
        "4: scores: found several: one, two",
        "2: scores: found scores of c0",
        "3: choices: found other answers",
    ):
        assert part in str(refused.value)
    (tmp_path / "no.eval").write_bytes(b"PK\x03\x04 no log")
    with pytest.raises(BenchmarkError, match="Wanted a log of Inspect"):
        back(inspect, tmp_path / "no.eval", bench, tmp_path, form="inspect")


# ---------------------------------------------------------------- the viewer


def _hostile() -> Benchmark:
    bench = bakery(3)
    items = [
        replace(
            item,
            id=name,
            prompt=f"{HOSTILE} prompt {n}",
            candidates=tuple(f"{HOSTILE} {text} <b>bold</b>" for text in item.candidates),
        )
        for n, (item, name) in enumerate(
            zip(bench.items, ["plain", "<img src=x onerror=alert(2)>", "failed"], strict=True)
        )
    ]
    return Benchmark(card("bakery <b>x</b>"), tuple(items))


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of `inspect view` over one log with hostile texts."""
    folder = tmp_path_factory.mktemp("viewed")
    bench = _hostile()
    verdicts = {item.id: Verdict((0.125, 0.875)) for item in bench.items}
    verdicts["failed"] = Verdict.failed("parse", HOSTILE, 2)
    run = score(bench, Spoken(verdicts, HOSTILE), out=folder / "own")
    write_log(run.path, folder / "logs")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "inspect_ai",
        "view",
        "start",
        "--log-dir",
        str(folder / "logs"),
        "--port",
        str(port),
    ]
    with (folder / "view.log").open("w") as said:
        server = subprocess.Popen(command, stdout=said, stderr=said, env={**os.environ, "HOME": str(folder)})
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5)
                break
            except OSError:
                time.sleep(0.25)
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.terminate()
        server.wait()


def test_the_viewer_shows_a_sample_its_interval_and_its_failure_and_hostile_texts_stay_inert(viewer: str) -> None:
    with chromium() as browser:  # not the session's: a running event loop would keep Inspect from its own
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.set_default_timeout(60_000)
        alarms: list[str] = []
        page.on("dialog", lambda dialog: alarms.append(dialog.message))  # it stays open, and the test fails
        page.on("pageerror", lambda error: alarms.append(str(error)))
        page.goto(viewer)
        page.get_by_text("bakery <b>x</b> none").first.click()
        page.get_by_text("ACCURACY_LOW").first.wait_for()
        page.get_by_text("prompt 0").first.wait_for()
        assert "prompt 2" in page.inner_text("body")
        page.get_by_text("prompt 0").first.click()
        page.get_by_text("A (c0): 0.125").first.wait_for()
        page.get_by_text("B (c1): 0.875").first.wait_for()
        url = page.url
        page.goto(re.sub(r"/sample/[^/]+/", "/sample/failed/", url))
        page.get_by_role("tab", name="ERROR").click()
        page.get_by_text(f"parse: {HOSTILE[:20]}").first.wait_for()
        page.goto(re.sub(r"/sample/[^/]+/", f"/sample/{quote('<img src=x onerror=alert(2)>', safe='')}/", url))
        page.get_by_text("prompt 1").first.wait_for()
        page.wait_for_timeout(500)
        assert alarms == []
        assert page.locator("img[src='x']").count() == 0


# ---------------------------------------------------------------- the task


def _evaluated(replies: dict[str, str], folder: Path, solver: str) -> EvalLog:
    """Return the log of our task with Inspect's mock model, which answers by the prompt."""
    (folder / "replies.json").write_text(json.dumps(replies), encoding="utf-8")
    words = ["-m", "tests.exchange.child", str(folder / "replies.json"), str(folder / "logs"), solver]
    done = subprocess.run([sys.executable, *words], check=False, capture_output=True, text=True, timeout=240)
    [file] = (folder / "logs").glob("*.eval")
    log = read_eval_log(str(file))
    assert log.status == "success", f"{log.error} {done.stderr}"
    return log


def test_a_benchmark_is_a_task_whose_unreadable_replies_are_failures_and_wrong(tmp_path: Path) -> None:
    bench = load_benchmark("pocket-prb")
    said = ["ANSWER: A", "ANSWER: B", "no idea", "ANSWER: A,B", "ANSWER: Z"]
    replies = {item.prompt: said[n % 5] for n, item in enumerate(bench.items)}
    log = _evaluated(replies, tmp_path, "multiple")
    right = sum({0: "ANSWER: A", 1: "ANSWER: B"}[item.best[0]] == replies[item.prompt] for item in bench.items)
    assert log.results.scores[0].metrics["accuracy"].value == right / len(bench.items)
    run = back(inspect, Path(log.location), bench, tmp_path, form="inspect")
    assert (measure(run).value, run.failed) == (right / len(bench.items), 36)
    assert run.name == "mockllm/model (imported)"
    assert {score.kind for row in run.rows for score in row.scores if isinstance(score, Failure)} == {"parse"}


def test_another_solver_that_marks_no_choice_earns_nothing(tmp_path: Path) -> None:
    log = _evaluated({"": "ANSWER: A"}, tmp_path, "generate")
    assert log.results.scores[0].metrics["accuracy"].value == 0


def test_posts_are_in_a_task_only_where_that_is_allowed() -> None:
    with pytest.raises(ConditionError, match="send_posts=true"):
        task("pocket-prb", "recent:2", limit=3)
    item = load_benchmark("pocket-prb").items[0]
    assert item.user is not None
    shown = task("pocket-prb", "recent:2", limit=3, send_posts=True).dataset[0]
    hidden: Sample = task("pocket-prb", limit=3).dataset[0]
    texts = [post.text for post in item.user.posts]
    assert sum(text in str(shown.input) for text in texts) == 2
    assert not any(text in str(hidden.input) for text in texts)
    assert hidden.choices == list(item.candidates)
