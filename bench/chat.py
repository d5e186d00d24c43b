"""Throughput of chat calls against a local server: 2,830 pairs in both orders, 50 ms each, 64 at once.

    python bench/chat.py [--rounds 3] [--pairs 2830] [--concurrency 64] [--latency 0.05] [--ways bare,judge]

The ideal is calls * latency / concurrency. Ways, each in a process of its own, interleaved:

bare     a loop around httpx2 with one client and a pool, as one would write it
ours     `ServedChat` without a cache
cached   the same with a fresh cache on disk
again    the same with that cache filled: no call is made
judge    a run: queries of ten posts, both orders, verdicts read, rows and transcripts on disk; without a cache
judged   the same with a fresh cache on disk

On a machine that does other work too, compare the CPU time per call: it hardly depends on who else is running.
"""

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from importlib import import_module
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pluralrm.core import Benchmark

WAYS = ("bare", "ours", "cached", "again", "judge", "judged")
PROMPT = "Which of the two answers does this person prefer? " * 80
ANSWER = {
    "id": "r",
    "model": "fake",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Because. " * 50 + "\nResult: A"},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 900, "completion_tokens": 100},
}


class Taken(NamedTuple):
    """What one way took: wall and CPU seconds, and the peak of its memory."""

    seconds: float
    cpu: float
    megabytes: float


class Answering(asyncio.Protocol):
    """Answers every request after the latency, with as little work as can be."""

    def __init__(self, latency: float) -> None:
        self._latency = latency
        self._seen = b""
        body = json.dumps(ANSWER).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        self._answer = head + body

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to answer."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer once the request is complete."""
        self._seen += data
        head, _, body = self._seen.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
        if body and len(body) >= length:
            self._seen = b""
            asyncio.get_running_loop().call_later(self._latency, self._transport.write, self._answer)  # type: ignore[attr-defined]


async def serve(latency: float) -> None:
    """Serve until killed; the port is the first line of the output."""
    server = await asyncio.get_running_loop().create_server(lambda: Answering(latency), "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def bare(url: str, calls: int, concurrency: int) -> int:
    """Return the replies of a plain loop."""
    import httpx2

    slots = asyncio.Semaphore(concurrency)
    limits = httpx2.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)

    async def ask(client: httpx2.AsyncClient, number: int) -> str:
        messages = [{"role": "user", "content": f"{number} {PROMPT}"}]
        async with slots:
            reply = await client.post(f"{url}/chat/completions", json={"model": "m", "messages": messages})
        return str(reply.json()["choices"][0]["message"]["content"])

    async with httpx2.AsyncClient(limits=limits, timeout=60) as client:
        return len(await asyncio.gather(*(ask(client, number) for number in range(calls))))


def ours(url: str, calls: int, concurrency: int, cache: Path | None) -> int:
    """Return the replies of `ServedChat`."""
    from pluralrm.chat import ChatReply, ChatRequest, ServedChat
    from pluralrm.http import Settings

    requests = (ChatRequest((("user", f"{number} {PROMPT}"),)) for number in range(calls))
    with ServedChat("m", url=url, settings=Settings(concurrency=concurrency, cache=cache)) as chat:
        return sum(isinstance(reply, ChatReply) for reply in chat.complete(requests))


def judged(url: str, benchmark: "Benchmark", concurrency: int, cache: Path | None) -> int:
    """Return the calls behind the verdicts of a run, each on disk."""
    from pluralrm.http import Settings
    from pluralrm.runs import score

    settings = Settings(concurrency=concurrency, cache=cache)
    with tempfile.TemporaryDirectory() as out:
        run = score(benchmark, f"judge:m,url={url}", "recent:10", out=out, settings=settings)
        return sum(len(row.votes) for row in run.rows)


def pairs_of_posts(pairs: int) -> "Benchmark":
    """Return that many items with the texts of pocket-prb: prompts of 5,000 characters, no two alike."""
    from pluralrm.benchmarks import load_benchmark
    from pluralrm.core import Benchmark

    pocket = load_benchmark("pocket-prb")
    turns = islice(product(range(pairs), pocket.items), pairs)
    return Benchmark(
        pocket.card,
        tuple(replace(item, id=f"{item.id}-{turn}", cluster=f"{item.cluster}-{turn}") for turn, item in turns),
    )


def one_way(way: str, url: str, calls: int, *, concurrency: int, cache: str) -> None:
    """Print what a way took; starting Python and importing are left out."""
    for module in ("httpx2", "pluralrm.chat", "pluralrm.models.judge", "pluralrm.runs"):
        import_module(module)
    kept = Path(cache) if way in {"cached", "again", "judged"} else None
    benchmark = pairs_of_posts(calls // 2) if way in {"judge", "judged"} else None
    began, worked = time.perf_counter(), time.process_time()
    if way == "bare":
        replies = asyncio.run(bare(url, calls, concurrency))
    elif benchmark is not None:
        replies = judged(url, benchmark, concurrency, kept)
    else:
        replies = ours(url, calls, concurrency, kept)
    if replies != calls:
        raise RuntimeError(f"{replies} replies to {calls} calls")
    taken = (time.perf_counter() - began, time.process_time() - worked)
    print(json.dumps([*taken, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def measure(arguments: argparse.Namespace) -> dict[str, list[Taken]]:
    """Return what each way took in each round."""
    ways = arguments.ways.split(",")
    taken: dict[str, list[Taken]] = {way: [] for way in ways}
    command = [sys.executable, __file__, "--serve", "--latency", str(arguments.latency)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - this file
    try:
        url = f"http://127.0.0.1:{next(iter(server.stdout or ())).strip()}/v1"
        for _ in range(arguments.rounds):
            with tempfile.TemporaryDirectory() as cache:
                for way in ways:
                    numbers = ["--pairs", str(arguments.pairs), "--concurrency", str(arguments.concurrency)]
                    command = [sys.executable, __file__, "--way", way, "--url", url, "--cache", cache, *numbers]
                    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - this file
                    taken[way].append(Taken(*json.loads(done.stdout)))
    finally:
        server.kill()
        server.wait()
    return taken


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=2830)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    for name in ("--way", "--url", "--cache"):
        parser.add_argument(name, default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    calls = 2 * arguments.pairs
    if arguments.serve:
        asyncio.run(serve(arguments.latency))
    elif arguments.way:
        one_way(arguments.way, arguments.url, calls, concurrency=arguments.concurrency, cache=arguments.cache)
    else:
        ideal = calls * arguments.latency / arguments.concurrency
        print(
            f"{calls} calls, {arguments.concurrency} at once, {arguments.latency * 1000:g} ms each: ideal {ideal:.2f} s"
        )
        print(f"{'way':8} {'times ideal (median, best)':>28} {'CPU ms per call':>16} {'MB':>6}")
        for way, rounds in measure(arguments).items():
            times = [one.seconds / ideal for one in rounds]
            cpu = 1000 * min(one.cpu for one in rounds) / calls
            memory = max(one.megabytes for one in rounds)
            print(f"{way:8} {statistics.median(times):>20.2f}, {min(times):.2f} {cpu:>17.2f} {memory:>6.0f}")


if __name__ == "__main__":
    main()
