"""A clock that only pretends to wait."""

import asyncio

from pluralrm.http import Clock


class FakeClock(Clock):
    """Its time passes only in `sleep`, which takes none; `waits` holds every sleep asked for."""

    def __init__(self) -> None:
        self.time = 0.0
        self.waits: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)
