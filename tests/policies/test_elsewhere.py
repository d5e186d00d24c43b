"""Grades made elsewhere: read as they are, refused by row where they are of no answer here, exact in every curve."""

import csv
import hashlib
import json
import math
import random
from itertools import combinations
from pathlib import Path

import pytest

from pluralrm.cli.grade import _levels
from pluralrm.core import Run
from pluralrm.digests import digest
from pluralrm.errors import BenchmarkError, PluralrmError, PoolError
from pluralrm.grading import Given, Graded, open_grader
from pluralrm.policies.best_of_n import best_of_n, score_pool
from pluralrm.policies.grades import GradeFolder, find_graders, grade_folder, key, read_grades
from pluralrm.policies.imported import import_grades
from pluralrm.policies.pool import Pool
from tests.cli.test_verbs import pluralrm
from tests.policies.pools import BENCH, babbled, pool_of

Grades = dict[tuple[str, int], float]


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    return babbled(tmp_path)  # 6 items of 6 answers, the last of each is the first again


def by_index(pool: Pool, seed: int = 0) -> Grades:
    """Return a grade of its own for every sample, also for those of one text."""
    rng = random.Random(seed)
    return {(item, one.index): rng.randint(0, 20) / 20 for item, several in pool.samples.items() for one in several}


def rows_of(grades: Grades, by: str = "anna") -> list[dict[str, object]]:
    return [{"item": item, "index": index, "grade": grade, "by": by} for (item, index), grade in grades.items()]


def write(folder: Path, rows: list[dict[str, object]], name: str = "grades.jsonl") -> Path:
    file = folder / name
    if file.suffix == ".csv":
        with file.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(dict.fromkeys(name for row in rows for name in row)))
            writer.writeheader()
            writer.writerows(rows)
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def over_subsets(pool: Pool, run: Run, grades: Grades, k: int) -> float:
    """Return best-of-k gone through subset by subset; every sample has the grade that the file gives its index."""
    scores = {row.item: dict(zip(pool.texts(row.item), row.scores, strict=True)) for row in run.rows}
    total = []
    for item, several in pool.samples.items():
        for subset in combinations(several, k):
            top = max(scores[item][one.text] for one in subset)
            tops = [grades[item, one.index] for one in subset if scores[item][one.text] == top]
            total.append(math.fsum(tops) / len(tops) / math.comb(len(several), k) / len(pool.samples))
    return math.fsum(total)


@pytest.mark.parametrize("seed", range(4))
def test_best_of_k_is_what_it_is_over_all_subsets_of_separate_grades(pool: Pool, tmp_path: Path, seed: int) -> None:
    grades = by_index(pool, seed)
    [found] = import_grades(pool, write(tmp_path, rows_of(grades)))
    assert (found.rows, found.ungraded) == (36, 0)
    assert found.averaged == sum(grades[item, 0] != grades[item, 5] for item in pool.samples) > 0
    runs = [score_pool(pool, BENCH, name) for name in ("longest", "bm25", "random", "constant")]
    ks = list(range(1, 7))
    curves = best_of_n(pool, BENCH, runs, read_grades(found.folder), ks=ks).curves
    for run, curve in zip(runs, curves, strict=True):
        for point in curve.points:
            assert point.grade.value == pytest.approx(over_subsets(pool, run, grades, point.k), abs=1e-12)


def test_by_index_by_text_or_by_both_in_any_format_is_the_same(pool: Pool, tmp_path: Path) -> None:
    samples = {(one.item, one.index): one.text for several in pool.samples.values() for one in several}
    plain = rows_of(by_index(pool))
    texts: list[dict[str, object]] = [{**row, "text": samples[row["item"], row["index"]]} for row in plain]  # type: ignore[index]
    alone = [{name: row[name] for name in ("item", "text", "grade", "by")} for row in texts]
    found = []
    for number, (rows, name) in enumerate([(plain, "a.jsonl"), (texts, "a.csv"), (alone, "b.csv"), (plain, "b.csv")]):
        other = babbled(tmp_path / str(number))
        found.append(read_grades(import_grades(other, write(tmp_path, rows, name))[0].folder))
    assert len(found[0]) == 30
    assert all(one == found[0] for one in found)


def test_a_range_becomes_zero_to_one(tmp_path: Path) -> None:
    pool = pool_of({"art-01": ["a", "b", "c"]}, tmp_path)
    rows: list[dict[str, object]] = [
        {"item": "art-01", "text": text, "grade": grade} for text, grade in zip("abc", (1, 2, 5), strict=True)
    ]
    [found] = import_grades(pool, write(tmp_path, rows), by="anna", low=1, high=5)
    assert found.grades == [0.0, 0.25, 1.0]
    kept = json.loads((found.folder / "grader.json").read_text())
    assert kept["identity"] == {"by": "anna", "equal_texts": "mean"}
    [source] = kept["files"]
    assert (source["low"], source["high"]) == (1, 5)
    assert source["sha256"] == hashlib.sha256((tmp_path / "grades.jsonl").read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"item": "art-99"}, "item: found 'art-99', wanted an item of "),
        ({"index": 6}, "index: found 6, wanted a whole number from 0 to 5"),
        ({"index": -1}, "index: found -1"),
        ({"index": 1.5}, "index: found 1.5, wanted"),
        ({"index": None}, "index: found neither index nor text"),
        ({"text": "nobody wrote this"}, "text: found 'nobody wrote this', wanted the text of one of the 5 different"),
        ({"index": None, "text": "nobody wrote this"}, "text: found 'nobody wrote this'"),
        ({"text": "OTHER"}, "wanted the text of index 0: "),
        ({"text": "SPACED", "index": None}, "; index 0 differs in white space alone"),
        ({"grade": 1.2}, "grade: found 1.2, wanted a number from 0 to 1"),
        ({"grade": -0.1}, "grade: found -0.1"),
        ({"grade": "good"}, "grade: found 'good', wanted a number"),
        ({"grade": None}, "grade: found null, wanted a number"),
        ({"by": None}, "by: found no name, wanted who graded"),
        ({"by": " anna"}, "by: found ' anna', wanted a name without white space around it"),
        ({"by": "an\nna"}, "by: found"),
        ({"by": ""}, "by: found an empty text"),
        ({"index": 1}, "index: found 1 of 'art-01' by 'anna' again, as in line 1"),
    ],
)
def test_a_row_that_is_of_no_answer_or_of_nobody_is_refused_by_its_line(
    pool: Pool, tmp_path: Path, row: dict[str, object], told: str
) -> None:
    samples = pool.samples["art-01"]
    if row.get("text") == "OTHER":
        row = {**row, "text": samples[1].text}
    if row.get("text") == "SPACED":
        row = {**row, "text": f" {samples[0].text}\n"}
    first = {"item": "art-01", "index": 1, "grade": 0.5, "by": "anna"}
    file = write(tmp_path, [first, {"item": "art-01", "index": 0, "grade": 0.5, "by": "anna", **row}])
    with pytest.raises(BenchmarkError) as caught:
        import_grades(pool, file)
    assert f"{file}:2: " in str(caught.value)
    assert told in str(caught.value)
    assert not find_graders(pool)  # not even the row that was right


def test_all_faults_are_told_at_once_and_ten_are_shown(pool: Pool, tmp_path: Path) -> None:
    rows = rows_of(by_index(pool))
    for row in rows[:14]:
        row["item"] = f"no-{row['index']}"
    with pytest.raises(BenchmarkError) as caught:
        import_grades(pool, write(tmp_path, rows))
    assert str(caught.value).count("wanted an item of") == 10
    assert "14 rows refused; the first 10 are shown" in str(caught.value)


def test_who_graded_is_one_name_and_the_option_holds_the_file_to_it(pool: Pool, tmp_path: Path) -> None:
    rows = [{**row, "by": "anna" if row["index"] else "ben"} for row in rows_of(by_index(pool))]
    with pytest.raises(BenchmarkError, match="by: found 'ben', wanted 'anna', as --by says, or no name"):
        import_grades(pool, write(tmp_path, rows), by="anna")
    found = import_grades(pool, write(tmp_path, rows))
    assert [(one.grader.spec, one.rows, one.ungraded) for one in found] == [("given:anna", 30, 0), ("given:ben", 6, 24)]
    assert sorted(record.spec for record in find_graders(pool).values()) == ["given:anna", "given:ben"]


def test_more_rows_add_to_a_grader_and_others_for_the_same_answer_are_refused(pool: Pool, tmp_path: Path) -> None:
    rows = rows_of(by_index(pool))
    file = write(tmp_path, rows[:12])
    first, again = import_grades(pool, file), import_grades(pool, file)
    assert first[0].grades == again[0].grades
    more = import_grades(pool, write(tmp_path, rows[12:], "more.jsonl"))[0]
    assert (first[0].folder, more.ungraded) == (more.folder, 0)
    assert [one.name for one in find_graders(pool)[more.folder].files] == ["grades.jsonl", "more.jsonl"]
    before = (more.folder / "grades.jsonl").read_bytes()
    wrong = [{**rows[1], "grade": 1.0 - float(str(rows[1]["grade"])) or 0.25}]
    with pytest.raises(BenchmarkError, match=r"other.jsonl:1: grade: found .* by 'anna', and .* in an earlier file"):
        import_grades(pool, write(tmp_path, wrong, "other.jsonl"))
    assert (more.folder / "grades.jsonl").read_bytes() == before


def test_an_answer_without_a_grade_is_never_made_one_up(pool: Pool, tmp_path: Path) -> None:
    import_grades(pool, write(tmp_path, rows_of(by_index(pool))[:12]))
    item, text = BENCH.items[3], pool.texts(BENCH.items[3].id)[0]
    with pytest.raises(PoolError, match="given:anna gave no grade to an answer to"):
        list(open_grader("given:anna").grade([(item, text)]))


# ---------------------------------------------------------------- the hash of an answer


def test_the_hash_of_an_answer_is_the_sha256_of_its_text(tmp_path: Path) -> None:
    texts = ["plain", 'with "quotes"\nand lines', "日本語 🙂", ""]
    pool = pool_of({"art-01": texts}, tmp_path)
    rows: list[dict[str, object]] = [{"item": "art-01", "index": place, "grade": 1, "by": "anna"} for place in range(4)]
    [found] = import_grades(pool, write(tmp_path, rows))
    lines = [json.loads(line) for line in (found.folder / "grades.jsonl").read_text().splitlines()]
    assert [line["answer"] for line in lines] == [hashlib.sha256(text.encode()).hexdigest() for text in texts]
    assert lines[0]["said"] == ["grades.jsonl:1: 1"]


def test_grades_of_before_are_read_and_gone_on_with(pool: Pool) -> None:
    """Folders of before have the hash of the text as JSON, and no word of it in grader.json."""
    grader = Given("anna")
    folder = grade_folder(pool, grader)
    folder.mkdir(parents=True)
    facts = {"spec": grader.spec, "model": grader.model, "identity": dict(grader.identity)}
    (folder / "grader.json").write_text(json.dumps(facts))
    answers = [(item, text) for item in pool.samples for text in pool.texts(item)]
    lines = [
        {"item": item, "answer": digest(text), "grade": place / 40, "points": [1, 2], "said": ["so"]}
        for place, (item, text) in enumerate(answers[:-1])
    ]
    failed = {"failure": "parse", "detail": "no"}
    (folder / "grades.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in [*lines[:-1], {**lines[-1], "grade": failed}])
    )
    known = read_grades(folder)
    assert [known[key(*one)] for one in answers[:-2]] == [place / 40 for place in range(28)]
    with GradeFolder(pool, grader) as opened:
        assert opened.grades == known
        opened.add(Graded(*answers[-1], 0.5))
    assert read_grades(folder) == {**known, key(*answers[-1]): 0.5}
    kept = [json.loads(line) for line in (folder / "grades.jsonl").read_text().splitlines()]
    assert [one["answer"] for one in kept] == [hashlib.sha256(text.encode()).hexdigest() for _, text in answers]
    assert kept[0] == {**lines[0], "answer": kept[0]["answer"], "check": kept[0]["check"]}
    assert find_graders(pool)[folder].hashed == "text"


# ---------------------------------------------------------------- on the command line


def test_many_different_grades_are_counted_by_tenths() -> None:
    levels = _levels([n / 100 for n in range(101)])
    assert (levels["0.0 to 0.1"], levels["0.9 to 1.0"], levels.total()) == (10, 11, 101)
    assert _levels([0.5, 1.0, 0.5]) == {"0.50": 2, "1.00": 1}


def test_the_graders_name_is_said_in_every_output(tmp_path: Path) -> None:
    pool = babbled(tmp_path)
    write(tmp_path, rows_of(by_index(pool)) + rows_of(by_index(pool, 1), "ben"), "grades.csv")

    def run(*words: str, code: int = 0) -> str:
        done = pluralrm(*words, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else " ".join(done.stderr.split())

    told = " ".join(run("grade", "pool", "--from", "grades.csv").split())
    assert "36 grades by given:anna; 30 of 30 different" in told
    assert "have the mean of their grades" in told
    assert [one["grader"] for one in json.loads(run("grade", "pool", "--from", "grades.csv", "--json"))] == [
        "given:anna",
        "given:ben",
    ]
    assert "graded by given:anna, given:ben; wanted one" in run("best-of-n", "pool", "-m", "longest", code=2)
    assert "graded by given:ben" in run("best-of-n", "pool", "-m", "longest", "-g", "given:ben")
    found = json.loads(run("best-of-n", "pool", "-m", "longest", "-g", "given:anna", "--json"))
    assert found["grader"] == "given:anna"
    assert json.loads((tmp_path / found["curves"][0]["outcome"] / "outcome.json").read_text())["grader"] == "given:anna"
    judge = "judge:anna,style=pointwise,url=http://127.0.0.1:9/v1"
    assert "both ask" in run("best-of-n", "pool", "-m", judge, "-g", "given:anna", code=2)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["grade", "pool"], "who grades? Wanted -g GRADER"),
        (["grade", "pool", "--by", "anna", "-g", "truth"], "wanted --from FILE beside them"),
        (
            ["grade", "pool", "--from", "g.csv", "-g", "truth", "--dry-run"],
            "-g, --dry-run: the grades in g.csv are made",
        ),
        (["grade", "pool", "--from", "g.csv", "--range", "5", "1"], "the lowest must be below the highest"),
        (["grade", "pool", "--from", "none.csv"], "cannot read none.csv"),
    ],
)
def test_a_slip_on_the_command_line_is_told(tmp_path: Path, words: list[str], told: str) -> None:
    babbled(tmp_path)
    (tmp_path / "g.csv").write_text("item,index,grade,by\n")
    done = pluralrm(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert told in " ".join(done.stderr.split())


def test_a_file_without_a_row_is_no_grade(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("item,index,grade,by\n")
    with pytest.raises(PluralrmError, match="found no grades"):
        import_grades(pool, tmp_path / "g.csv")
