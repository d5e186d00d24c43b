"""How often one annotator may ask, and how often one address may be wrong: buckets that fill again with time."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

_KEPT = 10_000
"""Names remembered at most: who makes up addresses fills no memory. The one used longest ago is forgotten first."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server takes: requests of one annotator and refused tokens of one address per minute, bytes of a body.

    A connection has so many `seconds` for the whole of a request, and so many `connections` may be open.
    """

    requests: int = 240
    refused: int = 30
    body: int = 65_536
    connections: int = 800
    seconds: float = 30.0


class Bucket:
    """A number of tries per minute for each name; who has used them up waits for the next."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock, self._lock = float(per_minute), clock, Lock()
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> float:
        """Use up one try and return 0, or return the seconds until there is one."""
        with self._lock:
            left = self._now(name)
            if left < 1.0:
                return (1.0 - left) * 60.0 / self._most
            self._left[name] = (left - 1.0, self._clock())
            self._left.move_to_end(name)
            if len(self._left) > _KEPT:
                self._left.popitem(last=False)
            return 0.0

    def _now(self, name: str) -> float:
        left, since = self._left.get(name, (self._most, self._clock()))
        return min(self._most, left + (self._clock() - since) * self._most / 60.0)
