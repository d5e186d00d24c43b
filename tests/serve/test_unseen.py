"""Under a condition that shows the user, nobody is scored as a stranger because a request forgot who asks."""

import asyncio
from functools import partial

import pytest

from pluralrm.errors import ServiceError
from pluralrm.serve import trainers
from pluralrm.serve.client import RewardClient
from tests.builders import bakery
from tests.serve.running import asked, running
from tests.serve.test_server import Slow, about, server_of

TURNS = [{"role": "user", "content": "Q?"}, {"role": "assistant", "content": "rye"}]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/score", about("Q?", "rye")),
        ("/get_reward", {"query": ["Q? rye"], "prompts": ["Q? "]}),
        ("/get_reward", {"query": ["Q? rye"], "prompts": ["Q? "], "labels": [None]}),
        ("/get_reward", {"query": ["Q? rye"], "prompts": ["Q? "], "labels": [""]}),
        ("/classify", {"messages": TURNS}),
    ],
)
def test_a_prompt_without_its_user_is_refused_where_the_user_is_shown(path: str, body: object) -> None:
    """As OpenRLHF asks without `--data.label_key item`: every reward would be that of the condition `none`."""
    model = Slow()
    with running(server_of(model, bench=bakery(3), condition="raw:2")) as url:
        status, told, _ = asked(url, path, body)
    assert (status, told["error"]["type"], told["error"]["retry"]) == (422, "unsupported", False)
    assert "raw:2 shows what the user wrote" in told["error"]["message"]
    assert not model.asked


def test_a_user_who_wrote_nothing_is_said_to_be_one() -> None:
    model = Slow()
    rollout = {"prompt": "Q?", "posts": [], "candidates": ["rye"]}
    with running(server_of(model, bench=bakery(3), condition="raw:2")) as url:
        assert asked(url, "/score", {"rollouts": [rollout]})[1]["scores"] == [[3.0]]


@pytest.mark.parametrize("condition", ["oracle", "swapped:2"])
def test_what_a_request_cannot_bring_needs_an_item(condition: str) -> None:
    rollout = {"prompt": "Q?", "posts": [{"text": "rye"}], "candidates": ["rye"]}
    with running(server_of(Slow(), bench=bakery(6), condition=condition)) as url:
        status, told, _ = asked(url, "/score", {"rollouts": [rollout]})
    assert (status, told["error"]["type"]) == (422, "unsupported")
    assert "a request cannot bring" in told["error"]["message"]


def test_verls_function_invents_no_user_without_posts() -> None:
    assert trainers.rollout({"prompt": "Q?", "posts": None}, "rye") == {"prompt": "Q?", "candidates": ["rye"]}
    assert trainers.rollout({"prompt": "Q?", "posts": []}, "rye") == {
        "prompt": "Q?",
        "posts": [],
        "candidates": ["rye"],
    }


def test_trl_without_its_column_is_refused_and_not_scored_without_the_user() -> None:
    with running(server_of(Slow(), bench=bakery(3), condition="raw:2")) as url:
        reward = trainers.trl_reward_func(RewardClient(url, run="r1", policy="mask"))
        with pytest.raises(ServiceError, match="shows what the user wrote"):
            reward(["Q?"], ["rye"])
        assert reward(["Q?"], ["rye"], item=["i0000"]) == [3.0]


def test_nothing_of_a_conversation_is_left_out_in_silence() -> None:
    system, question = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Q?"}
    model = Slow()
    with running(server_of(model, bench=bakery(3))) as url:
        reward = trainers.trl_reward_func(RewardClient(url, run="r1"))
        assert reward([[question]], [[TURNS[1]]]) == [3.0]
        ask = partial(reward, item=["i0000"])
        assert ask([[system, question]], [[TURNS[1]]]) == [3.0]  # the item has the prompt
        with pytest.raises(ServiceError, match="2 messages for a prompt"):
            reward([[system, question]], [[TURNS[1]]])
        with pytest.raises(ServiceError, match="2 messages for an answer"):
            ask([[question]], [[TURNS[1], TURNS[1]]])


def test_a_policy_beside_a_client_that_has_its_own_is_refused() -> None:
    with running(server_of(Slow())) as url:
        client = RewardClient(url, run="r1")
        with pytest.raises(ServiceError, match="the client's is 'raise'"):
            trainers.trl_reward_func(client, policy="mask")


def test_an_address_with_a_slash_at_its_end_is_an_error_like_others() -> None:
    with running(server_of(Slow())) as url:
        status, told, _ = asked(url, "/score/", about("Q?", "rye"))
    assert (status, told["error"]["type"]) == (404, "no_such_route")


def test_verl_stops_where_the_server_shows_a_user_that_the_row_does_not_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(server_of(Slow(), bench=bakery(3), condition="raw:2")) as url:
        monkeypatch.setenv("PLURALRM_REWARD_URL", url)
        monkeypatch.setenv("PLURALRM_REWARD_RUN", "r1")
        trainers._client.cache_clear()
        with pytest.raises(ServiceError, match="shows what the user wrote"):
            asyncio.run(trainers.compute_score("prb", "rye", None, {"prompt": "Q?", "posts": None}))
    trainers._client.cache_clear()
