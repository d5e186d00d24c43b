"""A chat model behind a server, end to end."""

import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pluralrm.chat import ChatModel, ChatReply, ChatRequest, Sampling, ScriptedChat, ServedChat
from pluralrm.core import Failure
from pluralrm.errors import ServiceError
from pluralrm.http import Settings, Usage
from tests.fake_chat import Action, FakeChat, Seen, late, say, status
from tests.http.clock import FakeClock


def asking(prompt: object, *, template: str = "", tag: str = "") -> ChatRequest:
    return ChatRequest((("user", str(prompt)),), template=template, tag=tag)


def test_a_reply_carries_what_the_server_said_of_it() -> None:
    with FakeChat(lambda _: say("Answer: A", finish="length")) as server, ServedChat("m", url=server.url) as chat:
        assert list(chat.complete([asking("?")])) == [ChatReply("Answer: A", "length", Usage(100, 10), model="fake-1")]
        assert (chat.tally.answered, chat.tally.prompt_tokens, chat.tally.completion_tokens) == (1, 100, 10)
        assert chat.tally.cost is None
        [seen] = server.requests
    assert (seen.method, seen.path) == ("POST", "/v1/chat/completions")
    assert seen.headers["content-type"] == "application/json"
    assert seen.body == {"model": "m", "messages": [{"role": "user", "content": "?"}], "temperature": 0.0}


@pytest.mark.parametrize("concurrency", [1, 16])
def test_replies_refusals_and_failures_keep_their_places(concurrency: int) -> None:
    def answer(seen: Seen) -> Action:
        number = int(seen.prompt)
        if number % 5 == 1:
            return late(say("", refusal="no"), 0.02)
        if number % 5 == 2:
            return status(500)
        return say(seen.prompt)

    settings = Settings(concurrency=concurrency, attempts=2)
    with FakeChat(answer) as server, ServedChat("m", url=server.url, settings=settings, clock=FakeClock()) as chat:
        outcomes = list(chat.complete(map(asking, range(40))))
    said = [outcome.kind if isinstance(outcome, Failure) else outcome.text for outcome in outcomes]
    assert said == [{1: "refused", 2: "transport"}.get(number % 5, str(number)) for number in range(40)]


def test_replies_come_while_later_ones_are_on_their_way() -> None:
    def endless() -> Iterator[ChatRequest]:
        number = 0
        while True:
            yield asking(number)
            number += 1

    with FakeChat(lambda seen: say(seen.prompt)) as server, ServedChat("m", url=server.url) as chat:
        replies = chat.complete(endless())
        first = [next(replies) for _ in range(300)]
    assert [reply.text for reply in first if isinstance(reply, ChatReply)] == [str(number) for number in range(300)]


def test_a_kept_reply_says_that_it_was_kept(tmp_path: Path) -> None:
    settings = Settings(cache=tmp_path)
    with FakeChat(lambda _: say("A")) as server:
        for cached in (False, True):
            with ServedChat("m", url=server.url, settings=settings) as chat:
                assert list(chat.complete([asking("?")])) == [
                    ChatReply("A", "stop", Usage(100, 10), cached=cached, model="fake-1")
                ]
        assert len(server.requests) == 1


def test_a_refusal_is_an_answer_and_is_not_paid_for_twice(tmp_path: Path) -> None:
    settings = Settings(cache=tmp_path)
    with FakeChat(lambda _: say("", refusal="no")) as server:
        for _ in range(2):
            with ServedChat("m", url=server.url, settings=settings) as chat:
                assert list(chat.complete([asking("?")])) == [Failure("refused", "no")]
        assert len(server.requests) == 1


def test_whatever_shapes_a_reply_is_asked_anew(tmp_path: Path) -> None:
    settings = Settings(cache=tmp_path)
    ways = [
        ({}, asking("?")),
        ({}, asking("??")),
        ({}, asking("?", tag="2")),
        ({}, asking("?", template="hash")),
        ({}, ChatRequest(asking("?").messages, Sampling(temperature=1.0))),
        ({}, ChatRequest(asking("?").messages, Sampling(seed=1))),
        ({"revision": "2"}, asking("?")),
        ({"extra": {"top_k": 1}}, asking("?")),
    ]
    with FakeChat() as server:
        for _ in range(2):
            for how, request in ways:
                with ServedChat("m", url=server.url, settings=settings, **how) as chat:  # type: ignore[arg-type]
                    list(chat.complete([request]))
        with ServedChat("n", url=server.url, settings=settings) as chat:
            list(chat.complete([asking("?")]))
        assert len(server.requests) == len(ways) + 1


def test_an_extra_field_cannot_replace_what_is_ours() -> None:
    with pytest.raises(ServiceError, match="'messages' is set by pluralrm"):
        ServedChat("m", url="http://127.0.0.1:1", extra={"messages": []})


def test_a_named_key_is_sent_and_its_rejection_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_KEY", "sk-lab-0123456789")
    with FakeChat(lambda _: status(401, "bad key sk-lab-0123456789")) as server:
        with ServedChat("m", url=server.url, key="LAB_KEY") as chat, pytest.raises(ServiceError) as error:
            list(chat.complete([asking("?")]))
        assert server.requests[0].headers["authorization"] == "Bearer sk-lab-0123456789"
    assert "bad key [key]" in str(error.value)
    assert "'LAB_KEY'" in str(error.value)


def test_without_a_key_none_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with FakeChat() as server, ServedChat("m", url=server.url) as chat:
        list(chat.complete([asking("?")]))
        assert "authorization" not in server.requests[0].headers


def test_a_model_says_who_it_is_and_whether_texts_leave_this_machine() -> None:
    with ServedChat("m", url="http://127.0.0.1:1/v1/", revision="abc") as chat:
        assert chat.identity == {"model": "m", "url": "http://127.0.0.1:1/v1", "revision": "abc"}
        assert chat.sees_posts
    with ServedChat("m", url="http://127.0.0.1.nip.io:1/v1") as chat:
        assert not chat.sees_posts


def test_a_model_nobody_closes_leaves_no_thread_behind() -> None:
    with FakeChat() as server:
        chat = ServedChat("m", url=server.url)
        assert len(list(chat.complete(map(asking, range(20))))) == 20
        del chat
        gc.collect()
        assert "pluralrm-http" not in [thread.name for thread in threading.enumerate()]


def test_several_models_work_side_by_side() -> None:
    with (
        FakeChat(lambda _: say("one")) as one,
        FakeChat(lambda _: say("other")) as other,
        ServedChat("m", url=one.url) as first,
        ServedChat("m", url=other.url) as second,
    ):
        pairs = list(zip(first.complete(map(asking, range(9))), second.complete(map(asking, range(9))), strict=True))
    assert [(a.text, b.text) for a, b in pairs] == [("one", "other")] * 9  # type: ignore[union-attr]


def test_served_and_scripted_are_chat_models() -> None:
    with ServedChat("m", url="http://127.0.0.1:1") as served:
        models: list[ChatModel] = [served, ScriptedChat(["A"])]
    assert [model.name for model in models] == ["m", "scripted"]
