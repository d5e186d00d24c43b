"""Connections that send nothing, half a head, or come one too many: raw sockets, and what they are told."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from pluralrm.serve.client import RewardClient
from pluralrm.serve.server import ServerLimits
from tests.serve.running import asked, running
from tests.serve.test_server import Slow, about, server_of
from tests.serve.test_strangers import begun, connected

HEAD = b"GET /health HTTP/1.1\r\nhost: x\r\n"
SHORT = ServerLimits(head_seconds=1, seconds=2)


def all_said(connection: socket.socket) -> bytes:
    """Return everything until the other side has closed; the time-out of the socket fails the test."""
    said = b""
    while chunk := connection.recv(65_536):
        said += chunk
    return said


def answer(connection: socket.socket) -> bytes:
    """Return one whole answer of a connection that stays open."""
    said = b""
    while b"\r\n\r\n" not in said:
        said += connection.recv(65_536)
    head, _, body = said.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65_536)
    return head + body


@contextmanager
def trickling(connection: socket.socket, data: bytes) -> Iterator[None]:
    """Send a byte now and then until nobody takes it any more."""
    import threading

    def sends() -> None:
        try:
            for place in range(len(data)):
                connection.sendall(data[place : place + 1])
                time.sleep(0.02)
        except OSError:
            return

    thread = threading.Thread(target=sends)
    thread.start()
    yield
    thread.join(240)
    assert not thread.is_alive()


@pytest.mark.parametrize("sent", [b"", b"G", HEAD, b"POST /score HTTP/1.1\r\ncontent-length: 10\r\n"])
def test_half_a_head_is_told_that_it_is_slow_and_closed(sent: bytes) -> None:
    with running(server_of(Slow(), limits=SHORT)) as url, connected(url) as slow:
        slow.sendall(sent)
        head, _, body = all_said(slow).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408")
        assert b"retry-after: 1" in head
        assert json.loads(body)["error"]["type"] == "slow"
        assert "pluralrm_connections_slow_total 1\n" in asked(url, "/metrics", None)[1]


def test_a_byte_now_and_then_does_not_put_it_off() -> None:
    sent = HEAD + b"x-letter: " + b"a" * 2000
    with running(server_of(Slow(), limits=SHORT)) as url, connected(url) as slow, trickling(slow, sent):
        assert all_said(slow).startswith(b"HTTP/1.1 408")


def test_half_the_head_of_a_second_request_is_not_waited_for_either() -> None:
    """Its connection is an old one that was answered before."""
    with running(server_of(Slow(), limits=SHORT)) as url, connected(url) as slow:
        slow.sendall(HEAD + b"\r\n")
        assert answer(slow).startswith(b"HTTP/1.1 200")
        slow.sendall(HEAD)
        assert all_said(slow).startswith(b"HTTP/1.1 408")


def test_the_rest_of_a_body_that_was_answered_is_not_waited_for_either() -> None:
    with running(server_of(Slow(), limits=SHORT)) as url, begun(url, b'{"rollouts"', 100_000) as slow:
        with trickling(slow, b"a" * 2000):
            said = answer(slow)
            assert said.startswith(b"HTTP/1.1 408")
            assert b"the body did not arrive" in said
            with suppress(ConnectionResetError):
                assert slow.recv(65_536) == b""
        assert "pluralrm_connections_slow_total 1\n" in asked(url, "/metrics", None)[1]


def test_a_head_that_comes_in_two_is_a_head() -> None:
    with running(server_of(Slow(), limits=ServerLimits(head_seconds=60))) as url, connected(url) as client:
        client.sendall(HEAD)
        time.sleep(0.1)
        client.sendall(b"\r\n")
        assert answer(client).startswith(b"HTTP/1.1 200")


def test_work_that_takes_longer_than_a_head_may_is_waited_for() -> None:
    limits = ServerLimits(head_seconds=1)
    with running(server_of(Slow(seconds=2.5), limits=limits)) as url:
        assert asked(url, "/score", about("Q?", "rye"))[1]["scores"] == [[3.0]]


def test_a_kept_connection_may_rest_between_two_steps() -> None:
    """For longer than a head may take: nothing was begun."""
    with running(server_of(Slow(), limits=ServerLimits(head_seconds=1))) as url:
        client = RewardClient(url, run="r1", seconds=240)
        rollouts = [{"prompt": "Q?", "candidates": ["rye"]}]
        assert client.rewards(rollouts) == [[3.0]]
        place = client._idle[0].sock.getsockname()
        time.sleep(2.5)
        assert client.rewards(rollouts) == [[3.0]]
        assert client._idle[0].sock.getsockname() == place
        assert client.told.again == 0


def test_one_connection_too_many_is_refused_by_name_and_let_in_when_another_leaves() -> None:
    with running(server_of(Slow(), limits=ServerLimits(connections=3))) as url, ExitStack() as held:
        kept = [held.enter_context(connected(url)) for _ in range(3)]
        for one in kept:
            one.sendall(HEAD + b"\r\n")
            assert answer(one).startswith(b"HTTP/1.1 200")
        status, told, headers = asked(url, "/health", None)
        assert (status, told["error"]["type"], told["error"]["retry"]) == (503, "connections", True)
        assert "3 connections are open" in told["error"]["message"]
        assert headers["retry-after"] == "1"
        kept[0].sendall(HEAD + b"\r\n")  # who is in stays in
        assert answer(kept[0]).startswith(b"HTTP/1.1 200")
        kept[0].close()
        client = RewardClient(url, run="r1", seconds=240)
        assert client.rewards([{"prompt": "Q?", "candidates": ["rye"]}]) == [[3.0]]


def test_a_crowd_of_half_requests_keeps_nobody_out() -> None:
    """Half heads on every connection: a client that comes meanwhile is let in at once, in place of one of them."""
    limits = ServerLimits(connections=20, head_seconds=60)
    with running(server_of(Slow(), limits=limits)) as url, ExitStack() as held:
        for one in [held.enter_context(connected(url)) for _ in range(200)]:
            with suppress(OSError):
                one.sendall(b"POST /score HTTP/1.1\r\nho")
        client = RewardClient(url, run="r1", seconds=240)
        assert client.rewards([{"prompt": "Q?", "candidates": ["rye"]}]) == [[3.0]]
        assert client.told.again == 0
        counted = asked(url, "/metrics", None)[1]
    assert "pluralrm_connections_refused_total 0" in counted


def test_resting_connections_of_one_address_give_way_to_another_address() -> None:
    with running(server_of(Slow(), limits=ServerLimits(connections=6))) as url, ExitStack() as held:
        for one in [held.enter_context(connected(url)) for _ in range(6)]:
            one.sendall(HEAD + b"\r\n")
            assert answer(one).startswith(b"HTTP/1.1 200")
        status, told, _ = asked(url, "/health", None)  # of the same address: those who are in stay in
        assert (status, told["error"]["type"]) == (503, "connections")
        host, port = url.removeprefix("http://").split(":")
        for _ in range(2):
            other = held.enter_context(socket.create_connection((host, int(port)), 10, ("127.0.0.2", 0)))
            other.sendall(HEAD + b"\r\n")
            assert answer(other).startswith(b"HTTP/1.1 200")


def test_who_is_refused_while_sending_much_still_reads_why() -> None:
    limits = ServerLimits(connections=1)
    with running(server_of(Slow(), limits=limits)) as url, connected(url) as kept:
        kept.sendall(HEAD + b"\r\n")
        assert answer(kept).startswith(b"HTTP/1.1 200")
        status, told, _ = asked(url, "/score", about("Q?", "a" * 200_000))
    assert (status, told["error"]["type"]) == (503, "connections")
