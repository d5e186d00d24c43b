"""What a tracker is given: the numbers of `compare`, each once, and nothing that a user wrote."""

import json
import random
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pluralrm import api
from pluralrm.cli import app
from pluralrm.errors import SpecError
from pluralrm.exchange import trackers
from pluralrm.exchange.tracking import TrainingLog, key, log_runs, log_study
from pluralrm.metrics import summary
from pluralrm.runs import load_runs, score
from pluralrm.training.measures import TrainingProgress
from pluralrm.training.records import PpoEvaluation, PpoStep, TrainingFolder, read_lines
from tests.builders import bakery
from tests.exchange.recorder import Recorder, log_to
from tests.training.test_folder import manifest

__all__ = ["PpoStep", "read_lines", "train"]

MODELS, CONDITIONS = ("bm25", "longest"), ("none", "raw:10", "swapped:10,by=prompt", "swapped:10")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    for model in MODELS:
        for condition in CONDITIONS:
            score(bakery(24), model, condition, out=out)
    return out


@pytest.fixture(scope="module")
def logged(folder: Path) -> Recorder:
    tracker = Recorder()
    with log_to(tracker) as log:
        log_runs(log, load_runs(folder))
    return tracker


def compared(folder: Path) -> dict[str, object]:
    [board] = json.loads(CliRunner().invoke(app, ["compare", str(folder), "--json"]).stdout)
    assert isinstance(board, dict)
    return board


def test_every_number_is_that_of_compare(folder: Path, logged: Recorder) -> None:
    board = compared(folder)
    expected: dict[str, dict[str, float]] = {model: {} for model in MODELS}
    earned = [(entry, entry["metrics"]) for entry in board["entries"]]  # type: ignore[attr-defined]
    earned += [(entry, {"lift": entry["lift"], "gain": entry["gain"]}) for entry in board["personalization"]]  # type: ignore[attr-defined]
    for entry, metrics in earned:
        for metric, estimate in metrics.items():
            condition = entry.get("condition") or entry["conditions"]["own"]
            name = f"bakery/{condition.translate(str.maketrans(':,=', '---'))}/{metric}"
            numbers = {
                name: estimate["value"],
                **{f"{name}_{end}": estimate[end] for end in ("low", "high", "n", "failed")},
            }
            expected[entry["model"]] |= {part: number for part, number in numbers.items() if number is not None}
    assert {model: logged.values(model) for model in MODELS} == expected


def test_the_table_has_a_row_per_model_and_condition_and_figures_are_beside_it(logged: Recorder) -> None:
    comparison = logged.values("comparison")
    table = comparison["comparison"]
    assert isinstance(table, list)
    assert {(row["model"], row["condition"]) for row in table} == {(m, c) for m in MODELS for c in CONDITIONS}
    figures = [svg for name, svg in comparison.items() if name.startswith("figures/")]
    assert len(figures) > 2
    assert all(str(svg).startswith(("<svg", "<?xml")) for svg in figures)
    assert {run.config["hash/bakery"] for run in logged.runs.values()} == {bakery(24).content_hash}


def test_no_text_and_no_id_of_a_user_is_logged(logged: Recorder) -> None:
    everything, bench = repr(logged), bakery(24)
    texts = [text for item in bench.items for text in (item.prompt, item.id, *map(str, item.candidates))]
    texts += [text for item in bench.items if item.user for text in (item.user.id, *map(str, item.user.posts))]
    assert len(texts) > 150
    assert not [text for text in texts if re.search(rf"(?<!\w){re.escape(text)}(?!\w)", everything)]


def test_equal_results_are_logged_once_and_what_a_kill_lost_is_added(folder: Path, logged: Recorder) -> None:
    again = Recorder(runs=dict(logged.runs), entries={run: list(rows) for run, rows in logged.entries.items()})
    for rows in again.entries.values():
        del rows[len(rows) // 2 :]
    for _ in range(2):
        with log_to(again) as log:
            log_runs(log, load_runs(folder))
        assert {run: sorted(map(repr, rows)) for run, rows in again.entries.items()} == {
            run: sorted(map(repr, rows)) for run, rows in logged.entries.items()
        }


def test_a_name_is_of_letters_that_every_tracker_takes() -> None:
    assert key("a b/../c", "<x>:1,y=2", "") == "a-b-..-c/x-1-y-2/x"


@pytest.mark.parametrize("breaks_at", range(0, 14, 3))
def test_a_tracker_that_breaks_costs_nothing_but_itself(folder: Path, breaks_at: int) -> None:
    words: list[str] = []
    with log_to(tracker := Recorder(breaks_at=breaks_at), words) as log:
        log_runs(log, load_runs(folder))
        log_study(log, "again", [{"side": "a", "column": "b", "model": "c", "value": 1.0}], folder)
    assert tracker.calls == breaks_at + 1
    assert words == ["--log: disk of http://a.b/ full; nothing more is logged. The same command logs what is missing"]


def test_a_study_is_its_models_and_its_table(folder: Path, logged: Recorder) -> None:
    records: list[dict[str, object]] = [
        {"model": model, "spec": model, "side": "downstream", "column": "best of 4", "value": 0.5, "value_low": None}
        for model in MODELS
    ]
    with log_to(tracker := Recorder()) as log:
        log_study(log, "Which?", records, folder)
    assert tracker.values("bm25") == logged.values("bm25")
    study = tracker.values("Which?")
    assert study.pop("study") == records
    assert study == {f"downstream/best-of-4/{model}": 0.5 for model in MODELS}


# ---------------------------------------------------------------- from the command line


def test_without_the_option_no_library_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trackers, "TRACKERS", {})
    words = ["pocket-prb", "-m", "longest", "--limit", "4"]
    assert CliRunner().invoke(app, ["score", *words, "-o", str(tmp_path / "a")]).exit_code == 0
    result = CliRunner().invoke(app, ["score", *words, "-o", str(tmp_path / "b"), "--log", "trackio"])
    assert isinstance(result.exception, SpecError)
    assert not (tmp_path / "b").exists()


def test_the_same_is_printed_where_the_tracker_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(trackers.TRACKERS, "trackio", lambda _: Recorder(breaks_at=1, host="https://a.b"))
    words = ["score", "pocket-prb", "-m", "longest", "--limit", "8", "--json", "-o", str(tmp_path)]
    plain, broken = (CliRunner().invoke(app, [*words, *more]) for more in ([], ["--log", "trackio"]))
    assert (broken.exit_code, broken.stdout) == (plain.exit_code, plain.stdout)
    notes = [line for line in broken.stderr.splitlines() if line.startswith("--log")]
    assert notes[0] == "--log: numbers, settings and figures go to https://a.b, project 'pluralrm'; no text of a user"
    assert notes[1].startswith("--log: disk of")


def test_a_shard_is_not_logged_and_nothing_of_it_is_scored(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="--log and --shard: a shard has no estimate yet"):
        api.score("pocket-prb", "longest", "none", shard="1/2", log="wandb", out=tmp_path)
    words = ["score", "pocket-prb", "-m", "longest", "-c", "none", "--shard", "1/2", "--log", "wandb", "-o"]
    assert "a shard has no estimate yet" in str(CliRunner().invoke(app, [*words, str(tmp_path)]).exception)
    assert not list(tmp_path.iterdir())


def test_python_takes_the_same_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = Recorder(breaks_at=4)
    monkeypatch.setitem(trackers.TRACKERS, "wandb", lambda _: tracker)
    with pytest.warns(UserWarning, match=r"^--log: disk of"):
        run = api.score("pocket-prb", "longest", limit=4, out=tmp_path, log="wandb:board")
    assert tracker.values("longest")["pocket-prb/none/accuracy"] == summary(run).metrics["accuracy"].value


# ---------------------------------------------------------------- trainings


def line(step: int) -> PpoStep:
    common = {"step": step, "answers": 4, "masked": 0, "failures": {"timeout": 1}, "reward": step / 7, "reward_sd": 1.0}
    names = ("shaped", "kl", "kl_coefficient", "entropy", "clip_fraction", "value_clip_fraction", "policy_loss")
    zeros = dict.fromkeys((*names, "value_loss", "actor_norm", "critic_norm", "cut", "repetition"), 0.0)
    return PpoStep.model_validate({**common, **zeros, "length": 9.0})


def evaluation(step: int) -> PpoEvaluation:
    items = {"items": ("i1", "i2"), "users": ("kept-to-myself", "u2"), "rewards": (0.5, None), "grades": (1.0, None)}
    zeros = dict.fromkeys(("repetition", "kl", "entropy"), 0.0)
    return PpoEvaluation.model_validate({"step": step, **items, **zeros, "length": 9.0})


class Killed(BaseException):
    pass


def train(path: Path, log: TrainingLog, steps: int, *, resumed: int = 0, killed: int | None = None) -> None:
    """Do what a training does: lines to the journal, then a word to who listens; steps since a checkpoint again."""
    with TrainingFolder(path, manifest(started="2026-01-01T00:00:00+00:00"), PpoStep, PpoEvaluation) as folder:
        for number in range(resumed, steps):
            if number % 3 == 0:
                folder.add_evaluation(evaluation(number))
            folder.add_step(line(number))
            if number == killed:
                raise Killed
            last = folder.evaluations[number - number % 3]
            log.tell(path, TrainingProgress(line(number), steps, last, ()))
        folder.add_evaluation(evaluation(steps))
    log.end(path, steps)


@pytest.mark.parametrize("seed", range(12))
def test_every_step_of_a_killed_and_resumed_training_is_there_once(tmp_path: Path, seed: int) -> None:
    draw, tracker, resumed = random.Random(seed), Recorder(), 0
    for _ in range(3):
        killed = draw.randrange(resumed, 10)
        with pytest.raises(Killed):
            train(tmp_path, TrainingLog(log_to(tracker)), 10, resumed=resumed, killed=killed)
        for rows in tracker.entries.values():  # what the library had not written when it was killed
            del rows[len(rows) - draw.randrange(0, len(rows) // 2 + 1) :]
        resumed = draw.randrange(resumed, killed + 1)
    train(tmp_path, TrainingLog(log_to(tracker)), 10, resumed=resumed)
    [rows] = tracker.entries.values()
    places = [(step, name) for step, name, _ in rows]
    assert len(places) == len(set(places))
    rewards = {step: value for step, name, value in rows if name == "train/reward"}
    assert rewards == {step + 1: step / 7 for step in range(10)}
    grades = {step: value for step, name, value in rows if name == "held_out/grade"}
    assert grades == dict.fromkeys((0, 3, 6, 9, 10), 0.5)
    assert {value for _, name, value in rows if name == "held_out/reward"} == {0.5}
    assert "kept-to-myself" not in repr(tracker)


def test_a_training_that_goes_on_longer_is_the_same_run(tmp_path: Path) -> None:
    tracker = Recorder()
    train(tmp_path, TrainingLog(log_to(tracker)), 4)
    train(tmp_path, TrainingLog(log_to(tracker)), 8, resumed=4)
    [rows] = tracker.entries.values()
    assert [step for step, name, _ in rows if name == "train/reward"] == list(range(1, 9))
    [run] = tracker.runs.values()
    assert run.config["set/batch"] == "4"
    assert run.config["users/train"] == 1
