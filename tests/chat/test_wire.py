"""How requests and replies are spelled, and what each server's quirks become."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.chat import ChatReply, ChatRequest, Sampling, TokenLogprob
from pluralrm.chat.completions import completion_body, read_completion
from pluralrm.core import Failure
from pluralrm.http import UnsoundError
from pluralrm.templates import Message

ASKED = ChatRequest((("system", "Judge."), ("user", "A or B?")))


def _reply(**choice: Any) -> dict[str, object]:
    whole = {"index": 0, "message": {"role": "assistant", "content": "A"}, "finish_reason": "stop", **choice}
    return {"id": "r", "model": "served-name", "choices": [whole], "future": {"field": 1}}


def _content(**message: Any) -> dict[str, object]:
    return _reply(message={"role": "assistant", **message})


def test_only_what_is_asked_is_sent() -> None:
    messages = [{"role": "system", "content": "Judge."}, {"role": "user", "content": "A or B?"}]
    assert completion_body("m", ASKED, {}) == {"model": "m", "messages": messages, "temperature": 0.0}
    free = ChatRequest(ASKED.messages, Sampling(temperature=None), template="hash", tag="2")
    assert completion_body("m", free, {}) == {"model": "m", "messages": messages}


def test_every_parameter_is_sent_under_its_name() -> None:
    sampling = Sampling(temperature=0.5, top_p=0.9, max_tokens=7, seed=0, stop=("###",), logprobs=True, top_logprobs=5)
    sent = completion_body(
        "m", ChatRequest(ASKED.messages, sampling), {"chat_template_kwargs": {"enable_thinking": False}}
    )
    del sent["messages"]
    assert sent == {
        "model": "m",
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 7,
        "seed": 0,
        "stop": ["###"],
        "logprobs": True,
        "top_logprobs": 5,
        "chat_template_kwargs": {"enable_thinking": False},
    }


def test_a_templates_message_is_a_pair() -> None:
    assert completion_body("m", ChatRequest((Message("user", "?"),)), {})["messages"] == [
        {"role": "user", "content": "?"}
    ]


def test_the_first_choice_is_the_reply() -> None:
    assert read_completion(_reply()) == ChatReply("A", "stop", model="served-name")


@pytest.mark.parametrize("reason", ["length", "content_filter", "tool_calls"])
def test_a_cut_reply_says_so(reason: str) -> None:
    reply = read_completion(_reply(finish_reason=reason))
    assert isinstance(reply, ChatReply)
    assert (reply.text, reply.finish_reason) == ("A", reason)


def test_a_model_that_declines_has_refused() -> None:
    assert read_completion(_content(content=None, refusal="I cannot compare these.")) == Failure(
        "refused", "I cannot compare these."
    )
    assert isinstance(read_completion(_content(content="A", refusal=None)), ChatReply)


@pytest.mark.parametrize("message", [{"content": None, "reasoning_content": "Let me see"}, {"content": ""}, {}])
def test_nothing_said_is_an_empty_text(message: dict[str, object]) -> None:
    reply = read_completion(_reply(message=message, finish_reason="length"))
    assert isinstance(reply, ChatReply)
    assert (reply.text, reply.finish_reason) == ("", "length")


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        "A",
        {"choices": None},
        {"choices": []},
        {"choices": ["A"]},
        {"choices": [{}]},
        {"choices": [{"text": "A"}]},
        {"choices": [{"message": "A"}]},
        {"choices": [{"message": {"content": [{"type": "text", "text": "A"}]}}]},
        {"choices": [{"message": {"content": 1}}]},
        {"error": {"message": "overloaded"}},
    ],
)
def test_what_is_no_chat_completion_is_unsound(value: object) -> None:
    with pytest.raises(UnsoundError):
        read_completion(value)


def test_an_error_inside_a_reply_is_quoted() -> None:
    with pytest.raises(UnsoundError, match="overloaded"):
        read_completion({"error": {"message": "overloaded"}})


def test_logprobs_come_with_alternatives_the_likeliest_first() -> None:
    top = [{"token": "NO", "logprob": -2.5, "bytes": [78]}, {"token": "YES", "logprob": -0.1}]
    reply = read_completion(
        _reply(logprobs={"content": [{"token": "YES", "logprob": -0.1, "top_logprobs": top}], "refusal": None})
    )
    assert isinstance(reply, ChatReply)
    assert reply.logprobs == (TokenLogprob("YES", -0.1, (("YES", -0.1), ("NO", -2.5))),)


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        {},
        {"content": None},
        {"tokens": ["YES"], "token_logprobs": [-0.1]},
        {"content": [{"token": "YES"}]},
        {"content": [{"token": "YES", "logprob": None}]},
        {"content": [{"token": "YES", "logprob": True}]},
        {"content": ["YES"]},
    ],
)
def test_logprobs_that_are_not_there_are_none_not_guessed(logprobs: object) -> None:
    reply = read_completion(_reply(logprobs=logprobs))
    assert isinstance(reply, ChatReply)
    assert reply.text == "A"
    assert reply.logprobs is None


@pytest.mark.parametrize(
    "content",
    [
        [{"token": "YES", "logprob": 0.7}],
        [{"token": "YES", "logprob": 10**400}],
        [{"token": "YES", "logprob": -(10**400)}],
        [{"token": "YES", "logprob": float("nan")}],
        [{"token": "YES", "logprob": -0.1, "top_logprobs": [{"token": "NO", "logprob": 3.0}]}],
        [{"token": "YES", "logprob": -0.1, "top_logprobs": [{"token": "NO", "logprob": -0.1}]}],
        [{"token": "YES", "logprob": -0.1, "top_logprobs": [{"token": "NO"}]}],
        [{"token": "YES", "logprob": -0.1, "top_logprobs": 7}],
    ],
)
def test_more_probability_than_there_is_is_not_believed(content: object) -> None:
    reply = read_completion(_reply(logprobs={"content": content}))
    assert isinstance(reply, ChatReply)
    assert reply.logprobs is None


def test_rounding_above_zero_is_certainty() -> None:
    top = [{"token": "YES", "logprob": 1e-6}, {"token": "NO", "logprob": -9999.0}]
    reply = read_completion(_reply(logprobs={"content": [{"token": "YES", "logprob": 1e-6, "top_logprobs": top}]}))
    assert isinstance(reply, ChatReply)
    assert reply.logprobs == (TokenLogprob("YES", 0.0, (("YES", 0.0), ("NO", -9999.0))),)


def test_logprobs_without_alternatives_are_logprobs() -> None:
    reply = read_completion(_reply(logprobs={"content": [{"token": "YES", "logprob": -1, "top_logprobs": None}]}))
    assert isinstance(reply, ChatReply)
    assert reply.logprobs == (TokenLogprob("YES", -1.0, ()),)


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "message", "content", "refusal", "logprobs", "token", "logprob", "top_logprobs"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    json
    | st.fixed_dictionaries(
        {"choices": st.lists(st.fixed_dictionaries({"message": json, "logprobs": json}), min_size=1)}
    )
)
def test_whatever_a_server_says_is_a_reply_a_refusal_or_unsound(value: object) -> None:
    try:
        found = read_completion(value)
    except UnsoundError:
        return
    assert isinstance(found, ChatReply | Failure)
