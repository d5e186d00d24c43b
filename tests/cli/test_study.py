"""The verb `study`, from a file to a report, with its exit codes."""

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.sample_rows import DOMAINS, prb_row, write_jsonl
from tests.cli.test_verbs import OWN_MODEL, pluralrm
from tests.forked import start
from tests.study.studies import asked, counted, data, table, toml

FEW = ["longest", "bm25", "known:posts"]


def run(*words: str, cwd: Path, code: int = 0) -> tuple[str, str]:
    done = pluralrm("study", *words, cwd=cwd, PLURALRM_CACHE=str(cwd / "cache"))
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def declared(folder: Path, **changes: Any) -> str:
    return str(toml(folder / "study.toml", table(**{"models": FEW, **changes})))


def test_from_a_file_to_a_report_and_then_nothing_is_missing(tmp_path: Path) -> None:
    file = declared(tmp_path, models=[*FEW, counted(tmp_path / "asked.txt")])
    before, _ = run(file, "-o", "out", "--dry-run", cwd=tmp_path)
    assert max(map(len, before.splitlines())) <= 80
    assert "0 of 20       20" in before
    assert not (tmp_path / "out").exists()
    assert not asked(tmp_path / "asked.txt")
    out, err = run(file, "-o", "out", cwd=tmp_path)
    assert "out/study.html" in err
    assert " ".join(data(tmp_path / "out")["verdicts"][0].split()[:8]) in " ".join(out.split())
    plan = json.loads(run(file, "-o", "out", "--dry-run", "--json", cwd=tmp_path)[0])
    assert {step["missing"] for step in plan["steps"]} == {0}
    assert (plan["calls"], plan["cost"]) == (0, {"least": 0.0, "most": 0.0})
    told = json.loads(run(file, "-o", "out", "--json", cwd=tmp_path)[0])
    assert told == data(tmp_path / "out")
    assert len(asked(tmp_path / "asked.txt")) == 40


def test_what_a_loader_dropped_is_said_once(tmp_path: Path) -> None:
    rows = [prb_row(number) for number in range(12)]
    rows[3]["profile"][0]["text"] = " "
    path = write_jsonl(tmp_path / DOMAINS[0] / "rows.jsonl", rows)
    (tmp_path / "study.toml").write_text(
        f'benchmarks = ["prb:{path}"]\nmodels = ["longest", "shortest"]\nconditions = ["none", "raw:1"]\n'
    )
    out, err = run("study.toml", "-o", "out", cwd=tmp_path)
    told = "prb-rows: 35 of 36 posts; 1 blank dropped"
    assert " ".join(f"{out} {err}".split()).count(told) == 1
    assert "Per cent; the best on prb-rows none first." in out  # nothing was measured downstream
    assert "correlations" not in out
    assert data(tmp_path / "out")["notes"][0] == told


def test_a_broken_model_is_named_beside_the_report_of_the_others(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN_MODEL)
    file = declared(tmp_path, models=["python:own:Broken", *FEW])
    out, err = run(file, "-o", "out", cwd=tmp_path, code=2)
    assert re.search(r"^posts +\d", out, re.MULTILINE)  # known:posts, shortened
    assert "simulated × python:own:Broken × raw:3: the model crashed" in err
    assert "the same command scores it alone" in err
    assert (tmp_path / "out" / "study.html").exists()


def test_what_stays_open_exits_with_three_and_says_what_to_type(tmp_path: Path) -> None:
    """Nothing may be spent, so that no call is sent: the judge's items stay open, as those that met an outage do."""
    (tmp_path / "prices.toml").write_text("[m]\ninput = 1.0\noutput = 1.0\n")
    judge = "judge:m,style=pointwise,url=http://127.0.0.1:9/v1"
    file = declared(tmp_path, models=[*FEW, judge])
    words = [file, "-o", "out", "--max-cost", "0", "--prices", "prices.toml"]
    out, err = run(*words, "--fresh", "longest", cwd=tmp_path, code=3)
    assert re.search(r"^posts +\d", out, re.MULTILINE)  # known:posts, shortened
    assert f"incomplete: simulated × {judge} × raw:3: 0 of 20 items; budget" in err
    assert f"pluralrm study {' '.join(words)}\n" in err
    assert not data(tmp_path / "out")["complete"]


def test_stopped_by_hand_it_says_what_to_type(tmp_path: Path) -> None:
    slow = counted(tmp_path / "asked.txt", milliseconds="200")
    words = ["study", declared(tmp_path, models=[slow, *FEW]), "-o", "out"]
    there = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    child = start(words, tmp_path, there, [tmp_path / "stdout", tmp_path / "stderr"])
    while child.poll() is None and len(asked(tmp_path / "asked.txt")) < 3:
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    assert child.wait() == 130
    err = (tmp_path / "stderr").read_text()
    assert "stopped; what is done is kept" in err
    assert f"study {words[1]} -o out" in err


@pytest.mark.parametrize(
    ("changes", "words", "said"),
    [
        ({"modles": []}, [], "no key 'modles'. Did you mean 'models'?"),
        ({"models": ["longst"]}, [], "unknown model 'longst'"),
        ({}, ["--fresh", "shortest"], "--fresh shortest: no model of this study"),
        ({}, ["--send-posts"], "--send-posts: nothing in this study sends anything"),
        ({}, ["--concurrency", "3"], "--concurrency: nothing here is asked over HTTP"),
        ({}, ["--trust-remote-code", "x"], "--trust-remote-code x: no model folder of that name"),
        ({"best_of_n": {"k": [9]}}, [], "best-of-9 of 4 answers per item"),
        ({"best_of_n": {"grader": "joint:m,url=https://far.example/v1"}}, [], "a rubric is made of what users wrote"),
    ],
)
def test_a_slip_is_told_before_anything_is_scored(
    changes: dict[str, Any], words: list[str], said: str, tmp_path: Path
) -> None:
    _, err = run(declared(tmp_path, **changes), "-o", "out", *words, cwd=tmp_path, code=2)
    assert said in err
    assert not (tmp_path / "out").exists()


def test_send_posts_is_written_into_every_spec_that_can_send(tmp_path: Path) -> None:
    far = "url=https://far.example/v1"
    file = declared(
        tmp_path,
        models=[f"judge:m,{far}", "longest"],
        best_of_n={"policy": f"chat:p,{far}", "grader": f"joint:g,{far}"},
    )
    plan = json.loads(run(file, "-o", "out", "--dry-run", "--json", "--send-posts", cwd=tmp_path)[0])
    sent = {step["who"] for step in plan["steps"]}
    assert sent == {f"{who},send=posts,{far}" for who in ("judge:m", "chat:p", "joint:g")} | {"longest"}
