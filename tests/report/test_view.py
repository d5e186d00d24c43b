"""The live view: how far runs are, who may read, and what is drawn anew."""

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from threading import Thread

import pytest
from typer.testing import CliRunner

from pluralrm.cli import app
from pluralrm.core import Query, Run, Verdict
from pluralrm.errors import RunError, ServiceError
from pluralrm.files import lock_folder
from pluralrm.report import build_report, read_sources
from pluralrm.report import view as view_module
from pluralrm.report.view import ReportView, ViewServer, runs_progress
from pluralrm.runs import load_run, score
from tests.builders import Scripted, bakery
from tests.report.folders import folders, unfinished


def test_a_run_is_complete_running_or_stopped(tmp_path: Path) -> None:
    score(bakery(6), Scripted("whole"), "none", out=tmp_path)
    left = Path(unfinished(tmp_path).path)
    found = {run.model: (run.rows, run.items, run.state) for run in runs_progress(tmp_path)}
    assert found == {"whole": (6, 6, "complete"), "down": (5, 6, "stopped")}
    lock = lock_folder(left)
    assert [run.state for run in runs_progress(tmp_path) if run.model == "down"] == ["running"]
    os.close(lock)
    assert [run.state for run in runs_progress(tmp_path) if run.model == "down"] == ["stopped"]


def test_a_run_is_seen_while_it_is_scored(tmp_path: Path) -> None:
    seen = []

    class Watched(Scripted):
        def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
            for verdict in super().score(queries):
                seen.extend(runs_progress(tmp_path))
                yield verdict

    score(bakery(4), Watched("m"), "none", out=tmp_path)
    assert {run.state for run in seen} == {"running"}
    assert {run.rows for run in seen} <= {0, 1, 2, 3, 4}
    assert [run.state for run in runs_progress(tmp_path)] == ["complete"]


def test_the_page_is_drawn_anew_only_when_rows_came(tmp_path: Path) -> None:
    view = ReportView(tmp_path)
    assert "No run has a row yet" in view.page.html
    view.look()
    assert view.version == 0
    folders(tmp_path, conditions=["none"], items=4)
    view.look()
    view.look()
    assert view.version == 1
    assert view.page.html == build_report(read_sources([tmp_path]), live=True).html
    assert "connect-src 'self'" in view.page.policy
    assert "connect-src" not in build_report(read_sources([tmp_path])).policy
    folders(tmp_path, conditions=["raw:2"], items=4)
    view.look()
    assert view.version == 2


def test_a_folder_that_changes_in_every_way_gives_the_report_of_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def reading(path: Path) -> Run:
        read.append(path.parent.name)
        return load_run(path)

    monkeypatch.setattr(view_module, "load_run", reading)
    runs, view = tmp_path / "runs", ReportView(tmp_path / "runs")

    def drawn() -> list[str]:
        read.clear()
        view.look()
        assert view.page.html == build_report(read_sources([runs]), live=True).html
        return sorted(read)

    folders(runs, conditions=["none", "raw:2"], items=8)
    assert drawn() == ["longer", "longer", "shorter", "shorter"]
    folders(runs, conditions=["swapped:2"], items=8)
    assert drawn() == ["longer", "shorter"]
    [gone] = runs.glob("*/longer/none*")
    shutil.rmtree(gone)
    assert drawn() == []
    score(bakery(8, canary="CANARY"), Scripted("longer"), "none", out=runs)
    assert drawn() == ["longer"]
    score(bakery(8, canary="CANARY"), Scripted("late", moods={"i0001": "transport"}), "none", out=runs)
    assert drawn() == ["late"]
    score(bakery(8, canary="CANARY"), Scripted("late"), "none", out=runs)
    assert drawn() == ["late"]


def test_rows_of_a_run_that_goes_on_wait_but_one_that_ended_is_drawn_at_once(tmp_path: Path) -> None:
    folders(tmp_path, conditions=["none"], items=4)
    view, versions = ReportView(tmp_path), []

    class Watched(Scripted):
        def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
            for place, verdict in enumerate(super().score(queries)):
                view.look(growing=place == 1)
                versions.append(view.version)
                yield verdict

    score(bakery(400, canary="CANARY"), Watched("m"), "none", out=tmp_path)
    assert set(versions) == {1}
    view.look(growing=False)
    assert view.version == 2


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ViewServer]:
    unfinished(tmp_path)
    with ViewServer(ReportView(tmp_path)) as made:
        thread = Thread(target=made.run)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def asked(server: ViewServer, path: str, method: str = "GET") -> tuple[str, HTTPResponse]:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=240)
    with closing(connection):
        connection.request(method, path)
        reply = connection.getresponse()
        return reply.read().decode(), reply


def test_the_token_lets_in_and_nothing_but_reading_is_answered(server: ViewServer) -> None:
    state, _ = asked(server, f"/{server.token}/state")
    [run] = json.loads(state)["runs"]
    assert (run["rows"], run["items"], run["state"]) == (5, 6, "stopped")
    page, reply = asked(server, f"/{server.token}/")
    assert page == server.view.page.html
    assert reply.headers["Content-Security-Policy"] == f"{server.view.page.policy}; frame-ancestors 'none'"
    wrong = "x" * len(server.token)
    for path in (f"/{wrong}/", f"/{wrong}/state", "/", "/state", f"/{server.token}", f"/{server.token}/../run.json"):
        _, reply = asked(server, path)
        assert reply.status == 404, path
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        _, reply = asked(server, f"/{server.token}/", method)
        assert reply.status == 501, method
    with pytest.raises(ServiceError, match=f"port {server.server_port}: .*Name another with --port"):
        ViewServer(server.view, server.server_port)


def test_a_folder_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["view", str(tmp_path / "nowhere")])
    assert isinstance(done.exception, RunError)
    assert "no folder" in str(done.exception)
