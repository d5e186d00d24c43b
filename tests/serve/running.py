"""A reward server on loopback, in a thread or in a process of its own. Real HTTP."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any
from urllib.parse import urlsplit

import uvicorn

from pluralrm.serve.client import RUN_HEADER
from pluralrm.serve.server import RewardServer, bound, configured
from tests.forked import Forked, start


@contextmanager
def running(server: RewardServer) -> Iterator[str]:
    """Serve in a thread; the URL."""
    listener = bound("127.0.0.1", 0, token="")
    listener.listen()  # who asks before it is up waits
    loop = uvicorn.Server(configured(server))
    thread = threading.Thread(target=loop.run, args=([listener],), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        loop.should_exit = True
        thread.join(240)
        assert not thread.is_alive()


def begun(
    words: Sequence[str], cwd: Path, environment: Mapping[str, str]
) -> tuple[Forked | subprocess.Popen[str], IO[str]]:
    """Return `pluralrm` with these words while it runs, and what it prints.

    It is forked, for that is quick; where something is set in its environment it is a Python of its own.
    """
    if environment:
        program = [sys.executable, "-c", "from pluralrm.cli import main; main()", *words]
        child = subprocess.Popen(
            program,
            cwd=cwd,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert child.stdout is not None
        return child, child.stdout
    with TemporaryDirectory() as folder:
        pipe = Path(folder, "out")
        os.mkfifo(pipe)
        process = start(words, cwd, os.environ, [pipe, Path(os.devnull)])
        return process, pipe.open(encoding="utf-8")


class Child:
    """`pluralrm serve` in a process of its own."""

    def __init__(self, *words: str, cwd: Path, port: int = 0, environment: Mapping[str, str] | None = None) -> None:
        words = ("serve", *words, "--port", str(port), "--json")
        self.process, self.output = begun(words, cwd, environment or {})
        self.told: dict[str, Any] = json.loads(self._said())
        self.url = str(self.told["url"])

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    def kill(self, sign: int = signal.SIGKILL) -> int:
        """Send a signal and return how the process ended."""
        self.process.send_signal(sign)
        code = self.process.wait(240)
        self.close()
        return code

    def close(self) -> None:
        """Close what is read of one that has ended."""
        self.output.close()

    def _said(self) -> str:
        """Return the JSON that it prints once it listens."""
        lines: list[str] = []
        for line in self.output:
            lines.append(line)
            if line.rstrip("\n") == "}":
                return "".join(lines)
        raise AssertionError(f"the server ended: {''.join(lines)}")


def asked(
    url: str, path: str, body: object, *, headers: Mapping[str, str] | None = None, run: str = "r1"
) -> tuple[int, Any, Mapping[str, str]]:
    """Return status, JSON and headers of one POST (or of a GET where there is no body)."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=240)
    try:
        sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection.request(
            "GET" if body is None else "POST", path, sent, {**({RUN_HEADER: run} if run else {}), **(headers or {})}
        )
        response = connection.getresponse()
        text = response.read()
        found = {name.lower(): value for name, value in response.getheaders()}
        return response.status, json.loads(text) if text[:1] in b"{[" and text else text.decode(), found
    finally:
        connection.close()


def together(calls: Sequence[Any]) -> list[Any]:
    """Return what became of several calls that were made at once."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(lambda call: call(), calls))
