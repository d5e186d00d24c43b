"""`pluralrm evaluate` as a newcomer meets it: one command, one table, one sentence for each model, a report."""

import json
import re
from pathlib import Path

import pytest

from pluralrm.cli.overview import UnscoredCell, print_unscored, with_unscored
from pluralrm.cli.score import controls_of
from tests.cli.test_verbs import pluralrm
from tests.fake_chat import FakeChat, say, status

OWN_MODEL = """
from pluralrm import Verdict

class Knows:
    '''Scores an answer by the words that it shares with the posts.'''
    def score(self, queries):
        for query in queries:
            posts = {word for post in (query.user.posts if query.user else ()) for word in post.text.split()}
            yield Verdict(tuple(float(len(posts & set(answer.split()))) for answer in query.candidates))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(OWN_MODEL)
    return tmp_path


def evaluate(*words: str, cwd: Path, code: int = 0) -> tuple[str, str]:
    done = pluralrm("evaluate", *words, cwd=cwd, PLURALRM_CACHE=str(cwd / "cache"))
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def test_one_command_answers_with_a_row_and_a_sentence_for_each_model(folder: Path) -> None:
    out, err = evaluate("mine=python:mine:Knows", cwd=folder)
    rows = [re.split(r" {2,}", line.strip()) for line in out.splitlines()]
    header = next(row for row in rows if row[0] == "model")
    assert [re.sub(r" \[95%\]", "", cell) for cell in header] == [
        "model",
        "accuracy",
        "lift: own-none",
        "gain: own-other",
        "verdict",
    ]
    for model in ("mine", "bm25", "longest"):
        assert re.search(rf"^{model} +\d+\.\d \[\d+, \d+\] +\S.*[a-z] *$", out, re.MULTILINE), model
    assert "own = raw:10; chance 50" in out
    assert re.search(r"^longest .* ignores user *$", out, re.MULTILINE)
    assert re.search(r"of 3 models (is|are) personalized", out)
    better = "mine does better with the user's own context than another's, not significantly than none."
    assert better in " ".join(out.split())
    assert all(len(line.rstrip()) <= 80 for line in out.splitlines())
    assert "runs/report.html" in err
    assert "Knows" in (folder / "runs/report.html").read_text()
    assert "swapped:10" not in out  # controls are columns, not rows


def test_the_numbers_are_those_of_score_and_compare(folder: Path) -> None:
    out, _ = evaluate("python:mine:Knows", "--json", "--no-baselines", cwd=folder)
    words = [
        "-m",
        "python:mine:Knows",
        "-c",
        "none",
        "-c",
        "raw:10",
        "-c",
        "swapped:10",
        "-c",
        "swapped:10,by=prompt",
        "-o",
        "other",
    ]
    scored = pluralrm("score", "pocket-prb", *words, "--json", cwd=folder)
    assert scored.returncode == 0
    assert json.loads(out)[0]["entries"] == json.loads(scored.stdout)[0]["entries"]
    assert json.loads(out)[0]["personalization"] == json.loads(scored.stdout)[0]["personalization"]


def test_a_name_is_kept_with_the_run_until_another_is_given(folder: Path) -> None:
    words = ["score", "pocket-prb", "-c", "raw:4", "--limit", "6", "-q", "-o", "named"]
    for model in ("ours=python:mine:Knows", "python:mine:Knows", "theirs=python:mine:Knows"):
        scored = pluralrm(*words, "-m", model, cwd=folder)
        assert scored.returncode == 0, scored.stderr
        compared = pluralrm("compare", "named", "-q", cwd=folder)
        name = "theirs" if model.startswith("theirs") else "ours"
        assert re.search(rf"^{name} ", scored.stdout, re.MULTILINE)
        assert compared.stdout == scored.stdout
    every = pluralrm("compare", "named", "--all", cwd=folder)
    assert re.search(r" theirs +raw:4 ", every.stdout)
    assert len(list(folder.rglob("run.json"))) == 1


def test_the_same_command_resumes_and_prints_the_same(folder: Path) -> None:
    first, _ = evaluate("python:mine:Knows", "--limit", "20", cwd=folder)
    kept = {path: path.read_bytes() for path in folder.rglob("rows.jsonl")}
    again, _ = evaluate("python:mine:Knows", "--limit", "20", cwd=folder)
    assert again == first
    assert {path: path.read_bytes() for path in folder.rglob("rows.jsonl")} == kept
    assert len(kept) == 12


def test_quiet_prints_the_table_alone(folder: Path) -> None:
    out, err = evaluate("python:mine:Knows", "-q", "--limit", "10", cwd=folder)
    assert out.strip().splitlines()[-1].startswith(("mine:Knows", "Knows", "bm25", "longest"))
    assert "report.html" not in err


def test_records_without_users_have_the_columns_of_their_own_metrics(folder: Path) -> None:
    out, _ = evaluate("python:mine:Knows", "-b", "pocket-rmgap", cwd=folder)
    header = next(line for line in out.splitlines() if line.startswith("model"))
    assert re.split(r" {2,}", header.strip()) == ["model", "BoN [95%]", "pair", "consistency", "prompt sensitivity"]


def test_a_dry_run_counts_the_calls_of_the_real_one_and_sends_none(tmp_path: Path) -> None:
    with FakeChat(lambda _: say("Result: A")) as server:
        words = [f"judge=judge:m,url={server.url}", "--limit", "4"]
        out, _ = evaluate(*words, "--dry-run", cwd=tmp_path)
        assert not server.requests
        assert not (tmp_path / "runs").exists()
        evaluate(*words, cwd=tmp_path)
        sent = len(server.requests)
    assert f"m: {sent} calls" in out
    assert "12 runs" in out


@pytest.mark.parametrize(
    ("sees", "conditions"),
    [
        ("raw:10", ["none", "raw:10", "swapped:10", "swapped:10,by=prompt"]),
        ("recent:5", ["none", "recent:5", "swapped:5,by=recent", "swapped:5,by=prompt"]),
        ("pairs:8", ["none", "pairs:8", "pairs:8,of=swapped", "pairs:8,by=prompt,of=swapped"]),
        ("traits:b+a", ["none", "traits:a+b", "traits:a+b,of=swapped"]),
        (
            "persona:m,k=3",
            ["none", "persona:m,k=3", "persona:m,k=3,of=swapped", "persona:m,by=prompt,k=3,of=swapped"],
        ),
    ],
)
def test_each_context_comes_with_both_of_its_controls(
    sees: str, conditions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert controls_of(sees) == conditions


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bm25", "--sees", "none"], "wanted a condition that shows the user's own posts"),
        (["bm25", "--sees", "swapped:10"], "wanted a condition that shows the user's own posts"),
        (["a=bm25", "a=longest"], "two models are named 'a'"),
        (["nosuch"], "unknown model 'nosuch'"),
        (["bm25", "-b", "nosuch"], "unknown benchmark 'nosuch'"),
    ],
)
def test_a_wrong_word_is_one_message(tmp_path: Path, words: list[str], message: str) -> None:
    out, err = evaluate(*words, cwd=tmp_path, code=2)
    assert message in " ".join(err.split())
    assert not out
    assert not (tmp_path / "runs").exists()


def test_general_prints_what_personalization_costs_and_the_report_has_it(folder: Path) -> None:
    out, _ = evaluate("longest", "--general", "pocket-rmgap", "--no-baselines", "--margin", "5", cwd=folder)
    assert "What personalization costs: pocket-rmgap, users of pocket-prb, 144 items" in out
    assert re.search(r"^longest +25\.0 +0\.0 +0\.0 +equivalent *$", out, re.MULTILINE)
    assert "a user's posts change no score" in " ".join(out.split())
    assert "within ±5 points" in " ".join(out.split())
    assert "a user&#39;s posts change no score" in (folder / "runs/report.html").read_text()
    boards = json.loads(pluralrm("compare", "runs", "--json", cwd=folder).stdout)
    (costs,) = (board["personalization_cost"] for board in boards if "personalization_cost" in board)
    assert [(cost["model"], cost["verdict"], cost["change"]["value"]) for cost in costs] == [
        ("longest", "equivalent", 0.0)
    ]


def test_general_needs_somebody_to_lend_posts_and_a_margin_in_points(folder: Path) -> None:
    _, err = evaluate("longest", "-b", "pocket-rmgap", "--general", "pocket-rmgap", cwd=folder, code=2)
    assert "pocket-rmgap has 0 users with posts to lend" in " ".join(err.split())
    _, err = evaluate("longest", "--general", "pocket-rmgap", "--margin", "0", cwd=folder, code=2)
    assert "--margin" in err


def test_stdout_alone_says_which_models_have_no_row_and_why(folder: Path) -> None:
    with FakeChat(lambda _: status(503, retry_after="9999")) as server:
        words = [f"head=vllm:{server.url}", f"judge=judge:m,url={server.url}", "--limit", "3"]
        out, _ = evaluate(*words, "-q", cwd=folder, code=3)
        record = evaluate(*words, "--json", cwd=folder, code=3)[0]
    text = " ".join(out.split())
    assert "head: not scored under none, raw:10, swapped:10 and swapped:10,by=prompt: http://127.0.0.1:" in text
    assert "judge: not scored under none, raw:10, swapped:10 and swapped:10,by=prompt: deadline: the server" in text
    assert text.index("longest") < text.index("not scored")  # the table comes first
    (board,) = json.loads(record)
    assert {entry["model"] for entry in board["entries"]} == {"bm25", "longest"}
    assert len(board["not_scored"]) == 8
    assert {cell["name"] for cell in board["not_scored"]} == {"head", "judge"}
    assert all("9999" in cell["reason"] or "no answer" in cell["reason"] for cell in board["not_scored"])


def test_a_benchmark_without_a_row_has_a_board_that_says_so() -> None:
    boards: list[dict[str, object]] = [{"benchmark": "a", "entries": [1]}]
    lost = [UnscoredCell("b", "m", "m", "none", "no answer")]
    assert with_unscored(boards, []) == boards
    assert with_unscored(boards, lost) == [
        {"benchmark": "a", "entries": [1], "not_scored": []},
        {"benchmark": "b", "entries": [], "not_scored": [lost[0]._asdict()]},
    ]


def test_a_model_that_crashes_under_every_condition_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    cells = [
        UnscoredCell("b", "python:m", "m", name, f"python:m under {name}: it crashed") for name in ("none", "raw:10")
    ]
    print_unscored(cells)
    assert capsys.readouterr().out.splitlines() == ["m: not scored under none and raw:10: it crashed"]
