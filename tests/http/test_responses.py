"""What each HTTP answer means, from its parts alone."""

import json

import pytest

from pluralrm.core import Failure
from pluralrm.errors import ServiceError
from pluralrm.http import Usage
from pluralrm.http.calls import AgainError, content, read_response, usage_of

JSON = "application/json"


def _content(status: int, text: str, media: str = JSON, *, retry_after: str = "", location: str = "") -> object:
    answer = read_response(status, media, text, retry_after=retry_after, location=location)
    return content(answer, "http://h/v1/chat/completions", "HINT")


def test_json_is_content_whatever_it_says() -> None:
    assert _content(200, '{"a": 1, "future": {}}', "application/json; charset=utf-8") == {"a": 1, "future": {}}
    assert _content(200, "[0.5]", "application/problem+json") == [0.5]


@pytest.mark.parametrize(
    ("text", "media"),
    [
        ('{"a": ', JSON),
        ("", JSON),
        ("null", JSON),
        ("[" * 100_000, JSON),
        ("<html>Bad gateway</html>", "text/html"),
        ('{"a": 1}', "text/plain"),
        ('{"a": 1}', ""),
    ],
)
def test_a_reply_that_is_no_json_is_asked_for_again(text: str, media: str) -> None:
    with pytest.raises(AgainError):
        _content(200, text, media)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 529])
def test_an_outage_is_tried_again_after_the_wait_it_asks_for(status: int) -> None:
    with pytest.raises(AgainError, match=f"HTTP {status}: busy") as error:
        _content(status, '{"error": {"message": "busy"}}', retry_after="4")
    assert error.value.wait == 4


@pytest.mark.parametrize("status", [201, 204, 301, 302, 307, 400, 401, 403, 404, 405, 409, 422, 451])
def test_any_other_status_ends_the_run_with_the_servers_words(status: int) -> None:
    with pytest.raises(ServiceError, match=r"http://h/v1/chat/completions: HTTP \d+: no such thing") as error:
        _content(status, '{"error": {"message": "no such thing"}}')
    assert error.value.status == status


@pytest.mark.parametrize(
    ("status", "next_step"),
    [(401, "HINT"), (403, "HINT"), (404, "/v1"), (400, "parameters"), (307, "redirects to evil.org;")],
)
def test_the_message_says_what_to_do_next(status: int, next_step: str) -> None:
    with pytest.raises(ServiceError, match=next_step):
        _content(status, "{}", location="https://evil.org/steal?x=1")


TOO_LONG = [
    # vLLM, two releases
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens in the messages.",
    "The decoder prompt (length 9000) is longer than the maximum model length of 4096.",
    # SGLang
    "The input (9000 tokens) is longer than the model's context length (4096 tokens).",
    "Requested token count exceeds the model's maximum context length of 4096 tokens.",
    # llama.cpp
    "the request exceeds the available context size, try increasing it",
    # text-generation-inference
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 4000",
    "Input validation error: `inputs` must have less than 1024 tokens. Given: 4000",
    # gateways
    "prompt is too long: 210000 tokens > 200000 maximum",
]


@pytest.mark.parametrize("message", TOO_LONG)
@pytest.mark.parametrize("status", [400, 422])
def test_a_text_that_is_too_long_fails_alone(status: int, message: str) -> None:
    failure = _content(status, json.dumps({"error": {"message": message}}))
    assert isinstance(failure, Failure)
    assert failure.kind == "too_long"
    assert message[:30] in failure.detail


def test_openai_says_too_long_by_its_code() -> None:
    text = json.dumps({"error": {"message": "Too many tokens.", "code": "context_length_exceeded"}})
    assert isinstance(_content(400, text), Failure)
    assert isinstance(_content(413, "Payload Too Large", "text/plain"), Failure)


@pytest.mark.parametrize(
    "message",
    [
        "top_logprobs must be less than 20",
        "temperature must be <= 2",
        "The model `x` does not exist.",
        "invalid role: context",
        "max_tokens must be at least 1",
    ],
)
def test_other_complaints_are_not_taken_for_too_long(message: str) -> None:
    with pytest.raises(ServiceError):
        _content(400, json.dumps({"error": {"message": message}}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"error": {"message": "a"}}', "a"),
        ('{"error": "b."}', "b"),
        ('{"message": "c"}', "c"),
        ('{"detail": "d"}', "d"),
        ("plain\n  text", "plain text"),
        ("\x1b[31mred\x07", "[31mred"),
        ("", "no message"),
        ("x" * 5000, "x" * 300),
    ],
)
def test_a_servers_message_is_shown_in_one_harmless_line(text: str, message: str) -> None:
    with pytest.raises(ServiceError) as error:
        _content(400, text)
    assert f"HTTP 400: {message}. The request" in str(error.value)


@pytest.mark.parametrize(
    ("usage", "found"),
    [
        ({"prompt_tokens": 7, "completion_tokens": 3}, Usage(7, 3)),
        ({"prompt_tokens": 7, "total_tokens": 7}, Usage(7, 0)),
        ({"prompt_tokens": 7, "completion_tokens": None}, Usage(7, 0)),
        ({"prompt_tokens": -7, "completion_tokens": 3}, None),
        ({"prompt_tokens": 10**400, "completion_tokens": 3}, None),
        ({"prompt_tokens": 7, "completion_tokens": 10**400}, None),
        ({"prompt_tokens": True, "completion_tokens": 3}, None),
        ({"prompt_tokens": "7"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_tokens_are_counts_or_unknown(usage: object, found: Usage | None) -> None:
    assert usage_of({"usage": usage}) == found
    assert usage_of([usage]) is None
