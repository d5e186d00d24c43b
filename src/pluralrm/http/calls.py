"""A call, with everything that shapes its reply in one structure; the settings that do not shape it; reply and cost.

What an HTTP answer means: content, another attempt, a text that is too long, or the end of the run.

200            content, if it is JSON and says so
408 429 5xx    another attempt (`AgainError`)
400 413 422    Failure("too_long") where the server says that the text is; else like the rest
anything else  ServiceError: every further call would fare the same

A price file is TOML or JSON, prices per million tokens in whatever currency `--max-cost` is meant:

    [my-model]
    input = 0.15
    output = 0.60
"""

import json
import math
import re
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeGuard, TypeVar, runtime_checkable
from urllib.parse import urlsplit

from pluralrm.core import Failure
from pluralrm.errors import ServiceError, did_you_mean

if TYPE_CHECKING:
    from pluralrm.http.dry_run import DryRun


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
        costs = [tally.cost for tally in (self, other) if tally.cost is not None]
        unknown = any(tally.cost is None and tally.attempts for tally in (self, other))
        cost = None if unknown or not costs else math.fsum(costs)
        return Tally._make([*(left + right for left, right in zip(self[:-1], other[:-1], strict=True)), cost])

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


def _price(row: object, where: str) -> Price:
    if not isinstance(row, dict) or set(row) != {"input", "output"}:
        raise ServiceError(f"{where}: found {row!r}, wanted 'input' and 'output', per million tokens")
    for name, value in row.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise ServiceError(f"{where}: {name} is {value!r}, wanted a number of at least 0")
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
    server that is not on this machine. With `dry_run` every call is counted there and none is sent. `on_wait` hears
    once per service, with its URL, that a call is sent again and how long that may go on.
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
    on_wait: Callable[[str, str], None] | None = field(default=None, repr=False, compare=False)
    purse: Purse = field(default_factory=Purse, init=False, repr=False, compare=False)

    def allowing(self, *, posts: bool) -> "Settings":
        """Return the same settings and purse, under which what users wrote may leave this machine, or not."""
        copy = replace(self, send_posts=posts)
        object.__setattr__(copy, "purse", self.purse)  # a copy of its own would have a cap of its own
        return copy

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


_SHOWN = 300
"""Characters of a server's message that are shown."""
_MOST_TOKENS = 2**40
"""A count of tokens above this is no count."""

# As worded by OpenAI, vLLM, SGLang, llama.cpp and text-generation-inference, in this order.
_TOO_LONG = re.compile(
    r"context_length_exceeded|maximum context length"
    r"|longer than the maximum model length|exceeds? (the )?(model'?s )?maximum (context|model) (length|size)"
    r"|longer than the model'?s context length|context_length"
    r"|exceed_context_size|exceeds? the available context size"
    r"|inputs?`? .{0,40}must (be|have) (<=|less than)|prompt is too long",
    re.IGNORECASE,
)


class AgainError(Exception):
    """An attempt that came to nothing and that another one may mend; `wait` is what the server asked for, in s."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        self.wait = wait
        super().__init__(reason)


class Response(NamedTuple):
    """What matters of an HTTP answer: `value` is its JSON, `problem` why there is none. No part holds a key."""

    status: int
    media: str
    text: str
    """The answer as sent, where it is not sound JSON with HTTP 200: for messages."""
    value: object
    problem: str
    retry_after: str
    location: str


def read_response(
    status: int, media: str, text: str, *, retry_after: str = "", location: str = "", hide: Callable[[str], str] = str
) -> Response:
    """Return the answer with `hide` applied to every string in it, after decoding: JSON escapes may spell a key."""
    value, problem = None, ""
    try:
        value = _hidden(json.loads(text), hide)
    except (ValueError, RecursionError) as exc:
        problem = str(exc)[:_SHOWN]
    sound = status == 200 and not problem and _is_json(media)
    return Response(status, hide(media), "" if sound else hide(text), value, problem, retry_after, hide(location))


def _hidden(value: object, hide: Callable[[str], str]) -> object:
    if hide is str:
        return value
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, list):
        return [_hidden(entry, hide) for entry in value]
    if isinstance(value, dict):
        return {hide(name): _hidden(entry, hide) for name, entry in value.items()}
    return value


def _is_json(media: str) -> bool:
    kind = media.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def worth_retrying(status: int) -> bool:
    """Return whether another attempt may mend this status: 408, 429 and every 5xx."""
    return status in {408, 429} or status >= 500


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


def content(answer: Response, url: str, hint: str) -> object | Failure:
    """Return the JSON of a sound answer, or Failure("too_long"); raise AgainError or ServiceError for the rest.

    `url` names the request in messages; `hint` says how the key was found.
    """
    if worth_retrying(answer.status):
        raise AgainError(f"HTTP {answer.status}: {_message(answer)}", asked_wait(answer.retry_after, time.time()))
    if answer.status == 200:
        return _parsed(answer)
    message = _message(answer)
    if answer.status == 413 or (answer.status in {400, 422} and _TOO_LONG.search(answer.text)):
        return Failure("too_long", f"HTTP {answer.status}: {message}")
    raise ServiceError(f"{url}: HTTP {answer.status}: {message}. {_next(answer, hint)}", answer.status)


def _parsed(answer: Response) -> object:
    if not _is_json(answer.media):
        kind = answer.media.partition(";")[0].strip().lower()
        raise AgainError(f"the reply is {kind or 'of no declared type'}, not JSON: {_message(answer)}")
    if answer.problem:
        raise AgainError(f"the reply is no complete JSON ({answer.problem})"[:_SHOWN])
    if answer.value is None:
        raise AgainError("the reply is null")
    return answer.value


def _message(answer: Response) -> str:
    """Return a server's message in one harmless line: the error it names, or the beginning of what it sent."""
    value = answer.value
    for name in ("error", "message", "detail"):
        while isinstance(value, dict) and name in value:
            value = value[name]
    return one_line(value if isinstance(value, str) else answer.text)


def one_line(message: str) -> str:
    """Return the beginning of a message in one line without anything that does not print."""
    printable = "".join(character if character.isprintable() else " " for character in message[: 4 * _SHOWN])
    return " ".join(printable.split())[:_SHOWN].rstrip(".") or "no message"


def _next(answer: Response, hint: str) -> str:
    if answer.status in {401, 403}:
        return hint
    if answer.status == 404:
        return "Is the model served under that name, and does the URL end where the API begins, as in .../v1?"
    if 300 <= answer.status < 400:
        target = urlsplit(answer.location).hostname or "elsewhere"
        return f"It redirects to {one_line(target)}; redirects are not followed, so give the URL that answers"
    return "The request itself is refused: look at the name of the model and at the parameters"


def usage_of(value: object) -> Usage | None:
    """Return the tokens that a reply says it took, or None; completion tokens are 0 where nothing is generated."""
    usage = value.get("usage") if isinstance(value, dict) else None
    if not isinstance(usage, dict):
        return None
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens") or 0
    if not (_is_count(prompt) and _is_count(completion)):
        return None
    return Usage(prompt, completion)


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
