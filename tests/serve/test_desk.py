"""A condition that asks a model of its own, behind the server: an outage is an outage, and nobody else waits for it."""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from pluralrm.chat import ChatReply, ChatRequest, ScriptedChat
from pluralrm.conditions.notes import open_notes
from pluralrm.conditions.posts import PreparedQuery
from pluralrm.core import Benchmark, Failure, Item
from pluralrm.serve.server import RewardServer, open_server
from tests.builders import bakery
from tests.serve.running import asked, running, together
from tests.serve.test_server import Slow

BENCH = bakery(6)


def server_with(chat: ScriptedChat, model: Slow) -> RewardServer:
    return open_server(model, open_notes("persona:m,k=3", chat=chat), BENCH, relative=False, run="r1")


def about(*items: str) -> dict[str, object]:
    return {"rollouts": [{"item": item, "candidates": ["rye"]} for item in items]}


def test_a_note_that_an_outage_kept_away_is_an_outage_and_is_asked_for_again() -> None:
    answers: list[str | ChatReply | Failure] = [Failure("transport", "connection refused"), "Bakes by feel."]
    chat, model = ScriptedChat(answers), Slow()
    with running(server_with(chat, model)) as url:
        status, told, headers = asked(url, "/score", about("i0000"))
        assert (status, told["error"]["type"], told["error"]["retry"]) == (502, "transport", True)
        assert int(headers["retry-after"]) >= 1
        assert not model.asked
        assert asked(url, "/score", about("i0000"))[1]["scores"] == [[3.0]]
        assert asked(url, "/score", about("i0000"))[1]["scores"] == [[3.0]]  # the note is kept
    assert model.asked[0][0].notes == ("Bakes by feel.",)
    assert chat.calls == 2


def test_a_note_that_is_refused_fails_its_own_rollout_by_name() -> None:
    def says(request: ChatRequest) -> str | Failure:
        theirs = [post.text for post in BENCH.items[1].user.posts]  # type: ignore[union-attr]
        about_them = any(text in request.messages[0][1] for text in theirs)
        return Failure("refused", "content filter") if about_them else "Bakes by feel."

    model = Slow()
    with running(server_with(ScriptedChat(says), model)) as url:
        status, told, _ = asked(url, "/score", about("i0000", "i0001", "i0002"))
    assert status == 200
    assert told["scores"][0] == told["scores"][2] == [3.0]
    assert told["scores"][1][0]["failure"] == "refused"


def test_while_a_note_is_written_the_server_answers_and_those_who_wait_are_served_together() -> None:
    gate, began = threading.Event(), threading.Event()
    notes = open_notes("persona:m,k=3", chat=ScriptedChat(lambda _: "Bakes by feel."))
    asked_for: list[list[str]] = []

    @dataclass
    class Waits:
        spec = notes.spec
        reveals = notes.reveals
        unsupported = notes.unsupported
        queries = notes.queries

        def prepared(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[PreparedQuery]:
            asked_for.append(sorted(item.id for item in items))
            began.set()
            gate.wait(240)
            return notes.prepared(benchmark, items)

    server = open_server(Slow(), Waits(), BENCH, relative=False, run="r1")

    def opened_when_all_wait() -> None:
        until = time.monotonic() + 240
        while len(server._desk._wanted) < 5 and time.monotonic() < until:
            time.sleep(0.005)
        gate.set()

    with running(server) as url:
        first = threading.Thread(target=asked, args=(url, "/score", about("i0000")))
        first.start()
        assert began.wait(240)
        assert asked(url, "/health", None)[0] == 200
        threading.Thread(target=opened_when_all_wait).start()
        found = together([partial(asked, url, "/score", about(f"i000{place % 5 + 1}")) for place in range(10)])
        first.join()
    assert [told["scores"] for _, told, _ in found] == [[[3.0]]] * 10
    assert asked_for == [["i0000"], ["i0001", "i0002", "i0003", "i0004", "i0005"]]


def test_a_note_that_takes_too_long_is_a_deadline() -> None:
    from pluralrm.serve.server import ServerLimits

    def late(_: ChatRequest) -> str:
        time.sleep(1.0)
        return "Bakes by feel."

    shown = open_notes("persona:m,k=3", chat=ScriptedChat(late))
    server = open_server(Slow(), shown, BENCH, relative=False, run="r1", limits=ServerLimits(seconds=0.3))
    with running(server) as url:
        status, told, _ = asked(url, "/score", about("i0000"))
    assert (status, told["error"]["type"]) == (504, "deadline")


def test_an_item_is_not_mistaken_for_a_prompt_of_its_name_nor_a_slash_for_a_path() -> None:
    from dataclasses import replace

    from tests.serve.test_server import server_of

    odd = replace(BENCH.items[0], id="art/01?x=../é")
    model = Slow()
    with running(server_of(model, bench=Benchmark(BENCH.card, (odd, *BENCH.items[1:])))) as url:
        body = {
            "rollouts": [
                {"item": odd.id, "candidates": ["a", "a"]},
                {"prompt": odd.id, "candidates": ["bb"]},
                {"item": odd.id, "candidates": ["", "ccc"]},
            ]
        }
        status, told, _ = asked(url, "/score", body)
    assert (status, told["scores"]) == (200, [[1.0, 1.0], [2.0], [0.0, 3.0]])
    assert sorted((query.prompt, query.candidates) for query in model.asked[0]) == sorted(
        [(odd.prompt, ("a", "", "ccc")), (odd.id, ("bb",))]
    )
