"""Clients fail closed: no reward from a server of another run, none made up while there is none."""

import asyncio
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.core import Failure
from pluralrm.errors import OutageError, ServiceError
from pluralrm.serve import client as reward_client
from pluralrm.serve import trainers
from pluralrm.serve.client import RewardClient
from tests.builders import bakery
from tests.serve.running import Child, running
from tests.serve.test_server import TOKEN, Slow, server_of


def rollout(*candidates: str, prompt: str = "Which flour?") -> dict[str, object]:
    return {"prompt": prompt, "candidates": list(candidates)}


def test_rewards_come_in_the_order_in_which_they_were_asked_for() -> None:
    with running(server_of(Slow())) as url:
        client = RewardClient(url, run="r1")
        found = client.rewards([rollout("a", "bbb"), rollout("cc", prompt="Which oven?"), rollout("a")])
    assert found == [[1.0, 3.0], [2.0], [1.0]]
    assert client.told.rewards == 4


def test_a_server_of_another_run_gives_nothing() -> None:
    with running(server_of(Slow())) as url:
        with pytest.raises(ServiceError, match="'r1', wanted 'r2'"):
            RewardClient(url, run="r2").rewards([rollout("a")])
        with pytest.raises(ServiceError, match="serve --run NAME"):
            RewardClient(url, run="")


def test_a_server_that_scores_otherwise_gives_nothing() -> None:
    """The same run, another model or condition: the hash of all that shapes a score differs."""
    server = server_of(Slow())
    other = server_of(Slow(spec="slow-too"))
    with running(server) as url:
        expected = str(server.identity.hash)
        assert RewardClient(url, run="r1", identity=expected).rewards([rollout("a")]) == [[1.0]]
    with running(other) as url, pytest.raises(ServiceError, match="model, condition or benchmark differs"):
        RewardClient(url, run="r1", identity=expected).rewards([rollout("a")])


def test_a_server_that_was_replaced_between_two_calls_gives_nothing(tmp_path: Path) -> None:
    first = Child("longest", "--run", "r1", cwd=tmp_path)
    client = RewardClient(first.url, run="r1", seconds=240)
    assert client.rewards([rollout("abc")]) == [[3.0]]
    first.kill()
    second = Child("shortest", "--run", "r1", cwd=tmp_path, port=first.port)
    with pytest.raises(ServiceError, match="differs"):
        client.rewards([rollout("abc")])
    second.kill()


def test_a_server_that_lies_about_its_hash_is_found_out() -> None:
    class Liar(RewardClient):
        def _once(self, method: str, path: str, body: bytes, left: float) -> tuple[int, dict[str, str], bytes]:
            status, headers, answer = super()._once(method, path, body, left)
            told = json.loads(answer)
            if path == "/health":
                told["identity"]["model"] = "another"
            return status, headers, json.dumps(told).encode()

    server = server_of(Slow())
    with running(server) as url, pytest.raises(ServiceError, match="differs"):
        Liar(url, run="r1", identity=server.identity.hash).rewards([rollout("a")])


@pytest.mark.parametrize("policy", ["raise", "mask"])
def test_a_reward_that_failed_is_an_error_or_none_and_never_a_number(policy: str) -> None:
    model = Slow(moods={"long": Failure("too_long", "9,000 tokens")})
    with running(server_of(model)) as url:
        client = RewardClient(url, run="r1", policy=policy)  # type: ignore[arg-type] # of the parameters
        if policy == "raise":
            with pytest.raises(ServiceError, match="too_long"):
                client.rewards([rollout("a", "long")])
        else:
            assert client.rewards([rollout("a", "long")]) == [[1.0, None]]
            assert client.told.reasons == {"too_long": 1}


@pytest.mark.parametrize("policy", ["raise", "mask"])
def test_without_a_server_there_is_no_reward(policy: str) -> None:
    with running(server_of(Slow())) as url:
        client = RewardClient(url, run="r1", policy=policy, seconds=240)  # type: ignore[arg-type] # as above
        client.handshake()
    client._seconds = 1.0
    if policy == "raise":
        with pytest.raises(OutageError, match="no answer within 1 s"):
            client.rewards([rollout("a")])
    else:
        assert client.rewards([rollout("a", "b")]) == [[None, None]]
        assert client.told.reasons == {"transport": 2}


def test_a_client_comes_back_to_a_full_server_until_it_has_room() -> None:
    from pluralrm.serve.server import ServerLimits

    model = Slow(seconds=0.2)
    with running(server_of(model, limits=ServerLimits(room=4, batch=4))) as url:
        client = RewardClient(url, run="r1", seconds=240)
        client.handshake()
        with ThreadPoolExecutor(16) as threads:
            prompts = [f"Q{place}?" for place in range(16)]
            found = list(threads.map(lambda prompt: client.rewards([rollout("a", "bb", prompt=prompt)]), prompts))
    assert found == [[[1.0, 2.0]]] * 16
    assert client.told.again > 0


def test_killed_and_started_again_the_server_finishes_every_request_once_more_asked(tmp_path: Path) -> None:
    """kill -9 while clients ask: they come back, and every reward is the one that the model gives."""
    words = ("longest", "--run", "r1", "-b", "pocket-prb", "-c", "raw:3")
    server = Child(*words, cwd=tmp_path)
    client = RewardClient(server.url, run="r1", identity=str(server.told["identity_hash"]), seconds=240)
    items = load_benchmark("pocket-prb").items
    asked = [(item.id, "x" * (1 + place % 40)) for place in range(400) for item in [items[place % len(items)]]]
    done: list[int] = []

    def reward(one: tuple[str, str]) -> float | None:
        [[found]] = client.rewards([{"item": one[0], "candidates": [one[1]]}])
        done.append(1)
        return found

    with ThreadPoolExecutor(16) as threads:
        futures = [threads.submit(reward, one) for one in asked]
        for share in (60, 180):
            while len(done) < share:
                time.sleep(0.005)
            server.kill()
            server = Child(*words, cwd=tmp_path, port=server.port)
        found = [future.result() for future in futures]
    server.kill()
    assert found == [float(len(text)) for _, text in asked]
    assert client.told.again > 0


def test_sigterm_lets_the_server_finish_and_end_with_0(tmp_path: Path) -> None:
    server = Child("longest", "--run", "r1", cwd=tmp_path)
    assert RewardClient(server.url, run="r1").rewards([rollout("abc")]) == [[3.0]]
    assert server.kill(signal.SIGTERM) in {0, -signal.SIGTERM}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> "Callable[[str, str], None]":
    def told(url: str, run: str) -> None:
        trainers._client.cache_clear()
        monkeypatch.setenv("PLURALRM_REWARD_URL", url)
        monkeypatch.setenv("PLURALRM_REWARD_RUN", run)
        monkeypatch.setenv("PLURALRM_REWARD_TOKEN", TOKEN)

    return told


def test_verl_asks_many_at_once_and_gets_its_own(environment: "Callable[[str, str], None]") -> None:
    model = Slow(seconds=0.1)
    with running(server_of(model, bench=bakery(4), token=TOKEN)) as url:
        environment(url, "r1")

        async def all_of_them() -> list[dict[str, float]]:
            rows = [
                trainers.compute_score("prb", "a" * place, None, {"item": f"i{place % 4:04}"}) for place in range(64)
            ]
            return list(await asyncio.gather(*rows))

        found = asyncio.run(all_of_them())
    assert found == [{"score": float(place)} for place in range(64)]
    assert len(model.asked) < 32  # they were scored together


def test_verl_stops_where_a_reward_failed(environment: "Callable[[str, str], None]") -> None:
    with running(server_of(Slow(moods={"": Failure("empty")}), token=TOKEN)) as url:
        environment(url, "r1")
        with pytest.raises(ServiceError, match="empty"):
            asyncio.run(trainers.compute_score("prb", "", None, {"prompt": "Which flour?"}))
        with pytest.raises(ServiceError, match="neither an item nor a prompt"):
            asyncio.run(trainers.compute_score("prb", "rye", None, {}))


def test_trl_gets_one_reward_per_completion_and_none_for_one_that_failed(
    environment: "Callable[[str, str], None]",
) -> None:
    with running(server_of(Slow(moods={"long": Failure("too_long")}), bench=bakery(3), token=TOKEN)) as url:
        environment(url, "r1")
        reward = trainers.trl_reward_func()
        spoken = [[{"role": "assistant", "content": text}] for text in ("a", "long", "ccc")]
        assert reward(["P"] * 3, spoken, item=["i0000", "i0001", "i0002"], completion_ids=[]) == [1.0, None, 3.0]
        assert reward(["P"], ["dd"]) == [2.0]
        with pytest.raises(ServiceError, match="wanted one each"):
            reward(["P"], ["dd"], item=["i0000", "i0001"])


def test_a_left_over_server_is_refused_before_training_begins(environment: "Callable[[str, str], None]") -> None:
    with running(server_of(Slow(), token=TOKEN)) as url:
        environment(url, "the-next-run")
        with pytest.raises(ServiceError, match="left over"):
            trainers.trl_reward_func()
        with pytest.raises(ServiceError, match="left over"):
            asyncio.run(trainers.compute_score("prb", "a", None, {"prompt": "Q?"}))


def test_the_reward_functions_import_no_server(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys; sys.modules.update(dict.fromkeys(['starlette', 'uvicorn', 'fastapi', 'httpx2', 'torch']));"
        "import pluralrm.serve.trainers"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False).returncode == 0


@pytest.mark.hf
def test_openrlhf_gets_tensors_without_what_the_tokenizer_wrote(
    environment: "Callable[[str, str], None]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLURALRM_REWARD_END", "<|im_end|>")
    with running(server_of(Slow(), bench=bakery(3), token=TOKEN)) as url:
        environment(url, "r1")
        queries, prompts = ["<u>Q?<a>rye<|im_end|>\n", "<u>P?<a>spelt"], ["<u>Q?<a>", "<u>P?<a>"]
        found = trainers.reward_func(queries, prompts, ["i0000", ""])
    assert found["rewards"].tolist() == [3.0, 5.0]  # type: ignore[attr-defined]


def test_a_client_in_many_threads_shares_no_connection() -> None:
    with running(server_of(Slow())) as url:
        client = RewardClient(url, run="r1")
        client.handshake()
        wrong: list[object] = []

        def some(start: int) -> None:
            places = range(start, start + 20)
            wrong.extend(place for place in places if client.rewards([rollout("a" * place)]) != [[float(place)]])

        threads = [threading.Thread(target=some, args=(1 + 20 * number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
    assert os.environ.get("PLURALRM_REWARD_URL") is None


@pytest.mark.parametrize("declared", [True, False])
def test_the_seconds_of_a_client_are_wall_clock_however_slowly_an_answer_drips(declared: bool) -> None:
    """A byte now and then put the socket's own time-out off: a client of 3 s waited for 102."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        stop = threading.Event()

        def serves() -> None:
            while not stop.is_set():
                try:
                    taken, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=drips, args=(taken,), daemon=True).start()

        def drips(taken: socket.socket) -> None:
            length = b"content-length: 4000\r\n" if declared else b""
            with suppress(OSError), taken:
                taken.recv(65_536)
                taken.sendall(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n")
                while not stop.is_set():
                    taken.sendall(b" ")
                    time.sleep(0.1)

        threading.Thread(target=serves, daemon=True).start()
        began = time.monotonic()
        with pytest.raises(OutageError, match="did not arrive whole in time"):
            RewardClient(f"http://127.0.0.1:{listening.getsockname()[1]}", run="r1", seconds=1).handshake()
        stop.set()
    assert time.monotonic() - began < 30


def test_an_answer_of_a_hundred_thousand_brackets_is_a_service_error() -> None:
    for answer in ("[" * 100_000, '{"identity": ' + "[" * 100_000, '{"scores": ' + "[" * 100_000):
        with pytest.raises(ServiceError, match="sent no scores"):
            reward_client._scores(answer.encode(), [1])
        with pytest.raises(ServiceError, match="no reward server"):
            reward_client._identity(answer.encode())
