"""A service against a faulty server: attempts, waits, limits, deadlines, the cap, and the order of replies."""

import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from pluralrm.core import Failure
from pluralrm.errors import MissingExtraError, ServiceError
from pluralrm.http import Call, Price, Reply, Service, Settings, UnsoundError, parse_address
from tests import fake_chat
from tests.fake_chat import FakeChat, drip, late, reply, reset, say, status, truncated
from tests.http.clock import FakeClock


def read(value: Any) -> str:
    try:
        return str(value["choices"][0]["message"]["content"])
    except (KeyError, IndexError, TypeError):
        raise UnsoundError("the reply has no choices") from None


def call(prompt: object) -> Call:
    return Call("/chat/completions", {"model": "m", "messages": [{"role": "user", "content": str(prompt)}]})


def ask(
    server: FakeChat, prompts: Iterable[object] = ("?",), *, clock: FakeClock | None = None, **settings: Any
) -> list[str | Failure]:
    """Return what a service makes of some prompts."""
    with Service(parse_address(server.url), Settings(**settings), model="m", clock=clock or FakeClock()) as service:
        return texts(service.replies(map(call, prompts), read))


def texts(replies: Iterable[Reply[str] | Failure]) -> list[str | Failure]:
    return [reply if isinstance(reply, Failure) else reply.content for reply in replies]


def kinds(outcomes: Iterable[str | Failure]) -> list[str]:
    return [outcome.kind if isinstance(outcome, Failure) else outcome for outcome in outcomes]


def echo(seen: fake_chat.Seen) -> fake_chat.Action:
    """Answer with the prompt, the earlier ones later, so that replies come in another order."""
    return late(say(seen.prompt), 0.03 if int(seen.prompt) % 7 == 0 else 0)


# ---------------------------------------------------------------- order and concurrency


@pytest.mark.parametrize("concurrency", [1, 3, 64])
def test_replies_come_in_the_order_of_the_calls_at_every_concurrency(concurrency: int) -> None:
    with FakeChat(echo) as server:
        assert ask(server, range(100), concurrency=concurrency) == [str(number) for number in range(100)]


@pytest.mark.parametrize("concurrency", [1, 5])
def test_no_more_calls_are_in_flight_than_allowed(concurrency: int) -> None:
    with FakeChat(latency=0.05) as server:
        ask(server, range(20), concurrency=concurrency)
        assert server.most_at_once == concurrency


def test_retries_do_not_raise_the_number_in_flight() -> None:
    with FakeChat(faults=[status(500), reset, status(429)] * 5, latency=0.01) as server:
        assert ask(server, range(30), concurrency=4) == ["A"] * 30
        assert server.most_at_once <= 4
        assert len(server.requests) == 45


def test_calls_are_taken_only_as_there_is_room() -> None:
    taken = []

    def many() -> Iterator[Call]:
        for number in range(1000):
            taken.append(number)
            yield call(number)

    with FakeChat() as server, Service(parse_address(server.url), Settings(concurrency=2)) as service:
        replies = service.replies(many(), read)
        for _ in range(20):
            next(replies)
        assert len(taken) <= 20 + 8
        replies.close()
    assert len(server.requests) <= 20 + 8


def test_a_reader_who_stops_leaves_nothing_running() -> None:
    with FakeChat(latency=0.2) as server, Service(parse_address(server.url), Settings(concurrency=2)) as service:
        replies = service.replies(map(call, range(100)), read)
        next(replies)
        replies.close()
        sent = len(server.requests)
        time.sleep(0.3)
        assert len(server.requests) <= sent + 2
        assert texts(service.replies([call("again")], read)) == ["A"]


# ---------------------------------------------------------------- attempts and waits


@pytest.mark.parametrize(
    "fault",
    [
        status(408),
        status(429),
        status(500),
        status(503),
        status(529),
        reset,
        truncated(say("B")),
        reply({"choices": []}),
        reply({"error": {"message": "overloaded"}}),
        reply([]),
        fake_chat.Action(200, b"<html>", {"Content-Type": "text/html"}),
        fake_chat.Action(200, say("B").body, {"Content-Type": "text/plain"}),
        fake_chat.Action(200, b"", {"Content-Type": "application/json"}),
        fake_chat.Action(200, say("B").body.replace(b'"B"', b'"\xff"'), {"Content-Type": "application/json"}),
        fake_chat.Action(200, b"not gzip", {"Content-Type": "application/json", "Content-Encoding": "gzip"}),
    ],
)
def test_an_outage_is_mended_by_the_next_attempt(fault: fake_chat.Action) -> None:
    with FakeChat(faults=[fault, fault]) as server:
        assert ask(server, attempts=3) == ["A"]
        assert len(server.requests) == 3
    with FakeChat(lambda _: fault) as server:
        [failure] = ask(server, attempts=4)
        assert isinstance(failure, Failure)
        assert failure.kind == "transport"
        assert failure.detail.startswith("4 attempts, the last: ")
        assert len(server.requests) == 4


@pytest.mark.parametrize("code", [400, 401, 403, 404, 405, 409, 410, 422, 301, 302, 307, 308])
def test_any_other_refusal_is_one_attempt_and_ends_the_run(code: int) -> None:
    elsewhere = FakeChat()
    with elsewhere, FakeChat(lambda _: status(code, "no", Location=f"{elsewhere.url}/chat/completions")) as server:
        with pytest.raises(ServiceError, match=f"HTTP {code}: no"):
            ask(server, range(1000), concurrency=4)
        assert len(server.requests) <= 4
        assert elsewhere.requests == []


def test_what_came_before_an_error_is_handed_out() -> None:
    with FakeChat(lambda seen: status(404) if seen.prompt == "5" else say(seen.prompt)) as server:
        with Service(parse_address(server.url), Settings(concurrency=2)) as service:
            replies = service.replies(map(call, range(100)), read)
            assert texts(islice(replies, 5)) == ["0", "1", "2", "3", "4"]
            with pytest.raises(ServiceError):
                next(replies)
        assert len(server.requests) <= 8


def test_a_text_that_is_too_long_fails_alone_and_is_not_sent_again() -> None:
    complaint = status(400, "This model's maximum context length is 10 tokens.")
    with FakeChat(lambda seen: complaint if seen.prompt == "1" else say("A")) as server:
        assert kinds(ask(server, range(3))) == ["A", "too_long", "A"]
        assert len(server.requests) == 3


def test_retry_after_is_honoured() -> None:
    clock = FakeClock()
    with FakeChat(faults=[status(429, retry_after="7"), status(503, retry_after="20"), status(500)]) as server:
        assert ask(server, clock=clock) == ["A"]
    # Each attempt: its own wait, then what is left of the asked one.
    assert 27 <= sum(clock.waits) <= 1.1 * 27 + 2


def test_a_call_that_is_sent_a_third_time_is_said_once_with_how_long_that_may_go_on() -> None:
    heard: list[tuple[str, str]] = []
    with FakeChat(faults=[reset] * 5) as server:
        assert ask(server, range(2), concurrency=1, on_wait=lambda *words: heard.append(words)) == ["A", "A"]
    ((url, text),) = heard
    assert url == server.url
    assert text.startswith("no answer in 2 attempts (the last: ")
    assert text.endswith("tried 6 times within 600 s; after 8 calls in a row without an answer no other is sent")


def test_one_attempt_that_fails_is_not_said_unless_it_was_long() -> None:
    heard: list[tuple[str, str]] = []
    with FakeChat(faults=[reset]) as server:
        assert ask(server, on_wait=lambda *words: heard.append(words)) == ["A"]
        assert not heard

    class SlowClock(FakeClock):
        def now(self) -> float:
            self.time += 15
            return self.time

    with FakeChat(faults=[reset]) as server:
        assert ask(server, clock=SlowClock(), on_wait=lambda *words: heard.append(words)) == ["A"]
    assert [text[:23] for _, text in heard] == ["no answer in 1 attempt "]


def test_a_wait_is_really_waited() -> None:
    with FakeChat(faults=[status(429, retry_after="0.4")]) as server:
        with Service(parse_address(server.url), Settings(concurrency=1)) as service:
            assert texts(service.replies([call(1), call(2)], read)) == ["A", "A"]
        first, second, third = (seen.at for seen in server.requests)
    assert second - first >= 0.4
    assert third >= second


def test_a_wait_that_one_call_is_asked_for_holds_for_the_others() -> None:
    with FakeChat(faults=[status(429, retry_after="0.5")], latency=0.02) as server:
        with Service(parse_address(server.url), Settings(concurrency=4)) as service:
            assert texts(service.replies(map(call, range(40)), read)) == ["A"] * 40
        start = server.requests[0].at
        # Only what was already on its way arrives within the wait.
        assert sum(seen.at - start < 0.5 for seen in server.requests) <= 4 + 3


def test_a_longer_wait_than_the_call_may_take_is_a_missed_deadline() -> None:
    with FakeChat(lambda _: status(429, retry_after="3600")) as server:
        [failure] = ask(server, call_seconds=60)
        assert isinstance(failure, Failure)
        assert failure.kind == "deadline"
        assert len(server.requests) == 1


def test_an_outage_that_lasts_is_not_asked_about_2830_times() -> None:
    with FakeChat(lambda _: status(500)) as server:
        outcomes = ask(server, range(500), concurrency=4, attempts=2)
        assert kinds(outcomes) == ["transport"] * 500
        assert len(server.requests) <= 2 * (8 + 4)
        last = outcomes[-1]
        assert isinstance(last, Failure)
        assert "not sent: " in last.detail
        assert "HTTP 500" in last.detail


def test_a_server_that_is_not_there_is_an_outage() -> None:
    with FakeChat() as server:
        pass
    [failure] = ask(server, attempts=2)
    assert kinds([failure]) == ["transport"]


# ---------------------------------------------------------------- deadlines


@pytest.mark.parametrize("slow", [drip(say("A"), pause=0.2), late(say("A"), 30)])
def test_a_reply_that_is_not_complete_in_time_is_tried_again(slow: fake_chat.Action) -> None:
    with FakeChat(faults=[slow]) as server:
        assert ask(server, attempt_seconds=5.0) == ["A"]
        assert len(server.requests) == 2


@pytest.mark.parametrize("slow", [drip(say("A"), pause=0.02), late(say("A"), 30)])
def test_a_call_ends_at_its_deadline_however_the_server_drips(slow: fake_chat.Action) -> None:
    with FakeChat(lambda _: slow) as server:
        [failure] = ask(server, call_seconds=0.4)
        assert isinstance(failure, Failure)
        assert failure.kind == "deadline"
        assert "0.4 s that a call may take" in failure.detail


def test_a_run_ends_at_its_deadline_and_sends_nothing_after() -> None:
    with FakeChat(latency=0.2) as server:
        outcomes = kinds(ask(server, range(200), concurrency=2, run_seconds=3.0))
        done = outcomes.count("A")
        assert outcomes == ["A"] * done + ["deadline"] * (200 - done)
        assert 0 < done <= 32
        assert len(server.requests) <= done + 2


def test_the_runs_deadline_holds_for_all_its_streams() -> None:
    with FakeChat(latency=0.02) as server:
        with Service(parse_address(server.url), Settings(concurrency=1, run_seconds=0.3)) as service:
            first = service.replies(map(call, count()), read)
            ended = next(outcome for outcome in first if isinstance(outcome, Failure))  # however long that took
            assert ended.kind == "deadline"
            first.close()
            assert kinds(texts(service.replies([call("later")], read))) == ["deadline"]
        assert "later" not in [seen.prompt for seen in server.requests]


# ---------------------------------------------------------------- cost


def test_the_cap_is_passed_by_no_more_than_what_is_in_flight() -> None:
    # A call costs 100 + 10 tokens = 120 millionths at these prices; ten of them are allowed.
    with FakeChat(latency=0.01) as server:
        prices = {"m": Price(1.0, 2.0)}
        settings = Settings(concurrency=8, prices=prices, max_cost=0.0012)
        with Service(parse_address(server.url), settings, model="m") as service:
            outcomes = kinds(texts(service.replies(map(call, range(200)), read)))
            tally = service.tally
        assert 10 <= len(server.requests) <= 10 + 7
        assert outcomes == ["A"] * len(server.requests) + ["budget"] * (200 - len(server.requests))
        assert tally.cost == pytest.approx(len(server.requests) * 120e-6)


def test_services_with_one_settings_spend_from_one_purse() -> None:
    with FakeChat() as server:
        settings = Settings(concurrency=1, prices={"m": Price(1.0, 2.0), "n": Price(1.0, 2.0)}, max_cost=0.0012)
        outcomes = []
        for model in ("m", "n", "m"):
            with Service(parse_address(server.url), settings, model=model) as service:
                outcomes += kinds(texts(service.replies(map(call, range(6)), read)))
        assert outcomes == ["A"] * 10 + ["budget"] * 8
        assert len(server.requests) == 10
        assert ask(server, prices=settings.prices, max_cost=0.0012) == ["A"]  # another command, another purse


def test_settings_reach_another_process_as_they_are() -> None:
    settings = Settings(concurrency=3, prices={"m": Price(1.0, 2.0)}, max_cost=1.5, cache=Path("kept"))
    assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301 - our own


def test_replies_that_cannot_be_used_are_paid_for_too() -> None:
    broken = reply({"choices": [], "usage": {"prompt_tokens": 50, "completion_tokens": 0}})
    with FakeChat(faults=[broken]) as server:
        settings = Settings(prices={"m": Price(1.0, 1.0)})
        with Service(parse_address(server.url), settings, model="m", clock=FakeClock()) as service:
            assert texts(service.replies([call(1)], read)) == ["A"]
            assert service.tally.prompt_tokens == 150
            assert (service.tally.answered, service.tally.attempts) == (1, 2)


def test_a_server_that_counts_no_tokens_cannot_be_capped() -> None:
    with FakeChat(lambda _: say("A", usage=None)) as server:
        assert ask(server) == ["A"]
        with pytest.raises(ServiceError, match="no highest cost can be held"):
            ask(server, prices={"m": Price(1, 1)}, max_cost=1.0)


# ---------------------------------------------------------------- what it needs


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "httpx2", None)
    with pytest.raises(MissingExtraError, match=r"pluralrm\[chat\]"):
        Service(parse_address("http://127.0.0.1:1"))


@pytest.mark.parametrize(
    "wrong",
    [{"concurrency": 0}, {"attempts": 0}, {"call_seconds": 0}, {"run_seconds": -1}, {"attempt_seconds": float("nan")}],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ServiceError, match=next(iter(wrong))):
        Settings(**wrong)  # type: ignore[arg-type]


def test_a_closed_service_takes_no_calls() -> None:
    with FakeChat() as server:
        service = Service(parse_address(server.url))
        assert texts(service.replies([call(1)], read)) == ["A"]
        service.close()
        with pytest.raises(RuntimeError, match="closed"):
            list(service.replies([call(1)], read))


def test_reading_on_after_the_end_is_an_error_and_no_hang() -> None:
    with FakeChat(latency=0.05) as server:
        service = Service(parse_address(server.url), Settings(concurrency=2))
        replies = service.replies(map(call, range(100)), read)
        next(replies)
        service.close()
        with pytest.raises(RuntimeError, match="closed"):
            list(replies)


def test_closing_wakes_a_reader_in_another_thread() -> None:
    with FakeChat(latency=300) as server:
        service = Service(parse_address(server.url), Settings(concurrency=2))
        closing = threading.Timer(0.3, service.close)
        closing.start()
        with pytest.raises(RuntimeError, match="closed"):
            list(service.replies(map(call, range(3)), read))
        closing.join()


def test_a_reply_that_its_reader_stumbles_over_costs_its_own_call_alone() -> None:
    def stumbling(value: object) -> str:
        said = read(value)
        return said if "3" not in said else str(1 // 0)

    with FakeChat(lambda seen: say(seen.prompt)) as server:
        settings = Settings(concurrency=4, attempts=2)
        with Service(parse_address(server.url), settings, clock=FakeClock()) as service:
            outcomes = list(service.replies(map(call, range(8)), stumbling))
    failed = [place for place, outcome in enumerate(outcomes) if isinstance(outcome, Failure)]
    assert failed == [3]
    assert "the reply cannot be read (ZeroDivisionError" in str(outcomes[3])
    assert len(server.requests) == 8 + 1


def test_a_bug_in_the_calls_is_raised_where_it_happens() -> None:
    def broken() -> Iterator[Call]:
        yield call(1)
        yield call(2)
        raise LookupError("no third call")

    with FakeChat() as server, Service(parse_address(server.url), Settings(concurrency=1)) as service:
        replies = service.replies(broken(), read)
        with pytest.raises(LookupError, match="no third call"):
            list(replies)
        assert texts(service.replies([call(3)], read)) == ["A"]


def test_a_path_without_a_body_is_fetched() -> None:
    with FakeChat(lambda seen: reply({"said": seen.method + seen.path})) as server:
        with Service(parse_address(server.url)) as service:
            [answer] = service.replies([Call("/models")], lambda value: value)
        assert not isinstance(answer, Failure)
        assert answer.content == {"said": "GET/v1/models"}


def test_this_machine_is_never_asked_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeChat() as proxy, FakeChat() as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert ask(server) == ["A"]
        assert proxy.requests == []


def test_a_run_that_asks_no_server_loads_no_event_loop() -> None:
    code = "import sys, pluralrm.runs, pluralrm.http; print('asyncio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout == b"False\n"
