"""The cache: nothing is paid for twice, no failure is kept, several threads of calls and processes agree."""

import sqlite3
from pathlib import Path

import pytest

from pluralrm.core import Failure
from pluralrm.errors import ServiceError
from pluralrm.http import Call, Service, Settings, parse_address
from pluralrm.http.cache import ReplyCache
from tests.fake_chat import Action, FakeChat, Seen, late, reply, say, status
from tests.http.test_service import ask, call, kinds, read, texts


def test_a_second_identical_run_makes_no_calls(tmp_path: Path) -> None:
    with FakeChat(lambda seen: say(seen.prompt)) as server:
        first = ask(server, range(50), cache=tmp_path)
        assert len(server.requests) == 50
        with Service(parse_address(server.url), Settings(cache=tmp_path)) as service:
            again = list(service.replies(map(call, range(50)), read))
            tally = service.tally
        assert texts(again) == first
        assert len(server.requests) == 50
        assert all(not isinstance(one, Failure) and one.cached for one in again)
        assert (tally.answered, tally.kept, tally.attempts, tally.prompt_tokens) == (50, 50, 0, 0)


def test_a_kept_reply_is_handed_out_when_the_server_is_gone(tmp_path: Path) -> None:
    with FakeChat() as server:
        ask(server, ["1"], cache=tmp_path)
    assert kinds(ask(server, ["1", "2"], cache=tmp_path, attempts=1)) == ["A", "transport"]


def test_failures_are_never_kept(tmp_path: Path) -> None:
    long = status(400, "This model's maximum context length is 10 tokens.")
    with FakeChat(faults=[status(500), long]) as server:
        assert kinds(ask(server, ["1"], cache=tmp_path, attempts=1)) == ["transport"]
        assert kinds(ask(server, ["1"], cache=tmp_path, attempts=1)) == ["too_long"]
        assert kinds(ask(server, ["1"], cache=tmp_path, attempts=1)) == ["A"]
        assert len(server.requests) == 3


def test_another_server_or_mark_is_another_reply(tmp_path: Path) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
    with FakeChat(lambda _: say("one")) as one, FakeChat(lambda _: say("other")) as other:
        assert ask(one, cache=tmp_path) == ["one"]
        assert ask(other, cache=tmp_path) == ["other"]
        with Service(parse_address(one.url), Settings(cache=tmp_path)) as service:
            marks = [{"tag": "draw 2"}, {"revision": "draw 2"}, {"tag": "draw 2"}]
            texts(service.replies([Call("/chat/completions", body, mark) for mark in marks], read))
        assert len(one.requests) == 3


@pytest.mark.parametrize("concurrency", [1, 16])
def test_equal_requests_share_one_reply_at_every_concurrency(concurrency: int, tmp_path: Path) -> None:
    drawn: list[int] = []

    def dice(seen: Seen) -> Action:
        drawn.append(len(drawn))
        return say(f"{seen.prompt}: {len(drawn)}")

    with FakeChat(dice) as server:
        replies = ask(server, ["a", "b"] * 20, cache=tmp_path, concurrency=concurrency)
        assert len(server.requests) == 2
        assert len(set(replies)) == 2
        assert replies == replies[:2] * 20


def test_without_a_cache_equal_requests_are_draws_of_their_own() -> None:
    with FakeChat() as server:
        ask(server, ["a"] * 5)
        assert len(server.requests) == 5


def test_a_fresh_call_is_asked_anew(tmp_path: Path) -> None:
    with FakeChat(lambda _: say(f"answer {len(server.requests)}")) as server:
        for number in (1, 2):
            with Service(parse_address(server.url), Settings(cache=tmp_path)) as service:
                assert texts(service.replies([Call("/models", fresh=True)], read)) == [f"answer {number}"]


def test_a_reply_is_kept_before_the_one_in_front_of_it_has_come(tmp_path: Path) -> None:
    """The first call is late and then ends the run; what the others said meanwhile is on disk all the same."""
    first = late(status(401), 0.3)
    with FakeChat(lambda seen: first if seen.prompt == "0" else say("A")) as server:
        with pytest.raises(ServiceError):
            ask(server, range(3), cache=tmp_path, concurrency=4)
        assert ask(server, [1, 2], cache=tmp_path) == ["A", "A"]
        assert sorted(server.prompts) == ["0", "1", "2"]


def test_two_processes_agree_on_the_first_reply(tmp_path: Path) -> None:
    one, other = ReplyCache(tmp_path), ReplyCache(tmp_path)
    key = "ab" * 32
    assert one.put(key, {"said": 1}) == {"said": 1}
    assert other.put(key, {"said": 2}) == {"said": 1}
    assert one.get(key) == other.get(key) == {"said": 1}
    one.close()
    other.close()


@pytest.mark.parametrize(
    "value", [{"x": float("inf")}, {"x": 0.1 + 0.2}, {"x": "\ud800 \x00 é \u2028"}, [[], {}], 0, "", False]
)
def test_a_reply_comes_back_as_it_was(value: object, tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path)
    cache.put("00", value)
    cache.close()
    assert cache.get("00") == value
    cache.close()


def test_a_kept_reply_that_cannot_be_read_is_an_error_and_not_asked_for_again(tmp_path: Path) -> None:
    with FakeChat(lambda _: reply({"choices": []})) as server:
        with Service(parse_address(server.url), Settings(cache=tmp_path)) as service:
            list(service.replies([call(1)], str))
        with pytest.raises(ServiceError, match="a kept reply cannot be read"):
            ask(server, [1], cache=tmp_path)
        assert len(server.requests) == 1


def test_the_cache_is_in_wal_mode(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path)
    cache.put("00", 1)
    with sqlite3.connect(tmp_path / "replies.sqlite") as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    database.close()
    cache.close()


def test_a_cache_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "replies.sqlite").write_bytes(b"this is not a database, whatever its name says" * 100)
    with FakeChat() as server, pytest.raises(ServiceError, match=r"replies\.sqlite"):
        ask(server, cache=tmp_path)
    (tmp_path / "file").write_text("")
    with FakeChat() as server, pytest.raises(ServiceError, match="another folder"):
        ask(server, cache=tmp_path / "file")
