"""Are runs made of other people's files the runs that made the files?"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pluralrm.benchmarks import load_benchmark
from pluralrm.core import Benchmark, Failure, Run
from pluralrm.errors import ConditionError, PluralrmError, RowError, RunError, SpecError
from pluralrm.metrics import leaderboard, paired_difference, personalization, published, summary, with_ties
from pluralrm.runs import load_run, load_runs, read_inputs, score
from pluralrm.runs.formats import FORMATS
from pluralrm.runs.imported import NOTE, ImportOptions, import_runs, read_verdicts
from tests.builders import edit_json
from tests.runs import published as files

Make = Callable[[Benchmark, Run], list[files.Json]]

KEEPING: dict[str, tuple[str, Make, Benchmark]] = {
    "by name": ("scores", files.scores_file, files.uneven()),
    "by number": ("scores", files.numbered_file, files.uneven()),
    "several right": ("rewardbench2", files.rewardbench2_file, files.uneven(best=3)),
    "one of ten": ("rewardmath", files.rewardmath_file, files.uneven(20, widths=(10, 7))),
    "two orders": ("judgebench", files.judgebench_file, files.pairs()),
}
"""Formats that keep scores."""


def _original(bench: Benchmark, folder: Path, seed: int, **model: float) -> Run:
    return score(bench, files.Seeded(seed, **model, spec=f"seeded-{seed}"), out=folder / "own")


@pytest.mark.parametrize("shape", KEEPING)
@settings(max_examples=3)
@given(seed=st.integers(0, 10**6), failures=st.sampled_from([0.0, 0.3]))
def test_what_a_run_says_comes_back_bit_by_bit(
    tmp_path_factory: pytest.TempPathFactory, shape: str, seed: int, failures: float
) -> None:
    form, make, bench = KEEPING[shape]
    failures *= form != "judgebench"  # there a failure is a null decision
    folder = tmp_path_factory.mktemp("trip")
    own, other = (_original(bench, folder, seed + i, failures=failures) for i in (0, 1))
    file = files.write(folder / "theirs.jsonl", make(bench, own), shuffle=seed)
    [run] = import_runs(form, [file], bench, out=folder / "runs")
    for mine, theirs in zip(own.rows, run.rows, strict=True):
        numbers = [None if isinstance(score, Failure) else score for score in mine.scores]
        assert numbers == [None if isinstance(score, Failure) else score for score in theirs.scores]
        assert replace(theirs, scores=mine.scores, input_hash=mine.input_hash) == mine
    for rule in ("share", "lose", "win"):
        before, after = (summary(with_ties(each, rule)).metrics for each in (own, run))
        assert {name: replace(e, method="") for name, e in before.items()} == {
            name: replace(e, method="") for name, e in after.items()
        }
    test, same = paired_difference(other, own), paired_difference(other, run)
    assert (test.p, test.difference.value, test.difference.low) == (same.p, same.difference.value, same.difference.low)
    assert run.imported in same.difference.method
    assert run.imported not in test.difference.method


def test_an_imported_run_says_what_it_is_and_loads_again(tmp_path: Path) -> None:
    bench = files.uneven()
    own = _original(bench, tmp_path, 1)
    file = files.write(tmp_path / "theirs.jsonl", files.scores_file(bench, own))
    how = ImportOptions("skywork", "a lab", "https://example.org/x", "c0ffee")
    [run] = import_runs("scores", [file], bench, how, out=tmp_path / "runs")
    assert (run.model, run.name, run.condition, run.complete, run.whole) == (
        "imported:skywork",
        "skywork (imported)",
        "none",
        True,
        True,
    )
    assert run.imported.startswith("imported from theirs.jsonl (sha256 ")
    assert run.imported.endswith("), scored by a lab")
    [again] = import_runs("scores", [file], bench, how, out=tmp_path / "runs")
    assert again.rows == run.rows == load_run(run.path).rows
    record = json.loads((Path(run.path) / "run.json").read_text())["source"]
    assert (record["format"], record["url"], record["commit"]) == ("scores", "https://example.org/x", "c0ffee")
    assert all(run.imported in estimate.method for estimate in summary(run).metrics.values())
    assert {record["item"]: record["notes"] for record in read_inputs(run.path)} == {
        row.item: [NOTE] for row in run.rows
    }


def test_another_file_does_not_take_the_place_of_the_first(tmp_path: Path) -> None:
    bench = files.uneven()
    for seed in (1, 2):
        files.write(tmp_path / f"{seed}.jsonl", files.scores_file(bench, _original(bench, tmp_path, seed)))
    how = ImportOptions("m")
    [first] = import_runs("scores", [tmp_path / "1.jsonl"], bench, how, out=tmp_path / "runs")
    with pytest.raises(RunError, match="another source"):
        import_runs("scores", [tmp_path / "2.jsonl"], bench, how, out=tmp_path / "runs")
    [second] = import_runs("scores", [tmp_path / "2.jsonl"], bench, how, out=tmp_path / "runs", fresh=True)
    assert (second.path, second.rows == first.rows) == (first.path, False)


@pytest.mark.parametrize("fresh", [False, True])
def test_nothing_is_scored_into_an_imported_folder(tmp_path: Path, fresh: bool) -> None:
    bench = files.uneven()
    file = files.write(tmp_path / "theirs.jsonl", files.scores_file(bench, _original(bench, tmp_path, 1)))
    [run] = import_runs("scores", [file], bench, out=tmp_path / "runs")
    with pytest.raises(RunError, match="holds a run imported from"):
        score(bench, files.Seeded(1, spec=run.model), out=tmp_path / "runs", fresh=fresh)
    assert load_run(run.path).rows == run.rows
    with pytest.raises(SpecError, match="there is no model to ask"):
        score(bench, run.model, out=tmp_path / "runs")


# ---------------------------------------------------------------- what does not fit


def _refused(tmp_path: Path, bench: Benchmark, rows: Sequence[files.Json], form: str = "scores", **how: object) -> str:
    file = files.write(tmp_path / "theirs.jsonl", rows)
    with pytest.raises(PluralrmError) as caught:
        import_runs(form, [file], bench, ImportOptions(**how), out=tmp_path / "runs")  # type: ignore[arg-type]
    assert not (tmp_path / "runs").exists()
    return str(caught.value)


def test_ids_that_the_benchmark_has_not_are_all_counted(tmp_path: Path) -> None:
    bench = files.uneven()
    rows = files.scores_file(bench, _original(bench, tmp_path, 1))
    wrong = [dict(row, item=f"x{row['item']}") for row in rows]
    message = _refused(tmp_path, bench, wrong)
    assert "wanted an item of uneven" in message
    assert f"({len(rows)} rows refused; the first 10 are shown)" in message
    few = _refused(tmp_path, bench, [*rows, {"item": "i7x", "candidate": "chosen0", "score": 1}])
    assert "found 'i7x', wanted an item of uneven. Did you mean 'i7'" in few


def test_a_second_score_and_a_missing_one_are_refused_by_name(tmp_path: Path) -> None:
    bench = files.uneven()
    rows = files.scores_file(bench, _original(bench, tmp_path, 1))
    assert "found candidate 'chosen0' of 'i3' again" in _refused(
        tmp_path, bench, [*rows, {"item": "i3", "candidate": "chosen0", "score": 9}]
    )
    fewer = [row for row in rows if (row["item"], row["candidate"]) != ("i3", "rejected4")]
    assert "scores of 11 of the 12 candidates of 'i3'" in _refused(tmp_path, bench, fewer)
    other = _refused(tmp_path, bench, [*rows, {"item": "i3", "candidate": "nobody", "score": 9}])
    assert "found 'nobody', wanted one of chosen0, rejected0, rejected1" in other
    lists = files.rewardbench2_file(bench, _original(bench, tmp_path, 1))
    assert "'i3' again" in _refused(tmp_path, bench, [*lists, lists[3]], "rewardbench2")
    short = [dict(row, scores=row["scores"][:2]) for row in lists]  # type: ignore[index]
    assert "wanted 12, one for each candidate of 'i3'" in _refused(tmp_path, bench, short, "rewardbench2")


def test_a_file_that_calls_other_answers_right_is_of_another_benchmark(tmp_path: Path) -> None:
    bench = files.uneven(best=2)
    lists = files.rewardbench2_file(bench, _original(bench, tmp_path, 1))
    assert "found chosen0 as right in" in _refused(
        tmp_path, bench, [dict(row, num_correct=1) for row in lists], "rewardbench2"
    )
    two = files.pairs()
    judged = files.judgebench_file(two, _original(two, tmp_path, 1))
    assert "A as right in 'p" in _refused(tmp_path, two, [dict(row, label="A>B") for row in judged], "judgebench")


def test_half_of_the_items_are_refused_or_every_number_says_so(tmp_path: Path) -> None:
    bench = files.uneven()
    own = _original(bench, tmp_path, 1)
    half = {item.id for item in bench.items[::2]}
    rows = [row for row in files.scores_file(bench, own) if row["item"] in half]
    assert "20 of 40 items of uneven are missing: 'i1', 'i3', 'i5', ..." in _refused(tmp_path, bench, rows)
    file = files.write(tmp_path / "theirs.jsonl", rows)
    [run] = import_runs("scores", [file], bench, ImportOptions(partial=True), out=tmp_path / "runs")
    assert (run.whole, len(run.rows)) == (False, 20)
    assert all("20 of the 40 items" in estimate.method for estimate in summary(run).metrics.values())
    with pytest.raises(PluralrmError, match="20 items"):
        paired_difference(own, run)
    with pytest.raises(PluralrmError, match="20 items"):
        leaderboard([own, run])
    all_of_it = files.write(tmp_path / "all.jsonl", files.scores_file(bench, own))
    [whole] = import_runs("scores", [all_of_it], bench, ImportOptions(partial=True), out=tmp_path / "runs")
    assert whole.whole
    assert "items" not in whole.imported


@pytest.mark.parametrize("form", ["lines", "list"])
def test_a_number_that_is_none_fails_its_item_and_no_other(tmp_path: Path, form: str) -> None:
    bench = files.uneven(8)
    rows = [dict(row) for row in files.rewardbench2_file(bench, _original(bench, tmp_path, 1))]
    for number, word in {1: "NaN", 2: "Infinity", 3: "null"}.items():
        rows[number]["scores"][0] = word  # type: ignore[index]
    text = json.dumps(rows) if form == "list" else "".join(json.dumps(row) + "\n" for row in rows)
    file = tmp_path / "theirs.json"
    file.write_text(re.sub('"(NaN|Infinity|null)"', r"\1", text))
    [run] = import_runs("rewardbench2", [file], bench, out=tmp_path / "runs")
    failed = {row.item: {score.kind for score in row.scores if isinstance(score, Failure)} for row in run.rows}
    assert {item: kinds for item, kinds in failed.items() if kinds} == {
        "i1": {"nonfinite"},
        "i2": {"nonfinite"},
        "i3": {"empty"},
    }
    assert summary(run).metrics["accuracy"].failed == 3


def test_lift_and_gain_of_imported_runs_say_so(tmp_path: Path) -> None:
    bench = files.uneven(60, widths=(2,))
    half = {item.id for item in bench.items[::2]}
    for condition, seed in {"none": 1, "raw:10": 2, "swapped:10": 3}.items():
        rows = [row for row in files.scores_file(bench, _original(bench, tmp_path, seed)) if row["item"] in half]
        file = files.write(tmp_path / f"{seed}.jsonl", rows)
        how = ImportOptions("m", condition=condition, partial=True)
        import_runs("scores", [file], bench, how, out=tmp_path / "runs")
    [result] = personalization(load_runs(tmp_path / "runs"))
    for estimate in (result.lift, result.gain):
        assert estimate is not None
        assert "30 of the 60 items" in estimate.method
        assert "raw:10 is declared, not verified" in estimate.method


def test_a_candidate_without_a_name_cannot_be_matched(tmp_path: Path) -> None:
    bench = files.uneven()
    rows = files.scores_file(bench, _original(bench, tmp_path, 1))
    bare = Benchmark(bench.card, tuple(replace(item, candidate_ids=()) for item in bench.items))
    assert "whose candidates have no names" in _refused(tmp_path, bare, rows)


def test_scores_of_prompts_without_a_label_are_refused(tmp_path: Path) -> None:
    bench = files.uneven()
    bare = Benchmark(bench.card, tuple(replace(item, preferred=None, grades=()) for item in bench.items))
    rows = files.scores_file(bench, _original(bench, tmp_path, 1))
    assert "has prompts only: no score of theirs could be right or wrong" in _refused(tmp_path, bare, rows)


def test_a_condition_is_declared_and_says_so(tmp_path: Path) -> None:
    bench = files.uneven()
    file = files.write(tmp_path / "theirs.jsonl", files.scores_file(bench, _original(bench, tmp_path, 1)))
    for text, reveals in {"raw:10": {"posts"}, "swapped:10": {"other_posts"}, "file:persona": {"posts"}}.items():
        [run] = import_runs("scores", [file], bench, ImportOptions(condition=text), out=tmp_path / "runs")
        assert (run.condition, set(run.reveals)) == (text, reveals)
        assert f"{text} is declared, not verified" in run.imported
    [written] = import_runs("scores", [file], bench, ImportOptions(condition="persona:m"), out=tmp_path / "runs")
    assert written.reveals == {"posts"}, "what a chat model wrote of the posts, though none is asked here"
    for text in ("rwa:10", "python:a:b", "file:"):
        with pytest.raises((ConditionError, SpecError)):
            import_runs("scores", [file], bench, ImportOptions(condition=text), out=tmp_path / "runs")


def test_a_run_of_before_imports_has_no_source(tmp_path: Path) -> None:
    bench = files.uneven()
    own = _original(bench, tmp_path, 1)
    record = json.loads((Path(own.path) / "run.json").read_text())
    del record["source"]
    (Path(own.path) / "run.json").write_text(json.dumps({key: record[key] for key in record if key != "check"}))
    assert load_run(own.path).imported == ""
    assert _original(bench, tmp_path, 1).rows == own.rows
    edit_json(Path(own.path) / "run.json", schema=1)


# ---------------------------------------------------------------- formats that say less, or more


def _scores(
    bench: Benchmark, folder: Path, form: str, rows: list[files.Json], *, steps: str = ""
) -> dict[str, dict[str, object]]:
    """Return what each run of a file gives each candidate, by item."""
    parts = read_verdicts(form, [files.write(folder / "f.jsonl", rows)], bench, partial=True, steps=steps)
    items = {item.id: item for item in bench.items}
    return {
        f"{part.judge}{name}": dict(zip(items[name].candidate_ids, verdict.scores, strict=True))
        for part in parts
        for name, verdict in part.verdicts.items()
    }


def test_choices_wins_and_ties(tmp_path: Path) -> None:
    bench = files.pairs()
    rows: list[files.Json] = [
        {"item": "p1", "choice": "B"},
        {"item": "p2", "choice": 0},
        {"item": "p3", "choice": "tie"},
        {"item": "p4", "choice": None},
        {"item": "p5", "win": True},
        {"item": "p6", "win": False},
        {"item": "p7", "win": 0.5},
    ]
    scores = _scores(bench, tmp_path, "choices", rows)
    assert scores["p1"] == {"A": 0, "B": 1}
    assert scores["p2"] == {"A": 1, "B": 0}
    assert scores["p3"] == scores["p7"] == {"A": 0, "B": 0}
    assert all(isinstance(score, Failure) for score in scores["p4"].values())
    right = {item.id: item.candidate_ids[item.best[0]] for item in bench.items}
    assert scores["p5"][right["p5"]] == 1
    assert scores["p6"][right["p6"]] == 0
    several = files.uneven()
    assert "which candidate was chosen" in _refused(tmp_path, several, [{"item": "i3", "win": False}], "choices")
    assert "found 0.7, wanted true, false, or 0.5" in _refused(tmp_path, bench, [{"item": "p1", "win": 0.7}], "choices")
    both: files.Json = {"item": "p1", "choice": "B", "win": True}
    assert "win: found a choice beside it, wanted one of the two" in _refused(tmp_path, bench, [both], "choices")


@pytest.mark.parametrize("steps", ["product", "min", "mean"])
def test_steps_of_a_process_model_become_one_score(tmp_path: Path, steps: str) -> None:
    bench, rng = files.uneven(4, widths=(10,)), Random(steps)
    lists = {
        item.id: [[rng.randrange(1, 64) / 64 for _ in range(rng.randrange(1, 9))] for _ in range(10)]
        for item in bench.items
    }
    lists["i2"][4] = []
    rows: list[files.Json] = [{"problem": item.prompt, "score": lists[item.id]} for item in bench.items]
    assert "wanted --steps product, min, mean" in _refused(tmp_path, bench, rows, "rewardmath")
    scores = _scores(bench, tmp_path, "rewardmath", rows, steps=steps)

    by_id: list[files.Json] = [{"id": item.id, "score": lists[item.id]} for item in bench.items]
    assert _scores(bench, tmp_path, "rewardmath", by_id, steps=steps) == scores
    assert "found neither id nor problem, wanted one" in _refused(tmp_path, bench, [{"score": [1.0]}], "rewardmath")

    def by_hand(parts: list[Fraction]) -> Fraction:
        return {"product": Fraction(prod(parts)), "min": min(parts), "mean": sum(parts, Fraction()) / len(parts)}[steps]

    for item in bench.items:
        for name, numbers in zip(files.source_order(item), lists[item.id], strict=True):
            if not numbers:
                assert isinstance(scores[item.id][name], Failure)
            else:
                exact = by_hand([Fraction(number) for number in numbers])
                assert scores[item.id][name] == pytest.approx(float(exact), abs=1e-12)


def test_two_orders_are_votes_and_ties_stay_ties(tmp_path: Path) -> None:
    bench = files.pairs()

    def row(item: str, *decisions: str | None) -> files.Json:
        return {"pair_id": item, "judgments": [d and {"judgment": {"response": "x"}, "decision": d} for d in decisions]}

    rows = [row("p1", "A>B", "B>A"), row("p2", "A>B", "A>B"), row("p3", "A=B", "B>A"), row("p4", "A>B", None)]
    scores = _scores(bench, tmp_path, "judgebench", [*rows, row("p5", "B>A")])
    assert scores["p1"] == {"A": 1, "B": 0}
    assert scores["p2"] == {"A": 0.5, "B": 0.5}
    assert scores["p3"] == {"A": 0.5, "B": 0.5}
    assert all(isinstance(score, Failure) for score in scores["p4"].values())
    assert scores["p5"] == {"A": 0, "B": 1}
    file = files.write(tmp_path / "f.jsonl", rows)
    [part] = read_verdicts("judgebench", [file], bench, partial=True)
    a, b = (next(item for item in bench.items if item.id == "p2").candidate_ids.index(name) for name in "AB")
    assert part.verdicts["p2"].votes == (((a, b), str(a)), ((b, a), str(b)))
    assert [vote.outcome for vote in part.verdicts["p4"].votes][1] == "parse"
    thrice = _refused(tmp_path, bench, [row("p1", "A>B", "B>A", "A>B")], "judgebench")
    assert "judgments: found 3 of them, wanted one, or two in both orders" in thrice


def test_rankings_and_picks_in_several_orders(tmp_path: Path) -> None:
    bench = files.uneven(4, widths=(3,))
    names = ["chosen0", "rejected0", "rejected1"]
    rows: list[files.Json] = [
        {"item": "i0", "order": names, "ranking": "C>A>B"},
        {"item": "i0", "order": names[::-1], "ranking": ["rejected1", "chosen0", "rejected0"]},
        {"item": "i1", "order": [2, 0, 1], "pick": "A"},
        {"item": "i2", "order": names, "ranking": "A=B>C"},
        {"item": "i3", "order": names, "ranking": "A=B=C"},
        {"item": "i0", "order": names, "pick": "A", "variant": "inverted"},
        {"item": "i1", "order": names, "ranking": "A>B>C", "variant": "inverted"},
        {"item": "i2", "order": names, "variant": "inverted"},
    ]
    scores = _scores(bench, tmp_path, "listwise", rows)
    assert scores["i0"] == {"rejected1": 1.0, "chosen0": 0.5, "rejected0": 0.0}
    assert scores["i1"] == {"rejected1": 1.0, "chosen0": 0.25, "rejected0": 0.25}
    assert scores["i2"] == {"chosen0": 0.75, "rejected0": 0.75, "rejected1": 0.0}
    assert set(scores["i3"].values()) == {0.5}
    assert scores["invertedi0"] == {"chosen0": 0.0, "rejected0": 0.75, "rejected1": 0.75}
    assert scores["invertedi1"] == {"chosen0": 0.0, "rejected0": 0.5, "rejected1": 1.0}
    assert all(isinstance(score, Failure) for score in scores["invertedi2"].values())
    for bad in ({"order": names[:2], "pick": "A"}, {"order": names, "ranking": "A>B"}, {"order": names, "pick": "D"}):
        assert "refused" not in _refused(tmp_path, bench, [{"item": "i0", **bad}], "listwise")
    both: files.Json = {"item": "i0", "order": names, "ranking": "A>B>C", "pick": "A"}
    assert "pick: found a ranking beside it, wanted one of the two" in _refused(tmp_path, bench, [both], "listwise")


def test_a_letter_that_is_a_name_elsewhere_is_refused(tmp_path: Path) -> None:
    bench = files.pairs()
    message = _refused(tmp_path, bench, [{"item": "p1", "order": ["B", "A"], "pick": "A"}], "listwise")
    assert "'A', which is a name and a place" in message
    assert _scores(bench, tmp_path, "listwise", [{"item": "p1", "order": ["A", "B"], "pick": "A"}])["p1"]["A"] == 1


def test_answers_are_matched_by_their_texts(tmp_path: Path) -> None:
    bench = files.pairs()

    def row(number: int, answer: str, certainty: float | None, *, swapped: bool = False) -> files.Json:
        texts = [f"text A of {number}", f"text B of {number}"][:: -1 if swapped else 1]
        truth = "AB"[(number % 3 == 0) != swapped]
        said = {"answer": answer, "certainty": certainty, "ground_truth": truth, "acc": 1}
        return {
            "user": f"u{number // 2}",
            "question": f"question {number}",
            "asst_A": texts[0],
            "asst_B": texts[1],
            **said,
        }

    scores = _scores(bench, tmp_path, "answers", [row(1, "A", 80), row(2, "A", 55, swapped=True), row(3, "C", 10)])
    assert (scores["p1"], scores["p2"], scores["p3"]) == ({"A": 80, "B": 0}, {"A": 0, "B": 55}, {"A": 0, "B": 0})
    scores = _scores(bench, tmp_path, "answers", [row(1, "A", 80), row(2, "A", 0), row(3, "", None)])
    assert (scores["p1"], scores["p2"]) == ({"A": 1, "B": 0}, {"A": 1, "B": 0})
    wrong = dict(row(1, "A", 80), asst_A="another text")
    assert "with these answers" in _refused(tmp_path, bench, [wrong], "answers")
    assert "as right in 'p1'" in _refused(tmp_path, bench, [dict(row(1, "A", 80), ground_truth="B")], "answers")
    other = dict(row(1, "A", 80), id="p2")
    assert "found other answers than 'p2' has, wanted its two" in _refused(tmp_path, bench, [other], "answers")
    assert "wanted A, B, or C for neither, or nothing" in _refused(tmp_path, bench, [row(1, "both", 80)], "answers")


def test_of_two_people_who_judged_the_same_answers_the_row_names_whose_it_is(tmp_path: Path) -> None:
    bench = files.pairs(4)
    other = replace(bench.items[1], id="again", cluster="u9", preferred=1 - bench.items[1].best[0], grades=())
    bench = Benchmark(bench.card, (*bench.items, other))
    row = {"question": "question 1", "asst_A": "text A of 1", "asst_B": "text B of 1", "answer": "A"}
    assert list(_scores(bench, tmp_path, "answers", [{**row, "user": "u9"}])) == ["again"]
    assert list(_scores(bench, tmp_path, "answers", [{**row, "user": "u0"}])) == ["p1"]
    assert "which is that of 2" in _refused(tmp_path, bench, [row], "answers")
    assert "which is that of 0" in _refused(tmp_path, bench, [{**row, "user": "u5"}], "answers")


def _preference(number: int, split: str, columns: files.Json) -> files.Json:
    return {
        "user_id": f"u{number % 3}",
        "split": split,
        "context": [{"role": "user", "content": f"question {number // 2}"}],
        "chosen": {"role": "model", "content": f"better {number}"},
        "rejected": {"role": "assistant", "content": f"worse {number}"},
        **columns,
    }


def test_published_judges_are_a_run_each(tmp_path: Path) -> None:
    words = [
        ("A", "B"),
        ("A", "A"),
        ("2", "1"),
        ("chosen", "chosen"),
        (True, False),
        ("tie", "B"),
        (None, "B"),
        ("B", ""),
    ]
    rows = [
        _preference(
            number,
            "test",
            {"prediction_x/y": first, "prediction_flip_x/y": flip, "prediction_z": "first", "reasoning_z": "so"},
        )
        for number, (first, flip) in enumerate(words)
    ]
    rows += [_preference(20 + number, "train", {}) for number in range(3)]
    bench = load_benchmark(f"personal-rb:{files.write(tmp_path / 'data.jsonl', rows)}")
    file = files.write(tmp_path / "again.jsonl", rows, shuffle=7)
    both = import_runs("personal-rb", [file], bench, ImportOptions("arena"), out=tmp_path / "runs")
    assert [run.model for run in both] == ["imported:arena x/y", "imported:arena z"]
    prompts = {item.id: item for item in bench.items}
    right = {}
    for row in both[0].rows:
        number = int(prompts[row.item].candidates[row.best[0]].removeprefix("better "))
        right[number] = None if row.failed else row.scores[row.best[0]]
    assert [right[number] for number in range(8)] == [1, 0.5, 0, 1, 0.5, 0.5, None, None]
    assert [{row.scores[row.best[0]] for row in both[1].rows}] == [{1.0}]
    (tmp_path / "odd").mkdir()
    odd = [dict(row, prediction_z="perhaps") for row in rows]
    assert "prediction_z: found 'perhaps', wanted A or B" in _refused(tmp_path / "odd", bench, odd, "personal-rb")


@pytest.mark.parametrize("seed", [0, 5])
def test_results_of_rewardbench2_are_found_by_subset_and_id(tmp_path: Path, seed: int) -> None:
    shapes = [("Math", "7", 1, 3), ("Focus", "7", 1, 3), ("Ties", "ref:1", 1, 2), ("Ties", "tied:1", 3, 11)]
    rows: list[files.Json] = [
        {
            "id": name,
            "subset": subset,
            "prompt": f"{subset} {name}",
            "chosen": [f"right {i} of {subset} {name}" for i in range(right)],
            "rejected": [f"wrong {i} of {subset} {name}" for i in range(wrong)],
            "num_correct": right,
        }
        for subset, name, right, wrong in shapes
    ]
    bench = load_benchmark(f"rewardbench2:{files.write(tmp_path / 'data.jsonl', rows)}", seed=seed)
    results: list[files.Json] = [
        {"id": name, "subset": subset, "num_correct": right, "scores": [[float(-i)] for i in range(right + wrong)]}
        for subset, name, right, wrong in shapes
    ]
    [run] = import_runs("rewardbench2", [files.write(tmp_path / "r.jsonl", results, shuffle=2)], bench, out=tmp_path)
    for row in run.rows:
        texts = next(item for item in bench.items if item.id == row.item).candidates
        scores = dict(zip(texts, row.scores, strict=True))
        right = len(row.best)
        by_text = {text: -int(text.split()[1]) - right * text.startswith("wrong") for text in texts}
        assert scores == by_text
    odd = [dict(results[0], id="nine")]
    assert "found 'nine', wanted an item of" in _refused(tmp_path, bench, odd, "rewardbench2")


def test_published_verdicts_of_judgebench_have_the_authors_number(tmp_path: Path) -> None:
    rows: list[files.Json] = [
        {
            "pair_id": f"p{number}",
            "source": "mmlu-pro-law",
            "question": f"question {number}",
            "response_A": f"a {number}",
            "response_B": f"b {number}",
            "label": "B>A" if number % 2 else "A>B",
        }
        for number in range(6)
    ]
    bench = load_benchmark(f"judgebench:{files.write(tmp_path / 'data.jsonl', rows)}", seed=4)
    said = [("A>B", "B>A"), ("A>B", "A>B"), ("A>B", None), ("B>A", None), ("A=B", "B>A"), (None, None)]
    results: list[files.Json] = [
        dict(row, judge_name="j", judgments=[d and {"decision": d, "judgment": {"response": "..."}} for d in decisions])
        for row, decisions in zip(rows, said, strict=True)
    ]
    [run] = import_runs("judgebench", [files.write(tmp_path / "o.jsonl", results, shuffle=1)], bench, out=tmp_path)
    [metric] = published(run).values()
    # p0 both right; p1 (B>A) one for each side; p2 one right, one null; p3 (B>A) one right, one null; p4 tie and right
    assert metric.value == pytest.approx(4 / 6)
    assert summary(run).metrics["accuracy"].value == pytest.approx((1 + 0.5 + 0 + 0 + 0.5 + 0) / 6)
    assert summary(run).metrics["accuracy"].failed == 3


def test_scores_of_rewardmath_are_of_the_solutions_in_the_order_of_the_data(tmp_path: Path) -> None:
    rows: list[files.Json] = [
        {
            "problem_id": number,
            "problem": f"problem {number}",
            "solution_type": "rejected" if place else "chosen",
            "eval_solution": [f"step of {place}", f"of {number}"],
        }
        for number in range(5)
        for place in range(10)
    ]
    file = tmp_path / "data.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    bench = load_benchmark(f"rewardmath:{file}", seed=9)
    results: list[files.Json] = [
        {"problem": f"problem {number}", "score": [1.0 if number else 0.0, *(place / 20 for place in range(1, 10))]}
        for number in range(5)
    ]
    [run] = import_runs("rewardmath", [files.write(tmp_path / "r.jsonl", results, shuffle=3)], bench, out=tmp_path)
    for row in run.rows:
        texts = next(item for item in bench.items if item.id == row.item).candidates
        places = [int(text.split()[2]) for text in texts]
        best = 1.0 if row.item != "0" else 0.0
        assert list(row.scores) == [place / 20 if place else best for place in places]
    assert published(run)["accuracy"].value == pytest.approx(0.8)
    assert published(run)["accuracy"].parts["mrr"] == pytest.approx((4 + 1 / 10) / 5)


def test_every_format_says_what_a_row_has(tmp_path: Path) -> None:
    bench = files.pairs()
    for form in FORMATS:
        file = files.write(tmp_path / f"{form}.jsonl", [{"unknown": 1}])
        with pytest.raises(RowError):
            import_runs(form, [file], bench, out=tmp_path / "runs")
        with pytest.raises(PluralrmError, match="found no scores, wanted rows with"):
            import_runs(form, [files.write(tmp_path / "empty.jsonl", [])], bench, out=tmp_path / "runs")
    with pytest.raises(SpecError, match="unknown format 'score'"):
        import_runs("score", [file], bench, out=tmp_path / "runs")
