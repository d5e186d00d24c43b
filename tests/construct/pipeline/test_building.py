"""A build comes to the same whatever happens on the way, and nothing becomes a default."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from pluralrm.chat import ScriptedChat
from pluralrm.construct.pipeline import (
    Acceptance,
    Built,
    ModelCall,
    Pipeline,
    Product,
    Record,
    Rejection,
    Stage,
    ask,
    at_once,
    build,
)
from pluralrm.core import Failure
from pluralrm.errors import RunError, ServiceError
from pluralrm.http import Settings
from tests.construct.pipeline.child import main
from tests.construct.pipeline.worlds import (
    CHECK,
    MARK,
    PIPELINE,
    Answers,
    Question,
    answer,
    contents,
    decisions,
    faulty,
    flour,
    kills,
    opened,
    said,
)
from tests.fake_chat import FakeChat, Seen, status
from tests.forked import Forked

ROOT = Path(__file__).parents[3]


def child(url: str, place: Path, records: int) -> list[str]:
    return [sys.executable, "-m", "tests.construct.pipeline.child", url, str(place), str(records)]


def scripted() -> dict[str, ScriptedChat]:
    names = ("model-a", "model-b", "model-c")
    return {name: ScriptedChat(lambda request: said(request.messages[0][1]), name=name) for name in names}


def made(place: Path, records: Sequence[Record], limit: int | None = None) -> Built:
    with opened(place, chats=dict(scripted())) as (folder, pools):
        return build(PIPELINE, records, folder, pools, limit=limit)


def served(
    url: str, place: Path, records: Sequence[Record], *, window: int = 256, concurrency: int = 4
) -> list[object]:
    """Build over HTTP, and return all that is on disk but the cassette, and what was kept."""
    with opened(place, url, settings=Settings(concurrency=concurrency)) as (folder, pools):
        built = build(PIPELINE, records, folder, pools, window=window)
    assert built.complete
    return [decisions(place), (place / "build.json").read_bytes(), built.kept]


# ---------------------------------------------------------------- kills


def died_without_a_trace(place: Path, *, times: int, gap: tuple[int, int], records: int) -> int:
    """Return how many kills hit, once it is seen that they changed nothing."""
    with FakeChat(answer, latency=0.005) as server:
        words = (server.url, str(place / "killed"), str(records))
        died = kills(lambda: Forked(main, *words), server, times=times, gap=gap, seed=times)
        assert Forked(main, *words).wait(240) == 0
        calls, at_once = len(server.requests), server.most_at_once
        command = child(server.url, place / "whole", records)  # with another hash seed than that of these tests
        subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"PYTHONHASHSEED": "1"})
        extra = 2 * calls - len(server.requests)
    assert contents(place / "killed" / "release") == contents(place / "whole" / "release")
    assert decisions(place / "killed") == decisions(place / "whole")
    assert 0 <= extra <= at_once * died  # what was in flight at a kill is all that is asked again
    assert at_once <= 3 * 4
    return died


def test_killed_it_comes_to_the_same_and_pays_again_for_what_was_in_flight(tmp_path: Path) -> None:
    assert died_without_a_trace(tmp_path, times=2, gap=(1, 40), records=16) >= 1


@pytest.mark.slow
def test_killed_at_thirty_moments_it_comes_to_the_same(tmp_path: Path) -> None:
    assert died_without_a_trace(tmp_path, times=30, gap=(1, 45), records=220) >= 30


def test_a_finished_build_asks_nobody_again(tmp_path: Path) -> None:
    with FakeChat(answer) as server:
        first = served(server.url, tmp_path, flour(20))
        calls = len(server.requests)
        assert served(server.url, tmp_path, flour(20)) == first
        assert len(server.requests) == calls > 0


def test_an_interrupted_build_ends_at_once(tmp_path: Path) -> None:
    with FakeChat(latency=300) as server:
        process = subprocess.Popen(child(server.url, tmp_path / "b", 20), cwd=ROOT, stderr=subprocess.PIPE, text=True)
        while len(server.requests) < 3:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=240)
    assert complaint.rstrip().endswith("KeyboardInterrupt")


# ---------------------------------------------------------------- what changes nothing


def test_window_concurrency_and_order_change_nothing(tmp_path: Path) -> None:
    with FakeChat(answer) as server:
        first = served(server.url, tmp_path / "0", flour(30))
        assert served(server.url, tmp_path / "1", flour(30), window=1, concurrency=1) == first
        assert served(server.url, tmp_path / "2", flour(30)[::-1], window=7, concurrency=16) == first


def test_a_limit_is_a_sample_that_the_order_of_the_input_does_not_change(tmp_path: Path) -> None:
    one, other = made(tmp_path / "1", flour(40), limit=10), made(tmp_path / "2", flour(40)[::-1], limit=10)
    assert one.manifest == other.manifest
    assert one.funnel.records == 10
    ids = [line["id"] for line in decisions(tmp_path / "1")["01-shown.jsonl"]]
    assert ids != [record.id for record in flour(10)]
    wider = made(tmp_path / "3", flour(40), limit=20)
    assert set(ids) < {line["id"] for line in decisions(tmp_path / "3")["01-shown.jsonl"]}
    assert wider.funnel.records == 20


def test_a_record_comes_to_the_same_among_others(tmp_path: Path) -> None:
    among = made(tmp_path / "1", flour(30))
    one = among.kept[len(among.kept) // 2]
    alone = made(tmp_path / "2", [record for record in flour(30) if record.id == one.id])
    assert list(alone.kept) == [one]


# ---------------------------------------------------------------- outages and faults


def require_sound(built: Built) -> None:
    """What is kept deserves it by what an honest server says; what is rejected was refused in words."""
    for record in built.kept:
        for text in (record[Answers].chosen, record[Answers].rejected):
            assert text.startswith("Use ")
            assert int(said(MARK.fill(text=text))) >= 3
            assert said(CHECK.fill(text=text)) == "YES"
    for counts in built.funnel.stages:
        assert counts.came_in == counts.kept + sum(counts.rejected.values()) + counts.waiting
        assert set(counts.rejected) <= {
            "bare",
            "twin",
            "quality",
            "unwritten",
            "unjudged",
            "unchanged",
            "unchecked",
            "says_nothing",
        }


def test_a_server_at_thirty_per_cent_errors_makes_no_default_and_is_finished_later(tmp_path: Path) -> None:
    waited = []
    with FakeChat(faulty(answer, 0.3, seed=2)) as server:
        for _ in range(20):
            with opened(tmp_path / "b", server.url, settings=Settings(attempts=2)) as (folder, pools):
                built = build(PIPELINE, flour(40), folder, pools)
            require_sound(built)
            waited.append(built.funnel.waiting)
            if built.complete:
                break
            assert built.why
            assert not built.kept
    assert waited[-1] == 0 < waited[0]
    assert built.kept


@pytest.mark.slow
def test_faults_that_heal_in_time_change_nothing(tmp_path: Path) -> None:
    met: set[str] = set()

    def once_lost(seen: Seen):
        prompt = seen.prompt
        if prompt in met:
            return answer(seen)
        met.add(prompt)
        return status(500)

    with FakeChat(once_lost) as server, opened(tmp_path / "b", server.url) as (folder, pools):
        healed = build(PIPELINE, flour(4), folder, pools)
    sound = made(tmp_path / "s", flour(4))
    assert [record.made for record in healed.kept] == [record.made for record in sound.kept]


def test_a_dead_server_is_soon_left_alone_and_everything_waits(tmp_path: Path) -> None:
    chats = scripted()
    dead = ScriptedChat(lambda _: Failure("transport", "down"), name="model-c")
    with opened(tmp_path / "b", chats={**chats, "model-c": dead}) as (folder, pools):
        built = build(PIPELINE, flour(60), folder, pools)
    answers = built.funnel.stages[2]
    assert (answers.waiting, answers.kept) == (answers.came_in, 0)
    assert dead.calls == 8
    assert "down" in built.why
    assert made(tmp_path / "b2", flour(60)).complete


def test_an_error_of_the_server_ends_the_build_and_leaves_what_was_decided(tmp_path: Path) -> None:
    with (
        FakeChat(lambda seen: status(401) if len(server.requests) > 12 else answer(seen)) as server,
        opened(tmp_path / "b", server.url, settings=Settings(concurrency=1)) as (folder, pools),
        pytest.raises(ServiceError, match="401"),
    ):
        build(PIPELINE, flour(20), folder, pools)
    assert len(decisions(tmp_path / "b")["01-shown.jsonl"]) == 20


def test_a_spent_budget_makes_records_wait(tmp_path: Path) -> None:
    broke = ScriptedChat(lambda _: Failure("budget", "1 is spent, of 1 allowed"), name="model-c")
    with opened(tmp_path / "b", chats={**scripted(), "model-c": broke}) as (folder, pools):
        built = build(PIPELINE, flour(30), folder, pools)
    assert built.funnel.stages[2].kept == 0
    assert broke.calls > 8  # each costs nothing, and a later one may be on the cassette


# ---------------------------------------------------------------- bugs of a stage are told


class Loaf(Product):
    weight: float


def baked(place: Path, work, **more) -> Built:
    stage = Stage("baked", Loaf, work, **more)
    with opened(place, chats=dict(scripted())) as (folder, pools):
        return build(Pipeline("loaves", Question, (stage,)), flour(3), folder, pools)


def test_a_stage_makes_what_it_says_it_makes(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="made a Question, not Loaf"):
        baked(tmp_path, at_once(lambda record: Acceptance(record.source)))


def test_a_stage_that_rejects_says_why(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="without a reason"):
        baked(tmp_path, at_once(lambda _: Rejection("")))


def test_a_product_that_cannot_be_read_back_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="weight"):
        baked(tmp_path, at_once(lambda _: Acceptance(Loaf(weight=float("nan")))))
    assert decisions(tmp_path) == {"01-baked.jsonl": []} or not decisions(tmp_path)


def test_a_stage_asks_with_templates_that_the_card_shows(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'flour-check', which is none of its templates"):
        baked(tmp_path, lambda _: ask(ModelCall("checker", "Is it?", CHECK, str)))
