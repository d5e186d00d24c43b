"""A Hugging Face hub on the loopback: the routes that the true client asks for data sets and models, and a child.

Files are large ones as on the real hub: `resolve` redirects to another path and the tree names their SHA-256.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import pluralrm

Files = Mapping[str, bytes]

CHILD = """
import json, sys
from pluralrm import load_benchmark
from pluralrm.errors import PluralrmError
for line in sys.stdin:
    try:
        bench = load_benchmark(line.strip())
        reply = {"name": bench.card.name, "revision": bench.card.revision, "hash": bench.content_hash,
                 "domains": bench.domains, "items": len(bench.items)}
    except PluralrmError as error:
        reply = {"error": type(error).__name__, "message": str(error)}
    print(json.dumps(reply), flush=True)
"""


class Hub:
    """Data sets and models by id, each with revisions by name; `fault` makes every answer that HTTP status."""

    def __init__(self) -> None:
        self.commits: dict[tuple[str, str], str] = {}
        self.files: dict[str, Files] = {}
        self.fault = 0
        self.requests: Counter[str] = Counter()
        self.downloaded: list[str] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hub._answer(self, body=True)

            def do_HEAD(self) -> None:
                hub._answer(self, body=False)

            def log_message(self, *args: object) -> None:
                """Say nothing: the test's output is not a server log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def publish(self, repository: str, revision: str, files: Files) -> None:
        """Put files under a revision, and under the commit that it then names."""
        commit = hashlib.sha1(f"{repository}@{revision}".encode()).hexdigest()  # noqa: S324 - commits have 40 digits
        self.commits[repository, revision] = self.commits[repository, commit] = commit
        self.files[commit] = files

    # ---------------------------------------------------------------- routes

    def _answer(self, request: BaseHTTPRequestHandler, *, body: bool) -> None:
        steps = [unquote(step) for step in urlsplit(request.path).path.strip("/").split("/")]
        match steps:
            case _ if self.fault:
                _send(request, self.fault, {"X-Error-Message": "out of order"}, b"{}")
            case ["api", "datasets" | "models", owner, name, "revision", revision]:
                self._info(request, f"{owner}/{name}", revision)
            case ["api", "datasets" | "models", owner, name]:
                self._info(request, f"{owner}/{name}", "main")
            case ["api", "datasets" | "models", _, _, "tree", commit]:
                self.requests["tree"] += 1
                _send(request, 200, {}, json.dumps(_tree(self.files[commit])).encode())
            case ["datasets", _, _, "resolve", commit, *path] | [_, _, "resolve", commit, *path]:
                self._resolve(request, commit, "/".join(path))
            case ["store", commit, *path]:
                self.requests["download"] += 1
                self.downloaded.append("/".join(path))
                content = self.files[commit]["/".join(path)]
                _send(request, 200, {"ETag": f'"{_sha256(content)}"'}, content if body else b"")
            case _:
                _send(request, 404, {"X-Error-Code": "RepoNotFound"}, b"{}")

    def _info(self, request: BaseHTTPRequestHandler, repository: str, revision: str) -> None:
        self.requests["info"] += 1
        commit = self.commits.get((repository, revision))
        if commit is None:
            known = any(name == repository for name, _ in self.commits)
            _send(request, 404, {"X-Error-Code": "RevisionNotFound" if known else "RepoNotFound"}, b"{}")
            return
        siblings = [{"rfilename": path} for path in self.files[commit]]
        info = {"id": repository, "sha": commit, "siblings": siblings, "private": False, "tags": [], "downloads": 0}
        _send(request, 200, {}, json.dumps(info).encode())

    def _resolve(self, request: BaseHTTPRequestHandler, commit: str, path: str) -> None:
        self.requests["resolve"] += 1
        content = self.files[commit][path]
        linked = {"X-Linked-Etag": f'"{_sha256(content)}"', "X-Linked-Size": str(len(content))}
        # Another host, as the real hub's store is; the client would follow a redirect to the same one by itself.
        store = self.url.replace("127.0.0.1", "localhost")
        headers = {"Location": f"{store}/store/{commit}/{path}", "X-Repo-Commit": commit, **linked}
        _send(request, 302, headers, b"")


def _tree(files: Files) -> list[dict[str, Any]]:
    folders = sorted({str(parent) for path in files for parent in Path(path).parents if str(parent) != "."})
    entries: list[dict[str, Any]] = [
        {"type": "directory", "oid": "0" * 40, "size": 0, "path": path} for path in folders
    ]
    for path, content in files.items():
        lfs = {"oid": _sha256(content), "size": len(content), "pointerSize": 130}
        entries.append({"type": "file", "oid": "1" * 40, "size": len(content), "path": path, "lfs": lfs})
    return entries


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _send(request: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str], content: bytes) -> None:
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    request.wfile.write(content)


class Child:
    """A process of its own with the true client, since that reads HF_ENDPOINT when it is imported."""

    def __init__(self, endpoint: str, home: Path, script: str = CHILD) -> None:
        proxies = {name for name in os.environ if name.lower().endswith("_proxy")}
        kept = {name: value for name, value in os.environ.items() if name not in proxies}
        settings = {
            "HF_ENDPOINT": endpoint,
            "HF_HOME": str(home),
            "PLURALRM_CACHE": str(home / "pluralrm"),
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "PYTHONPATH": str(Path(pluralrm.__file__).parents[1]),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", script],
            env=kept | settings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate(timeout=240)

    def load(self, spec: str) -> dict[str, Any]:
        """Return what the child says of what was named, or of its error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(spec, file=self._process.stdin, flush=True)
        reply: dict[str, Any] = json.loads(self._process.stdout.readline())
        return reply
