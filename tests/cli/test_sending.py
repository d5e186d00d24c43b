"""`--send-posts`: what users wrote leaves this machine only where the command, and so the run, says so."""

import json
from pathlib import Path

import pytest

from pluralrm.cli.sending import with_posts
from pluralrm.errors import SpecError
from tests.cli.test_verbs import pluralrm

JUDGE = "judge:m,url=https://judge.example/v1"


def test_permission_is_written_into_the_spec_of_what_can_send() -> None:
    models = [JUDGE, "longest", "judge:m,style=listwise"]
    wanted = ["judge:m,send=posts,url=https://judge.example/v1", "longest", "judge:m,send=posts,style=listwise"]
    assert with_posts(models, allowed=True) == wanted
    assert with_posts(wanted, allowed=True) == wanted
    assert with_posts(models, allowed=False) == models


def test_permission_for_nobody_is_an_error() -> None:
    with pytest.raises(SpecError, match=r"--send-posts: nothing is sent by longest, random; leave it out"):
        with_posts(["longest", "random"], allowed=True)


def test_without_the_option_nothing_is_sent_and_the_message_names_it(tmp_path: Path) -> None:
    done = pluralrm("score", "pocket-prb", "-m", JUDGE, "-c", "recent:2", cwd=tmp_path, PLURALRM_CACHE=str(tmp_path))
    assert done.returncode == 2
    assert "--send-posts" in done.stderr
    assert "not on this machine" in " ".join(done.stderr.split())


def test_the_option_is_kept_in_run_json(tmp_path: Path) -> None:
    from tests.fake_chat import FakeChat, say

    with FakeChat(lambda _: say("Result: A")) as server:
        words = [
            "score",
            "pocket-prb",
            "-m",
            f"judge:m,url={server.url}",
            "-c",
            "recent:1",
            "--limit",
            "2",
            "--send-posts",
        ]
        done = pluralrm(*words, cwd=tmp_path, PLURALRM_CACHE=str(tmp_path / "cache"))
        assert done.returncode == 0, done.stderr
        assert len(server.requests) == 4
    [manifest] = (tmp_path / "runs").rglob("run.json")
    assert json.loads(manifest.read_text())["model"] == f"judge:m,send=posts,url={server.url}"
