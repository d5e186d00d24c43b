"""A hub on loopback that its own client talks to: accounts, files by commit, pull requests, large files. Real HTTP.

    with FakeHub() as hub:
        hub.add("lab/model", {"README.md": "# A model"})

A commit is made only onto the parent that it names, as on the real one. `faults` are answered in place of the next
request whose path has that text.
"""

import hashlib
import json
import threading
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, unquote, urlsplit

WRITER, READER = "hf_" + "w" * 34, "hf_" + "r" * 34
ACCOUNTS = {WRITER: "lab", READER: "guest"}
PREFIXES = {"models": "", "datasets": "datasets/"}


class HubRequest(NamedTuple):
    """A request as it arrived."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    token: str
    body: bytes


class HubReply(NamedTuple):
    """An answer: its status, its JSON or bytes, and more headers."""

    status: int
    body: object = None
    headers: Mapping[str, str] = {}


@dataclass
class FakeRepository:
    """Commits by their hashes, and where branches and pull requests stand."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    """By branch: the title of a pull request."""

    def commit(self, files: Mapping[str, bytes], branch: str = "main") -> str:
        oid = hashlib.sha1(f"{len(self.commits)}{branch}".encode(), usedforsecurity=False).hexdigest()
        self.commits[oid], self.branches[branch] = dict(files), oid
        return oid

    def files(self, revision: str = "main") -> dict[str, bytes]:
        return self.commits[self.branches.get(revision, revision)]


class FakeHub:
    """The server. `repositories` by kind and name, `requests` in the order of arrival."""

    def __init__(self) -> None:
        self.repositories: dict[tuple[str, str], FakeRepository] = {}
        self.requests: list[HubRequest] = []
        self.faults: list[tuple[str, HubReply]] = []
        self.large: dict[str, bytes] = {}
        """Uploaded large files by their hashes."""
        self.is_large = ""
        """The end of a name by which a file is large."""
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                hub._serve(self)

            do_POST = do_PUT = do_GET  # noqa: N815 - as above

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - of the base class
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def add(self, name: str, files: Mapping[str, str], kind: str = "models") -> FakeRepository:
        repository = self.repositories[kind, name] = FakeRepository()
        repository.commit({path: text.encode() for path, text in files.items()})
        return repository

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def sent(self, part: str) -> list[HubRequest]:
        return [request for request in self.requests if part in request.path]

    # ------------------------------------------------------------ answers

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        url = urlsplit(handler.path)
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        token = (handler.headers.get("Authorization") or "").removeprefix("Bearer ")
        request = HubRequest(handler.command, url.path, parse_qs(url.query), token, body)
        self.requests.append(request)
        reply = next((reply for part, reply in self.faults if part in request.path), None)
        if reply is not None:
            self.faults = [fault for fault in self.faults if fault[1] is not reply]
        reply = reply or self._reply(request)
        content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        handler.send_response(reply.status)
        for name, value in {"Content-Length": str(len(content)), **reply.headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(content)

    def _reply(self, request: HubRequest) -> HubReply:
        if request.path.startswith("/large/"):
            self.large[request.path.removeprefix("/large/")] = request.body
            return HubReply(200)
        if request.token and request.token not in ACCOUNTS:
            return HubReply(401, {"error": f"Invalid: {request.token}"}, {"X-Error-Message": f"bad {request.token}"})
        if request.path == "/api/whoami-v2":
            return HubReply(200, {"name": ACCOUNTS[request.token], "type": "user"})
        if request.path == "/api/validate-yaml":
            return HubReply(200, {"errors": [], "warnings": []})
        for (kind, name), repository in self.repositories.items():
            for prefix in (f"/api/{kind}/{name}/", f"/{PREFIXES[kind]}{name}/", f"/{PREFIXES[kind]}{name}.git/"):
                if request.path.startswith(prefix):
                    return self._of_repository(request, repository, (kind, name), request.path.removeprefix(prefix))
        return HubReply(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})

    def _of_repository(
        self, request: HubRequest, repository: FakeRepository, key: tuple[str, str], path: str
    ) -> HubReply:
        verb, _, rest = path.partition("/")
        revision, _, file = (unquote(part) for part in rest.partition("/"))
        if verb == "revision":
            oid = repository.branches[revision]
            siblings = [{"rfilename": name} for name in repository.files(oid)]
            return HubReply(200, {"id": key[1], "sha": oid, "siblings": siblings})
        if verb == "resolve":
            return HubReply(200, repository.files(revision)[file])
        if verb == "discussions":
            return HubReply(200, self._requests_of(repository, key))
        if verb == "preupload":
            files = [{"path": each["path"]} for each in json.loads(request.body)["files"]]
            modes = ["lfs" if self.is_large and each["path"].endswith(self.is_large) else "regular" for each in files]
            more = [{"uploadMode": mode, "shouldIgnore": False, "oid": None} for mode in modes]
            return HubReply(200, {"files": [each | rest for each, rest in zip(files, more, strict=True)]})
        if verb == "info":
            objects = [self._upload_of(each) for each in json.loads(request.body)["objects"]]
            return HubReply(200, {"transfer": "basic", "objects": objects})
        assert verb == "commit", path
        return self._commit(request, repository, key, revision)

    def _upload_of(self, large: Mapping[str, Any]) -> dict[str, Any]:
        return {**large, "actions": {"upload": {"href": f"{self.url}/large/{large['oid']}"}}}

    def _requests_of(self, repository: FakeRepository, key: tuple[str, str]) -> dict[str, Any]:
        discussions = [
            {
                "num": int(branch.rpartition("/")[2]),
                "title": title,
                "author": {"name": "lab"},
                "createdAt": "2026-01-01T00:00:00.000Z",
                "status": "open",
                "repo": {"name": key[1], "type": key[0].removesuffix("s")},
                "isPullRequest": True,
            }
            for branch, title in repository.titles.items()
        ]
        return {"discussions": discussions, "count": len(discussions), "start": 0}

    def _commit(self, request: HubRequest, repository: FakeRepository, key: tuple[str, str], revision: str) -> HubReply:
        if request.token != WRITER:
            return HubReply(403, {"error": f"{request.token} may not write"})
        head, *lines = [json.loads(line) for line in request.body.splitlines()]
        if head["value"].get("parentCommit") != repository.branches[revision]:
            return HubReply(412, {"error": "A commit has happened since. Please refresh and try again."})
        files = dict(repository.files(revision))
        for line in lines:
            value = line["value"]
            large = line["key"] == "lfsFile"
            files[value["path"]] = self.large[value["oid"]] if large else b64decode(value["content"])
        number = len(repository.titles) + 1
        if proposed := "create_pr" in request.query:
            revision = f"refs/pr/{number}"
            repository.titles[revision] = head["value"]["summary"]
        oid = repository.commit(files, revision)
        page = f"{self.url}/{PREFIXES[key[0]]}{key[1]}"
        answer = {"commitUrl": f"{page}/commit/{oid}", "commitOid": oid}
        return HubReply(200, answer | ({"pullRequestUrl": f"{page}/discussions/{number}"} if proposed else {}))
