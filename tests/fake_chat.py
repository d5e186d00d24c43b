"""A chat server on loopback that does what a script says: answers, errors, resets, drips. Real HTTP, in a thread.

    with FakeChat(lambda seen: say("A"), faults=[status(429, retry_after="2"), reset]) as server:
        ServedChat("m", url=server.url)

An action writes one answer. `faults` are used up first, one per request in the order of arrival. `python -m
tests.fake_chat` serves in a process of its own until its standard input closes.
"""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from pluralrm.http import attempts

PAUSE = 0.02
"""Seconds after a first failed attempt, in place of half a second: this server needs no time to recover."""
USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    at: float

    @property
    def prompt(self) -> str:
        """The last message."""
        return str(self.body["messages"][-1]["content"])


@dataclass(frozen=True)
class Action:
    """One answer: its bytes, and how they are sent. `pause` lies between pieces of `piece` bytes."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    piece: int = 0
    pause: float = 0.0
    drop: bool = False


def say(text: str, *, usage: Mapping[str, int] | None = USAGE, finish: str = "stop", **message: object) -> Action:
    """Answer with a complete chat completion."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
    return reply({"id": "r", "object": "chat.completion", "model": "fake-1", "choices": [choice], "usage": usage})


def reply(value: object, media: str = "application/json") -> Action:
    """Answer 200 with any JSON under any content type."""
    return Action(200, json.dumps(value).encode(), {"Content-Type": media})


def status(code: int, message: str = "no", *, retry_after: str = "", **headers: str) -> Action:
    """Answer with an error as OpenAI spells it."""
    more = {"Retry-After": retry_after} if retry_after else {}
    body = json.dumps({"error": {"message": message, "type": "fake", "code": code}}).encode()
    return Action(code, body, {"Content-Type": "application/json", **more, **headers})


def truncated(action: Action) -> Action:
    """The same answer with half of its JSON."""
    return Action(action.status, action.body[: len(action.body) // 2], action.headers)


def drip(action: Action, *, piece: int = 1, pause: float = 0.05) -> Action:
    """The same answer a few bytes at a time, head included."""
    return Action(action.status, action.body, action.headers, piece=piece, pause=pause)


def late(action: Action, seconds: float) -> Action:
    """The same answer after some seconds."""
    return Action(action.status, action.body, action.headers, delay=seconds)


reset = Action(drop=True)
"""Close the connection without an answer."""


class FakeChat:
    """The server. `requests` holds what arrived, `most_at_once` the most requests that were open together."""

    def __init__(
        self,
        answer: Callable[[Seen], Action] | None = None,
        *,
        faults: Iterable[Action] = (),
        latency: float = 0.0,
        port: int = 0,
    ) -> None:
        self._answer = answer or (lambda _: say("A"))
        self._faults = list(faults)
        self._latency = latency
        self.requests: list[Seen] = []
        self.most_at_once = 0
        self._open = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()
        self._enough = asyncio.Event()
        self.port = port

    @property
    def url(self) -> str:
        """The base URL of its API."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def prompts(self) -> list[str]:
        """The last message of every request, in the order of arrival."""
        return [seen.prompt for seen in self.requests]

    def __enter__(self) -> Self:
        self._pause, attempts._FIRST = attempts._FIRST, PAUSE
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        attempts._FIRST = self._pause
        self._loop.call_soon_threadsafe(self._enough.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", self.port, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._enough.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Read one request, act, and return whether the connection stays open."""
        seen = await _read(reader)
        self.requests.append(seen)
        action = self._faults.pop(0) if self._faults else self._answer(seen)
        self._open += 1
        self.most_at_once = max(self.most_at_once, self._open)
        try:
            await asyncio.sleep(self._latency + action.delay)
            if action.drop:
                writer.transport.abort()
                return False
            await _write(writer, action)
        finally:
            self._open -= 1
        return True


async def _read(reader: asyncio.StreamReader) -> Seen:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(method, path, headers, json.loads(raw) if raw else None, time.monotonic())


async def _write(writer: asyncio.StreamWriter, action: Action) -> None:
    headers = {**action.headers, "Content-Length": str(len(action.body))}
    head = f"HTTP/1.1 {action.status} Fake\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    whole = head.encode("latin-1") + b"\r\n" + action.body
    for piece in _pieces(whole, action.piece):
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(action.pause)


def _pieces(whole: bytes, size: int) -> Sequence[bytes]:
    return [whole[start : start + size] for start in range(0, len(whole), size)] if size else [whole]


def main(latency: float) -> None:
    """Serve until standard input closes; the port is the first line of standard output, the calls the last."""
    with FakeChat(lambda _: say("A" * 400), latency=latency) as server:
        sys.stdout.write(f"{server.port}\n")
        sys.stdout.flush()
        sys.stdin.read()
    sys.stdout.write(f"{len(server.requests)}\n")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.05)
