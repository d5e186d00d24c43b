"""Transport to a served model: retries, deadlines, concurrency, cost, kept replies, and who gets the key.

    with Service(parse_address("http://127.0.0.1:8000/v1"), Settings(concurrency=64), model="m") as service:
        for reply in service.replies(calls, read):
            ...  # Reply or Failure, in the order of the calls

The interface is synchronous; an event loop in a thread of its own keeps calls in flight meanwhile. How the files fit
together stands in docs/design/http.md. What needs the event loop loads on first use: a run that asks no server has
none.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from pluralrm.http.addresses import ENGINE, Address, Secret, parse_address, read_key
from pluralrm.http.calls import Call, Metered, Price, Reply, Settings, Tally, UnsoundError, Usage, load_prices
from pluralrm.http.dry_run import FREE, LETTERS_PER_TOKEN, Cost, DryRun, Requests, cost_of

if TYPE_CHECKING:
    from pluralrm.http.attempts import Clock
    from pluralrm.http.service import Service

__all__ = [
    "ENGINE",
    "FREE",
    "LETTERS_PER_TOKEN",
    "Address",
    "Call",
    "Clock",
    "Cost",
    "DryRun",
    "Metered",
    "Price",
    "Reply",
    "Requests",
    "Secret",
    "Service",
    "Settings",
    "Tally",
    "UnsoundError",
    "Usage",
    "cost_of",
    "load_prices",
    "parse_address",
    "read_key",
]

_LATER = {"Clock": "attempts", "Service": "service"}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
