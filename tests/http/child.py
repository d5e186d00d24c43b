"""Asks a server in a process of its own: `python -m tests.http.child URL CACHE FIRST LAST CONCURRENCY [crash]`."""

import sys
from pathlib import Path

from pluralrm.core import Failure
from pluralrm.http import Service, Settings, parse_address
from tests.http.test_service import call, read

if __name__ == "__main__":
    url, cache, first, last, concurrency, *crash = sys.argv[1:]
    settings = Settings(
        cache=Path(cache), concurrency=int(concurrency), record=Path(cache) / "tape.jsonl" if crash else None
    )
    with Service(parse_address(url), settings, model="m") as service:
        for reply in service.replies(map(call, range(int(first), int(last))), read):
            sys.stdout.write(f"{reply.kind if isinstance(reply, Failure) else reply.content}\n")
            sys.stdout.flush()
            if crash:
                raise RuntimeError(f"a bug, with {service!r} and {vars(service)!r} at hand")
