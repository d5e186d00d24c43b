"""A dry run counts what the stages ask: as many calls as a build makes of a server that says the same."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from pluralrm.chat import ChatRequest, ScriptedChat
from pluralrm.construct.pipeline import (
    Acceptance,
    BuildPlan,
    Built,
    Folder,
    ModelCall,
    Pipeline,
    Range,
    Record,
    Role,
    Stage,
    ask,
    build,
    open_pools,
    plan,
)
from pluralrm.construct.pipeline.stages import StandIns, Work
from pluralrm.construct.prb import Rules, prb_pipeline
from pluralrm.construct.prb import roles as prb_roles
from pluralrm.construct.rmgap import for_dry_run
from pluralrm.construct.rmgap.stages import pipeline as rmgap_pipeline
from pluralrm.construct.rmgap.stages import roles as rmgap_roles
from pluralrm.http import Price, Settings
from tests.construct.pipeline.worlds import PIPELINE, ROLES, WRITE, Once, flour
from tests.construct.prb import worlds as prb
from tests.construct.rmgap import worlds as rmgap
from tests.fake_chat import FakeChat, Seen, say

NOWHERE = "http://127.0.0.1:1/v1"
PRICES = {"model-a": Price(1.0, 2.0), "model-b": Price(3.0, 4.0), "model-c": Price(5.0, 6.0)}
PASSES: tuple[StandIns, ...] = ("accepted", "refused")


class Case(NamedTuple):
    """A pipeline, what goes through it, and who plays the roles."""

    pipeline: Pipeline
    records: Sequence[Record]
    roles: Sequence[Role]


def flour_case(count: int = 40) -> Case:
    return Case(PIPELINE, flour(count), [Role(name, models) for name, models in ROLES.items()])


def prb_case() -> Case:
    records = [prb.question(number, aspects=number != 3) for number in range(6)]
    return Case(prb_pipeline(Rules(rejected="both", attempts=2)), records, prb_roles(["w", "v"], ["j"], ["p"]))


def rmgap_case() -> Case:
    names = dict.fromkeys(("generator", "reviewer", "tailor", "paraphraser"), ("a", "b")) | {
        "rater": ("c",),
        "chair": ("d",),
    }
    options = for_dry_run(rmgap.options(attempts=2))
    return Case(rmgap_pipeline(options), rmgap.records(rmgap.mixed(5)), rmgap_roles(names))


CASES = {"flour": flour_case, "prb": prb_case, "rmgap": rmgap_case}


def at(roles: Sequence[Role], url: str) -> list[Role]:
    return [role._replace(specs=[f"{model},url={url}" for model in role.specs]) for role in roles]


def key(messages: Sequence[Sequence[str]]) -> str:
    return json.dumps([list(message) for message in messages])


def replies(case: Case, path: Path, stand_ins: StandIns) -> dict[str, str]:
    """Return what a dry run is told, by the conversation: asked of scripts that say each request's stand-in."""
    said: dict[str, str] = {}

    def script(request: ChatRequest) -> str:
        said[key(request.messages)] = request.stand_in
        return request.stand_in

    chats = {model: ScriptedChat(script, name=model) for role in case.roles for model in role.specs}
    with Folder(path) as folder, open_pools(case.roles, chats=chats) as pools:
        pools.stand_ins = stand_ins
        assert build(case.pipeline, case.records, folder, pools).complete
    return said


def calls(built: Built) -> dict[tuple[str, str], int]:
    found: Counter[tuple[str, str]] = Counter()
    for stage in built.funnel.stages:
        for spent in stage.spent:
            found[stage.stage, spent.role] += spent.calls
    return dict(found)


@pytest.mark.parametrize("name", CASES)
def test_as_many_calls_are_planned_as_a_build_makes_on_the_same_replies(name: str, tmp_path: Path) -> None:
    case = CASES[name]()
    found = plan(case.pipeline, case.records, at(case.roles, NOWHERE))
    for which, stand_ins in enumerate(PASSES):
        said = replies(case, tmp_path / f"script-{which}", stand_ins)

        def answer(seen: Seen, said: dict[str, str] = said) -> object:
            messages = seen.body["messages"]
            return say(said[key([(message["role"], message["content"]) for message in messages])])

        with FakeChat(answer) as server, Folder(tmp_path / f"real-{which}") as folder:  # type: ignore[arg-type]
            with open_pools(at(case.roles, server.url), settings=folder.settings(Settings())) as pools:
                built = build(case.pipeline, case.records, folder, pools)
            requests = len(server.requests)
        assert built.complete
        assert {(row.stage, row.role): row.calls[which] for row in found.rows if row.calls[which]} == calls(built)
        assert found.total.calls[which] == sum(calls(built).values()) >= requests
        if which == 0:
            refused = [(stage.stage, dict(stage.rejected)) for stage in built.funnel.stages if stage.spent]
            assert not any(reasons for _, reasons in refused), "where all goes well no stage that asks rejects"


def test_the_most_is_every_text_written_as_often_as_it_may_be() -> None:
    """By hand, for two attempts: what is written and judged comes twice, what is asked once stays so."""
    case = prb_case()
    rows = {(row.stage, row.role): row.calls for row in plan(case.pipeline, case.records, at(case.roles, NOWHERE)).rows}
    assert rows["aspects", "planner"] == Range(1, 2), "of one question without aspects"
    assert rows["parts", "planner"] == Range(6, 6)
    judged = 5 * (1 + 3 + 3 + 1) + 1 * (1 + 4 + 4 + 1)
    for side in ("chosen", "published", "contrary"):
        assert rows[side, "writer"] == Range(6, 12)
        assert rows[side, "judge"] == Range(judged, 2 * judged)
    reviewed = {(row.stage, row.role): row.calls for row in planned(rmgap_case()).rows}
    came = reviewed["responses", "generator"].least / 4
    assert reviewed["responses", "generator"] == Range(4 * came, 8 * came)
    assert reviewed["responses", "reviewer"] == Range(2 * came, 4 * came)
    assert reviewed["responses", "chair"] == Range(0, 2 * came), "only where two reviewers disagree"
    assert reviewed["paraphrases", "paraphraser"] == Range(8 * came, 16 * came)
    assert reviewed["unique", "chair"] == Range(8 * came, 8 * came)


def planned(case: Case) -> BuildPlan:
    return plan(case.pipeline, case.records, at(case.roles, NOWHERE))


def test_tokens_and_costs_are_those_of_the_prompts_and_the_stand_ins() -> None:
    case = flour_case()
    found = plan(
        case.pipeline, case.records, at(case.roles, NOWHERE), limit=10, settings=Settings(prices=PRICES, max_cost=1e-9)
    )
    judge = next(row for row in found.rows if row.role == "judge")
    records = judge.calls.least / 2
    assert found.records == 10
    assert judge.calls == Range(2 * records, 6 * records)
    prompt = len("MARK from 1 to 5: ") + 6 * 7 - 1
    assert judge.tokens_in == Range(prompt // 4 * judge.calls.least, prompt // 4 * judge.calls.most)
    assert judge.tokens_out == Range(0, 0), "a digit is less than a token by letters"
    assert judge.cost is not None
    assert judge.cost.least <= judge.tokens_in.least * 5.0 / 1e6
    assert found.total.cost is not None
    assert found.total.cost == pytest.approx(
        Range(*(sum(row.cost[i] for row in found.rows if row.cost) for i in (0, 1)))
    )
    some = plan(
        case.pipeline, case.records, at(case.roles, NOWHERE), settings=Settings(prices={"model-a": Price(1, 1)})
    )
    assert some.total.cost is None


def test_a_stage_without_a_stand_in_cannot_be_planned() -> None:
    def work(record: Record) -> Work[Acceptance]:
        yield from ask(ModelCall("writer", WRITE.fill(manner="plain", question=record.id, why=""), WRITE, str.strip))
        return Acceptance(Once())

    pipeline = Pipeline("bare", PIPELINE.source, (Stage("asked", Once, work, templates=(WRITE,)),))
    with pytest.raises(ValueError, match="no stand-in for the calls by 'flour-write'"):
        plan(pipeline, flour(3), at(flour_case().roles, NOWHERE))
