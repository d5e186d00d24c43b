"""Outcomes on disk: rows as a run's, from which the printed numbers can be made again."""

import json
from pathlib import Path

import pytest

from pluralrm.errors import RunError
from pluralrm.grading import open_grader
from pluralrm.policies.best_of_n import best_of_n, score_pool
from pluralrm.policies.grades import grade_folder, grade_pool, read_grades
from pluralrm.policies.outcomes import find_outcomes, load_outcome, write_outcomes
from pluralrm.stats import cluster_means, share_interval
from tests.grading.markers import scripted
from tests.policies.pools import BENCH, babbled

KS = [1, 3, 6]


@pytest.mark.parametrize("exact", [True, False])
def test_every_printed_number_follows_from_the_rows(exact: bool, tmp_path: Path) -> None:
    pool = babbled(tmp_path)
    runs = [score_pool(pool, BENCH, model) for model in ("longest", "shortest")]
    grader = open_grader("joint:m", chat=scripted())
    grade_pool(pool, BENCH, grader)
    found = best_of_n(pool, BENCH, runs, read_grades(grade_folder(pool, grader)), ks=KS, exact=exact)
    folders = write_outcomes(pool, BENCH, runs, found, grader=grader.spec)
    assert find_outcomes([pool.folder]) == sorted(folders)
    for folder, curve in zip(folders, found.curves, strict=True):
        outcome = load_outcome(folder)
        assert (outcome.model, outcome.manifest.ks, outcome.manifest.grader) == (curve.model, tuple(KS), "joint:m")
        assert outcome.manifest.way == ("exact" if exact else "first")
        assert outcome.manifest.pool_hash == pool.content_hash
        assert [row.item for row in outcome.rows] == list(pool.samples)
        for place, point in enumerate(curve.points):
            grades = [row.scores[place] for row in outcome.rows]
            means = cluster_means(grades, [row.cluster for row in outcome.rows])
            interval = share_interval(means)
            told = point.grade
            assert (interval.value, interval.low, interval.high) == (told.value, told.low, told.high)
        assert outcome.grades() == grades
        assert {row.candidate_ids for row in outcome.rows} == {("best-of-1", "best-of-3", "best-of-6")}
        assert all(row.scores[row.best[0]] == row.scores[-1] for row in outcome.rows)


def test_the_length_of_the_picks_is_kept(tmp_path: Path) -> None:
    pool = babbled(tmp_path, items=3)
    run = score_pool(pool, BENCH, "longest")
    grader = open_grader("joint:m", chat=scripted())
    grade_pool(pool, BENCH, grader)
    found = best_of_n(pool, BENCH, [run], read_grades(grade_folder(pool, grader)), ks=KS)
    [folder] = write_outcomes(pool, BENCH, [run], found, grader=grader.spec)
    for row in load_outcome(folder).rows:
        letters = [len(one.text) for one in pool.samples[row.item]]
        assert row.lengths[0] == round(sum(letters) / len(letters))
        assert row.lengths[-1] == max(letters)


def test_the_same_curves_are_the_same_rows_in_the_same_folder(tmp_path: Path) -> None:
    pool = babbled(tmp_path, items=3)
    run = score_pool(pool, BENCH, "longest")
    grader = open_grader("joint:m", chat=scripted())
    grade_pool(pool, BENCH, grader)
    found = best_of_n(pool, BENCH, [run], read_grades(grade_folder(pool, grader)), ks=KS)
    [first] = write_outcomes(pool, BENCH, [run], found, grader=grader.spec)
    rows = (first / "rows.jsonl").read_bytes()
    assert write_outcomes(pool, BENCH, [run], found, grader=grader.spec) == [first]
    assert (first / "rows.jsonl").read_bytes() == rows


def test_what_is_no_outcome_says_so(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no outcome"):
        load_outcome(tmp_path)
    (tmp_path / "outcome.json").write_text(json.dumps({"schema": 9}))
    (tmp_path / "rows.jsonl").write_text("")
    with pytest.raises(RunError, match="schema"):
        load_outcome(tmp_path)
