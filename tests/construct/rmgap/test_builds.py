"""Over real HTTP: kills, faults, other machines. The release is the same, or there is none."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pluralrm.construct.pipeline import build
from pluralrm.construct.rmgap import PromptRatings, Responses
from pluralrm.construct.rmgap.stages import pipeline
from pluralrm.errors import RunError
from pluralrm.http import Settings
from tests.builders import edit_json
from tests.construct.pipeline.worlds import decisions, faulty, kills
from tests.construct.rmgap.child import main
from tests.construct.rmgap.scripted import Script
from tests.construct.rmgap.worlds import answering, build_of, mixed, opened, options, records, released, released_from
from tests.fake_chat import FakeChat
from tests.forked import Forked

ROOT = Path(__file__).parents[3]


def _died_without_a_trace(tmp_path: Path, count: int, times: int) -> int:
    """Return how many kills hit, once it is seen that they changed nothing."""
    concurrency, models = 4, 8
    with FakeChat(answering(Script(mixed(count))), latency=0.01) as server:
        words = (server.url, str(tmp_path / "killed"), str(count))
        died = kills(lambda: Forked(main, *words), server, times=times, gap=(20, 60))
        released_from(server.url, tmp_path / "killed", count, concurrency=concurrency)
        calls = len(server.requests)
        released_from(server.url, tmp_path / "whole", count, concurrency=concurrency)
        whole = len(server.requests) - calls
    print(f"{died} kills, {calls} calls, {whole} without kills")  # noqa: T201 - figures for who runs it by hand
    assert calls - whole <= died * concurrency * models  # each model has calls of its own in flight
    assert released(tmp_path / "killed") == released(tmp_path / "whole")
    assert len(released(tmp_path / "whole")) >= 5
    return died


@pytest.mark.slow
def test_killed_at_random_moments_it_releases_the_same_and_pays_for_what_was_in_flight(tmp_path: Path) -> None:
    assert _died_without_a_trace(tmp_path, count=9, times=3) >= 2


@pytest.mark.slow
def test_killed_thirty_times_it_releases_the_same(tmp_path: Path) -> None:
    assert _died_without_a_trace(tmp_path, count=60, times=30) >= 20


@pytest.mark.slow
def test_order_hash_seed_window_and_concurrency_change_no_byte(tmp_path: Path) -> None:
    count = 9
    with FakeChat(answering(Script(mixed(count)))) as server:
        released_from(server.url, tmp_path / "one", count)
        words = (server.url, str(tmp_path / "other"), str(count), "--shuffled", "--concurrency", "1", "--window", "3")
        command = [sys.executable, "-m", "tests.construct.rmgap.child", *words]
        subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "PYTHONHASHSEED": "7"})
    assert released(tmp_path / "one") == released(tmp_path / "other")


def test_at_thirty_percent_errors_nothing_becomes_a_default(tmp_path: Path) -> None:
    world = mixed(18)
    script = Script(world)
    sound = build_of(world, tmp_path / "sound")
    settings = Settings(attempts=2, concurrency=8, attempt_seconds=5)
    with FakeChat(faulty(answering(script), 0.3)) as server:
        for _ in range(30):
            with opened(tmp_path / "faulty", server.url, settings=settings) as (folder, pools):
                found = build(pipeline(options()), records(world), folder, pools)
            for counts in found.funnel.stages:
                assert counts.came_in == counts.kept + sum(counts.rejected.values()) + counts.waiting
            if found.complete:
                break
            assert found.kept == ()
    assert found.complete
    before = {record.id: record for record in sound.kept}
    texts = {text for one in script.responses for text in [one]}
    for record in found.kept:
        if record.id in before:
            assert record[PromptRatings] == before[record.id][PromptRatings]
        assert {written.text for written in record[Responses].texts} <= texts
    # A garbled reply may cost a sound record its place, with a reason; it never gives one to an unsound record.
    assert {record.id for record in found.kept} <= set(before)
    lost = [line for lines in decisions(tmp_path / "faulty").values() for line in lines if line["kept"] is None]
    assert all(line["reason"] for line in lost)
    assert len(lost) + len(found.kept) == len(world)


def test_a_build_begun_before_paraphrases_passed_the_gates_of_prompts_is_not_resumed(tmp_path: Path) -> None:
    world = mixed(3)
    first = build_of(world, tmp_path)
    manifest = json.loads((tmp_path / "build.json").read_text())
    for name in ("copied words of the response", "names of responses"):
        del manifest["stages"][-1]["settings"][name]
    edit_json(tmp_path / "build.json", stages=manifest["stages"])
    before = decisions(tmp_path)
    with pytest.raises(RunError, match="copied words of the response and names of responses of the stage 'paraphra"):
        build_of(world, tmp_path)
    assert decisions(tmp_path) == before
    assert first.funnel.stages[-1].stage == "paraphrases"
