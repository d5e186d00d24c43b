"""`--send-posts`: what users wrote leaves this machine only where the command, and so the run, says so."""

import json
from pathlib import Path

import pytest

from pluralrm.cli.options import with_posts_of
from pluralrm.errors import SpecError
from tests.cli.test_verbs import pluralrm

JUDGE = "judge:m,url=https://judge.example/v1"


def test_permission_is_written_into_the_spec_of_what_can_send() -> None:
    models = [JUDGE, "longest", "judge:m,style=listwise"]
    wanted = ["judge:m,send=posts,url=https://judge.example/v1", "longest", "judge:m,send=posts,style=listwise"]
    assert with_posts_of(models, [], allowed=True)[0] == wanted
    assert with_posts_of(wanted, [], allowed=True)[0] == wanted
    assert with_posts_of(models, [], allowed=False)[0] == models


def test_permission_for_nobody_is_an_error() -> None:
    with pytest.raises(SpecError, match=r"--send-posts: nothing is sent by longest, random; leave it out"):
        with_posts_of(["longest", "random"], [], allowed=True)


def test_without_the_option_nothing_is_sent_and_the_message_names_it(tmp_path: Path) -> None:
    done = pluralrm("score", "pocket-prb", "-m", JUDGE, "-c", "recent:2", cwd=tmp_path, PLURALRM_CACHE=str(tmp_path))
    assert done.returncode == 2
    assert "--send-posts" in done.stderr
    assert "not on this machine" in " ".join(done.stderr.split())


def test_check_and_align_take_it_too(tmp_path: Path) -> None:
    from tests.fake_chat import FakeChat, say

    rating = {"output": "Bake it hotter.", "profile": ["I bake on Sundays."], "human_score": 0.8}
    (tmp_path / "ratings.jsonl").write_text(json.dumps(rating) + "\n")
    away = "judge:m,style=pointwise,url=https://judge.example/v1"
    tape = ["--cache", "kept", "--replay", "tape.jsonl"]
    (tmp_path / "tape.jsonl").touch()
    align, check = ["align", "ratings.jsonl", "-m"], ["check"]
    assert "--send-posts" in pluralrm(*align, away, "--cache", "kept", cwd=tmp_path).stderr
    for words in ([], ["--send-posts"]):  # from a recording nothing leaves
        replayed = pluralrm(*align, away, *tape, *words, cwd=tmp_path).stderr
        assert "tape.jsonl holds no request at all" in " ".join(replayed.split())
    with FakeChat(lambda _: say("7")) as server:
        near = f"judge:m,style=pointwise,url={server.url}"
        for verb in (align, check):
            done = pluralrm(*verb, near, "--send-posts", "--cache", "kept", "--json", cwd=tmp_path)
            assert done.returncode in {0, 1}, done.stderr
            nobody = pluralrm(*verb, "longest", "--send-posts", cwd=tmp_path)
            assert (nobody.returncode, "nothing is sent by longest" in nobody.stderr) == (2, True)


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


PERSONA = "persona:p,url=https://persona.example/v1"


def test_permission_reaches_conditions_that_ask_a_model_of_their_own() -> None:
    models, conditions = with_posts_of(["longest", JUDGE], ["none", PERSONA, "raw:3"], allowed=True)
    assert models == ["longest", "judge:m,send=posts,url=https://judge.example/v1"]
    assert conditions == ["none", "persona:p,send=posts,url=https://persona.example/v1", "raw:3"]
    assert with_posts_of(["longest"], [PERSONA], allowed=True)[1] == [conditions[1]]
    assert with_posts_of([JUDGE], [PERSONA], allowed=False) == ([JUDGE], [PERSONA])
    with pytest.raises(SpecError, match="nothing is sent by longest, none, raw:3; leave it out"):
        with_posts_of(["longest"], ["none", "raw:3"], allowed=True)


def test_without_the_option_no_persona_is_asked_for_elsewhere(tmp_path: Path) -> None:
    words = ["score", "pocket-prb", "-m", "longest", "-c", PERSONA]
    done = pluralrm(*words, cwd=tmp_path, PLURALRM_CACHE=str(tmp_path))
    assert done.returncode == 2
    assert "--send-posts" in done.stderr
    assert not list(tmp_path.rglob("run.json"))
