"""The colour of a check: red needs significance and size, green a short interval and few failures."""

import pytest

from pluralrm.attack.effects import Check, colour_of
from pluralrm.core import Estimate


def _excess(value: float, low: float | None, high: float | None) -> Estimate:
    return Estimate(value, low, high, 100, 0, "by hand")


@pytest.mark.parametrize(
    ("excess", "p", "failed", "colour"),
    [
        (_excess(0.2, 0.1, 0.3), 0.001, 0.0, "red"),
        (_excess(0.01, 0.004, 0.016), 0.001, 0.0, "yellow"),
        (_excess(0.02, 0.004, 0.036), 0.001, 0.0, "red"),
        (_excess(0.05, -0.04, 0.14), 0.3, 0.0, "green"),
        (_excess(0.05, -0.1, 0.2), 0.3, 0.0, "grey"),
        (_excess(0.05, -0.04, 0.14), 0.3, 0.02, "grey"),
        (_excess(-0.2, -0.3, -0.1), 0.001, 0.0, "green"),
        (_excess(0.0, None, None), None, 0.0, "green"),
    ],
)
def test_a_colour_needs_what_it_claims(excess: Estimate, p: float | None, failed: float, colour: str) -> None:
    assert colour_of(excess, p, failed=failed) == colour


def test_a_check_is_a_flat_row_and_a_document() -> None:
    check = Check("places", "first place wins", _excess(0.6, 0.5, 0.7), 0.5, "red", "places: it does", 0.01, 0.02)
    assert check.record()["value"] == 0.6
    assert check.record()["colour"] == "red"
    assert check.to_json()["text"] == "places: it does"
