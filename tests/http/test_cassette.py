"""Cassettes: a study re-run without a server; what is not on one is never asked of anybody."""

import json
import resource
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from pluralrm.core import Failure
from pluralrm.errors import ServiceError
from pluralrm.http import Call, Service, Settings, parse_address
from pluralrm.http.cache import Cassette, recorder
from pluralrm.journal import unsealed_line
from tests.fake_chat import Action, FakeChat, late, say, status
from tests.http.test_service import ask, call, kinds, read, texts


def test_a_recorded_run_is_replayed_without_a_server_or_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tape = tmp_path / "folder" / "tape.jsonl"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789abcdef")
    with FakeChat(lambda seen: say(f"to {seen.prompt}: é\n")) as server:
        said = ask(server, range(20), record=tape, concurrency=8)
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setitem(__import__("sys").modules, "httpx2", None)
    assert ask(server, range(20), replay=tape) == said
    assert ask(server, reversed(range(20)), replay=tape, concurrency=1) == said[::-1]
    assert len(server.requests) == 20


def test_a_cassette_holds_requests_and_replies_and_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789abcdef")
    with FakeChat() as server:
        ask(server, ["1"], record=tmp_path / "tape.jsonl")
    text = (tmp_path / "tape.jsonl").read_text()
    assert "canary" not in text
    assert "uthorization" not in text
    [line] = text.splitlines()
    assert json.loads(line)["request"] == {
        "schema": 1,
        "url": f"{server.url}/chat/completions",
        "body": {"model": "m", "messages": [{"role": "user", "content": "1"}]},
        "marks": {},
    }


COMPLAINT = status(400, "This model's maximum context length is 10 tokens.")


def test_that_a_text_is_too_long_is_recorded_and_replayed(tmp_path: Path) -> None:
    """It is the server's last word on that text, so a set with one can be made again from the cassette alone."""
    tape = tmp_path / "tape.jsonl"
    with FakeChat(lambda seen: COMPLAINT if seen.prompt == "1" else say("A")) as server:
        said = ask(server, range(3), record=tape, cache=tmp_path / "cache")
        assert kinds(said) == ["A", "too_long", "A"]
        assert ask(server, range(3), replay=tape) == said
        assert ask(server, range(3), record=tape) == said
        assert len(server.requests) == 3
    lines = [json.loads(unsealed_line(line)) for line in tape.read_bytes().splitlines()]
    assert sorted(sorted(line.keys()) for line in lines) == [["reply", "request"]] * 2 + [["request", "too_long"]]
    assert "maximum context length" in next(line["too_long"] for line in lines if "too_long" in line)


def test_no_cache_keeps_that_a_text_was_too_long_for_the_server_may_be_started_with_more(tmp_path: Path) -> None:
    with FakeChat(faults=[COMPLAINT]) as server:
        assert kinds(ask(server, ["1"], cache=tmp_path, record=tmp_path / "one.jsonl")) == ["too_long"]
        assert ask(server, ["1"], cache=tmp_path, record=tmp_path / "two.jsonl") == ["A"]


@pytest.mark.parametrize("action", [status(500), status(429), late(say("A"), 5.0)])
def test_an_outage_is_on_no_cassette(tmp_path: Path, action: Action) -> None:
    tape = tmp_path / "tape.jsonl"
    with FakeChat(lambda _: action) as server:
        assert kinds(ask(server, ["1"], record=tape, attempts=1, attempt_seconds=0.2)) == ["transport"]
    assert tape.read_text() == ""


def test_an_unknown_request_is_an_outage_that_names_the_closest(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    with FakeChat() as server:
        ask(server, ["Which flour for rye?", "Which oven for bread?"], record=tape)
        known, unknown = ask(server, ["Which flour for rye?", "Which flour for rolls?"], replay=tape)
        assert known == "A"
        assert isinstance(unknown, Failure)
        assert unknown.kind == "transport"
        assert "body.messages[0].content is " in unknown.detail
        assert "for rye?" in unknown.detail
        assert "for rolls?" in unknown.detail
        assert len(server.requests) == 2


def test_another_model_is_named_as_the_difference(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    body = {"model": "n", "messages": [{"role": "user", "content": "1"}]}
    with FakeChat() as server:
        ask(server, ["0", "1", "2"], record=tape)
        with Service(parse_address(server.url), Settings(replay=tape)) as service:
            [failure] = texts(service.replies([Call("/chat/completions", body)], read))
    assert isinstance(failure, Failure)
    assert failure.detail.endswith('differs: body.model is "m", asked was "n"')


def test_many_misses_stay_cheap_and_open(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    with FakeChat() as server:
        ask(server, range(5), record=tape)
    outcomes = ask(server, range(100, 300), replay=tape)
    assert kinds(outcomes) == ["transport"] * 200
    assert sum("closest" in str(outcome) for outcome in outcomes) == 3


def test_recording_goes_on_where_it_stopped(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    with FakeChat(lambda seen: say(seen.prompt)) as server:
        ask(server, range(5), record=tape)
        with tape.open("a") as file:
            file.write('{"request": {"schema": 1, "torn' + "x" * 10_000)
        assert ask(server, range(8), record=tape) == [str(number) for number in range(8)]
        assert len(server.requests) == 8
    assert len(tape.read_text().splitlines()) == 8
    assert ask(server, range(8), replay=tape) == [str(number) for number in range(8)]


def test_what_the_cache_hands_out_is_recorded_too(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    with FakeChat() as server:
        ask(server, range(5), cache=tmp_path)
        ask(server, range(5), cache=tmp_path, record=tape)
        assert len(server.requests) == 5
    assert ask(server, range(5), replay=tape) == ["A"] * 5


def test_failures_are_not_recorded(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    with FakeChat(lambda seen: status(500) if seen.prompt == "1" else say("A")) as server:
        ask(server, range(3), record=tape, attempts=2)
    assert kinds(ask(server, range(3), replay=tape)) == ["A", "transport", "A"]


def test_a_fresh_call_is_on_the_cassette(tmp_path: Path) -> None:
    tape, models = tmp_path / "tape.jsonl", Call("/models", fresh=True)
    with FakeChat() as server, Service(parse_address(server.url), Settings(record=tape)) as service:
        recorded = list(service.replies([models], str))
    with Service(parse_address(server.url), Settings(replay=tape)) as service:
        [replayed] = service.replies([models], str)
    assert not isinstance(replayed, Failure)
    assert replayed.content == recorded[0].content  # type: ignore[union-attr]


def test_the_services_of_a_process_record_on_one_cassette(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    settings = Settings(record=tape, concurrency=4)

    def asked(model: str) -> list[str | Failure]:
        calls = [Call("/chat/completions", {"model": model, "messages": [{"content": str(n)}]}) for n in range(50)]
        with Service(parse_address(server.url), settings, model=model) as service:
            return texts(service.replies(calls, read))

    with FakeChat(lambda seen: say(f"{seen.body['model']} to {seen.prompt}")) as server:
        with ThreadPoolExecutor(3) as pool:
            said = list(pool.map(asked, "mnm"))
        assert said == [[f"{model} to {number}" for number in range(50)] for model in "mnm"]
    assert len(tape.read_text().splitlines()) == 100
    settings = Settings(replay=tape)
    assert [asked(model) for model in "mnm"] == said


def test_two_services_that_ask_the_same_agree_with_the_cassette(tmp_path: Path) -> None:
    numbers = count()
    settings = Settings(record=tmp_path / "tape.jsonl")
    with FakeChat(lambda _: late(say(str(next(numbers))), 0.05)) as server, ThreadPoolExecutor(4) as pool:

        def once(_: int) -> list[str | Failure]:
            with Service(parse_address(server.url), settings) as service:
                return texts(service.replies([call("?")], read))

        said = list(pool.map(once, range(4)))
    assert said == [said[0]] * 4
    assert ask(server, ["?"], replay=tmp_path / "tape.jsonl") == said[0]


def test_two_processes_do_not_record_on_one_file(tmp_path: Path) -> None:
    first = Cassette(tmp_path / "tape.jsonl", "record")
    with pytest.raises(ServiceError, match="another process"):
        Cassette(tmp_path / "tape.jsonl", "record")
    first.close()


@pytest.mark.parametrize("line", ["not json\n", "[]\n", '{"reply": 1}\n', "\n"])
def test_a_malformed_line_is_named(line: str, tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    tape.write_text('{"request": {"schema": 1}, "reply": {}}\n' + line)
    with pytest.raises(ServiceError, match=r"tape\.jsonl:2"):
        Cassette(tape, "replay")


def test_an_empty_or_missing_cassette_says_so(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="nowhere"):
        Cassette(tmp_path / "nowhere.jsonl", "replay")
    (tmp_path / "tape.jsonl").touch()
    tape = Cassette(tmp_path / "tape.jsonl", "replay")
    assert "no request at all" in tape.missing({})
    tape.close()


def test_a_run_records_or_replays(tmp_path: Path) -> None:
    with FakeChat() as server, pytest.raises(ServiceError, match="either records or replays"):
        ask(server, record=tmp_path / "a", replay=tmp_path / "b")


def test_a_full_disk_is_one_error_and_what_was_recorded_stays(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    cassette = recorder(tape)
    cassette.add("a", {"n": 1}, "short")
    before = tape.read_bytes()
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, usual[1]))  # a write beyond it fails as on a full disk
    try:
        with pytest.raises(ServiceError, match="cannot use the cassette"):
            cassette.add("b", {"n": 2}, "long" * 1_000)
        cassette.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    again = recorder(tape)
    assert tape.read_bytes() == before
    again.close()
