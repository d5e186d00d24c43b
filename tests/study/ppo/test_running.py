"""Training what a study trains: each training resumes, is that of `train ppo`, and its failure stops no other."""

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from typer.testing import CliRunner

from pluralrm.benchmarks import load_benchmark
from pluralrm.cli import app
from pluralrm.http import Settings
from pluralrm.journal import parse_document
from pluralrm.policies.outcomes import load_outcome
from pluralrm.policies.pool import load_pool
from pluralrm.study import declare, study
from pluralrm.study.parts import StudyContext
from pluralrm.study.result import StudyResult
from pluralrm.study.steps import work
from pluralrm.training.records import RUN, read_run
from pluralrm.training.rewards import Scale
from tests.fake_chat import Action, FakeChat, Seen, say, status
from tests.grading.markers import by_words, marked
from tests.study.studies import data, report

pytestmark = pytest.mark.hf

SETTINGS = {
    "batch": 6,
    "minibatch": 4,
    "rows": 6,
    "max_tokens": 8,
    "actor_rate": 1e-3,
    "critic_rate": 1e-2,
    "test": 0.1,
}
MODELS = ("longest", "shortest", "bm25")
BROKEN = "python:tests.study.studies:Broken"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a policy with random weights."""
    from tests.models.neural.tiny import language_folder

    return language_folder(tmp_path_factory.mktemp("policy"))


class Server:
    """Grades by the words of an answer and rewards by their number; who is in `down` gives no answer."""

    def __init__(self) -> None:
        self.down: set[str] = set()
        self.asked: list[str] = []

    def __call__(self, seen: Seen) -> Action:
        who = seen.body["model"]
        if who in self.down:
            return status(500)
        self.asked.append(who)
        prompt = str(seen.body["messages"][0]["content"])
        if who == "m":
            return say(str(1 + len(prompt) % 10))
        if who == "p":
            return say(f"Result: {'AB'[len(prompt) % 2]}")
        return say(marked(prompt, by_words))


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[Server, str]]:
    said = Server()
    with FakeChat(said) as chat:
        yield said, chat.url


def table(folder: Path, url: str, **changes: Any) -> dict[str, Any]:
    ppo = {
        "policy": f"lm:{folder}",
        "steps": 2,
        "seeds": [0, 1],
        "n": 2,
        "grader": f"joint:g,url={url}",
        "settings": SETTINGS,
        **changes.pop("ppo", {}),
    }
    plain = {"benchmarks": ["pocket-prb"], "models": list(MODELS), "conditions": ["none"], "limit": 6}
    return {**plain, **changes, "ppo": ppo}


def done(out: Path, told: dict[str, Any]) -> StudyResult:
    return study(declare(told), out=out, settings=Settings(attempts=1))


@pytest.fixture(scope="module")
def whole(
    folder: Path, server: tuple[Server, str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, StudyResult]:
    out = tmp_path_factory.mktemp("whole")
    return out, done(out, table(folder, server[1]))


def _trainings(out: Path) -> dict[tuple[str, int], Path]:
    runs = [(read_run(file.parent), file.parent) for file in (out / "ppo").glob(f"*/{RUN}")]
    return {(run.reward, run.seed): where for run, where in runs}


def test_a_training_is_what_train_ppo_does(
    whole: tuple[Path, StudyResult], folder: Path, server: tuple[Server, str], tmp_path: Path
) -> None:
    """The same lines, the same weights, the same answers and grades."""
    verb = ["train", "ppo", "pocket-prb", "-p", f"lm:{folder}", "--reward", "bm25", "-c", "none", "--steps", "2"]
    verb += ["--seed", "1", "--parts-seed", "0", "-g", f"joint:g,url={server[1]}"]
    verb += ["-n", "2", "-o", str(tmp_path), *(f"--set={key}={value}" for key, value in SETTINGS.items())]
    told = CliRunner().invoke(app, verb)
    assert told.exit_code == 0, told.output
    mine = _trainings(whole[0])["bm25", 1]
    same = ("metrics.jsonl", "held-out.jsonl", "report.html", "policy/model.safetensors", "outcome-2-2/rows.jsonl")
    for name in (*same, "before-2/samples.jsonl", "after-2-2/samples.jsonl"):
        assert (mine / name).read_bytes() == (tmp_path / name).read_bytes(), name
    assert {one.name for one in mine.iterdir()} == {one.name for one in tmp_path.iterdir()}


def test_every_reward_and_seed_has_the_same_users_and_a_seed_the_same_answers_before(
    whole: tuple[Path, StudyResult],
) -> None:
    found = _trainings(whole[0])
    assert set(found) == {(model, seed) for model in MODELS for seed in (0, 1)}
    assert len({read_run(where).parts.model_dump_json() for where in found.values()}) == 1
    before = {key: (where / "before-2" / "samples.jsonl").read_bytes() for key, where in found.items()}
    assert [len({before[model, seed] for model in MODELS}) for seed in (0, 1)] == [1, 1]
    assert before["bm25", 0] != before["bm25", 1]
    after = {(where / "policy" / "model.safetensors").read_bytes() for where in found.values()}
    assert len(after) == len(found), "no two of them have learned the same"


def test_the_report_has_every_seed_and_a_way_to_each_training(whole: tuple[Path, StudyResult]) -> None:
    out, result = whole
    told = data(out)["ppo"]
    assert [one["whole"] for one in told["trained"]] == [True] * 3
    for one in told["trained"]:
        for seeded in one["seeds"]:
            rows = (_trainings(out)[one["model"], seeded["seed"]] / "outcome-2-2" / "rows.jsonl").read_text()
            grades = [json.loads(line)["scores"][0] for line in rows.splitlines()]
            assert seeded["after"] == pytest.approx(fmean(grades))
            assert f'<a href="{seeded["reports"][0]}">' in (out / "study.html").read_text()
            assert (out / seeded["reports"][0]).is_file()
    assert [side.name for side in result.downstream] == ["pocket-prb ppo none"]


def test_doing_it_again_asks_nobody_and_changes_no_byte(
    whole: tuple[Path, StudyResult], folder: Path, server: tuple[Server, str]
) -> None:
    before, asked = report(whole[0]), len(server[0].asked)
    done(whole[0], table(folder, server[1]))
    assert report(whole[0]) == before
    assert len(server[0].asked) == asked


@pytest.mark.parametrize("failing", ["m", "g"])
def test_an_outage_stays_open_and_ends_in_the_same_bytes(
    failing: str, folder: Path, server: tuple[Server, str], tmp_path: Path
) -> None:
    """The judge that rewards, or the grader, gives no answer for a while."""
    judge = f"judge:m,style=pointwise,url={server[1]}"
    told = table(folder, server[1], models=["longest", "shortest", judge])
    # A policy with random weights now and then opens a reasoning block and does not close it: no judge reads that.
    told["ppo"] |= {"seeds": [0], "settings": {**SETTINGS, "on_failure": "mask"}}
    server[0].down.add(failing)
    first = done(tmp_path / "out", told)
    server[0].down.clear()
    open_ = [one.step for one in first.left if one.why == "open" and one.step.startswith("ppo")]
    assert len(open_) == (1 if failing == "m" else 3)
    assert first.trained is not None
    assert len(first.trained.trained) == 3 - len(open_)
    assert done(tmp_path / "out", told).left == ()
    done(tmp_path / "whole", told)
    assert report(tmp_path / "out") == report(tmp_path / "whole")


def test_policies_that_are_trained_already_are_asked_the_questions_of_a_benchmark_and_not_trained_again(
    folder: Path, server: tuple[Server, str], tmp_path: Path
) -> None:
    """After an outage of the grader, too; and the rows are those of `train ppo --evaluate-on`."""
    out, seen = tmp_path / "out", server[0]
    plain = table(folder, server[1], ppo={"seeds": [0], "limit": 40})
    told = {**plain, "ppo": {**plain["ppo"], "evaluate-on": "pocket-prb"}}
    done(out, plain)
    trained = {file: file.read_bytes() for file in (out / "ppo").rglob("*") if file.is_file()}
    seen.down.add("g")
    first = done(out, told)
    seen.down.clear()
    assert [one.why for one in first.left if one.step.startswith("ppo")] == ["open"] * len(MODELS)
    assert first.trained is not None
    assert not first.trained.trained, "without its questions a training is not whole"
    second = done(out, told)
    assert second.left == ()
    assert {file: file.read_bytes() for file in trained if file.name != ".lock"} == {
        file: text for file, text in trained.items() if file.name != ".lock"
    }
    done(tmp_path / "whole", told)
    assert report(out) == report(tmp_path / "whole")
    [place] = {one.name for one in out.glob("ppo/*/on-pocket-prb-*")}
    before = {(where / place / "before-2" / "samples.jsonl").read_bytes() for where in _trainings(out).values()}
    assert len(before) == 1, "one policy before, whoever rewards it then"
    run = read_run(_trainings(out)["bm25", 0])
    met = {*run.parts.train, *run.parts.validation}
    asked = load_pool(_trainings(out)["bm25", 0] / place / "after-2-2").samples
    users = {item.id: item.user.id for item in load_benchmark("pocket-prb").items if item.user}
    assert set(asked) == {item for item, user in users.items() if user not in met}
    assert len(asked) > len(run.parts.test)
    verb = ["train", "ppo", "pocket-prb", "-p", f"lm:{folder}", "--reward", "bm25", "-c", "none", "--steps", "2"]
    verb += ["--parts-seed", "0", "-g", f"joint:g,url={server[1]}", "--limit", "40", "--evaluate-on", "pocket-prb"]
    verb += ["-n", "2", "-o", str(tmp_path / "run"), *(f"--set={key}={value}" for key, value in SETTINGS.items())]
    assert CliRunner().invoke(app, verb).exit_code == 0
    rows = [where / place / "outcome-2-2" / "rows.jsonl" for where in (_trainings(out)["bm25", 0], tmp_path / "run")]
    assert rows[0].read_bytes() == rows[1].read_bytes()
    manifests = [load_outcome(file.parent).manifest.pool_hash for file in rows]
    assert manifests[0] == manifests[1], "`correlate --outcome` has them in one column"
    assert [side.name for side in second.downstream] == ["pocket-prb ppo none", "pocket-prb ppo on pocket-prb none"]


def test_a_judge_that_compares_answers_rewards_and_watched_users_have_no_reward(
    folder: Path, server: tuple[Server, str], tmp_path: Path
) -> None:
    judge = f"judge:p,style=pairwise,url={server[1]}"
    told = table(folder, server[1], models=["longest", "shortest", judge])
    told["ppo"] |= {"seeds": [0], "rewards": [judge]}
    told["ppo"]["settings"] = {**SETTINGS, "answers": 2, "batch": 3, "on_failure": "raise"}
    result = done(tmp_path, told)
    assert [one for one in result.left if one.step.startswith("ppo")] == []
    [training] = _trainings(tmp_path).values()
    lines = [json.loads(line) for line in (training / "held-out.jsonl").read_text().splitlines()]
    assert {reward for line in lines for reward in line["rewards"]} == {None}
    assert all(isinstance(grade, float) for line in lines for grade in line["grades"])


def test_a_broken_reward_costs_its_own_training_and_is_named(
    folder: Path, server: tuple[Server, str], tmp_path: Path
) -> None:
    told = table(
        folder,
        server[1],
        models=[BROKEN, "longest", "shortest"],
        ppo={"seeds": [0], "settings": {**SETTINGS, "answers": 2}},
    )
    result = done(tmp_path, told)
    broken = [one for one in result.left if one.step.startswith("ppo")]
    assert [(one.why, one.step) for one in broken] == [("broken", f"ppo × {BROKEN} × none, seed 0")]
    assert "ZeroDivisionError" in broken[0].reason
    assert result.trained is not None
    assert [one.reward for one in result.trained.trained] == ["longest", "shortest"]


def test_a_model_in_fresh_is_trained_anew_and_no_other(
    folder: Path, server: tuple[Server, str], tmp_path: Path
) -> None:
    """Its scores of the reference answers are made anew too: they are those of other weights."""
    plain = table(folder, server[1], models=["longest", "shortest"])
    plain["ppo"] |= {"seeds": [0], "shaping": "z"}
    told = declare(plain)

    def begun() -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {"longest": {}, "shortest": {}}
        for file in (tmp_path / "ppo").rglob(RUN):
            run = json.loads(file.read_text())
            found[run.get("reward") or run["model"]][str(file)] = run["started"]
        return found

    work(told, StudyContext(tmp_path, Settings()))
    first = begun()
    work(told, StudyContext(tmp_path, Settings(), fresh=["shortest"]))
    again = begun()
    assert again["longest"] == first["longest"]
    assert again["shortest"].keys() == first["shortest"].keys()
    assert len(first["shortest"]) == 2, "a training, and the scores of the reference answers"
    assert not again["shortest"].items() & first["shortest"].items()


def test_on_one_scale_every_reward_is_its_distance_from_the_mean_of_the_reference_answers(
    folder: Path, server: tuple[Server, str], tmp_path: Path
) -> None:
    told = table(folder, server[1], models=["longest", "constant", "shortest"])
    told["ppo"] |= {"seeds": [0], "shaping": "z,clip=2"}
    result = done(tmp_path, told)
    constant = next(one for one in result.left if "constant" in one.step and one.step.startswith("ppo"))
    assert (constant.why, "there is no scale" in constant.reason) == ("broken", True)
    pool = load_pool(next(file.parent for file in (tmp_path / "ppo").glob("reference-*/pool.json")))
    train = set(read_run(_trainings(tmp_path)["longest", 0]).parts.train)
    assert len(pool.samples) == len(train), "the pool is of users who are trained on, one item each"
    lengths = [len(sample.text) for several in pool.samples.values() for sample in several]
    scales = [parse_document(Scale, file.read_bytes()) for file in Path(pool.folder).glob("scales/*.json")]
    by_model = {scale.model: scale for scale in scales}
    assert by_model["longest"].mean == pytest.approx(fmean(lengths))
    assert by_model["longest"].sd == pytest.approx(stdev(lengths))
    assert by_model["shortest"].mean == pytest.approx(-fmean(lengths))
    lines = (_trainings(tmp_path)["longest", 0] / "metrics.jsonl").read_text().splitlines()
    assert all(abs(json.loads(line)["shaped"]) <= 2 for line in lines)


def test_a_study_can_be_moved_when_its_policy_is_its_own(tmp_path: Path, server: tuple[Server, str]) -> None:
    told = table(Path(), server[1], models=["longest", "shortest"])
    told["benchmarks"] = ["simulated:users=12,items=1,domains=1"]
    told["ppo"] |= {"policy": "tiny,steps=2", "seeds": [0], "grader": "truth"}
    done(tmp_path / "here", told)
    before = report(tmp_path / "here")
    (tmp_path / "here").rename(tmp_path / "there")
    result = done(tmp_path / "there", told)
    assert result.left == ()
    assert report(tmp_path / "there") == before
