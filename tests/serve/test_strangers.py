"""Requests that are slow, huge, lost or of nobody: each gets a typed error, and no text of a user stands in one."""

import socket
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

import pytest
import uvicorn

from pluralrm.core import Query, Verdict
from pluralrm.errors import OutageError, PluralrmError, ServiceError
from pluralrm.serve.client import RewardClient
from pluralrm.serve.server import ServerLimits, bound
from tests.builders import bakery
from tests.serve.running import asked, running, together
from tests.serve.test_server import TOKEN, Slow, about, server_of

SECRET = "my-own-words-to-nobody"  # noqa: S105 - of these tests


def connected(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=240)


def begun(url: str, body: bytes, length: int) -> socket.socket:
    """Return a connection on which a request has begun, and no more."""
    found = connected(url)
    head = f"POST /score HTTP/1.1\r\nhost: x\r\nx-pluralrm-run: r1\r\ncontent-length: {length}\r\n\r\n"
    found.sendall(head.encode() + body)
    return found


def test_half_a_body_is_not_waited_for_for_ever() -> None:
    with running(server_of(Slow(), limits=ServerLimits(seconds=3))) as url:
        with begun(url, b'{"rollouts"', 1000) as slow, connected(url) as silent:
            silent.sendall(b"POST /score HTTP/1.1\r\nho")
            said = slow.recv(4000)
            assert said.startswith(b"HTTP/1.1 408")
            assert b"retry-after" in said
            assert asked(url, "/score", about("Q?", "rye"))[1]["scores"] == [[3.0]]
        with begun(url, b'{"rollouts"', 1000):
            pass  # and is gone: nothing comes of it
        assert asked(url, "/score", about("Q?", "rye"))[1]["scores"] == [[3.0]]


def test_a_client_that_leaves_while_its_batch_is_computed_costs_nobody_anything() -> None:
    model = Slow(gate=threading.Event())
    body = b'{"rollouts": [{"prompt": "Q?", "candidates": ["gone"]}]}'
    with running(server_of(model)) as url:
        with begun(url, body, len(body)):
            while not model.asked:
                time.sleep(0.005)
        assert model.gate is not None
        threading.Timer(0.3, model.gate.set).start()
        found = together([partial(asked, url, "/score", about("Q?", "r" * place)) for place in range(1, 9)])
        counted = asked(url, "/metrics", None)[1]
    assert [told["scores"] for _, told, _ in found] == [[[float(place)]] for place in range(1, 9)]
    assert "pluralrm_queued_candidates 0" in counted


def test_a_body_that_is_too_large_is_told_to_the_client_that_is_still_sending_it() -> None:
    """And not asked again for minutes, as if the server were gone."""
    with running(server_of(Slow())) as url:
        client = RewardClient(url, run="r1", seconds=240)
        with pytest.raises(ServiceError, match="413") as found:
            client.rewards([{"prompt": "Q?", "candidates": ["a" * 40_000_000]}])
        assert not isinstance(found.value, OutageError)
        assert client.rewards([{"prompt": "Q?", "candidates": ["rye"]}]) == [[3.0]]


def test_more_answers_than_there_is_ever_room_for_are_refused_for_good() -> None:
    """429 would be asked again until the time is over."""
    with running(server_of(Slow(), limits=ServerLimits(room=4))) as url:
        status, told, _ = asked(url, "/score", about("Q?", "a", "b", "c", "d", "e"))
    assert (status, told["error"]["type"], told["error"]["retry"]) == (413, "too_large", False)
    assert "--room" in told["error"]["message"]


@pytest.mark.parametrize("path", ["/score", "/get_reward", "/classify"])
def test_who_names_no_run_gets_nothing(path: str) -> None:
    with running(server_of(Slow())) as url:
        status, told, _ = asked(url, path, about("Q?", "rye"), run="")
        assert (status, told["error"]["type"]) == (400, "no_run")
        status, told, _ = asked(url, f"{path}?run=another", about("Q?", "rye"), run="")
        assert (status, told["error"]["type"]) == (409, "another_run")


def test_a_client_that_can_send_no_header_names_its_run_in_the_address() -> None:
    with running(server_of(Slow())) as url:
        body = {"query": ["Q? rye"], "prompts": ["Q? "], "labels": [""]}
        status, told, _ = asked(url, "/get_reward?run=r1", body, run="")
    assert (status, told["rewards"]) == (200, [3.0])


def test_what_is_no_route_is_said_as_every_other_error() -> None:
    with running(server_of(Slow())) as url:
        assert (asked(url, "/scores", {})[0], asked(url, "/scores", {})[1]["error"]["type"]) == (404, "no_such_route")
        assert (asked(url, "/score", None)[0], asked(url, "/score", None)[1]["error"]["type"]) == (405, "no_such_route")


@dataclass
class Raises:
    """Raises what it is told to, once per query."""

    problem: Exception
    spec: str = "raises"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            if query.candidates:
                raise self.problem
            yield Verdict(())


@pytest.mark.parametrize(
    ("problem", "status", "kind", "retry"),
    [
        (OutageError("the judge is down"), 502, "transport", True),
        (PluralrmError("the judge is unknown"), 500, "model", False),
    ],
)
def test_what_a_model_cannot_do_is_no_number(problem: Exception, status: int, kind: str, *, retry: bool) -> None:
    with running(server_of(Raises(problem))) as url:
        found, told, _ = asked(url, "/score", about("Q?", "rye"))
        assert (found, told["error"]["type"], told["error"]["retry"]) == (status, kind, retry)
        assert asked(url, "/health", None)[0] == 200


def test_a_model_that_gives_too_few_verdicts_gives_none() -> None:
    @dataclass
    class Tired:
        spec: str = "tired"

        def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
            yield Verdict((1.0,) * len(next(iter(queries)).candidates))

    with running(server_of(Tired())) as url:
        body = {"rollouts": [{"prompt": f"Q{place}?", "candidates": ["rye"]} for place in range(3)]}
        status, told, _ = asked(url, "/score", body)
    assert (status, told["error"]["type"]) == (500, "model")
    assert "1 verdicts for 3 queries" in told["error"]["message"]


def test_no_text_of_a_user_and_no_token_is_in_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    """Neither in the answer nor in what the server writes; the requests hold the user's words in every place."""
    post, turn = {"text": SECRET}, {"role": "user", "content": SECRET}
    bodies: list[tuple[str, object]] = [
        ("/score", {"rollouts": [{"prompt": SECRET, "posts": [post, {"text": ""}], "candidates": [SECRET]}]}),
        ("/score", {"rollouts": [{"prompt": SECRET, "posts": [post], "candidates": SECRET}]}),
        ("/score", {"rollouts": [{"item": "i0001", "posts": [post], "candidates": [SECRET]}]}),
        ("/score", f'{{"rollouts": [{{"prompt": "{SECRET}", }}]}}'.encode()),
        ("/get_reward", {"query": [f"{SECRET}, said I"], "prompts": [f"{SECRET}!"], "labels": [""]}),
        ("/classify", {"messages": [turn, turn]}),
        ("/classify", {"messages": [turn], "use_activation": SECRET}),
    ]
    server = server_of(Slow(), bench=bakery(3), token=TOKEN)
    with running(server) as url:
        said = [asked(url, path, body, headers={"authorization": f"Bearer {TOKEN}"}) for path, body in bodies]
        said.append(asked(url, "/score", about(SECRET, SECRET), headers={"authorization": f"Bearer {SECRET}"}))
        told = asked(url, "/metrics", None, headers={"authorization": f"Bearer {TOKEN}"})[1]
    assert [status for status, _, _ in said] == [422] * len(bodies) + [401]
    written = "".join(capfd.readouterr())
    assert SECRET not in f"{said}{told}{written}"
    assert TOKEN not in f"{said}{told}{written}"


def test_it_listens_on_the_loopback_of_the_sixth_version(monkeypatch: pytest.MonkeyPatch) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        listener = bound("::1", 0, token="")
    except ServiceError as exc:
        pytest.skip(str(exc))
    loop = uvicorn.Server(uvicorn.Config(server_of(Slow()).app, log_level="error", lifespan="on"))
    thread = threading.Thread(target=loop.run, args=([listener],), daemon=True)
    port = listener.getsockname()[1]
    listener.listen()
    thread.start()
    monkeypatch.setenv("PLURALRM_REWARD_URL", f"http://[::1]:{port}")
    monkeypatch.setenv("PLURALRM_REWARD_RUN", "r1")
    found = RewardClient.from_environment().rewards([{"prompt": "Q?", "candidates": ["rye"]}])
    loop.should_exit = True
    thread.join(240)
    assert found == [[3.0]]


def test_latencies_are_counts_that_only_grow() -> None:
    from pluralrm.serve.server import Latencies

    found = Latencies()
    for _ in range(25_000):
        found.add(0.07)
    assert (found.count, found.within[0.05], found.within[0.1], found.within[120.0]) == (25_000, 0, 25_000, 25_000)
    assert found.sum == pytest.approx(1750)
