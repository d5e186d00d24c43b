"""Pairs that a chat model writes from posts: what it is shown, what is refused, and that every output says so."""

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from itertools import count
from pathlib import Path
from shutil import rmtree
from subprocess import PIPE, Popen
from threading import Event

import pytest
from typer.testing import CliRunner

from pluralrm import load_benchmark
from pluralrm.benchmarks.context_pairs import MARK
from pluralrm.chat import ChatRequest, ScriptedChat
from pluralrm.cli import app
from pluralrm.construct.context_pairs import PairWriter, open_writer, read_pairs, write_pairs
from pluralrm.core import Failure
from pluralrm.errors import BenchmarkError, PrivacyError, RowError, RunError, TemplateError
from pluralrm.shards import Shard, merge
from tests.builders import bakery
from tests.cli.test_verbs import pluralrm
from tests.fake_chat import Action, FakeChat, Seen, say, status


def invented(text: str, pairs_of_a_user: int = 4) -> str:
    """As many pairs, others for another text."""
    mark = sha256(text.encode()).hexdigest()[:6]
    pairs = [
        {"prompt": f"How is {mark} {n} done?", "preferred": f"Rye, {mark} {n}.", "other": f"Spelt, {mark} {n}."}
        for n in range(pairs_of_a_user)
    ]
    return json.dumps(pairs)


def answer(seen: Seen) -> Action:
    return say(invented(seen.prompt))


def writer(script: Callable[[ChatRequest], str | Failure], pairs: int = 4) -> tuple[PairWriter, ScriptedChat]:
    chat = ScriptedChat(script)
    return open_writer("m", count=pairs, chat=chat), chat


def willing(request: ChatRequest) -> str:
    return invented(request.messages[0][1])


def command(url: str, out: str = "pairs.jsonl", *more: str) -> list[str]:
    asked = ["construct", "pairs", "pocket-prb", "--writer", "my-model", "--url", url, "-n", "4"]
    return [*asked, "--cache", "kept", "-o", out, *more]


# ---------------------------------------------------------------- from posts to a score, over HTTP


def test_from_posts_to_a_fit_a_score_and_a_report_that_all_say_who_wrote_the_pairs(tmp_path: Path) -> None:
    said = "pairs written by my-model from the user's posts, not the user's choices"
    with FakeChat(answer) as server:
        built = pluralrm(*command(server.url), cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    fitted = pluralrm("fit", "pref", "--train", "pairs.jsonl", "--set", "epochs=1", "-o", "fits", cwd=tmp_path)
    grid = ["score", "pairs.jsonl", "-m", "personal:fits", "-c", "none", "-c", "pairs:2", "-c", "pairs:2,of=swapped"]
    scored = pluralrm(*grid, "-o", "runs", cwd=tmp_path)
    found = json.loads(pluralrm(*grid, "-o", "runs", "--json", cwd=tmp_path).stdout)
    for done in (built, fitted, scored):
        assert said.lower() in " ".join(done.stdout.split()).lower(), done.stdout + done.stderr
    assert "SYNTHESISED pairs:2" in pluralrm(*grid, "-o", "runs", "--all", cwd=tmp_path).stdout
    assert f"was trained on {said}" in " ".join(scored.stderr.split())
    assert json.dumps(found).count(said) >= 2
    runs = [str(path.parent) for path in sorted((tmp_path / "runs").rglob("run.json"))]
    assert len(runs) == 3
    compared = pluralrm("compare", *runs, cwd=tmp_path)
    assert said in " ".join(compared.stdout.split())
    assert pluralrm("report", *runs, "-o", "page.html", cwd=tmp_path).returncode == 0
    assert f"Runs marked SYNTHESISED were shown {said}".replace("'", "’") in (
        tmp_path / "page.html"
    ).read_text().replace("&#x27;", "’").replace("&#39;", "’").replace("'", "’")


def test_the_file_is_the_benchmark_with_marked_pairs(tmp_path: Path) -> None:
    bench, out = load_benchmark("pocket-prb"), tmp_path / "p.jsonl"
    write_pairs(bench, "pocket-prb", writer(willing)[0], out)
    loaded = load_benchmark(str(out))
    assert [replace(item, user=None) for item in loaded.items] == [replace(item, user=None) for item in bench.items]
    pairs = [pair for user in loaded.users for pair in user.preferences]
    assert len(pairs) == 4 * len(bench.users)
    assert all(pair.id.startswith(MARK) for pair in pairs)
    assert load_benchmark(str(out), seed=3).users == loaded.users


# ---------------------------------------------------------------- resumed


def test_killed_anywhere_no_user_is_asked_twice(tmp_path: Path) -> None:
    bench, out = load_benchmark("pocket-prb"), tmp_path / "p.jsonl"
    whole = tmp_path / "whole.jsonl"
    write_pairs(bench, "pocket-prb", writer(willing)[0], whole)
    lines = whole.read_bytes().splitlines(keepends=True)
    for kept in (0, 7, len(lines)):
        out.write_bytes(b"".join(lines[:kept]) + b"".join(lines[kept : kept + 1])[:50])
        scribe, chat = writer(willing)
        done = write_pairs(bench, "pocket-prb", scribe, out)
        assert (chat.calls, done.done) == (len(lines) - kept, len(lines))
        assert out.read_bytes() == whole.read_bytes()


def test_a_server_that_breaks_costs_no_user_twice(tmp_path: Path) -> None:
    met = count(1)
    with FakeChat(lambda seen: status(400) if next(met) == 4 else answer(seen)) as server:
        few = command(server.url, "pairs.jsonl", "--limit", "6", "--concurrency", "1")
        first = pluralrm(*few, cwd=tmp_path)
        again = pluralrm(*few, cwd=tmp_path)
        prompts = server.prompts
    assert (first.returncode, again.returncode) == (2, 0), again.stderr
    assert (len(prompts), len(set(prompts))) == (7, 6)  # the one that was refused, and nobody else, is asked twice
    assert len((tmp_path / "pairs.jsonl").read_text().splitlines()) == 6


def test_an_open_user_gets_no_line(tmp_path: Path) -> None:
    bench, out = bakery(3), tmp_path / "p.jsonl"
    turn = iter([Failure("transport", "down")])
    done = write_pairs(bench, "x", writer(lambda request: next(turn, None) or willing(request))[0], out)
    assert done.why == "down"
    assert (done.done, done.open, len(out.read_text().splitlines())) == (2, 1, 2)


def test_another_command_is_refused(tmp_path: Path) -> None:
    bench, out = bakery(3), tmp_path / "p.jsonl"
    write_pairs(bench, "x", writer(willing)[0], out)
    with pytest.raises(RunError, match="name a new file"):
        write_pairs(bench, "x", writer(willing, 3)[0], out)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("Sure! " + invented("x"), "not JSON"),
        (invented("x", 3), "has 3 objects, wanted 4"),
        ("{}", "not a list"),
        (invented("x").replace("Spelt", "Rye"), "the same text"),
        (invented("x").replace("Spelt", "RYE"), "the same text"),
        (f"```json\n{invented('x')}\n```\n", None),
        (f"Here: ```json\n{invented('x')}\n```", "not JSON"),
        (invented("x").replace('"other"', '"worse"'), "not a list of objects"),
        (json.dumps([{"prompt": " ", "preferred": "a", "other": "b"}] * 4), "not a list of objects"),
        (json.dumps([{"prompt": "q", "preferred": "a", "other": 3}] * 4), "not a list of objects"),
    ],
)
def test_only_the_form_that_was_asked_for_is_read(reply: str, reason: str | None) -> None:
    found = read_pairs(reply, 4)
    if reason is None:
        assert not isinstance(found, Failure)
        assert len(found) == 4
    else:
        assert isinstance(found, Failure)
        assert reason in found.detail


def test_what_cannot_be_read_is_asked_once_more_and_then_counted(tmp_path: Path) -> None:
    bench, out = bakery(3), tmp_path / "p.jsonl"
    scribe, chat = writer(lambda _: "No.")
    done = write_pairs(bench, "x", scribe, out)
    assert chat.calls == 6
    assert (done.done, done.pairs, dict(done.failures)) == (3, 0, {"parse: not JSON and nothing else": 3})
    assert write_pairs(bench, "x", scribe, out) == done
    assert chat.calls == 6


def test_a_pair_of_an_item_is_refused_by_the_writer_and_by_the_loader(tmp_path: Path) -> None:
    bench, out = load_benchmark("pocket-prb"), tmp_path / "p.jsonl"
    item = bench.items[5]
    pairs = json.loads(invented("x"))
    pairs[0]["prompt"] = f"  {item.prompt.upper()} "
    pairs[1]["other"] = item.candidates[1]
    done = write_pairs(bench, "pocket-prb", writer(lambda _: json.dumps(pairs))[0], out, limit=2)
    assert (done.pairs, done.refused) == (4, 4)
    assert all(len(user.preferences) in {0, 2} for user in load_benchmark(str(out)).users)
    row = json.loads(out.read_text().splitlines()[0])
    out.write_text(json.dumps({**row, "pairs": pairs}) + "\n")
    with pytest.raises(RowError, match="a question or an answer of an item"):
        load_benchmark(str(out))


def test_posts_that_have_changed_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "p.jsonl"
    write_pairs(load_benchmark("pocket-prb"), "pocket-prb", writer(willing)[0], out, limit=1)
    out.write_text(json.dumps({**json.loads(out.read_text()), "posts": "0"}) + "\n")
    with pytest.raises(RowError, match="other posts than the user has now"):
        load_benchmark(str(out))


# ---------------------------------------------------------------- what the writer sees


def test_the_writer_is_shown_posts_and_nothing_of_an_item(tmp_path: Path) -> None:
    bench = bakery(6, canary="CANARY")
    scribe, chat = writer(lambda _: "No.")  # the second message must not tell either
    write_pairs(bench, "x", scribe, tmp_path / "p.jsonl")
    sent = "\n".join(text for request in chat.requests for _, text in request.messages)
    assert "CANARY" not in sent
    assert all(post.text in sent for user in bench.users for post in user.posts)
    for item in bench.items:
        assert not any(text in sent for text in (item.prompt, *item.candidates, item.id))
        assert item.user is not None
        assert f"{item.user.id}-" not in sent


def test_posts_leave_this_machine_only_with_permission(tmp_path: Path) -> None:
    with pytest.raises(PrivacyError, match="--send-posts"):
        open_writer("m,url=https://pairs.example/v1")
    assert open_writer("m,url=https://pairs.example/v1,send=posts").role.chat.sees_posts
    away = command("https://pairs.example/v1")
    (tmp_path / "tape.jsonl").touch()
    assert "--send-posts" in pluralrm(*away, cwd=tmp_path).stderr
    allowed = pluralrm(*away, "--send-posts", "--replay", "tape.jsonl", cwd=tmp_path).stderr
    assert "tape.jsonl holds no request at all" in " ".join(allowed.split())


def test_a_template_that_hides_the_posts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own.jinja").write_text("Write {{ count }} pairs.")
    with pytest.raises(TemplateError, match="posts"):
        open_writer(f"m,template={tmp_path / 'own.jinja'}", chat=ScriptedChat(willing))


# ---------------------------------------------------------------- one writer


def test_a_file_that_another_process_writes_is_left_to_it(tmp_path: Path) -> None:
    """The other one stands still while its server thinks; this one asks nobody, and its end changes nothing."""
    out, inside, go = tmp_path / "pairs.jsonl", Event(), Event()

    def slow(seen: Seen) -> Action:
        inside.set()
        assert go.wait(240)
        return answer(seen)

    with FakeChat(slow) as server:
        program = [sys.executable, "-c", "from pluralrm.cli import main; main()", *command(server.url)]
        with Popen(program, cwd=tmp_path, stdout=PIPE, stderr=PIPE) as other:
            assert inside.wait(240)
            asked, chat = writer(willing)
            bench = load_benchmark("pocket-prb")
            with pytest.raises(RunError, match=r"pairs\.jsonl: another process writes pairs into this file"):
                write_pairs(bench, "pocket-prb", asked, out)
            beside = write_pairs(bench, "pocket-prb", asked, tmp_path / "others.jsonl", limit=1)
            go.set()
            other.communicate(timeout=240)
            assert other.returncode == 0
    assert (beside.done, chat.calls) == (1, 1)
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == [
        user.id for user in bench.users if user.posts
    ]


# ---------------------------------------------------------------- shards


@pytest.mark.parametrize(("count", "limit"), [(3, None), (7, 5)])
def test_shards_of_users_become_the_file_of_one_process(tmp_path: Path, count: int, limit: int | None) -> None:
    bench, one, out = load_benchmark("pocket-prb"), tmp_path / "one.jsonl", tmp_path / "many.jsonl"
    scribe, chat = writer(willing)
    whole = write_pairs(bench, "pocket-prb", scribe, one, limit=limit)
    parts = [Shard(index=index, count=count) for index in range(count, 0, -1)]
    sharing, other = writer(willing)
    done = [write_pairs(bench, "pocket-prb", sharing, out, limit=limit, shard=part) for part in parts]
    assert sum(part.done for part in done) == whole.done
    assert not out.exists()
    [work] = merge(tmp_path).merged
    assert (work.folder, work.shards, work.new) == (out, count, True)
    assert out.read_bytes() == one.read_bytes()
    assert merge(tmp_path).merged == [work._replace(new=False)]
    write_pairs(bench, "pocket-prb", sharing, out, limit=limit)  # complete: nobody is asked
    assert other.calls == chat.calls == whole.done


def test_shards_of_users_that_are_missing_open_foreign_or_damaged_are_refused_by_name(tmp_path: Path) -> None:
    bench, out = load_benchmark("pocket-prb"), tmp_path / "many.jsonl"
    down = Shard(index=1, count=2).of(user.id for user in bench.users)[3]
    posts = next(user.posts[0].text for user in bench.users if user.id == down)

    def failing(request: ChatRequest) -> str | Failure:
        return Failure("transport", "no route") if posts in request.messages[0][1] else willing(request)

    far = write_pairs(bench, "pocket-prb", writer(failing)[0], out, shard=Shard(index=1, count=2))
    first, second = (tmp_path / f"many.jsonl.shard-{index}-of-2" for index in (1, 2))
    found = "\n".join(merge(tmp_path).refused)
    assert f"{first}: shard 1 of 2 has {far.users - 1} of {far.users} users" in found
    assert ": missing shard 2 of 2" in found
    write_pairs(bench, "pocket-prb", writer(willing)[0], out, shard=Shard(index=1, count=2))
    write_pairs(bench, "pocket-prb", writer(willing, 3)[0], out, shard=Shard(index=2, count=2))
    assert f"{second}: shard 2 of 2 is of another set of pairs; it differs in made" in "\n".join(
        merge(tmp_path).refused
    )
    with pytest.raises(RunError, match="holds a set of pairs with another made"):
        write_pairs(bench, "pocket-prb", writer(willing)[0], out, shard=Shard(index=2, count=2))
    for path in (second, second / "users.jsonl"):
        with pytest.raises(BenchmarkError, match=r"some users of many\.jsonl alone"):
            load_benchmark(str(path))
    rmtree(second)
    write_pairs(bench, "pocket-prb", writer(willing)[0], out, shard=Shard(index=2, count=2))
    lines = (first / "users.jsonl").read_bytes().splitlines(keepends=True)
    (second / "users.jsonl").write_bytes((second / "users.jsonl").read_bytes() + lines[0])
    assert "who is none of this shard" in "\n".join(merge(tmp_path).refused)
    assert not out.exists()


def test_the_command_of_a_shard_of_users_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with FakeChat(answer) as server:
        words = command(server.url, "pairs.jsonl", "--shard", "1/2", "--limit", "5")
        monkeypatch.setattr("sys.argv", ["pluralrm", *words])
        first = CliRunner().invoke(app, words)
    assert first.stdout == "shard 1 of 2: 3 of 3 done, 0 failed\n  with all 2 shards: pluralrm merge .\n"
    merged = CliRunner().invoke(app, ["merge", "."])
    assert f"makes it: {shlex.join(['pluralrm', *words])}".replace("1/2", "2/2") in str(merged.exception)
