"""The numbers of a study, computed again from the rows on disk by other means."""

import json
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from scipy import stats

from tests.study.studies import MODELS, data, done


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    done(folder, correlate={"k": [2, 4]})
    return folder


def _rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def _runs(out: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each model on the benchmark."""
    return {json.loads(file.read_text())["model"]: _rows(file.parent) for file in (out / "runs").rglob("run.json")}


def _accuracy(rows: list[dict[str, Any]]) -> float:
    """Return the share of items whose preferred answer alone has the highest score; ties share."""
    credit = []
    for row in rows:
        best = [place for place, score in enumerate(row["scores"]) if score == max(row["scores"])]
        credit.append((row["preferred"] in best) / len(best))
    return fmean(credit)


def _best_of(out: Path, k: int) -> dict[str, float]:
    """Return best-of-k by going through all subsets of k answers, from the files of the pool."""
    [pool] = (out / "pools").iterdir()
    samples: dict[str, list[str]] = {}
    for line in (pool / "samples.jsonl").read_text().splitlines():
        one = json.loads(line)
        samples.setdefault(one["item"], []).append(one["text"])
    [file] = pool.rglob("grades.jsonl")
    grades = {(one["item"], one["answer"]): one["grade"] for one in map(json.loads, file.read_text().splitlines())}
    found = {}
    for run in (pool / "scores").rglob("run.json"):
        scores = {row["item"]: row["scores"] for row in _rows(run.parent)}
        means = []
        for item, texts in samples.items():
            different = list(dict.fromkeys(texts))
            worth = [grades[item, sha256(text.encode()).hexdigest()] for text in texts]
            given = [scores[item][different.index(text)] for text in texts]
            picks = []
            for subset in combinations(range(len(texts)), k):
                top = max(given[place] for place in subset)
                picks.append(fmean(worth[place] for place in subset if given[place] == top))
            means.append(fmean(picks))
        found[json.loads(run.read_text())["model"]] = fmean(means)
    return found


def _column(out: Path, side: str, name: str) -> dict[str, float]:
    return {one["model"]: cell["value"] for one in data(out)["models"] for cell in one[side] if cell["column"] == name}


def test_a_score_on_the_benchmark_is_the_share_of_its_items(out: Path) -> None:
    told = _column(out, "benchmarks", "simulated raw:3")
    assert told == pytest.approx({model: _accuracy(rows) for model, rows in _runs(out).items()}, abs=1e-12)
    assert set(told) == set(MODELS)


@pytest.mark.parametrize("k", [2, 4])
def test_best_of_k_is_the_mean_over_all_subsets(out: Path, k: int) -> None:
    assert _column(out, "downstream", f"simulated best-of-{k} raw:3") == pytest.approx(_best_of(out, k), abs=1e-12)


@pytest.mark.parametrize("k", [2, 4])
def test_the_correlations_are_those_of_the_two_columns(out: Path, k: int) -> None:
    cells = {cell["downstream"]: cell for cell in data(out)["correlation"]["cells"]}
    accuracy = {model: _accuracy(rows) for model, rows in _runs(out).items()}
    grades = _best_of(out, k)
    x, y = ([column[model] for model in MODELS] for column in (accuracy, grades))
    told = {one["measure"]: one["value"] for one in cells[f"simulated best-of-{k} raw:3"]["findings"]}
    assert told["spearman"] == pytest.approx(stats.spearmanr(x, y).statistic)
    assert told["kendall"] == pytest.approx(stats.kendalltau(x, y).statistic)
    assert told["pearson"] == pytest.approx(stats.pearsonr(x, y).statistic)


def test_models_stand_in_the_order_of_their_picks(out: Path) -> None:
    grades = _best_of(out, 4)
    assert [one["model"] for one in data(out)["models"]] == sorted(grades, key=lambda model: -grades[model])


def test_items_of_the_benchmark_and_of_the_picks_are_resampled_together(out: Path) -> None:
    """The same ten users are behind both columns, so there are ten clusters and not twenty."""
    assert {cell["clusters"] for cell in data(out)["correlation"]["cells"]} == {10}


def test_where_it_came_from_is_told_without_a_time_or_a_place_on_this_machine(out: Path) -> None:
    told = data(out)
    text = json.dumps(told)
    assert str(out) not in text
    for word in ("started", "finished", "seconds"):
        assert f'"{word}"' not in text
    source = told["provenance"]
    assert len(source["runs"]) == len(source["picks"]) == len(MODELS)
    assert all((out / run["folder"] / "run.json").exists() for run in source["runs"] + source["picks"])
    manifest = json.loads((out / source["pool"]["folder"] / "pool.json").read_text())
    assert source["pool"]["content_hash"] == manifest["content_hash"]
    assert source["pool"]["draw"]["seed"] == told["study"]["seed"]
    assert source["grader"]["spec"] == "truth"


def test_a_column_that_ranks_nothing_is_named_and_the_others_are_correlated(tmp_path: Path) -> None:
    """Without posts these models say the same of any two answers, so that each has one half."""
    blind = ["constant", "known:nothing", "known:posts", "longest"]
    result = done(tmp_path, models=blind[:3], conditions=["none", "raw:3"], best_of_n={"see": ["raw:3"]})
    [why] = result.correlation.why_not
    assert why == "simulated none is 0.5 for all models: it ranks none"
    assert len(result.verdicts) == 1


def test_two_models_are_no_ranking(tmp_path: Path) -> None:
    result = done(tmp_path, models=["longest", "shortest"])
    assert result.verdicts == []
    assert "has 2 of 3 models that a ranking needs" in result.correlation.why_not[0]


def test_marks_stand_where_nothing_is_correlated_too(tmp_path: Path) -> None:
    """Two models, of whom one knows the taste: no ranking, and no report of `correlate` that would carry the mark."""
    result = done(tmp_path, models=["longest", "known:taste"])
    assert result.correlation.report is None
    marks = [
        f"ORACLE: under {side.name} the rubric was shown to known:taste"
        for side in (*result.benchmarks, *result.downstream)
    ]
    assert result.notes == marks
    assert data(tmp_path)["notes"] == marks
    page = (tmp_path / "study.html").read_text()
    assert all(mark.replace("known:", "") in page for mark in marks)


def test_a_policy_that_was_shown_the_rubric_is_marked(tmp_path: Path) -> None:
    result = done(tmp_path, models=["longest", "shortest", "bm25"], best_of_n={"condition": "oracle"})
    [mark] = [note for note in result.notes if "policy" in note]
    assert mark == "ORACLE: under simulated best-of-4 raw:3 the policy saw the rubric"
