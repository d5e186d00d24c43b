"""JudgeBench, LLMBar, RewardMATH and PPE: what their loaders make of files and of the hub, and what they refuse."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pluralrm import load_benchmark, load_run, score
from pluralrm.benchmarks import ppe as ppe_loader
from pluralrm.core import Failure
from pluralrm.errors import BenchmarkError, RowError, SpecError
from pluralrm.metrics import measure, published
from pluralrm.runs.formats import AGGREGATES
from pluralrm.runs.imported import ImportOptions, import_runs
from pluralrm.testing import check_benchmark
from tests.benchmarks import judged_rows as rows
from tests.benchmarks.sample_rows import write_jsonl

RNG = random.Random(0)


# ---------------------------------------------------------------- JudgeBench


def test_a_pair_of_judgebench_keeps_who_is_a_and_what_is_right(tmp_path: Path) -> None:
    row = rows.judgebench_row(5, RNG, label="B>A", source="livebench-math")
    (item,) = load_benchmark(f"judgebench:{write_jsonl(tmp_path / 'x.jsonl', [row])}").items
    assert (item.id, item.prompt, item.domain) == (row["pair_id"], row["question"], "math")
    assert item.preferred == item.candidate_ids.index("response_B")
    assert dict(zip(item.candidate_ids, item.candidates, strict=True)) == {
        n: row[n] for n in ("response_A", "response_B")
    }
    assert item.tags == {"source": "livebench-math", "original_id": "5", "response_model": "gpt-4o-2024-05-13"}


def test_every_source_of_judgebench_has_its_category(tmp_path: Path) -> None:
    sources = {"mmlu-pro-law": "knowledge", "livebench-reasoning": "reasoning", "livecodebench": "coding"}
    made = [rows.judgebench_row(n, RNG, source=source) for n, source in enumerate(sources)]
    bench = load_benchmark(f"judgebench:{write_jsonl(tmp_path / 'x.jsonl', made)}")
    assert [item.domain for item in bench.items] == list(sources.values())
    assert str(bench.card.load) == "unknown columns ignored: difficulty"


def test_only_the_published_numbers_of_pairs_carry_the_name(tmp_path: Path) -> None:
    counts = {"mmlu-pro-law": 154, "livebench-reasoning": 98, "livebench-math": 56, "livecodebench": 42}
    made = [(source, n) for source, count in counts.items() for n in range(count)]
    full = [rows.judgebench_row(n, RNG, source=source) for n, (source, _) in enumerate(made)]
    assert load_benchmark(f"judgebench:{write_jsonl(tmp_path / 'x.jsonl', full)}").card.name == "judgebench"
    assert load_benchmark(f"judgebench:{write_jsonl(tmp_path / 'y.jsonl', full[1:])}").card.name == "judgebench-y"


def test_a_folder_with_the_pairs_of_both_models_is_one_split_at_a_time(tmp_path: Path) -> None:
    for number, model in enumerate(("gpt-4o-2024-05-13", "claude-3-5-sonnet-20240620")):
        made = [rows.judgebench_row(100 * number + n, RNG, response_model=model) for n in range(2 + number)]
        write_jsonl(tmp_path / f"dataset=judgebench,response_model={model}.jsonl", made)
    for split, kept in (("", 2), (",split=gpt", 2), (",split=claude", 3)):
        bench = load_benchmark(f"judgebench:{tmp_path}{split}")
        assert len(bench.items) == kept
        assert str(bench.card.load).startswith(f"{kept} of 5 pairs; {5 - kept} of the other split dropped")
    with pytest.raises(BenchmarkError, match="found no pair of split=claude among 2"):
        load_benchmark(f"judgebench:{next(tmp_path.glob('*gpt*'))},split=claude".replace(",response", "%2Cresponse"))


# ---------------------------------------------------------------- LLMBar


def test_a_folder_of_llmbar_is_read_without_what_evaluators_said(tmp_path: Path) -> None:
    folder = rows.llmbar(tmp_path / "LLMBar", 0)
    bench = load_benchmark(f"llmbar:{folder}")
    said = folder / "Adversarial" / "GPTInst" / "evaluators" / "GPT-4"
    said.mkdir(parents=True)
    (said / "result.json").write_text(json.dumps([{"input": "x", "results": []}]))
    assert load_benchmark(f"llmbar:{folder}").content_hash == bench.content_hash
    assert sorted(bench.domains) == ["GPTInst", "GPTOut", "Manual", "Natural", "Neighbor"]
    one = load_benchmark(f"llmbar:{folder / 'Adversarial' / 'GPTInst'}")
    assert set(one.domains) == {"GPTInst"}
    assert one.items[0].id == "GPTInst/1"
    assert one.items[0].candidate_ids[one.items[0].best[0]] in {"output_1", "output_2"}


# ---------------------------------------------------------------- RewardMATH


def test_the_rows_of_a_problem_are_its_candidates(tmp_path: Path) -> None:
    made = [rows.solution_row(problem, place, RNG) for place in (1, 0, 2) for problem in (4, 5)]
    first, second = load_benchmark(f"rewardmath:{write_jsonl(tmp_path / 'x.jsonl', made)}").items
    assert (first.id, second.id, first.domain, first.tags) == (
        "28",
        "35",
        "mathematics",
        {"subject": "Algebra", "level": "5"},
    )
    assert sorted(first.candidate_ids) == ["solution0", "solution1", "solution2"]
    assert first.candidate_ids[first.best[0]] == "solution1"  # the second row of its problem is the right one
    assert first.candidates[first.best[0]] == "\n".join(made[2]["eval_solution"])
    assert first.oracle is not None
    assert first.oracle.reference == "3000"


def test_a_problem_without_one_right_solution_is_refused_or_dropped_and_counted(tmp_path: Path) -> None:
    good = [rows.solution_row(1, place, RNG) for place in range(3)]
    for bad, found in (
        ([rows.solution_row(2, place, RNG, solution_type="rejected") for place in range(3)], "0 chosen of 3"),
        ([rows.solution_row(2, place, RNG, solution_type="chosen") for place in range(2)], "2 chosen of 2"),
        ([rows.solution_row(2, 0, RNG)], "1 chosen of 1"),
    ):
        path = write_jsonl(tmp_path / "x.jsonl", [*good, *bad])
        with pytest.raises(
            RowError, match=rf"x.jsonl:{3 + len(bad)}: solution_type: found {found} solutions of problem '14'"
        ):
            load_benchmark(f"rewardmath:{path}")
        bench = load_benchmark(f"rewardmath:{path},skip=bad-rows")
        assert [item.id for item in bench.items] == ["7"]
        assert str(bench.card.load) == "1 of 2 problems; 1 without one right solution among others dropped"
    other = rows.solution_row(1, 3, RNG) | {"problem": "Another problem?"}
    with pytest.raises(RowError, match=r"x.jsonl:4: problem: .*one per problem_id"):
        load_benchmark(f"rewardmath:{write_jsonl(tmp_path / 'x.jsonl', [*good, other])}")


def test_a_blank_step_is_read_and_a_blank_solution_refused(tmp_path: Path) -> None:
    made = [rows.solution_row(1, place, RNG, level="Level 5") for place in range(3)]
    made[1]["eval_solution"] = ["So it is 1.", "", "\n"]
    (item,) = load_benchmark(f"rewardmath:{write_jsonl(tmp_path / 'x.jsonl', made)}").items
    assert item.tags["level"] == "Level 5"
    assert item.candidates[item.candidate_ids.index("solution1")] == "So it is 1.\n\n\n"
    made[1]["eval_solution"] = ["", " "]
    with pytest.raises(RowError, match=r"x.jsonl:2: eval_solution: .*wanted a solution"):
        load_benchmark(f"rewardmath:{write_jsonl(tmp_path / 'x.jsonl', made)}")


def test_the_published_number_of_problems_carries_the_name(tmp_path: Path) -> None:
    made = [rows.solution_row(problem, place, RNG) for problem in range(1, 484) for place in range(2)]
    assert load_benchmark(f"rewardmath:{write_jsonl(tmp_path / 'x.jsonl', made)}").card.name == "rewardmath"
    assert load_benchmark(f"rewardmath:{write_jsonl(tmp_path / 'y.jsonl', made[2:])}").card.name == "rewardmath-y"


def test_the_aggregate_of_a_process_model_decides_who_is_best(tmp_path: Path) -> None:
    """Three solutions, each the best by another aggregate: the right one wins by the mean alone."""
    steps = {"solution0": [1.0, 1.0, 0.2], "solution1": [0.5, 0.5, 0.5], "solution2": [0.4]}
    made = [rows.solution_row(1, place, RNG) for place in range(3)]
    run = score(
        load_benchmark(f"rewardmath:{write_jsonl(tmp_path / 'x.jsonl', made)}"), "constant", out=tmp_path / "runs"
    )
    won = {}
    for how, aggregate in AGGREGATES.items():
        scored = [replace(row, scores=tuple(aggregate(steps[name]) for name in row.candidate_ids)) for row in run.rows]
        won[how] = published(replace(run, rows=tuple(scored)))["accuracy"].value
    assert won == {"product": 0, "min": 0, "mean": 1}


# ---------------------------------------------------------------- PPE


def test_a_choice_of_ppe_keeps_whose_the_answers_are_and_ties_are_counted(tmp_path: Path) -> None:
    row = rows.choice_row(1, RNG, model_a="x", model_b="y", winner="model_b")
    tie = rows.choice_row(2, RNG, winner="tie")
    bench = load_benchmark(f"ppe:{write_jsonl(tmp_path / 'x.jsonl', [row, tie])}")
    (item,) = bench.items
    assert (item.id, item.domain) == ("human/h1", "human")
    assert item.candidate_ids[item.best[0]] == "response_2"
    assert item.tags == {"language": "English", "is_code": "false", "model:response_1": "x", "model:response_2": "y"}
    assert str(bench.card.load) == "1 of 2 choices; 1 called a tie dropped. unknown columns ignored: judge_hash"


def test_a_question_of_ppe_has_a_grade_per_answer_and_its_sampled_pairs(tmp_path: Path) -> None:
    right = [True, False, True, False]
    row = rows.answers_row(1, right, RNG, sampled_conflict_pairs=[[0, 1], [3, 2]])
    alike = [rows.answers_row(n, [word] * 3, RNG) for n, word in ((2, True), (3, False))]
    bench = load_benchmark(f"ppe:{write_jsonl(tmp_path / 'MATH' / 'train.jsonl', [row, *alike])}")
    (item,) = bench.items
    assert (item.id, item.domain, item.tags["pairs"]) == ("math/q1:model-z", "math", "1-2 3-4")
    graded = dict(zip(item.candidate_ids, item.grades, strict=True))
    assert graded == {"response_1": 1, "response_2": 0, "response_3": 1, "response_4": 0}
    assert str(bench.card.load) == (
        "1 of 3 questions; 1 with all answers right, 1 with all answers wrong dropped. unknown columns ignored: "
        "mean_score, parsed_outputs"
    )


def test_five_data_sets_of_answers_go_from_file_to_the_twelfth_metric(tmp_path: Path) -> None:
    folder = rows.answers(tmp_path / "ppe", 0)
    bench = load_benchmark(f"ppe:{folder}")
    assert set(bench.domains) == set(ppe_loader.SETS["correctness"])
    check_benchmark(bench)
    for model in ("longest", "constant"):
        run = load_run(score(bench, model, out=tmp_path / "runs").path)
        number = published(run)["pair"]
        assert number.rule == "PPE answers"
        assert set(number.domains) == set(bench.domains)
        assert all(value is not None for value in (number.value, *number.parts.values()))
        assert set(number.parts) == {"auc", "max_score", "end_score", "loss"}
        assert number.parts["auc"] == pytest.approx(measure(run, "pair").value, abs=1e-12)
        assert number.parts["end_score"] == pytest.approx(measure(run, "accuracy").value, abs=1e-12)
    assert (number.value, number.parts["auc"]) == (0, 0.5)
    silent = replace(run, rows=tuple(replace(row, scores=(Failure("empty"),) * 32) for row in run.rows))
    assert published(silent)["pair"].value == published(silent)["pair"].parts["auc"] == 0
    assert measure(silent, "pair").value == 0


def test_no_file_of_ones_own_bears_a_published_name(tmp_path: Path) -> None:
    """A file's name becomes part of the card's: `math.jsonl` must not pass for the data set."""
    row = rows.answers_row(1, [True, False], RNG)
    for name in (*ppe_loader.SETS, "PPE-MATH-Best-of-K"):
        bench = load_benchmark(f"ppe:{write_jsonl(tmp_path / f'{name}.jsonl', [row])}")
        assert published(score(bench, "longest", out=tmp_path / "runs"))["pair"].source == ""
    pair = rows.judgebench_row(1, RNG, response_model="claude-3-5-sonnet-20240620")
    bench = load_benchmark(f"judgebench:{write_jsonl(tmp_path / 'claude.jsonl', [pair])},split=claude")
    assert published(score(bench, "longest", out=tmp_path / "runs"))["accuracy"].source == ""


def test_choices_and_answers_are_not_one_benchmark(tmp_path: Path) -> None:
    made = [rows.choice_row(1, RNG), rows.answers_row(1, [True, False], RNG)]
    with pytest.raises(BenchmarkError, match="found choices of people and answers"):
        load_benchmark(f"ppe:{write_jsonl(tmp_path / 'x.jsonl', made)}")


# ---------------------------------------------------------------- what others scored, by the authors' rules


@pytest.mark.parametrize("seed", range(4))
def test_imported_verdicts_of_judgebench_have_the_number_of_its_own_count(tmp_path: Path, seed: int) -> None:
    """The count over the file as it stands: the second verdict is turned round, 1 and -1 are added up."""
    rng, words = random.Random(seed), ["A>B", "B>A", "A=B", None]
    pairs = [rows.judgebench_row(n, rng) for n in range(30)]
    theirs = [
        {
            **row,
            "judge_name": "vanilla",
            "judgments": [{"judgment": {}, "decision": rng.choice(words)} for _ in range(2)],
        }
        for row in pairs
    ]
    right = 0
    for row in theirs:
        first, second = (judgment["decision"] for judgment in row["judgments"])
        turned = {"A>B": "B>A", "B>A": "A>B"}
        second, opposite = turned.get(second, second), turned[row["label"]]
        right += sum((each == row["label"]) - (each == opposite) for each in (first, second)) > 0
    bench = load_benchmark(f"judgebench:{write_jsonl(tmp_path / 'pairs.jsonl', pairs)}", seed=seed)
    file = write_jsonl(tmp_path / "theirs.jsonl", rng.sample(theirs, len(theirs)))
    [run] = import_runs("judgebench", [file], bench, out=tmp_path / "runs")
    assert published(load_run(run.path))["accuracy"].value == pytest.approx(right / 30, abs=1e-12)


def test_imported_scores_of_rewardmath_have_the_numbers_of_its_own_table(tmp_path: Path) -> None:
    """Strictly above nine others, and one over the place below equal scores, counted over the file as it stands."""
    rng = random.Random(1)
    made = [rows.solution_row(problem, place, rng) for problem in range(1, 25) for place in range(10)]
    steps = [[[rng.choice([0.2, 0.9, 1.0]) for _ in range(rng.randint(1, 4))] for _ in range(10)] for _ in range(24)]
    theirs = [{"problem": made[10 * n]["problem"], "score": scores} for n, scores in enumerate(steps)]
    bench = load_benchmark(f"rewardmath:{write_jsonl(tmp_path / 'x.jsonl', made)}", seed=3)
    file = write_jsonl(tmp_path / "theirs.jsonl", theirs)
    for how, aggregate in AGGREGATES.items():
        [run] = import_runs(
            "rewardmath", [file], bench, out=tmp_path / how, options=ImportOptions(name="prm", steps=how)
        )
        tables = [[aggregate(own) for own in scores] for scores in steps]
        number = published(run)["accuracy"]
        assert number.value == pytest.approx(sum(t[0] > max(t[1:]) for t in tables) / 24, abs=1e-12)
        places = [1 + sum(other >= t[0] for other in t[1:]) for t in tables]
        assert number.parts["mrr"] == pytest.approx(sum(1 / place for place in places) / 24, abs=1e-12)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("kind", "make", "changes", "error"),
    [
        ("judgebench", rows.judgebench_row, {"source": "mmlu"}, "source: .*begins with mmlu-pro, livebench-reasoning"),
        ("judgebench", rows.judgebench_row, {"label": "A=B"}, "label: found 'A=B', wanted one of"),
        ("judgebench", rows.judgebench_row, {"response_A": "x", "response_B": " x"}, "response_B: .*different answers"),
        ("llmbar", rows.llmbar_row, {"label": 0}, "label: found 0"),
        ("llmbar", rows.llmbar_row, {"output_1": "x", "output_2": "x "}, "output_2: .*different answers"),
        ("ppe", rows.choice_row, {"winner": "model_c"}, "winner: found 'model_c'"),
        ("ppe", rows.choice_row, {"response_2": ""}, "response_2: .*a text that is not empty"),
        ("ppe", rows.choice_row, {"winner": None}, "winner: .*winner, or scores"),
    ],
)
def test_a_row_that_would_make_a_number_wrong_is_refused(
    tmp_path: Path, kind: str, make: Callable[..., object], changes: dict[str, object], *, error: str
) -> None:
    path = write_jsonl(tmp_path / "mine.jsonl", [make(1, RNG), make(2, RNG, **changes)])
    with pytest.raises(RowError, match=f"mine.jsonl:2: {error}"):
        load_benchmark(f"{kind}:{path}")
    assert len(load_benchmark(f"{kind}:{path},skip=bad-rows").items) == 1


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"scores": [True, 2.0, False]}, "scores: found 2.0, wanted true or false"),
        ({"response_3": None}, "response_3: found null"),
        ({"scores": [True]}, "scores: "),
        ({"sampled_conflict_pairs": [[0, 2]]}, r"sampled_conflict_pairs: found \[0, 2\], wanted a right and a wrong"),
        ({"sampled_conflict_pairs": [[0, 3]]}, r"sampled_conflict_pairs: found \[0, 3\], .* of 3 answers"),
    ],
)
def test_answers_that_do_not_fit_their_scores_are_refused(
    tmp_path: Path, changes: dict[str, object], error: str
) -> None:
    right = [True, False, True]
    made = [rows.answers_row(1, right, RNG), rows.answers_row(2, right, RNG, **changes)]
    with pytest.raises(RowError, match=f"mine.jsonl:2: {error}"):
        load_benchmark(f"ppe:{write_jsonl(tmp_path / 'mine.jsonl', made)}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("judgebench,split=gtp", r"split is 'gtp'; wanted gpt or claude\. Did you mean 'gpt'"),
        ("judgebench:PATH,revision=abc", "revision= is for the hub"),
        ("llmbar", "llmbar:Dataset/LLMBar"),
        ("rewardmath", "rewardmath:RewardMATH_direct.json"),
        ("ppe", "found neither a path nor a set; wanted set=human, mmlu-pro, math"),
        ("ppe,set=maths", r"set is 'maths'; .*Did you mean 'math'"),
        ("ppe:PATH,set=math", "set= is for the hub"),
    ],
)
def test_options_that_do_not_fit_say_what_is_wanted(tmp_path: Path, spec: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load_benchmark(spec.replace("PATH", str(tmp_path)))
