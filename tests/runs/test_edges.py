"""What the run loop refuses, and what it does where a server answers no more or answers as another model."""

import gzip
import json
import multiprocessing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

import pytest

from pluralrm.conditions import load_condition
from pluralrm.core import Failure, Query, Verdict
from pluralrm.errors import BenchmarkError, ConditionError, ModelError, OutageError, RunError, ServiceError
from pluralrm.folders import file_hash
from pluralrm.http import DryRun, Settings, Tally
from pluralrm.journal import json_line, sealed_line, unsealed_line
from pluralrm.runs import dry_score, last_outage, load_manifest, load_run, load_runs, plan, read_inputs, score, usage
from pluralrm.runs.loop import score_shard
from pluralrm.runs.store import RunFolder, load_shard
from pluralrm.runs.verdicts import check_resumed, confirmed
from pluralrm.runs.workers import WorkerPool, open_scorer
from pluralrm.shards import merge
from tests.builders import Scripted, bakery, edit_json

URL = "http://127.0.0.1:9/v1"


class Served(Scripted):
    """A model behind a server that scores its probes: `now` is what it gives them, None where it cannot be asked."""

    def __init__(self, now: float | None = 1.0, *, keeps: bool = False) -> None:
        super().__init__(spec="served")
        self.now, self.keeps, self.trusted = now, keeps, 0
        self.identity: Mapping[str, str] = {"url": URL}

    @property
    def probes(self) -> Sequence[float]:
        return [1.0]

    def changed(self, earlier: Sequence[float]) -> str:
        if self.now is None:
            raise OutageError("no answer")
        return "" if list(earlier) == [self.now] else f"{earlier} is {self.now} now"

    def forget(self) -> bool:
        return not self.keeps

    def trust(self) -> None:
        self.trusted += 1

    def fits(self, facts: Mapping[str, str]) -> bool:
        return facts.get("url") == URL


def _answered(count: int, *, outage: int = -1) -> Iterator[tuple[Query, Verdict]]:
    for place in range(count):
        scores = (Failure("deadline", "late"), 0.0) if place == outage else (1.0, 0.0)
        yield Query(f"i{place}", "?", ("a", "b")), Verdict(scores)


def test_verdicts_are_kept_once_the_probes_agree() -> None:
    model, given = Served(), list(_answered(7))
    assert list(confirmed(model, iter(given), every=3)) == given
    assert model.trusted == 3
    late = Served()
    assert list(confirmed(late, iter(given), every=100, seconds=5, clock=iter(range(0, 200, 10)).__next__)) == given
    assert late.trusted == 7, "verdicts that come slowly wait no longer than so many seconds"


@pytest.mark.parametrize("keeps", [False, True])
def test_another_model_under_the_same_name_ends_the_run(keeps: bool) -> None:
    found: list[tuple[Query, Verdict]] = []
    with pytest.raises(ServiceError, match=r"another model answers .* is item 'i0'; no row from there on") as told:
        found += confirmed(Served(2.0, keeps=keeps), _answered(4), every=2)
    assert found == []
    assert ("First remove the cache" in str(told.value)) is keeps


def test_verdicts_stay_open_where_the_probes_cannot_be_asked() -> None:
    failed = [verdict.failures for _, verdict in confirmed(Served(None), _answered(3, outage=1))]
    assert [found[0].kind for found in failed] == ["transport", "deadline", "transport"]
    assert len(failed[0]) == 2, "no candidate keeps a score that another model may have given"


def test_a_run_of_another_model_is_not_resumed(tmp_path: Path) -> None:
    score(bakery(4), Served(), out=tmp_path)
    [folder] = [file.parent for file in tmp_path.rglob("run.json")]
    check_resumed(Served(), [1.0], folder)
    with pytest.raises(RunError, match="holds rows of another model under the same name"):
        check_resumed(Served(2.0), [1.0], folder)


def test_a_complete_run_needs_no_server_and_an_unlike_one_is_not_taken_for_it(tmp_path: Path) -> None:
    class Moved(Served):
        def fits(self, facts: Mapping[str, str]) -> bool:
            del facts
            return False

    done = score(bakery(4), Served(), out=tmp_path)
    again = Served(None)
    assert score(bakery(4), again, out=tmp_path, alias="mine").name == "mine"
    assert again.asked == []
    with pytest.raises(OutageError):
        score(bakery(4), Moved(None), out=tmp_path)
    Path(done.path, "rows.jsonl").write_bytes(b"")
    with pytest.raises(OutageError):
        score(bakery(4), Served(None), out=tmp_path)
    assert score(bakery(4), Served(), out=tmp_path).rows == done.rows, "lost rows are scored again"


def test_a_complete_shard_needs_no_server_and_one_of_another_model_is_not_merged(tmp_path: Path) -> None:
    folders = [score_shard(bakery(6), Served(), out=tmp_path, shard=f"{index}/2").folder for index in (1, 2)]
    again = Served(None)
    assert score_shard(bakery(6), again, out=tmp_path, shard="1/2").complete
    assert again.asked == []
    edit_json(Path(folders[1], "run.json"), probes=[2.0])
    [refused] = merge(tmp_path).refused
    assert f"{folders[1]}: another model answered" in refused
    assert "probes (2.0,), there (1.0,)" in refused
    edit_json(Path(folders[1], "run.json"), probes=[1.0])
    [merged] = merge(tmp_path).merged
    assert load_run(merged.folder).done == 6
    with pytest.raises(RunError, match="is no shard"):
        load_shard(merged.folder)


def test_a_dry_run_asks_all_that_is_not_on_disk_and_computes_nothing(tmp_path: Path) -> None:
    dry = DryRun()
    settings = Settings(dry_run=dry)
    bench, shown = bakery(6), load_condition("recent:2", settings=settings)
    judge = f"judge:m,style=pointwise,url={URL}"
    assert dry_score(bench, judge, shown, out=tmp_path, settings=settings) == (0, 6)
    assert dry.requests["m"].calls == 12
    assert dry_score(bench, "longest", shown, out=tmp_path, settings=settings) == (0, 6)
    written = load_condition(f"persona:w,url={URL}", settings=settings)
    dry_score(bench, "longest", written, out=tmp_path, settings=settings)
    assert dry.requests["w"].calls == 6
    score(bench, "longest", shown, out=tmp_path, limit=2)
    assert dry_score(bench, "longest", shown, out=tmp_path, limit=2, settings=settings) == (2, 2)
    assert dry_score(bench, "longest", shown, out=tmp_path, limit=2, fresh=True, settings=settings) == (0, 2)
    assert dry.requests["m"].calls == 12


def test_what_cannot_be_scored_is_refused_by_name(tmp_path: Path) -> None:
    bench = bakery(3)
    prompts = replace(
        bench, items=tuple(replace(item, preferred=None, grades=()) for item in bench.items), content_hash=""
    )
    assert {cell.skip for cell in plan([prompts], ["longest"], ["none"])} == {
        "bakery has prompts only: there is nothing to score"
    }
    with pytest.raises(ConditionError, match="bakery has prompts only"):
        score(prompts, "longest", out=tmp_path)
    with pytest.raises(BenchmarkError, match="limit is 0; wanted at least 1"):
        score(bench, "longest", out=tmp_path, limit=0)

    class Unlabelled(Scripted):
        """Takes the label away while it scores."""

        def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
            for item in bench.items:
                object.__setattr__(item, "grades", ())
            yield from super().score(queries)

    with pytest.raises(BenchmarkError, match="has no label; leave it out"):
        score(bench, Unlabelled(), out=tmp_path)


def test_what_a_model_yields_is_a_verdict(tmp_path: Path) -> None:
    class Numbers(Scripted):
        def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
            for _ in queries:
                yield 1.0  # type: ignore[misc] # a mistake of a user's class

    with pytest.raises(ModelError, match=r"score\(\) yielded float; wanted pluralrm.Verdict"):
        score(bakery(9), Numbers(), out=tmp_path)


def test_the_last_item_may_be_the_one_that_crashes(tmp_path: Path) -> None:
    run = score(bakery(5), Scripted(moods={"i0004": "raise"}), out=tmp_path)
    assert [row.failed for row in run.rows] == [False] * 4 + [True]


# ---------------------------------------------------------------- workers


def test_what_processes_cannot_share_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="several workers need a model that each can load"):
        open_scorer(Scripted(), 2)
    judge = f"judge:m,url={URL}"
    for settings, what in ((Settings(max_cost=1.0), "a highest cost"), (Settings(record=tmp_path), "a recording")):
        with pytest.raises(RunError, match=f"{what} needs one process, found 2 workers"):
            open_scorer(judge, 2, settings)
    pool = open_scorer(judge, 2, Settings())
    assert isinstance(pool, WorkerPool)
    with pytest.raises(KeyError), pool:
        raise KeyError


class _Gone:
    """What a process pool is once a worker has died."""

    def submit(self, *_: object) -> object:
        raise BrokenProcessPool("died")


def test_a_worker_that_dies_ends_the_run_and_not_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = WorkerPool("longest", 2, None)
    monkeypatch.setattr(pool, "_executor", _Gone())
    with pytest.raises(RunError, match="a worker process died; the rows so far are kept"):
        list(pool.verdicts([Query("i", "?", ("a", "b"))]))
    assert not multiprocessing.active_children()


# ---------------------------------------------------------------- files


def _folder(tmp_path: Path) -> Path:
    return Path(score(bakery(4), Scripted(), out=tmp_path).path)


def _lines(file: Path) -> list[str]:
    return [unsealed_line(line).decode() for line in file.read_bytes().splitlines()]


def _rows(folder: Path, *changes: Mapping[str, object]) -> None:
    """Write the first row again, changed, as a line of its own each."""
    first = json.loads(_lines(folder / "rows.jsonl")[0])
    (folder / "rows.jsonl").write_text("".join(json_line({**first, **change}) for change in changes))


def test_counts_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    edit_json(folder / "run.json", rows_hash="")
    _rows(folder, {"candidates": ["a", "b", "c"]})
    with pytest.raises(RunError, match="3 candidates for 2 scores"):
        load_run(folder)
    _rows(folder, {"preferred": None})
    with pytest.raises(RunError, match="neither a preferred candidate nor grades"):
        load_run(folder)


@pytest.mark.parametrize("line", ["{", "[]", '{"item":"i0000"}'])
def test_a_list_of_items_that_another_program_wrote_is_refused_by_its_line(line: str, tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    lines = gzip.decompress((folder / "items.jsonl.gz").read_bytes()).splitlines()
    (folder / "items.jsonl.gz").write_bytes(gzip.compress(b"\n".join([lines[0], line.encode(), *lines[2:]])))
    edit_json(folder / "run.json", items_hash=file_hash(folder / "items.jsonl.gz"))
    with pytest.raises(RunError, match=r"items\.jsonl\.gz:2: "):
        load_run(folder)


def test_more_rows_than_items_are_refused_in_runs_without_a_list_of_items(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    (folder / "items.jsonl.gz").unlink()
    edit_json(folder / "run.json", rows_hash="", items_hash="")
    _rows(folder, *({"item": f"i{place}"} for place in range(5)))
    with pytest.raises(RunError, match=r"found 5 rows, and run.json has 4 items"):
        load_run(folder)


def test_an_item_is_scored_once(tmp_path: Path) -> None:
    done = load_run(_folder(tmp_path))
    with RunFolder(Path(done.path), load_manifest(done.path), items=done.rows) as folder:
        query, row = Query("i0000", "?", ("a", "b")), done.rows[0]
        with pytest.raises(RunError, match="item 'i0000' was scored twice"):
            folder.add(row, query, Verdict((1.0, 0.0)))


def test_an_attempt_is_of_an_item_that_stayed_open(tmp_path: Path) -> None:
    run = score(bakery(3), Scripted(moods={"i0001": "deadline"}), out=tmp_path)
    assert last_outage(run.path) == "deadline: as told"
    file = Path(run.path, "attempts.jsonl")
    file.write_text(sealed_line(_lines(file)[0].replace("deadline", "parse")) + "\n")
    with pytest.raises(RunError, match="found no outage, wanted an item that stayed open"):
        load_run(run.path)
    assert last_outage(_folder(tmp_path / "other")) == ""


def test_runs_of_which_none_has_a_row_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no run at or below"):
        load_runs(tmp_path)
    for name, told in (("one", "1 run, and it has no row yet"), ("two", "2 runs, and none has a row yet")):
        score(bakery(2, name=name), Scripted(moods=dict.fromkeys(["i0000", "i0001"], "deadline")), out=tmp_path)
        with pytest.raises(RunError, match=told):
            load_runs(tmp_path)


@pytest.mark.parametrize(("line", "told"), [("{", "a line cannot be read"), ("[1]", "wanted an item's input")])
def test_inputs_that_are_damaged_are_refused(line: str, told: str, tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    (folder / "inputs.jsonl.gz").write_bytes(gzip.compress(f"{line}\n".encode()))
    with pytest.raises(RunError, match=told):
        list(read_inputs(folder))


def test_a_prompt_with_half_a_letter_is_kept(tmp_path: Path) -> None:
    bench = bakery(2)
    odd = replace(bench, items=(replace(bench.items[0], prompt="rye \ud83c"), bench.items[1]), content_hash="")
    run = score(odd, Scripted(), out=tmp_path)
    assert [record["prompt"] for record in read_inputs(run.path)] == ["rye \ud83c", bench.items[1].prompt]


def test_what_a_server_was_asked_is_on_disk_before_a_run_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done, asked = load_run(_folder(tmp_path)), [Tally()]
    manifest = load_manifest(done.path)
    monkeypatch.setattr(usage, "SYNC_SECONDS", 0.0)
    with RunFolder(Path(done.path), manifest, lambda: asked[0], items=done.rows) as folder:
        asked[0] = Tally(answered=7)
        folder.sync()
        noted = load_manifest(done.path).asked
        assert noted is not None
        assert noted.answered == 7


class Leaving(Scripted):
    """A model that calls sys.exit where it should score."""

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        raise SystemExit(len(list(queries)))


def test_a_model_that_leaves_the_program_stops_its_run_by_name(tmp_path: Path) -> None:
    # Its exit code would have become the command's, without a word.
    with pytest.raises(
        ModelError, match=r"leaves left the program instead of scoring: .*test_edges.py:\d+: SystemExit: 3"
    ):
        score(bakery(3), Leaving(spec="leaves"), "none", out=tmp_path)
