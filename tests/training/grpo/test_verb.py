"""The verb: what it prints, what it refuses before anything is loaded, where its rewards come from."""

import json
from pathlib import Path

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.conditions import load_condition
from pluralrm.errors import OutageError, ServiceError, SpecError
from pluralrm.models import load_model
from pluralrm.serve.server import open_server
from tests.serve.running import running
from tests.training.grpo.verb import SMALL, ran

pytestmark = pytest.mark.hf


def test_it_trains_and_tells_how_the_validation_users_fared(policy: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["pocket-prb", "-p", policy, "--reward", "longest", "--steps", "2", "-o", str(out), "-c", "raw:2", *SMALL]
    first = ran(*words)
    assert first.exit_code == 0, first.output
    said = " ".join(first.stdout.split())
    assert "2 steps of 8 answers" in said
    assert "after minus before" in said
    told = json.loads(ran(*words, "--json").stdout)
    assert told["steps"] == 2
    assert told["policy"] == f"lm:{out / 'policy'}"
    assert set(told["held_out"]["rewards"]) == {"value", "low", "high", "n", "failed", "method"}
    assert told["last"]["kl"] is not None
    run = json.loads((out / "run.json").read_text())
    assert (run["condition"], run["reward_condition"], run["reward"]) == ("raw:2", "raw:2", "longest")
    assert run["settings"]["kl_coefficient"] == "0.04"


def test_without_a_penalty_nobody_computes_a_kl(policy: str, tmp_path: Path) -> None:
    words = ["pocket-prb", "-p", policy, "--reward", "longest", "--steps", "1", "-o", str(tmp_path / "out"), *SMALL]
    told = json.loads(ran(*words, "--no-kl", "--json").stdout)
    assert told["last"]["kl"] is None


def test_rewards_come_from_the_server_that_the_environment_names(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, shown = load_benchmark("pocket-prb"), load_condition("raw:2")
    words = ["pocket-prb", "-p", policy, "--reward", "served", "--steps", "1", "-c", "raw:2", *SMALL]
    with running(open_server(load_model("longest"), shown, bench, relative=False, run="r1")) as url:
        monkeypatch.setenv("PLURALRM_REWARD_URL", url)
        monkeypatch.setenv("PLURALRM_REWARD_RUN", "another")
        refused = ran(*words, "-o", str(tmp_path / "refused"))
        monkeypatch.setenv("PLURALRM_REWARD_RUN", "r1")
        told = ran(*words, "-o", str(tmp_path / "out"), "--json")
    assert isinstance(refused.exception, ServiceError)
    assert not isinstance(refused.exception, OutageError)
    assert not (tmp_path / "refused").exists()
    assert told.exit_code == 0, told.output
    assert json.loads((tmp_path / "out" / "run.json").read_text())["reward"] == "served:longest"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-p", "simulated", "--reward", "longest"], "wanted lm:FOLDER"),
        (["--reward", "longest", "--set", "answer=4"], "no setting 'answer'"),
        (["--reward", "longest,shortest"], "--reward longest,shortest"),
        (["--reward", "longest", "-c", "none,raw:3"], "-c none,raw:3"),
    ],
)
def test_slips_are_told_before_a_folder_is_made(policy: str, tmp_path: Path, words: list[str], told: str) -> None:
    named = words if "-p" in words else ["-p", policy, *words]
    found = ran("pocket-prb", *named, "--steps", "1", "-o", str(tmp_path / "out"))
    assert isinstance(found.exception, SpecError)
    assert told in str(found.exception)
    assert not (tmp_path / "out").exists()
