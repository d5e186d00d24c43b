"""What the first call finds out, before a training begins: a wrong token, two servers, a number too large."""

import json
import threading
from contextlib import suppress
from functools import partial

import numpy as np
import pytest

from pluralrm.errors import ServiceError
from pluralrm.serve import trainers
from pluralrm.serve.client import IDENTITY_HEADER, RUN_HEADER, Identity, RewardClient
from tests.serve.running import asked, running, together
from tests.serve.test_server import TOKEN, Slow, about, server_of


@pytest.mark.parametrize("token", ["", "another", TOKEN[:-1], TOKEN + "x"])
def test_a_wrong_or_missing_token_is_found_by_the_handshake(token: str) -> None:
    model = Slow()
    with running(server_of(model, token=TOKEN)) as url:
        with pytest.raises(ServiceError, match="token") as told:
            RewardClient(url, run="r1", token=token).handshake()
        with pytest.raises(ServiceError, match="token"):
            trainers.trl_reward_func(RewardClient(url, run="r1", token=token))
    assert TOKEN not in str(told.value)
    assert not model.asked


def test_the_right_token_shakes_hands_and_a_server_without_one_asks_for_none() -> None:
    with running(server_of(Slow(), token=TOKEN)) as url:
        assert RewardClient(url, run="r1", token=TOKEN).handshake()["run"] == "r1"
    with running(server_of(Slow())) as url:
        assert RewardClient(url, run="r1", token="whatever").handshake()["run"] == "r1"  # noqa: S106 - of this test


def test_health_answers_whoever_asks_and_says_whether_more_would_be_answered() -> None:
    """What watches a server, and decides whether to start it again, has no token."""
    right = {"authorization": f"Bearer {TOKEN}"}
    with running(server_of(Slow(), token=TOKEN)) as url:
        bare, wrong = asked(url, "/health", None), asked(url, "/health", None, headers={"authorization": "Bearer x"})
        known = asked(url, "/health", None, headers=right)
    assert [(status, told["authorised"]) for status, told, _ in (bare, wrong, known)] == [
        (200, False),
        (200, False),
        (200, True),
    ]


def test_two_servers_behind_one_address_are_never_both_taken() -> None:
    """Both answers are there before either is looked at: whichever is known first, the other is an error."""
    both = threading.Barrier(2)
    mine = threading.local()

    class Balanced(RewardClient):
        """Each thread meets a server of its own."""

        def _once(self, method: str, path: str, body: bytes, left: float) -> tuple[int, dict[str, str], bytes]:  # noqa: ARG002 - of the client
            identity = Identity("r1", mine.name, "none", "", "", {}, ())
            told = {"identity": identity.to_json(), "authorised": True}
            return 200, {RUN_HEADER: "r1", IDENTITY_HEADER: identity.hash}, json.dumps(told).encode()

        def __getattribute__(self, name: str) -> object:
            found = super().__getattribute__(name)
            if name == "_known" and not found:
                with suppress(threading.BrokenBarrierError):  # the other is not let in meanwhile
                    both.wait(0.5)
            return found

    def shake(client: RewardClient, name: str) -> bool:
        mine.name = name
        try:
            client.handshake()
        except ServiceError:
            return False
        return True

    client = Balanced("http://127.0.0.1:1", run="r1")
    assert sorted(together([partial(shake, client, name) for name in ("one", "two")])) == [False, True]


@pytest.mark.parametrize("number", [1e39, -1e300, 3.41e38])
@pytest.mark.parametrize("path", ["/score", "/get_reward", "/classify"])
def test_a_number_that_a_tensor_would_make_infinite_is_a_failure(number: float, path: str) -> None:
    assert abs(number) > float(np.finfo(np.float32).max)
    bodies = {
        "/score": about("Q?", "rye"),
        "/get_reward": {"query": ["Q?rye"], "prompts": ["Q?"]},
        "/classify": {"messages": [{"role": "user", "content": "Q?"}, {"role": "assistant", "content": "rye"}]},
    }
    with running(server_of(Slow(moods={"rye": number}))) as url:
        status, told, _ = asked(url, path, bodies[path])
    kind = told["scores"][0][0]["failure"] if path == "/score" else told["error"]["type"]
    assert (status, kind) == (200 if path == "/score" else 422, "nonfinite")


def test_the_largest_numbers_that_a_tensor_holds_are_rewards() -> None:
    largest = float(np.finfo(np.float32).max)
    model = Slow(moods={"rye": largest, "oat": -largest, "more": float(np.nextafter(largest, np.inf))})
    with running(server_of(model)) as url:
        client = RewardClient(url, run="r1", policy="mask")
        assert client.rewards([{"prompt": "Q?", "candidates": ["rye", "oat", "more"]}]) == [[largest, -largest, None]]
        assert client.told.reasons == {"nonfinite": 1}
        with pytest.raises(ServiceError, match="nonfinite"):
            RewardClient(url, run="r1").rewards([{"prompt": "Q?", "candidates": ["more"]}])
