"""A folder of runs while it grows: the report on loopback, drawn anew as rows come, and how far each run is.

It only reads. The token in the address admits a reader; only GET is answered.
"""

import json
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Literal

from pluralrm.errors import PluralrmError, ServiceError
from pluralrm.files import is_held
from pluralrm.report import ReportPage, build_report, waiting_page
from pluralrm.report.sections import RunSource
from pluralrm.runs import load_manifest, load_run
from pluralrm.runs.records import ROWS, RUN, WORKERS
from pluralrm.runs.store import is_merged_shard
from pluralrm.serve.watch import ROLLOUTS, WATCH, WatchFolder, verdict

_EVERY = 1.0
"""Seconds between two looks at the folder."""
_SHARE = 4.0
"""Where rows of unfinished runs came, the page is drawn anew after so many times as long as the last drawing took."""


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is. One that is `stopped` lacks items, and no process works on it."""

    folder: str
    benchmark: str
    model: str
    condition: str
    rows: int
    items: int
    state: Literal["complete", "running", "stopped"]
    shard: str = ""
    """Which part of a run it is, such as `shard 2 of 7`: the report waits until all are merged."""
    workers: str = ""
    """Who computes a run that is running, such as `7 replicas, 1 died`, where other processes do."""


def runs_progress(root: Path) -> list[RunProgress]:
    """Return the runs at or below a folder as far as they are, sorted by folder; nothing where there is none yet.

    Shards are among them until they are merged.
    """
    folders = [file.parent for file in sorted(root.rglob(RUN.manifest))]
    return [_progress(folder, root) for folder in folders if not is_merged_shard(folder)]


def _progress(folder: Path, root: Path) -> RunProgress:
    # Held or not is asked first: a run that ends in between is then complete, not stopped.
    busy = is_held(folder)
    manifest = RUN.read(folder, shards=True)
    state: Literal["complete", "running", "stopped"] = "running" if busy else "stopped"
    rows = manifest.rows
    if manifest.status == "complete":
        state = "complete"
    elif (folder / ROWS).exists():
        rows = (folder / ROWS).read_bytes().count(b"\n")
    name = manifest.name or manifest.model
    where = folder.relative_to(root).as_posix()
    benchmark = manifest.benchmark.card.name
    items = manifest.selection.items if manifest.shard is None else manifest.shard.size(manifest.selection.items)
    workers = ""
    if state == "running" and (folder / WORKERS).exists():
        with suppress(FileNotFoundError):  # the run may end now
            workers = (folder / WORKERS).read_text(encoding="utf-8").strip()
    return RunProgress(where, benchmark, name, manifest.condition, rows, items, state, manifest.part, workers)


@dataclass
class ReportView:
    """The report of a folder as it was last drawn. `look` draws it anew where rows came; `watch` looks for ever.

    A run whose files are as they were is not read again, and what was computed of it is kept.
    """

    root: Path
    text: bool = True
    seed: int = 0
    page: ReportPage = field(init=False)
    version: int = 0
    problem: str = ""
    """Why the page could not be drawn anew, and stays as it was."""
    _seen: object = None
    _ended: object = None
    _sources: dict[Path, tuple[object, RunSource]] = field(default_factory=dict)
    _watched: dict[Path, tuple[int, Mapping[str, object]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.page = waiting_page()

    def state(self) -> Mapping[str, object]:
        """Return how far each run is, and which version of the page there is, for the page's script."""
        runs = [asdict(run) for run in runs_progress(self.root)]
        return {"version": self.version, "problem": self.problem, "runs": runs, "watches": self._watches()}

    def _watches(self) -> list[Mapping[str, object]]:
        """Return what each training watch below the folder says; one without a line yet is left out."""
        for file in self.root.rglob(WATCH.manifest):
            with suppress(PluralrmError, OSError):
                size = (file.parent / ROLLOUTS).stat().st_size
                if self._watched.get(file, (0, {}))[0] != size:
                    folder = WatchFolder.read(file.parent)
                    text = f"{folder.manifest.reward}, watched by {folder.manifest.second}: {verdict(folder.series)}"
                    self._watched[file] = size, {"text": text, "alarm": bool(folder.series.alarms)}
        return [entry for _, (_, entry) in sorted(self._watched.items())]

    def look(self, *, growing: bool = True) -> None:
        """Draw the page anew if a run ended since it was drawn or, where they are `growing`, has more rows."""
        runs = [run for run in runs_progress(self.root) if not run.shard]
        seen = [(run.folder, run.rows, run.state) for run in runs]
        ended = [entry for entry in seen if entry[2] != "running"]
        if (seen if growing else ended) == (self._seen if growing else self._ended) or not any(
            run.rows for run in runs
        ):
            return
        scored = [self.root / run.folder for run in runs if run.rows]
        self._sources |= {path: self._source(path) for path in scored}
        sources = [self._sources[path][1] for path in scored]
        self.page = build_report(sources, text=self.text, seed=self.seed, live=True)
        self.version, self._seen, self._ended, self.problem = self.version + 1, seen, ended, ""

    def _source(self, folder: Path) -> tuple[object, RunSource]:
        """Return a run and what its files were when it was read: as now, it is the one that was read before."""
        files = sorted((file.name, file.stat()) for file in folder.iterdir())
        stamp = [(name, stat.st_ino, stat.st_size, stat.st_mtime_ns) for name, stat in files]
        if folder in self._sources and self._sources[folder][0] == stamp:
            return self._sources[folder]
        return stamp, RunSource(load_run(folder), load_manifest(folder))

    def watch(self, stop: Event) -> None:
        """Look at the folder until told to stop."""
        due = pause = 0.0
        while not stop.wait(pause):
            began, version, pause = time.monotonic(), self.version, _EVERY
            try:
                self.look(growing=began >= due)
            except (PluralrmError, OSError) as exc:
                self.problem = str(exc)
                pause = max(_EVERY, _SHARE * (time.monotonic() - began))
            if self.version != version:
                due = time.monotonic() + _SHARE * (time.monotonic() - began)


_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


_NOTHING = "default-src 'none'"


class _Replies(BaseHTTPRequestHandler):
    """Answers GET under the token, and nothing else."""

    view: ReportView
    token: str
    timeout = 20.0
    server_version = sys_version = ""

    def do_GET(self) -> None:
        """Answer with the page, or with how far the runs are; 404 without the token."""
        _, token, *rest = self.path.partition("?")[0].split("/", 2)
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            self._reply("no such page. Open the address that 'pluralrm view' printed", status=404)
        elif rest == ["state"]:
            self._reply(json.dumps(self.view.state()), kind="application/json")
        elif rest == [""]:
            page = self.view.page
            self._reply(page.html, kind="text/html", policy=f"{page.policy}; frame-ancestors 'none'")
        else:
            self._reply("no such page", status=404)

    def _reply(self, text: str, *, kind: str = "text/plain", policy: str = _NOTHING, status: int = 200) -> None:
        body = text.encode()
        self.send_response(status)
        headers = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body))}
        for name, value in {**headers, **_HEADERS, "Content-Security-Policy": policy}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the library has it
        """Say nothing: requests come every second, and their address holds the token."""


class ViewServer(ThreadingHTTPServer):
    """A server of one view on loopback, with a new token."""

    daemon_threads = True

    def __init__(self, view: ReportView, port: int = 0) -> None:
        self.token = secrets.token_urlsafe(16)
        replies = type("Replies", (_Replies,), {"view": view, "token": self.token})
        try:
            super().__init__(("127.0.0.1", port), replies)
        except OSError as exc:
            raise ServiceError(f"cannot listen at port {port}: {exc}. Name another with --port; 0 takes any") from exc
        self.view = view

    @property
    def address(self) -> str:
        """Where the page is; who knows it may read."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"

    def run(self) -> None:
        """Answer until shut down or interrupted, and draw the page anew meanwhile."""
        stop = Event()
        Thread(target=self.view.watch, args=[stop], daemon=True).start()
        try:
            self.serve_forever(poll_interval=0.2)
        finally:
            stop.set()
