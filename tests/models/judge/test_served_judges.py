"""Judges over real HTTP: what they are worth, what their places do, what is asked twice and what never again."""

import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from pluralrm.core import Benchmark, Run
from pluralrm.http import Settings
from pluralrm.metrics import measure
from pluralrm.metrics.summary import positions
from pluralrm.models import load_model
from pluralrm.models.judge import open_judge
from pluralrm.runs import score
from tests.builders import bakery
from tests.fake_chat import Action, FakeChat, Seen, say, status
from tests.forked import command, start
from tests.models.judge import judges

BENCHMARK = bakery(40)
RIGHT = judges.preferred(BENCHMARK)
QUICK = Settings(concurrency=8)


def _run(script: judges.Script, out: Path, keys: str = "", benchmark: Benchmark = BENCHMARK) -> tuple[Run, int]:
    """Score under the posts of the user, and return the run and how many calls the server got."""
    with FakeChat(judges.served(script)) as server:
        judge = open_judge(f"judge:m,url={server.url}{keys}", settings=QUICK)
        run = score(benchmark, judge, "recent:2", out=out)
        return run, len(server.requests)


def _values(run: Run) -> tuple[float, float, float]:
    found = positions(run)
    assert found.consistency is not None
    return measure(run).value, found.consistency.value, found.first.value


def test_a_judge_that_always_says_a_is_chance_and_never_consistent(tmp_path: Path) -> None:
    run, calls = _run(judges.always_a, tmp_path)
    assert calls == 80
    assert _values(run) == (0.5, 0.0, 1.0)


def test_an_honest_judge_is_right_and_consistent(tmp_path: Path) -> None:
    run, _ = _run(judges.honest(RIGHT), tmp_path)
    assert _values(run) == (1.0, 1.0, 0.5)


def test_a_judge_that_counts_characters_is_worth_what_longest_is_worth(tmp_path: Path) -> None:
    run, _ = _run(judges.longer, tmp_path / "judge")
    longest = score(BENCHMARK, "longest", "none", out=tmp_path / "longest")
    assert measure(run).value == measure(longest).value
    assert _values(run)[1:] == (1.0, 0.5)


def test_a_noisy_judge_loses_what_its_orders_disagree_on(tmp_path: Path) -> None:
    run, _ = _run(judges.noisy(RIGHT), tmp_path)
    script = judges.noisy(RIGHT)
    outcomes = Counter(
        tuple(_said(script, item.candidates, order) for order in ((0, 1), (1, 0))) for item in BENCHMARK.items
    )
    right = sum(
        all(said == str(item.preferred) for said in (_said(script, item.candidates, o) for o in ((0, 1), (1, 0))))
        for item in BENCHMARK.items
    )
    split = sum(count for (one, other), count in outcomes.items() if one != other)
    assert 0 < split < 40
    assert _values(run)[0] == pytest.approx((right + split / 2) / 40)
    assert _values(run)[1] == pytest.approx(1 - split / 40)


def _said(script: judges.Script, candidates: Sequence[str], order: tuple[int, int]) -> str:
    said = script({"A": candidates[order[0]], "B": candidates[order[1]]})
    return str(order["AB".index(said[-1])])


def test_the_coin_asks_each_pair_once_and_the_place_of_the_right_answer_decides_for_always_a(tmp_path: Path) -> None:
    run, calls = _run(judges.always_a, tmp_path, ",orders=coin")
    assert calls == 40
    first = [vote.order[0] == row.preferred for row in run.rows for vote in row.votes]
    assert measure(run).value == sum(first) / 40
    assert 0.2 < sum(first) / 40 < 0.8
    assert positions(run).consistency is None
    assert positions(run).first.value == 1.0


def test_four_candidates_are_compared_in_all_pairs_and_both_orders(tmp_path: Path) -> None:
    wide = bakery(6, width=4)
    for aggregate in ("wins", "bt"):
        run, calls = _run(judges.longer, tmp_path / aggregate, f",aggregate={aggregate}", wide)
        assert calls == 6 * 12
        longest = score(wide, "longest", "none", out=tmp_path / "longest")
        assert measure(run).value == measure(longest).value
        assert positions(run).consistency is not None


# ---------------------------------------------------------------- nothing is paid twice


def test_a_second_identical_run_makes_no_call_and_has_the_same_rows(tmp_path: Path) -> None:
    with FakeChat(judges.served(judges.noisy(RIGHT))) as server:
        spec = f"judge:m,url={server.url}"
        rows = []
        for name in ("one", "two"):
            judge = open_judge(spec, settings=Settings(concurrency=8, cache=tmp_path / "cache"))
            run = score(BENCHMARK, judge, "recent:2", out=tmp_path / name)
            rows.append((Path(run.path) / "rows.jsonl").read_bytes())
            assert len(server.requests) == 80
    assert rows[0] == rows[1]


def test_an_outage_leaves_the_run_incomplete_and_resuming_asks_only_for_the_rest(tmp_path: Path) -> None:
    served = judges.served(judges.honest(RIGHT))
    down = False
    with FakeChat(lambda seen: status(503) if down and len(server.requests) > 30 else served(seen)) as server:
        settings = Settings(concurrency=4, attempts=1, cache=tmp_path / "cache")
        down = True
        run = score(BENCHMARK, open_judge(f"judge:m,url={server.url}", settings=settings), out=tmp_path)
        assert not run.complete
        assert all(row.open for row in run.rows if row.failed)
        answered = 30
        down, before = False, len(server.requests)
        run = score(BENCHMARK, open_judge(f"judge:m,url={server.url}", settings=settings), out=tmp_path)
        assert run.complete
        assert len(server.requests) - before == 80 - answered
        assert measure(run).value == 1.0


def test_a_killed_run_asks_again_for_no_more_than_was_in_flight(tmp_path: Path) -> None:
    with FakeChat(judges.served(judges.longer), latency=0.03) as server:
        words = [
            "score",
            "pocket-prb",
            "-m",
            f"judge:m,url={server.url}",
            "-c",
            "recent:2",
            "-o",
            str(tmp_path / "runs"),
        ]
        environment = {**os.environ, "PLURALRM_CACHE": str(tmp_path / "cache")}
        child = start(words, Path.cwd(), environment, [Path(os.devnull)] * 2)
        while len(server.requests) < 50:
            assert child.poll() is None
            time.sleep(0.005)
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert len(server.requests) < 120
        done = command(words, cwd=Path.cwd(), environment=environment)
        assert done.returncode == 0, done.stderr
        assert 120 <= len(server.requests) <= 120 + Settings().concurrency


# ---------------------------------------------------------------- what cannot be read


def test_what_cannot_be_read_is_asked_once_more_with_the_reason(tmp_path: Path) -> None:
    def answer(seen: Seen) -> Action:
        again = len(seen.body["messages"]) > 1
        return judges.served(judges.honest(RIGHT))(seen) if again else say("Both are fine.")

    with FakeChat(answer) as server:
        run = score(BENCHMARK, open_judge(f"judge:m,url={server.url}", settings=QUICK), out=tmp_path)
        assert len(server.requests) == 160
        roles = [message["role"] for message in server.requests[-1].body["messages"]]
        told = server.requests[-1].prompt
    assert measure(run).value == 1.0
    assert roles == ["user", "assistant", "user"]
    assert "No verdict can be read from this" in told
    assert '"Result: A", "Result: B" or "Result: tie"' in told


def test_a_judge_that_never_decides_has_failed_and_is_wrong(tmp_path: Path) -> None:
    run, calls = _run(lambda _: "Both are fine.", tmp_path)
    assert calls == 160
    assert measure(run).value == 0.0
    assert measure(run).failed == 40
    assert {failure.kind for row in run.rows for failure in row.scores if not isinstance(failure, float)} == {"parse"}
    assert _values(run)[1:] == (0.0, 0.5)


def test_a_judge_by_its_spec_keeps_replies_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLURALRM_CACHE", str(tmp_path / "cache"))
    with FakeChat(judges.served(judges.honest(RIGHT))) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        run = score(BENCHMARK, "judge:m", out=tmp_path)
        assert measure(run).value == 1.0
        assert load_model("judge:m").spec == "judge:m"
    assert (tmp_path / "cache" / "replies.sqlite").exists()
