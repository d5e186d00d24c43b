"""An item that the condition cannot show costs its own request alone, whoever prepared it."""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Condition, Item, Query, Reveals
from pluralrm.errors import ConditionError, OutageError, PluralrmError
from pluralrm.serve.server import open_server
from tests.builders import bakery
from tests.serve.running import asked, running, together
from tests.serve.test_desk import about
from tests.serve.test_server import Slow

BENCH = bakery(6)


@dataclass
class Picky:
    """The condition `none`, which raises where an item that it cannot show is among those it is handed."""

    problem: PluralrmError
    gate: threading.Event = field(default_factory=threading.Event)
    began: threading.Event = field(default_factory=threading.Event)
    handed: list[list[str]] = field(default_factory=list)
    shown: Condition = field(default_factory=lambda: load_condition("none"))
    spec = "none"
    reveals: frozenset[Reveals] = frozenset()

    def unsupported(self, _benchmark: Benchmark) -> str | None:
        return None

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:
        self.handed.append([item.id for item in items])
        self.began.set()
        self.gate.wait(240)
        if any(item.id == "i0003" for item in items):
            raise self.problem
        return self.shown.queries(benchmark, items)


def found_of(condition: Picky) -> list[tuple[int, object]]:
    """Ask for five items at once while the condition is busy with another, so that they are prepared together."""
    server = open_server(Slow(), condition, BENCH, relative=False, run="r1")

    def opened_when_all_wait() -> None:
        until = time.monotonic() + 240
        while len(server._desk._wanted) < 5 and time.monotonic() < until:
            time.sleep(0.005)
        condition.gate.set()

    with running(server) as url:
        first = threading.Thread(target=asked, args=(url, "/score", about("i0000")))
        first.start()
        assert condition.began.wait(240)
        threading.Thread(target=opened_when_all_wait).start()
        found = together([partial(asked, url, "/score", about(f"i000{place}")) for place in range(1, 6)])
        first.join()
    return [(status, told) for status, told, _ in found]


def test_requests_prepared_beside_an_item_that_cannot_be_shown_have_their_scores() -> None:
    condition = Picky(ConditionError("none: i0003 has nobody to swap with"))
    found = found_of(condition)
    assert [status for status, _ in found] == [200, 200, 422, 200, 200]
    assert [told["scores"] for status, told in found if status == 200] == [[[3.0]]] * 4  # type: ignore[index]
    assert found[2][1]["error"] == {  # type: ignore[index] # of JSON
        "type": "unsupported",
        "message": "none: i0003 has nobody to swap with",
        "retry": False,
    }
    assert sorted(condition.handed[1]) == ["i0001", "i0002", "i0003", "i0004", "i0005"]


def test_an_outage_of_the_condition_is_not_asked_again_for_every_half() -> None:
    """Each of the five is told to come back; whoever is next tries it once."""
    condition = Picky(OutageError("the planner is down"))
    found = found_of(condition)
    assert found[2][0] == 502
    assert len(condition.handed) <= 1 + 5
    assert all(status in {200, 502} for status, _ in found)


def test_a_request_with_an_item_that_cannot_be_shown_has_no_number() -> None:
    condition = Picky(ConditionError("nobody to swap with"))
    condition.gate.set()
    with running(open_server(Slow(), condition, BENCH, relative=False, run="r1")) as url:
        assert asked(url, "/score", about("i0001", "i0003"))[0] == 422
        assert asked(url, "/score", about("i0001"))[1]["scores"] == [[3.0]]
