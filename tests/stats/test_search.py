"""The smallest number that is enough, with few questions."""

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from pluralrm.power.detection import smallest


def power(number: float, effect: float) -> float:
    return float(norm.cdf(effect * number**0.5 - 1.96))


@given(st.floats(0.02, 1.0), st.floats(0.5, 0.95), st.integers(4, 20_000))
def test_it_finds_the_number_from_anywhere(effect: float, target: float, start: int) -> None:
    asked = []

    def share(number: int) -> float:
        asked.append(number)
        return power(number, effect)

    found = smallest(share, target, start=start, least=4, most=20_000)
    wanted = max(4, ceil(((norm.ppf(target) + 1.96) / effect) ** 2))
    if wanted > 20_000:
        assert found is None
    else:
        assert found is not None
        assert power(found, effect) >= target
        assert found == pytest.approx(wanted, rel=0.011, abs=1.01)
    assert len(asked) <= 25


def test_a_good_start_takes_few_questions() -> None:
    asked = []

    def share(number: int) -> float:
        asked.append(number)
        return power(number, 0.1)

    smallest(share, 0.8, start=750, most=20_000)
    assert len(asked) <= 4


def test_a_step_is_found_by_halving() -> None:
    assert smallest(lambda n: float(n >= 3_217), 0.8, start=100, most=20_000) in range(3_217, 3_250)


def test_never_enough_is_none_and_always_enough_the_least() -> None:
    assert smallest(lambda _: 0.0, 0.8, start=10, most=500) is None
    assert smallest(lambda _: 1.0, 0.8, start=10, least=4, most=500) == 4
