"""How a service is used: how much at once, how long, at what cost, and where replies are kept."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pluralrm.errors import ServiceError
from pluralrm.http.budget import Price, Purse


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything about the use of a server that does not shape a reply.

    An attempt is one request; a call is a request with its repetitions and the waits between them; the run begins
    with the first call that is sent. `cache` is a folder, `record` and `replay` are cassettes. `max_cost` holds for
    all services that are given the same object together. `send_posts` lets calls that may hold what users wrote go to a
    server that is not on this machine.
    """

    concurrency: int = 32
    attempts: int = 6
    attempt_seconds: float = 120.0
    call_seconds: float = 600.0
    run_seconds: float | None = None
    max_cost: float | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    cache: Path | None = None
    record: Path | None = None
    replay: Path | None = None
    send_posts: bool = False
    purse: Purse = field(default_factory=Purse, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("concurrency", "attempts"):
            if getattr(self, name) < 1:
                raise ServiceError(f"{name} is {getattr(self, name)}; wanted at least 1")
        for name in ("attempt_seconds", "call_seconds", "run_seconds"):
            seconds = getattr(self, name)
            if seconds is not None and not seconds > 0:
                raise ServiceError(f"{name} is {seconds}; wanted more than 0")
