"""Kills and neighbours: what was paid for is there when a run goes on, and for another process."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fake_chat import Action, FakeChat, Seen, say

ROOT = Path(__file__).parents[2]


def child(url: str, cache: Path, first: int, last: int, *more: str, concurrency: int = 8) -> subprocess.Popen[str]:
    arguments = [url, str(cache), str(first), str(last), str(concurrency), *more]
    command = [sys.executable, "-m", "tests.http.child", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("wanted", [2, pytest.param(6, marks=pytest.mark.slow)])
def test_a_killed_run_pays_again_for_no_more_than_was_in_flight(tmp_path: Path, wanted: int) -> None:
    rng = random.Random(9)
    with FakeChat(lambda seen: say(seen.prompt), latency=0.01) as server:
        kills = 0
        for _ in range(wanted):
            process = child(server.url, tmp_path, 0, 300)
            goal = len(server.requests) + rng.randrange(10, 50)
            while len(server.requests) < goal and process.poll() is None:
                time.sleep(0.001)
            process.send_signal(signal.SIGKILL)
            kills += process.wait() == -signal.SIGKILL
            process.communicate()
        whole = child(server.url, tmp_path, 0, 300)
        said, _ = whole.communicate()
        assert said.split() == [str(number) for number in range(300)]
        assert kills == wanted
        assert len(set(server.prompts)) == 300
        assert len(server.prompts) <= 300 + 8 * kills
        assert len(server.prompts) - 300 <= sum(server.prompts.count(str(number)) - 1 for number in range(300))


def test_two_processes_share_one_cache(tmp_path: Path) -> None:
    drawn: list[Seen] = []

    def dice(seen: Seen) -> Action:
        drawn.append(seen)
        return say(f"{seen.prompt}:{len(drawn)}")

    with FakeChat(dice, latency=0.005) as server:
        both = [child(server.url, tmp_path, 0, 200), child(server.url, tmp_path, 0, 200)]
        said = [process.communicate() for process in both]
        assert [process.returncode for process in both] == [0, 0], said
        # Each may have sent what the other had in flight, but on every reply they agree.
        assert said[0][0] == said[1][0]
        third, _ = child(server.url, tmp_path, 0, 200).communicate()
        assert third == said[0][0]
        assert len(drawn) <= 400


def test_an_interrupted_run_ends_at_once(tmp_path: Path) -> None:
    with FakeChat(latency=300) as server:
        process = child(server.url, tmp_path, 0, 50)
        while not server.requests:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=240)
    assert process.returncode != 0
    assert complaint.rstrip().endswith("KeyboardInterrupt")
