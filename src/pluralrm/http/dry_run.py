"""A dry run: the real work with settings that count every request and send none.

    settings = Settings(dry_run=DryRun())
    settings.dry_run.requests["my-model"].calls

A request that brings a `stand_in` gets it as its reply, so that the work goes on as with a real one; any other gets a
final failure, which is not asked a second time.
"""

import math
from collections.abc import Callable, Mapping
from threading import Lock
from typing import NamedTuple, TypeVar

from pluralrm.core import Failure
from pluralrm.http.calls import Call, Price, Reply, read_content, usage_of

T = TypeVar("T")

LETTERS_PER_TOKEN = 4
"""Of English text, roughly: prompts are estimated before a server counts their tokens."""


class Cost(NamedTuple):
    """What the prompts cost, and what they cost with replies as long as they may be."""

    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.least:.2g}" if self.least == self.most else f"{self.least:.2g}-{self.most:.2g}"


FREE = Cost(0.0, 0.0)


class Requests(NamedTuple):
    """Calls to one model, the letters of their prompts, and the most tokens that their replies may have.

    `letters` is None where a prompt is not known before the server is asked. A reply without a limit counts 0 tokens.
    """

    calls: int = 0
    letters: int | None = 0
    reply_tokens: int = 0

    @property
    def prompt_tokens(self) -> int | None:
        """The tokens of the prompts, roughly; None where a prompt is not known."""
        return None if self.letters is None else self.letters // LETTERS_PER_TOKEN

    def __str__(self) -> str:
        tokens = "prompts not known" if self.prompt_tokens is None else f"about {self.prompt_tokens:,} prompt tokens"
        return f"{self.calls:,} calls, {tokens}, at most {self.reply_tokens:,} reply tokens"

    def to_json(self) -> dict[str, int | None]:
        """Return calls and tokens."""
        return {"calls": self.calls, "prompt_tokens": self.prompt_tokens, "reply_tokens": self.reply_tokens}

    def plus(self, other: "Requests") -> "Requests":
        """Return both together."""
        letters = None if self.letters is None or other.letters is None else self.letters + other.letters
        return Requests(self.calls + other.calls, letters, self.reply_tokens + other.reply_tokens)

    def cost(self, price: Price | None) -> Cost | None:
        """Return what they cost; None where the price or a prompt is not known."""
        if not self.calls:
            return FREE
        if price is None or self.prompt_tokens is None:
            return None
        least = self.prompt_tokens * price.input / 1e6
        return Cost(least, least + self.reply_tokens * price.output / 1e6)


class DryRun:
    """What a dry run would have asked, by model. Safe to use from several threads."""

    def __init__(self) -> None:
        self._requests: dict[str, Requests] = {}
        self._lock = Lock()

    @property
    def requests(self) -> Mapping[str, Requests]:
        """What was counted so far."""
        with self._lock:
            return dict(self._requests)

    def count(self, model: str, requests: Requests) -> None:
        """Add requests to a model."""
        with self._lock:
            self._requests[model] = self._requests.get(model, Requests()).plus(requests)

    def reply(self, model: str, call: Call, read: Callable[[object], T]) -> Reply[T] | Failure:
        """Count a call, and return its stand-in as `read` takes it, or a final failure."""
        body = call.body or {}
        most = body.get("max_tokens")
        self.count(model, Requests(1, _letters(body), most if isinstance(most, int) else 0))
        if call.stand_in is None:
            return Failure("refused", "a dry run sends nothing")
        return Reply(read_content(read, call.stand_in), usage_of(call.stand_in), cached=False)

    def since(self, before: Mapping[str, Requests]) -> dict[str, Requests]:
        """Return what was counted after an earlier state of `requests`."""
        counts = {}
        for model, now in self.requests.items():
            then = before.get(model, Requests())
            letters = None if now.letters is None else now.letters - (then.letters or 0)
            if now.calls > then.calls:
                counts[model] = Requests(now.calls - then.calls, letters, now.reply_tokens - then.reply_tokens)
        return counts


def cost_of(requests: Mapping[str, Requests], prices: Mapping[str, Price]) -> Cost | None:
    """Return what requests to several models cost; None where that of one is not known."""
    costs = [count.cost(prices.get(model)) for model, count in requests.items()]
    priced = [cost for cost in costs if cost is not None]
    if len(priced) < len(costs):
        return None
    return Cost(math.fsum(cost.least for cost in priced), math.fsum(cost.most for cost in priced))


def _letters(value: object) -> int:
    """Return the letters of a body's texts: of its messages, where it has some."""
    if isinstance(value, Mapping):
        texts = value.get("messages", [inner for name, inner in value.items() if name != "model"])
        return _text_letters(texts)
    return 0


def _text_letters(value: object) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(_text_letters(inner) for name, inner in value.items() if name != "role")
    return sum(map(_text_letters, value)) if isinstance(value, list | tuple) else 0
