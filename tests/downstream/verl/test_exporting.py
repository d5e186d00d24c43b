"""An exported training: disjoint users, no label, names that tell trainings apart."""

import json
import shlex
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark
from pluralrm.downstream.verl import Export, export, import_generations
from pluralrm.downstream.verl.settings import VerlSettings, spelled
from pluralrm.errors import ConditionError, PluralrmError, RunError
from tests.builders import bakery

BENCH = load_benchmark("pocket-prb")


def what(
    *,
    bench: Benchmark = BENCH,
    policy: str = "Qwen/Qwen2.5-0.5B-Instruct",
    reward: str = "longest",
    shown: str = "raw:3",
) -> Export:
    condition = load_condition(shown)
    return Export(bench, "pocket-prb", policy, reward, condition, condition)


def test_nobody_is_in_two_parts_and_nobody_is_lost(tmp_path: Path) -> None:
    done = export(what(), tmp_path / "out", VerlSettings())
    items = json.loads((done.folder / "export.json").read_text())["items"]
    users = {
        part: {item.user.id for item in BENCH.items if item.user and item.id in ids} for part, ids in items.items()
    }
    assert sum(map(len, users.values())) == len(set.union(*users.values())) == len(BENCH.users)
    assert (done.train, done.validation, done.test) == tuple(len(ids) for ids in items.values())
    assert min(done.train, done.validation, done.test) > 0


def test_rows_show_the_policy_what_the_condition_shows_and_no_answer(tmp_path: Path) -> None:
    bench = bakery(12, canary="KEEP-OUT")
    done = export(what(bench=bench, shown="recent:2"), tmp_path / "out", VerlSettings())
    rows = [
        row
        for part in ("train", "validation", "test")
        for row in pq.read_table(done.folder / f"{part}.parquet").to_pylist()
    ]
    assert len(rows) == 12
    told = json.dumps(rows)
    assert "KEEP-OUT" not in told
    for row in rows:
        [item] = [item for item in bench.items if item.id == row["extra_info"]["item"]]
        assert item.user
        [turn] = row["prompt"]
        assert item.prompt in turn["content"]
        assert [post.text in turn["content"] for post in item.user.posts] == [True, True, False, False]
        assert not any(candidate in told for candidate in item.candidates)
        assert row["reward_model"] == {"ground_truth": item.id, "style": "model"}


def test_trainings_that_differ_have_names_that_differ(tmp_path: Path) -> None:
    several = [
        what(),
        what(reward="shortest"),
        what(shown="raw:4"),
        what(policy="Qwen/Qwen2.5-0.5B_Instruct"),
        what(policy="Other/Qwen2.5-0.5B-Instruct"),
    ]
    names = [export(one, tmp_path / str(place), VerlSettings()).name for place, one in enumerate(several)]
    assert len(set(names)) == len(several)
    assert all("/" not in name and " " not in name for name in names)


def test_a_folder_with_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(RunError, match="empty folder"):
        export(what(), tmp_path, VerlSettings())
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


def test_a_condition_that_cannot_be_shown_is_refused(tmp_path: Path) -> None:
    with pytest.raises((ConditionError, PluralrmError), match="posts"):
        export(what(bench=load_benchmark("pocket-rmgap")), tmp_path / "out", VerlSettings())


@pytest.mark.parametrize("path", ["a b", "it's", 'say "so"', "a,b=c", "${HOME}", "[x]", "tmp/$(touch gone)"])
def test_a_path_is_a_path_whatever_it_is_called(path: str, tmp_path: Path) -> None:
    """On the command line of the shell, and as Hydra reads it."""
    done = export(what(policy=path), tmp_path / "out", VerlSettings())
    script = (done.folder / "launch.sh").read_text()
    [line] = [line for line in script.splitlines() if "actor_rollout_ref.model.path" in line]
    [word] = shlex.split(line.removesuffix("\\"))
    [wanted] = spelled({"actor_rollout_ref.model.path": path})
    assert word == wanted
    assert word.partition("=")[2][0] == word[-1] == "'"
    assert not (tmp_path / "gone").exists()


def test_generations_become_a_pool_by_the_item_that_each_answers(tmp_path: Path) -> None:
    file = tmp_path / "50.jsonl"
    rows = [
        {"input": "...", "output": f"{text} for {item.id}", "gts": item.id, "score": 1.0, "step": 50}
        for item in BENCH.items[:3]
        for text in ("Rye", "Spelt")
    ]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    pool = import_generations(file, BENCH, load_condition("raw:3"), policy="verl:step-50", out=tmp_path / "pool")
    assert (pool.n, pool.policy, len(pool.samples)) == (2, "verl:step-50", 3)
    file.write_text('{"text": "Rye", "item": "art-01"}\n')
    with pytest.raises(PluralrmError, match="verl's keys"):
        import_generations(file, BENCH, load_condition("raw:3"), policy="p", out=tmp_path / "other")


def test_a_setting_that_verl_would_not_know_is_refused() -> None:
    from pluralrm.downstream.verl.settings import read_settings
    from pluralrm.errors import SpecError

    assert read_settings(["batch=64", "actor_rate=1e-6", "rollout=sglang"]) == VerlSettings(
        batch=64, actor_rate=1e-6, rollout="sglang"
    )
    for text in ("batchs=64", "batch", "batch=many"):
        with pytest.raises(SpecError, match="--set"):
            read_settings([text])
