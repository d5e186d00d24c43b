"""Twelve embedded scorers from scores to the report, by commands: every number made again from the files, by scipy."""

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pluralrm.benchmarks import load_benchmark
from pluralrm.benchmarks.simulated import named_person, settings_of
from pluralrm.benchmarks.simulated.texts import read_answer
from tests.cli.test_verbs import pluralrm

WORLD = "seed=5,sharpness=3"
BENCH = f"simulated:users=60,items=3,posts=16,{WORLD}"
N = 6
MODELS = (
    *("random", "longest", "bm25"),
    *(f"known:{knowing},{WORLD}" for knowing in ("nothing", "posts", "posts,blur=1", "posts,blur=2", "posts,blur=4")),
    *(f"known:{knowing},{WORLD}" for knowing in ("taste", "taste,blur=2", "taste,blur=4", "taste,blur=8")),
)

Scores = Mapping[str, float]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("predicting")
    models = [word for model in MODELS for word in ("-m", model)]
    for words in (
        ["score", BENCH, *models, "-c", "recent:16"],
        ["sample", BENCH, "-p", "simulated", "-n", str(N), "-o", "pool"],
        ["best-of-n", "pool", *models, "-c", "recent:16", "-g", "truth"],
    ):
        done = pluralrm(*words, cwd=where, PLURALRM_CACHE=str(where / "cache"))
        assert done.returncode == 0, done.stderr
    return where


@pytest.fixture(scope="module")
def report(folder: Path) -> Any:
    done = pluralrm("correlate", "runs", "--outcome", "pool", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rows_beside(folder: Path, manifest: str) -> dict[str, list[Any]]:
    """Return the rows beside every manifest at or below a folder, by the model that it names."""
    return {
        json.loads(file.read_text())["model"]: [
            json.loads(line) for line in (file.parent / "rows.jsonl").read_text().splitlines()
        ]
        for file in folder.rglob(manifest)
    }


def accuracies(folder: Path) -> Scores:
    """Return each model's share of right choices, where a tie is half of one."""
    found = {}
    for model, rows in rows_beside(folder / "runs", "run.json").items():
        tops = [[place for place, one in enumerate(row["scores"]) if one == max(row["scores"])] for row in rows]
        found[model] = fmean((row["preferred"] in top) / len(top) for row, top in zip(rows, tops, strict=True))
    return found


def earned(folder: Path) -> Scores:
    """Return what the best of all N answers gives each model's users, by the tastes that made them."""
    bench = load_benchmark(BENCH)
    people = {item.id: named_person(item.cluster, settings_of(bench)).taste for item in bench.items}
    drawn: dict[str, list[str]] = {}
    for line in (folder / "pool" / "samples.jsonl").read_text().splitlines():
        sample = json.loads(line)
        drawn.setdefault(sample["item"], []).append(sample["text"])
    found = {}
    for model, rows in rows_beside(folder / "pool" / "scores", "run.json").items():
        grades = []
        for row in rows:
            texts = list(dict.fromkeys(drawn[row["item"]]))
            scores = dict(zip(texts, row["scores"], strict=True))
            tops = [text for text in drawn[row["item"]] if scores[text] == max(row["scores"])]
            taste = people[row["item"]]
            worth = [sum(w.weight for w in taste if (read_answer(text) or {})[w.attribute] == w.level) for text in tops]
            grades.append(fmean(worth) / sum(w.weight for w in taste))
        found[model] = fmean(grades)
    return found


def by_measure(report: Any) -> dict[str, Any]:
    [cell] = report["cells"]
    return {finding["measure"]: finding for finding in cell["findings"]}


def test_all_twelve_stand_on_both_sides_and_share_their_users(report: Any) -> None:
    [cell] = report["cells"]
    assert (cell["benchmark"], cell["downstream"]) == ("simulated recent:16", "simulated best-of-6 recent:16")
    assert (len(cell["models"]), cell["missing"], cell["clusters"]) == (12, [], 60)
    assert {finding["n"] for finding in cell["findings"]} == {12}


def test_the_outcomes_are_what_the_picks_give_by_hand(folder: Path) -> None:
    written = {
        model: fmean(row["scores"][-1] for row in rows)
        for model, rows in rows_beside(folder / "pool" / "outcomes", "outcome.json").items()
    }
    assert written == {model: pytest.approx(value, abs=1e-12) for model, value in earned(folder).items()}


def test_every_correlation_is_that_of_scipy(folder: Path, report: Any) -> None:
    first, second = accuracies(folder), earned(folder)
    assert len(first) == len(second) == 12
    # Sums of another order differ in the last bits, which must not part what ties.
    x, y = (np.round([side[model] for model in sorted(first)], 12) for side in (first, second))
    found = by_measure(report)
    for measure, wanted in (
        ("spearman", stats.spearmanr(x, y).statistic),
        ("kendall", stats.kendalltau(x, y).statistic),
        ("pearson", stats.pearsonr(x, y).statistic),
        ("weighted_kendall", stats.weightedtau(x, y).statistic),
    ):
        assert found[measure]["value"] == pytest.approx(wanted, abs=1e-9), measure
    # An order by chance is as far off as often as scipy's own permutations say.
    null = stats.permutation_test(
        (x,), lambda one: stats.spearmanr(one, y).statistic, permutation_type="pairings", n_resamples=4_000, rng=1
    )
    assert found["spearman"]["p"] == pytest.approx(null.pvalue, abs=0.005)


def test_the_reversed_pairs_are_all_of_them(folder: Path, report: Any) -> None:
    first, second = accuracies(folder), earned(folder)
    wanted = {
        (above, below)
        for above in MODELS
        for below in MODELS
        if first[above] > first[below] + 1e-9 and second[above] < second[below] - 1e-9
    }
    [cell] = report["cells"]
    assert {(pair["above"], pair["below"]) for pair in cell["reversals"]} == wanted
    best = max(first.values())
    [leader] = [model for model, value in first.items() if value == best]
    assert cell["regret"] == pytest.approx(max(second.values()) - second[leader], abs=1e-9)


def test_it_says_that_the_benchmark_predicts_and_how_sure_that_is(folder: Path, report: Any) -> None:
    [cell] = report["cells"]
    rank = by_measure(report)["spearman"]
    assert cell["verdict"].startswith("simulated recent:16 predicts the ranking by simulated best-of-6 recent:16 (")
    assert "Studies of 12 models drawn alike show between ." in cell["verdict"]
    assert cell["estimand"] == "the mean over studies of as many models and items, drawn alike"
    assert rank["method"] == "models and items resampled, 60 clusters of items × 149 prompts"
    assert 0 < rank["low"] < rank["value"] < rank["high"] <= 1
    # No surer than the models alone allow: scipy's bootstrap over them, as if every score were exact.
    first, second = accuracies(folder), earned(folder)
    pairs = ([first[model] for model in MODELS], [second[model] for model in MODELS])
    alone = stats.bootstrap(
        pairs, lambda x, y: stats.spearmanr(x, y).statistic, paired=True, vectorized=False, n_resamples=2_000, rng=2
    )
    assert rank["low"] < alone.confidence_interval.high
    assert rank["high"] - rank["low"] > 0.5 * (alone.confidence_interval.high - alone.confidence_interval.low)


def test_the_control_that_reads_the_taste_is_named_on_both_sides(report: Any) -> None:
    told = [note for note in report["notes"] if note.startswith("ORACLE")]
    assert len(told) == 2
    readers = sorted(model for model in MODELS if model.startswith("known:taste"))
    assert all(note.endswith(f" the rubric was shown to {', '.join(readers)}") for note in told)


def test_in_the_terminal_it_fits_eighty_columns(folder: Path) -> None:
    done = pluralrm("correlate", "runs", "--outcome", "pool", "-k", "2", "-k", "6", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    said = " ".join(done.stdout.split())
    assert "Holm over 2 pairs of columns" in said
    assert "simulated recent:16 -> simulated best-of-2 recent:16: 12 models, 60 clusters of items" in said
