"""A server beside a replica: on loopback, with a key that no command line shows, and never left behind."""

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pluralrm.cluster.replicas import ENGINE_KEY, EngineProcess, engine_command
from pluralrm.errors import ModelError, SpecError
from tests.fake_engine import arguments, command, processes


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENGINE_KEY, "")


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + 240
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def status(url: str, key: str) -> int:
    with closing(http.client.HTTPConnection(urlsplit(url).netloc)) as connection:
        connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})
        return connection.getresponse().status


@pytest.mark.ray  # three processes each, and no Ray
def test_it_answers_with_its_key_alone_and_says_when_it_ends(tmp_path: Path) -> None:
    words: list[str] = []
    ended = threading.Event()

    def hear(text: str) -> None:
        words.append(text)
        ended.set()

    engine = EngineProcess(command(tmp_path), "m", hear)
    key = os.environ[ENGINE_KEY]
    assert len(key) == 64
    assert [status(engine.url, text) for text in (key, "", "f" * 64)] == [200, 401, 401]
    [process] = processes(tmp_path)
    assert not [
        place
        for place in Path("/proc").iterdir()
        if place.name.isdigit() and key.encode() in arguments(int(place.name))
    ]
    os.kill(process, signal.SIGKILL)
    assert ended.wait(240)
    assert words == ["it said nothing"]
    engine.close()


_HOLDER = """
import sys, time
from pathlib import Path
from pluralrm.cluster.replicas import EngineProcess
from tests.fake_engine import command
engine = EngineProcess(command(Path(sys.argv[1])), "m", print)
time.sleep(600)
"""


@pytest.mark.ray
def test_it_ends_with_the_process_that_started_it_however_that_ends(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", _HOLDER, str(tmp_path)], cwd=Path(__file__).parents[1])
    until(lambda: processes(tmp_path))
    holder.kill()
    holder.wait()
    until(lambda: not processes(tmp_path))
    engine = EngineProcess(command(tmp_path), "m", lambda _: os.abort())
    assert processes(tmp_path)
    engine.close()
    until(lambda: not processes(tmp_path))


@pytest.mark.ray
def test_one_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"tests.fake_engine broken .* does not answer: no such weights"):
        EngineProcess(command(tmp_path), "broken", lambda _: os.abort())


def test_its_command_says_where_model_and_port_go(monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine_command() == "vllm serve {model} --host 127.0.0.1 --port {port}"
    monkeypatch.setenv("PLURALRM_ENGINE", "serve {model}")
    with pytest.raises(SpecError, match=r"wanted a command with \{model\} and \{port\}"):
        engine_command()
