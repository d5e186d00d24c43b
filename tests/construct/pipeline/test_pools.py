"""Who is asked depends on the record and on the models, and on nothing else; what comes back is whole or a Failure."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.chat import ChatModel, ChatReply, ScriptedChat, settled
from pluralrm.construct.pipeline import ModelCall, Pools, Role, open_pools
from pluralrm.core import Failure
from pluralrm.errors import PrivacyError, SpecError
from pluralrm.http import Settings
from pluralrm.templates import Template

TEMPLATE = Template("t", "{{ x }}")
NAMES = ("alder", "birch", "cedar", "elm")


def silent(*names: str) -> dict[str, ChatModel]:
    return {name: ScriptedChat(lambda _: "yes", name=name) for name in names}


def pools(*specs: str, **more: object) -> Pools:
    return open_pools([Role("writer", specs)], chats=silent(*NAMES), **more)  # type: ignore[arg-type]


def asked(said: str | ChatReply | Failure, spec: str = "alder", **more: object) -> object:
    """Return what comes of a reply that is given twice."""
    chat = ScriptedChat(lambda _: said, name="alder")
    member = open_pools([Role("writer", [spec])], chats={"alder": chat}).order("writer", "r")[0]
    ask: ModelCall[object] = ModelCall("writer", "Say yes.", TEMPLATE, lambda text: f"read {text}", **more)  # type: ignore[arg-type]
    [call] = settled(chat, [member.call(ask)])
    return call.outcome


@given(st.text(min_size=1, max_size=20), st.permutations(NAMES))
def test_the_order_of_a_pool_is_the_records_own(record: str, order: list[str]) -> None:
    usual = pools(*NAMES).models("writer", record)
    assert sorted(usual) == sorted(NAMES)
    assert pools(*order).models("writer", record) == usual
    moved = [f"{name},url=http://127.0.0.1:1/v1,key=MY_KEY" for name in order]
    assert pools(*moved).models("writer", record) == usual


@given(st.text(min_size=1, max_size=20))
def test_a_model_that_joins_takes_records_and_moves_none_between_the_others(record: str) -> None:
    before, after = pools(*NAMES[:3]).models("writer", record), pools(*NAMES).models("writer", record)
    assert [name for name in after if name != NAMES[3]] == before


def test_every_model_of_a_pool_gets_its_share() -> None:
    found = pools(*NAMES)
    first = Counter(found.models("writer", f"record-{number}")[0] for number in range(2_000))
    assert all(420 <= count <= 580 for count in first.values())  # 500 expected, four standard deviations
    assert len(first) == 4


def test_a_turn_is_the_next_model_and_after_the_last_comes_the_first() -> None:
    found = pools(*NAMES)
    asks: list[ModelCall[object]] = [ModelCall("writer", "x", TEMPLATE, str, turn=turn) for turn in range(5)]
    names = [found.member(ask, "r").name for ask in asks]
    assert names == [*found.models("writer", "r"), found.models("writer", "r")[0]]


def test_a_role_without_models_and_a_model_named_twice_are_told() -> None:
    with pytest.raises(SpecError, match="'judge'"):
        pools("alder").order("judge", "r")
    with pytest.raises(SpecError, match="found no model"):
        pools()
    with pytest.raises(SpecError, match="named twice"):
        pools("alder", "alder,url=http://127.0.0.1:2/v1")


def test_what_users_wrote_goes_elsewhere_only_where_that_is_allowed() -> None:
    away = "m,url=https://models.example/v1"
    with pytest.raises(PrivacyError, match="send=posts"):
        open_pools([Role("writer", [away])])
    for role, posts in ((Role("writer", [f"{away},send=posts"]), True), (Role("rater", [away], private=False), False)):
        with open_pools([role]) as found:
            assert found.chats[0].sees_posts is posts


def test_a_replay_sends_nothing_so_it_needs_no_permission(tmp_path) -> None:
    tape = tmp_path / "calls.jsonl"
    tape.touch()
    with open_pools([Role("writer", ["m,url=https://models.example/v1"])], settings=Settings(replay=tape)) as found:
        assert found.published("writer") == ["m,url=https://models.example/v1"]


def test_what_is_published_names_the_server_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_PLACE", "a-key-that-opens-nothing")
    with open_pools([Role("w", ["m,url=http://127.0.0.1:9/v1,key=SECRET_PLACE,send=posts,temperature=0.5"])]) as found:
        told = str([member.to_json() for member in found.roles["w"]])
        assert found.published("w") == ["m,temperature=0.5,url=http://127.0.0.1:9/v1"]
    assert "SECRET_PLACE" not in told
    assert "send" not in told


def test_roles_that_name_one_model_share_its_connections() -> None:
    url = "url=http://127.0.0.1:9/v1"
    roles = [Role("writer", [f"m,{url}"]), Role("judge", [f"m,{url},temperature=0.7", f"other,{url}"])]
    with open_pools(roles) as found:
        assert len(found.chats) == 2


def test_another_tag_is_another_draw_where_chance_draws() -> None:
    member = pools("alder,temperature=0.7").order("writer", "r")[0]
    asks: list[ModelCall[object]] = [ModelCall("writer", "x", TEMPLATE, str, tag=tag) for tag in ("", "1", "2")]
    seeds = [member.call(ask).request.sampling.seed for ask in asks]
    assert seeds[0] == 0
    assert len(set(seeds)) == 3
    cold = pools("alder").order("writer", "r")[0]
    assert {cold.call(ask).request.sampling.seed for ask in asks} == {None}


@pytest.mark.parametrize(
    "said",
    ["", "  \n", "\ud83d", ChatReply("half", finish_reason="length"), "<think>only thoughts</think>", "<think>no end"],
)
def test_a_reply_that_says_nothing_whole_is_a_failure_of_reading(said: str | ChatReply) -> None:
    outcome = asked(said)
    assert isinstance(outcome, Failure)
    assert outcome.kind == "parse"


def test_a_whole_reply_is_read_without_its_reasoning() -> None:
    assert asked("<think>Rye?</think>yes") == "read yes"
    assert asked("<think>Rye?</think>yes", "alder,reasoning=none") == "read <think>Rye?</think>yes"
