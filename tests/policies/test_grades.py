"""Grades beside a pool: each different answer once, whoever asks, and nothing lost where a process ends."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pluralrm.chat import ChatRequest, ScriptedChat
from pluralrm.cluster import Cluster
from pluralrm.core import Failure
from pluralrm.errors import BenchmarkError, PoolError
from pluralrm.grading import aspects_of, open_grader
from pluralrm.http import Settings
from pluralrm.policies.grades import (
    GradeFolder,
    GradingCost,
    find_graders,
    grade_folder,
    grade_pool,
    grading_cost,
    key,
    read_grades,
    ungraded_message,
)
from pluralrm.policies.pool import Pool
from pluralrm.runs import Progress
from tests.builders import bakery
from tests.fake_chat import FakeChat, status
from tests.fake_ray import Actor, FakeRay
from tests.grading.markers import marked, scripted, served, shared_words
from tests.policies.pools import BENCH, babbled, pool_of

ASPECTS = {item.id: len(aspects_of(item)) for item in BENCH.items}


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    return babbled(tmp_path)


def different(pool: Pool) -> list[tuple[str, str]]:
    return [(item, text) for item in pool.samples for text in pool.texts(item)]


def test_each_different_answer_is_graded_once_and_a_second_time_costs_nothing(pool: Pool) -> None:
    chat = scripted()
    grader = open_grader("per-aspect:m", chat=chat)
    done = grade_pool(pool, BENCH, grader)
    assert (done.done, done.total, done.failed, done.open) == (30, 30, 0, 0)  # 6 of 6 answers, one of them twice
    assert chat.calls == sum(ASPECTS[item] for item, _ in different(pool))
    assert grade_pool(pool, BENCH, grader) == done
    assert chat.calls == sum(ASPECTS[item] for item, _ in different(pool))
    grades = read_grades(grade_folder(pool, grader))
    known = {item.id: item for item in BENCH.items}
    for item, text in different(pool):
        points = [shared_words(one.aspect, text) for one in aspects_of(known[item])]
        assert grades[key(item, text)] == pytest.approx(sum(points) / (2 * len(points)))


def test_the_bill_is_what_is_then_asked(pool: Pool) -> None:
    for way in ("per-aspect", "joint"):
        chat = scripted()
        grader = open_grader(f"{way}:m", chat=chat)
        some = different(pool)[:7]
        told, part = grading_cost(pool, BENCH, grader), grading_cost(pool, BENCH, grader, some)
        grade_pool(pool, BENCH, grader, only=some)
        assert (part.answers, part.calls) == (7, chat.calls)
        assert part.prompt_tokens == sum(len(request.messages[0][1]) for request in chat.requests) // 4
        rest = grading_cost(pool, BENCH, grader)
        assert (rest.answers, rest.calls) == (told.answers - 7, told.calls - part.calls)
        grade_pool(pool, BENCH, grader)
        assert chat.calls == told.calls
        assert grading_cost(pool, BENCH, grader) == GradingCost(0, 0, 0)


@pytest.mark.parametrize(("failing", "warned"), [(30, 20), (16, 20), (15, 0), (0, 0)])
def test_grades_that_mostly_fail_are_told_of_in_the_first_window(pool: Pool, failing: int, warned: int) -> None:
    """After 20 of 30 grades and not before; with every other grade good, half of them is not most of them."""
    turn, told = iter(range(100)), list[Progress]()

    def script(request: ChatRequest) -> str | Failure:
        place = next(turn)
        fails = place < failing if failing != 15 else place % 2 == 1
        return Failure("refused", "no") if fails else marked(request.messages[0][1], shared_words)

    grader = open_grader("joint:m", chat=ScriptedChat(script))
    done = grade_pool(pool, BENCH, grader, progress=told.append)
    first = next((one for one in told if one.warning), None)
    assert (first.done if first else 0) == warned
    if first is not None:
        assert first.warning.startswith(f"{min(failing, 20)} of 20 answers have no grade (refused {min(failing, 20)})")
        assert "more than 50%" in first.warning
        again = grade_pool(pool, BENCH, grader)  # what an earlier process wrote counts
        assert again.warning == done.warning == ungraded_message({"refused": failing}, 30, "answers")


def test_a_failure_is_kept_and_not_asked_again_but_an_outage_is(pool: Pool) -> None:
    turn = iter(range(10_000))

    def script(request: ChatRequest) -> str | Failure:
        place = next(turn)
        text = request.messages[0][1]
        if place == 2:
            return Failure("transport", "reset")
        return Failure("refused", "no") if place == 4 else marked(text, shared_words)

    chat = ScriptedChat(script)
    grader = open_grader("joint:m", chat=chat)
    first = grade_pool(pool, BENCH, grader)
    assert (first.done, first.failed, first.open) == (29, 1, 1)
    second = grade_pool(pool, BENCH, grader)
    assert (second.done, second.failed, second.open) == (30, 1, 0)
    assert chat.calls == 31


def test_a_torn_last_line_is_dropped_and_only_that_answer_is_asked_again(pool: Pool) -> None:
    chat = scripted()
    grader = open_grader("joint:m", chat=chat)
    grade_pool(pool, BENCH, grader)
    file = grade_folder(pool, grader) / "grades.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-9])
    assert len(read_grades(file.parent)) == 29
    grade_pool(pool, BENCH, grader)
    assert chat.calls == 31
    assert file.read_bytes() == whole


def test_what_was_graded_before_an_error_is_kept(pool: Pool) -> None:
    def script(request: ChatRequest) -> str:
        if chat.calls == 20:
            raise KeyboardInterrupt
        return marked(request.messages[0][1], shared_words)

    chat = ScriptedChat(script)
    grader = open_grader("joint:m", chat=chat)
    with pytest.raises(KeyboardInterrupt):
        grade_pool(pool, BENCH, grader)
    assert len(read_grades(grade_folder(pool, grader))) == 20


def test_graders_that_differ_in_anything_keep_their_grades_apart(pool: Pool) -> None:
    specs = ["per-aspect:m", "per-aspect:m,temperature=1", "per-aspect:m,reasoning=none", "per-aspect:n"]
    graders = [open_grader(spec, chat=ScriptedChat(lambda _: '{"match_score": 1}', name=spec[-1])) for spec in specs]
    for grader in graders:
        grade_pool(pool, BENCH, grader, only=different(pool)[:1])
    assert sorted(record.spec for record in find_graders(pool).values()) == sorted(specs)
    assert len({grade_folder(pool, grader) for grader in graders}) == 4


def test_one_process_grades_at_a_time(pool: Pool) -> None:
    grader = open_grader("joint:m", chat=scripted())
    with GradeFolder(pool, grader), pytest.raises(PoolError, match="another process is writing this set of grades"):
        grade_pool(pool, BENCH, grader)


def test_a_line_that_is_no_grade_names_its_place(pool: Pool) -> None:
    grader = open_grader("joint:m", chat=scripted())
    grade_pool(pool, BENCH, grader, only=different(pool)[:2])
    file = grade_folder(pool, grader) / "grades.jsonl"
    first, second = file.read_text().splitlines()
    row = {**json.loads(first), "grade": 7.0}
    told = {
        json.dumps({key: row[key] for key in row if key != "check"}): r"grades.jsonl:1: grade",
        first.replace('"grade":', '"grade": '): r"grades.jsonl:1: the line is not as it was written",
        f"{first}\n{second}\n{first}": r"grades.jsonl:3: found a second grade of the answer",
    }
    for text, words in told.items():
        file.write_text(text + "\n")
        with pytest.raises(PoolError, match=words):
            read_grades(file.parent)


def test_a_benchmark_without_a_rubric_cannot_be_graded(tmp_path: Path) -> None:
    bench = bakery(3)
    bare = replace(bench, items=tuple(replace(item, oracle=None) for item in bench.items), content_hash="")
    pool = pool_of({item.id: ["Rye.", "Spelt."] for item in bare.items}, tmp_path, bare)
    with pytest.raises(BenchmarkError, match="has no rubric"):
        grade_pool(pool, bare, open_grader("joint:m", chat=scripted()))


def test_progress_counts_what_was_there_before(pool: Pool) -> None:
    grader = open_grader("joint:m", chat=scripted())
    grade_pool(pool, BENCH, grader, only=different(pool)[:10])
    told: list[Progress] = []
    grade_pool(pool, BENCH, grader, progress=told.append)
    assert [one.done for one in told] == list(range(10, 31))


def test_over_http_an_outage_stays_open_and_the_same_call_goes_on(pool: Pool, tmp_path: Path) -> None:
    settings = Settings(attempts=1, concurrency=1, cache=tmp_path / "cache")
    with FakeChat(served(), faults=[status(500)]) as server:
        spec = f"joint:m,url={server.url}"
        assert grade_pool(pool, BENCH, open_grader(spec, settings=settings)).open == 1
        assert grade_pool(pool, BENCH, open_grader(spec, settings=settings)).open == 0
        assert len(server.requests) == 31


def test_replicas_of_a_grader_write_the_grades_of_one_process(tmp_path: Path) -> None:
    """Also where each replica dies after its first answers: an answer is never graded twice."""
    spec, written = "python:tests.own_objects:Short,at=40", []

    def kill(actor: Actor) -> None:
        if actor.answered == 2:
            actor.die()

    for name in ("alone", "on"):
        pool, grader = babbled(tmp_path / name, n=40), open_grader(spec)
        nodes = FakeRay({"CPU": 1.0}, {"CPU": 1.0}, after=kill)
        with Cluster("ray", ray=nodes) as cluster:
            done = grade_pool(pool, BENCH, grader, on=cluster if name == "on" else None)
            assert (done.done, done.open, done.failed) == (len(different(pool)), 0, 0)
            assert bool(nodes.actors) == bool(cluster.deaths) == (name == "on")
        written.append((grade_folder(pool, grader) / "grades.jsonl").read_bytes())
    assert len(written[0].splitlines()) > 3 * 2 * 16  # more answers than one round of replicas takes
    assert written[0] == written[1]


def test_a_grader_behind_a_url_is_asked_from_here_within_its_caps(pool: Pool) -> None:
    nodes = FakeRay({"CPU": 1.0})
    with FakeChat(served(), latency=0.01) as server, Cluster("ray", ray=nodes) as cluster:
        settings = Settings(concurrency=2)
        done = grade_pool(pool, BENCH, open_grader(f"joint:m,url={server.url}", settings=settings), on=cluster)
        assert (done.done, nodes.actors) == (30, [])
        assert server.most_at_once == 2
