"""Models behind a URL on the command line: nothing paid twice, nothing sent in a replay, no cap that leaks."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pluralrm.cli import main
from tests.cli.test_verbs import pluralrm
from tests.fake_chat import FakeChat, Seen, reset, say, status

PRICES = "[m]\ninput = 1.0\noutput = 2.0\n"  # a call of the fake server costs 120 millionths


def judge(server: FakeChat, *keys: str) -> list[str]:
    return ["-m", ",".join([f"judge:m,url={server.url}", *keys])]


def score(*words: str, cwd: Path, code: int = 0, **environment: str) -> str:
    """Run `pluralrm score pocket-prb` on few items; return what it says on stderr, in one line."""
    done = pluralrm("score", "pocket-prb", *words, cwd=cwd, **{"PLURALRM_CACHE": str(cwd / "cache"), **environment})
    assert done.returncode == code, done.stderr
    return " ".join(done.stderr.split())


def only(folder: Path, name: str) -> Path:
    [found] = folder.rglob(name)
    return found


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(only(folder, "run.json").read_text())
    return found


def test_a_second_identical_run_makes_no_call_and_the_same_rows(tmp_path: Path) -> None:
    with FakeChat(lambda seen: say("Result: A" if "rye" in seen.prompt else "Result: B")) as server:
        words = [*judge(server), "--limit", "5"]
        first = score(*words, cwd=tmp_path)
        rows, asked = only(tmp_path / "runs", "rows.jsonl").read_bytes(), manifest(tmp_path / "runs")["asked"]
        assert len(server.requests) == 10
        second = score(*words, "--fresh", cwd=tmp_path)
        assert len(server.requests) == 10
        third = score(*words, cwd=tmp_path)
        assert len(server.requests) == 10
    assert "complete before, and its server was not asked; --fresh asks anew" in third
    assert "complete before" not in first + second
    assert "asked: 10 replies, 0 kept from before; 10 sent, 1,000 + 100 tokens" in first
    assert "asked: 10 replies, 10 kept from before; 0 sent, 0 + 0 tokens" in second
    assert only(tmp_path / "runs", "rows.jsonl").read_bytes() == rows
    counts = {"answered": 10, "kept": 0, "attempts": 10, "prompt_tokens": 1000, "completion_tokens": 100}
    assert asked == {**counts, "unmetered": 0, "cost": None}
    assert manifest(tmp_path / "runs")["asked"]["kept"] == 10


def test_a_server_that_drops_connections_is_named_once_while_it_is_waited_for(tmp_path: Path) -> None:
    with FakeChat(lambda _: say("Result: A"), faults=[reset] * 2) as server:
        said = score(*judge(server), "-c", "none", "--limit", "1", "--concurrency", "1", cwd=tmp_path)
        again = score(*judge(server), "-c", "raw:1", "--limit", "1", cwd=tmp_path)
    assert said.count(f"waiting for {server.url}: no answer in 2 attempts") == 1
    assert "Ctrl-C stops" in said
    assert "waiting for" not in again


def test_a_recorded_command_is_replayed_without_a_server_and_without_a_key(tmp_path: Path) -> None:
    with FakeChat(lambda _: say("Result: A"), faults=[status(500)]) as server:
        words = [*judge(server, "key=JUDGE_KEY"), "-m", f"judge:n,key=JUDGE_KEY,style=listwise,url={server.url}"]
        words += ["-c", "none", "-c", "recent:1", "--limit", "3", "-o"]
        score(*words, "first", "--record", "tape.jsonl", cwd=tmp_path, code=0, JUDGE_KEY="sk-canary-0123456789")
        sent = len(server.requests)
    assert sent > 24
    told = score(*words, "again", "--replay", "tape.jsonl", cwd=tmp_path)
    assert "0 sent" in told
    first, again = (sorted((tmp_path / name).rglob("rows.jsonl")) for name in ("first", "again"))
    assert len(first) == 4
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in again]
    assert "canary" not in (tmp_path / "tape.jsonl").read_text()


def test_a_replay_that_lacks_a_reply_stays_incomplete(tmp_path: Path) -> None:
    with FakeChat(lambda _: say("Result: A")) as server:
        score(*judge(server), "--limit", "2", "--record", "tape.jsonl", cwd=tmp_path)
        told = score(*judge(server), "--limit", "3", "--replay", "tape.jsonl", cwd=tmp_path, code=3)
        assert len(server.requests) == 4
    assert "incomplete" in told
    assert "3 items (transport: " in told


def test_the_cap_leaves_the_run_open_and_a_higher_one_goes_on(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    with FakeChat(lambda _: say("Result: A")) as server:
        words = [*judge(server), "--limit", "6", "--concurrency", "1", "--prices", "prices.toml"]
        told = score(*words, "--max-cost", "0.0005", cwd=tmp_path, code=3)
        assert len(server.requests) == 5  # after the fifth, 0.0006 is spent
        assert "cost 0.0006" in told
        assert manifest(tmp_path / "runs")["asked"]["cost"] == pytest.approx(0.0006)
        score(*words, "--max-cost", "1", cwd=tmp_path)
        assert len(server.requests) == 12
    found = manifest(tmp_path / "runs")
    assert found["status"] == "complete"
    assert found["asked"]["cost"] == pytest.approx(12 * 0.00012)  # of both processes
    assert found["asked"]["attempts"] == 12


def test_the_cap_holds_for_the_whole_grid(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    with FakeChat(lambda _: say("Result: A")) as server:
        words = [*judge(server), *judge(server, "style=pointwise"), "-c", "none", "-c", "recent:1", "--limit", "2"]
        told = score(
            *(*words, "--concurrency", "1", "--prices", "prices.toml", "--max-cost", "0.0012"), cwd=tmp_path, code=3
        )
        assert len(server.requests) == 10
    assert "cost 0.0012" in told


def test_no_more_calls_are_in_flight_than_the_option_says(tmp_path: Path) -> None:
    with FakeChat(lambda _: say("Result: A"), latency=0.05) as server:
        score(*judge(server), "--limit", "8", "--concurrency", "3", cwd=tmp_path)
        assert server.most_at_once == 3


def test_replies_are_kept_where_the_option_says(tmp_path: Path) -> None:
    with FakeChat(lambda _: say("Result: A")) as server:
        score(*judge(server), "--limit", "2", "--cache", "here", cwd=tmp_path)
        score(*judge(server), "--limit", "2", "--cache", "here", "--fresh", cwd=tmp_path)
        assert len(server.requests) == 4
    assert (tmp_path / "here" / "replies.sqlite").exists()
    assert not (tmp_path / "cache").exists()


def test_several_workers_ask_what_one_asks_and_together_no_more_at_once(tmp_path: Path) -> None:
    def says(seen: Seen) -> Any:
        return say("Result: A" if len(seen.prompt) % 2 else "Result: B")

    with FakeChat(says, latency=0.02) as server:
        words = [*judge(server), "--limit", "40", "--concurrency", "5"]
        told = score(*words, "-o", "two", "--cache", "c2", "--workers", "2", cwd=tmp_path)
        assert 1 < server.most_at_once <= 5
        score(*words, "-o", "one", "--cache", "c1", cwd=tmp_path)
        assert len(server.requests) == 160
    assert "asked: 80 replies, 0 kept from before; 80 sent" in told
    one, two = (only(tmp_path / name, "rows.jsonl").read_bytes() for name in ("one", "two"))
    assert one == two


def test_more_workers_than_calls_at_once_are_refused(tmp_path: Path) -> None:
    with FakeChat() as server:
        told = score(*judge(server), "--concurrency", "2", "--workers", "3", cwd=tmp_path, code=2)
        assert "3 workers with a concurrency of 2" in told
        assert not server.requests


@pytest.mark.parametrize("option", [["--record", "tape.jsonl"], ["--prices", "prices.toml", "--max-cost", "1"]])
def test_what_has_one_owner_is_not_shared_by_workers(option: Sequence[str], tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    with FakeChat() as server:
        told = score(*judge(server), *option, "--workers", "2", cwd=tmp_path, code=2)
        assert not server.requests
    assert "needs one process, found 2 workers" in told
    assert "--concurrency" in told


def test_a_server_that_refuses_costs_its_own_cells_alone(tmp_path: Path) -> None:
    with FakeChat(lambda _: status(401)) as server:
        told = score(*judge(server), "-m", "longest", "--limit", "4", cwd=tmp_path, code=2)
        assert len(server.requests) <= 8
    assert "HTTP 401" in told
    assert manifest(tmp_path / "runs")["model"] == "longest"


@pytest.mark.parametrize(
    "option",
    [
        ["--concurrency", "4"],
        ["--record", "tape.jsonl"],
        ["--prices", "prices.toml"],
        ["--prices", "prices.toml", "--max-cost", "1"],
    ],
)
def test_options_for_servers_are_refused_where_none_is_asked(option: Sequence[str], tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    (tmp_path / "ratings.jsonl").write_text(json.dumps({"output": "a", "profile": [], "human_score": 1}) + "\n")
    for verb in (
        ["score", "pocket-prb", "-m", "longest"],
        ["check", "longest"],
        ["align", "ratings.jsonl", "-m", "bm25"],
    ):
        done = pluralrm(*verb, *option, cwd=tmp_path)
        assert done.returncode == 2
        assert f"{option[-2]}" in done.stderr
        assert "nothing here is asked over HTTP; leave it out" in " ".join(done.stderr.split())
    assert not (tmp_path / "tape.jsonl").exists()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--max-cost", "1"], "--max-cost needs --prices"),
        (["--record", "a", "--replay", "b"], "either records or replays"),
        (["--replay", "nowhere.jsonl"], "cannot use the cassette 'nowhere.jsonl'"),
        (["--prices", "nowhere.toml"], "the price file 'nowhere.toml' cannot be read"),
        (["--prices", "prices.toml", "--max-cost", "1"], "the price of 'm' is not known"),
    ],
)
def test_options_that_make_no_sense_are_told_before_anything_is_asked(
    option: Sequence[str], message: str, tmp_path: Path
) -> None:
    (tmp_path / "prices.toml").write_text("[other]\ninput = 1\noutput = 1\n")
    with FakeChat() as server:
        assert message in score(*judge(server), *option, cwd=tmp_path, code=2)
        assert not server.requests


def test_check_and_align_ask_a_server_as_score_does(tmp_path: Path) -> None:
    rating = {"output": "Bake it hotter.", "profile": ["I bake on Sundays."], "human_score": 0.8}
    (tmp_path / "ratings.jsonl").write_text(json.dumps(rating) + "\n")
    with FakeChat(lambda _: say("7")) as server:
        model = f"judge:m,style=pointwise,url={server.url}"
        for verb in (["check", model], ["align", "ratings.jsonl", "-m", model]):
            taped = pluralrm(*verb, "--record", "tape.jsonl", "--cache", "kept", cwd=tmp_path)
            sent = len(server.requests)
            again = pluralrm(*verb, "--replay", "tape.jsonl", cwd=tmp_path)
            assert len(server.requests) == sent > 0
            assert again.stdout == taped.stdout
            assert again.stdout


def test_an_outage_is_no_rating(tmp_path: Path) -> None:
    rating = {"output": "Bake it hotter.", "profile": ["I bake on Sundays."], "human_score": 0.8}
    (tmp_path / "ratings.jsonl").write_text(json.dumps(rating) + "\n")
    (tmp_path / "tape.jsonl").touch()
    model = "judge:m,style=pointwise,url=http://127.0.0.1:9/v1"
    done = pluralrm("align", "ratings.jsonl", "-m", model, "--replay", "tape.jsonl", cwd=tmp_path)
    assert done.returncode == 2
    assert "1 of 1 answers could not be asked about" in " ".join(done.stderr.split())


CANARY = "canary-77zq"


@pytest.mark.parametrize(
    "model",
    [
        f"judge:m,url=https://u:{CANARY}@h/v1",
        f"judge:m,url=https://u:{CANARY}@h/v1,foo=1",
        f"judge:m,url=https://h/v1?api_key={CANARY},foo",
        f"judge:m,url=https://u:p,{CANARY}@h/v1",
        f"judge:m,key={CANARY},url=http://127.0.0.1:9/v1",
        f"longest,judge:m,url=https://u:{CANARY}@h/v1",
        f"my_module:Mine,url=https://{CANARY}@h",
    ],
)
def test_a_password_or_key_in_a_spec_is_never_shown(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ratings.jsonl").write_text(json.dumps({"output": "a", "profile": [], "human_score": 1}) + "\n")
    grid = ["score", "pocket-prb", "-m"]
    verbs = [grid, ["check"], ["align", "ratings.jsonl", "-m"], ["doctor"]]
    more = [[*grid, model, option] for option in ("--send-posts", "--max-prompt-tokens=9", "--trust-remote-code=x")]
    for words in [*([*verb, model] for verb in verbs), *more, [*grid, "longest", "-c", f"persona:{model}"]]:
        monkeypatch.setattr("sys.argv", ["pluralrm", *words])
        with pytest.raises(SystemExit) as left:
            main()
        told = "".join(capsys.readouterr())
        assert (left.value.code, CANARY in told) == (2, False), told
    assert not (tmp_path / "runs").exists()


def test_a_password_in_the_environment_is_never_shown(tmp_path: Path) -> None:
    done = pluralrm("check", "judge:m", cwd=tmp_path, OPENAI_BASE_URL=f"https://u:{CANARY}@h/v1")
    assert done.returncode == 2
    assert CANARY not in done.stdout + done.stderr
