"""Shards: dealt by item id, merged to the bytes of one process, and never taken for a whole."""

import gzip
import itertools
import json
import multiprocessing
import os
import random
import resource
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import pluralrm
from pluralrm.benchmarks import load_benchmark
from pluralrm.cli import app
from pluralrm.core import Benchmark, Query, RewardModel, Verdict
from pluralrm.errors import PluralrmError, PoolError, RunError, SpecError
from pluralrm.files import lock_folder
from pluralrm.grading import open_grader
from pluralrm.http import Tally
from pluralrm.policies.grades import find_graders, grade_pool
from pluralrm.policies.policy import Draw
from pluralrm.policies.pool import load_pool
from pluralrm.policies.sample import sample_folder
from pluralrm.runs import find_runs, load_manifest, load_run, load_runs, score
from pluralrm.runs.loop import score_shard
from pluralrm.runs.records import ATTEMPTS, INPUTS, ITEMS, ROWS, TRANSCRIPTS
from pluralrm.shards import MergeResult, Shard, open_shard, united
from tests.builders import Scripted, bakery
from tests.chaos import kills
from tests.chaos.verbs import is_merged, score_and_merge, score_one


def test_shards_are_a_partition_and_differ_by_at_most_one() -> None:
    rng = random.Random(7)
    for _ in range(60):
        ids = [f"i{number}" for number in rng.sample(range(10**6), rng.randint(1, 60))]
        count = rng.randint(1, 70)
        dealt = [Shard(index=index, count=count).of(ids) for index in range(1, count + 1)]
        assert sorted(itertools.chain(*dealt)) == sorted(ids)
        assert max(map(len, dealt)) - min(map(len, dealt)) <= 1
        assert [len(mine) for mine in dealt] == [
            Shard(index=index, count=count).size(len(ids)) for index in range(1, count + 1)
        ]
        assert all(mine == [one for one in ids if one in set(mine)] for mine in dealt)  # in the order of the benchmark
        other = rng.sample(ids, len(ids))
        assert all(set(Shard(index=number, count=count).of(other)) == set(dealt[number - 1]) for number in (1, count))


@pytest.mark.parametrize("text", ["0/7", "8/7", "x", "1", "1/0", "-1/3", "1/2/3", "", "\u0663/\u0667", "1/99999999999"])
def test_a_shard_that_is_none_is_one_message(text: str) -> None:
    with pytest.raises(SpecError, match="wanted I/N with I from 1 to N"):
        Shard.parse(text)


def test_united_lines_are_in_order_though_files_are_not() -> None:
    files = [[("c", b"3"), ("a", b"1")], [("b", b"2"), ("e", b"5")]]
    assert list(united("abcde", [lines.__iter__ for lines in files])) == [b"1", b"2", b"3", b"5"]


# ---------------------------------------------------------------- runs


class Asked(Scripted):
    """Scores, says what it was sent, asks a server that costs money, and leaves items open while it is down."""

    def __init__(self, down: Iterable[str] = ()) -> None:
        super().__init__("asked", moods={"i0003": "nan", "i0007": "parse"})
        self.down, self.tally = set(down), Tally(cost=0.0)
        self.identity: dict[str, str] = {}

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            self.tally = self.tally.plus(Tally(1, 0, 1, 10, 2, 0, 0.25))
            [verdict] = super().score([query])
            said = pluralrm.Exchange(query.prompt, f"to {query.id}")
            down = Verdict.failed("transport", "no route", len(query.candidates))
            yield down if query.id in self.down else replace(verdict, exchanges=(said,))


def _contents(run: Path) -> dict[str, bytes]:
    """Return the files of a run whose bytes do not depend on when and in how many processes it was scored."""
    packed = {name: run / name for name in (INPUTS, TRANSCRIPTS) if (run / name).exists()}
    return {
        **{name: gzip.decompress(file.read_bytes()) for name, file in packed.items()},
        **{name: (run / name).read_bytes() for name in (ITEMS, ROWS)},
    }


def _facts(run: Path) -> dict[str, object]:
    timed = ("started", "finished", "seconds", "check")
    return {key: value for key, value in json.loads((run / "run.json").read_bytes()).items() if key not in timed}


def _sharded(bench: Benchmark, out: Path, count: int, **how: object) -> list[Path]:
    """Score all shards, in a random order."""
    order = random.Random(count).sample(range(1, count + 1), count)
    folders = [score_shard(bench, Asked(), "raw:2", out=out, shard=f"{index}/{count}", **how) for index in order]  # type: ignore[arg-type]
    assert all(one.complete for one in folders)
    return [Path(one.folder) for one in sorted(folders, key=lambda one: one.index)]


@pytest.mark.parametrize("seed", range(6))
def test_merged_shards_are_the_bytes_of_one_process(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    bench = bakery(rng.randint(9, 40), width=rng.randint(2, 4))
    how = {"domains": rng.sample(bench.domains, rng.randint(0, 2)), "limit": rng.choice([None, rng.randint(1, 9)])}
    run = score(bench, Asked(), "raw:2", out=tmp_path / "one", **how)  # type: ignore[arg-type]
    count = rng.choice([1, 2, 7, run.items, run.items + 5])
    _sharded(bench, tmp_path / "many", count, **how)
    found = pluralrm.merge(tmp_path / "many")
    [merged] = [work.folder for work in found.merged]
    assert found.refused == []
    assert merged.relative_to(tmp_path / "many") == Path(run.path).relative_to(tmp_path / "one")
    assert _contents(merged) == _contents(Path(run.path))
    assert _facts(merged) == _facts(Path(run.path))
    assert pluralrm.summary(load_run(merged)).metrics == pluralrm.summary(run).metrics
    model = Asked()
    again = score(bench, model, "raw:2", out=tmp_path / "many", **how)  # type: ignore[arg-type]
    assert (again.path, model.tally.answered) == (str(merged), 0)  # complete: nothing is scored
    assert [work.new for work in pluralrm.merge(str(tmp_path / "many")).merged] == [False]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all shards of one run; its tests work on copies."""
    out = tmp_path_factory.mktemp("three")
    _sharded(bakery(12), out, 3)
    return out


def _copy(three: Path, out: Path) -> list[Path]:
    shutil.copytree(three, out)
    return sorted(file.parent for file in out.rglob("run.json"))


def _refused(*paths: Path, out: Path | None = None) -> str:
    found = merge_all(*paths, out=out)
    assert found.merged == []
    assert not list(paths[0].parent.rglob("run.tmp"))
    return "\n".join(found.refused)


def merge_all(*paths: Path, out: Path | None = None) -> MergeResult:
    return pluralrm.merge(paths, out)


def test_a_missing_shard_is_named_with_what_makes_it(three: Path, tmp_path: Path) -> None:
    _, second, _ = _copy(three, tmp_path / "a")
    shutil.rmtree(second)
    said = _refused(tmp_path / "a")
    assert "bakery × asked × raw:2: missing shard 2 of 3" in said
    assert "shard='2/3'" in said


def test_an_unfinished_shard_is_named_and_resumed(three: Path, tmp_path: Path) -> None:
    tmp_path /= "a"
    _, second, _ = _copy(three, tmp_path)
    shutil.rmtree(second)
    down = Shard(index=2, count=3).of(item.id for item in bakery(12).items)[1:3]
    far = score_shard(bakery(12), Asked(down), "raw:2", out=tmp_path, shard="2/3")
    assert (far.done, far.size, far.complete) == (2, 4, False)
    assert f"{second}: shard 2 of 3 has 2 of 4 items. What resumes it: the same call with shard='2/3'" in _refused(
        tmp_path
    )
    assert score_shard(bakery(12), Asked(), "raw:2", out=tmp_path, shard="2/3").complete
    [work] = merge_all(tmp_path).merged
    assert _facts(work.folder)["attempts"] == 2  # what was tried and paid for is carried over
    assert len((work.folder / ATTEMPTS).read_bytes().splitlines()) == 2
    assert _facts(work.folder)["asked"] == {**_asked(12 + 2), "cost": 14 * 0.25}


def _asked(calls: int) -> dict[str, object]:
    return {
        "answered": calls,
        "kept": 0,
        "attempts": calls,
        "prompt_tokens": 10 * calls,
        "completion_tokens": 2 * calls,
        "unmetered": 0,
    }


def test_a_shard_of_other_work_is_named_with_what_differs(three: Path, tmp_path: Path) -> None:
    _, second, _ = _copy(three, tmp_path / "a")
    shutil.rmtree(second)
    model = Asked()
    model.identity = {"weights": "other"}
    other = score_shard(bakery(12), model, "raw:2", out=tmp_path / "a", shard="2/3")
    said = _refused(tmp_path / "a")
    assert (
        f"{other.folder}: shard 2 of 3 is of another run; it differs in identity (weights: 'other', here nothing)"
        in said
    )
    assert "missing shard 2 of 3" in said
    shutil.rmtree(other.folder)
    reseeded = replace(bakery(12), seed=5)
    score_shard(reseeded, Asked(), "raw:2", out=tmp_path / "a", shard="2/3")
    assert "it differs in benchmark (seed: 5, here 0)" in _refused(tmp_path / "a")


def test_a_shard_twice_is_refused_but_a_copy_is_not(three: Path, tmp_path: Path) -> None:
    first, _, third = _copy(three, tmp_path / "a")
    copies = tmp_path / "copies"
    shutil.copytree(first, copies / first.name)
    merged = merge_all(tmp_path / "a", copies, out=tmp_path / "whole")
    assert (merged.refused, [work.shards for work in merged.merged]) == ([], [3])
    assert load_run(merged.merged[0].folder).complete
    for down in (["i0000", "i0001", "i0002", "i0003", "i0004"], []):  # its attempts are no copy
        score_shard(bakery(12), Asked(down), "raw:2", out=tmp_path / "b", shard="3/3")
    again = next(tmp_path.glob("b/*/*/*"))
    said = _refused(tmp_path / "a", tmp_path / "b")
    assert f"{third} and {again} are both shard 3 of 3, and neither is a copy of the other" in said


def test_shards_of_several_folders_want_a_folder_for_the_whole(three: Path, tmp_path: Path) -> None:
    first, *_ = _copy(three, tmp_path / "a")
    (tmp_path / "b").mkdir()
    first.rename(tmp_path / "b" / first.name)
    assert "wanted -o OUT for the whole" in _refused(tmp_path / "a", tmp_path / "b")
    [work] = merge_all(tmp_path / "a", tmp_path / "b", out=tmp_path / "c").merged
    assert work.folder.relative_to(tmp_path / "c").parts[:2] == ("bakery", "asked")


def test_shards_of_two_divisions_are_refused(three: Path, tmp_path: Path) -> None:
    _copy(three, tmp_path / "a")
    _sharded(bakery(12), tmp_path / "a", 2)
    assert "shards of 2 and of 3; name the folders of one division" in _refused(tmp_path / "a")


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (ROWS, ""),  # which error it is depends on the byte
        (ITEMS, "the file is not as it was written"),
        (INPUTS, "it lacks the input of"),
        ("run.json", ""),
    ],
)
def test_a_damaged_shard_is_named(three: Path, tmp_path: Path, file: str, said: str) -> None:
    _, second, _ = _copy(three, tmp_path / "a")
    content = bytearray((second / file).read_bytes())
    content[len(content) // 2] ^= 1
    (second / file).write_bytes(content)
    told = _refused(tmp_path / "a")
    assert f"{second / file}" in told
    assert not said or said in told


def test_a_row_of_another_shard_is_damage(three: Path, tmp_path: Path) -> None:
    first, second, _ = _copy(three, tmp_path / "a")
    (second / ROWS).write_bytes((second / ROWS).read_bytes() + (first / ROWS).read_bytes().splitlines(keepends=True)[0])
    assert "which is none of this run" in _refused(tmp_path / "a")


def test_a_shard_that_is_being_written_is_not_merged(three: Path, tmp_path: Path) -> None:
    first, *_ = _copy(three, tmp_path / "a")
    lock = lock_folder(first)
    assert "another process is writing shard 1 of 3" in _refused(tmp_path / "a")
    os.close(lock)


def test_a_whole_that_is_there_is_never_overwritten(three: Path, tmp_path: Path) -> None:
    _copy(three, tmp_path / "a")
    half = score(bakery(12), Asked(down=["i0001"]), "raw:2", out=tmp_path / "a")
    assert "holds a run with 11 of 12 items: finish it by the same command" in _refused(tmp_path / "a")
    shutil.rmtree(half.path)
    other = Asked()
    other.moods = {}
    score(bakery(12), other, "raw:2", out=tmp_path / "a")
    assert "holds a run with other rows than those shards" in _refused(tmp_path / "a")


def test_what_is_whole_is_merged_though_something_else_is_refused(three: Path, tmp_path: Path) -> None:
    _copy(three, tmp_path / "a")
    score_shard(bakery(12), Asked(), "none", out=tmp_path / "a", shard="1/2")
    found = merge_all(tmp_path / "a")
    assert [work.shards for work in found.merged] == [3]
    assert len(found.refused) == 1
    assert "bakery × asked × none: missing shard 2 of 2" in found.refused[0]


def test_a_shard_is_never_taken_for_a_run(three: Path, tmp_path: Path) -> None:
    first, *_ = _copy(three, tmp_path / "a")
    for read in (load_run, load_manifest, load_runs, pluralrm.compare):
        with pytest.raises(RunError, match="is shard 1 of 3 of a run, and no run by itself: 'pluralrm merge'"):
            read(first)
    with pytest.raises(RunError, match="is shard 1 of 3 of a run"):
        load_runs(tmp_path / "a")
    [work] = merge_all(tmp_path / "a").merged
    assert find_runs(tmp_path / "a") == [work.folder]  # shards beside their whole are passed over
    with pytest.raises(RunError, match="is shard 1 of 3 of a run"):
        load_runs(first)


def test_the_view_shows_shards_until_they_are_merged(three: Path, tmp_path: Path) -> None:
    from pluralrm.report.view import ReportView, runs_progress

    _copy(three, tmp_path / "a")
    found = runs_progress(tmp_path / "a")
    assert [(run.shard, run.rows, run.items, run.state) for run in found] == [
        (f"shard {index} of 3", 4, 4, "complete") for index in (1, 2, 3)
    ]
    view = ReportView(tmp_path / "a", text=False)
    view.look()
    assert view.version == 0  # nothing to draw
    merge_all(tmp_path / "a")
    assert [(run.shard, run.rows) for run in runs_progress(tmp_path / "a")] == [("", 12)]


# ---------------------------------------------------------------- the command line


def _run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_grid_is_sharded_cell_by_cell(tmp_path: Path) -> None:
    words = ("score", "pocket-prb", "-m", "shortest", "-m", "longest", "-c", "none", "-c", "raw:3", "--limit", 9)
    whole = _run(*words, "-o", tmp_path / "one", "-q")
    assert whole.exit_code == 0, whole.output
    for index in (2, 1):
        said = _run(*words, "-o", tmp_path / "two", "--shard", f"{index}/2")
        assert said.exit_code == 0, said.output
    then = f"with all 2 shards: pluralrm merge {tmp_path}/two\n"
    assert said.stdout == f"shard 1 of 2 of 4 runs: 20 of 20 done, 0 failed\n  {then}"
    done = json.loads(_run("merge", tmp_path / "two", "--json").stdout)
    assert (len(done["merged"]), done["refused"]) == (4, [])
    runs = find_runs(tmp_path / "one")
    assert [run.relative_to(tmp_path / "one") for run in runs] == [
        run.relative_to(tmp_path / "two") for run in find_runs(tmp_path / "two")
    ]
    assert all(_contents(run) == _contents(tmp_path / "two" / run.relative_to(tmp_path / "one")) for run in runs)
    assert _run("compare", tmp_path / "two", "-q").stdout == _run("compare", tmp_path / "one", "-q").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("score", "pocket-prb", "-m", "longest", "--shard", "0/7"), "shard '0/7': wanted I/N with I from 1 to N"),
        (("score", "pocket-prb", "-m", "longest", "--shard", "8/7"), "wanted I/N"),
        (("score", "pocket-prb", "-m", "longest", "--shard", "x"), "wanted I/N"),
        (("merge", "nothing-is-here"), "no shard at or below 'nothing-is-here'"),
    ],
)
def test_slips_are_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = _run(*words)
    assert isinstance(result.exception, PluralrmError)
    assert said in str(result.exception)
    assert not list(tmp_path.rglob("*"))


def test_merge_of_whole_runs_says_that_there_is_no_shard(tmp_path: Path) -> None:
    score(bakery(3), "longest", out=tmp_path)
    with pytest.raises(RunError, match="no shard at or below"):
        pluralrm.merge(tmp_path)


def test_a_missing_shard_is_told_as_the_command_that_makes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["score", "pocket-prb", "-m", "longest", "--shard", "1/2", "-o", str(tmp_path), "--limit", "3"]
    monkeypatch.setattr("sys.argv", ["pluralrm", *words])
    assert _run(*words).exit_code == 0
    result = _run("merge", tmp_path)
    wanted = f"pluralrm score pocket-prb -m longest --shard 2/2 -o {tmp_path} --limit 3"
    assert wanted in str(result.exception)
    assert _run(*wanted.split()[1:]).exit_code == 0
    assert _run("merge", tmp_path).exit_code == 0


# ---------------------------------------------------------------- pools, grades, builds


def test_shards_of_a_pool_and_of_its_grades_are_the_bytes_of_one_process(tmp_path: Path) -> None:
    words = ("sample", "simulated:users=7,items=2", "-p", "simulated", "-n", 3)
    assert _run(*words, "-o", tmp_path / "one").exit_code == 0
    for index in (3, 1, 2):
        said = _run(*words, "-o", tmp_path / "pool", "--shard", f"{index}/3")
        assert said.exit_code == 0, said.output
    shard = tmp_path / "pool.shard-2-of-3"
    for verb in (("grade", shard, "-g", "truth"), ("best-of-n", shard, "-m", "longest", "--grader", "truth")):
        assert "is shard 2 of 3 of a pool" in str(_run(*verb).exception)
    assert _run("merge", tmp_path).exit_code == 0
    for index in (2, 1, 3):
        assert _run("grade", tmp_path / "pool", "-g", "truth", "--shard", f"{index}/3").exit_code == 0
    with pytest.raises(PoolError, match=r"is shard \d of 3 of a set of grades"):
        find_graders(load_pool(tmp_path / "pool"))
    assert _run("merge", tmp_path).exit_code == 0
    assert _run("grade", tmp_path / "one", "-g", "truth").exit_code == 0
    [grades] = find_graders(load_pool(tmp_path / "pool"))
    for name in ("samples.jsonl", f"grades/{grades.name}/grades.jsonl"):
        assert (tmp_path / "pool" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()
    packed = [gzip.decompress((tmp_path / name / "inputs.jsonl.gz").read_bytes()) for name in ("pool", "one")]
    assert packed[0] == packed[1]
    assert load_pool(tmp_path / "pool").content_hash == load_pool(tmp_path / "one").content_hash
    again = json.loads(_run("merge", tmp_path, "--json").stdout)
    assert ([work["new"] for work in again["merged"]], again["refused"]) == ([False, False], [])


def test_python_samples_and_picks_in_shards_what_one_call_does(tmp_path: Path) -> None:
    bench = "simulated:users=6,items=2"
    models: list[RewardModel | str] = ["longest", Asked()]
    one = pluralrm.sample(bench, "simulated", out=tmp_path / "one", n=3)
    expected = pluralrm.best_of_n(one, models, ["none", "raw:2"], grader="truth")
    for part in ("2/3", "3/3", "1/3"):
        far = pluralrm.sample(bench, "simulated", out=tmp_path / "pool", n=3, shard=part)
        assert (far.size, far.complete) == (12, True)
    assert [work.folder for work in pluralrm.merge(tmp_path).merged] == [tmp_path / "pool"]
    for part in ("1/2", "2/2"):
        shards = pluralrm.best_of_n(tmp_path / "pool", models, ["none", "raw:2"], grader="truth", shard=part)
        assert [(shard.size, shard.complete) for shard in shards[:4]] == [(6, True)] * 4  # 12 items of the pool
        assert shards[4].complete
    done = pluralrm.merge(tmp_path / "pool")
    assert (len(done.merged), done.refused) == (5, [])
    model = Asked()
    result = pluralrm.best_of_n(tmp_path / "pool", ["longest", model], ["none", "raw:2"], grader="truth")
    assert model.tally.answered == 0  # all is scored
    assert result.to_dict() == expected.to_dict()


def test_a_shard_of_a_pool_that_differs_or_lacks_samples_is_refused(tmp_path: Path) -> None:
    bench = load_benchmark("simulated:users=4,items=2")
    for index in (1, 2):
        sample_folder(
            bench, "simulated", out=tmp_path / "pool", shard=open_shard(f"{index}/2"), draw=Draw(n=2, seed=index)
        )
    assert "it differs in draw (seed: " in _refused(tmp_path)
    file = tmp_path / "pool.shard-1-of-2" / "samples.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))
    assert "is not what was sampled" in _refused(tmp_path)


@pytest.mark.parametrize("verb", [pytest.param("prb", marks=pytest.mark.slow), "rmgap"])
def test_shards_of_a_build_release_what_one_process_releases(tmp_path: Path, verb: str) -> None:
    words = ("construct", verb, "--demo", "-o")
    assert _run(*words, tmp_path / "one").exit_code == 0
    for index in (2, 3, 1):
        said = _run(*words, tmp_path / "many", "--shard", f"{index}/3")
        assert said.exit_code == 0, said.output
    assert "is shard 1 of 3 of a build" in str(_run("construct", "show", tmp_path / "many.shard-1-of-3").exception)
    assert _run("merge", tmp_path).exit_code == 0
    assert _run(*words, tmp_path / "many").exit_code == 0
    released = [
        {
            str(file.relative_to(tmp_path / name)): file.read_bytes()
            for file in (tmp_path / name / "release").rglob("*.*")
        }
        for name in ("one", "many")
    ]
    assert released[0] == released[1]
    assert json.loads(_run("merge", tmp_path, "--json").stdout)["merged"][0]["new"] is False
    [file] = (tmp_path / "many.shard-2-of-3" / "stages").glob("04-*")
    file.write_bytes(file.read_bytes()[:-40])
    assert "many.shard-2-of-3" in str(_run("merge", tmp_path).exception)


def test_a_merge_that_dies_at_any_file_leaves_no_run_and_the_next_one_finishes(
    three: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _copy(three, tmp_path / "whole")
    [expected] = [_contents(work.folder) for work in merge_all(tmp_path / "whole").merged]
    deaths = 0
    for last in itertools.count(1):
        _copy(three, out := tmp_path / str(last))
        if not _dies(monkeypatch, last, lambda out=out: merge_all(out)):  # type: ignore[misc]
            break
        deaths += 1
        assert [file for file in out.rglob("run.json") if ".shard-" not in file.parent.name] == []
        half = next(out.glob("*/*/*/.merge"), None)
        if half is not None:  # another command neither takes the rows for its own nor loses what they cost
            with pytest.raises(RunError, match=f"is half merged.* completes it: pluralrm merge {out}"):
                score(bakery(12), Asked(), "raw:2", out=out)
            with pytest.raises(RunError, match="is half merged"):
                load_run(half.parent)
        [work] = merge_all(out).merged
        assert _contents(work.folder) == expected
        assert _facts(work.folder)["asked"] == {**_asked(12), "cost": 12 * 0.25}
        assert [file.name for file in work.folder.iterdir() if file.suffix == ".tmp" or file.name == ".merge"] == []
        assert score(bakery(12), Asked(), "raw:2", out=out).complete
    assert deaths == 6  # the note that a merge began, inputs, transcripts, items, rows, run.json


@contextmanager
def _room(most: int) -> Iterator[None]:
    """Let no file grow beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_merge_on_a_full_disk_is_refused_by_name_and_the_next_one_finishes(three: Path, tmp_path: Path) -> None:
    _copy(three, tmp_path / "whole")
    [whole] = [work.folder for work in merge_all(tmp_path / "whole").merged]
    *smaller, _ = sorted({file.stat().st_size for file in whole.iterdir()})
    for most in (1, *filter(None, smaller)):
        _copy(three, out := tmp_path / str(most))
        with _room(most):
            refused = merge_all(out)
        folder = out / whole.relative_to(tmp_path / "whole")
        assert refused.merged == []
        assert [f"cannot write to {folder}: File too large" in line for line in refused.refused] == [True]
        assert not (folder / "run.json").exists()
        [work] = merge_all(out).merged
        assert _contents(work.folder) == _contents(whole)


def _dies(monkeypatch: pytest.MonkeyPatch, last: int, work: Callable[[], object]) -> bool:
    """Do some work that dies as it puts so many files in their place, if there are so many; return whether it died."""
    replace_path, calls = Path.replace, itertools.count(1)

    def dying(path: Path, target: Path) -> Path:
        if next(calls) == last:
            raise SystemExit("killed")
        return replace_path(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", dying)
        try:
            work()
        except SystemExit:
            return True
    return False


@pytest.mark.parametrize("verb", ["sample", "grade"])
def test_a_stopped_merge_of_a_pool_or_of_grades_is_completed_by_a_merge_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    bench, grader = load_benchmark("simulated:users=4,items=2"), open_grader("truth")

    def work(folder: Path, shard: str | None = None) -> object:
        if verb == "grade":
            return grade_pool(load_pool(folder / "pool"), bench, grader, shard=shard)
        return sample_folder(bench, "simulated", out=folder / "pool", shard=open_shard(shard), draw=Draw(n=2))

    def contents(folder: Path) -> dict[str, bytes]:
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.jsonl")}

    if verb == "grade":
        sample_folder(bench, "simulated", out=tmp_path / "0" / "pool", draw=Draw(n=2))
    for index in ("2/2", "1/2"):
        work(tmp_path / "0", index)
    shutil.copytree(tmp_path / "0", tmp_path / "whole")
    merge_all(tmp_path / "whole")
    deaths = 0
    for last in itertools.count(1):
        shutil.copytree(tmp_path / "0", out := tmp_path / str(last))
        if not _dies(monkeypatch, last, lambda out=out: merge_all(out)):  # type: ignore[misc]
            break
        deaths += 1
        if list(out.rglob(".merge")):
            with pytest.raises(PoolError, match=f"is half merged.* completes it: pluralrm merge {out}"):
                work(out)
        assert len(merge_all(out).merged) == 1
        assert contents(out) == contents(tmp_path / "whole")
        work(out)  # complete: nothing is added
        assert contents(out) == contents(tmp_path / "whole")
    assert (
        deaths == {"sample": 4, "grade": 3}[verb]
    )  # the note, inputs, samples, pool.json; the note, grades, grader.json


def merge_parts_of(folder: Path) -> None:
    merge_all(folder)


def test_score_in_place_of_a_merge_that_was_killed_loses_nothing_that_was_paid_for(
    three: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kills, "_server", lambda: multiprocessing.get_context("fork"))
    refused = 0
    for event in itertools.count(1):
        _copy(three, out := tmp_path / str(event) / "runs")
        if not kills.live(merge_parts_of, out, kills.Doom(event, torn=0.5)).killed:
            break
        if any(not (file.parent / "run.json").exists() for file in out.rglob(".merge")):
            refused += 1
            with pytest.raises(RunError, match="is half merged"):
                score(bakery(12), Asked(), "raw:2", out=out)
            [run] = [load_run(work.folder) for work in merge_all(out).merged]
        else:
            run = score(bakery(12), Asked(), "raw:2", out=out)  # nothing was merged: scored, and paid for, again
        assert run.complete
        assert _facts(Path(run.path))["asked"] == {**_asked(12), "cost": 12 * 0.25}
    assert refused >= 10


def test_fresh_starts_over_where_a_merge_was_stopped(three: Path, tmp_path: Path) -> None:
    _copy(three, tmp_path / "a")
    with pytest.MonkeyPatch.context() as patch:
        assert _dies(patch, 6, lambda: merge_all(tmp_path / "a"))
    run = score(bakery(12), Asked(), "raw:2", out=tmp_path / "a", fresh=True)
    assert _facts(Path(run.path))["asked"] == {**_asked(12), "cost": 12 * 0.25}
    assert not (Path(run.path) / ".merge").exists()


def test_rows_without_a_manifest_are_nobodys(tmp_path: Path) -> None:
    run = score(bakery(3), Asked(), "raw:2", out=tmp_path)
    (Path(run.path) / "run.json").unlink()
    with pytest.raises(RunError, match=r"rows\.jsonl: found lines, and no run\.json that says whose they are"):
        score(bakery(3), Asked(), "raw:2", out=tmp_path)
    assert score(bakery(3), Asked(), "raw:2", out=tmp_path, fresh=True).complete


def test_shards_and_a_merge_that_are_killed_at_random_come_to_the_bytes_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kills, "_server", lambda: multiprocessing.get_context("fork"))  # nothing is imported again
    verb = kills.Verb(partial(score_and_merge, items=12), is_merged, prepare=partial(score_one, items=12))
    series = kills.Series("shards", verb, tmp_path, 1)
    series.run(3)
    assert (series.kills, series.findings) == (3, [])
