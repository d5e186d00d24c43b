"""Runs under notes that a served model writes: what is on disk, what is asked twice, and what an outage leaves."""

import gzip
import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pluralrm.conditions import load_condition
from pluralrm.conditions.notes import open_notes
from pluralrm.core import Benchmark, Failure, Item, Query, Run, Verdict
from pluralrm.http import Settings
from pluralrm.metrics import measure
from pluralrm.metrics.personalization import personalization
from pluralrm.models.judge import open_judge
from pluralrm.runs import load_inputs, score
from pluralrm.runs.store import find_runs
from tests.builders import WORDS, bakery, card
from tests.cli.test_verbs import pluralrm
from tests.fake_chat import Action, FakeChat, Seen, say, status
from tests.forked import command, start

BENCH = bakery(24)
PLAN = "- Wants "


def writer(seen: Seen) -> Action:
    """Write a plan of the words of the first post, or a profile of them."""
    text = seen.body["messages"][0]["content"]
    words = " ".join(word for word in text.split("(baking) ", 1)[-1].split("\n", 1)[0].split() if word in WORDS)
    return say(f"{PLAN}{words}" if "aspects" in text else f"Writes of {words}.")


@dataclass
class Overlap:
    """A reward model that counts words shared with notes, and keeps what it was asked."""

    spec: str = "overlap"
    asked: list[Query] = field(default_factory=list)

    def score(self, queries: Any) -> Iterator[Verdict]:
        for query in queries:
            self.asked.append(query)
            known = set(" ".join(query.notes).split())
            yield Verdict(tuple(float(len(known & set(answer.split()))) for answer in query.candidates))


def members(run: Run, name: str) -> list[dict[str, Any]]:
    file = Path(run.path) / name
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()] if file.exists() else []


def rows(run: Run) -> bytes:
    return (Path(run.path) / "rows.jsonl").read_bytes()


# ---------------------------------------------------------------- what is kept


@pytest.mark.parametrize("kind", ["persona", "planner"])
def test_a_run_keeps_what_the_writer_and_the_model_were_sent_and_said(kind: str, tmp_path: Path) -> None:
    with FakeChat(writer) as server, FakeChat(lambda _: say("Result: A")) as judge:
        condition = open_notes(f"{kind}:m,url={server.url},k=2", settings=Settings())
        run = score(BENCH, open_judge(f"judge:j,url={judge.url}"), condition, out=tmp_path)
        assert (len(server.requests), len(judge.requests)) == (24, 48)
        sent = {seen.prompt for seen in server.requests}
        read = [seen.prompt for seen in judge.requests]
    assert run.complete
    assert run.condition == condition.spec
    assert run.reveals == {"posts"}
    notes = {record["item"]: record["notes"] for record in members(run, "inputs.jsonl.gz")}
    assert all(len(found) == 1 for found in notes.values())
    assert all(sum(f"- {found[0]}\n" in prompt for prompt in read) >= 2 for found in notes.values())
    assert all(row.posts == 0 for row in run.rows)
    for record in members(run, "transcripts.jsonl.gz"):
        first, *others = record["exchanges"]
        assert first["sent"] in sent
        assert notes[record["item"]] == [first["said"].replace(PLAN, "Probably wants from the answer: Wants ")]
        assert [exchange["said"] for exchange in others] == ["Result: A"] * 2
    identity = json.loads((Path(run.path) / "run.json").read_text())["identity"]
    assert {name for name in identity if name.startswith("condition ")} == {
        *("condition model", "condition url", "condition revision"),
        *("condition template", "condition sampling", "condition reasoning"),
    }


def test_the_same_run_again_asks_nothing_and_has_the_same_rows(tmp_path: Path) -> None:
    settings = Settings(cache=tmp_path / "cache")
    with FakeChat(writer) as server:
        spec = f"planner:m,url={server.url}"
        runs = [score(BENCH, Overlap(), spec, out=tmp_path / name, settings=settings) for name in "ab"]
        assert len(server.requests) == 24
        with_beside = score(BENCH, Overlap(), f"{spec},posts=1", out=tmp_path / "a", settings=settings)
        assert len(server.requests) == 24  # what is shown beside the notes is no part of how they are made
    assert rows(runs[0]) == rows(runs[1])
    assert {row.posts for row in with_beside.rows} == {1}


def test_a_persona_from_the_same_posts_is_written_once(tmp_path: Path) -> None:
    twice = Benchmark(card(), BENCH.items[:6] + bakery(6, name="again").items)
    asked = [*twice.items[:6], *(_again(item) for item in twice.items[:6])]
    with FakeChat(writer, latency=0.01) as server:
        condition = load_condition(
            f"persona:m,url={server.url},by=recent", settings=Settings(cache=tmp_path, concurrency=12)
        )
        notes = [query.notes for query in condition.queries(twice, asked)]
        assert len(server.requests) == 6
    assert notes[:6] == notes[6:]


def _again(item: Item) -> Item:
    return replace(item, id=f"{item.id}-again", prompt="And what else?")


def test_a_cassette_needs_no_server(tmp_path: Path) -> None:
    with FakeChat(writer) as server:
        spec, cassette = f"persona:m,url={server.url}", tmp_path / "cassette.jsonl"
        live = score(BENCH, Overlap(), spec, out=tmp_path / "live", settings=Settings(record=cassette))
    played = score(BENCH, Overlap(), spec, out=tmp_path / "played", settings=Settings(replay=cassette))
    assert played.complete
    assert rows(played) == rows(live)
    other = score(BENCH, Overlap(), f"{spec},k=1", out=tmp_path / "other", settings=Settings(replay=cassette))
    assert not other.complete
    assert other.done == 0


# ---------------------------------------------------------------- what cannot be had


def test_an_outage_of_the_writer_leaves_items_open_and_the_model_unasked(tmp_path: Path) -> None:
    settings = Settings(cache=tmp_path / "cache", concurrency=2, attempts=1)
    down = True
    with FakeChat(lambda seen: status(503) if down and len(server.requests) > 10 else writer(seen)) as server:
        spec, model = f"persona:m,url={server.url}", Overlap()
        run = score(BENCH, model, spec, out=tmp_path, settings=settings)
        assert not run.complete
        assert run.done == len(model.asked) == 10
        assert not any(row.failed and not row.open for row in run.rows)
        attempts = [json.loads(line) for line in (Path(run.path) / "attempts.jsonl").read_text().splitlines()]
        assert {score["failure"] for attempt in attempts for score in attempt["scores"]} == {"transport"}
        assert len({attempt["item"] for attempt in attempts}) == 14
        down, before = False, len(server.requests)
        run = score(BENCH, model, spec, out=tmp_path, settings=settings)
        assert run.complete
        assert len(server.requests) - before == 14
    assert [query.id for query in model.asked] == [item.id for item in BENCH.items]
    assert all(query.notes for query in model.asked)


def test_an_outage_of_the_writer_is_exit_3_and_its_refusal_exit_2(tmp_path: Path) -> None:
    with FakeChat(lambda _: status(400, "no such thing")) as server:
        words = ["score", "pocket-prb", "-m", "longest", "--limit", "3", "-c", f"persona:m,url={server.url}"]
        done = pluralrm(*words, cwd=tmp_path, PLURALRM_CACHE=str(tmp_path / "cache"))
        assert done.returncode == 2
        assert "no such thing" in done.stderr
        assert len(server.requests) >= 1
    (tmp_path / "empty.jsonl").touch()  # a cassette without a request is a server that is gone
    done = pluralrm(*words, "--replay", "empty.jsonl", cwd=tmp_path)
    assert done.returncode == 3
    assert "0 of 3 items" in " ".join(done.stderr.split())


def test_a_plan_that_is_never_one_fails_the_item_and_earns_nothing(tmp_path: Path) -> None:
    with FakeChat(lambda seen: say("Sure!") if _item(seen) > "i0003" else writer(seen)) as server:
        model = Overlap()
        run = score(BENCH, model, f"planner:m,url={server.url}", out=tmp_path, settings=Settings(cache=tmp_path / "c"))
        assert len(server.requests) == 4 + 2 * 20
    assert run.complete
    assert [query.id for query in model.asked] == ["i0000", "i0001", "i0002", "i0003"]
    failed = [row for row in run.rows if row.failed]
    assert len(failed) == measure(run).failed == 20
    for row in failed:
        assert all(isinstance(each, Failure) and each.kind == "parse" for each in row.scores)
        assert all("no plan: the line 'Sure!' is no aspect" in each.detail for each in row.scores)  # type: ignore[union-attr]
    said = {record["item"]: [exchange["said"] for exchange in record["exchanges"]] for record in _transcripts(run)}
    assert said["i0020"] == ["Sure!", "Sure!"]
    shown = load_inputs(run.path, "i0020")
    assert (shown["notes"], shown["user"]) == ([], {"id": "u20", "posts": [], "pairs": []})


def _item(seen: Seen) -> str:
    text = seen.body["messages"][0]["content"]
    [found] = [item.id for item in BENCH.items if f"\n{item.prompt}\n" in text]
    return found


def _transcripts(run: Run) -> list[dict[str, Any]]:
    return members(run, "transcripts.jsonl.gz")


@pytest.mark.parametrize("model", ["longest", "random"])
def test_failing_to_describe_never_pays(model: str, tmp_path: Path) -> None:
    with FakeChat(lambda seen: say("" if _item(seen) > "i0012" else "- Rye.")) as server:
        told = f"planner:m,url={server.url}"
        half = score(BENCH, model, told, out=tmp_path, settings=Settings(cache=tmp_path / "c"))
    whole = score(BENCH, model, "none", out=tmp_path)
    right = {row.item: row.scores for row in whole.rows}
    assert measure(half).value < measure(whole).value
    assert all(row.failed or row.scores == right[row.item] for row in half.rows)


def test_a_killed_run_asks_again_for_no_more_than_was_in_flight(tmp_path: Path) -> None:
    with FakeChat(lambda _: say("Likes it loud."), latency=0.05) as server:
        words = ["score", "pocket-prb", "-m", "bm25", "-c", f"persona:m,url={server.url}", "-o", str(tmp_path / "runs")]
        words += ["--concurrency", "4"]
        environment = {**os.environ, "PLURALRM_CACHE": str(tmp_path / "cache")}
        child = start(words, Path.cwd(), environment, [Path(os.devnull)] * 2)
        while len(server.requests) < 20:
            assert child.poll() is None
            time.sleep(0.005)
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert len(server.requests) < 60
        done = command(words, cwd=Path.cwd(), environment=environment)
        assert done.returncode == 0, done.stderr
        assert 60 <= len(server.requests) <= 60 + 4
    [folder] = find_runs([tmp_path / "runs"])
    assert len({json.loads(line)["item"] for line in (folder / "rows.jsonl").read_text().splitlines()}) == 60


# ---------------------------------------------------------------- several at once


def test_workers_change_no_row(tmp_path: Path) -> None:
    settings = Settings(cache=tmp_path / "cache")
    with FakeChat(writer) as server:
        spec = f"persona:m,url={server.url}"
        alone = score(BENCH, "bm25", spec, out=tmp_path / "alone", settings=settings)
        two = score(BENCH, "bm25", spec, out=tmp_path / "two", workers=2, settings=settings)
        assert len(server.requests) == 24
    assert rows(alone) == rows(two)


def test_a_judge_and_a_writer_share_one_cassette(tmp_path: Path) -> None:
    with FakeChat(lambda seen: say("Result: A") if "answer A" in seen.prompt else writer(seen)) as server:
        words = ["score", "pocket-prb", "--limit", "4", "-m", f"judge:j,url={server.url}"]
        words += ["-c", f"persona:p,url={server.url}", "-o"]
        cache = {"PLURALRM_CACHE": str(tmp_path / "cache")}
        done = pluralrm(*words, "live", "--record", "tape.jsonl", cwd=tmp_path, **cache)
        assert done.returncode == 0, done.stderr
        assert len(server.requests) == 4 * 3
    done = pluralrm(*words, "played", "--replay", "tape.jsonl", cwd=tmp_path, PLURALRM_CACHE=str(tmp_path / "none"))
    assert done.returncode == 0, done.stderr
    [live], [played] = (list((tmp_path / name).rglob("rows.jsonl")) for name in ("live", "played"))
    assert live.read_bytes() == played.read_bytes()


# ---------------------------------------------------------------- whose notes


def test_the_users_own_notes_are_told_from_another_users(tmp_path: Path) -> None:
    """The writer repeats a word that only its user writes, and preferred answers have that word."""
    bench = _with_words(bakery(60))
    with FakeChat(lambda seen: say(_word(seen))) as server:
        spec, settings = f"persona:m,url={server.url},k=2", Settings(cache=tmp_path / "cache")
        conditions = ["none", "raw:2", "swapped:2", spec, f"{spec},of=swapped"]
        runs = [score(bench, Overlap(), condition, out=tmp_path, settings=settings) for condition in conditions]
    found = {one.conditions["own"]: one for one in personalization(runs)}
    own = found[runs[3].condition]
    assert own.conditions["swapped"] == runs[4].condition
    assert own.notes == ()
    assert own.lift is not None
    assert own.gain is not None
    assert (own.accuracy["own"].value, own.lift.value, own.gain.value) == (1.0, 0.5, 0.5)
    assert own.verdict == "personalized"
    assert found["raw:2"].conditions["swapped"] == "swapped:2"
    assert found["raw:2"].verdict == "blind"  # this model reads notes alone


def _word(seen: Seen) -> str:
    [word] = {word for word in seen.prompt.split() if word.startswith("only-")}
    return f"Says {word} often."


def _with_words(bench: Benchmark) -> Benchmark:
    items = []
    for item in bench.items:
        assert item.user is not None
        assert item.preferred is not None
        word = f"only-{item.user.id}"
        user = replace(item.user, posts=tuple(replace(post, text=f"{post.text} {word}") for post in item.user.posts))
        answers = list(item.candidates)
        answers[item.preferred] += f" {word}"
        items.append(replace(item, user=user, candidates=tuple(answers)))
    return Benchmark(bench.card, tuple(items))
