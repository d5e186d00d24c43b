"""What is asked of a server and what comes back, with everything that shapes a reply in one structure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

SCHEMA = 1
"""Raised when the meaning of a kept request changes, so that old replies are no longer found."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """One request: a path below the base URL and a JSON body; without a body it is a GET.

    `marks` shape the reply, or what is made of it, without being sent: revision, template hash, number of the draw.
    A `fresh` call is asked anew in every run; only a cassette keeps its reply. A `public` one holds nothing that a user
    wrote: all others stay on this machine, unless the service was told that they may leave it.
    """

    path: str
    body: Mapping[str, object] | None = None
    marks: Mapping[str, str] = field(default_factory=dict)
    fresh: bool = False
    public: bool = False

    def shape(self, base: str) -> dict[str, object]:
        """Return all that shapes the reply, for the key under which it is kept; no key or header is part of it."""
        return {"schema": SCHEMA, "url": base + self.path, "body": self.body, "marks": dict(self.marks)}


class Usage(NamedTuple):
    """Tokens as the server counts them."""

    prompt: int
    completion: int


class Reply(NamedTuple, Generic[T]):
    """What a reader made of a reply, the tokens it took, and whether it was kept from an earlier call."""

    content: T
    usage: Usage | None
    cached: bool


class UnsoundError(Exception):
    """A reply that is JSON but not what the protocol promises; another attempt may mend it."""


def read_content(read: Callable[[object], T], content: object) -> T:
    """Return what a reader makes of a reply; one that it stumbles over is unsound, and costs no other call anything."""
    try:
        return read(content)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as exc:
        raise UnsoundError(f"the reply cannot be read ({type(exc).__name__}: {exc})"[:300]) from exc
