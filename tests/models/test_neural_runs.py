"""Neural kinds through the real command line, and through kills."""

import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.core import Failure, Post, Query, Run, UserView
from pluralrm.models import load_model
from pluralrm.runs import find_runs, load_manifest, load_run, score
from tests.builders import bakery
from tests.cli.test_verbs import pluralrm
from tests.forked import Forked
from tests.models.neural.asking import TOLERANCE
from tests.models.neural.tiny import reward_folder

pytestmark = pytest.mark.hf


def test_every_kind_scores_from_the_command_line(desk: Path) -> None:
    models = ["hf:head", "dpo:lm,reference=base", "endo:lm", "verifier:lm", "verifier:lm,form=published", "choice:lm"]
    words = [word for model in models for word in ("-m", model)]
    done = pluralrm("score", "pocket-prb", *words, "-c", "none", "-c", "raw:10", "--limit", "6", "-o", "out", cwd=desk)
    assert done.returncode == 0, done.stderr
    runs = [load_run(path) for path in find_runs([desk / "out"])]
    assert sorted((run.model, run.condition) for run in runs) == sorted(
        (model, condition)
        for model in ("dpo:lm,reference=base", *(m for m in models if not m.startswith("dpo")))
        for condition in ("none", "raw:10")
    )
    for run in runs:
        assert len(run.rows) == 6
        assert not any(row.failed for row in run.rows)
        assert all(row.posts == (0 if run.condition == "none" else 10) for row in run.rows)
        assert all(bool(row.votes) == run.model.startswith("choice") for row in run.rows)
        assert load_manifest(run.path).identity["weights"]


@pytest.mark.parametrize("kind", ["hf:{0}/head", "dpo:{0}/lm,reference={0}/base", "endo:{0}/lm", "verifier:{0}/lm"])
def test_traits_are_the_first_lines_of_what_is_known_of_the_person(kind: str, desk: Path) -> None:
    bare = Query("q", "Which flour?", ("Rye, always.", "Spelt."))
    person = UserView("u", (Post("p", "I bake."),), traits={"age": "old", "town": "A\nB"})
    declared = replace(bare, user=person, notes=("has no oven",))
    written = replace(bare, user=replace(person, traits={}), notes=("age: old", "town: A B", "has no oven"))
    other = replace(declared, user=replace(person, traits={"age": "young", "town": "A\nB"}))
    scores = [verdict.scores for verdict in load_model(kind.format(desk)).score([bare, declared, written, other])]
    assert scores[1] == pytest.approx(scores[2], abs=TOLERANCE)
    assert all(scores[1] != pytest.approx(scores[place], abs=TOLERANCE) for place in (0, 3))


def test_a_mistake_is_one_message(desk: Path) -> None:
    done = pluralrm("score", "pocket-prb", "-m", "hf:lm", "-o", "wrong", cwd=desk)
    assert done.returncode == 2
    assert "found LlamaForCausalLM" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def _same(one: Run, other: Run) -> None:
    assert [row.item for row in one.rows] == [row.item for row in other.rows]
    for a, b in zip(one.rows, other.rows, strict=True):
        assert a.posts == b.posts
        for x, y in zip(a.scores, b.scores, strict=True):
            assert not isinstance(x, Failure)
            assert not isinstance(y, Failure)
            assert abs(x - y) <= TOLERANCE


def _scores(model: str, out: Path) -> None:
    score(bakery(200), model, "recent:2", out=out)


@pytest.mark.parametrize("model", ["hf:{0}/head", "dpo:{0}/lm,reference={0}/base"])
def test_killed_and_resumed_is_as_good_as_uninterrupted(model: str, desk: Path, tmp_path: Path) -> None:
    model, benchmark = model.format(desk), bakery(200)
    child = Forked(_scores, model, tmp_path / "cut")
    end = time.monotonic() + 240
    while not any(file.stat().st_size for file in tmp_path.rglob("rows.jsonl")):
        assert time.monotonic() < end, "waited in vain"
        assert child.poll() is None, "ended before it could be killed"
        time.sleep(0.002)
    child.send_signal(signal.SIGKILL)
    child.wait()
    [cut] = find_runs([tmp_path / "cut"])
    acknowledged = (cut / "rows.jsonl").read_bytes()
    assert 0 < acknowledged.count(b"\n") < len(benchmark.items)
    resumed = score(benchmark, model, "recent:2", out=tmp_path / "cut")
    assert (cut / "rows.jsonl").read_bytes().startswith(acknowledged[: acknowledged.rfind(b"\n") + 1])
    _same(resumed, score(benchmark, model, "recent:2", out=tmp_path / "whole"))


def test_a_run_is_not_resumed_with_other_weights(desk: Path, tmp_path: Path) -> None:
    from pluralrm.errors import RunError

    folder = Path(shutil.copytree(desk / "head", tmp_path / "head"))
    benchmark = load_benchmark("pocket-prb")
    score(benchmark, f"hf:{folder}", out=tmp_path / "out", limit=2)
    reward_folder(folder, seed=7)
    with pytest.raises(RunError, match="identity"):
        score(benchmark, f"hf:{folder}", out=tmp_path / "out", limit=2)
