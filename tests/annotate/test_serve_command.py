"""`pluralrm annotate serve`: links shown once, one server to a plan, no token or judgment in the clear."""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pluralrm.annotate.plan import write_plan
from pluralrm.annotate.service import AnnotationDesk, OpenServer, ServerAddress, serve
from pluralrm.cli import app
from pluralrm.errors import MissingExtraError, PlanError, PluralrmError, ServiceError
from tests.annotate.plans import pair_plan
from tests.annotate.serving import Child, ask

PLAN = pair_plan(2, each=1, items=4, checks=0, repeats=0, examples=0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_plan(PLAN, tmp_path / "plan")
    return tmp_path / "plan"


@pytest.fixture
def opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> "Openings":
    return Openings(folder, monkeypatch)


class Openings:
    """Serves begun and ended at once: what they would have printed."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from pluralrm.annotate import server

        def ends(desk: AnnotationDesk, *_: object, **__: object) -> None:
            self.hashes = desk.store.keys()

        self._folder = folder
        monkeypatch.setattr(server, "run", ends)

    def __call__(self, address: ServerAddress, *renew: str) -> OpenServer:
        found: list[OpenServer] = []
        serve(self._folder, address, renew=renew, opened=found.append)
        return found[0]


def test_links_are_made_once_and_again_only_where_asked(opened: Openings) -> None:
    first = opened(ServerAddress(port=0))
    assert [link.whose for link in first.links] == ["a01", "a02", "admin"]
    assert len({link.url.partition("#")[2] for link in first.links}) == 3
    kept = opened.hashes
    assert opened(ServerAddress(port=0)).links == []
    assert opened.hashes == kept
    assert [link.whose for link in opened(ServerAddress(port=0), "a02").links] == ["a02"]
    assert {name for name, value in opened.hashes.items() if kept[name] != value} == {"annotator:a02"}
    assert [link.whose for link in opened(ServerAddress(port=0), "all").links] == ["a01", "a02", "admin"]
    with pytest.raises(PlanError, match=r"not an annotator of this plan\. Did you mean 'a02'"):
        opened(ServerAddress(port=0), "a022")


def test_links_begin_with_the_public_address_and_hide_the_token_from_every_server(opened: Openings) -> None:
    found = opened(ServerAddress(port=0, public="https://lab.example/annotate"))
    assert found.url == "https://lab.example/annotate/"
    assert found.links[0].url.startswith("https://lab.example/annotate/#")
    assert found.links[-1].url.startswith("https://lab.example/annotate/admin#")


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "::", "example.org"])  # noqa: S104
def test_another_address_than_loopback_wants_tls_and_to_know_how_it_is_reached(host: str) -> None:
    with pytest.raises(PlanError, match="without TLS"):
        ServerAddress(host=host).check()
    ServerAddress(host=host, proxy="192.0.2.1", public="https://lab.example/").check()
    if host in {"0.0.0.0", "::"}:  # noqa: S104
        with pytest.raises(PlanError, match="--public-url"):
            ServerAddress(host=host, proxy="192.0.2.1").check()


def test_a_certificate_that_is_none_is_said_before_anybody_gets_a_link(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="both a certificate and its key"):
        ServerAddress(certificate=Path("c")).check()
    for text in (None, "this is no certificate"):
        if text:
            (tmp_path / "c").write_text(text)
        with pytest.raises(PlanError, match="cannot use the certificate"):
            ServerAddress(certificate=tmp_path / "c", key=tmp_path / "c").check()


def test_loopback_needs_none() -> None:
    for host in ("127.0.0.1", "::1", "localhost", "127.8.8.8"):
        ServerAddress(host=host).check()
    assert ServerAddress(host="::1").url(81) == "http://[::1]:81/"
    with pytest.raises(PlanError, match="not an address that people can open"):
        ServerAddress(public="lab.example").check()


def test_a_port_that_is_taken_is_said(opened: Openings, folder: Path) -> None:
    child = Child(folder)
    try:
        with pytest.raises(PlanError, match="another server has this plan"):
            opened(ServerAddress(port=0))
        write_plan(PLAN, folder.parent / "second")
        with pytest.raises(ServiceError, match="cannot listen at"):
            serve(folder.parent / "second", ServerAddress(port=child.port), opened=lambda _: None)
    finally:
        child.kill()


def test_links_go_into_a_file_of_the_owner_alone(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "links.csv"
    child = Child(folder, words=["--links", str(file)])
    try:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        head, *rows = [line.split(",") for line in file.read_text().splitlines()]
        assert head == ["annotator", "link"]
        for name, link in rows:
            page, _, token = link.partition("#")
            path = "/api/admin/progress" if name == "admin" else "/api/state"
            assert page.startswith(f"http://127.0.0.1:{child.port}/")
            assert ask(child.port, path, token=token).status == 200
    finally:
        child.kill()
    again = CliRunner().invoke(app, ["annotate", "serve", str(folder), "--links", str(file)])
    assert isinstance(again.exception, PluralrmError)
    assert "is there already" in str(again.exception)


def test_ctrl_c_ends_it_and_says_what_is_kept(folder: Path) -> None:
    command = [sys.executable, "-c", "from pluralrm.cli import main; main()", "annotate", "serve", str(folder)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    child = subprocess.Popen([*command, "--port", "0", "--json"], stdout=-1, stderr=-1, text=True, env=environment)
    assert child.stdout is not None
    printed = ""
    while not printed.endswith("\n}\n"):
        printed += child.stdout.readline()
    told = json.loads(printed)
    assert list(told["links"]) == ["a01", "a02", "admin"]
    port = int(told["url"].rsplit(":", 1)[1].strip("/"))
    assert ask(port, "/api/state", token="").status == 401
    child.send_signal(signal.SIGINT)
    _, complaint = child.communicate(timeout=240)
    assert child.returncode == 130
    assert "Every judgment is kept" in complaint
    assert "Traceback" not in complaint


def test_without_the_extra_its_name_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pluralrm.annotate.server", raising=False)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    with pytest.raises(MissingExtraError, match=r"pluralrm\[annotate\]"):
        serve(folder, ServerAddress(port=0), opened=lambda _: None)


def test_a_folder_without_a_plan_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="annotate plan"):
        serve(tmp_path, ServerAddress(port=0), opened=lambda _: None)
