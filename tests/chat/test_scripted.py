"""The scripted chat model: what a test can rely on."""

import sys
from subprocess import run

import pytest

from pluralrm.chat import ChatReply, ChatRequest, ScriptedChat
from pluralrm.core import Failure
from pluralrm.errors import ServiceError


def asking(prompt: str) -> ChatRequest:
    return ChatRequest((("user", prompt),))


def test_a_list_is_said_in_turn_and_counted() -> None:
    chat = ScriptedChat(["A", Failure("refused", "no"), ChatReply("B", "length")])
    assert list(chat.complete([asking("1"), asking("2")])) == [
        ChatReply("A", model="scripted"),
        Failure("refused", "no"),
    ]
    assert list(chat.complete([asking("3")])) == [ChatReply("B", "length")]
    assert chat.calls == 3
    assert [request.messages[0][1] for request in chat.requests] == ["1", "2", "3"]
    assert chat.sees_posts


def test_a_function_answers_by_the_request() -> None:
    chat = ScriptedChat(lambda request: request.messages[-1][1].upper())
    assert [reply.text for reply in chat.complete([asking("a"), asking("b")])] == ["A", "B"]  # type: ignore[union-attr]


def test_a_script_that_is_over_is_an_error() -> None:
    chat = ScriptedChat(["A"])
    with pytest.raises(ServiceError, match="has 1 lines and is over"):
        list(chat.complete([asking("1"), asking("2")]))


def test_a_script_needs_no_http_library() -> None:
    code = (
        "import sys; sys.modules['httpx2'] = None\n"
        "from pluralrm.chat import *\n"
        "print([r.text for r in ScriptedChat(['A']).complete([ChatRequest((('user', '?'),))])])"
    )
    done = run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['A']\n"
