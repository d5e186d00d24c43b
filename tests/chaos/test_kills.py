"""Killed at random events and run again: nothing synced is lost, nothing is there twice, the same bytes in the end."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.annotate.test_server_kills import judgments_after
from tests.chaos.kills import Series, Verb
from tests.chaos.ledger import LEDGER, SEED, size
from tests.chaos.verbs import LOCAL, TINY, asking, trained
from tests.construct.pipeline.worlds import answer
from tests.construct.prb.child import flawed
from tests.construct.rmgap.scripted import Script
from tests.construct.rmgap.worlds import answering, mixed
from tests.fake_chat import Action, FakeChat, Seen, say

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3600)]

PROMISE = "kill -9 loses and doubles nothing"
SLOW = {
    "fit bt": 3,
    "study": 3,
    "train verl export": 3,
    "score, 2 workers": 2,
    "score, 3 workers": 2,
    "score, 4 workers": 2,
}
"""Kills by default where one takes seconds; 10 elsewhere."""


def kills(name: str, default: int = 10) -> int:
    """Return how many kills: PLURALRM_CHAOS_KILLS for every verb, PLURALRM_CHAOS_KILLS_SCORE for one."""
    own = "".join(letter if letter.isalnum() else "_" for letter in name.upper())
    return size(f"KILLS_{own}", size("KILLS", default))


def killed(name: str, verb: Verb, place: Path, default: int = 10) -> list[str]:
    series = Series(name, verb, place, SEED)
    try:
        series.run(kills(name, default))
    finally:
        LEDGER.enter(PROMISE, name, tried=series.kills, findings=series.findings, unit="kills")
    return series.findings


@pytest.mark.parametrize("name", LOCAL)
def test_a_verb_that_is_killed_comes_to_the_same(tmp_path: Path, name: str) -> None:
    assert killed(name, LOCAL[name], tmp_path, SLOW.get(name, 10)) == []


SERVERS: dict[str, Callable[[], Callable[[Seen], Action]]] = {
    "score judge": lambda: lambda _: say("Both are short.\nResult: A"),
    "score --shard judge": lambda: lambda _: say("Both are short.\nResult: A"),
    "construct": lambda: answer,
    "construct prb": lambda: flawed().answer,
    "construct rmgap": lambda: answering(Script(mixed(9))),
}


@pytest.mark.parametrize("name", SERVERS)
def test_a_verb_that_asks_and_is_killed_comes_to_the_same_and_pays_for_what_was_in_flight(
    tmp_path: Path, name: str
) -> None:
    with FakeChat(SERVERS[name]()) as server:
        assert killed(name, asking(server.url, name), tmp_path, 5) == []


def test_an_annotation_server_that_is_killed_keeps_every_acknowledged_judgment(tmp_path: Path) -> None:
    count = kills("annotate serve", 5)
    for number in range(-(-count // 20)):
        times = min(20, count - 20 * number)
        assert judgments_after(times, tmp_path / str(number)) > 0
        LEDGER.enter(PROMISE, "annotate serve", tried=times, findings=[], unit="kills")


@pytest.mark.hf
def test_a_tiny_policy_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    assert killed("train tiny", TINY["train tiny"], tmp_path, 4) == []


@pytest.mark.hf
@pytest.mark.parametrize("kind", ["ppo", "grpo"])
def test_a_training_that_is_killed_comes_to_the_same_weights(tmp_path: Path, kind: str) -> None:
    from tests.training.ppo.tones import tone_policy

    policy = tone_policy(tmp_path / "tones", steps=10, hidden=32)
    assert killed(f"{kind} run", trained(kind, policy.folder.path), tmp_path, 3) == []
