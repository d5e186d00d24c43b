"""Leaderboards that others published, as columns."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from pluralrm.correlate import correlate, read_published
from pluralrm.errors import MetricError, RowError
from pluralrm.exchange.evaleval import csv_of, missing, read_leaderboard


def _entry(folder: Path, board: str, model: str, scores: Mapping[str, float | None], **config: object) -> Path:
    """Write a file as EvalEval has them: a folder per developer and model, a file under a name of its own."""
    file = folder / board.lower().replace(" ", "-") / model / f"{board}-{len(list(folder.rglob('*.json')))}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    results = [
        {
            "evaluation_name": name,
            "metric_config": {"lower_is_better": False, "score_type": "continuous", "min_score": 0, **config},
            "score_details": {"score": score},
            "source_data": {"dataset_name": board},
        }
        for name, score in scores.items()
    ]
    document = {
        "schema_version": "0.2.0",
        "evaluation_id": f"{board}/{model}/1",
        "source_metadata": {"source_name": board, "source_type": "documentation"},
        "model_info": {"name": model, "id": model},
        "evaluation_results": results,
    }
    file.write_text(json.dumps(document), encoding="utf-8")
    return file


def _boards(folder: Path, models: int = 12) -> Path:
    for number in range(models):
        prior = 0.0 if number % 3 == 0 else 0.5 + number / 100
        scores = {"Score": number / models, "Chat": 1 - number / models, "Prior Sets (0.5 weight)": prior}
        _entry(folder, "RewardBench", f"Maker/rm-{number}", scores)
        if number % 2:
            _entry(folder, "RewardBench 2", f"maker/RM-{number}", {"Score": number / models, "Ties": None})
    return folder


def test_boards_side_by_side_say_what_is_missing(tmp_path: Path) -> None:
    table = read_leaderboard([_boards(tmp_path)])
    assert len(table.models) == 12
    assert table.columns == (
        "RewardBench: Score",
        "RewardBench: Chat",
        "RewardBench: Prior Sets (0.5 weight)",
        "RewardBench 2: Score",
        "RewardBench 2: Ties",
    )
    assert "RewardBench: Prior Sets (0.5 weight): missing for 4 of 12 models" in missing(table)
    assert "RewardBench 2: Score: missing for 6 of 12 models" in missing(table)
    assert "which means missing" in table.notes[0]
    column = table.numbers("RewardBench: Prior")
    assert len(column.scores) == 8
    assert 0.0 not in column.scores.values()
    assert any("4 of 12 models, which means missing" in note for note in column.notes)
    assert table.numbers("RewardBench: Score").scores["Maker/rm-0"] == 0.0


def test_a_zero_of_prior_sets_is_missing_in_csv_too_and_elsewhere_a_zero(tmp_path: Path) -> None:
    file = tmp_path / "board.csv"
    file.write_text("model,Score,Prior Sets\na,0.0,0.0\nb,0.5,0.61\nc,0.6,-\n")
    table = read_leaderboard([file])
    assert table.numbers("Score").scores == {"a": 0.0, "b": 0.5, "c": 0.6}
    assert table.numbers("Prior Sets").scores == {"b": 0.61}


def test_what_is_written_is_what_correlate_reads(tmp_path: Path) -> None:
    table = read_leaderboard([_boards(tmp_path / "boards")])
    (tmp_path / "board.csv").write_text(csv_of(table), encoding="utf-8")
    again = read_published(tmp_path / "board.csv")
    assert again.cells == table.cells
    first, second = again.numbers("RewardBench: Score"), again.numbers("RewardBench: Chat")
    assert correlate([first], [second]).cells[0]["spearman"].estimate.value == pytest.approx(-1.0)


def test_two_scores_of_one_model_that_differ_are_refused(tmp_path: Path) -> None:
    _entry(tmp_path, "RewardBench", "a/m", {"Score": 0.5})
    _entry(tmp_path, "RewardBench", "A/M", {"Score": 0.5})
    assert len(read_leaderboard([tmp_path]).models) == 1
    _entry(tmp_path, "RewardBench", "a/m", {"Score": 0.6})
    with pytest.raises(RowError, match=r"found 0\.6, wanted 0\.5, as in"):
        read_leaderboard([tmp_path])


def test_files_of_another_shape_are_named(tmp_path: Path) -> None:
    for text in ("[]", "{}", '{"model_info": {"name": "m"}}', "nonsense", '{"model_info": 3}'):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(MetricError if text == "nonsense" else RowError, match=r"x\.json"):
            read_leaderboard([tmp_path / "x.json"])
    (tmp_path / "x.json").unlink()
    with pytest.raises(MetricError, match=r"no \.json file"):
        read_leaderboard([tmp_path])


def test_where_lower_is_better_a_score_is_left_out(tmp_path: Path) -> None:
    _entry(tmp_path, "Harm", "a/m", {"Rate": 0.5}, lower_is_better=True)
    _entry(tmp_path, "RewardBench", "a/m", {"Score": 0.5})
    table = read_leaderboard([tmp_path])
    assert table.columns == ("RewardBench: Score",)
    assert table.notes == ("left out: Harm: Rate, for lower is better there",)


def test_several_csv_files_are_refused_by_name(tmp_path: Path) -> None:
    files = [tmp_path / "one.csv", tmp_path / "two.csv"]
    for file in files:
        file.write_text("model,Chat\na,0.5\n")
    with pytest.raises(MetricError, match=r"one\.csv: CSV goes one file at a time"):
        read_leaderboard(files)
