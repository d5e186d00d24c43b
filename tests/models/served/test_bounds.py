"""Raw numbers and an activation's, one model's and another's: hand-worked cases, and what must hold for any head."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.http import UnsoundError
from pluralrm.models.served.dialects import number_of, read_tokens
from pluralrm.models.served.probes import long_texts, moved, not_finite, unmoved, within_unit
from pluralrm.models.served.server import read_cards
from pluralrm.models.served.speech import PLAIN, Speech, chat_template
from pluralrm.templates import load_template

logits = st.lists(st.floats(-30, 30), min_size=6, max_size=6)


def _sigmoid(number: float) -> float:
    return 1 / (1 + math.exp(-number))


@given(raw=logits)
def test_a_sigmoid_is_never_taken_for_raw_numbers(raw: list[float]) -> None:
    activated = [_sigmoid(number) for number in raw]
    assert within_unit(activated)
    assert unmoved(activated, activated)


@given(raw=logits)
def test_raw_numbers_are_never_taken_for_a_sigmoid_that_was_not_asked_for(raw: list[float]) -> None:
    assert not unmoved(raw, [_sigmoid(number) for number in raw])


def test_saturated_scores_are_within_the_unit() -> None:
    assert within_unit([1.0, 1.0, 0.0])
    assert not within_unit([1.0, 1.0000001])
    assert not within_unit([-0.01, 0.5])


def test_noise_is_no_other_model() -> None:
    kept = [-2.0, 0.0, 2.0]
    assert moved(kept, [-2.0, 0.1, 1.9]) is None
    assert moved(kept, [-2.0, 1.5, 2.0]) == 1.5
    assert moved([3.0, 3.0], [3.0, 3.0]) is None
    assert moved([3.0, 3.0], [3.0, 3.1]) == pytest.approx(0.1)


@given(raw=logits.filter(lambda found: max(found) - min(found) > 1), noise=st.floats(-0.1, 0.1))
def test_a_shift_by_a_tenth_of_the_spread_passes(raw: list[float], noise: float) -> None:
    spread = max(raw) - min(raw)
    assert moved(raw, [number + noise * spread for number in raw]) is None


def test_what_is_not_finite_is_seen() -> None:
    assert not_finite([1.0, math.nan])
    assert not_finite([math.inf])
    assert not not_finite([1.0, -2.0])


# ---------------------------------------------------------------- replies


@pytest.mark.parametrize("value", [True, "1", [1], {}])
def test_only_numbers_are_numbers(value: object) -> None:
    with pytest.raises(UnsoundError):
        number_of(value, "it")


@pytest.mark.parametrize("value", [{}, {"data": {}}, {"data": [{}]}, {"data": [{"id": 3}]}, {"data": ["m"]}, [], "m"])
def test_a_list_of_models_in_another_form_is_none(value: object) -> None:
    with pytest.raises(UnsoundError):
        read_cards(value)


@pytest.mark.parametrize("value", [{}, {"tokens": "1"}, {"tokens": [1, "2"]}, {"tokens": [-1]}, {"tokens": [True]}])
def test_tokens_in_another_form_are_none(value: object) -> None:
    with pytest.raises(UnsoundError):
        read_tokens(value)


def test_strings_of_another_number_than_the_tokens_are_not_believed() -> None:
    assert read_tokens({"tokens": [1, 2], "token_strs": ["<s>"]}).strings == ()
    assert read_tokens({"tokens": [1, 2], "token_strs": ["<s>", "a"]}).strings == ("<s>", "a")


# ---------------------------------------------------------------- long texts


@pytest.mark.parametrize("most", [600, 5_000, 16_000])
def test_long_texts_are_as_long_as_is_ever_sent_and_differ_at_one_end(most: int) -> None:
    texts = long_texts(Speech(load_template(), chat_template("remote", PLAIN)), most)
    [whole] = [one.text or "" for one in texts["whole"]]
    assert most - 20 <= len(whole) <= most
    for one in texts["beginning"]:
        assert (one.text or "")[-most // 2 :] == whole[-most // 2 :]
        assert (one.text or "")[:20] != whole[:20]
    for one in texts["end"]:
        assert (one.text or "")[: most // 2] == whole[: most // 2]
        assert (one.text or "")[-20:] != whole[-20:]
