"""Best-of-N on real pools: at most one call per different answer and aspect, and nobody gains by failing."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.benchmarks.simulated.scorers import Knowing, choice_table, scorer
from pluralrm.core import Benchmark, Failure, Query, Run, Score, Verdict
from pluralrm.errors import MetricError, PoolError
from pluralrm.grading import Grade, Grader, aspects_of, open_grader
from pluralrm.policies.best_of_n import BestOfN, best_of_n, score_pool, scored, selected
from pluralrm.policies.grades import Key, grade_folder, grade_pool, key, read_grades
from pluralrm.policies.pool import Pool, load_pool, pool_benchmark, score_table, source
from tests.builders import bakery
from tests.grading.markers import scripted
from tests.policies.pools import BENCH, babbled, pool_of

KS = [1, 2, 3, 4, 6]
KNOWING: tuple[Knowing, ...] = ("taste", "posts", "nothing")


@dataclass
class Rule:
    """A reward model that scores each answer by itself."""

    spec: str
    words: str
    digits: int = 9
    fails: str = "~"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            yield Verdict(tuple(self._score(text) for text in query.candidates))

    def _score(self, text: str) -> Score:
        if self.fails in text:
            return Failure("refused", "as told")
        return round(sum(map(text.count, self.words)) / (1 + len(text)), self.digits)


def models(count: int) -> list[Rule]:
    return [Rule(f"rule-{place}", "aeioubcdfghjklmnprst"[place] + "e", digits=1 + place % 3) for place in range(count)]


def graded(pool: Pool, grader: Grader) -> dict[Key, Grade]:
    grade_pool(pool, BENCH, grader)
    return read_grades(grade_folder(pool, grader))


def by_hand(pool: Pool, run: Run, grades: dict[Key, Grade], k: int) -> float:
    """Return the mean over items of the mean over all subsets, gone through one by one."""
    total = 0.0
    rows = {row.item: row.scores for row in run.rows}
    for item, samples in pool.samples.items():
        texts = pool.texts(item)
        graded = [grades[key(item, one.text)] for one in samples]
        worth = [0.0 if isinstance(one, Failure) else one for one in graded]
        scores = [rows[item][texts.index(one.text)] for one in samples]
        subsets = list(combinations(range(pool.n), k))
        for subset in subsets:
            known = [place for place in subset if not isinstance(scores[place], Failure)]
            top = max((scores[place] for place in known), default=math.nan)
            least = min((worth[place] for place in subset if place not in known), default=1.0)
            values = [min(worth[place], least) for place in known if scores[place] == top]
            total += (math.fsum(values) / len(values) if values else 0.0) / len(subsets)
    return total / len(pool.samples)


# ---------------------------------------------------------------- what it costs


def test_twenty_models_and_eight_k_ask_for_each_answer_and_aspect_once(tmp_path: Path) -> None:
    pool = babbled(tmp_path, items=5, n=8)
    chat = scripted()
    grader = open_grader("per-aspect:m", chat=chat)
    ks = list(range(1, 9))
    runs = [score_pool(pool, BENCH, model) for model in models(20)]
    for _ in range(2):
        found = best_of_n(pool, BENCH, runs, graded(pool, grader), ks=ks)
    assert len(found.curves) == 20
    aspects = {item.id: len(aspects_of(item)) for item in BENCH.items}
    assert chat.calls == sum(aspects[item] * len(pool.texts(item)) for item in pool.samples)


def test_selected_asks_for_the_picks_alone_and_tells_the_same_first_k(tmp_path: Path) -> None:
    pool = babbled(tmp_path, items=5, n=8)
    runs, ks = [score_pool(pool, BENCH, model) for model in models(3)], [1, 2, 4, 8]
    chat = scripted()
    grader = open_grader("joint:m", chat=chat)
    picks = selected(pool, runs, ks)
    grade_pool(pool, BENCH, grader, only=picks)
    assert chat.calls == len(picks) < sum(len(pool.texts(item)) for item in pool.samples)
    some = best_of_n(pool, BENCH, runs, read_grades(grade_folder(pool, grader)), ks=ks, exact=False)
    whole = best_of_n(pool, BENCH, runs, graded(pool, grader), ks=ks)
    assert (some.exact, some.oracle, some.random) == (False, (), ())
    for few, all_ in zip(some.curves, whole.curves, strict=True):
        assert [point.grade for point in few.points] == [point.first for point in all_.points]
        assert all(point.regret is None for point in few.points)


def test_copies_are_scored_and_graded_once_and_count_as_often_as_they_were_drawn(tmp_path: Path) -> None:
    item = BENCH.items[0]
    pool = pool_of({item.id: ["aaaa", "b", "b", "b"]}, tmp_path)
    [asked] = pool_benchmark(pool, BENCH).items
    assert asked.candidates == ("aaaa", "b")
    run = score_pool(pool, BENCH, Rule("a", "a"))
    grades: dict[Key, Grade] = {key(item.id, "aaaa"): 1.0, key(item.id, "b"): 0.0}
    found = best_of_n(pool, BENCH, [run], grades, ks=[1, 2, 3, 4])
    assert [point.grade.value for point in found.curves[0].points] == pytest.approx([0.25, 0.5, 0.75, 1.0])


# ---------------------------------------------------------------- what it says


@pytest.fixture
def measured(tmp_path: Path) -> tuple[Pool, list[Run], dict[Key, Grade], BestOfN]:
    pool = babbled(tmp_path)
    runs = [score_pool(pool, BENCH, model) for model in (*models(3), Rule("fails", "e", fails="the"))]
    grades = graded(pool, open_grader("per-aspect:m", chat=scripted()))
    grades[key(BENCH.items[1].id, pool.texts(BENCH.items[1].id)[0])] = Failure("parse", "prose")
    return pool, runs, grades, best_of_n(pool, BENCH, runs, grades, ks=KS)


Measured = tuple[Pool, list[Run], dict[Key, Grade], BestOfN]


def test_each_point_equals_going_through_all_subsets(measured: Measured) -> None:
    pool, runs, grades, found = measured
    for run, curve in zip(runs, found.curves, strict=True):
        wanted = [by_hand(pool, run, grades, k) for k in KS]
        assert [point.grade.value for point in curve.points] == pytest.approx(wanted, abs=1e-12)


def test_every_model_lies_between_nothing_and_the_oracle_and_starts_at_the_policy(measured: Measured) -> None:
    _, _, _, found = measured
    for curve in found.curves[:3]:
        assert curve.points[0].grade.value == pytest.approx(found.random[0].value)
        for place, point in enumerate(curve.points):
            assert point.regret is not None
            assert point.grade.value + point.regret.value == pytest.approx(found.oracle[place].value)
            assert point.regret.low is not None
            assert point.regret.low >= 0
    assert [line.value for line in found.random] == pytest.approx([found.random[0].value] * len(KS))


def test_most_grades_failing_is_a_note_with_the_failures_by_kind(measured: Measured) -> None:
    pool, runs, grades, found = measured
    assert not any("UNGRADED" in note for note in found.notes)
    places = dict(enumerate(grades))
    lost = {one: Failure("parse" if place % 3 else "unsupported") for place, one in places.items() if place % 4}
    told = best_of_n(pool, BENCH, runs, {**grades, **lost}, ks=KS)
    assert sum(told.failures.values()) == told.ungraded >= len(lost)
    [note] = [note for note in told.notes if "UNGRADED" in note]
    assert f"{told.ungraded} of {len(grades)} answers have no grade (parse {told.failures['parse']}," in note


def test_a_failed_grade_earns_nothing_is_counted_and_bounded(measured: Measured) -> None:
    pool, runs, grades, found = measured
    assert found.ungraded == 1
    assert [curve.last.grade.failed for curve in found.curves[:3]] == [1, 1, 1]
    full = {one: 1.0 if isinstance(grade, Failure) else grade for one, grade in grades.items()}
    most = best_of_n(pool, BENCH, runs, full, ks=KS)
    for curve, best in zip(found.curves, most.curves, strict=True):
        for point, upper in zip(curve.points, best.points, strict=True):
            assert point.at_most == pytest.approx(upper.grade.value)
            assert point.grade.value <= upper.grade.value + 1e-12


def test_a_model_that_always_fails_earns_nothing(tmp_path: Path) -> None:
    pool = babbled(tmp_path, items=3)
    silent = score_pool(pool, BENCH, Rule("silent", "e", fails=" "))
    grades = graded(pool, open_grader("joint:m", chat=scripted(lambda *_: 2)))
    found = best_of_n(pool, BENCH, [silent, score_pool(pool, BENCH, models(1)[0])], grades, ks=KS)
    first, other = (curve.last.grade for curve in found.curves)
    assert (first.value, first.failed, first.n) == (0.0, 3, 3)
    assert (other.value, other.failed) == (1.0, 0)


def test_more_than_there_are_is_refused(measured: Measured) -> None:
    pool, runs, grades, _ = measured
    with pytest.raises(MetricError, match="best-of-7 of 6 answers"):
        best_of_n(pool, BENCH, runs, grades, ks=[1, 7])


def test_a_curve_over_what_happens_to_be_graded_is_refused(measured: Measured) -> None:
    pool, runs, grades, _ = measured
    some = dict(list(grades.items())[3:])
    with pytest.raises(PoolError, match=r"3 of 30 answers that are needed have no grade; -g names who"):
        best_of_n(pool, BENCH, runs, some, ks=KS)


def test_samples_that_the_policy_refused_are_never_picked_over_an_answer(tmp_path: Path) -> None:
    pool = babbled(tmp_path, items=2, n=3)
    file = tmp_path / "pool" / "samples.jsonl"
    refused = {item: several[0].text for item, several in pool.samples.items()}
    assert file.exists()
    broken = _with_refusals(pool)
    run = score_pool(broken, BENCH, Rule("e", "e"))
    assert [math.isinf(one) for one in score_table(broken, run)[:, 0]] == [True, True]
    grades: dict[Key, Grade] = {key(item, text): 1.0 for item in broken.samples for text in broken.texts(item)}
    found = best_of_n(broken, BENCH, [run], grades, ks=[1, 2, 3])
    assert [point.grade.value for point in found.curves[0].points] == pytest.approx([2 / 3, 1.0, 1.0])
    assert found.curves[0].last.grade.failed == len(refused)


def _with_refusals(pool: Pool) -> Pool:
    samples = {
        item: (replace(several[0], text="", finish="refused", detail="no"), *several[1:])
        for item, several in pool.samples.items()
    }
    return replace(pool, samples=samples)


# ---------------------------------------------------------------- from disk


def test_scores_are_found_again_and_resumed(tmp_path: Path) -> None:
    pool = babbled(tmp_path)
    assert scored(pool, BENCH) == []
    run = score_pool(pool, BENCH, "longest")
    assert [one.path for one in scored(load_pool(pool.folder), BENCH)] == [run.path]
    rows = (Path(run.path) / "rows.jsonl").read_bytes()
    score_pool(pool, BENCH, "longest")
    assert (Path(run.path) / "rows.jsonl").read_bytes() == rows


def test_a_pool_finds_its_benchmark_or_says_that_it_changed(tmp_path: Path) -> None:
    pool = babbled(tmp_path / "a")
    assert source(pool) == BENCH
    made = load_benchmark("simulated:users=3,items=1", seed=4)
    assert source(pool_of({item.id: ["Rye."] for item in made.items}, tmp_path / "c", made)) == made
    bench = bakery(3)
    other = pool_of({item.id: ["Rye."] for item in bench.items}, tmp_path / "b", bench)
    with pytest.raises(PoolError, match=r"benchmark 'bakery' is missing.*--benchmark names another place"):
        source(other)
    with pytest.raises(PoolError, match="--benchmark names the one"):
        source(other, "pocket-prb")


def test_a_pool_of_a_file_finds_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.jsonl").write_text('{"id": "a", "prompt": "Bread?", "chosen": "Rye.", "rejected": "None."}\n')
    pool = pool_of({"a": ["Rye."]}, tmp_path / "pool", load_benchmark("mine.jsonl"))
    assert source(pool).content_hash == pool.benchmark_hash
    Path("mine.jsonl").rename("moved.jsonl")
    with pytest.raises(PoolError, match=r"benchmark 'mine.jsonl' is missing.*--benchmark names another place"):
        source(pool)
    assert source(pool, "moved.jsonl").content_hash == pool.benchmark_hash


# ---------------------------------------------------------------- against the truth


def test_scorers_of_known_quality_are_ranked_as_theory_says(tmp_path: Path) -> None:
    bench = load_benchmark("simulated:users=80,items=3,candidates=4,posts=20")
    pool = pool_of({item.id: item.candidates for item in bench.items}, tmp_path, bench)
    runs = [score_pool(pool, bench, scorer(bench, knowing), "recent:20") for knowing in KNOWING]
    # What the taste gives an answer is what it is worth, so that who knows the taste is the oracle.
    worth = {item: dict(zip(pool.texts(item), row, strict=True)) for item, row in _chances(bench).items()}
    grades: dict[Key, Grade] = {key(item, text): one for item, row in worth.items() for text, one in row.items()}
    found = best_of_n(pool, bench, runs, grades, ks=[1, 2, 3, 4])
    taste, posts, nothing = found.curves
    assert [point.grade.value for point in taste.points] == pytest.approx([one.value for one in found.oracle])
    assert not any(curve.over_optimised for curve in found.curves)
    for place in (1, 2, 3):
        values = [curve.points[place].grade for curve in (taste, posts, nothing)]
        assert values[0].value > values[1].value > values[2].value
        lows = [value.low or 0.0 for value in values]
        assert lows[0] > values[1].value > (values[2].high or 1.0)
        assert lows[2] < found.random[place].value + 0.02


def _chances(bench: Benchmark) -> dict[str, tuple[float, ...]]:
    return dict(zip([item.id for item in bench.items], choice_table(bench, "taste"), strict=True))
