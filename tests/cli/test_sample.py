"""`pluralrm sample` as its user meets it: a real process, a real server, kills, exit codes."""

import json
import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from pluralrm.policies.pool import POOL, load_pool
from tests.cli.test_verbs import pluralrm
from tests.fake_chat import Action, FakeChat, Seen, say, status
from tests.forked import start

VERB = ["sample", "pocket-prb", "--limit", "5", "-n", "4", "-o", "pool"]


def answers(seen: Seen) -> Action:
    return say(f"answer {seen.body['seed']} to {len(seen.prompt)}")


def policy(server: FakeChat, *keys: str) -> list[str]:
    return ["-p", ",".join([f"chat:m,url={server.url}", *keys])]


def run(*words: str, cwd: Path, code: int = 0, **environment: str) -> tuple[str, str]:
    """Return what the verb says on stdout and on stderr, each in one line."""
    done = pluralrm(*words, cwd=cwd, **{"PLURALRM_CACHE": str(cwd / "cache"), **environment})
    assert done.returncode == code, done.stderr
    return " ".join(done.stdout.split()), " ".join(done.stderr.split())


def test_a_pool_is_drawn_told_and_not_drawn_again(tmp_path: Path) -> None:
    with FakeChat(answers) as server:
        out, err = run(*VERB, *policy(server), "-c", "recent:3", cwd=tmp_path)
        assert len(server.requests) == 20
        again, silent = run(*VERB, *policy(server), "-c", "recent:3", cwd=tmp_path)
        assert len(server.requests) == 20
    assert "pool: 5 items × 4 answers of chat:m" in out
    assert "stop 20 whole 20 different answers among 20 samples; 10.0 tokens on average" in out
    assert err == "asked: 20 replies, 0 kept from before; 20 sent, 2,000 + 200 tokens"
    assert (again, silent) == (out, "")
    manifest = POOL.read(tmp_path / "pool")
    assert manifest.asked is not None
    assert (manifest.asked.attempts, manifest.samples, manifest.condition) == (20, 20, "recent:3")


def test_a_dry_run_says_how_many_calls_and_makes_none(tmp_path: Path) -> None:
    with FakeChat(answers) as server:
        out, _ = run(*VERB, *policy(server), "--dry-run", "--max-tokens", "100", cwd=tmp_path)
        assert server.requests == []
        plan = json.loads(run(*VERB, *policy(server), "--dry-run", "--json", cwd=tmp_path)[0])
    assert "5 items × 4 answers: 20 samples, 0 of them on disk. 20 calls" in out
    assert "at most 2,000 tokens" in out
    [(_, requests)] = plan.pop("requests").items()
    assert (requests["calls"], requests["reply_tokens"]) == (20, 20 * 512)
    assert plan == {"items": 5, "wanted": 20, "done": 0, "calls": 20, "max_tokens": 20 * 512, "cost": None}
    assert not (tmp_path / "pool").exists()


def test_an_outage_exits_with_three_and_the_same_command_goes_on(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text("[m]\ninput = 1.0\noutput = 2.0\n")
    words = [*VERB, "--prices", "prices.toml", "--concurrency", "1"]
    with FakeChat(answers) as server:
        _, err = run(*words, *policy(server), "--max-cost", "0.0008", cwd=tmp_path, code=3)
        assert len(server.requests) == 7
        assert "incomplete: pool has 7 of 20 samples; the same command tries the rest again" in err
        out, _ = run(*words, *policy(server), "--max-cost", "1", cwd=tmp_path)
        assert len(server.requests) == 20
    assert "20 different answers" in out
    assert load_pool(tmp_path / "pool").complete


def test_a_recorded_pool_is_replayed_without_a_server_and_without_a_key(tmp_path: Path) -> None:
    with FakeChat(answers, faults=[status(500)]) as server:
        words = ["sample", "pocket-prb", "--limit", "3", "-n", "2", *policy(server, "key=POLICY_KEY"), "-o"]
        run(*words, "first", "--record", "tape.jsonl", cwd=tmp_path, POLICY_KEY="sk-canary-0123456789")
    run(*words, "again", "--replay", "tape.jsonl", "--cache", "other", cwd=tmp_path)
    first, again = ((tmp_path / name / "samples.jsonl").read_bytes() for name in ("first", "again"))
    assert first == again
    assert not any(b"canary" in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


@pytest.mark.parametrize("wanted", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_kills_lose_nothing_and_write_nothing_twice(tmp_path: Path, wanted: int) -> None:
    command = [*VERB, "--concurrency", "2"]
    rng, path = random.Random(20), tmp_path / "pool" / "samples.jsonl"
    environment = {**os.environ, "PLURALRM_CACHE": str(tmp_path / "cache")}
    with FakeChat(answers, latency=0.02) as server:
        run(*VERB[:-1], "whole", *policy(server), "--cache", "other", cwd=tmp_path)
        kills = 0
        while kills < wanted:
            known = path.read_bytes() if path.exists() else b""
            child = start([*command, *policy(server)], tmp_path, environment, [tmp_path / "out", tmp_path / "err"])
            while child.poll() is None and not (tmp_path / "pool" / "pool.json").exists():
                time.sleep(0.005)
            try:
                child.wait(timeout=rng.uniform(0.0, 1.2))
                break
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
                kills += 1
                assert path.read_bytes().startswith(known) if path.exists() else not known
        run(*VERB, *policy(server), cwd=tmp_path)
    assert path.read_bytes() == (tmp_path / "whole" / "samples.jsonl").read_bytes()
    assert load_pool(tmp_path / "pool").content_hash == load_pool(tmp_path / "whole").content_hash


def test_own_answers_become_a_pool_and_nothing_is_asked(tmp_path: Path) -> None:
    rows = [{"item": item, "text": text} for item in ("art-01", "soc-01") for text in ("Rye.", "Spelt.", "Rye.")]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    out, _ = run("sample", "pocket-prb", "--from", "mine.jsonl", "-o", "pool", "--json", cwd=tmp_path)
    told = json.loads(out)
    assert (told["items"], told["n"], told["different"], told["complete"]) == (2, 3, 4, True)
    words = ["sample", "pocket-prb", "--from", "mine.jsonl", "-o", "p", "--temperature", "0", "--record", "tape.jsonl"]
    assert "--temperature: the answers in mine.jsonl are drawn already" in run(*words, cwd=tmp_path, code=2)[1]


def test_slips_are_told_before_anything_is_asked(tmp_path: Path) -> None:
    slips = {
        ("-p", ""): "who answers?",
        ("-p", "chta:m"): "Did you mean 'chat'",
        ("-p", "chat:m,url=http://127.0.0.1:9/v1", "--trust-remote-code", "m"): "no policy folder of that name",
        ("-p", "random"): "unknown policy 'random'",
        ("--from", "mine.jsonl"): "-n, --limit: the answers in mine.jsonl are drawn already",
        ("-p", "lm:nowhere", "--send-posts"): "--send-posts: nothing is sent by lm:nowhere",
        ("-p", "chat:m,url=http://127.0.0.1:9/v1", "-c", "recnt:1"): "Did you mean 'recent'",
        ("-p", "chat:m,url=http://127.0.0.1:9/v1", "--temperature", "0"): "one answer 4 times",
        ("-p", "chat:m,url=https://models.example/v1,key=HOME", "-c", "recent:1"): "--send-posts",
    }
    for words, told in slips.items():
        assert told in run(*VERB, *words, cwd=tmp_path, code=2)[1]
    assert not (tmp_path / "pool").exists()


def test_allowing_posts_to_be_sent_is_kept_in_the_pool(tmp_path: Path) -> None:
    with FakeChat(answers) as server:
        run(*VERB, *policy(server), "-c", "recent:1", "--send-posts", cwd=tmp_path)
    assert load_pool(tmp_path / "pool").policy.startswith("chat:m,send=posts,url=")
