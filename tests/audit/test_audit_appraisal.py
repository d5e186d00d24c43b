"""A judge on answers and rubrics in general: what is asked, what is read, and what the shares and means are."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pluralrm.audit import Appraisal, aspect_kinds, audit
from pluralrm.audit.result import AuditFinding
from pluralrm.audit.rubrics import GENERAL, TEMPLATE, general_aspects, rubrics
from pluralrm.benchmarks import load_benchmark
from pluralrm.chat import ChatRequest, ChatRole, Sampling, ScriptedChat
from pluralrm.core import Aspect, Benchmark, Estimate, Failure, Oracle
from pluralrm.models.judge import open_judge, rating_spec
from pluralrm.runs import score
from pluralrm.templates import load_template
from tests.cli.test_verbs import pluralrm
from tests.fake_chat import FakeChat, Seen, say
from tests.models.judge import judges

FEW = 249
ASPECT = re.compile(r"^\d+\. (.*)$", re.MULTILINE)


def planted(uneven: tuple[int, ...] = (1, 3, 6)) -> Benchmark:
    """Return pocket-prb with rubrics of unequal length in which the word `anyone` marks what is general."""
    bench = load_benchmark("pocket-prb")
    items = []
    for number, item in enumerate(bench.items):
        count = uneven[number % len(uneven)]
        titles = [f"for {'anyone' if (number + place) % 3 else 'this person'}, point {place}" for place in range(count)]
        items.append(replace(item, oracle=Oracle(tuple(map(Aspect, titles)))))
    return Benchmark(bench.card, tuple(items), bench.seed)


def sorting(request: ChatRequest) -> str:
    titles = ASPECT.findall(request.messages[0][1])
    return json.dumps(["general" if "anyone" in title else "personal" for title in titles])


def asked(chat: ScriptedChat) -> ChatRole:
    return ChatRole(chat, load_template(TEMPLATE), Sampling(max_tokens=200))


def finding(benchmark: Benchmark, script: Callable[[ChatRequest], str]) -> tuple[AuditFinding, ScriptedChat]:
    chat = ScriptedChat(script)
    kinds = aspect_kinds(benchmark, asked(chat))
    return general_aspects(benchmark, Appraisal("m", kinds)), chat


def test_the_share_of_general_aspects_is_that_of_the_rubrics() -> None:
    bench = planted()
    found, chat = finding(bench, sorting)
    titles = [title for several in rubrics(bench).titles for title in several]
    general = found.measures["general aspects"]
    assert isinstance(general, Estimate)
    assert general.value == pytest.approx(sum("anyone" in title for title in titles) / len(titles))
    assert general.n == len(titles)
    assert general.low is not None
    assert general.low < general.value
    whole = found.measures["items with general aspects alone"]
    assert isinstance(whole, Estimate)
    alone = [all("anyone" in title for title in several) for several in rubrics(bench).titles]
    assert whole.value == pytest.approx(sum(alone) / len(alone))
    assert chat.calls == len(bench.items)
    assert "0 items" not in found.found


@pytest.mark.parametrize(
    "said",
    ["", "general", '["general"]', '["general", "personal", "neither"]', '{"1": "general"}', '["General", 1, 2]'],
)
def test_what_cannot_be_read_is_asked_once_more_then_counted_and_never_guessed(said: str) -> None:
    bench = planted((3,))
    bad = {item.id for item in bench.items[::4]}
    prompts = {item.prompt for item in bench.items if item.id in bad}

    def script(request: ChatRequest) -> str:
        return said if any(prompt in request.messages[0][1] for prompt in prompts) else sorting(request)

    found, chat = finding(bench, script)
    assert found.measures["unread items"] == len(bad)
    assert f"{len(bad)} items of {len(bench.items)} left out" in found.found
    assert chat.calls == len(bench.items) + len(bad)
    nothing, _ = finding(bench, lambda _: said)
    assert nothing.status == "not available"


def test_an_outage_leaves_items_out_and_the_appraisal_incomplete() -> None:
    bench = planted((2,))
    kinds = aspect_kinds(bench, asked(ScriptedChat(lambda _: Failure("transport", "down"))))
    assert set(kinds) == {item.id for item in bench.items}
    assert not Appraisal("m", kinds).complete
    assert general_aspects(bench, Appraisal("m", kinds)).status == "not available"
    assert Appraisal("m", aspect_kinds(bench, asked(ScriptedChat(lambda _: "x")))).complete


def test_neither_posts_nor_answers_are_sent_with_a_rubric() -> None:
    bench = planted()
    _, chat = finding(bench, sorting)
    sent = "\n".join(text for request in chat.requests for _, text in request.messages)
    for item in bench.items:
        assert item.user is not None
        assert not any(text in sent for text in (*item.candidates, *(post.text for post in item.user.posts)))


def test_ratings_of_a_judge_are_tested_for_equivalence(tmp_path: Path) -> None:
    bench = load_benchmark("pocket-prb")
    spec = rating_spec("judge:m,orders=coin,verdict=brackets,seed=3")
    assert str(spec) == "judge:m,ask=quality,seed=3,style=pointwise"
    assert rating_spec("longest") is None
    right = judges.preferred(bench)

    def rated(better: int) -> AuditFinding:
        def script(request: ChatRequest) -> str:
            [text] = judges.answers(request.messages[0][1]).values()
            base = 4 + len(text) % 3
            return f"Score: {base + better * (text in right)}"

        judge = open_judge("judge:m,style=pointwise,ask=quality", chat=ScriptedChat(script))
        run = score(bench, judge, "none", out=tmp_path / str(better))
        found = audit(bench, relabellings=FEW, appraisal=Appraisal("m", None, run))
        return next(one for one in found.findings if one.topic == "general quality")

    better = rated(2)
    assert better.status == "warn"
    assert "judge:m" in better.found
    mean, others = better.measures["mean of preferred"], better.measures["mean of others"]
    assert isinstance(mean, float)
    assert isinstance(others, float)
    expected = [
        [4 + len(text) % 3 + 2 * (text in right) for text in (item.candidates[item.preferred or 0], *item.candidates)]
        for item in bench.items
    ]
    assert mean == pytest.approx(sum(row[0] for row in expected) / len(expected))
    assert mean - others == pytest.approx(
        sum(row[0] - (sum(row[1:]) - row[0]) / (len(row) - 2) for row in expected) / len(expected)
    )
    assert rated(0).status in {"ok", "note"}


def test_audit_judge_asks_for_all_three_from_the_command_line(tmp_path: Path) -> None:
    def answer(seen: Seen) -> object:
        text = seen.prompt
        if '"personal"' in text:
            return say(json.dumps(["general"] * len(ASPECT.findall(text))))
        return say("Score: 7" if "from 1 to 10" in text else "Result: tie")

    with FakeChat(answer) as server:  # type: ignore[arg-type]
        done = pluralrm(
            *("audit", "pocket-prb", "--judge", f"judge:m,url={server.url}", "--cache", "c", "--json"), cwd=tmp_path
        )
        asked = len(server.requests)
        again = pluralrm(
            *("audit", "pocket-prb", "--judge", f"judge:m,url={server.url}", "--cache", "c", "--json"), cwd=tmp_path
        )
        assert len(server.requests) == asked  # what was said is kept
    assert done.returncode == again.returncode == 0, done.stderr
    findings = {one["topic"]: one for one in json.loads(done.stdout)["findings"]}
    assert findings[GENERAL]["measures"]["general aspects"]["value"] == 1.0
    assert findings["general quality"]["measures"]["rated items"] == 60
    assert json.loads(again.stdout) == json.loads(done.stdout)
