"""A chat model in a role: order is kept, a second reply is final, and later calls do not wait for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pluralrm
from pluralrm.chat import ChatCall, ChatModel, ChatReply, ChatRequest, ChatRole, Sampling, ScriptedChat, settled
from pluralrm.chat.completions import Markers, unreadable
from pluralrm.core import Failure
from pluralrm.templates import load_template


def number(text: str) -> int | Failure:
    return int(text) if text.isdigit() else unreadable("no number", text)


def role_of(chat: ChatModel, markers: Markers | None = None) -> ChatRole:
    return ChatRole(chat, load_template(), Sampling(), markers)


def call(chat: ChatModel, name: str, markers: Markers | None = None) -> ChatCall[int]:
    return role_of(chat, markers).call(name, number, "Say a number.")


def outcomes(chat: ScriptedChat, count: int) -> list[int | Failure | None]:
    asked = role_of(chat).ask(map(str, range(count)), lambda name: [call(chat, name)])
    return [one.outcome for _, [one] in asked]


@given(st.lists(st.sampled_from(["at once", "second", "never", "refused"]), max_size=12))
def test_outcomes_come_in_order_and_nothing_is_asked_a_third_time(moods: list[str]) -> None:
    def script(request: ChatRequest) -> str | Failure:
        place, again = int(request.messages[0][1]), len(request.messages) > 1
        mood = moods[place]
        if mood == "refused":
            return Failure("refused", "no")
        return str(place) if mood == "at once" or (mood == "second" and again) else "well"

    chat = ScriptedChat(script)
    found = outcomes(chat, len(moods))
    kinds = {"never": "parse", "refused": "refused"}
    assert [one.kind if isinstance(one, Failure) else one for one in found] == [
        kinds.get(mood, place) for place, mood in enumerate(moods)
    ]
    assert chat.calls == len(moods) + sum(mood in {"second", "never"} for mood in moods)


def test_a_second_try_joins_the_stream_while_later_calls_are_still_to_be_made() -> None:
    chat = ScriptedChat(lambda request: "well" if request.messages == (("user", "0"),) else "7")
    assert outcomes(chat, 4) == [7, 7, 7, 7]
    assert [len(request.messages) for request in chat.requests] == [1, 3, 1, 1, 1]
    assert chat.requests[1].messages[1:] == (
        ("assistant", "well"),
        ("user", "This cannot be used: no number. Say a number."),
    )


def test_reasoning_is_no_part_of_what_is_read_or_sent_back() -> None:
    lines = iter(["<think>12</think>well", "<think>no</think>12"])
    chat, markers = ScriptedChat(lambda _: next(lines)), Markers("<think>", "</think>")
    [found] = settled(chat, iter([call(chat, "0", markers)]))
    assert found.outcome == 12
    assert [turn.reply.text for turn in found.turns] == ["<think>12</think>well", "<think>no</think>12"]
    assert chat.requests[1].messages[1] == ("assistant", "well")


@pytest.mark.parametrize("reply", [ChatReply("7", "length"), ChatReply("")])
def test_a_reply_that_was_cut_off_or_is_empty_is_asked_again(reply: ChatReply) -> None:
    lines: Iterator[ChatReply] = iter([reply, ChatReply("7")])
    chat = ScriptedChat(lambda _: next(lines))
    assert outcomes(chat, 1) == [7]
    assert chat.requests[1].messages[1][1]  # some servers refuse a message without text


@given(st.lists(st.booleans(), max_size=12))
def test_what_is_known_from_the_start_keeps_its_place_and_asks_nobody(known: list[bool]) -> None:
    chat = ScriptedChat(lambda request: request.messages[0][1])
    calls = [call(chat, str(place)) for place in range(len(known))]
    for place, one in enumerate(calls):
        one.outcome = -1 if known[place] else None
    assert [one.outcome for one in settled(chat, calls)] == [
        -1 if given_before else place for place, given_before in enumerate(known)
    ]
    assert chat.calls == known.count(False)


def test_a_complaint_of_ones_own_begins_the_second_message_and_every_turn_is_kept() -> None:
    chat = ScriptedChat(["well", "7"])
    asked = call(chat, "0")
    asked.complaint = "That is none"
    [found] = settled(chat, [asked])
    told = "That is none: no number. Say a number."
    assert [tuple(exchange) for exchange in found.exchanges] == [("0", "well"), (told, "7")]
    assert chat.requests[1].messages[-1] == ("user", told)


def test_whatever_asks_a_chat_model_asks_through_a_role() -> None:
    """Only `chat` writes requests: elsewhere none can be made that says less of itself than a role's does."""
    source = Path(pluralrm.__file__).parent
    writers = {
        path.relative_to(source).parts[0]
        for path in source.rglob("*.py")
        if "ChatRequest(" in path.read_text(encoding="utf-8")
    }
    assert writers == {"chat"}
