"""`train ppo` from the command line: trains, resumes, grades, and stops where there is no reward."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pluralrm.benchmarks import load_benchmark
from pluralrm.cli import app
from pluralrm.conditions import load_condition
from pluralrm.errors import BenchmarkError, OutageError, PluralrmError, SpecError
from pluralrm.models import load_model
from pluralrm.policies.outcomes import load_outcome
from pluralrm.policies.policy import load_policy
from pluralrm.policies.pool import load_pool
from pluralrm.serve.server import open_server
from pluralrm.templates import load_template
from pluralrm.training.job import assembled
from tests.models.neural.tiny import language_folder
from tests.serve.running import running

SMALL = ("batch=6", "minibatch=3", "max_tokens=8", "actor_rate=1e-3", "critic_rate=1e-2", "evaluate_every=2")
SETTINGS = [word for setting in SMALL for word in ("--set", setting)]


def said(*words: str) -> Any:
    """Return what a command prints as JSON, or raise what it raises."""
    done = CliRunner().invoke(app, ["train", *words, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"lm:{language_folder(tmp_path_factory.mktemp('policy'))}"


@pytest.mark.hf
def test_a_second_reward_watches_and_is_another_than_the_first(policy: str, tmp_path: Path) -> None:
    words = ["ppo", "simulated:users=10,items=2", "-p", policy, "--reward", "longest", "-c", "raw:2", *SETTINGS]
    result = said(*words, "--watch", "bm25", "--steps", "1", "-o", str(tmp_path / "out"))
    assert result["last"]["watch"]["answers"] > 0
    watch = json.loads((tmp_path / "out/watch/watch.json").read_text())
    assert (watch["second"], watch["control"]) == ("bm25", "swapped:2")
    with pytest.raises(SpecError, match="it is the reward itself"):
        said(*words, "--watch", "longest", "--steps", "1", "-o", str(tmp_path / "other"))
    assert not (tmp_path / "other").exists()


@pytest.mark.hf
def test_a_run_trains_resumes_and_grades_users_that_it_has_not_met(policy: str, tmp_path: Path) -> None:
    out = tmp_path / "a folder, with a comma"
    words = ["ppo", "simulated:users=10,items=2", "-p", policy, "--reward", "longest", "-c", "raw:2", *SETTINGS]
    printed = CliRunner().invoke(app, ["train", *words, "-g", "truth", "--steps", "2", "-o", str(out), "--json"])
    first = json.loads(printed.stdout)
    assert "ALARM before the first step, ungraded: 2 of 2 watched answers have no grade" in printed.stderr
    [ungraded] = [one["told"] for one in first["alarms"] if one["name"] == "ungraded"]
    assert "4 of 4 test users' answers after have no grade" in ungraded
    assert sum(load_outcome(first["outcome"]).manifest.failures.values()) == 4
    assert '<p class="notice"><strong>ungraded</strong>' in (out / "report.html").read_text()
    more = said(*words, "-g", "truth", "--steps", "3", "-o", str(out))
    assert [one["steps"] for one in (first, more)] == [2, 3]
    assert more["change"]["n"] == 4  # two test users, two items each
    run = json.loads((out / "run.json").read_text())
    assert (run["status"], run["steps"], run["condition"], run["reward_condition"]) == ("complete", 3, "raw:2", "raw:2")
    users = [set(run["parts"][part]) for part in ("train", "validation", "test")]
    assert sum(map(len, users)) == len(set.union(*users)) == 10
    pool = CliRunner().invoke(
        app,
        [
            "sample",
            "pocket-prb",
            "-p",
            more["policy"],
            "-n",
            "2",
            "--limit",
            "2",
            "--max-tokens",
            "4",
            "-o",
            str(tmp_path / "pool"),
            "--json",
        ],
    )
    assert json.loads(pool.stdout)["samples"] == 4
    assert "<svg" in (out / "report.html").read_text()


@pytest.mark.hf
def test_benchmark_condition_reward_and_grader_may_be_ones_own(policy: str, tmp_path: Path) -> None:
    own = "python:tests.own_objects"
    words = ["ppo", f"{own}:bench,items=20", "-p", policy, "--reward", f"{own}:Brief", "-c", f"{own}:Last,k=1"]
    done = said(*words, *SETTINGS, "-g", f"{own}:Short", "--steps", "1", "-o", str(tmp_path / "out"))
    assert (done["steps"], done["change"]["failed"]) == (1, 0)
    assert json.loads((tmp_path / "out" / "run.json").read_text())["condition"] == f"{own}:Last,k=1"


@pytest.mark.hf
def test_several_seeds_train_on_the_same_users_where_the_parts_have_a_seed(policy: str, tmp_path: Path) -> None:
    words = ["ppo", "simulated:users=10,items=1", "-p", policy, "--reward", "longest", *SETTINGS, "--steps", "1"]
    given = {"0": [], "1": ["--seed", "1"], "1 on 0's": ["--seed", "1", "--parts-seed", "0"]}
    for name, more in given.items():
        said(*words, *more, "-o", str(tmp_path / name))
    parts = [json.loads((tmp_path / name / "run.json").read_text())["parts"] for name in given]
    assert parts[0] == parts[2] != parts[1]
    policies = {(tmp_path / name / "policy" / "model.safetensors").read_bytes() for name in given}
    assert len(policies) == 3


@pytest.mark.hf
def test_one_policy_per_domain_without_a_penalty(policy: str, tmp_path: Path) -> None:
    words = ["ppo", "simulated:users=12,items=1,domains=2", "-p", policy, "--reward", "longest", *SETTINGS]
    found = said(*words, "--per-domain", "--no-kl", "--steps", "1", "-o", str(tmp_path))
    assert [one["domain"] for one in found] == ["Kitchen", "Garden"]
    for one in found:
        run = json.loads((Path(one["folder"]) / "run.json").read_text())
        assert run["selection"]["domains"] == [one["domain"]]
        assert run["settings"]["kl_in"] == "none"
    weights = [(Path(one["folder"]) / "policy" / "model.safetensors").read_bytes() for one in found]
    assert weights[0] != weights[1]


@pytest.mark.hf
def test_each_policy_is_also_asked_the_questions_of_another_benchmark(policy: str, tmp_path: Path) -> None:
    """Those of its own domain, of users who are neither trained on nor watched; what is on disk is not asked again."""
    out = str(tmp_path / "t")
    words = ["ppo", "simulated:users=12,items=1,domains=2", "-p", policy, "--reward", "longest", *SETTINGS]
    words += ["--per-domain", "--steps", "1", "-n", "2", "-g", "truth", "-o", out]
    alone = said(*words)
    wide = "simulated:users=20,items=2,domains=2"
    with pytest.raises(BenchmarkError, match="simulated has no domain 'Garden'"):
        said(*words, "--evaluate-on", "simulated:users=20,items=2,domains=1")
    found = said(*words, "--evaluate-on", wide)
    for before, one in zip(alone, found, strict=True):
        assert {key: value for key, value in one.items() if key != "evaluated_on"} == before
        on = one["evaluated_on"]
        run = json.loads((Path(one["folder"]) / "run.json").read_text())
        met = {*run["parts"]["train"], *run["parts"]["validation"]}
        bench = load_benchmark(wide)
        wanted = [
            item for item in bench.items if item.domain == one["domain"] and item.user and item.user.id not in met
        ]
        assert (on["benchmark"], on["change"]["n"]) == ("simulated", len(wanted))
        assert on["left_out"] == sum(item.domain == one["domain"] for item in bench.items) - len(wanted)
        assert {row.item for row in load_outcome(on["outcome"]).rows} == {item.id for item in wanted}
        assert on["change"]["value"] == pytest.approx(on["after"]["value"] - on["before"]["value"])
    pools = [*Path(out).rglob("samples.jsonl")]
    times = {file: file.stat().st_mtime_ns for file in pools}
    assert len(pools) == 8, "two domains, before and after, test users and questions"
    told = CliRunner().invoke(app, ["train", *words, "--evaluate-on", wide], catch_exceptions=False).output
    assert {file: file.stat().st_mtime_ns for file in pools} == times
    for one in found:
        on, known = one["evaluated_on"], one["evaluated_on"]["left_out"]
        said_of = f"{on['change']['n']} questions of simulated, without {known} of users who are trained on or watched"
        assert said_of in " ".join(told.split())


@pytest.mark.hf
def test_a_policy_is_asked_as_published_in_training_and_ever_after(policy: str, tmp_path: Path) -> None:
    """By its template and within its prompt's length: in training, before it, after it, and by whoever takes it on."""
    from pluralrm.policies.local import LocalPolicy

    asked = f"{policy},template=sample-v1,prompt_tokens=1500"
    words = ["ppo", "simulated:users=12,items=1", "-p", asked, "--reward", "longest", "-c", "raw:10", *SETTINGS]
    done = said(*words, "-g", "truth", "--steps", "1", "-o", str(tmp_path / "t"))
    identity = json.loads((tmp_path / "t" / "run.json").read_text())["identity"]
    assert identity["policy template"] == load_template("sample-v1").hash
    assert identity["policy prompt tokens"] == "1500"
    assert done["policy"] == f"lm:{tmp_path}/t/policy,prompt_tokens=1500,template=sample-v1"
    for name in ("before-1", "after-1-1"):
        pool = load_pool(tmp_path / "t" / name)
        assert {one.posts_kept for several in pool.samples.values() for one in several} <= set(range(1, 10))
        told = json.loads((tmp_path / "t" / name / "pool.json").read_text())
        assert told["identity"]["template"] == load_template("sample-v1").hash
    local = load_policy(asked)
    assert isinstance(local, LocalPolicy)
    bench = load_benchmark("simulated:users=12,items=1")
    found = assembled(bench, bench.items, load_condition("raw:10"), local, max_tokens=8)
    assert not found.left_out
    unlimited = load_policy(f"{policy},template=sample-v1")
    assert isinstance(unlimited, LocalPolicy)
    whole = assembled(bench, bench.items, load_condition("raw:10"), unlimited, max_tokens=8)
    too_long = sum(len(one.ids) > 1500 for one in whole.prompts)
    assert whole.shortened == 0 < too_long == found.shortened
    assert sum(json.loads((tmp_path / "t" / "run.json").read_text())["shortened"].values()) == too_long
    assert f"posts were dropped from {too_long} prompts" in (tmp_path / "t" / "report.html").read_text()
    assert 1000 < max(len(one.ids) for one in found.prompts) <= 1500


@pytest.mark.hf
def test_questions_without_a_grader_are_refused_before_anything_is_trained(policy: str, tmp_path: Path) -> None:
    words = ["ppo", "simulated:users=12,items=1", "-p", policy, "--reward", "longest", *SETTINGS]
    with pytest.raises(SpecError, match="no grader for the answers to the questions of pocket-prb"):
        said(*words, "--evaluate-on", "pocket-prb", "--steps", "1", "-o", str(tmp_path / "t"))
    assert not (tmp_path / "t").exists()


@pytest.mark.hf
def test_a_served_reward_is_the_one_here_and_a_dead_server_stops_the_training(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, shown, model = load_benchmark("pocket-prb"), load_condition("none"), load_model("longest")
    server = open_server(model, shown, bench, relative=False, run="r1")
    words = ["ppo", "pocket-prb", "-p", policy, *SETTINGS, "--steps", "2"]
    with running(server) as url:
        monkeypatch.setenv("PLURALRM_REWARD_URL", url)
        monkeypatch.setenv("PLURALRM_REWARD_RUN", "r1")
        there = said(*words, "--reward", "served", "-o", str(tmp_path / "there"))
    here = said(*words, "--reward", "longest", "-o", str(tmp_path / "here"))
    assert there["last"] == here["last"]
    monkeypatch.setattr("pluralrm.serve.client.RewardClient._until", _nobody)
    with pytest.raises(OutageError):
        said(*words, "--reward", "served", "-o", str(tmp_path / "dead"))
    assert not (tmp_path / "dead" / "metrics.jsonl").exists()


def _nobody(*_: object) -> None:
    raise OutageError("the reward server gave no answer")


@pytest.mark.hf
def test_rewards_of_two_models_on_one_scale(policy: str, tmp_path: Path) -> None:
    pool = ["sample", "pocket-prb", "-p", policy, "-n", "3", "--limit", "6", "--max-tokens", "8", "-o"]
    CliRunner().invoke(app, [*pool, str(tmp_path / "pool")], catch_exceptions=False)
    scale = said("scale", str(tmp_path / "pool"), "--reward", "longest", "-o", str(tmp_path / "longest.json"))
    texts = [json.loads(line)["text"] for line in (tmp_path / "pool" / "samples.jsonl").read_text().splitlines()]
    assert scale["n"] == 18
    assert scale["mean"] == pytest.approx(sum(map(len, texts)) / 18)
    words = ["ppo", "pocket-prb", "-p", policy, *SETTINGS, "--steps", "1"]
    shaping = f"z:{tmp_path / 'longest.json'}"
    found = said(*words, "--reward", "longest", "--shaping", shaping, "-o", str(tmp_path / "t"))["last"]
    assert found["shaped"] == pytest.approx((found["reward"] - scale["mean"]) / scale["sd"])
    with pytest.raises(PluralrmError, match="the scale is that of longest"):
        said(*words, "--reward", "shortest", "--shaping", shaping, "-o", str(tmp_path / "other"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-p", "simulated", "--reward", "longest"], "its weights are not here"),
        (["-p", "simulated", "--reward", "longgest"], "Did you mean 'longest'"),
        (["-p", "simulated", "--reward", "longest", "--set", "kl_target=6", "--no-kl"], "no penalty to adapt"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_written(
    words: list[str], told: str, tmp_path: Path
) -> None:
    with pytest.raises(PluralrmError, match=told):
        said("ppo", "pocket-prb", *words, "--steps", "1", "-o", str(tmp_path / "t"))
    assert not (tmp_path / "t").exists()
