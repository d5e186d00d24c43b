"""A server that fails and a process that is killed: nothing becomes a default, nothing is paid twice, all adds up."""

from collections import Counter
from pathlib import Path

import pytest

from pluralrm.construct.pipeline import Built, Folder, build, open_pools
from pluralrm.construct.prb import prb_pipeline, roles
from pluralrm.construct.prb.products import Chosen, Contrary, Marks, Published
from pluralrm.http import Settings
from tests.construct.pipeline.worlds import contents, decisions, faulty, kills
from tests.construct.prb.child import RULES, flawed, main
from tests.construct.prb.worlds import GIVEN, OPPOSED, World, name_of, named, question
from tests.fake_chat import FakeChat
from tests.forked import Forked

REASONS = {"unwritten", "unjudged", "unreadable", "adherence", "quality", "format", "length", "unchanged", "similar"}


def require_adds_up(built: Built) -> None:
    came_in = built.funnel.records
    for counts in built.funnel.stages:
        assert counts.came_in == came_in == counts.kept + sum(counts.rejected.values()) + counts.waiting
        came_in = counts.kept


def require_no_default(built: Built) -> None:
    """Every mark of every released answer is one that the judge gave to that very text."""
    for record in built.kept:
        for kind, side in ((Chosen, "chosen"), (Published, "published"), (Contrary, "contrary")):
            marks: Marks = record[kind].marks
            assert set(marks.adherence) == {GIVEN[side]}
            assert set(marks.opposite) == {OPPOSED[side]}
            assert set(marks.quality.model_dump().values()) == {4}
            assert marks.coverage == (2, 2)
            assert f"Z{record.id}" in record[kind].text


def test_at_thirty_per_cent_errors_nothing_becomes_a_default(tmp_path: Path) -> None:
    waited = []
    with FakeChat(faulty(World().answer, 0.3, seed=3)) as server:
        models = [[f"{name},url={server.url}"] for name in "wjp"]
        for _ in range(40):
            settings = Settings(attempts=1)
            with (
                Folder(tmp_path / "b") as folder,
                open_pools(roles(*models), settings=folder.settings(settings)) as pools,
            ):
                built = build(prb_pipeline(RULES), list(map(question, range(8))), folder, pools)
            require_adds_up(built)
            require_no_default(built)
            waited.append(built.funnel.waiting)
            if built.complete:
                break
            assert not built.kept
    assert waited[-1] == 0 < waited[0]
    reasons = Counter(reason for _, reason in named(tmp_path / "b").values())
    assert set(reasons) <= REASONS
    assert built.kept
    assert len(built.kept) + sum(reasons.values()) == 8


def test_an_unreadable_judge_is_no_approval(tmp_path: Path) -> None:
    def deaf(prompt: str) -> str:
        return (
            "Fine by me."
            if "[answer " in prompt and any(name in prompt for name in names)
            else World.reply(world, prompt)
        )

    names = [name_of("q003", "published", attempt) for attempt in range(3)]
    world = World()
    world.reply = deaf  # type: ignore[method-assign]
    built = world.built(tmp_path / "b")
    assert named(tmp_path / "b") == {"q003": ("published", "unjudged")}
    require_adds_up(built)


# ---------------------------------------------------------------- kill -9


def died_without_a_trace(place: Path, *, times: int, gap: tuple[int, int], records: int) -> int:
    """Return how many kills hit, once it is seen that they changed nothing."""
    with FakeChat(flawed().answer, latency=0.005) as server:
        words = (server.url, str(place / "killed"), str(records))
        died = kills(lambda: Forked(main, *words), server, times=times, gap=gap, seed=times)
        assert Forked(main, *words).wait(240) == 0
        calls, at_once = len(server.requests), server.most_at_once
        assert Forked(main, server.url, str(place / "whole"), str(records)).wait(240) == 0
        extra = 2 * calls - len(server.requests)
    assert contents(place / "killed" / "release") == contents(place / "whole" / "release")
    assert decisions(place / "killed") == decisions(place / "whole")
    assert 0 <= extra <= at_once * died
    assert named(place / "whole") == {"q005": ("chosen", "quality")}
    return died


@pytest.mark.slow
def test_killed_at_thirty_moments_it_releases_the_same(tmp_path: Path) -> None:
    assert died_without_a_trace(tmp_path, times=30, gap=(1, 40), records=40) >= 30
