"""A plan that is served for tests, over real HTTP on loopback: in a thread, or in a process that can be killed."""

import http.client
import json
import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn

from pluralrm.annotate.plan import AnnotationPlan, write_plan
from pluralrm.annotate.server import AnnotationLimits, configured
from pluralrm.annotate.service import AnnotationDesk, ServerAddress, listening
from pluralrm.annotate.store import ADMIN, Store, key_of, new_token, token_hash
from tests.serve.running import begun

UNLIMITED = AnnotationLimits(requests=10_000_000, refused=10_000_000)
ANY_PORT = ServerAddress(port=0)
Body = dict[str, Any]


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        """The JSON of the reply."""
        return json.loads(self.raw)


@dataclass
class Served:
    """A running server: its port, and everybody's token."""

    port: int
    tokens: dict[str, str]
    desk: AnnotationDesk | None = None
    folder: Path = field(default_factory=Path)

    def ask(
        self, path: str, whose: str = "", *, token: str | None = None, body: object = None, **headers: str
    ) -> Reply:
        """Ask as somebody, with a token of one's own where one is named."""
        sent = self.tokens.get(whose, "") if token is None else token
        return ask(self.port, path, token=sent, body=body, **headers)

    def say(self, whose: str, body: Body) -> Reply:
        """Send a judgment."""
        return self.ask("/api/judgments", whose, body=body)

    def state(self, whose: str) -> list[Body]:
        """Return where somebody stands."""
        found: list[Body] = self.ask("/api/state", whose).body["items"]
        return found


def ask(port: int, path: str, *, token: str, body: object = None, **headers: str) -> Reply:
    """Ask once, on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=240)
    try:
        send(connection, path, token=token, body=body, **headers)
        reply = connection.getresponse()
        return Reply(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())
    finally:
        connection.close()


def send(connection: http.client.HTTPConnection, path: str, *, token: str, body: object = None, **headers: str) -> None:
    """Send a request, and do not wait for the answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if token:
        named.setdefault("Authorization", f"Bearer {token}")
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    if body is None:
        connection.request("GET", path, headers=named)
    else:
        connection.request("POST", path, raw, {"Content-Type": "application/json", **named})


@contextmanager
def serving(
    plan: AnnotationPlan, folder: Path, *, limits: AnnotationLimits = UNLIMITED, address: ServerAddress = ANY_PORT
) -> Iterator[Served]:
    """Serve a plan from a thread; its folder is written where it is not there."""
    if not folder.exists():
        write_plan(plan, folder)
    store = Store(folder, plan.content_hash)
    tokens = {name: new_token() for name in [*plan.arm, ADMIN]}
    store.set_keys({name if name == ADMIN else key_of(name): token_hash(token) for name, token in tokens.items()})
    desk = AnnotationDesk(plan, store)
    server = uvicorn.Server(configured(desk, address, limits=limits))
    with closing(store), listening(address) as bound:
        thread = threading.Thread(target=server.run, args=([bound],))
        thread.start()
        try:
            yield Served(bound.getsockname()[1], tokens, desk, folder)
        finally:
            server.should_exit = True
            thread.join()


class Child:
    """`pluralrm annotate serve` in a process of its own, on a port that stays the same."""

    def __init__(self, folder: Path, port: int = 0, *, words: Sequence[str] = ()) -> None:
        self._folder, self._words = folder, list(words)
        self.port, self.links = port, dict[str, str]()
        self.start()

    def start(self) -> None:
        """Start, and wait until it says that it listens."""
        words = ["annotate", "serve", str(self._folder), "--port", str(self.port), *self._words]
        self.process, self._output = begun(words, self._folder.parent, {})
        first = self._output.readline()
        assert first.startswith("Serving at http://127.0.0.1:"), (first, self.process.wait(240))
        self.port = int(first.split(":")[2].strip("/\n"))

    def read_links(self, count: int) -> None:
        """Take the links that are printed."""
        for _ in range(count):
            name, link = self._output.readline().rstrip("\n").split("\t")
            self.links[name] = link.partition("#")[2]

    def kill(self) -> int:
        """Kill it, as a power cut would, but for the disk; return how it ended."""
        self.process.kill()
        code = self.process.wait(240)
        self._output.close()
        return code


# ---------------------------------------------------------------- what people say

CHOICES = ("a", "slightly_a", "equal", "slightly_b", "b", "cannot_tell")


def answers(task: str, rng: random.Random, comment: str = "") -> Body:
    """Return answers to everything that is asked."""
    if task == "four":
        best, fitting = rng.choice([*"ABCD", "cannot_tell"]), rng.choice(["none", "one", "several"])
        four = {"best": best, "fitting": fitting, "naturalness": rng.randint(1, 5), "same_meaning": "yes"}
        return {"task": "four", "comment": comment, **four}
    names = ("factuality", "relevance", "helpfulness")
    rated = (*names, "personal_fit")
    scores = {f"scores_{side}": {name: rng.choice([1, 2, 3, 4, 5, None]) for name in rated} for side in "ab"}
    choices = {name: rng.choice(CHOICES) for name in ("overall", *names, "personal_fit")}
    return {"task": "pair", "comment": comment, "decided": rng.choice([*names, None]), **choices, **scores}


def judgment(item: str, rng: random.Random, *, revision: int = 1, task: str = "pair", comment: str = "") -> Body:
    """Return what the page sends of one judgment."""
    said = answers(task, rng, comment)
    seconds = round(rng.uniform(1, 90), 2)
    return {
        "id": f"{rng.getrandbits(128):032x}",
        "item": item,
        "revision": revision,
        "seconds": seconds,
        "answers": said,
    }
