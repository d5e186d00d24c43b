"""Sampling: every answer has its own seed and its own call, nothing is drawn twice, nothing invented."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pluralrm.chat import ChatReply, ChatRequest, ScriptedChat
from pluralrm.chat.completions import Line
from pluralrm.core import Benchmark, Failure
from pluralrm.errors import BenchmarkError, PoolError, PrivacyError, ServiceError, SpecError
from pluralrm.files import lock_folder
from pluralrm.http import Settings
from pluralrm.policies.policy import AnswerRequest, ChatPolicy, Draw, PolicyAnswer, load_policy, open_chat
from pluralrm.policies.pool import POOL, Pool, Sample, load_pool
from pluralrm.policies.sample import sample, sample_plan
from pluralrm.runs import read_inputs
from pluralrm.templates import load_template
from tests.builders import bakery, edit_json
from tests.elsewhere import taken_for_elsewhere
from tests.fake_chat import FakeChat, Seen, reset, say, status

THREE = Draw(n=3)


def scripted(script: Callable[[ChatRequest], str | ChatReply | Failure] | None = None) -> ChatPolicy:
    return open_chat("chat:scripted", chat=ScriptedChat(script or (lambda request: f"for {request.tag}")))


def only(said: ChatReply | Failure, tmp_path: Path, **keys: str) -> Sample:
    """Return the sample that comes of one reply."""
    spec = ",".join(["chat:scripted", *(f"{key}={value}" for key, value in keys.items())])
    policy = open_chat(spec, chat=ScriptedChat(lambda _: said))
    pool = sample(bakery(1), policy, out=tmp_path / "pool", draw=Draw(n=1))
    return pool.samples["i0000"][0]


def lines(path: Path) -> list[bytes]:
    return (path / "samples.jsonl").read_bytes().splitlines()


def test_every_item_gets_n_answers_in_order(tmp_path: Path) -> None:
    pool = sample(bakery(4), scripted(), out=tmp_path / "pool", draw=THREE)
    assert pool.complete
    assert {item: [one.text for one in several] for item, several in pool.samples.items()} == {
        f"i{number:04}": [f"for i{number:04} {index}" for index in range(3)] for number in range(4)
    }
    assert load_pool(tmp_path / "pool") == pool


def test_inputs_that_a_kill_left_without_a_sample_are_not_kept_twice(tmp_path: Path) -> None:
    whole = sample(bakery(4), scripted(), out=tmp_path / "pool", draw=THREE)
    kept = list(read_inputs(tmp_path / "pool"))
    # As a kill leaves it between the inputs and their samples: nine samples of three items, inputs of all four.
    (tmp_path / "pool" / "samples.jsonl").write_bytes(b"\n".join(lines(tmp_path / "pool")[:9]) + b"\n")
    edit_json(tmp_path / "pool" / "pool.json", status="incomplete", samples=9, content_hash="")
    assert sample(bakery(4), scripted(), out=tmp_path / "pool", draw=THREE).samples == whole.samples
    assert list(read_inputs(tmp_path / "pool")) == kept


def test_every_item_and_index_has_its_own_seed(tmp_path: Path) -> None:
    chat = ScriptedChat(lambda _: "Rye.")
    sample(bakery(20), open_chat("chat:m", chat=chat), out=tmp_path / "pool", draw=Draw(n=16))
    seeds = [request.sampling.seed for request in chat.requests]
    assert len(set(seeds)) == len(seeds) == 320
    assert all(seed is not None and 0 <= seed < 2**31 for seed in seeds)


def test_a_policy_asked_by_the_published_template_has_a_system_turn_and_the_posts(tmp_path: Path) -> None:
    chat, bench = ScriptedChat(lambda _: "Rye."), bakery(3)
    policy = open_chat("chat:m,template=sample-v1", chat=chat)
    sample(bench, policy, "recent:2", out=tmp_path / "pool", draw=Draw(n=2))
    assert len(chat.requests) == 6
    for item, request in zip((item for item in bench.items for _ in range(2)), chat.requests, strict=True):
        assert [role for role, _ in request.messages] == ["system", "user"]
        assert item.prompt in request.messages[-1][1]
        assert item.user is not None
        assert item.user.posts[0].text in request.messages[-1][1]


def test_answers_to_another_template_are_another_policy_s(tmp_path: Path) -> None:
    """A pool is kept by the hash of its template: answers of at most 100 words are none of the others."""
    hashes = [
        json.loads((sample_as(tmp_path, name) / "pool.json").read_text())["identity"]["template"]
        for name in ("profile-v1", "sample-v1")
    ]
    assert hashes == [load_template(name).hash for name in ("profile-v1", "sample-v1")]
    assert scripted().role.template.name == "profile-v1", "the default is what it was"
    (mine := tmp_path / "mine.jinja").write_text("{{ query.prompt }}")
    folder = sample_as(tmp_path, str(mine))
    mine.write_text("Please: {{ query.prompt }}")
    with pytest.raises(PoolError, match=r"another identity \(template:"):
        sample_as(tmp_path, str(mine))
    assert load_pool(folder).complete


def sample_as(out: Path, template: str) -> Path:
    """Return the folder of a pool drawn by a template."""
    policy = open_chat(f"chat:m,template={template}", chat=ScriptedChat(lambda _: "Rye."))
    sample(bakery(2), policy, out=(folder := out / Path(template).stem), draw=THREE)
    return folder


def test_a_seed_depends_on_item_and_index_alone() -> None:
    few, many = Draw(n=2), Draw(n=128, temperature=0.3)
    assert few.seed_of("i0003", 1) == many.seed_of("i0003", 1)
    assert few.seed_of("i0003", 1) != Draw(n=2, seed=1).seed_of("i0003", 1)
    assert Draw().seed_of("1:2", 3) != Draw().seed_of("2", 31)


def test_the_policy_sees_the_user_and_the_prompt_but_no_candidate_and_no_label(tmp_path: Path) -> None:
    bench = bakery(6, canary="CANARY")
    chat = ScriptedChat(lambda _: "Rye.")
    sample(bench, open_chat("chat:m", chat=chat), "recent:2", out=tmp_path / "pool", draw=Draw(n=1))
    for item, request in zip(bench.items, chat.requests, strict=True):
        [(role, text)] = request.messages
        assert role == "user"
        assert item.prompt in text
        assert item.user is not None
        assert item.user.posts[0].text in text
        assert "CANARY" not in text
        assert not any(candidate in text for candidate in item.candidates)
    kept = list(read_inputs(tmp_path / "pool"))
    assert [record["item"] for record in kept] == [item.id for item in bench.items]
    assert all(record["candidates"] == [] for record in kept)


def test_a_benchmark_of_prompts_alone_can_be_sampled(tmp_path: Path) -> None:
    whole = bakery(3)
    prompts = Benchmark(whole.card, tuple(replace(item, candidates=(), preferred=None) for item in whole.items))
    assert sample(prompts, scripted(), out=tmp_path / "pool", draw=THREE).complete


def test_a_pool_says_that_its_policy_was_shown_the_rubric(tmp_path: Path) -> None:
    assert sample(bakery(2), scripted(), "oracle", out=tmp_path / "pool", draw=THREE).reveals == {"oracle"}


# ---------------------------------------------------------------- how answers end


def test_an_answer_that_is_cut_off_is_kept_as_cut_off(tmp_path: Path) -> None:
    found = only(ChatReply("Take rye and", "length"), tmp_path)
    assert (found.text, found.finish, found.failure) == ("Take rye and", "length", None)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_answer_is_an_answer(tmp_path: Path, text: str) -> None:
    found = only(ChatReply(text), tmp_path)
    assert (found.text, found.finish, found.failure) == (text, "empty", None)


def test_a_refusal_is_no_answer_and_is_not_asked_again(tmp_path: Path) -> None:
    found = only(Failure("refused", "not that"), tmp_path)
    assert (found.text, found.finish) == ("", "refused")
    assert found.failure == Failure("refused", "not that")
    chat = ScriptedChat([])  # would raise when asked
    assert sample(bakery(1), open_chat("chat:scripted", chat=chat), out=tmp_path / "pool", draw=Draw(n=1)).complete


def test_a_reply_that_does_not_say_how_it_ended_is_no_answer(tmp_path: Path) -> None:
    assert only(ChatReply("Rye.", ""), tmp_path).finish == "unsupported"


def test_reasoning_is_no_part_of_the_answer(tmp_path: Path) -> None:
    assert only(ChatReply("<think>Rye?</think>\n\nSpelt."), tmp_path).text == "Spelt."


def test_reasoning_that_is_cut_off_leaves_an_answer_without_a_word(tmp_path: Path) -> None:
    found = only(ChatReply("<think>Rye? Or perhaps", "length"), tmp_path)
    assert (found.text, found.finish) == ("", "length")


def test_a_policy_that_does_not_reason_keeps_its_brackets(tmp_path: Path) -> None:
    assert only(ChatReply("<think>Rye?</think>"), tmp_path, reasoning="none").text == "<think>Rye?</think>"


def test_different_answers_are_counted_once_and_failures_not_at_all(tmp_path: Path) -> None:
    said: list[Line] = [ChatReply("Rye."), ChatReply("Spelt."), ChatReply("Rye."), Failure("refused", "no")]
    pool = sample(bakery(1), open_chat("chat:m", chat=ScriptedChat(said)), out=tmp_path / "pool", draw=Draw(n=4))
    assert pool.texts("i0000") == ("Rye.", "Spelt.")
    assert pool.to_json()["finishes"] == {"refused": 1, "stop": 3}


# ---------------------------------------------------------------- resuming


class Fickle:
    """Answers by the tag, but meets an outage on every third ask until it is mended."""

    spec, identity = "fickle", {"weights": "1"}

    def __init__(self, *, mended: bool = False) -> None:
        self.mended = mended
        self.asked: list[tuple[str, int]] = []

    def answer(self, asks: Iterable[AnswerRequest], draw: Draw) -> Iterator[PolicyAnswer | Failure]:
        for number, ask in enumerate(asks):
            self.asked.append((ask.query.id, ask.index))
            if number % 3 == 1 and not self.mended:
                yield Failure("transport", "gone")
            else:
                yield PolicyAnswer(f"{ask.query.id} {ask.index} {ask.seed} {draw.top_p}", "stop", 4)


def test_what_met_an_outage_stays_open_and_is_drawn_when_resumed(tmp_path: Path) -> None:
    bench, whole = bakery(5), sample(bakery(5), Fickle(mended=True), out=tmp_path / "whole", draw=THREE)
    first = sample(bench, Fickle(), out=tmp_path / "pool", draw=THREE)
    assert not first.complete
    assert sum(map(len, first.samples.values())) == 10
    assert len((tmp_path / "pool" / "attempts.jsonl").read_text().splitlines()) == 5
    with pytest.raises(PoolError, match="10 of 15 samples"):
        load_pool(tmp_path / "pool")
    again = Fickle(mended=True)
    second = sample(bench, again, out=tmp_path / "pool", draw=THREE)
    assert len(again.asked) == 5
    assert second.samples == whole.samples
    assert second.content_hash == whole.content_hash != ""
    assert second.complete


def test_a_complete_pool_asks_for_nothing_and_changes_no_byte(tmp_path: Path) -> None:
    path = tmp_path / "pool"
    sample(bakery(3), Fickle(mended=True), out=path, draw=THREE)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    again = Fickle(mended=True)
    sample(bakery(3), again, out=path, draw=THREE)
    assert again.asked == []
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


@pytest.mark.parametrize("cut", [1, 7, 200])
def test_a_torn_tail_is_dropped_and_drawn_again(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "pool"
    whole = sample(bakery(3), Fickle(mended=True), out=path, draw=THREE)
    edit_json(path / "pool.json", status="incomplete", content_hash="")
    content = (path / "samples.jsonl").read_bytes()
    (path / "samples.jsonl").write_bytes(content[:-cut])
    again = Fickle(mended=True)
    assert sample(bakery(3), again, out=path, draw=THREE) == whole
    assert again.asked[-1] == ("i0002", 2)
    assert (path / "samples.jsonl").read_bytes() == content


def test_a_pool_that_was_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pool"
    sample(bakery(3), scripted(), out=path, draw=THREE)
    file = path / "samples.jsonl"
    file.write_text(file.read_text().replace("for i0001 2", "for i0001 9"))
    with pytest.raises(PoolError, match=r"samples\.jsonl:\d+: the line is not as it was written"):
        load_pool(path)


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "pool"
    sample(bakery(3), scripted(), out=path, draw=THREE)
    torn = lines(path)
    (path / "samples.jsonl").write_bytes(b"\n".join([*torn[:4], b'{"item": 3}', *torn[5:]]) + b"\n")
    with pytest.raises(PoolError, match=r"samples\.jsonl:5: "):
        load_pool(path)


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"draw": Draw(n=4)}, "draw .n: 4, was 3"),
        ({"draw": Draw(n=3, seed=1)}, "draw .seed: 1, was 0"),
        ({"limit": 2}, "selection; another items"),
        ({"condition": "recent:1"}, "condition"),
        ({"policy": scripted()}, "policy; another identity"),
    ],
)
def test_another_pool_is_not_mixed_into_one(tmp_path: Path, other: dict[str, object], told: str) -> None:
    how: dict[str, object] = {"policy": Fickle(mended=True), "condition": "none", "draw": THREE, "out": tmp_path / "p"}
    sample(bakery(4), **how)  # type: ignore[arg-type]
    with pytest.raises(PoolError, match=told):
        sample(bakery(4), **{**how, **other})  # type: ignore[arg-type]
    assert sample(bakery(4), **{**how, **other}, fresh=True).complete  # type: ignore[arg-type]


def test_fresh_removes_the_pool_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    sample(bakery(2), scripted(), out=tmp_path, draw=THREE)
    sample(bakery(2), Fickle(mended=True), out=tmp_path, draw=THREE, fresh=True)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_two_writers_do_not_share_a_pool(tmp_path: Path) -> None:
    lock = lock_folder(tmp_path / "pool")
    try:
        with pytest.raises(PoolError, match="another process is writing this pool"):
            sample(bakery(2), scripted(), out=tmp_path / "pool", draw=THREE, fresh=True)
    finally:
        os.close(lock)
    assert sample(bakery(2), scripted(), out=tmp_path / "pool", draw=THREE).complete


def test_a_folder_that_cannot_be_written_is_one_clear_message(tmp_path: Path) -> None:
    (tmp_path / "pool").write_text("a file where the folder should be")
    with pytest.raises(PoolError, match=r"cannot write to .*pool"):
        sample(bakery(2), scripted(), out=tmp_path / "pool", draw=THREE)


def test_an_interrupt_keeps_what_was_drawn(tmp_path: Path) -> None:
    def stop(request: ChatRequest) -> str:
        if request.tag == "i0001 1":
            raise KeyboardInterrupt
        return "Rye."

    with pytest.raises(KeyboardInterrupt):
        sample(bakery(3), scripted(stop), out=tmp_path / "pool", draw=THREE)
    assert len(lines(tmp_path / "pool")) == 4
    assert POOL.read(tmp_path / "pool").samples == 4


def test_a_condition_that_fails_fails_its_samples_without_asking_the_policy(tmp_path: Path) -> None:
    def persona(seen: Seen) -> object:
        return say("", refusal="no") if "crust" in seen.prompt else say("Likes rye.")

    chat = ScriptedChat(lambda _: "Rye.")
    with FakeChat(persona) as server:  # type: ignore[arg-type]
        spec = f"persona:m,k=1,url={server.url}"
        pool = sample(bakery(8), open_chat("chat:p", chat=chat), spec, out=tmp_path / "pool", draw=THREE)
    failed = {item for item, several in pool.samples.items() if several[0].failure}
    assert 0 < len(failed) < 8
    assert pool.complete
    assert {one.finish for item in failed for one in pool.samples[item]} == {"refused"}
    assert len(chat.requests) == 3 * (8 - len(failed))


# ---------------------------------------------------------------- over HTTP


def served(server: FakeChat, tmp_path: Path, name: str, draw: Draw = THREE, **how: object) -> Pool:
    settings = Settings(cache=tmp_path / "cache", **how)  # type: ignore[arg-type]
    return sample(bakery(6), f"chat:m,url={server.url}", out=tmp_path / name, draw=draw, settings=settings)


def by_seed(seen: Seen) -> object:
    return say(f"answer {seen.body['seed']}")


def test_the_server_is_told_how_to_draw(tmp_path: Path) -> None:
    with FakeChat(by_seed) as server:  # type: ignore[arg-type]
        pool = served(server, tmp_path, "pool", Draw(n=2, temperature=0.7, top_p=0.5, max_tokens=33))
        bodies = [seen.body for seen in server.requests]
    assert {(body["temperature"], body["top_p"], body["max_tokens"]) for body in bodies} == {(0.7, 0.5, 33)}
    assert {body["seed"] for body in bodies} == {one.seed for several in pool.samples.values() for one in several}
    assert {one.tokens for several in pool.samples.values() for one in several} == {10}


def test_a_larger_pool_pays_only_for_its_further_answers(tmp_path: Path) -> None:
    with FakeChat(by_seed) as server:  # type: ignore[arg-type]
        small = served(server, tmp_path, "small")
        assert len(server.requests) == 18
        large = served(server, tmp_path, "large", Draw(n=5))
        assert len(server.requests) == 30
    assert all(large.samples[item][:3] == several for item, several in small.samples.items())


def test_concurrency_and_faults_change_no_byte(tmp_path: Path) -> None:
    with FakeChat(by_seed, faults=[status(500), reset, status(429, retry_after="0")]) as server:  # type: ignore[arg-type]
        served(server, tmp_path, "one", concurrency=1)
    with FakeChat(by_seed, latency=0.01) as other:  # type: ignore[arg-type]
        settings = Settings(concurrency=16)
        policy = f"chat:m,url={other.url}"
        sample(bakery(6), policy, out=tmp_path / "many", draw=THREE, settings=settings)
    one, many = ((tmp_path / name / "samples.jsonl").read_bytes() for name in ("one", "many"))
    assert one == many


def test_a_server_that_refuses_every_call_leaves_no_pool(tmp_path: Path) -> None:
    with FakeChat(lambda _: status(401)) as server, pytest.raises(ServiceError, match="401"):
        served(server, tmp_path, "pool")
    assert not (tmp_path / "pool").exists()


def test_posts_leave_the_machine_only_where_the_spec_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken_for_elsewhere(monkeypatch)
    with FakeChat() as server:
        far = f"chat:m,url={server.url}"
        with pytest.raises(PrivacyError, match="send=posts"):
            sample(bakery(2), open_chat(far), "recent:1", out=tmp_path / "pool", draw=THREE)
        assert server.requests == []
        assert sample(bakery(2), open_chat(far), out=tmp_path / "none", draw=THREE).complete
        assert sample(bakery(2), open_chat(f"{far},send=posts"), "recent:1", out=tmp_path / "sent", draw=THREE).complete


# ---------------------------------------------------------------- what cannot be meant


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"n": 0}, "n is 0"),
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"temperature": 0.0, "n": 2}, "one answer 2 times"),
    ],
)
def test_a_draw_that_cannot_be_meant_is_refused(changes: dict[str, float], told: str) -> None:
    with pytest.raises(SpecError, match=told):
        Draw(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("caht:m", "Did you mean 'chat'"),
        ("chat", "needs a target"),
        ("chat:m,temperature=1", "no key 'temperature'"),
        ("chat:m,url=http://me:secret@host/v1", "redacted"),
    ],
)
def test_a_policy_that_cannot_be_read_is_refused(spec: str, told: str) -> None:
    with pytest.raises(SpecError, match=told) as raised:
        load_policy(spec)
    assert "secret" not in str(raised.value)


def test_an_unknown_domain_is_told(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="Did you mean 'Bread'"):
        sample(bakery(2), scripted(), out=tmp_path / "pool", domains=["Braed"])


def test_a_plan_counts_what_is_left_and_writes_nothing(tmp_path: Path) -> None:
    how = {"out": tmp_path / "pool", "draw": THREE}
    plan = sample_plan(bakery(5), Fickle(), **how)  # type: ignore[arg-type]
    assert (plan.items, plan.wanted, plan.done, plan.calls, plan.max_tokens) == (5, 15, 0, 15, 15 * 512)
    assert not (tmp_path / "pool").exists()
    sample(bakery(5), Fickle(), **how)  # type: ignore[arg-type]
    assert sample_plan(bakery(5), Fickle(), **how).calls == 5  # type: ignore[arg-type]
    with pytest.raises(PoolError, match="another policy"):
        sample_plan(bakery(5), scripted(), **how)  # type: ignore[arg-type]
