"""How a server ends: by a bug it ends itself, asked to it finishes, and what hangs does not keep it."""

import os
import signal
import threading
import time
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

import pytest

from pluralrm.errors import PluralrmError
from pluralrm.serve.client import RewardClient
from tests.forked import command
from tests.serve.running import Child, asked, begun


def one(text: str) -> list[dict[str, object]]:
    return [{"prompt": "Q?", "candidates": [text, ""]}]  # two, for a class of one's own may compare them


def test_a_server_that_cannot_score_any_more_ends_and_says_so_by_its_exit_code(tmp_path: Path) -> None:
    """It does not linger with 503, for whoever watches the process to take it for a server."""
    server = Child("python:tests.serve.models:Panics", "--run", "r1", cwd=tmp_path)
    client = RewardClient(server.url, run="r1", seconds=240, policy="mask")
    assert client.rewards(one("rye")) == [[3.0, 0.0]]
    client._seconds = 1.0
    assert client.rewards(one("panic")) == [[None, None]]
    assert server.process.wait(240) == 1
    server.close()


def test_a_model_that_never_comes_back_does_not_keep_an_impatient_server(tmp_path: Path) -> None:
    server = Child("python:tests.serve.models:Stuck", "--run", "r1", cwd=tmp_path)
    waits = threading.Thread(target=_asks_in_vain, args=(server.url,))
    waits.start()
    client = RewardClient(server.url, run="r1", seconds=240)
    client.handshake()
    while not (tmp_path / "taken").exists():
        assert server.process.poll() is None
        time.sleep(0.05)
    server.process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert server.process.poll() is None  # it waits for what it took
    assert server.kill(signal.SIGINT) != 0
    waits.join(240)


def _asks_in_vain(url: str) -> None:
    with suppress(OSError, HTTPException):  # the server is gone
        asked(url, "/score", {"rollouts": one("rye")})


def test_clients_that_keep_asking_while_it_ends_get_rewards_or_an_error(tmp_path: Path) -> None:
    server = Child("longest", "--run", "r1", cwd=tmp_path)
    found: list[tuple[int, object]] = []
    ended = threading.Event()

    def asks(size: int) -> None:
        client = RewardClient(server.url, run="r1", seconds=8)
        while not ended.is_set():
            try:
                found.append((size, client.rewards(one("x" * size))[0][0]))
            except PluralrmError as exc:
                found.append((size, exc))
                return

    threads = [threading.Thread(target=asks, args=(size,)) for size in range(1, 9)]
    for thread in threads:
        thread.start()
    while len(found) < 200:
        assert all(thread.is_alive() for thread in threads), found
        time.sleep(0.005)
    assert server.kill(signal.SIGTERM) in {0, -signal.SIGTERM}
    for thread in threads:
        thread.join(240)
    ended.set()
    assert {type(said) for _, said in found} >= {float}
    assert all(said == size for size, said in found if not isinstance(said, PluralrmError))
    assert sum(isinstance(said, PluralrmError) for _, said in found) == len(threads)


@pytest.mark.parametrize("shown", ["raw:3", "swapped:3"])
def test_a_server_started_again_is_the_same_to_its_clients(shown: str, tmp_path: Path) -> None:
    """Whatever Python's hash seed is (that of these tests, and 7), and wherever it is started."""
    hashes = set()
    for seed in ("", "7"):
        place = tmp_path / f"seed{seed}"
        place.mkdir()
        words = ("bm25", "-b", "pocket-prb", "-c", shown, "--run", f"r{seed}")
        server = Child(*words, cwd=place, environment={"PYTHONHASHSEED": seed} if seed else None)
        hashes.add(server.told["identity_hash"])
        server.kill()
    assert len(hashes) == 1


def test_a_run_is_printed_as_the_shell_reads_it(tmp_path: Path) -> None:
    """`source server.env` runs what stands there."""
    import subprocess

    run = "a;touch${IFS}gone;'b'"
    process, output = begun(["serve", "longest", "--run", run], tmp_path, {})
    with output:
        lines = "".join(output.readline() for _ in range(3))
    process.kill()
    process.wait(240)
    script = f'{lines}\nprintf %s "$PLURALRM_REWARD_RUN"'
    said = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True, env=os.environ
    )
    assert said.stdout == run
    assert not (tmp_path / "gone").exists()
    refused = command(["serve", "longest", "--run", "a b"], cwd=tmp_path, environment={})
    assert refused.returncode == 2
    assert "--run" in refused.stderr
