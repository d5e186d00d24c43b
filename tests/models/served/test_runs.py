"""Served heads through the run loop and the command line: killed and resumed, asked once, written down."""

import json
import os
import re
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Query, Run
from pluralrm.errors import RunError, ServiceError
from pluralrm.http import Settings
from pluralrm.models import load_model
from pluralrm.models.served.probes import PROBES
from pluralrm.runs import score
from tests.builders import bakery
from tests.fake_chat import Action, Seen, status
from tests.fake_heads import FakeHead, Quirks, tokenizer_folder
from tests.forked import command, start
from tests.models.served.asking import head_of, plainly


def _run(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return command(words, cwd=Path.cwd(), environment=_environment(folder))


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PLURALRM_CACHE": str(folder / "cache")}


def _asked(server: FakeHead) -> list[str]:
    """Return the requests for scores that are no probes."""
    probes = ("a a a a", *(json.dumps(question)[1:-1] for question, _ in PROBES))
    bodies = [json.dumps(seen.body) for seen in server.scored]
    return [body for body in bodies if not any(probe in body for probe in probes)]


def test_score_and_check_work_from_the_command_line(tmp_path: Path) -> None:
    folder = tokenizer_folder(tmp_path / "chat")
    for dialect, keys in (("vllm", ""), ("sglang", f",chat={folder}"), ("remote", f",chat={folder}")):
        with FakeHead(dialect, Quirks(limit=100_000)) as server:
            spec = f"{dialect}:{server.url}{keys}"
            checked = _run("check", spec, folder=tmp_path)
            assert checked.returncode == 0, checked.stdout + checked.stderr
            out = str(tmp_path / dialect)
            words = ("score", "pocket-prb", "-m", spec, "-c", "recent:2", "--limit", "6", "-o", out, "--json")
            done = _run(*words, folder=tmp_path)
            assert done.returncode == 0, done.stderr
        [kept] = (tmp_path / dialect).rglob("run.json")
        identity = json.loads(kept.read_text())["identity"]
        assert identity["url"] == server.url
        assert identity["chat template"]


def test_a_refusal_is_one_message_and_leaves_no_run(tmp_path: Path) -> None:
    with FakeHead("vllm", Quirks(activation="always")) as server:
        words = ("score", "pocket-prb", "-m", f"vllm:{server.url}", "-o", str(tmp_path / "runs"))
        done = _run(*words, folder=tmp_path)
    assert done.returncode == 2
    assert "use_activation" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("rows.jsonl"))


def test_a_second_run_asks_for_no_score_again(tmp_path: Path) -> None:
    bench = bakery(20)
    with FakeHead("vllm") as server:
        settings, rows = Settings(attempts=1, cache=tmp_path / "cache"), []
        for name in ("one", "two"):
            run = score(bench, head_of(server, settings=settings), "recent:2", out=tmp_path / name)
            rows.append((Path(run.path) / "rows.jsonl").read_bytes())
            assert len(_asked(server)) == 40
    assert rows[0] == rows[1]
    query = _query(bench)
    assert run.rows[0].scores == tuple(plainly(query, answer) for answer in query.candidates)


@pytest.mark.parametrize(("dialect", "workers"), [("vllm", 1), ("vllm", 2), ("sglang", 1), ("remote", 1)])
def test_a_second_identical_run_asks_nothing_and_changes_no_byte(tmp_path: Path, dialect: str, workers: int) -> None:
    keys = "" if dialect == "vllm" else f",chat={tokenizer_folder(tmp_path / 'chat')}"
    with FakeHead(dialect, Quirks(limit=100_000)) as server:
        spec, settings = f"{dialect}:{server.url}{keys}", Settings(attempts=1, cache=tmp_path / "cache")
        runs, asked = [], []
        for _ in range(2):
            run = score(bakery(6), spec, "recent:2", out=tmp_path / "runs", settings=settings, workers=workers)
            runs.append({file.name: file.read_bytes() for file in Path(run.path).iterdir()})
            asked.append(len(server.requests))
    assert asked[0] == asked[1] > 12
    assert run.complete
    assert len(run.rows) == 6
    assert runs[0] == runs[1]
    again = score(bakery(6), spec, "recent:2", out=tmp_path / "runs", settings=settings)  # nobody is there any more
    assert again.rows == run.rows


def test_a_complete_run_of_another_template_is_not_taken_for_this_one(tmp_path: Path) -> None:
    shown = tmp_path / "shown.jinja"
    shown.write_text("{{ query.prompt }}")
    with FakeHead("vllm") as server:
        spec, settings = f"vllm:{server.url},template={shown}", Settings(attempts=1)
        score(bakery(4), spec, out=tmp_path / "runs", settings=settings)
        shown.write_text("They ask: {{ query.prompt }}")
        with pytest.raises(RunError, match="another identity"):
            score(bakery(4), spec, out=tmp_path / "runs", settings=settings)


def test_a_complete_run_that_lost_rows_is_scored_again(tmp_path: Path) -> None:
    with FakeHead("vllm") as server:
        spec, settings = f"vllm:{server.url}", Settings(attempts=1)
        run = score(bakery(4), spec, out=tmp_path / "runs", settings=settings)
        rows = Path(run.path) / "rows.jsonl"
        whole = rows.read_bytes()
        rows.write_bytes(whole[: whole.index(b"\n") + 1])
        again = score(bakery(4), spec, out=tmp_path / "runs", settings=settings)
        assert again.rows == run.rows
        assert rows.read_bytes() == whole


def _query(bench: Benchmark) -> Query:
    return next(iter(load_condition("recent:2").queries(bench, bench.items[:1])))


def test_an_outage_leaves_the_run_incomplete_and_resuming_asks_for_the_rest(tmp_path: Path) -> None:
    bench = bakery(20)
    with FakeHead("vllm") as server:
        settings = Settings(attempts=1, concurrency=4, cache=tmp_path / "cache")
        model = head_of(server, settings=settings)
        assert model.identity
        server._faults += [status(503)] * 5
        run = score(bench, model, out=tmp_path)
        assert not run.complete
        assert all(row.open for row in run.rows if row.failed)
        asked = len(_asked(server))
        run = score(bench, head_of(server, settings=settings), out=tmp_path)
        assert run.complete
        assert len(_asked(server)) - asked == 5


def test_a_killed_run_asks_again_for_no_more_than_was_in_flight(tmp_path: Path) -> None:
    with FakeHead("vllm", latency=0.03) as server:
        words = ("score", "pocket-prb", "-m", f"vllm:{server.url}", "-c", "recent:2", "-o", str(tmp_path / "runs"))
        child = start(words, Path.cwd(), _environment(tmp_path), [Path(os.devnull)] * 2)
        while len(_asked(server)) < 40:
            assert child.poll() is None
            time.sleep(0.005)
        child.send_signal(signal.SIGKILL)
        child.wait()
        before = len(_asked(server))
        done = _run(*words, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert before < 120
        assert 120 <= len(_asked(server)) <= 120 + Settings().concurrency


def test_a_spec_alone_keeps_replies_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLURALRM_CACHE", str(tmp_path / "cache"))
    with FakeHead("vllm") as server:
        score(bakery(3), f"vllm:{server.url}", out=tmp_path)
        assert load_model(f"vllm:{server.url}").spec == f"vllm:{server.url}"
    assert (tmp_path / "cache" / "replies.sqlite").exists()


def test_a_password_in_the_url_is_refused_unseen(tmp_path: Path) -> None:
    words = ("score", "pocket-prb", "-m", "vllm:http://user:canary-4417@127.0.0.1:1", "-o", str(tmp_path / "runs"))
    done = _run(*words, folder=tmp_path)
    assert done.returncode == 2
    assert "canary-4417" not in done.stdout + done.stderr
    assert not list(tmp_path.rglob("*.json*"))


def test_a_server_that_is_down_is_an_outage_and_no_mistake(tmp_path: Path) -> None:
    with FakeHead("vllm") as server:
        words = ("score", "pocket-prb", "-m", f"vllm:{server.url}", "--limit", "3", "-o", str(tmp_path / "runs"))
    down = _run(*words, folder=tmp_path)
    assert down.returncode == 3
    assert "gave no answer" in down.stderr
    assert not list(tmp_path.rglob("rows.jsonl"))


# ---------------------------------------------------------------- another model behind the same name


class _Swapping(FakeHead):
    """A server that gets other weights after so many requests for scores that are no probes."""

    after = 10**9
    other = "b"
    _seen = 0

    def _route(self, seen: Seen) -> Action:
        body = json.dumps(seen.body)
        if seen.path == "/classify" and not any(json.dumps(question)[1:-1] in body for question, _ in PROBES):
            self._seen += 1
            if self._seen > self.after:
                self.quirks = replace(self.quirks, weights=self.other)
        return super()._route(seen)


def _sound_rows(bench: Benchmark, run: Run) -> None:
    queries = {query.id: query for query in load_condition("recent:2").queries(bench, bench.items)}
    for row in run.rows:
        query = queries[row.item]
        assert row.scores == tuple(plainly(query, answer) for answer in query.candidates)


@pytest.mark.parametrize("after", [0, 1, 5, 16, 31])
@pytest.mark.parametrize("other", ["b", "nothing", "words"])
def test_a_model_that_is_swapped_in_the_middle_leaves_no_row_and_no_kept_reply(
    tmp_path: Path, after: int, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pluralrm.runs.verdicts.EVERY", 4)
    bench = bakery(16)
    settings = Settings(attempts=1, concurrency=4, cache=tmp_path / "cache")
    with _Swapping("vllm") as server:
        server.after, server.other = after, other
        with pytest.raises(ServiceError, match="another model answers") as error:
            score(bench, head_of(server, settings=settings), "recent:2", out=tmp_path / "runs")
        named = re.search(r"The first row that may be its is item '(.+?)'", str(error.value))
        assert named is not None
        assert bench.items.index(next(item for item in bench.items if item.id == named[1])) <= after // 2
        # The advice of the message: the former model is served again, and the same command repeated.
        server.after, server.quirks = 10**9, Quirks()
        run = score(bench, head_of(server, settings=settings), "recent:2", out=tmp_path / "runs")
    assert run.complete
    assert len(run.rows) == 16
    _sound_rows(bench, run)


def test_a_model_that_is_swapped_between_two_commands_is_refused_on_resume(tmp_path: Path) -> None:
    bench = bakery(20)
    settings = Settings(attempts=1, concurrency=4, cache=None)
    with FakeHead("vllm") as server:
        model = head_of(server, settings=settings)
        assert model.identity
        server._faults += [status(503)] * 5
        run = score(bench, model, "recent:2", out=tmp_path)
        assert not run.complete
        server.quirks = Quirks(weights="b")
        with pytest.raises(RunError, match="another model under the same name"):
            score(bench, head_of(server, settings=settings), "recent:2", out=tmp_path)
        server.quirks = Quirks()
        run = score(bench, head_of(server, settings=settings), "recent:2", out=tmp_path)
    assert run.complete
    _sound_rows(bench, run)


def test_a_head_that_begins_to_saturate_ends_the_run(tmp_path: Path) -> None:
    class Saturating(_Swapping):
        def _route(self, seen: Seen) -> Action:
            action = super()._route(seen)
            if self.quirks.weights == "b":
                self.quirks = Quirks(activation="always")
            return action

    with Saturating("vllm") as server:
        server.after = 9
        with pytest.raises(ServiceError, match="another model answers"):
            score(bakery(20), head_of(server), "recent:2", out=tmp_path)
    assert not list(tmp_path.rglob("rows.jsonl")) or not next(tmp_path.rglob("rows.jsonl")).read_bytes()


def test_a_recording_that_holds_replies_of_two_models_is_named(tmp_path: Path) -> None:
    settings = Settings(attempts=1, concurrency=4, record=tmp_path / "tape.jsonl")
    with _Swapping("vllm") as server:
        server.after = 9
        with pytest.raises(ServiceError, match="remove the cache and the recording"):
            score(bakery(20), head_of(server, settings=settings), "recent:2", out=tmp_path / "runs")


class _Unprobed(FakeHead):
    """A server that stops answering probes."""

    deaf = False

    def _route(self, seen: Seen) -> Action:
        probe = any(json.dumps(question)[1:-1] in json.dumps(seen.body) for question, _ in PROBES)
        return status(503) if probe and self.deaf else super()._route(seen)


def test_an_outage_of_the_probes_leaves_what_was_not_confirmed_open(tmp_path: Path) -> None:
    bench = bakery(10)
    with _Unprobed("vllm") as server:
        model = head_of(server)
        assert model.identity
        server.deaf = True
        run = score(bench, model, "recent:2", out=tmp_path)
        assert not run.complete
        assert all(row.open for row in run.rows)
        server.deaf = False
        run = score(bench, head_of(server), "recent:2", out=tmp_path)
    assert run.complete
    _sound_rows(bench, run)
