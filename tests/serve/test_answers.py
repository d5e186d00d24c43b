"""What a client makes of a server that is no reward server, or a broken one: an error by name, and never a reward."""

import http.server
import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pluralrm.core import Failure
from pluralrm.errors import ServiceError
from pluralrm.serve import trainers
from pluralrm.serve.client import IDENTITY_HEADER, RUN_HEADER, Identity, RewardClient
from tests.serve.running import running
from tests.serve.test_server import Slow, server_of

IDENTITY = Identity("r1", "m", "none", "", "", {}, ())


@contextmanager
def saying(health: bytes, scores: bytes) -> Iterator[str]:
    """A server that says what it is told to, with the headers of ours."""

    class Says(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say(health)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self._say(scores)

        def log_message(self, *_: object) -> None:
            pass

        def _say(self, body: bytes) -> None:
            self.send_response(200)
            for name, value in {RUN_HEADER: "r1", IDENTITY_HEADER: IDENTITY.hash, "content-length": len(body)}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(body)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Says) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def health() -> bytes:
    return json.dumps({"identity": IDENTITY.to_json(), "authorised": True}).encode()


def asked(url: str, *candidates: str) -> list[list[float | None]]:
    client = RewardClient(url, run="r1", seconds=5, policy="mask")
    return client.rewards([{"prompt": "Q?", "candidates": list(candidates)}])


@pytest.mark.parametrize(
    "body", [b"", b"ok", b"[]", b"{}", b'{"identity": 1}', b'{"identity": {"run": "r1"}}', b"\xff"]
)
def test_what_is_no_reward_server_is_said_to_be_none(body: bytes) -> None:
    with saying(body, b"{}") as url, pytest.raises(ServiceError, match="no reward server"):
        asked(url, "a")


@pytest.mark.parametrize(
    "scores",
    [
        "[[NaN]]",
        "[[Infinity]]",
        "[[1e400]]",
        "[[-1e400]]",
        f"[[{10**400}]]",
        "[[true]]",
        '[["1.0"]]',
        "[[null]]",
        "[[{}]]",
        '[[{"failure": "mood"}]]',
        "[[]]",
        "[]",
        "[[1.0, 2.0]]",
        "[[1.0], [2.0]]",
        "null",
        "[1.0]",
    ],
)
def test_what_is_no_finite_number_for_every_answer_is_no_reward(scores: str) -> None:
    """Under the policy to mask, too: a server that does not keep to its word is not to be asked again."""
    with saying(health(), f'{{"scores": {scores}}}'.encode()) as url, pytest.raises(ServiceError, match="sent"):
        asked(url, "a")


@pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b"[]"])
def test_an_answer_without_scores_is_no_reward(body: bytes) -> None:
    with saying(health(), body) as url, pytest.raises(ServiceError, match="sent no scores"):
        asked(url, "a")


def test_numbers_come_back_to_the_last_bit() -> None:
    exact = {"a": 0.1, "b": -0.0, "c": float(np.finfo(np.float32).max), "d": 5e-324, "e": 1 / 3, "f": -1e-17}
    with running(server_of(Slow(moods=dict(exact)))) as url:
        [found] = asked(url, *exact)
        [odd] = RewardClient(url, run="r1").scores([{"prompt": "Q?", "candidates": ["\0", "é" * 3, "🍞", ""]}])
    assert list(map(repr, found)) == list(map(repr, exact.values()))
    assert odd == [1.0, 3.0, 1.0, 0.0]


def test_half_a_letter_is_refused_and_not_scored_as_another() -> None:
    """A lone surrogate is no text; a server that dropped it would score another answer."""
    with running(server_of(Slow())) as url, pytest.raises(ServiceError, match="422"):
        asked(url, "rye \ud83c")


def test_threads_that_come_and_go_leave_no_connection_behind() -> None:
    with running(server_of(Slow())) as url:
        client = RewardClient(url, run="r1")
        client.handshake()
        before = len(list(Path("/dev/fd").iterdir()))
        for _ in range(40):
            thread = threading.Thread(target=client.rewards, args=([{"prompt": "Q?", "candidates": ["a"]}],))
            thread.start()
            thread.join()
        assert len(list(Path("/dev/fd").iterdir())) <= before + 2
        client.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
def test_a_forked_process_reads_no_answer_of_its_parent(tmp_path: Path) -> None:
    """In a program of its own, for a fork of this one would take its threads' locks along."""
    import subprocess

    code = """
import os, sys
from pluralrm.serve.client import RewardClient
client = RewardClient(sys.argv[1], run="r1", seconds=240)
ask = lambda size: client.rewards([{"prompt": "Q?", "candidates": ["x" * size]}])
ask(1)
socket = client._idle[0].sock.getsockname()
child = os.fork()
found = [ask(size) == [[float(size)]] for size in range(2, 60)]
alone = child or client._idle[0].sock.getsockname() != socket
if not child: os._exit(0 if all(found) and alone else 1)
sys.exit(os.waitpid(child, 0)[1] or not all(found))
"""
    with running(server_of(Slow())) as url:
        done = subprocess.run([sys.executable, "-c", code, url], cwd=tmp_path, check=False, timeout=240)
    assert done.returncode == 0


@pytest.mark.parametrize("secret", ["a token", "tok\nen", "token\n", "tökén", "\N{KEY}"])
def test_a_token_that_no_header_holds_is_refused_without_being_quoted(secret: str) -> None:
    for opened in (
        lambda: RewardClient("http://127.0.0.1:1", run="r1", token=secret),
        lambda: server_of(Slow(), token=secret),
    ):
        with pytest.raises(ServiceError, match="ASCII") as found:
            opened()
        assert secret not in str(found.value)


def test_a_token_of_any_printable_sign_is_a_token() -> None:
    token = "".join(map(chr, range(33, 127)))
    with running(server_of(Slow(), token=token)) as url:
        client = RewardClient(url, run="r1", token=token)
        assert client.rewards([{"prompt": "Q?", "candidates": ["rye"]}]) == [[3.0]]


@pytest.mark.parametrize("url", ["http://h:99999", "http://h:x", "ftp://h", "h:80", ""])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ServiceError, match="wanted a URL"):
        RewardClient(url, run="r1")


def test_a_row_of_parquet_is_read_as_it_was_written() -> None:
    """Arrays for lists, None for what a row lacks and another has."""
    rows: list[dict[str, dict[str, object]]] = [
        {"extra_info": {"item": "art/01", "prompt": None, "posts": None}},
        {"extra_info": {"prompt": "Q?", "posts": [{"text": "rye", "category": "baking"}, {"text": "oven"}]}},
    ]
    first, second = pa.Table.from_pylist(rows).to_pandas()["extra_info"] if _has_pandas() else _as_pandas_has(rows)
    assert trainers.rollout(first, "a") == {"item": "art/01", "candidates": ["a"]}
    wanted = {"prompt": "Q?", "posts": [{"text": "rye", "category": "baking"}, {"text": "oven"}], "candidates": ["a"]}
    assert trainers.rollout(second, "a") == wanted
    with running(server_of(Slow(), condition="recent:2")) as url:
        assert RewardClient(url, run="r1").rewards([trainers.rollout(second, "a")]) == [[1.0]]


def _has_pandas() -> bool:
    from importlib.util import find_spec

    return find_spec("pandas") is not None


def _as_pandas_has(rows: list[dict[str, dict[str, object]]]) -> list[dict[str, object]]:
    """What pandas makes of the table, where it is not installed."""
    listed = pa.Table.from_pylist(rows).to_pylist()
    found = [dict(row["extra_info"]) for row in listed]
    return [{**row, "posts": None if row["posts"] is None else np.array(row["posts"], dtype=object)} for row in found]


def test_a_failure_keeps_its_name_on_the_way() -> None:
    with running(server_of(Slow(moods={"long": Failure("too_long", "9,000 tokens")}))) as url:
        [row] = RewardClient(url, run="r1").scores([{"prompt": "Q?", "candidates": ["long", "rye"]}])
    assert row == [Failure("too_long", "9,000 tokens"), 3.0]


def test_trl_asks_about_equal_answers_as_often_as_they_come() -> None:
    with running(server_of(Slow())) as url:
        reward = trainers.trl_reward_func(RewardClient(url, run="r1"))
        assert reward(["Q?"] * 4, ["rye", "rye", "", "rye"]) == [3.0, 3.0, 0.0, 3.0]
