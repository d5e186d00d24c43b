"""A call, with everything that shapes its reply in one structure; the settings that do not shape it; the reply."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from pluralrm.errors import ServiceError
from pluralrm.http.budget import Price, Purse, Usage

if TYPE_CHECKING:
    from pluralrm.http.counting import DryRun

SCHEMA = 1
"""Raised when the meaning of a kept request changes, so that old replies are no longer found."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """One request: a path below the base URL and a JSON body; without a body it is a GET.

    `marks` shape the reply, or what is made of it, without being sent: revision, template hash, number of the draw.
    A `fresh` call is asked anew in every run; only a cassette keeps its reply. A `public` one holds nothing that a user
    wrote: all others stay on this machine, unless the service was told that they may leave it. `stand_in` is a
    well-formed reply with which a dry run goes on.
    """

    path: str
    body: Mapping[str, object] | None = None
    marks: Mapping[str, str] = field(default_factory=dict)
    fresh: bool = False
    public: bool = False
    stand_in: object = None

    def shape(self, base: str) -> dict[str, object]:
        """Return all that shapes the reply, for the key under which it is kept; no key or header is part of it."""
        return {"schema": SCHEMA, "url": base + self.path, "body": self.body, "marks": dict(self.marks)}


class Reply(NamedTuple, Generic[T]):
    """What a reader made of a reply, the tokens it took, and whether it was kept from an earlier call."""

    content: T
    usage: Usage | None
    cached: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything about the use of a server that does not shape a reply.

    An attempt is one request; a call is a request with its repetitions and the waits between them; the run begins
    with the first call that is sent. `cache` is a folder, `record` and `replay` are cassettes. `max_cost` holds for
    all services that are given the same object together. `send_posts` lets calls that may hold what users wrote go to a
    server that is not on this machine. With `dry_run` every call is counted there and none is sent.
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
    dry_run: "DryRun | None" = field(default=None, repr=False, compare=False)
    purse: Purse = field(default_factory=Purse, init=False, repr=False, compare=False)

    def allowing(self, *, posts: bool) -> "Settings":
        """Return the same settings and purse, under which what users wrote may leave this machine, or not."""
        found = replace(self, send_posts=posts)
        object.__setattr__(found, "purse", self.purse)  # a copy of its own would have a cap of its own
        return found

    def __post_init__(self) -> None:
        for name in ("concurrency", "attempts"):
            if getattr(self, name) < 1:
                raise ServiceError(f"{name} is {getattr(self, name)}; wanted at least 1")
        for name in ("attempt_seconds", "call_seconds", "run_seconds"):
            seconds = getattr(self, name)
            if seconds is not None and not seconds > 0:
                raise ServiceError(f"{name} is {seconds}; wanted more than 0")


class UnsoundError(Exception):
    """A reply that is JSON but not what the protocol promises; another attempt may mend it."""


def read_content(read: Callable[[object], T], content: object) -> T:
    """Return what a reader makes of a reply; one that it stumbles over is unsound, and costs no other call anything."""
    try:
        return read(content)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as exc:
        raise UnsoundError(f"the reply cannot be read ({type(exc).__name__}: {exc})"[:300]) from exc
