"""A call, with everything that shapes its reply in one structure; the settings that do not shape it; reply and cost.

A price file is TOML or JSON, prices per million tokens in whatever currency `--max-cost` is meant:

    [my-model]
    input = 0.15
    output = 0.60
"""

import json
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from pluralrm.core import Failure
from pluralrm.errors import ServiceError, did_you_mean

if TYPE_CHECKING:
    from pluralrm.http.counting import DryRun


class Usage(NamedTuple):
    """Tokens as the server counts them."""

    prompt: int
    completion: int


class Price(NamedTuple):
    """What a million tokens cost."""

    input: float
    output: float

    def of(self, usage: Usage) -> float:
        """Return what a call cost."""
        return (usage.prompt * self.input + usage.completion * self.output) / 1e6


class Tally(NamedTuple):
    """What was asked so far. `cost` is None where the model's price is not known.

    `unmetered` replies came without a count of tokens, so that the cost leaves them out.
    """

    answered: int = 0
    kept: int = 0
    attempts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    unmetered: int = 0
    cost: float | None = None

    def plus(self, other: "Tally") -> "Tally":
        """Return both together; the cost is known where that of each is that sent anything."""
        known = [tally.cost for tally in (self, other) if tally.cost is not None]
        unknown = any(tally.cost is None and tally.attempts for tally in (self, other))
        cost = None if unknown or not known else math.fsum(known)
        return Tally._make([*(mine + theirs for mine, theirs in zip(self[:-1], other[:-1], strict=True)), cost])

    def since(self, before: "Tally") -> "Tally":
        """Return what was asked after an earlier tally of the same account."""
        cost = None if self.cost is None else self.cost - (before.cost or 0.0)
        return Tally._make([*(now - then for now, then in zip(self[:-1], before[:-1], strict=True)), cost])


@runtime_checkable
class Metered(Protocol):
    """Anything that asks a server and keeps account of it: a model, a condition, a chat model."""

    @property
    def tally(self) -> Tally:
        """What was asked so far, and what it cost."""
        ...


class Purse:
    """What is spent by all accounts that share one highest cost: a judge, and the model that writes its personas."""

    def __init__(self) -> None:
        self._ledgers: list[Ledger] = []

    def join(self, ledger: "Ledger") -> None:
        """Let an account spend from this purse."""
        self._ledgers.append(ledger)

    @property
    def spent(self) -> float:
        """What all of them have spent. Each account is kept by one thread, so none has to wait for another."""
        return math.fsum(ledger.tally.cost or 0.0 for ledger in self._ledgers)


class Ledger:
    """The account of one model's calls. Kept replies cost nothing."""

    def __init__(
        self, model: str, prices: Mapping[str, Price], max_cost: float | None, purse: Purse | None = None
    ) -> None:
        self._price = prices.get(model)
        self._max_cost = max_cost
        self.tally = Tally(cost=None if self._price is None else 0.0)
        self._purse = purse or Purse()
        self._purse.join(self)
        if max_cost is not None and not max_cost >= 0:
            raise ServiceError(f"the highest cost is {max_cost}; wanted a number of at least 0")
        if max_cost is not None and self._price is None:
            raise ServiceError(
                f"a highest cost is set but the price of {model!r} is not known.{did_you_mean(model, prices)} "
                "Name it in the price file: input and output, per million tokens"
            )

    def refusal(self) -> Failure | None:
        """Return the failure of a call that may no longer be sent, because the highest cost is reached."""
        if self._max_cost is None or (spent := self._purse.spent) < self._max_cost:
            return None
        return Failure("budget", f"{spent:.4f} is spent, of {self._max_cost:g} allowed")

    def attempt(self) -> None:
        """Count a request that is sent."""
        self._add(attempts=1)

    def charge(self, usage: Usage | None) -> None:
        """Count the tokens of a reply, also of one that cannot be used: it was paid for."""
        if usage is None:
            self._add(unmetered=1)
            return
        self._add(prompt_tokens=usage.prompt, completion_tokens=usage.completion)
        if self._price is not None and self.tally.cost is not None:
            self.tally = self.tally._replace(cost=self.tally.cost + self._price.of(usage))

    def answer(self, *, cached: bool, metered: bool = True) -> None:
        """Count a reply that can be used; raise where a highest cost is set and the reply's cost is unknown."""
        self._add(answered=1, kept=int(cached))
        if self._max_cost is not None and not metered and not cached:
            raise ServiceError(
                "the server does not say how many tokens a reply took (no 'usage'), so no highest cost can be held. "
                "Leave it out for this server"
            )

    def _add(self, **more: int) -> None:
        self.tally = self.tally._replace(**{name: getattr(self.tally, name) + count for name, count in more.items()})


def load_prices(path: Path) -> dict[str, Price]:
    """Return the prices in a TOML or JSON file, by model; a ServiceError names what is malformed."""
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError, RecursionError) as exc:
        raise ServiceError(
            f"the price file {str(path)!r} cannot be read: {exc}. Wanted TOML or JSON: per model, input and output"
        ) from exc
    if not isinstance(table, dict):
        raise ServiceError(f"{path}: found {type(table).__name__}, wanted models with their prices")
    return {model: _price(row, f"{path}: {model!r}") for model, row in table.items()}


def _price(row: object, place: str) -> Price:
    if not isinstance(row, dict) or set(row) != {"input", "output"}:
        raise ServiceError(f"{place}: found {row!r}, wanted 'input' and 'output', per million tokens")
    for name, value in row.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise ServiceError(f"{place}: {name} is {value!r}, wanted a number of at least 0")
    return Price(float(row["input"]), float(row["output"]))


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
