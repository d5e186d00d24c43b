"""What nobody sees is found, whatever stands around it; what people write in is not."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.construct.filters import faulty, unseen
from pluralrm.text import visible

TURNING = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
"""Unicode's classes of characters that turn the direction of writing."""


@pytest.fixture(scope="module")
def every() -> list[str]:
    return [chr(point) for point in range(sys.maxunicode + 1)]


def test_controls_halves_of_characters_and_turns_of_direction_are_unseen(every: list[str]) -> None:
    for one in every:
        kind = unicodedata.category(one)
        if one not in "\t\n" and (kind in {"Cc", "Cs", "Zl", "Zp"} or unicodedata.bidirectional(one) in TURNING):
            assert unseen(one), f"U+{ord(one):04X}"


def test_what_a_page_of_ours_spells_out_is_unseen(every: list[str]) -> None:
    assert [one for one in every if visible(one) != one and not unseen(one)] == []


def test_letters_marks_numbers_and_signs_are_seen(every: list[str]) -> None:
    seen = [one for one in every if unicodedata.category(one)[0] in "LMNPS" or unicodedata.category(one) == "Zs"]
    assert [f"U+{ord(one):04X}" for one in seen if unseen(one)] == []


@pytest.mark.parametrize(
    "text",
    [
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "क्\u200dष",
        "\U0001f469\u200d\U0001f373",
        "schön ☕\ufe0f",
        "שלום",
        "a\tb\n\nc",
    ],
)
def test_scripts_and_pictures_that_need_a_joiner_are_plain(text: str) -> None:
    assert faulty(text, 100) == ""


@given(
    st.text(alphabet="abc \n"),
    st.sampled_from("\x00\x07\x1b\r\x7f\x9b\u202e\u2066\u200b\ufeff\U000e0041"),
    st.text("xyz"),
)
def test_the_place_of_the_first_is_told(before: str, hidden: str, after: str) -> None:
    found = unseen(before + hidden + after + hidden)
    assert found.startswith(f"U+{ord(hidden):04X} (")
    assert found.endswith(f" at character {len(before) + 1}")
