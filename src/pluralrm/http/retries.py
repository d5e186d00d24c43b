"""Whether to try again, and when: what a status means, what Retry-After asks, how long to wait without it."""

import asyncio
import math
import random
import time
from datetime import UTC
from email.utils import parsedate_to_datetime

_FIRST, _LONGEST = 0.5, 30.0
"""Seconds before the second attempt, doubled for each further one up to the longest."""


_SPREAD = 0.1
"""Part of an asked wait over which the waiting calls spread, so that they do not come back all at once."""
_spread = random.Random()  # of its own: callers of random.random() see no difference


class AgainError(Exception):
    """An attempt that came to nothing and that another one may mend; `wait` is what the server asked for, in s."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        self.wait = wait
        super().__init__(reason)


class TooLateError(Exception):
    """A wait that the server asks for and that the call's deadline leaves no time for."""


class Clock:
    """The time, and waiting for it. Tests give one that only pretends to wait."""

    def now(self) -> float:
        """Return seconds of a clock that never goes back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return when so many seconds are over."""
        await asyncio.sleep(seconds)


class Pace:
    """When the server may be asked again: one server's Retry-After holds for every call to it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._quiet_until = -math.inf

    def hold(self, seconds: float) -> None:
        """Send nothing for so many seconds; a shorter wait does not end a longer one."""
        self._quiet_until = max(self._quiet_until, self._clock.now() + seconds)

    async def turn(self, deadline: float) -> None:
        """Return when the server may be asked, or raise TooLateError where that is past the deadline."""
        while (wait := self._quiet_until - self._clock.now()) > 0:
            if self._quiet_until > deadline:
                raise TooLateError(f"the server asks to wait {wait:.0f} s, longer than the call may take")
            await self._clock.sleep(wait * (1 + _SPREAD * jitter()))


def worth_retrying(status: int) -> bool:
    """Return whether another attempt may mend this status: 408, 429 and every 5xx."""
    return status in {408, 429} or status >= 500


def backoff(attempt: int, draw: float) -> float:
    """Return the seconds to wait after the attempt of that number (from 1); `draw` in [0, 1) spreads the callers."""
    longest = min(_LONGEST, _FIRST * 2.0 ** (attempt - 1))
    return longest * (1 + draw) / 2


def asked_wait(header: str, wall: float) -> float:
    """Return the seconds that a Retry-After header asks for, as a number or a date; 0 where it says neither."""
    try:
        seconds = float(header)
    except ValueError:
        seconds = _until(header, wall)
    return seconds if math.isfinite(seconds) and seconds > 0 else 0.0


def _until(date: str, wall: float) -> float:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return 0.0
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - wall


def jitter() -> float:
    """Return a draw for `backoff`; it shapes only waiting, so it needs no seed."""
    return _spread.random()
