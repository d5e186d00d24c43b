"""Forty people at once, on bad connections, and a server that dies under them: nothing lost, nothing doubled."""

import random
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from pluralrm.annotate.judgments import read_judgments, standing
from pluralrm.annotate.plan import AnnotationPlan, write_plan
from pluralrm.annotate.planner import PlanRequest, make_plan
from pluralrm.annotate.store import read_submissions
from tests.annotate.plans import fours, pair_plan
from tests.annotate.serving import Child, serving
from tests.annotate.visitors import Visitor


def _all_at_once(people: list[Visitor], meanwhile: "list[threading.Thread]") -> None:
    threads = [threading.Thread(target=person.judge_all) for person in people]
    for thread in [*threads, *meanwhile]:
        thread.start()
    for thread in [*threads, *meanwhile]:
        thread.join()


def _check(plan: AnnotationPlan, folder: Path, people: list[Visitor]) -> None:
    """Assert that what was acknowledged is there, once, and nothing else; and that everybody has judged everything."""
    assert [one for person in people for one in person.wrong] == []
    kept = {(one.annotator, one.id): one for one in read_submissions(folder)}
    sent = {(person.name, said["id"]): said for person in people for said in person.acknowledged}
    assert kept.keys() == sent.keys()
    assert len(kept) == len(read_submissions(folder))
    for key, said in sent.items():
        assert (kept[key].item, kept[key].revision) == (said["item"], said["revision"])
    judgments = read_judgments(plan, folder)
    assert max(Counter((one.annotator, one.handle, one.revision) for one in judgments).values()) == 1
    stands = standing(judgments)
    assert {one.handle for one in stands} == {screen.handle for screen in plan.screens}
    assert all(one.answers is not None and one.answers.comment == f"by {one.annotator}" for one in stands)


def _told(people: list[Visitor]) -> Counter[str]:
    return sum((Counter(person.counts) for person in people), Counter[str]())


def test_forty_people_at_once_lose_nothing(tmp_path: Path) -> None:
    plan = make_plan(fours(), PlanRequest(40, each=24, items=8, repeats=1, checks=1, examples=1), key="k")
    with serving(plan, tmp_path / "plan") as server:
        people = [Visitor(name, server.port, server.tokens[name], task="four") for name in plan.arm]
        _all_at_once(people, [])
    _check(plan, tmp_path / "plan", people)
    assert {"dropped", "doubled", "went back", "took back", "closed the tab"} <= _told(people).keys()


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_a_server_that_is_killed_loses_and_doubles_nothing(tmp_path: Path, kills: int) -> None:
    assert judgments_after(kills, tmp_path) > 0


def judgments_after(kills: int, tmp_path: Path) -> int:
    """Return how many judgments there are after some kills; each that was acknowledged is there once."""
    people, each, items = (12, 5, 14) if kills <= 2 else (40, 20, 20)
    plan = pair_plan(people, each=each, items=items, repeats=1)
    folder = tmp_path / "plan"
    write_plan(plan, folder)
    child = Child(folder)
    child.read_links(people + 1)
    visitors = [Visitor(name, child.port, child.links[name]) for name in plan.arm]
    total, died = len(plan.screens), []

    def keep_killing() -> None:
        rng = random.Random(0)
        for number in range(kills):
            # Kills are spread over the work, and fall anywhere in it.
            goal = total * (number + rng.random()) / kills * 0.9
            while len(read_submissions(folder)) < goal:
                time.sleep(0.02)
            died.append(child.kill())
            child.start()

    try:
        _all_at_once(visitors, [threading.Thread(target=keep_killing)])
    finally:
        child.kill()
    assert died == [-9] * kills
    _check(plan, folder, visitors)
    told = _told(visitors)
    assert told["unanswered"] >= kills
    return len(read_submissions(folder))
