"""Transport to a served model: retries, deadlines, concurrency, cost, kept replies, and who gets the key.

    with Service(parse_address("http://127.0.0.1:8000/v1"), Settings(concurrency=64), model="m") as service:
        for reply in service.replies(calls, read):
            ...  # Reply or Failure, in the order of the calls

The interface is synchronous; an event loop in a thread of its own keeps calls in flight meanwhile. How the files fit
together stands in docs/design/http.md.
"""

from pluralrm.http.addresses import Address, Secret, parse_address, read_key
from pluralrm.http.budget import Price, Tally, load_prices
from pluralrm.http.calls import Call, Reply, UnsoundError, Usage
from pluralrm.http.retries import Clock
from pluralrm.http.service import Service
from pluralrm.http.settings import Settings

__all__ = [
    "Address",
    "Call",
    "Clock",
    "Price",
    "Reply",
    "Secret",
    "Service",
    "Settings",
    "Tally",
    "UnsoundError",
    "Usage",
    "load_prices",
    "parse_address",
    "read_key",
]
