"""What servers were asked, in run.json: of every process of a run, and of this run alone."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Condition, Item, Query, Reveals, Verdict
from pluralrm.http import Settings, Tally
from pluralrm.runs import Progress, load_manifest, plan, score
from tests.builders import bakery


class Asking:
    """A model that asks a server once for each query, at a price, and dies after some."""

    spec = "asking"

    def __init__(self, dies_after: int = 10**9) -> None:
        self.tally = Tally(cost=0.0)
        self.dies_after = dies_after

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            if self.tally.answered == self.dies_after:
                raise KeyboardInterrupt
            self.tally = self.tally.plus(Tally(1, 0, 2, 100, 10, 0, 0.5))
            yield Verdict(tuple(map(float, range(len(query.candidates)))))


class Describing:
    """A condition that asks a server of its own, once for each item."""

    spec = "describing"
    reveals: frozenset[Reveals] = frozenset()

    def __init__(self) -> None:
        self.tally = Tally(cost=0.0)

    def unsupported(self, benchmark: Benchmark) -> str | None:
        del benchmark
        return None

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:
        del benchmark
        for item in items:
            self.tally = self.tally.plus(Tally(1, 1, 0, cost=0.0))
            yield Query(item.id, item.prompt, item.candidates)


def _asked(path: str) -> dict[str, object] | None:
    found = load_manifest(path).asked
    return None if found is None else found.model_dump()


def test_a_run_that_asks_nobody_says_so(tmp_path: Path) -> None:
    assert _asked(score(bakery(5), "longest", out=tmp_path).path) is None


def test_processes_of_one_run_add_up(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        score(bakery(9), Asking(dies_after=4), out=tmp_path)
    [file] = tmp_path.rglob("run.json")
    assert json.loads(file.read_text())["asked"]["answered"] == 4  # on disk, though the run was stopped
    run = score(bakery(9), Asking(), out=tmp_path)
    paid = {"prompt_tokens": 900, "completion_tokens": 90, "unmetered": 0, "cost": 4.5}
    assert _asked(run.path) == {"answered": 9, "kept": 0, "attempts": 18, **paid}
    again = score(bakery(9), Asking(), out=tmp_path)
    assert _asked(again.path) == _asked(run.path)


def test_a_model_that_serves_two_runs_is_counted_in_each_alone(tmp_path: Path) -> None:
    model, condition = Asking(), Describing()
    shown: Condition = condition
    counts = [_asked(score(bakery(n), model, shown, out=tmp_path).path) for n in (3, 5)]
    assert [(asked["answered"], asked["kept"], asked["cost"]) for asked in counts if asked] == [
        (6, 3, 1.5),
        (10, 5, 2.5),
    ]


def test_the_folder_of_replies_is_that_of_embeddings_too(tmp_path: Path) -> None:
    kept = Settings(cache=tmp_path / "kept")
    conditions = ["raw:2", "swapped:2", "none"]
    own, other, none = (cell.condition for cell in plan([bakery(6)], ["longest"], conditions, settings=kept))
    assert (own, other) == tuple(load_condition(text, cache=tmp_path / "kept") for text in conditions[:2])
    assert own != load_condition("raw:2")
    assert none == load_condition("none")


def test_progress_tells_what_was_asked_so_far(tmp_path: Path) -> None:
    steps: list[Progress] = []
    score(bakery(3), Asking(), out=tmp_path, progress=steps.append)
    assert [step.asked and step.asked.cost for step in steps] == [0.0, 0.5, 1.0, 1.5]
