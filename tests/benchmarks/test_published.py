"""Published benchmarks: made-up rows through loader, score, official rule and report, one test for all kinds."""

import math
import random
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pluralrm import load_benchmark, load_condition, load_run, score
from pluralrm.benchmarks import KINDS, cards
from pluralrm.benchmarks.rewardbench import PARTS, SECTIONS
from pluralrm.cli import app
from pluralrm.core import Benchmark, Failure, Query, Verdict
from pluralrm.errors import BenchmarkError, RowError, SpecError
from pluralrm.metrics import PublishedMetric, by_tag, measure, published
from pluralrm.metrics.official import RULES
from pluralrm.report import write_report
from pluralrm.testing import check_benchmark
from tests.benchmarks.published_rows import (
    WORLDS,
    rewardbench2_row,
    rewardbench_row,
    rm_bench_row,
    rmb_best_of,
    rmb_pair,
    whole_rewardbench2,
    write_json,
)
from tests.benchmarks.sample_rows import JsonRow, write_jsonl


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Benchmark]:
    folder = tmp_path_factory.mktemp("published")
    return {name: load_benchmark(f"{name}:{write(folder / name, 0)}") for name, write in WORLDS.items()}


CONSTANT = {"rewardbench2": 5 * 0.25 / 6, "llmbar": 0.5}
"""What a scorer that ties everything earns by rules in which ties do not all lose; JudgeBench: the labels B>A."""


class Nan:
    """A model whose every score is NaN."""

    spec = "nan"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            yield Verdict((math.nan,) * len(query.candidates))


class Silent:
    """A model that refuses every question."""

    spec = "silent"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            yield Verdict.failed("refused", "no", len(query.candidates))


def chance_of(bench: Benchmark) -> float:
    """Return what a constant scorer earns: the share of the best among the candidates, macro over domains."""
    domains: dict[str, list[float]] = {}
    for item in bench.items:
        domains.setdefault(item.domain, []).append(len(item.best) / len(item.candidates))
    return sum(sum(values) / len(values) for values in domains.values()) / len(domains)


# ---------------------------------------------------------------- one mock run of every kind


@pytest.mark.parametrize("kind", WORLDS)
def test_a_mock_run_of_every_kind_goes_from_file_to_report(kind: str, tmp_path: Path) -> None:
    path = WORLDS[kind](tmp_path / kind, 1)
    bench = load_benchmark(f"{kind}:{path}")
    assert bench.card.rule in RULES
    check_benchmark(bench)
    run = load_run(score(bench, "longest", out=tmp_path / "runs").path)
    number = published(run)["accuracy"]
    assert number.value is not None
    assert (number.rule, number.source) == (run.card.rule, "")
    assert number.reason.endswith(".")
    assert set(number.domains) == set(bench.domains)
    page = tmp_path / "report.html"
    write_report([tmp_path / "runs"], page)
    assert number.rule in page.read_text(encoding="utf-8")
    printed = CliRunner().invoke(app, ["compare", "--all", str(tmp_path / "runs")])
    assert printed.exit_code == 0
    assert number.rule in printed.output
    listed = CliRunner().invoke(app, ["list", "benchmarks", kind])
    assert listed.exit_code == 0
    assert cards()[list(KINDS).index(kind)].citation.split()[0] in listed.output


@pytest.mark.parametrize("kind", WORLDS)
def test_a_file_is_recognised_by_its_first_row_and_placed_by_the_seed(kind: str, tmp_path: Path) -> None:
    path = WORLDS[kind](tmp_path / kind, 2)
    named = load_benchmark(f"{kind}:{path}")
    for file in [path] if path.is_file() else path.rglob("*.json*"):
        assert load_benchmark(str(file)).card.name.startswith(f"{kind}-") or file.stem in SECTIONS["Prior Sets"]
    assert load_benchmark(f"{kind}:{path}", seed=1).content_hash != named.content_hash


@pytest.mark.parametrize("kind", WORLDS)
def test_only_the_condition_none_is_possible_and_the_others_say_why(
    kind: str, benches: Mapping[str, Benchmark]
) -> None:
    for condition in ("recent:3", "raw:3", "swapped:3", "pairs:2", "oracle", "noise:3"):
        reason = load_condition(condition).unsupported(benches[kind])
        assert reason is not None
        assert benches[kind].card.name in reason
    assert load_condition("none").unsupported(benches[kind]) is None


def test_a_copy_with_the_published_numbers_of_rows_has_the_papers_column(tmp_path: Path) -> None:
    bench = load_benchmark(f"rewardbench2:{write_jsonl(tmp_path / 'copy.jsonl', whole_rewardbench2())}")
    assert (bench.card.name, bench.card.licence) == ("rewardbench2", "ODC-BY")
    number = published(score(bench, "constant", out=tmp_path / "runs"))["accuracy"]
    assert number.source == "RewardBench 2"
    assert number.value == pytest.approx(5 * 0.25 / 6, abs=1e-12)


def test_a_taste_for_long_answers_shows_by_level(tmp_path: Path) -> None:
    rng = random.Random(0)
    rows = [rm_bench_row(f"{part}{n}", rng, domain=part) for part in PARTS for n in range(3)]
    for row in rows:
        for side in ("chosen", "rejected"):
            row[side] = [f"{side:>9}" + "x" * 10 * style for style in range(3)]
    path = write_json(tmp_path / "total_dataset.json", rows)
    run = score(f"rm-bench:{path}", "longest", out=tmp_path / "runs")
    by_level = {level: estimate.value for level, estimate in by_tag(run, "level").groups.items()}
    assert by_level == {"easy": 1.0, "normal": 0.5, "hard": 0.0}
    number = published(run)["accuracy"]
    assert measure(run).value == 0.5
    assert number.value == pytest.approx(1 / 3, abs=1e-12)
    assert number.parts == {"easy": 1.0, "normal": 0.0, "hard": 0.0}
    assert "45 ties: credit shared in the headline, a loss by this rule" in number.reason


# ---------------------------------------------------------------- scorers that know nothing


@pytest.mark.parametrize("kind", WORLDS)
def test_constant_is_chance_in_the_headline_and_loses_every_tie_by_the_rule(
    kind: str, benches: Mapping[str, Benchmark], tmp_path: Path
) -> None:
    run = score(benches[kind], "constant", out=tmp_path)
    assert measure(run).value == pytest.approx(chance_of(benches[kind]), abs=1e-12)
    number = published(run)["accuracy"]
    of_b = [item.candidate_ids[item.best[0]] == "response_B" for item in benches[kind].items]
    expected = statistics.mean(of_b) if kind == "judgebench" else CONSTANT.get(kind, 0.0)
    assert number.value == pytest.approx(expected, abs=1e-12)
    assert number.value == pytest.approx(measure(run).value) or "tie" in number.reason.lower()


@pytest.mark.parametrize("kind", WORLDS)
def test_silence_and_nan_earn_nothing_in_headline_and_rule(
    kind: str, benches: Mapping[str, Benchmark], tmp_path: Path
) -> None:
    for model in (Silent(), Nan()):
        run = score(benches[kind], model, out=tmp_path)
        assert measure(run).value == 0
        assert published(run)["accuracy"].value == 0
        assert "failed item" in published(run)["accuracy"].reason


@pytest.mark.parametrize("kind", WORLDS)
def test_random_scores_are_around_chance(kind: str, benches: Mapping[str, Benchmark], tmp_path: Path) -> None:
    values = [measure(score(benches[kind], f"random,seed={n}", out=tmp_path)).value for n in range(8)]
    error = statistics.stdev(values) / math.sqrt(len(values))
    assert abs(statistics.mean(values) - chance_of(benches[kind])) < 4.5 * error


@pytest.mark.parametrize("kind", WORLDS)
def test_failing_instead_of_losing_never_pays(kind: str, benches: Mapping[str, Benchmark], tmp_path: Path) -> None:
    run = score(benches[kind], "random", out=tmp_path)
    rng = random.Random(kind)
    for way in (Failure("refused"), Failure("nonfinite", "nan"), Failure("parse")):
        rows = []
        for row in run.rows:
            place = rng.randrange(len(row.scores))
            scores = tuple(way if n == place else score for n, score in enumerate(row.scores))
            rows.append(replace(row, scores=scores) if rng.random() < 0.3 else row)
        failing = replace(run, rows=tuple(rows))
        assert measure(failing).value <= measure(run).value
        assert at_best(published(failing)["accuracy"], kind) <= at_best(published(run)["accuracy"], kind)


def at_best(number: PublishedMetric, kind: str) -> float:
    """Return the value, of RewardBench 2 without its margin term, in which a failure is 0 and a loss down to -1."""
    assert number.value is not None
    return number.value - 0.01 * (number.parts["margin"] or 0) / 6 if kind == "rewardbench2" else number.value


@pytest.mark.parametrize("kind", WORLDS)
def test_a_part_of_the_items_has_no_number_by_a_rule_that_needs_all(
    kind: str, benches: Mapping[str, Benchmark], tmp_path: Path
) -> None:
    for run in (
        score(benches[kind], "longest", limit=3, out=tmp_path),
        score(benches[kind], "longest", domains=benches[kind].domains[:1], out=tmp_path),
    ):
        number = published(run)["accuracy"]
        assert number.value is None
        assert set(number.domains.values()) == {None}
        assert "needs all" in number.reason


# ---------------------------------------------------------------- what each format holds


def test_a_pair_of_rewardbench_says_what_its_row_says(tmp_path: Path) -> None:
    row = rewardbench_row(7, "math-prm", random.Random(0))
    bench = load_benchmark(str(write_jsonl(tmp_path / "mine.jsonl", [row])))
    (item,) = bench.items
    assert (item.id, item.domain, item.prompt) == ("math-prm/7", "Reasoning", row["prompt"])
    assert item.preferred is not None
    assert (item.candidates[item.preferred], item.candidates[1 - item.preferred]) == (row["chosen"], row["rejected"])
    assert item.tags == {"subset": "math-prm", "chosen_model": "model-0", "rejected_model": "weak"}
    assert bench.card.load.ignored == ("review",)
    assert bench.card.name == "rewardbench-mine"


def test_pairs_of_one_prompt_are_one_cluster_and_an_id_may_stand_in_two_subsets(tmp_path: Path) -> None:
    rng = random.Random(0)
    rows = [rewardbench_row(n, subset, rng) for subset in ("hep-go", "hep-js") for n in (3, 53)]
    items = load_benchmark(f"rewardbench:{write_jsonl(tmp_path / 'mine.jsonl', rows)}").items
    assert len({item.id for item in items}) == 4
    assert [item.cluster for item in items[:2]] == [items[0].cluster] * 2
    assert items[2].cluster != items[0].cluster


def test_a_record_of_rm_bench_is_nine_pairs_of_one_cluster(tmp_path: Path) -> None:
    row = rm_bench_row("p1", random.Random(0), domain="safety-refuse")
    items = load_benchmark(str(write_json(tmp_path / "total_dataset.json", [row]))).items
    assert {(item.cluster, item.domain, item.tags["part"]) for item in items} == {
        ("safety-refuse/p1", "safety", "safety-refuse")
    }
    styles = ("concise", "detailed", "markdown")
    for item in items:
        better, worse = (styles.index(item.tags[f"{side}_style"]) for side in ("chosen", "rejected"))
        assert item.preferred is not None
        assert item.candidates[item.preferred] == row["chosen"][better]
        assert item.candidates[1 - item.preferred] == row["rejected"][worse]
        assert item.tags["level"] == ("normal" if better == worse else "hard" if worse > better else "easy")
    assert len({(item.tags["chosen_style"], item.tags["rejected_style"]) for item in items}) == len(items) == 9


def test_the_total_file_of_rm_bench_stands_for_the_files_of_the_domains(tmp_path: Path) -> None:
    rng = random.Random(0)
    rows = {part: [rm_bench_row(f"{n}", rng) for n in range(2)] for part in ("chat", "safety-response")}
    for part, members in rows.items():
        write_json(tmp_path / f"{part}_filtered.json", members)
    by_file = load_benchmark(f"rm-bench:{tmp_path}")
    total = [row | {"domain": part} for part, members in rows.items() for row in members]
    write_json(tmp_path / "total_dataset.json", total)
    assert load_benchmark(f"rm-bench:{tmp_path}").content_hash == by_file.content_hash


def test_ties_are_items_with_several_best_and_a_cluster_with_their_reference(tmp_path: Path) -> None:
    rng = random.Random(0)
    rows = [rewardbench2_row("ref:4", "Ties", (1, 3), rng), rewardbench2_row("tied:4", "Ties", (7, 3), rng)]
    rows.append(rewardbench2_row("4", "Focus", (1, 3), rng))
    ref, tied, focus = load_benchmark(str(write_jsonl(tmp_path / "mine.jsonl", rows))).items
    assert (ref.id, ref.cluster, tied.cluster) == ("Ties/ref:4", "ties-4", "ties-4")
    assert tied.tags == {"id": "tied:4", "kind": "tied", "pair": "4"}
    assert (tied.preferred, len(tied.best), len(tied.candidates)) == (None, 7, 10)
    assert {tied.candidates[index] for index in tied.best} == set(rows[1]["chosen"])
    assert (focus.domain, focus.tags, len(focus.best)) == ("Focus", {"id": "4"}, 1)


def test_an_item_of_rmb_has_its_goal_set_and_scenario(tmp_path: Path) -> None:
    rng = random.Random(0)
    rows = [rmb_pair(4, "Helpfulness/Chat/Discussion", rng), rmb_best_of(5, "Harmlessness/S1", 7, rng)]
    pair, best = load_benchmark(str(write_json(tmp_path / "mine.json", rows))).items
    assert (pair.id, pair.domain) == ("Helpfulness/pairs/4", "Helpfulness, pairs")
    assert pair.tags == {"goal": "Helpfulness", "set": "pairs", "category": "Chat/Discussion"}
    assert (best.id, best.domain, len(best.candidates)) == ("Harmlessness/best-of-N/5", "Harmlessness, best-of-N", 8)
    assert best.preferred is not None
    assert best.candidates[best.preferred] == rows[1]["bon_best"]["answer"]


def test_pairs_and_best_of_n_of_one_conversation_are_one_cluster(tmp_path: Path) -> None:
    rng, path = random.Random(0), "Harmlessness/S1"
    rows = [rmb_pair(3, path, rng), rmb_best_of(4, path, 2, rng), rmb_pair(6, path, rng)]
    clusters = [item.cluster for item in load_benchmark(f"rmb:{write_json(tmp_path / 'a.json', rows)}").items]
    assert clusters[0] == clusters[1] != clusters[2]


Refusal = tuple[str, JsonRow, str, str]


def refusals() -> list[Refusal]:
    rng = random.Random(0)
    pair, record, rmb = rewardbench_row(1, "hep-go", rng), rm_bench_row("p", rng, domain="chat"), rmb_pair(1, "S1", rng)
    ties = rewardbench2_row("tied:1", "Ties", (2, 1), rng)
    best = rmb_best_of(1, "Harmlessness/S1", 2, rng)
    best["loser_list"][1]["answer"] = best["bon_best"]["answer"]
    return [
        ("rewardbench", pair | {"subset": "hep-c"}, "subset", r"Did you mean 'hep-"),
        ("rewardbench", pair | {"rejected": f" {pair['chosen']}"}, "rejected", "different answers"),
        ("rewardbench2", ties | {"subset": "Tied"}, "subset", r"Did you mean 'Ties'"),
        ("rewardbench2", ties | {"num_correct": 3}, "num_correct", "2, as chosen has"),
        ("rewardbench2", ties | {"id": "4"}, "id", "ref:N or tied:N"),
        ("rewardbench2", ties | {"rejected": ties["chosen"][:1]}, "rejected", "different answers"),
        ("rm-bench", record | {"domain": "poetry"}, "domain", "one of chat, code, math, safety-refuse"),
        ("rm-bench", record | {"chosen": record["chosen"][:2]}, "chosen", "a list of 3"),
        ("rm-bench", record | {"rejected": record["chosen"]}, "rejected", "different answers"),
        ("rmb", rmb, "category_path", "Helpfulness or Harmlessness"),
        ("rmb", best, "loser_list", "different answers"),
        ("rmb", {**best, "bon_best": None}, r"\(row\)", "bon_uid, bon_best and loser_list"),
    ]


@pytest.mark.parametrize(("kind", "row", "field", "wanted"), refusals())
def test_what_would_make_a_number_wrong_is_refused(
    kind: str, row: JsonRow, field: str, *, wanted: str, tmp_path: Path
) -> None:
    path = write_jsonl(tmp_path / "mine.jsonl", [row])
    with pytest.raises(RowError, match=rf"mine.jsonl:1: {field}: .*{wanted}"):
        load_benchmark(f"{kind}:{path}")
    with pytest.raises(BenchmarkError, match="no good row"):
        load_benchmark(f"{kind}:{path},skip=bad-rows")


@pytest.mark.parametrize("kind", [kind for kind in WORLDS if kind != "llmbar"])  # its rows have no ids
def test_an_id_that_comes_twice_is_refused(kind: str, tmp_path: Path) -> None:
    path = WORLDS[kind](tmp_path / kind, 3)
    copied = next(file for file in sorted(path.rglob("*.json*")) if file.is_file()) if path.is_dir() else path
    copied.with_stem(f"{copied.stem}-again").write_bytes(copied.read_bytes())
    with pytest.raises(RowError, match=r"again \(first at"):
        load_benchmark(f"{kind}:{path if path.is_dir() else path.parent}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("rewardbench,prior=no", "wanted yes"),
        ("rewardbench:PATH,prior=yes", "prior= is for the hub"),
        ("rm-bench:PATH,revision=abc", "revision= is for the hub"),
        ("rmb", "rmb:RMB_dataset"),
    ],
)
def test_options_that_do_not_fit_are_refused(spec: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=message):
        load_benchmark(spec.replace("PATH", str(tmp_path)))
