"""Do runs come back whole from files of the common schema, and does each file fit it?"""

import contextlib
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pluralrm.benchmarks import load_benchmark
from pluralrm.core import Benchmark, Failure, User, Verdict
from pluralrm.errors import BenchmarkError, PluralrmError, RunError
from pluralrm.exchange import evaleval
from pluralrm.exchange.evaleval import Publisher, read_leaderboard, write_evaleval
from pluralrm.metrics import measure, summary
from pluralrm.runs import find_runs, load_run, score
from pluralrm.runs.imported import ImportOptions, import_runs
from tests.builders import Scripted, bakery, card, edit_json, empty_run
from tests.exchange.trips import HOSTILE, KEPT, Spoken, back, by_text, cells, numbers, plain, reordered, scored

SCHEMAS = json.loads((Path(__file__).parent / "evaleval.schema.json").read_text())
Cell = tuple[Benchmark, Spoken, str]
many = settings(
    max_examples=10, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def fits(value: object, kind: str) -> None:
    jsonschema.Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": SCHEMAS["$defs"]}).validate(value)


def no_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def checked(files: evaleval.EvalEvalFiles) -> tuple[dict[str, object], list[dict[str, object]]]:
    """Return both files, of which every part fits the schema and the link between them holds."""
    aggregate = json.loads(files.aggregate.read_bytes(), parse_constant=no_constant)
    content = files.instances.read_bytes()
    lines = [json.loads(line, parse_constant=no_constant) for line in content.splitlines()]
    fits(aggregate, "aggregate")
    for line in lines:
        fits(line, "instance")
        assert (line["evaluation_id"], line["model_id"]) == (aggregate["evaluation_id"], aggregate["model_info"]["id"])
        assert line["evaluation_result_id"] in {r["evaluation_result_id"] for r in aggregate["evaluation_results"]}
    details = aggregate["detailed_evaluation_results"]
    assert details["checksum"] == hashlib.sha256(content).hexdigest()
    assert details["total_rows"] == len(lines)
    assert files.instances.as_posix().endswith(details["file_path"])
    return aggregate, lines


@many
@given(cell=cells())
def test_a_run_comes_back_to_the_last_digit(tmp_path_factory: pytest.TempPathFactory, cell: Cell) -> None:
    folder = tmp_path_factory.mktemp("trip")
    run = scored(cell, folder)
    files = write_evaleval(run.path, folder / "out", posts=True)
    aggregate, lines = checked(files)
    for file in files:
        again = back(evaleval, file, cell[0], folder, form="evaleval")
        assert plain(again.rows) == plain(run.rows)
        assert numbers(again) == numbers(run)
        assert (again.complete, again.failed) == (run.complete, run.failed)
    other_order = reordered(cell[0])
    again = back(evaleval, files.aggregate, other_order, folder, form="evaleval")
    assert by_text(again, other_order) == by_text(run, cell[0])
    assert numbers(again) == numbers(run)
    stated = {r["evaluation_name"]: r["score_details"]["score"] for r in aggregate["evaluation_results"]}  # type: ignore[attr-defined]
    assert stated[f"{run.benchmark}.accuracy"] == numbers(run)["accuracy"][0]
    failed = [bool(line.get("error")) for line in lines]
    assert failed == [row.failed for row in run.rows]
    assert not any(line["evaluation"]["score"] for line in lines if line.get("error"))  # type: ignore[index]


@many
@given(cell=cells())
def test_nothing_of_a_user_leaves_unless_allowed(tmp_path_factory: pytest.TempPathFactory, cell: Cell) -> None:
    folder = tmp_path_factory.mktemp("private")
    bench, _, condition = cell
    run = scored(cell, folder)
    files = write_evaleval(run.path, folder / "out")
    checked(files)
    again = back(evaleval, files.aggregate, bench, folder, form="evaleval")
    if condition != "none":
        assert KEPT not in files.aggregate.read_text() + files.instances.read_text()
        assert plain(again.rows, lambda _: "") == plain(run.rows, lambda _: "")
    else:  # no model was shown anything of the user; what it says is its own
        assert plain(again.rows) == plain(run.rows)
    assert numbers(again) == numbers(run)


def test_an_item_that_a_run_left_open_stays_open(tmp_path: Path) -> None:
    bench = bakery(3)
    left = bench.items[1].id
    run = score(bench, Scripted(moods={left: "transport"}), "recent:1", out=tmp_path / "own")
    again = back(evaleval, write_evaleval(run.path, tmp_path / "out").aggregate, bench, tmp_path, form="evaleval")
    assert (run.complete, again.complete) == (False, False)
    assert [row.item for row in again.rows if row.open] == [left]
    assert numbers(again) == numbers(run)


@pytest.mark.parametrize("name", ["pocket-prb", "pocket-rmgap"])
@pytest.mark.parametrize("model", ["longest", "bm25", "random"])
def test_shipped_benchmarks_travel_with_their_intervals(tmp_path: Path, name: str, model: str) -> None:
    bench = load_benchmark(name)
    run = score(bench, model, out=tmp_path / "own")
    files = write_evaleval(run.path, tmp_path / "out", Publisher("a lab", "third_party"))
    aggregate, _ = checked(files)
    assert aggregate["source_metadata"]["source_organization_name"] == "a lab"  # type: ignore[index]
    results = {r["metric_config"]["metric_name"]: r["score_details"] for r in reversed(aggregate["evaluation_results"])}  # type: ignore[call-overload]
    for metric, estimate in summary(run).metrics.items():
        uncertainty = results[metric]["uncertainty"]
        interval = uncertainty.get("confidence_interval", {})
        assert (results[metric]["score"], uncertainty["num_samples"]) == (estimate.value, estimate.n)
        assert (interval.get("lower"), interval.get("upper")) == (estimate.low, estimate.high)
    again = back(evaleval, files.aggregate, bench, tmp_path, form="evaleval")
    assert numbers(again) == numbers(run)
    assert (
        write_evaleval(run.path, tmp_path / "twice", Publisher("a lab", "third_party")).aggregate.name == files[0].name
    )
    table = read_leaderboard([files.aggregate])
    assert table.cells[model][f"pluralrm: {name}.{summary(run).headline}"] == repr(measure(run).value)


def test_trained_models_stay_marked_and_open_items_stay_open(tmp_path: Path) -> None:
    bench = bakery(6)
    run = score(bench, Scripted(moods={"i0003": "transport"}), "recent:2", out=tmp_path / "own")
    edit_json(Path(run.path) / "run.json", training={"told": "x", "curve": [], "met": ["trained on 3 of its users"]})
    files = write_evaleval(run.path, tmp_path / "out", posts=True)
    header = evaleval.read_header(files.aggregate)
    assert (header.condition, header.trained) == ("recent:2", ("trained on 3 of its users",))
    assert evaleval.read_header(files.instances) == header._replace(model="unknown/scripted")
    options = ImportOptions("x", condition=header.condition, trained=header.trained)
    formats = {"evaleval": evaleval.FORMAT}
    [again] = import_runs("evaleval", [files.aggregate], bench, options, out=tmp_path / "back", formats=formats)
    assert again.trained == header.trained
    assert "trained on 3 of its users" in measure(again).method
    assert (again.complete, again.done, again.items) == (False, 5, 6)
    assert again.rows[3].scores == run.rows[3].scores == (Failure("transport", "as told"),) * 2
    assert [row.posts for row in again.rows] == [row.posts for row in run.rows]
    assert again.rows[0].posts == 2


def test_a_file_of_others_is_read_by_choice_and_refused_where_it_does_not_fit(tmp_path: Path) -> None:
    bench = bakery(4)

    def line(number: int, **changes: object) -> dict[str, object]:
        item = bench.items[number]
        own: dict[str, object] = {
            "sample_id": item.id,
            "model_id": "org/theirs",
            "input": {
                "raw": item.prompt,
                "reference": [item.candidates[item.best[0]]],
                "choices": item.candidates[::-1],
            },
            "answer_attribution": [],
            "evaluation": {"score": 0.0},
        }
        return own | changes

    def answer(text: str) -> list[dict[str, object]]:
        return [{"extracted_value": text, "is_terminal": True}]

    def read(*lines: dict[str, object]) -> list[tuple[object, ...]]:
        file = tmp_path / "theirs_samples.jsonl"
        file.write_text("".join(json.dumps(each) + "\n" for each in lines))
        return [row.scores for row in back(evaleval, file, bench, tmp_path, form="evaleval").rows]

    first, second, third = bench.items[:3]
    rows = read(
        line(0, answer_attribution=answer("A")),  # the first choice there, the last candidate here
        line(1, answer_attribution=answer(second.candidates[0])),
        line(2, evaluation={"score": 0.0, "is_correct": False}),
        line(3, error="timeout"),
    )
    wrong = tuple(float(n not in third.best) for n in range(2))
    assert rows[:3] == [(0.0, 1.0), (1.0, 0.0), wrong]
    assert rows[3] == (Failure("crash", "timeout"),) * 2
    whole = [line(n) for n in range(4)]
    for changes, message in (
        ({"answer_attribution": answer("A"), "evaluation": {"is_correct": first.best[0] == 0}}, "correct: found"),
        ({"sample_id": "i9"}, "wanted an item of bakery"),
        ({"answer_attribution": answer("Z")}, "wanted the letter, name or text of a choice"),
        ({"input": {"choices": ["x", "y"]}}, "choices: found other answers"),
        ({"input": {"choices": first.candidates, "reference": [first.candidates[1 - first.best[0]]]}}, "as right in"),
        ({"metadata": {"pluralrm": "0.3.0", "item": "i0000"}}, "wanted the row of an item"),
    ):
        with pytest.raises(PluralrmError, match=re.escape(message)):
            read(line(0, **changes), *whole[1:])


def test_equal_candidates_in_another_order_are_refused(tmp_path: Path) -> None:
    [item, *rest] = bakery(3, width=3).items
    twins = replace(item, candidates=("same", "same", "othr"), candidate_ids=(), preferred=0, grades=())
    bench = Benchmark(card("twins"), (twins, *rest))
    files = write_evaleval(score(bench, Scripted(), out=tmp_path / "own").path, tmp_path / "out")
    assert back(evaleval, files.aggregate, bench, tmp_path, form="evaleval").rows[0].scores == (4.0, 4.0, 4.0)
    moved = replace(twins, candidates=("othr", "same", "same"), preferred=1)
    with pytest.raises(PluralrmError, match="choices: found equal ones in another order"):
        back(evaleval, files.aggregate, Benchmark(bench.card, (moved, *rest)), tmp_path, form="evaleval")


def test_a_file_of_another_benchmark_or_an_edited_one_is_refused(tmp_path: Path) -> None:
    bench = bakery(4)
    run = score(bench, Scripted(), out=tmp_path / "own")
    files = write_evaleval(run.path, tmp_path / "out")
    item = bench.items[0]
    other = replace(item, preferred=1 - item.best[0], grades=())
    with pytest.raises(PluralrmError, match="other labels or texts than 'i0000' has"):
        back(evaleval, files.aggregate, Benchmark(bench.card, (other, *bench.items[1:])), tmp_path, form="evaleval")
    files.instances.write_text(files.instances.read_text().replace("i0000", "i0001", 1))
    with pytest.raises(BenchmarkError, match="another SHA-256"):
        back(evaleval, files.aggregate, bench, tmp_path, form="evaleval")
    edit_json(files.aggregate, detailed_evaluation_results={})
    with pytest.raises(BenchmarkError, match="import leaderboard"):
        back(evaleval, files.aggregate, bench, tmp_path, form="evaleval")
    empty_run(Path(run.path))
    with pytest.raises(RunError, match="no row yet"):
        write_evaleval(run.path, tmp_path / "none")


@pytest.mark.parametrize("posts", [False, True])
def test_traits_by_which_people_are_grouped_stay_unless_allowed(tmp_path: Path, posts: bool) -> None:
    plainly = bakery(4)
    people = [User(item.cluster, traits={"age": f"years {n % 2}"}) for n, item in enumerate(plainly.items)]
    items = [replace(item, user=user) for item, user in zip(plainly.items, people, strict=True)]
    bench = Benchmark(plainly.card, tuple(items))
    run = score(bench, Scripted(), out=tmp_path / "own")
    assert run.rows[0].tags["trait:age"] == "years 0"
    files = write_evaleval(run.path, tmp_path / "out", posts=posts)
    assert ("years 0" in files.instances.read_text()) == posts
    assert plain(back(evaleval, files.aggregate, bench, tmp_path, form="evaleval").rows) == plain(run.rows)


def test_no_path_of_this_machine_is_in_the_files(tmp_path: Path) -> None:
    bench = bakery(3)
    run = score(bench, Scripted(spec=f"hf:{tmp_path}/models/rm-7b"), out=tmp_path / "own")
    files = write_evaleval(run.path, tmp_path / "out")
    assert str(tmp_path) not in files.aggregate.read_text() + files.instances.read_text()
    assert tmp_path.name not in str(files.aggregate.relative_to(tmp_path))
    assert evaleval.read_header(files.aggregate).model == "hf:rm-7b"


def test_the_schema_refuses_what_it_should() -> None:
    with pytest.raises(jsonschema.ValidationError):
        fits({"schema_version": "0.3.0"}, "aggregate")
    with pytest.raises(jsonschema.ValidationError):
        fits({"schema_version": "0.3.0", "metadata": {"n": 1}}, "instance")


ODD = [None, 3, "x", "..", "", [], [1], {}, {"a": 1}, True, 1e999, HOSTILE]


@settings(max_examples=15)
@given(data=st.data())
def test_whatever_a_file_holds_it_is_a_run_or_one_of_our_errors(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp() / "odd"
    bench = bakery(3)
    if not (folder / "own").exists():
        score(bench, Scripted(), "recent:1", out=folder / "own")
    [path] = find_runs(folder / "own")
    files = write_evaleval(path, folder / "out")
    aggregate = data.draw(st.booleans())
    file = files[not aggregate]
    lines = [json.loads(text) for text in ([file.read_text()] if aggregate else file.read_text().splitlines())]
    holder = lines[data.draw(st.integers(0, len(lines) - 1))]
    for _ in range(data.draw(st.integers(0, 2))):  # a member of a member
        inner = [value for value in holder.values() if isinstance(value, dict) and value]
        holder = data.draw(st.sampled_from(inner)) if inner else holder
    holder[data.draw(st.sampled_from(sorted(holder)))] = data.draw(st.sampled_from(ODD))
    file.write_text("\n".join(map(json.dumps, lines)) + "\n")
    with contextlib.suppress(PluralrmError):
        assert len(back(evaleval, file, bench, folder, form="evaleval").rows) == 3


def test_a_partly_failed_item_keeps_its_scores(tmp_path: Path) -> None:
    bench = bakery(3, width=3)
    verdicts = {item.id: Verdict((0.1, Failure("parse", "what"), 0.3)) for item in bench.items}
    run = score(bench, Spoken(verdicts), out=tmp_path / "own")
    again = back(evaleval, write_evaleval(run.path, tmp_path / "out").instances, bench, tmp_path, form="evaleval")
    assert load_run(again.path).rows[2].scores == (0.1, Failure("parse", "what"), 0.3)
