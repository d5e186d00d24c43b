"""An exported training: disjoint users, no label, names that tell trainings apart."""

import json
import shlex
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark
from pluralrm.errors import ConditionError, PluralrmError, RunError, SpecError
from pluralrm.templates import load_template
from pluralrm.training.verl import Export, VerlSettings, export, import_generations, read_verl_settings, spelled
from tests.builders import bakery

BENCH = load_benchmark("pocket-prb")
SMALL = VerlSettings(batch=8, minibatch=4)


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
    done = export(what(), tmp_path / "out", SMALL)
    items = json.loads((done.folder / "export.json").read_text())["items"]
    users = {
        part: {item.user.id for item in BENCH.items if item.user and item.id in ids} for part, ids in items.items()
    }
    assert sum(map(len, users.values())) == len(set.union(*users.values())) == len(BENCH.users)
    assert (done.train, done.validation, done.test) == tuple(len(ids) for ids in items.values())
    assert done.steps == done.train // 8
    assert min(done.train, done.validation, done.test) > 0


def test_rows_by_the_published_template_have_a_system_turn_and_a_name_of_their_own(tmp_path: Path) -> None:
    plain = export(what(), tmp_path / "plain", SMALL)
    done = export(what()._replace(template=load_template("sample-v1")), tmp_path / "out", SMALL)
    assert done.name != plain.name
    assert "sample-v1" in done.name
    rows = pq.read_table(done.folder / "train.parquet").to_pylist()
    assert {tuple(turn["role"] for turn in row["prompt"]) for row in rows} == {("system", "user")}
    assert all("100 words" in row["prompt"][1]["content"] for row in rows)
    told = json.loads((done.folder / "export.json").read_text())
    assert (told["template"], told["template_hash"]) == ("sample-v1", load_template("sample-v1").hash)


def test_prompts_have_the_published_length_unless_told() -> None:
    assert "data.max_prompt_length=8192" in (
        spelled(VerlSettings().overrides(policy="p", name="n", train="t", validation="v", out="o"))
    )


def test_rows_show_the_policy_what_the_condition_shows_and_no_answer(tmp_path: Path) -> None:
    bench = bakery(12, canary="KEEP-OUT")
    done = export(what(bench=bench, shown="recent:2"), tmp_path / "out", SMALL)
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
        what()._replace(shown=load_condition("raw:5")),
    ]
    names = [export(one, tmp_path / str(place), SMALL).name for place, one in enumerate(several)]
    assert len(set(names)) == len(several)
    assert all("/" not in name and " " not in name for name in names)


def test_a_folder_with_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(RunError, match="empty folder"):
        export(what(), tmp_path, SMALL)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


def test_a_condition_that_cannot_be_shown_is_refused(tmp_path: Path) -> None:
    with pytest.raises((ConditionError, PluralrmError), match="posts"):
        export(what(bench=load_benchmark("pocket-rmgap")), tmp_path / "out", SMALL)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("path", ["a b", "it's", 'say "so"', "a,b=c", "${HOME}", "[x]", "tmp/$(touch gone)"])
def test_a_path_is_a_path_whatever_it_is_called(path: str, tmp_path: Path) -> None:
    """On the command line of the shell, and as Hydra reads it."""
    done = export(what(policy=path), tmp_path / "out", SMALL)
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
    assert read_verl_settings(["batch=64", "actor_rate=1e-6", "rollout=sglang"]) == VerlSettings(
        batch=64, actor_rate=1e-6, rollout="sglang"
    )
    for text in ("batchs=64", "batch", "batch=many"):
        with pytest.raises(SpecError, match="--set"):
            read_verl_settings([text])


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["batch=0"], "batch is 0"),
        (["kl_coefficient=-1"], "at least 0"),
        (["actor_rate=nan"], "actor_rate is nan"),
        (["actor_rate=inf"], "actor_rate is inf"),
        (["temperature=0"], "from 0.01 to 2"),
        (["rollout=hf"], "vllm or sglang"),
        (["batch=8"], "minibatch is 16"),
        (["gpus=3"], "a multiple of gpus"),
        (["kl_coefficient=0.1", "kl_coefficient=0"], "given twice"),
        (["nodes=2"], "wanted KEY=VALUE"),
    ],
)
def test_what_verl_would_refuse_or_misread_is_refused_at_once(texts: list[str], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        read_verl_settings(texts)


def test_fewer_prompts_than_a_batch_are_no_training(tmp_path: Path) -> None:
    """verl drops a batch that is not whole: there would be no step at all."""
    with pytest.raises(SpecError, match=r"42 prompts to train on, and batch is 128.*--set batch=42 or less"):
        export(what(), tmp_path / "out", VerlSettings())
    assert not (tmp_path / "out").exists()


def test_another_seed_has_the_same_users_and_other_draws() -> None:
    told = [
        VerlSettings(seed=seed).overrides(policy="p", name="n", train="t", validation="v", out="o") for seed in (0, 7)
    ]
    assert {key for key in told[0] if told[0][key] != told[1][key]} == {
        "data.seed",
        "actor_rollout_ref.rollout.seed",
        "actor_rollout_ref.actor.data_loader_seed",
        "critic.data_loader_seed",
    }


def test_the_parts_do_not_depend_on_the_seed_of_the_training(tmp_path: Path) -> None:
    parts = []
    for seed in (0, 7):
        done = export(what(), tmp_path / str(seed), VerlSettings(batch=8, minibatch=4, seed=seed))
        parts.append(json.loads((done.folder / "export.json").read_text())["items"])
    other = export(what(), tmp_path / "other", VerlSettings(batch=8, minibatch=4, parts_seed=7))
    assert parts[0] == parts[1] != json.loads((other.folder / "export.json").read_text())["items"]


def generations(folder: Path, name: str, items: list[str]) -> Path:
    """Return a file of answers where verl puts it."""
    file = folder / name / "generations" / "50.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = ({"input": "...", "output": "Rye", "gts": item, "score": 1.0, "step": 50} for item in items)
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return file


def test_a_pool_is_of_the_condition_the_items_and_all_the_users_that_were_watched(tmp_path: Path) -> None:
    done = export(what(), tmp_path / "out", SMALL)
    watched = json.loads((done.folder / "export.json").read_text())["items"]["validation"]
    file = generations(done.folder, done.name, watched)
    shown, out = load_condition("raw:3"), tmp_path / "pool"
    with pytest.raises(RunError, match="trained and asked under raw:3"):
        import_generations(file, BENCH, load_condition("none"), policy="p", out=out)
    with pytest.raises(RunError, match="not the items of the export"):
        import_generations(file, bakery(3), shown, policy="p", out=out)
    assert not out.exists()
    assert len(import_generations(file, BENCH, shown, policy="p", out=out).samples) == len(watched)
    generations(done.folder, done.name, watched[1:])
    with pytest.raises(RunError, match=f"1 of {len(watched)} items of validation have no answer"):
        import_generations(file, BENCH, shown, policy="p", out=tmp_path / "other")


def test_answers_of_another_file_are_not_written_over(tmp_path: Path) -> None:
    file, out = generations(tmp_path, "n", ["art-01"]), tmp_path / "pool"
    import_generations(file, BENCH, load_condition("none"), policy="p", out=out)
    before = (tmp_path / "pool.answers.jsonl").read_text()
    generations(tmp_path, "n", ["art-02"])
    with pytest.raises(RunError, match="of another file"):
        import_generations(file, BENCH, load_condition("none"), policy="p", out=out)
    assert (tmp_path / "pool.answers.jsonl").read_text() == before


def test_the_lines_for_a_configuration_of_one_s_own_are_those_of_the_export() -> None:
    page = (Path(__file__).parents[3] / "docs" / "verl.md").read_text()
    shown = [line for line in page.splitlines() if line.startswith(("trainer.v1.", "data.custom_cls."))]
    told = VerlSettings().overrides(policy="p", name="n", train="t", validation="v", out="o")
    assert shown == [f"{key}={told[key]}" for key in (line.partition("=")[0] for line in shown)]
    assert len(shown) == 4
