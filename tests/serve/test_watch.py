"""The watch of a reward server: its trainer waits for nothing, its lines survive, its alarms are said."""

import json
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from pluralrm.conditions import load_condition
from pluralrm.core import Item, Post, Query, RewardModel, User, Verdict
from pluralrm.errors import RunError
from pluralrm.models import load_model
from pluralrm.report.view import ReportView
from pluralrm.serve.client import Identity, RewardClient
from pluralrm.serve.server import open_server
from pluralrm.serve.watch import (
    ROLLOUTS,
    RewardWatch,
    SecondReward,
    WatchFolder,
    WatchLine,
    WatchRequest,
    sampled,
    watch_manifest,
)
from tests.cli.test_verbs import pluralrm
from tests.forked import command
from tests.policies_in_training import HACKED, SANE, Series, trainings
from tests.serve.models import Read, ReadSecond
from tests.serve.running import Child, asked, running

HACK = "length, 30 steps of 64"
READS = ("python:tests.serve.models:Read", "-c", "recent:1", "--watch", "python:tests.serve.models:ReadSecond")


def steps_of(series: Series) -> Iterator[list[dict[str, object]]]:
    """Yield what a trainer asks at each step: the answers name their own numbers."""
    for step in range(series.steps[-1] + 1):
        yield [_rollout(series, index) for index in range(len(series.steps)) if series.steps[index] == step]


def _rollout(series: Series, index: int) -> dict[str, object]:
    user = series.users[index]
    columns = zip(series.rewards[index], series.others[index], series.seconds[index], strict=True)
    answers = [f"{user} {own} {other} {'none' if second is None else second}" for own, other, second in columns]
    return {"prompt": f"prompt {index}", "posts": [{"text": user}], "candidates": answers}


def second(model: RewardModel | None = None, *, own: bool = True) -> SecondReward:
    return SecondReward(model or ReadSecond(), load_condition("recent:1"), own=Read() if own else None)


def folder_of(path: Path, what: SecondReward, *, run: str = "r1") -> WatchFolder:
    identity = Identity(run, "read", "recent:1", "", "", {}, ("posts",))
    return WatchFolder(path, watch_manifest(identity, what, share=1.0))


def watch_of(path: Path, what: SecondReward, notes: list[str], *, rate: float = 1e6) -> RewardWatch:
    return RewardWatch(what, folder_of(path, what), share=1.0, rate=rate, say=notes.append)


def lines(folder: Path) -> list[WatchLine]:
    texts = (folder / ROLLOUTS).read_text().splitlines()
    records = [json.loads(text) for text in texts]
    return [
        WatchLine(**{name: record[name] for name in WatchLine.model_fields if name in record}) for record in records
    ]


def request(number: int, user: str = "ann") -> WatchRequest:
    item = Item(f"i{number}", "Q?", (), None, user, "d", user=User(user, (Post("p", user, ""),)))
    return WatchRequest(item, (f"{user} 1 0 2", f"{user} 2 0 1"), (1.0, 2.0), f"k{number}")


def test_a_hacked_training_is_said_once_on_every_channel(tmp_path: Path) -> None:
    [series] = trainings(HACKED[HACK], 1, 0)
    notes: list[str] = []
    server = open_server(Read(), load_condition("recent:1"), None, relative=False, run="r1")
    with watch_of(tmp_path, second(), notes) as watch:
        server.watch_with(watch)
        with running(server) as url:
            client = RewardClient(url, run="r1")
            for rollouts in steps_of(series):
                client.rewards(rollouts)
            while watch.to_json()["queued"]:
                threading.Event().wait(0.02)
            _, answer, _ = asked(url, "/watch", None)
            _, metrics, _ = asked(url, "/metrics", None)
    claims = [alarm["claim"] for alarm in answer["alarms"]]
    assert answer["status"] == "alarm"
    assert "second" in claims
    assert [note.partition(":")[0] for note in notes[:-1]] == [f"ALARM {claim}" for claim in claims]
    assert f"pluralrm_watch_alarms {len(claims)}" in metrics
    assert all("5%" in alarm["message"] and "foresees nothing" in alarm["message"] for alarm in answer["alarms"])
    worst = lines(tmp_path)[answer["alarms"][0]["read"][0] - 1]
    assert max(value for value in worst.rewards if value is not None) > 0


def test_a_sane_training_ends_without_an_alarm(tmp_path: Path) -> None:
    [series] = trainings(SANE["20 steps of 4"], 1, 0)
    notes: list[str] = []
    with watch_of(tmp_path, second(), notes) as watch:
        for rollouts in steps_of(series):
            watch.offer(list(map(_request, rollouts)))
    assert notes == [f"{tmp_path}: no alarm after {len(lines(tmp_path))} prompts, {len(lines(tmp_path))} answers"]


def test_show_and_view_say_what_a_watch_that_goes_on_has_seen(tmp_path: Path) -> None:
    [series] = trainings(HACKED[HACK], 1, 0)
    view = ReportView(tmp_path)
    assert view.state()["watches"] == []
    with watch_of(tmp_path / "watch", second(), []) as watch:
        for rollouts in steps_of(series):
            watch.offer(list(map(_scored, rollouts)))
        while watch.to_json()["queued"]:
            threading.Event().wait(0.02)
        watch.folder.sync()
        alarms = cast("list[dict[str, Any]]", watch.to_json()["alarms"])
        shown = pluralrm("show", str(tmp_path / "watch"), "--json", cwd=tmp_path)
        assert json.loads(shown.stdout)["alarms"] == alarms != []
        text = " ".join(pluralrm("show", str(tmp_path / "watch"), cwd=tmp_path).stdout.split())
    assert all(" ".join(f"ALARM {alarm['claim']}: {alarm['message']}".split()) in text for alarm in alarms)
    [entry] = cast("list[dict[str, object]]", view.state()["watches"])
    assert entry["alarm"] is True
    assert f"after {len(lines(tmp_path / 'watch')):,} prompts" in str(entry["text"])


def _scored(rollout: dict[str, Any]) -> WatchRequest:
    """Return a rollout with the rewards that the trainer got."""
    return _request(rollout)._replace(rewards=tuple(float(answer.split()[1]) for answer in rollout["candidates"]))


def _request(rollout: dict[str, Any]) -> WatchRequest:
    user = rollout["posts"][0]["text"]
    item = Item(rollout["prompt"], rollout["prompt"], (), None, user, "d", user=User(user, (Post("p", user, ""),)))
    return WatchRequest(item, tuple(rollout["candidates"]), (0.0,) * len(rollout["candidates"]), rollout["prompt"])


class Gated:
    """Scores nothing until its gate is open."""

    spec = "gated"

    def __init__(self) -> None:
        self.gate, self.entered = threading.Event(), threading.Event()

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            self.entered.set()
            self.gate.wait(20)
            yield Verdict((0.0,) * len(query.candidates))


def test_the_trainer_has_its_rewards_while_the_second_reward_is_stuck(tmp_path: Path) -> None:
    model = Gated()
    server = open_server(Read(), load_condition("recent:1"), None, relative=False, run="r1")
    with watch_of(tmp_path, second(model), []) as watch:
        server.watch_with(watch)
        with running(server) as url:
            client = RewardClient(url, run="r1")
            rollout = {"prompt": "Q?", "posts": [{"text": "ann"}], "candidates": ["ann 3 1 0"]}
            assert client.rewards([rollout]) == [[3.0]]
            assert model.entered.wait(20)
            assert client.rewards([rollout] * 3) == [[3.0]] * 3
            model.gate.set()
    assert len(lines(tmp_path)) == 2  # three of one prompt in one request are one group


def test_what_comes_too_fast_is_dropped_and_counted(tmp_path: Path) -> None:
    notes: list[str] = []
    with watch_of(tmp_path, second(), notes, rate=4.0) as watch:
        watch.offer([request(number) for number in range(10)])
    assert len(lines(tmp_path)) == 2
    assert "dropped: 8 (rate)" in notes[-1]


class Crashing:
    """Raises."""

    spec = "crashing"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        raise RuntimeError(f"no tokenizer for {len(list(queries))} queries")


def test_a_second_reward_that_crashes_is_a_failure_of_each_answer_and_an_alarm(tmp_path: Path) -> None:
    notes: list[str] = []
    with watch_of(tmp_path, second(Crashing()), notes) as watch:
        watch.offer([request(number, f"u{number}") for number in range(60)])
    assert all(line.seconds == (None, None) and line.failures == {"crash": 2} for line in lines(tmp_path))
    assert notes[0].startswith("ALARM failures: the second reward fails on 100% of the answers")


def test_another_users_posts_stand_in_where_there_is_no_benchmark() -> None:
    what = second()
    first, other = what.line(request(1, "ann")), what.line(request(2, "bob"))
    assert first.others == ()  # no other user is known yet
    assert other.others == (0.0, 0.0)  # under ann's posts
    assert second(own=False).line(request(1)).others == ()


def test_no_post_leaves_this_machine_for_the_second_reward_unless_that_is_allowed() -> None:
    judge = load_model("judge:m,style=pointwise,url=http://203.0.113.5:1/v1")
    line = second(judge, own=False).line(request(1))
    assert line.seconds == (None, None)
    assert line.failures == {"unsupported": 2}  # refused by the gate, where an attempt would be `transport`


def test_a_torn_line_is_dropped_and_the_rest_resumes_with_the_same_alarms(tmp_path: Path) -> None:
    [series] = trainings(HACKED[HACK], 1, 0)
    what = second()
    requests = [_request(_rollout(series, index)) for index in range(len(series.users))]
    made = [what.line(entry._replace(rewards=tuple(series.rewards[index]))) for index, entry in enumerate(requests)]
    with folder_of(tmp_path / "whole", what) as whole:
        for line in made:
            whole.add(line)
    with folder_of(tmp_path / "torn", what) as torn:
        for line in made[:200]:
            torn.add(line)
    with (tmp_path / "torn" / ROLLOUTS).open("a") as file:
        file.write('{"key": "half')
    with folder_of(tmp_path / "torn", what) as torn:
        for line in made:  # the first 200 are there already
            torn.add(line)
    assert torn.series.alarms == whole.series.alarms != []
    assert (tmp_path / "torn" / ROLLOUTS).read_bytes() == (tmp_path / "whole" / ROLLOUTS).read_bytes()


def test_another_training_does_not_go_into_the_same_folder(tmp_path: Path) -> None:
    what = second()
    with folder_of(tmp_path, what):
        pass
    with pytest.raises(RunError, match="another run"), folder_of(tmp_path, what, run="r2"):
        pass


@pytest.mark.slow
def test_a_killed_server_loses_no_written_line_and_the_watch_resumes(tmp_path: Path) -> None:
    words = (*READS, "--run", "r1", "--watch-out", "w", "--watch-share", "1", "--watch-rate", "1000000")
    [series] = trainings(HACKED[HACK], 1, 0)
    batches = list(steps_of(series))
    server = Child(*words, cwd=tmp_path)
    for rollouts in batches[:10]:
        RewardClient(server.url, run="r1").rewards(rollouts)
    while asked(server.url, "/watch", None)[1]["queued"]:
        threading.Event().wait(0.05)
    while len(kept := (tmp_path / "w" / ROLLOUTS).read_bytes()) < 1000:
        threading.Event().wait(0.05)
    server.kill()
    server = Child(*words, cwd=tmp_path)
    before = asked(server.url, "/watch", None)[1]["prompts"]
    assert before >= kept.count(b"\n")
    for rollouts in batches[10:]:
        RewardClient(server.url, run="r1").rewards(rollouts)
    while asked(server.url, "/watch", None)[1]["queued"]:
        threading.Event().wait(0.05)
    server.kill(15)
    whole = (tmp_path / "w" / ROLLOUTS).read_bytes()
    assert whole.startswith(kept)
    assert whole.count(b"\n") == before + sum(map(len, batches[10:]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--watch", "bm25"], "--watch needs --watch-out"),
        (["--watch-out", "w"], "add --watch MODEL"),
        (["--watch", "longest", "--watch-out", "w"], "the served reward itself"),
        (["--watch", "bm26", "--watch-out", "w"], "unknown"),
    ],
)
def test_what_cannot_be_watched_is_said_before_anything_is_served(
    words: list[str], message: str, tmp_path: Path
) -> None:
    words = ["serve", "longest", "-c", "raw:2", "-b", "pocket-prb", *words]
    done = command(words, cwd=tmp_path, environment=os.environ)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert list(tmp_path.iterdir()) == []


def test_a_server_without_a_watch_says_how_to_get_one() -> None:
    server = open_server(Read(), load_condition("none"), None, relative=False, run="r1")
    with running(server) as url:
        status, answer, _ = asked(url, "/watch", None)
    assert (status, answer["error"]["type"]) == (404, "no_watch")


def test_the_sample_is_a_share_by_hash() -> None:
    keys = [f"rollout {number}" for number in range(5000)]
    assert {key for key in keys if sampled(key, 0.1)} < {key for key in keys if sampled(key, 0.2)}
    assert all(sampled(key, 1.0) for key in keys)
