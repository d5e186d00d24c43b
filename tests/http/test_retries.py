"""When another attempt is made, and how long it waits: arithmetic, without a server."""

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.http.attempts import Cooldown, TooLateError, backoff
from pluralrm.http.calls import asked_wait, worth_retrying
from tests.http.clock import FakeClock

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


def test_only_outages_are_tried_again() -> None:
    assert [code for code in range(200, 600) if worth_retrying(code)] == [408, 429, *range(500, 600)]


@given(st.integers(1, 60), st.floats(0, 1, exclude_max=True))
def test_waits_grow_are_spread_and_have_an_end(attempt: int, draw: float) -> None:
    longest = min(30.0, 0.5 * 2 ** (attempt - 1))
    assert longest / 2 <= backoff(attempt, draw) <= longest


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0.25", 0.25),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90.0),
        (format_datetime(NOW - timedelta(seconds=90), usegmt=True), 0.0),
        ("Sat, 21 Nov 2026 12:01:30 -0000", 90.0),
        ("", 0.0),
        ("soon", 0.0),
        ("-3", 0.0),
        ("nan", 0.0),
        ("inf", 0.0),
        ("Mon, 99 Foo 2026 12:00:00 GMT", 0.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str, seconds: float) -> None:
    assert asked_wait(header, NOW.timestamp()) == seconds


@given(st.text(max_size=40))
def test_no_retry_after_header_breaks_or_hangs_a_run(header: str) -> None:
    wait = asked_wait(header, NOW.timestamp())
    assert 0 <= wait < float("inf")


def test_a_wait_asked_of_one_call_holds_for_all() -> None:
    clock = FakeClock()
    pace = Cooldown(clock)
    pace.hold(10)
    pace.hold(3)
    asyncio.run(pace.turn(deadline=600))
    assert 10 <= clock.time <= 11
    asyncio.run(pace.turn(deadline=600))
    assert len(clock.waits) == 1


def test_a_wait_longer_than_the_call_is_not_begun() -> None:
    clock = FakeClock()
    pace = Cooldown(clock)
    pace.hold(3600)
    with pytest.raises(TooLateError, match="3600 s"):
        asyncio.run(pace.turn(deadline=600))
    assert clock.waits == []
