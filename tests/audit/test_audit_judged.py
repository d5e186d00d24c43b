"""The judge without the user: what makes a leak of it, what it rests on, and that nothing of a user is sent."""

import json
import random
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pluralrm.audit import audit, audit_page
from pluralrm.audit.comparisons import comparisons
from pluralrm.audit.leaks import ANOTHER, JUDGE, JUDGE_TOPIC, NAMES, judge_finding, judge_guess
from pluralrm.audit.probes import trial
from pluralrm.audit.result import AuditFinding, Probe
from pluralrm.benchmarks import load_benchmark, pocket
from pluralrm.core import Benchmark, Failure, Query, Row, Run, Verdict
from pluralrm.errors import MetricError
from pluralrm.metrics import measure
from pluralrm.runs import score
from tests.cli.test_verbs import pluralrm
from tests.construct.worlds import pairs, records
from tests.fake_chat import FakeChat
from tests.models.judge import judges

FEW = 249
"""Relabellings: about the smallest number with which ten probes can be told apart from chance."""


@dataclass
class Picks:
    """A judge that knows the answers to these shares of the items, by their order, and fails on others."""

    benchmark: Benchmark
    right: float
    failing: float = 0.0
    spec: str = "picks"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        places = {item.id: number for number, item in enumerate(self.benchmark.items)}
        labels = {item.id: item.preferred or 0 for item in self.benchmark.items}
        for query in queries:
            share = places[query.id] / len(places)
            pick = labels[query.id] if share < self.right else (labels[query.id] + 1) % len(query.candidates)
            points = tuple(float(place == pick) for place in range(len(query.candidates)))
            failed = Verdict.failed("parse", "no verdict", len(points))
            yield failed if share >= 1 - self.failing else Verdict(points)


def judged_by(benchmark: Benchmark, right: float, failing: float = 0.0, *, out: Path) -> Run:
    return score(benchmark, Picks(benchmark, right, failing), "none", out=out)


def told(benchmark: Benchmark, run: Run | None) -> tuple[list[Probe], AuditFinding, str]:
    found = audit(benchmark, judge=run, relabellings=FEW)
    [finding] = [one for one in found.findings if one.topic == JUDGE_TOPIC]
    return list(found.probes), finding, found.verdict


def test_without_a_judge_nothing_is_asked_and_the_family_is_as_ever() -> None:
    probes, finding, _ = told(pairs(20), None)
    assert tuple(probe.name for probe in probes) == (*NAMES, ANOTHER)
    assert (finding.status, finding.measures) == ("needs a judge", {})
    assert "--judge MODEL" in finding.found


def test_a_judge_that_is_right_without_the_user_is_a_leak(tmp_path: Path) -> None:
    bench = pairs(40)
    probes, finding, verdict = told(bench, judged_by(bench, 0.9, out=tmp_path))
    assert probes[-1].title == "judge"
    assert (probes[-1].verdict, probes[-1].reads) == ("leak", "prompt and answers")
    assert probes[-1].accuracy is not None
    assert probes[-1].accuracy.value == 0.9
    assert probes[-1].at_best is None
    assert verdict.startswith("Prompt and answers alone give 90.0 [")
    assert finding.status == "warn"
    assert "picks, told nothing of the user, is right in 90.0 [" in finding.found
    assert finding.found.endswith("so part of any accuracy is general quality, not taste")


def test_a_judge_at_chance_is_none_and_few_items_show_no_equality(tmp_path: Path) -> None:
    bench = pairs(40)
    probes, finding, verdict = told(bench, judged_by(bench, 0.5, out=tmp_path))
    assert probes[-1].verdict == "none found"
    assert verdict == "No probe is shown to beat chance (50.0)."
    assert finding.status == "note"
    assert finding.found.endswith("neither chance nor a difference from it is shown")


def test_a_judge_that_is_wrong_too_often_prefers_the_other_answers(tmp_path: Path) -> None:
    bench = pairs(40)
    probes, finding, _ = told(bench, judged_by(bench, 0.1, out=tmp_path))
    assert probes[-1].verdict == "none found"
    assert finding.found.endswith("it prefers the other answers")


def test_failures_are_counted_apart_and_bounded(tmp_path: Path) -> None:
    bench = pairs(40)
    probes, finding, _ = told(bench, judged_by(bench, 0.5, 0.2, out=tmp_path))
    accuracy = probes[-1].accuracy
    assert accuracy is not None
    assert (accuracy.value, accuracy.failed, probes[-1].at_best) == (0.5, 8, 0.7)
    assert probes[-1].to_json()["at_best"] == 0.7
    assert finding.measures["failed"] == 8
    assert (finding.measures["accuracy at worst"], finding.measures["accuracy at best"]) == (0.5, 0.7)
    assert "8 failed (parse): 50.0 if all of them were wrong, 70.0 if right" in finding.found


def test_a_judge_that_never_answers_says_nothing(tmp_path: Path) -> None:
    bench = pairs(12)
    probes, finding, _ = told(bench, judged_by(bench, 0.0, 1.0, out=tmp_path))
    assert (probes[-1].verdict, probes[-1].at_best) == ("none found", 1.0)
    assert finding.status == "note"


def _run(benchmark: Benchmark, scores: list[tuple[float | Failure, ...]]) -> Run:
    rows = tuple(
        Row(
            item.id,
            item.cluster,
            item.domain,
            item.preferred or 0,
            points,
            item.candidate_ids,
            tuple(map(len, item.candidates)),
        )
        for item, points in zip(benchmark.items, scores, strict=True)
    )
    return Run("m", benchmark.card.name, "none", rows, benchmark.card, benchmark_hash=benchmark.content_hash)


_WORLD = pairs(30)
_TABLE = comparisons(_WORLD.items)
_LABELS = trial(_TABLE, relabellings=FEW).labels


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=30, max_size=30), st.sets(st.integers(0, 29)))
def test_failing_never_makes_a_leak(earned: list[float], failing: set[int]) -> None:
    points = [_earning(item.preferred or 0, credit) for item, credit in zip(_WORLD.items, earned, strict=True)]
    broken = [(Failure("parse"),) * 2 if place in failing else one for place, one in enumerate(points)]
    whole, failed = (judge_guess(_TABLE, _LABELS, _run(_WORLD, list(scores))) for scores in (points, broken))
    assert whole.credits.tolist() == pytest.approx(earned)
    assert failed.credits.tolist() == [0.0 if place in failing else credit for place, credit in enumerate(earned)]
    if 0.5 not in earned:
        assert failed.p >= whole.p


def _earning(preferred: int, credit: float) -> tuple[float | Failure, ...]:
    return tuple(credit if place == preferred else 1 - credit for place in range(2))


def test_a_coin_is_accused_as_often_as_promised() -> None:
    accused = 0
    for seed in range(400):
        coin = random.Random(seed)
        points: list[tuple[float | Failure, ...]] = [(coin.random(), coin.random()) for _ in _WORLD.items]
        accused += judge_guess(_TABLE, _LABELS, _run(_WORLD, points)).p <= 0.05
    assert accused <= 34  # 20 expected, standard deviation 4.4: three of them above


def test_at_chance_is_said_where_enough_items_show_it() -> None:
    bench = pairs(2_000, words=6)
    table = comparisons(bench.items)
    places = np.random.default_rng(1).permutation(2_000) % 2
    run = _run(bench, [_earning(item.preferred or 0, float(p)) for item, p in zip(bench.items, places, strict=True)])
    run = replace(run, rows=tuple(sorted(run.rows, key=lambda row: row.item)))
    probe = Probe(JUDGE, "prompt and answers", "none found", measure(run, "accuracy"))
    finding = judge_finding(table, run, probe)
    assert finding.status == "ok"
    assert finding.found.endswith("at chance, within 5 points")
    broken = [replace(row, scores=(Failure("parse"),) * 2) for row in run.rows[:200]]
    failing = replace(run, rows=(*broken, *run.rows[200:]))
    assert judge_finding(table, failing, probe).status == "note"  # 45 to 55 of 100 is no proof of chance


def test_where_a_prompt_says_what_is_wanted_reading_it_is_the_design(tmp_path: Path) -> None:
    bench = records(8)
    probes, finding, verdict = told(bench, judged_by(bench, 0.9, out=tmp_path))
    assert probes[-1].verdict == "by design"
    assert probes[-1].accuracy is not None
    assert probes[-1].accuracy.value == pytest.approx(0.9, abs=0.01)
    assert finding.status == "ok"
    assert "But for the judge, which reads what a prompt asks for, no probe is shown to beat chance (25.0)." in verdict


# ---------------------------------------------------------------- which runs can be read


def test_a_run_that_is_not_whole_is_no_probe_yet_and_changes_no_other(tmp_path: Path) -> None:
    bench = pairs(20)
    half = score(bench, Picks(bench, 0.5), "none", out=tmp_path, limit=7)
    probes, finding, _ = told(bench, half)
    assert (probes[-1].verdict, probes[-1].detail) == ("not available", "picks has answered 7 of 20 items")
    assert (finding.status, finding.found) == ("not available", "picks has answered 7 of 20 items")
    assert probes[:-1] == told(bench, None)[0]


def test_a_judge_of_something_else_is_refused(tmp_path: Path) -> None:
    bench, run = pairs(12), judged_by(pairs(12), 0.5, out=tmp_path)
    with pytest.raises(MetricError, match="Score the judge on this benchmark"):
        audit(pairs(13), judge=run, relabellings=FEW)
    with pytest.raises(MetricError, match="shows posts; wanted one under the condition 'none'"):
        audit(bench, judge=score(bench, Picks(bench, 0.5), "recent:1", out=tmp_path), relabellings=FEW)
    turned = replace(run, rows=tuple(replace(row, lengths=row.lengths[::-1]) for row in run.rows))
    with pytest.raises(MetricError, match="candidates in other places"):
        audit(bench, judge=turned, relabellings=FEW)


def test_fewer_than_four_users_say_nothing_of_a_judge_either(tmp_path: Path) -> None:
    bench = pairs(3)
    probes, finding, _ = told(bench, judged_by(bench, 1.0, out=tmp_path))
    assert probes[-1].verdict == finding.status == "not available"


# ---------------------------------------------------------------- the verb


ART = f"prb:{Path(pocket.__file__).parent / 'pocket-prb/Art_and_Entertainment.jsonl'}"


def _verb(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return pluralrm("audit", ART, *words, cwd=tmp_path, PLURALRM_CACHE=str(tmp_path / "cache"))


def test_a_served_judge_is_asked_once_and_told_nothing_of_any_user(tmp_path: Path) -> None:
    bench = load_benchmark(ART)
    with FakeChat(judges.served(judges.honest(judges.preferred(bench)))) as server:
        words = ["--judge", f"judge:j,url={server.url}", "-o", "audit.html", "--record", "tape.jsonl"]
        done = _verb(tmp_path, *words, "--json")
        assert done.returncode == 1, done.stderr
        asked = len(server.requests)
        assert sum("Result: tie" in seen.prompt for seen in server.requests) == 2 * len(bench.items)
        sent = "\n".join(str(seen.body) for seen in server.requests)
        again = _verb(tmp_path, *words)
        assert (again.returncode, len(server.requests)) == (1, asked)
    told = json.loads(done.stdout)
    assert told["judge"] == f"judge:j,url={server.url}"
    assert (told["probes"][-1]["name"], told["probes"][-1]["verdict"]) == ("judge", "leak")
    assert told["probes"][-1]["accuracy"]["value"] == 1.0
    [finding] = [one for one in told["findings"] if one["topic"] == JUDGE_TOPIC]
    assert finding["measures"]["position consistency"]["value"] == 1.0
    assert "its orders agree in 100.0%" in " ".join(again.stdout.split())
    assert JUDGE_TOPIC in (tmp_path / "audit.html").read_text()
    for item in bench.items:
        assert item.user is not None
        assert item.oracle is not None
        hidden = [item.user.id, item.oracle.narrative, *(post.text for post in item.user.posts)]
        assert not any(text in sent for text in hidden)
    played = pluralrm(
        *("audit", ART, "--runs", "played", "--judge", f"judge:j,url={server.url}", "--replay", "tape.jsonl"),
        cwd=tmp_path,
        PLURALRM_CACHE=str(tmp_path / "none"),
    )
    assert played.returncode == 1, played.stderr
    assert played.stdout == again.stdout


def test_a_judge_that_goes_by_the_place_is_at_chance_and_it_shows(tmp_path: Path) -> None:
    with FakeChat(judges.served(judges.always_a)) as server:
        done = _verb(tmp_path, "--judge", f"judge:j,url={server.url}")
    assert done.returncode == 0, done.stderr
    shown = " ".join(done.stdout.split())
    assert "it ties in 100.0%; its orders agree in 0.0%: it prefers no answer to another, so it" in shown


def test_an_outage_of_the_judge_is_exit_3_and_the_same_command_goes_on(tmp_path: Path) -> None:
    with FakeChat(judges.served(judges.longer)) as server:
        judge = f"judge:j,url={server.url}"
        assert _verb(tmp_path, "--judge", judge, "--record", "tape.jsonl", "--runs", "live").returncode == 0
    tape = (tmp_path / "tape.jsonl").read_text()
    # A cassette that ends in the middle is a server that does.
    (tmp_path / "tape.jsonl").write_text("".join(tape.splitlines(keepends=True)[:14]))
    done = _verb(tmp_path, "--judge", judge, "--replay", "tape.jsonl")
    assert done.returncode == 3
    assert re.search(r"has answered \d of 20 items", " ".join(done.stdout.split()))
    assert "the same command asks for the rest" in " ".join(done.stderr.split())
    (tmp_path / "tape.jsonl").write_text(tape)
    assert _verb(tmp_path, "--judge", judge, "--replay", "tape.jsonl").returncode == 0


def test_options_about_servers_need_a_judge(tmp_path: Path) -> None:
    done = _verb(tmp_path, "--concurrency", "4")
    assert done.returncode == 2
    assert "nothing here is asked over HTTP" in " ".join(done.stderr.split())


def test_a_page_holds_the_judge(tmp_path: Path) -> None:
    bench = pairs(12)
    text = audit_page(audit(bench, judge=judged_by(bench, 0.5, out=tmp_path), relabellings=FEW))
    assert '<th scope="row">judge</th>' in text
    assert "picks, told nothing of the user" in text
