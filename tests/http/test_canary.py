"""A key is nowhere but in the header of a request: not in a file, a log, an error, a traceback, a reply."""

import gc
import logging
import os
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from pluralrm.core import Failure
from pluralrm.errors import ServiceError
from pluralrm.http import Service, Settings, parse_address
from tests.fake_chat import Action, FakeChat, Seen, reset, say, status, truncated
from tests.http.clock import FakeClock
from tests.http.test_processes import ROOT
from tests.http.test_service import ask, call, read

CANARY = "sk-canary-77/19+zq=Wx0"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)


def _echo(code: int) -> Action:
    return status(code, f"Incorrect API key: {CANARY} ({CANARY!r}). Location {CANARY}", Location=f"http://x/{CANARY}")


def _files(folder: Path) -> str:
    return "\n".join(path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file())


def _run(server: FakeChat, folder: Path) -> str:
    """Return everything that a run shows: outcomes, its error with the whole traceback, the service's own fields."""
    settings = Settings(cache=folder, record=folder / "tape.jsonl", attempts=2, attempt_seconds=5)
    shown = []
    with Service(parse_address(server.url), settings, model="m", clock=FakeClock()) as service:
        try:
            shown += [repr(outcome) for outcome in service.replies(map(call, range(4)), read)]
        except ServiceError:
            shown.append(traceback.format_exc())
        shown += [repr(service), repr(vars(service)), repr(settings), repr(service.address)]
    return "\n".join(shown)


@pytest.mark.parametrize(
    "answer", [_echo(401), _echo(500), _echo(400), _echo(302), reset, truncated(say(CANARY * 9)), say(f"Key: {CANARY}")]
)
def test_the_key_is_nowhere_whatever_the_server_does(
    answer: Action, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    with FakeChat(lambda _: answer) as server:
        shown = _run(server, tmp_path)
        assert server.requests[0].headers["authorization"] == f"Bearer {CANARY}"
    out, err = capfd.readouterr()
    for place in (shown, _files(tmp_path), caplog.text, out, err):
        assert CANARY not in place
        assert CANARY[:12] not in place


def test_a_search_that_finds_nothing_could_have_found_it(tmp_path: Path) -> None:
    with FakeChat(lambda seen: say(seen.prompt)) as server:
        assert "'2'" in _run(server, tmp_path)
    assert '"2"' in _files(tmp_path)


def test_a_crash_shows_no_key(tmp_path: Path) -> None:
    with FakeChat() as server:
        command = [
            sys.executable,
            "-X",
            "faulthandler",
            "-m",
            "tests.http.child",
            server.url,
            str(tmp_path),
            "0",
            "4",
            "2",
            "x",
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=dict(os.environ))
        assert server.requests[0].headers["authorization"].endswith(CANARY)
    assert done.returncode == 1
    assert "RuntimeError: a bug" in done.stderr
    assert CANARY[:12] not in done.stdout + done.stderr + _files(tmp_path)


def test_a_key_is_sent_to_the_server_that_was_named_and_to_no_other() -> None:
    got: list[Seen] = []

    def thief(seen: Seen) -> Action:
        got.append(seen)
        return say("B")

    with FakeChat(thief) as other:
        moved = status(307, "moved", Location=f"{other.url}/chat/completions")
        with FakeChat(lambda _: moved) as server, pytest.raises(ServiceError, match="redirects are not followed"):
            ask(server)
    assert got == []


def test_a_failure_in_the_connection_names_no_key() -> None:
    with FakeChat() as server:
        pass
    with Service(parse_address(server.url), Settings(attempts=1), clock=FakeClock()) as service:
        [outcome] = service.replies([call(1)], read)
    assert isinstance(outcome, Failure)
    assert CANARY not in outcome.detail
    gc.collect()
