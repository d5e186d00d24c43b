"""A reply that was cut off or withheld says nothing, and what stands in a reasoning block was never said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.chat import ChatReply
from pluralrm.chat.completions import Markers, spoken, whole
from pluralrm.core import Failure

THINK = Markers("<think>", "</think>")


@given(st.lists(st.sampled_from(["<think>", "</think>", "Result: A\n", "so\n"]), max_size=8))
def test_nothing_of_a_reasoning_block_is_ever_said(pieces: list[str]) -> None:
    said = spoken("".join(pieces), THINK)
    markers = [piece for piece in pieces if "think" in piece]
    if isinstance(said, Failure):
        assert markers
        return
    assert "think>" not in said
    # An independent count: one level for each open block, and one from the start where the first marker closes.
    depth = int(markers[:1] == ["</think>"])
    kept = ""
    for piece in pieces:
        depth += {"<think>": 1, "</think>": -1}.get(piece, 0)
        kept += piece if depth == 0 and "think" not in piece else ""
    assert said == kept


def test_blocks_are_looked_for_by_declared_markers_only() -> None:
    text = "[r]Result: A[/r]\nResult: B"
    assert spoken(text, Markers("[r]", "[/r]")) == "\nResult: B"
    assert spoken(text, THINK) == text
    assert spoken("<think>Result: A", None) == "<think>Result: A"


@pytest.mark.parametrize(
    ("reply", "kind", "reason"),
    [
        (ChatReply("All of it.", "length"), "parse", "cut off (max_tokens=9); the text ends with 'All of it.'"),
        (ChatReply("All of it.", "content_filter"), "refused", "withheld"),
        (ChatReply("All of it.", ""), "unsupported", "finish_reason: none"),
        (ChatReply("All of it.", "tool_calls"), "unsupported", "finish_reason: tool_calls"),
        (ChatReply("<think>All of it.", "stop"), "parse", "does not end"),
    ],
)
def test_what_is_not_whole_says_nothing(reply: ChatReply, kind: str, reason: str) -> None:
    found = whole(reply, THINK, 9)
    assert isinstance(found, Failure)
    assert found.kind == kind
    assert reason in found.detail


@pytest.mark.parametrize("finish", ["stop", "eos", "end_turn"])
def test_what_is_whole_is_said_without_its_reasoning(finish: str) -> None:
    assert whole(ChatReply("<think>Hm.</think>All of it.", finish), THINK) == "All of it."
    assert whole(ChatReply("<think>Hm.</think>All of it.", finish)) == "<think>Hm.</think>All of it."
