"""The folder of a training: one process writes it, what a kill tore is dropped, what is there is not written twice."""

from pathlib import Path

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.errors import RunError
from pluralrm.runs.records import benchmark_record
from pluralrm.training.records import (
    EvaluationLine,
    StepLine,
    TrainingFolder,
    TrainingManifest,
    check_begun,
    line_of,
    read_run,
)

Folder = TrainingFolder[StepLine, EvaluationLine]


def manifest(**changes: object) -> TrainingManifest:
    none: tuple[str, ...] = ()
    words = dict.fromkeys(("policy", "reward", "condition", "reward_condition", "shaping", "git", "started"), "x")
    users = {"train": ("u",), "validation": none, "test": none, "left_out": {}}
    told = {
        "kind": "ppo",
        "status": "incomplete",
        "identity": {},
        "settings": {"batch": "4"},
        "versions": {},
        "seed": 0,
    }
    lists = {"reveals": none, "reward_reveals": none, "selection": {"items": 1, "domains": none, "limit": None}}
    bench = {"benchmark": benchmark_record(load_benchmark("pocket-prb"))}
    return TrainingManifest.model_validate({"seed": 0, **words, **told, **lists, **bench, "parts": users, **changes})


def step(number: int, masked: int = 0) -> StepLine:
    told = {"step": number, "answers": 4, "masked": masked, "failures": {}, "reward": 0.0, "reward_sd": 1.0}
    return StepLine.model_validate({**told, "length": 9.0, "cut": 0.0, "repetition": 0.0})


def opened(path: Path, **changes: object) -> Folder:
    return TrainingFolder(path, manifest(**changes), StepLine, EvaluationLine)


def test_a_second_process_is_refused_and_the_next_one_is_not(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(RunError, match="another process is writing this training"), opened(tmp_path):
        pass
    with opened(tmp_path) as again:
        assert again.steps == {}


def test_a_torn_line_is_dropped_and_an_equal_one_is_not_written_twice(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        folder.add_step(step(0))
        folder.add_step(step(0))
        folder.add_step(step(1, masked=3))
    whole = (tmp_path / "metrics.jsonl").read_bytes()
    assert whole.decode() == line_of(step(0)) + line_of(step(1, masked=3))
    (tmp_path / "metrics.jsonl").write_bytes(whole[:-9])
    with opened(tmp_path) as folder:
        assert list(folder.steps) == [0]
        folder.add_step(step(1, masked=1))
        folder.add_step(step(1, masked=2))
        folder.note("incomplete", 2)
    assert len((tmp_path / "metrics.jsonl").read_bytes().splitlines()) == 3
    assert read_run(tmp_path).masked == 2  # where a step stands twice, the last line counts


def test_another_training_is_refused_and_lets_go_of_the_folder(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        folder.note("complete", 5)
    for changes, told in (
        ({"seed": 1}, "another seed"),
        ({"kind": "grpo", "grader": "g"}, "another kind; another gra"),
        (
            {"identity": {"reward code": "2"}},
            r"another identity \(reward code: '2', was nothing\)\. .* in a study, --fresh",
        ),
    ):
        with pytest.raises(RunError, match=told), opened(tmp_path, **changes):
            pass
    with opened(tmp_path) as folder:
        assert not folder.has(6)
        with pytest.raises(RunError, match="of 5 steps, wanted 4"):
            folder.has(4)
        assert not folder.has(5)  # its policy is gone
        (tmp_path / "policy").mkdir()
        assert folder.has(5)


def test_what_is_known_early_is_compared_early(tmp_path: Path) -> None:
    check_begun(tmp_path / "new", {"seed": 1}, 1)
    with opened(tmp_path) as folder:
        folder.note("incomplete", 2)
    check_begun(tmp_path, {"kind": "ppo", "settings": {"batch": "4"}, "seed": 0}, 2)
    with pytest.raises(RunError, match=r"another settings \(batch: '5', was '4'\); another seed\. Name"):
        check_begun(tmp_path, {"kind": "ppo", "settings": {"batch": "5"}, "seed": 1}, 2)
    with pytest.raises(RunError, match="of 2 steps, wanted 1"):
        check_begun(tmp_path, {"kind": "ppo"}, 1)


def test_a_folder_without_a_training_and_one_that_is_torn_are_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no training"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text('{"kind": "dpo"}')
    with pytest.raises(RunError, match=r"run\.json: kind: "):
        read_run(tmp_path)
