"""Plain values pass between the code that is judged and the tests as they are; nothing else passes."""

import enum
import json
import math
from collections import Counter, OrderedDict, defaultdict
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.validate.inside import DEEPEST, LONGEST_ITERATOR, UnfitError, decode, dump, encode, load

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | st.text()
    | st.binary()
    | st.fractions()
    | st.decimals(allow_nan=False)
)
KEYS = st.recursive(SCALARS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=4)
VALUES = st.recursive(
    KEYS | st.sets(KEYS, max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


def passed(value: object) -> object:
    return decode(load(dump(encode(value))))


@given(VALUES)
def test_a_plain_value_passes_as_it_is(value):
    assert passed(value) == value
    assert type(passed(value)) is type(value)


@pytest.mark.parametrize(
    "value", [math.inf, -math.inf, 0.1 + 0.2, -0.0, 2**53, -(2**53), "\ud800", "\n", range(3, 9, 2)]
)
def test_what_json_would_spoil_passes_too(value):
    assert repr(passed(value)) == repr(value)


def test_a_number_of_any_length_passes():
    assert passed(7**20_000) == 7**20_000


def test_what_is_not_a_number_stays_so():
    found = passed(math.nan)
    assert isinstance(found, float)
    assert math.isnan(found)


class Point(NamedTuple):
    x: int
    y: int


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Counter("aab"), {"a": 2, "b": 1}),
        (OrderedDict(a=1), {"a": 1}),
        (defaultdict(list, a=[1]), {"a": [1]}),
        (Point(1, 2), (1, 2)),
        (Colour.RED, 1),
        ({"a": 1}.keys(), ["a"]),
        ({"a": 1}.items(), [("a", 1)]),
    ],
)
def test_a_subclass_passes_as_what_it_is_built_on(value, plain):
    assert passed(value) == plain
    assert type(passed(value)) is type(plain)


def test_an_iterator_passes_as_one_and_is_not_equal_to_a_list():
    found = passed(iter([1, 2]))
    assert found != [1, 2]
    assert list(found) == [1, 2]  # type: ignore[call-overload]


def test_a_long_iterator_can_be_read_as_far_as_it_passed():
    found = passed(iter(range(LONGEST_ITERATOR + 1)))
    assert [next(found) for _ in range(LONGEST_ITERATOR)] == list(range(LONGEST_ITERATOR))  # type: ignore[call-overload]
    with pytest.raises(UnfitError, match="more than 1,000 items"):
        next(found)  # type: ignore[call-overload]


@pytest.mark.parametrize("value", [object(), len, type, lambda: 1, [object()], {1: object()}, Exception("no")])
def test_anything_else_does_not_pass(value):
    with pytest.raises(UnfitError, match="of type"):
        encode(value)


def test_a_value_too_deep_does_not_pass():
    deep: list[object] = []
    deep.append(deep)
    with pytest.raises(UnfitError, match="deep"):
        encode(deep)
    sent: object = ["list", []]
    for _ in range(DEEPEST + 5):
        sent = ["list", [sent]]
    with pytest.raises(UnfitError, match="deep"):
        decode(sent)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["int", "set"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_whatever_is_sent_is_a_plain_value_or_unfit(sent):
    try:
        found = decode(json.loads(json.dumps(sent)))
    except UnfitError:
        return
    scalars = (bool, int, float, complex, str, bytes, bytearray, Fraction, Decimal)
    plain = (*scalars, list, tuple, set, frozenset, dict, range)
    assert found is None or type(found) in plain or hasattr(found, "__next__")


@given(st.binary(max_size=30))
def test_a_line_that_is_no_json_is_unfit(line):
    try:
        found = load(line)
    except UnfitError:
        return
    assert repr(found) == repr(json.loads(line))  # as text, for nan is not equal to itself
