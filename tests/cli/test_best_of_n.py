"""The verbs `grade` and `best-of-n`, from a pool to a table, over real HTTP."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from pluralrm.policies.outcomes import load_outcome
from tests.cli.test_verbs import OWN_MODEL, pluralrm
from tests.fake_chat import FakeChat, say, status
from tests.forked import start
from tests.grading.markers import served
from tests.policies.pools import babbled

MODELS = ["-m", "longest", "-m", "shortest", "-m", "random"]


@pytest.fixture(autouse=True)
def _pool(tmp_path: Path) -> None:
    babbled(tmp_path, items=8, n=8)


def run(*words: str, cwd: Path, code: int = 0) -> tuple[str, str]:
    done = pluralrm(*words, cwd=cwd, PLURALRM_CACHE=str(cwd / "cache"))
    assert done.returncode == code, done.stderr
    return done.stdout, " ".join(done.stderr.split())


def told(*words: str, cwd: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*words, "--json", cwd=cwd)[0])
    return found


def test_from_a_pool_to_a_table_that_fits_eighty_columns(tmp_path: Path) -> None:
    with FakeChat(served()) as server:
        by = ["-g", f"per-aspect:big-grader,url={server.url}"]
        out, err = run("grade", "pool", *by, cwd=tmp_path)
        asked = len(server.requests)
        assert f"{asked:,} sent" in err
        assert "56 of 56 answers graded, 0 of them failed" in " ".join(out.split())
        out, _ = run("best-of-n", "pool", *MODELS, "-c", "raw:3", "--figure", "curves.svg", cwd=tmp_path)
        assert len(server.requests) == asked
    assert max(map(len, out.splitlines())) <= 80
    lines = [line.split()[0] for line in out.splitlines() if line]
    assert lines.index("(oracle)") < lines.index("longest") < lines.index("(random)")
    for k in ("1", "2", "4"):
        assert lines.count(k) == len(MODELS) / 2
    assert "expected over all subsets" in " ".join(out.split())
    assert "(oracle)" in (tmp_path / "curves.svg").read_text()


def test_selected_grades_the_picks_alone_and_the_dry_run_says_so_before(tmp_path: Path) -> None:
    with FakeChat(served()) as server:
        words = ["best-of-n", "pool", *MODELS, "-g", f"joint:m,url={server.url}"]
        bills = told(*words, "--dry-run", cwd=tmp_path)
        assert server.requests == []
        assert bills["selected"]["calls"] < bills["all"]["calls"] == 56
        found = told(*words, "--grade", "selected", cwd=tmp_path)
        assert len(server.requests) == bills["selected"]["calls"]
        assert (found["way"], found["oracle"]) == ("first", [])
        out, _ = run("grade", "pool", *words[-2:], "--dry-run", cwd=tmp_path)
        left = str(bills["all"]["calls"] - bills["selected"]["calls"])
        rows = [line.split()[:3] for line in out.splitlines()[2:4]]
        assert rows == [["all", left, left], ["selected", "0", "0"]]
        whole = told(*words, cwd=tmp_path)
        assert len(server.requests) == 56
    for few, all_ in zip(found["curves"], whole["curves"], strict=True):
        assert [point["bon"] for point in few["points"]] == [point["first"] for point in all_["points"]]


def test_a_grader_behind_a_url_starts_no_cluster_and_the_command_says_so(tmp_path: Path) -> None:
    with FakeChat(served()) as server:
        by = ["-g", f"joint:m,url={server.url}", "--on", "ray"]
        out, err = run("grade", "pool", *by, cwd=tmp_path)
        assert f"--on starts no replica of {by[1]}: what asks a server is asked from this machine" in " ".join(
            err.split()
        )
    assert "56 of 56 answers graded" in " ".join(out.split())


def test_json_holds_estimates_and_where_the_outcome_lies(tmp_path: Path) -> None:
    with FakeChat(served()) as server:
        by = ["-g", f"joint:m,url={server.url}"]
        found = told("best-of-n", "pool", "-m", "longest", "-k", "8", "-k", "2", "-c", "none", *by, cwd=tmp_path)
    assert (found["items"], found["n"], found["way"], found["ungraded"]) == (8, 8, "exact", 0)
    [curve] = found["curves"]
    assert [point["k"] for point in curve["points"]] == [2, 8]
    for point in (*curve["points"], *found["oracle"], *found["random"]):
        assert set(point["bon"]) == {"value", "low", "high", "n", "failed", "method"}
    assert (tmp_path / curve["outcome"] / "rows.jsonl").exists()


def test_a_model_that_was_shown_the_rubric_is_marked_wherever_it_is_told(tmp_path: Path) -> None:
    with FakeChat(served()) as server:
        words = ["best-of-n", "pool", "-m", "bm25", "-c", "none", "-c", "oracle", "-g", f"joint:m,url={server.url}"]
        out, _ = run(*words, cwd=tmp_path)
        found = told(*words, cwd=tmp_path)
    assert "ORACLE: bm25 under oracle saw the rubric" in out
    assert [curve["shown_rubric"] for curve in found["curves"]] == [False, True]
    marked = [load_outcome(tmp_path / curve["outcome"]).manifest.shown_rubric for curve in found["curves"]]
    assert marked == [False, True]


def test_a_broken_model_costs_itself_alone(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN_MODEL)
    with FakeChat(served()) as server:
        words = ["-m", "python:own:Broken", "-m", "longest", "-g", f"joint:m,url={server.url}"]
        out, err = run("best-of-n", "pool", *words, cwd=tmp_path, code=2)
        alone, _ = run("best-of-n", "pool", *words[2:], cwd=tmp_path)
    assert "python:own:Broken under none: the model crashed" in err
    assert out == alone
    assert "longest" in out
    for name in ("run.json", "outcome.json"):
        assert [json.loads(file.read_text())["model"] for file in tmp_path.rglob(name)] == ["longest"]


def test_where_every_model_is_broken_nothing_is_graded(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN_MODEL)
    with FakeChat(served()) as server:
        words = ["-m", "python:own:Broken", "-g", f"joint:m,url={server.url}"]
        out, err = run("best-of-n", "pool", *words, cwd=tmp_path, code=2)
        assert server.requests == []
    assert (out, "the model crashed" in err) == ("", True)


def test_a_model_with_an_outage_is_open_and_the_others_are_shown(tmp_path: Path) -> None:
    with FakeChat(served(), faults=[status(500)] * 60) as down, FakeChat(served()) as server:
        judge = f"judge:other,style=pointwise,url={down.url}"
        words = ["-m", judge, "-m", "longest", "-g", f"joint:m,url={server.url}", "--concurrency", "8"]
        out, err = run("best-of-n", "pool", *words, cwd=tmp_path, code=3)
    assert "the same command tries the rest again" in err
    assert "longest" in out
    assert "judge:other" not in out


def test_prose_is_a_failure_that_is_shown_with_what_it_could_be(tmp_path: Path) -> None:
    turns = {"count": 0}

    def prose(seen: Any) -> Any:
        turns["count"] += 1
        first = seen.body["messages"][0]["content"]
        return say("Lovely.") if "who sails" in first or len(first) % 5 == 0 else served()(seen)

    with FakeChat(prose) as server:
        words = ["best-of-n", "pool", *MODELS, "-g", f"joint:m,url={server.url}"]
        out, _ = run(*words, cwd=tmp_path)
        asked = len(server.requests)
        found = told(*words, cwd=tmp_path)
        assert len(server.requests) == asked  # a failure is not asked for again
    assert found["ungraded"] == asked - 56 > 0
    assert f"{found['ungraded']} grades failed; if each were full" in " ".join(out.split())
    for curve in found["curves"]:
        assert all(point["at_most"] >= point["bon"]["value"] for point in curve["points"])


def test_an_outage_exits_with_three_and_the_same_command_goes_on(tmp_path: Path) -> None:
    with FakeChat(served(), faults=[status(500)] * 6) as server:
        words = ["grade", "pool", "-g", f"joint:m,url={server.url}", "--concurrency", "1"]
        _, err = run(*words, cwd=tmp_path, code=3)
        assert "1 of 56 answers are not graded" in err
        run(*words, cwd=tmp_path)
        assert len(server.requests) == 6 + 56


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-m", "longest"], "no grades; wanted one grader: -g per-aspect"),
        (["-m", "longest", "-k", "9"], "best-of-9 of 8 answers per item; wanted k from 1 to 8"),
        (["-m", "longest", "-g", "joint:m,url=http://127.0.0.1:9/v1", "-c", "swapped"], "swapped"),
        (["-m", "longest", "--dry-run"], "--dry-run needs -g GRADER"),
        (["-m", "longest", "--figure", "x.png"], "found '.png', wanted a name in .svg or .pdf"),
        (["-m", "longest", "-g", "pairwise:m"], "unknown grader 'pairwise'"),
        (["-m", "longest", "-g", "joint:m,url=https://far.example/v1"], "a rubric is made of what users wrote"),
        (["-m", "judge:m,url=http://127.0.0.1:9/v1", "-g", "joint:m,url=http://127.0.0.1:9/v1"], "both ask"),
    ],
)
def test_a_slip_is_told_before_anything_is_scored(words: list[str], said: str, tmp_path: Path) -> None:
    _, err = run("best-of-n", "pool", *words, cwd=tmp_path, code=2)
    assert said in err
    assert not (tmp_path / "pool" / "scores").exists()


def test_send_posts_is_for_the_grader_too(tmp_path: Path) -> None:
    words = ["grade", "pool", "-g", "joint:m,url=https://far.example/v1", "--dry-run", "--json"]
    _, err = run(*words, cwd=tmp_path, code=2)
    assert "send=posts" in err
    assert json.loads(run(*words, "--send-posts", cwd=tmp_path)[0])["all"]["calls"] == 56


def test_killed_at_any_moment_it_goes_on_and_pays_for_nothing_twice(tmp_path: Path) -> None:
    with FakeChat(served(), latency=0.02) as server:
        words = ["grade", "pool", "-g", f"per-aspect:m,url={server.url}", "--concurrency", "4"]
        environment = {**os.environ, "PLURALRM_CACHE": str(tmp_path / "cache")}
        for wanted in (15, 60):
            child = start(words, tmp_path, environment, [tmp_path / "out", tmp_path / "err"])
            while len(server.requests) < wanted:
                assert child.poll() is None, (tmp_path / "err").read_text()
                time.sleep(0.01)
            child.kill()
            child.wait()
        run(*words, cwd=tmp_path)
        asked = [json.dumps(seen.body, sort_keys=True) for seen in server.requests]
    [grades] = [file.read_text().splitlines() for file in tmp_path.rglob("grades.jsonl")]
    keys = [(row["item"], row["answer"]) for row in map(json.loads, grades)]
    assert len(keys) == len(set(keys)) == 56
    assert len(asked) - len(set(asked)) <= 2 * 4  # what was in flight at either kill
