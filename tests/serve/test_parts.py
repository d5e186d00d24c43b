"""More rollouts than a server takes in one request: asked in parts, joined in order, failing in parts."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.core import Failure, Score
from pluralrm.errors import OutageError, ServiceError
from pluralrm.serve.client import RewardClient, _parted
from pluralrm.serve.server import ServerLimits
from tests.serve.running import asked, running
from tests.serve.test_server import Slow, server_of


def numbered(count: int) -> Iterator[dict[str, object]]:
    for place in range(count):
        yield {"prompt": f"Q{place % 7}?", "candidates": [f"answer {place}"]}


def moods(count: int, **failed: Failure) -> dict[str, Score]:
    return {f"answer {place}": failed.get(f"a{place}", float(place)) for place in range(count)}


@pytest.mark.parametrize(("count", "requests"), [(1024, 1), (1025, 2), (3000, 3)])
def test_any_number_of_rollouts_is_scored_in_the_order_in_which_they_came(count: int, requests: int) -> None:
    with running(server_of(Slow(moods=moods(count)))) as url:
        client = RewardClient(url, run="r1")
        assert client.rewards(list(numbered(count))) == [[float(place)] for place in range(count)]
        counted = asked(url, "/metrics", None)[1]
    assert f'pluralrm_requests_total{{route="/score",status="200"}} {requests}\n' in counted
    assert (client.told.rewards, client.told.again) == (count, 0)


def test_many_answers_to_each_prompt_find_room_too() -> None:
    """600 rollouts of 8 are 4,800 answers, more than the usual room in one request."""
    rollouts = [{"prompt": f"Q{place}?", "candidates": ["x" * size for size in range(8)]} for place in range(600)]
    with running(server_of(Slow())) as url:
        found = RewardClient(url, run="r1").scores(rollouts)
    assert found == [[float(size) for size in range(8)]] * 600


def test_an_outage_during_one_part_masks_that_part_alone() -> None:
    model = Slow(moods=moods(3000, a1500=Failure("transport", "connection refused")))
    with running(server_of(model)) as url:
        client = RewardClient(url, run="r1", seconds=8, policy="mask")
        found = client.rewards(list(numbered(3000)))
    assert found == [[None if 1024 <= place < 2048 else float(place)] for place in range(3000)]
    assert client.told.reasons == {"transport": 1024}
    assert client.told.again > 0


def test_an_outage_during_one_part_stops_where_rewards_may_not_fail() -> None:
    model = Slow(moods=moods(1100, a1050=Failure("transport", "connection refused")))
    with running(server_of(model)) as url, pytest.raises(OutageError, match="connection refused"):
        RewardClient(url, run="r1", seconds=5).rewards(list(numbered(1100)))


def test_a_part_that_is_refused_is_an_error_for_all() -> None:
    """Under the policy to mask too: what a server refuses for good is no outage."""
    rollouts: list[dict[str, object]] = [*numbered(1024), {"prompt": "Q?", "candidates": ["rye"], "mood": "good"}]
    with running(server_of(Slow(moods=moods(1024)))) as url, pytest.raises(ServiceError, match="422") as found:
        RewardClient(url, run="r1", policy="mask").rewards(rollouts)
    assert not isinstance(found.value, OutageError)


def test_a_rollout_that_no_server_takes_is_sent_as_it_is_and_refused_by_name() -> None:
    with (
        running(server_of(Slow(), limits=ServerLimits(room=2))) as url,
        pytest.raises(ServiceError, match="3 answers in one request"),
    ):
        RewardClient(url, run="r1").rewards([{"prompt": "Q?", "candidates": ["a", "b", "c"]}])


@given(sizes=st.lists(st.integers(0, 1500), max_size=60))
def test_parts_hold_every_rollout_once_in_order_and_no_more_than_a_server_takes(sizes: list[int]) -> None:
    rollouts = [{"prompt": f"Q{place}?", "candidates": ["x"] * size} for place, size in enumerate(sizes)]
    parts = list(_parted(rollouts))
    assert [rollout for part in parts for rollout in part] == rollouts
    answers = [[sizes[int(str(rollout["prompt"])[1:-1])] for rollout in part] for part in parts]
    assert all(sum(part) <= 1024 or len(part) == 1 for part in answers)
    assert all(sum(part) + following[0] > 1024 for part, following in pairwise(answers))
