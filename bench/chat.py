"""Chat calls against a local server that answers after 50 ms, 64 at once: 2,830 pairs in both orders.

The ideal is calls * latency / concurrency. A judged run has queries of ten posts, both orders, verdicts read, rows and
transcripts on disk. On a machine that does other work too, compare CPU time: it hardly depends on who else is running.
"""

import asyncio
import json
import time
from dataclasses import replace
from functools import partial
from itertools import islice, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench import Outcome, Setup, Shape, Work
from pluralrm.benchmarks import load_benchmark
from pluralrm.chat import ChatReply, ChatRequest, ServedChat
from pluralrm.core import Benchmark
from pluralrm.http import Settings
from pluralrm.runs import score

CONCURRENCY, LATENCY = 64, 0.05
PROMPT = "Which of the two answers does this person prefer? " * 80
MESSAGE = {"role": "assistant", "content": "Because. " * 50 + "\nResult: A"}
ANSWER = {
    "id": "r",
    "model": "fake",
    "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 900, "completion_tokens": 100},
}


class Answering(asyncio.Protocol):
    """Answers every request after the latency, with as little work as can be."""

    def __init__(self) -> None:
        self._received = b""
        body = json.dumps(ANSWER).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        self._answer = head + body

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to answer."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer once the request is complete."""
        self._received += data
        head, _, body = self._received.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
        if body and len(body) >= length:
            self._received = b""
            asyncio.get_running_loop().call_later(LATENCY, self._transport.write, self._answer)  # type: ignore[attr-defined]


async def answer() -> None:
    """Answer until killed; the port is the first line of the output."""
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Calls(NamedTuple):
    """A server, and how many calls to make."""

    setup: Setup
    url: str
    number: int

    def done(self, replies: int) -> Outcome:
        """Return the calls as units; a call without a reply is an error."""
        if replies != self.number:
            raise RuntimeError(f"{replies} replies to {self.number} calls")
        return Outcome(units=replies)


def calls(setup: Setup) -> Calls:
    port = next(setup.program("-m", "bench.chat")).strip()
    return Calls(setup, f"http://127.0.0.1:{port}/v1", 2 * setup.size(2_830, 6))


chat = Shape("chat", "5,660 calls of 50 ms, 64 at once", calls, unit="calls", rounds=3)


@chat.side
def ideal(data: Calls) -> Work:
    return lambda: time.sleep(data.number * LATENCY / CONCURRENCY)


@chat.side
def plain_loop(data: Calls) -> Work:
    """Return a loop with one client and a pool, as one would write it."""
    import httpx2

    limits = httpx2.Limits(max_connections=CONCURRENCY, max_keepalive_connections=CONCURRENCY)

    async def ask(client: httpx2.AsyncClient, slots: asyncio.Semaphore, number: int) -> str:
        messages = [{"role": "user", "content": f"{number} {PROMPT}"}]
        async with slots:
            reply = await client.post(f"{data.url}/chat/completions", json={"model": "m", "messages": messages})
        return str(reply.json()["choices"][0]["message"]["content"])

    async def loop() -> int:
        slots = asyncio.Semaphore(CONCURRENCY)
        async with httpx2.AsyncClient(limits=limits, timeout=60) as client:
            return len(await asyncio.gather(*(ask(client, slots, number) for number in range(data.number))))

    return lambda: data.done(asyncio.run(loop()))


def replies(data: Calls, cache: Path | None = None) -> Outcome:
    """Make the calls by `ServedChat`."""
    requests = (ChatRequest((("user", f"{number} {PROMPT}"),)) for number in range(data.number))
    with ServedChat("m", url=data.url, settings=Settings(concurrency=CONCURRENCY, cache=cache)) as served:
        return data.done(sum(isinstance(reply, ChatReply) for reply in served.complete(requests)))


@chat.side
def served_chat(data: Calls) -> Work:
    return lambda: replies(data)


@chat.side
def served_chat_and_a_fresh_cache(data: Calls) -> Work:
    def work() -> Outcome:
        with TemporaryDirectory() as cache:
            return replies(data, Path(cache))

    return work


@chat.side
def served_chat_and_a_full_cache(data: Calls) -> Work:
    cache = data.setup.folder()
    replies(data, cache)
    return lambda: replies(data, cache)


def judged_run(data: Calls, *, cached: bool) -> Work:
    """Return a run over items with the texts of pocket-prb: prompts of 5,000 characters, no two alike."""
    pocket, pairs = load_benchmark("pocket-prb"), data.number // 2
    turns = islice(product(range(pairs), pocket.items), pairs)
    items = (replace(item, id=f"{item.id}-{turn}", cluster=f"{item.cluster}-{turn}") for turn, item in turns)
    benchmark = Benchmark(pocket.card, tuple(items))

    def work() -> Outcome:
        with TemporaryDirectory() as out, TemporaryDirectory() as cache:
            settings = Settings(concurrency=CONCURRENCY, cache=Path(cache) if cached else None)
            run = score(benchmark, f"judge:m,url={data.url}", "recent:10", out=out, settings=settings)
            return data.done(sum(len(row.votes) for row in run.rows))

    return work


chat.side(partial(judged_run, cached=False), name="judged run")
chat.side(partial(judged_run, cached=True), name="judged run and a fresh cache")

if __name__ == "__main__":
    asyncio.run(answer())
