"""The validators as graders: right or wrong by the known answer of an item, and a failure where neither is known."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.core import Benchmark, Failure, Item, Oracle
from pluralrm.errors import BenchmarkError, PluralrmError
from pluralrm.grading import open_grader
from pluralrm.policies.best_of_n import best_of_n, score_pool
from pluralrm.policies.grades import grade_folder, grade_pool, key, read_grades
from pluralrm.policies.pool import Pool
from pluralrm.stats.best_of import expected_majority
from tests.benchmarks.sample_rows import rmgap_row, write_jsonl
from tests.builders import bakery
from tests.cli.test_verbs import pluralrm
from tests.policies.pools import pool_of

ANSWERS = {
    "i0000": [
        r"\boxed{0.5}",
        r"So \boxed{\frac{1}{2}}.",
        r"\boxed{2}",
        "It is a half.",
        r"\boxed{1/2}",
        r"\boxed{2.0}",
    ],
    "i0001": [r"\boxed{7}", r"\boxed{x+1}", r"\boxed{1+x}", r"\boxed{x+1}", r"\boxed{8}", r"\boxed{}"],
    "i0002": ["Rye.", "Spelt.", "Oats.", "Wheat.", "Barley.", "Corn."],
}
REFERENCES = {"i0000": "1/2", "i0001": "x+1", "i0002": "3"}
RIGHT: dict[str, list[int | None]] = {
    "i0000": [1, 1, 0, None, 1, 0],
    "i0001": [0, 1, 1, 1, 0, None],
    "i0002": [None] * 6,
}


def world(known: dict[str, Oracle]) -> Benchmark:
    made = bakery(3)
    return Benchmark(made.card, tuple(replace(item, oracle=known.get(item.id)) for item in made.items))


MATH = world({name: Oracle(reference=text) for name, text in REFERENCES.items()})


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    return pool_of(ANSWERS, tmp_path, MATH)


@pytest.mark.sandbox  # where the extra math is installed
def test_mathematics_is_right_or_wrong_and_no_box_is_neither(pool: Pool) -> None:
    grader = open_grader("math")
    done = grade_pool(pool, MATH, grader)
    assert (done.failed, done.open) == (8, 0)
    grades = read_grades(grade_folder(pool, grader))
    for item, texts in ANSWERS.items():
        for text, right in zip(texts, RIGHT[item], strict=True):
            found = grades[key(item, text)]
            assert isinstance(found, Failure) if right is None else found == right


@pytest.mark.sandbox  # where the extra math is installed
def test_the_majority_stands_beside_the_oracle_and_chance(pool: Pool) -> None:
    grader = open_grader("math")
    grade_pool(pool, MATH, grader)
    ks = [1, 2, 3, 6]
    found = best_of_n(pool, MATH, [score_pool(pool, MATH, "longest")], read_grades(grade_folder(pool, grader)), ks=ks)
    # 1/2 three times, 2 twice, one silent; x+1 twice (1+x is another text), 7, 1+x, 8; nobody
    groups = [[0, 0, 1, -1, 0, 1], [0, 1, 2, 1, 3, -1], [-1] * 6]
    worth = [[float(right or 0) for right in RIGHT[item]] for item in ANSWERS]
    by_hand = expected_majority(groups, worth, ks).mean(axis=0)
    assert [one.value for one in found.majority] == pytest.approx(by_hand.tolist())
    assert found.majority[-1].value == pytest.approx(2 / 3)
    assert found.majority[-1].failed == 3  # each has an answer without a box, or only such
    assert all(a.value >= b.value - 1e-12 for a, b in zip(found.oracle, found.majority, strict=True))


def test_where_nobody_boxes_an_answer_it_is_not_applicable(tmp_path: Path) -> None:
    bench = bakery(2)
    pool = pool_of({item.id: ["Rye.", "Spelt.", "Rye."] for item in bench.items}, tmp_path, bench)
    rows = [{"item": item, "index": place, "grade": 0.5, "by": "anna"} for item in pool.samples for place in range(3)]
    (tmp_path / "g.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    grades = _given(pool, tmp_path / "g.jsonl")
    found = best_of_n(pool, bench, [score_pool(pool, bench, "longest")], grades, ks=[1, 3])
    assert (found.majority, found.no_majority) == ((), "no answer of the pool holds a \\boxed{}")


def _given(pool: Pool, file: Path) -> dict[tuple[str, str], float | Failure]:
    from pluralrm.policies.imported import import_grades

    [found] = import_grades(pool, file)
    return read_grades(found.folder)


@pytest.mark.sandbox
def test_code_is_right_or_wrong_by_its_tests(tmp_path: Path) -> None:
    tests = "assert half(4) == 2\nassert half(5) == 2.5\n"
    bench = world({"i0000": Oracle(tests=tests, entry="half"), "i0001": Oracle(tests=tests)})
    said = ["```python\ndef half(n):\n    return n / 2\n```", "```python\ndef half(n):\n    return n // 2\n```", "No."]
    pool = pool_of({item.id: said for item in bench.items}, tmp_path, bench)
    grader = open_grader("code")
    assert grade_pool(pool, bench, grader).failed == 5
    grades = read_grades(grade_folder(pool, grader))
    for item in ("i0000", "i0001"):
        right, wrong, none = [grades[key(item, text)] for text in said]
        assert (right, wrong) == (1.0, 0.0)
        assert isinstance(none, Failure)
    assert all(isinstance(grades[key("i0002", text)], Failure) for text in said)  # no known answer


@pytest.mark.sandbox  # where the extra math is installed
def test_known_answers_may_stand_in_a_file(tmp_path: Path) -> None:
    bare = bakery(3)
    pool = pool_of(ANSWERS, tmp_path, bare)
    with pytest.raises(
        BenchmarkError, match="has no reference to grade by: wanted items with a known answer, or math:"
    ):
        grade_pool(pool, bare, open_grader("math"))
    file = write_jsonl(
        tmp_path / "known.jsonl", [{"item": item, "reference": text} for item, text in REFERENCES.items()]
    )
    by_file, by_item = open_grader(f"math:{file}"), open_grader("math")
    grade_pool(pool, bare, by_file)
    other = pool_of(ANSWERS, tmp_path / "other", MATH)
    grade_pool(other, MATH, by_item)
    assert read_grades(grade_folder(pool, by_file)) == read_grades(grade_folder(other, by_item))
    assert by_file.identity["file"]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"item": "i0001"}, "reference: found neither reference nor tests"),
        ({"item": "i0000", "reference": "2"}, "item: found 'i0000' with another answer before"),
        ({"reference": "2"}, "item: found no such key"),
    ],
)
def test_a_wrong_row_of_known_answers_is_refused_by_its_line(tmp_path: Path, row: dict[str, str], told: str) -> None:
    file = write_jsonl(tmp_path / "known.jsonl", [{"item": "i0000", "reference": "1/2"}, row])
    with pytest.raises(PluralrmError) as caught:
        open_grader(f"math:{file}")
    assert f"{file}:2: {told}" in str(caught.value)


def test_records_of_rmgap_may_hold_their_known_answer(tmp_path: Path) -> None:
    plain = load_benchmark(f"rmgap:{write_jsonl(tmp_path / 'a.jsonl', [rmgap_row()])}")
    known = load_benchmark(f"rmgap:{write_jsonl(tmp_path / 'b.jsonl', [{**rmgap_row(), 'reference': '1/2'}])}")
    assert all(item.oracle is None for item in plain.items)
    assert {item.oracle for item in known.items} == {Oracle(reference="1/2")}
    assert plain.content_hash != known.content_hash
    stripped = [replace(item, oracle=None) for item in known.items]
    assert [_plain(item) for item in stripped] == [_plain(item) for item in plain.items]


def _plain(item: Item) -> tuple[str, tuple[str, ...], int | None]:
    return item.prompt, item.candidates, item.preferred


@pytest.mark.sandbox  # where the extra math is installed
def test_the_command_line_prints_the_majority(tmp_path: Path) -> None:
    module = (
        "from dataclasses import replace\n"
        "from pluralrm.core import Benchmark, Oracle\n"
        "from tests.grading.test_known import MATH\n\n\ndef bench():\n    return MATH\n"
    )
    (tmp_path / "mymath.py").write_text(module)
    rows = [{"item": item, "text": text} for item, texts in ANSWERS.items() for text in texts]
    write_jsonl(tmp_path / "said.jsonl", rows)
    for words in (
        ["sample", "python:mymath:bench", "--from", "said.jsonl", "-o", "pool"],
        ["best-of-n", "pool", "-m", "longest", "-g", "math"],
    ):
        done = pluralrm(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert "(majority)" in done.stdout
    assert "maj@k" in done.stdout
    told = json.loads(pluralrm("best-of-n", "pool", "-m", "longest", "-g", "math", "--json", cwd=tmp_path).stdout)
    assert [one["k"] for one in told["majority"]] == [1, 2, 4, 6]
    assert told["no_majority"] == ""
