"""A dry run counts what the real run asks, and sends nothing."""

from pathlib import Path
from typing import Any

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.chat import ChatRequest, Sampling, ServedChat
from pluralrm.conditions import load_condition
from pluralrm.core import Failure
from pluralrm.grading import open_grader
from pluralrm.http import FREE, Cost, DryRun, Price, Requests, Settings, Usage, cost_of
from pluralrm.models import load_model
from pluralrm.policies.grades import grade_pool, grading_cost
from pluralrm.policies.policy import Draw, load_policy
from pluralrm.policies.sample import sample, sample_plan
from tests.fake_chat import FakeChat, say
from tests.models.judge.judges import answers, longer


def requests(*texts: str, stand_in: str = "") -> list[ChatRequest]:
    return [ChatRequest((("user", text),), Sampling(max_tokens=7), stand_in=stand_in) for text in texts]


def test_nothing_is_sent_and_everything_is_counted(tmp_path: Path) -> None:
    """Neither a server, nor a key, nor the folder of kept replies is needed or touched."""
    settings = Settings(dry_run=(dry := DryRun()), cache=tmp_path / "cache", record=tmp_path / "calls.jsonl")
    chat = ServedChat("m", url="https://example.invalid/v1", key="NO_SUCH_KEY", settings=settings)
    first, second = chat.complete([*requests("four"), *requests("a longer text", stand_in="Rye.")])
    assert isinstance(first, Failure)
    assert first.kind == "refused", "final: it is not asked a second time"
    assert not isinstance(second, Failure)
    assert (second.text, second.finish_reason, second.usage) == ("Rye.", "stop", Usage(3, 1))
    assert dry.requests == {"m": Requests(2, len("four") + len("a longer text"), 14)}
    assert list(tmp_path.iterdir()) == []


def test_the_calls_counted_are_the_calls_made() -> None:
    """By a judge under notes that another model writes: two models, two steps."""
    bench = load_benchmark("pocket-prb")
    items = bench.items[:5]

    def judged(url: str, settings: Settings) -> None:
        condition = load_condition(f"persona:w,k=2,url={url}", settings=settings)
        judge = load_model(f"judge:m,url={url}", settings=settings)
        assert len(list(judge.score(condition.queries(bench, items)))) == len(items)

    def reply(text: str) -> str:
        return longer(answers(text)) if "[answer" in text or "Answer A" in text else "Likes it short."

    with FakeChat(lambda seen: say(reply(seen.prompt))) as server:
        dry = DryRun()
        judged(server.url, Settings(dry_run=dry))
        assert server.requests == []
        judged(server.url, Settings())
        made = [seen.body["model"] for seen in server.requests]
        letters = dict.fromkeys(dry.requests, 0)
        for seen in server.requests:
            letters[seen.body["model"]] += sum(len(message["content"]) for message in seen.body["messages"])
    assert {name: asked.calls for name, asked in dry.requests.items()} == {name: made.count(name) for name in made}
    assert letters["w"] == dry.requests["w"].letters


def test_a_pool_and_its_grades_are_counted_as_they_are_asked(tmp_path: Path) -> None:
    """A writer of plans, a policy that is shown them, and a grader; half of the pool is there already."""

    def reply(body: dict[str, Any]) -> str:
        if body["model"] == "w":
            return "- A short answer"
        return f"Rye, number {body['seed']}." if body["model"] == "p" else '{"match_score": 1}'

    bench, draw = load_benchmark("pocket-prb"), Draw(n=2, max_tokens=9)
    with FakeChat(lambda seen: say(reply(seen.body))) as server:

        def asked(settings: Settings) -> dict[str, Any]:
            condition = load_condition(f"planner:w,k=2,url={server.url}", settings=settings)
            policy = load_policy(f"chat:p,url={server.url}", settings=settings)
            return {"benchmark": bench, "policy": policy, "condition": condition, "draw": draw, "settings": settings}

        plan = sample_plan(**asked(Settings(dry_run=DryRun())), out=tmp_path / "pool", limit=4)
        assert server.requests == []
        assert not (tmp_path / "pool").exists()
        pool = sample(**asked(Settings()), out=tmp_path / "pool", limit=4)
        made = [seen.body["model"] for seen in server.requests]
        assert {name: one.calls for name, one in plan.requests.items()} == {"w": made.count("w"), "p": made.count("p")}
        assert (plan.calls, plan.requests["p"].reply_tokens) == (made.count("p"), made.count("p") * 9)
        nothing = sample_plan(**asked(Settings(dry_run=DryRun())), out=tmp_path / "pool", limit=4)
        assert (nothing.calls, nothing.requests) == (0, {})
        grader = open_grader(f"per-aspect:g,url={server.url}", settings=Settings())
        told = grading_cost(pool, bench, grader)
        assert len(server.requests) == len(made)
        grade_pool(pool, bench, grader)
        graded = [seen for seen in server.requests if seen.body["model"] == "g"]
        assert told.calls == len(graded) > 0
        assert told.prompt_tokens == sum(len(seen.prompt) for seen in graded) // 4


def test_costs_are_those_of_prompts_and_of_the_longest_replies() -> None:
    prices = {"m": Price(1.0, 2.0), "n": Price(10.0, 0.0)}
    asked = {"m": Requests(3, 4_000_000, 500_000), "n": Requests(1, 400_000, 9)}
    assert cost_of(asked, prices) == pytest.approx(Cost(1.0 + 1.0, 2.0 + 1.0))
    assert cost_of({"m": Requests(1, None, 5)}, prices) is None, "a prompt is not known"
    assert cost_of({"x": Requests(1, 4, 5)}, prices) is None, "a price is not known"
    assert cost_of({"x": Requests()}, {}) == FREE


def test_what_one_step_asked_is_told_from_what_was_asked_before() -> None:
    dry = DryRun()
    dry.count("m", Requests(2, 10, 3))
    before = dry.requests
    dry.count("m", Requests(1, 5, 1))
    dry.count("n", Requests(4, None))
    assert dry.since(before) == {"m": Requests(1, 5, 1), "n": Requests(4, None)}
    assert dry.since(dry.requests) == {}
