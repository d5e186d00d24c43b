"""What an audit says beside the probes: each number by hand or by another library."""

import gzip
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import DescrStatsW

from pluralrm import load_benchmark
from pluralrm.audit import AuditFinding, audit, audit_page, read_prompts, rubrics
from pluralrm.audit.comparisons import comparisons
from pluralrm.audit.embedder import FEATURES, style
from pluralrm.audit.findings import (
    MARGIN,
    candidate_lengths,
    candidate_positions,
    item_counts,
    post_counts,
    quality,
    user_overlap,
)
from pluralrm.audit.near import post_texts
from pluralrm.audit.organic import _area_estimate, against_organic
from pluralrm.core import Aspect, Benchmark, Estimate, Item, Oracle, Post, User
from pluralrm.errors import BenchmarkError, RowError
from tests.benchmarks.sample_rows import write_jsonl, write_parquet
from tests.construct.worlds import changed, pairs, records, texts


def with_items(benchmark: Benchmark, items: list[Item]) -> Benchmark:
    return replace(benchmark, items=tuple(items), content_hash="")


def estimate(finding: AuditFinding, name: str) -> Estimate:
    found = finding.measures[name]
    assert isinstance(found, Estimate)
    return found


# ---------------------------------------------------------------- what may be missing


LABELS = {"texts shared across users", "balance of position", "balance of length", "rubric in answers"}


@pytest.mark.parametrize(
    ("without", "missing"),
    [
        ({"user": None}, {"posts", "near-duplicate posts", "overlap between users"}),
        ({"oracle": None}, {"rubric in prompts", "rubric in answers", "rubric diversity", "general aspects"}),
        ({"preferred": None, "grades": ()}, LABELS),
        ({"candidates": (), "candidate_ids": (), "preferred": None}, LABELS | {"near-duplicate answers"}),
    ],
    ids=["no users", "no rubrics", "no labels", "prompts only"],
)
def test_what_a_benchmark_lacks_is_said_and_the_rest_still_is(without: dict[str, object], missing: set[str]) -> None:
    bench = load_benchmark("pocket-prb")
    found = audit(with_items(bench, [changed(item, **without) for item in bench.items]), relabellings=299)
    lacking = {finding.topic for finding in found.findings if finding.status == "not available"}
    assert lacking == missing | {"general quality", "paraphrases", "prompts against organic ones"}
    if "preferred" in without:
        assert found.verdict == "No labels, so there is nothing to guess."
        assert (found.labelled, found.chance, found.limits) == (0, None, "")
        assert {probe.verdict for probe in found.probes} == {"not available"}
    json.dumps(found.to_json(), allow_nan=False)
    assert len(audit_page(found)) > 5_000


def test_no_items_is_an_error() -> None:
    with pytest.raises(BenchmarkError, match="no items to audit"):
        audit(with_items(pairs(1), []))


def test_a_judge_is_asked_for_where_only_a_judge_could_tell() -> None:
    found = {finding.topic: finding for finding in audit(load_benchmark("pocket-prb"), relabellings=299).findings}
    assert found["general aspects"].status == "needs a judge"
    assert not found["general aspects"].measures


# ---------------------------------------------------------------- balance


def test_balance_of_position_has_wilsons_interval() -> None:
    bench = pairs(60, "place", rate=0.7)
    first = sum(item.preferred == 0 for item in bench.items)
    value = estimate(candidate_positions(comparisons(bench.items)), "preferred is number 1")
    low, high = proportion_confint(first, 60, method="wilson")
    assert (value.value, value.low, value.high) == pytest.approx((first / 60, low, high), abs=0.002)


def test_balance_of_length_counts_characters() -> None:
    items = [
        changed(item, candidates=("four", "sixsix"), preferred=int(number % 3 == 0))
        for number, item in enumerate(pairs(9).items)
    ]
    found = candidate_lengths(comparisons(items))
    assert estimate(found, "preferred is the longest").value == pytest.approx(3 / 9)
    assert estimate(found, "characters more than the others").value == pytest.approx((3 * 2 - 6 * 2) / 9)


# ---------------------------------------------------------------- users


def test_post_counts_are_those_of_the_users() -> None:
    users = [User(f"u{n}", tuple(Post(f"p{n}-{k}", f"text {n} {k}") for k in range(n))) for n in range(4)]
    items = [changed(item, user=user, cluster=user.id) for item, user in zip(pairs(4).items, users, strict=True)]
    found = post_counts(with_items(pairs(4), items))
    assert found.status == "warn"
    assert dict(found.measures) == {"users": 4, "least": 0, "median": 1.5, "most": 3, "users without posts": 1}


def test_a_user_with_most_items_and_one_spelled_in_two_ways_are_named() -> None:
    def found(names: Sequence[str]) -> AuditFinding:
        bench = pairs(len(names))
        return item_counts(with_items(bench, [changed(i, cluster=n) for i, n in zip(bench.items, names, strict=True)]))

    even = found(["a", "b", "c", "d", "d"])
    assert (even.status, even.found) == ("ok", "least 1, median 1, most 2")
    heavy = found(["a"] * 12 + list("bcdefghi"))
    assert heavy.status == "note"
    assert heavy.measures["equal clusters"] == pytest.approx(20**2 / (12**2 + 8))
    assert "'a' has 60.0% of the items, and 9 users weigh in a mean over items like 2.6 equal ones" in heavy.found
    twice = found(["Anna", "anna ", "b"])
    assert twice.status == "warn"
    assert "differ in case or space alone, such as 'Anna' and 'anna ': one user?" in twice.found


def test_two_users_who_are_one_person_are_named() -> None:
    own = {name: tuple(f"{name} wrote this number {k} alone" for k in range(4)) for name in ("u0", "u1", "u2", "u3")}
    own["u3"] = (*own["u0"][:2], "another thing entirely", "and one more of my own")
    own["u2"] = (own["u1"][0].upper() + "!", *own["u2"][1:])
    users = [User(name, tuple(Post(f"{name}-{k}", text) for k, text in enumerate(said))) for name, said in own.items()]
    items = [changed(item, user=user, cluster=user.id) for item, user in zip(pairs(4).items, users, strict=True)]
    bench = with_items(pairs(4), items)
    found = user_overlap(bench, post_texts(bench))
    assert found.status == "warn"
    assert found.measures["users who share half or more"] == 2
    assert estimate(found, "users with a shared post").value == 1
    assert "'u0', 'u3'" in found.found


# ---------------------------------------------------------------- rubrics


def rubric_items(titles: list[list[str]], prompts: list[str], answers: list[tuple[str, str]]) -> list[Item]:
    return [
        changed(
            item,
            prompt=prompt,
            candidates=pair,
            preferred=0,
            oracle=Oracle(tuple(Aspect(title) for title in own)),
        )
        for item, own, prompt, pair in zip(pairs(len(titles)).items, titles, prompts, answers, strict=True)
    ]


def test_rubric_words_in_prompts_by_hand() -> None:
    items = rubric_items(
        [["Warm honest tone"], ["Steam before heat"]],
        ["A warm and honest word on tone?", "Does heat help a warm crust?"],
        [("a", "b"), ("c", "d")],
    )
    found = rubrics.in_prompts(rubrics.rubrics(with_items(pairs(2), items)))
    # Own: warm, honest, tone of three; heat of steam, heat ("before" is no content word).
    assert estimate(found, "own rubric").value == pytest.approx((3 / 3 + 1 / 2) / 2)
    # Of the other's: warm of three in the second prompt, none of steam, heat in the first.
    assert estimate(found, "other rubrics").value == pytest.approx((1 / 3 + 0) / 2)
    assert estimate(found, "aspects named outright").value == 0.5
    assert found.status == "warn"
    assert "'i00000'" in found.found


def test_rubric_words_in_answers_are_a_give_away_measured_against_another_rubric() -> None:
    titles = [[f"topic{n} matters"] for n in range(8)]
    answers = [(f"It is topic{n}.", "It is something.") for n in range(8)]
    prompts = [f"Which, {n}?" for n in range(8)]
    found = rubrics.in_answers(rubrics.rubrics(with_items(pairs(8), rubric_items(titles, prompts, answers))))
    assert estimate(found, "own rubric").value == 1
    assert estimate(found, "next rubric").value == 0.5
    assert found.status == "note"


def test_rubrics_that_all_say_the_same_are_a_warning() -> None:
    same = rubric_items([["Clear and correct"]] * 6, ["?"] * 6, [("a", "b")] * 6)
    found = rubrics.diversity(rubrics.rubrics(with_items(pairs(6), same)))
    assert found.status == "warn"
    assert found.measures["distinct titles"] == pytest.approx(1 / 6)
    assert found.measures["mean cosine"] == pytest.approx(1)
    different = rubric_items([[f"word{n} other{n}"] for n in range(6)], ["?"] * 6, [("a", "b")] * 6)
    found = rubrics.diversity(rubrics.rubrics(with_items(pairs(6), different)))
    assert (found.status, found.measures["mean cosine"]) == ("ok", 0)


# ---------------------------------------------------------------- general quality


def rated(differences: list[float], spread: float = 1.0) -> Benchmark:
    rng = random.Random(0)
    items = []
    for item, difference in zip(pairs(len(differences)).items, differences, strict=True):
        base = rng.gauss(3, spread)
        ratings = [base, base]
        ratings[item.preferred or 0] += difference
        items.append(changed(item, tags={f"quality:c{place}": repr(rating) for place, rating in enumerate(ratings)}))
    return with_items(pairs(1), items)


@pytest.mark.parametrize(("shift", "status"), [(0.0, "ok"), (0.12, "note"), (0.5, "warn")])
def test_general_quality_is_judged_by_two_one_sided_tests(shift: float, status: str) -> None:
    rng = random.Random(1)
    noise = [rng.gauss(0, 1) for _ in range(80)]
    centre = sum(noise) / len(noise)
    differences = [value - centre + shift for value in noise]
    found = quality(comparisons(rated(differences).items))
    margin = found.measures["margin"]
    assert isinstance(margin, float)
    p, _, _ = DescrStatsW(differences).ttost_mean(-margin, margin)
    assert (found.status == "ok") == (p <= 0.05)
    assert found.status == status


def test_the_margin_is_a_fifth_of_a_standard_deviation() -> None:
    bench = rated([0.1, -0.1, 0.3])
    ratings = [float(value) for item in bench.items for value in item.tags.values()]
    assert quality(comparisons(bench.items)).measures["margin"] == pytest.approx(MARGIN * np.std(ratings))


def test_items_with_a_rating_missing_are_left_out() -> None:
    bench = rated([0.1, -0.1, 0.3])
    items = [changed(bench.items[0], tags={"quality:c0": "3"}), changed(bench.items[1], tags={"quality:c0": "x"})]
    assert quality(comparisons([*items, bench.items[2]])).measures["rated items"] == 1
    assert quality(comparisons(items)).status == "not available"


# ---------------------------------------------------------------- against organic prompts


def test_prompts_of_one_kind_are_not_told_apart() -> None:
    ps = []
    for seed in range(20):
        organic = texts(np.random.default_rng([seed, 9]), [12] * 60)
        found = against_organic(pairs(40, seed=seed), organic, seed=seed, relabellings=299)
        ps.append(found.measures["p"])
    # 20 tests at a rate of 5%: more than four have a chance of under 1 in 300.
    assert sum(isinstance(p, float) and p <= 0.05 for p in ps) <= 4


def test_prompts_of_another_kind_are_told_apart_and_how_is_said() -> None:
    organic = [f"{text[:-1].lower()}??" for text in texts(np.random.default_rng(9), [25] * 60)]
    found = against_organic(pairs(40), organic, relabellings=299)
    assert found.status == "warn"
    assert found.measures["p"] == 1 / 300
    assert estimate(found, "area under the curve").value > 0.95
    assert "more capitals" in found.found


def test_prompts_of_one_record_count_once() -> None:
    organic = texts(np.random.default_rng(9), [15] * 30)
    found = against_organic(records(25), organic, relabellings=299)
    assert found.found.startswith("a classifier on style tells 25 prompts from 30 organic ones")
    assert against_organic(records(10), organic).status == "not available"


def test_organic_prompts_that_are_left_out_are_counted(tmp_path: Path) -> None:
    organic = texts(np.random.default_rng(9), [15] * 30)
    path = tmp_path / "organic.jsonl"
    path.write_text("".join(f"{json.dumps({'prompt': text})}\n" for text in [*organic, "", " \n", "?!", organic[3]]))
    clean = against_organic(records(25), organic, relabellings=299)
    found = against_organic(records(25), read_prompts(path), relabellings=299)
    assert found.found == f"{clean.found}; of 34 organic prompts left out: 3 blank, 1 repeated"
    left_out = {"organic prompts left out, blank": 3, "organic prompts left out, repeated": 1}
    assert found.measures == {**clean.measures, **left_out}
    few = against_organic(records(25), ["", *organic[:5]])
    assert few.found == "25 prompts and 5 organic, wanted 20 of each; of 6 organic prompts left out: 1 blank"


def test_the_area_is_that_of_another_library() -> None:
    rng = np.random.default_rng(0)
    label, scores = rng.random(50) < 0.4, rng.integers(0, 9, 50).astype(np.float64)
    found = _area_estimate(np.array([(scores < s).sum() + (scores == s).sum() / 2 for s in scores]), label)
    assert found.value == pytest.approx(roc_auc_score(label, scores))
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high


def test_organic_prompts_are_read_as_lines_and_as_json_lines(tmp_path: Path) -> None:
    plain, rows = tmp_path / "organic.txt", tmp_path / "organic.jsonl"
    plain.write_text("How do I fold it?\n\n  \nWhy is it flat?\n", encoding="utf-8")
    rows.write_text('{"prompt": "How do I fold it?", "id": 1}\n\n"Why is it flat?"\n', encoding="utf-8")
    assert read_prompts(plain) == read_prompts(rows) == ["How do I fold it?", "Why is it flat?"]


_ASKED = ("How do I fold it?", "Why is it flat?")


def _hh(asked: str) -> dict[str, str]:
    start = f"\n\nHuman: {asked}\n\nAssistant: Which dough?\n\nHuman: Rye.\n\nAssistant:"
    return {"chosen": f"{start} Cold and slow.", "rejected": f"{start} I would not know."}


def _messages(asked: str, answer: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]


def _binarized(asked: str) -> dict[str, object]:
    both = {"chosen": _messages(asked, "Twice."), "rejected": _messages(asked, "No idea.")}
    return {"prompt": asked, "prompt_id": "5a1f", **both, "messages": both["chosen"], "score_chosen": 8.5}


def _without_prompt(asked: str) -> dict[str, object]:
    return {key: value for key, value in _binarized(asked).items() if key in ("chosen", "rejected")}


def _ultrafeedback(asked: str) -> dict[str, object]:
    answers = [
        {"model": f"m{n}", "response": f"Answer {n}.", "annotations": {"helpfulness": {"Rating": "5"}}}
        for n in range(4)
    ]
    return {"source": "evol_instruct", "instruction": asked, "models": ["m0"], "completions": answers}


def _shared(asked: str) -> dict[str, object]:
    return {"conversation": [{"from": "system", "value": "Be kind."}, {"from": "human", "value": asked}]}


@pytest.mark.parametrize("row", [_hh, _binarized, _without_prompt, _ultrafeedback, _shared])
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_the_columns_of_hh_rlhf_and_ultrafeedback_are_read(
    tmp_path: Path, row: Callable[[str], dict[str, object]], suffix: str
) -> None:
    write = {"jsonl": write_jsonl, "parquet": write_parquet}[suffix]
    path = write(tmp_path / f"organic.{suffix}", [row(asked) for asked in _ASKED])
    assert tuple(read_prompts(path)) == _ASKED


def test_rows_may_be_packed_a_list_or_a_table(tmp_path: Path) -> None:
    rows = [_hh(asked) for asked in _ASKED]
    packed = tmp_path / "train.jsonl.gz"
    packed.write_bytes(gzip.compress("".join(f"{json.dumps(row)}\n" for row in rows).encode()))
    (tmp_path / "rows.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    (tmp_path / "rows.csv").write_text("id,prompt\n" + "".join(f'{n},"{x}"\n' for n, x in enumerate(_ASKED)))
    for path in (packed, tmp_path / "rows.json", tmp_path / "rows.csv"):
        assert tuple(read_prompts(path)) == _ASKED
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(BenchmarkError, match="cannot read organic prompts"):
        read_prompts(packed)


def test_an_answer_is_never_taken_for_a_prompt(tmp_path: Path) -> None:
    """A row of chosen and rejected texts without a person's turn holds no prompt."""
    for row in ({"chosen": "Cold and slow.", "rejected": "No."}, {"chosen": [{"role": "assistant", "content": "A."}]}):
        with pytest.raises(RowError, match=r":1: \(row\): found the keys chosen"):
            read_prompts(write_jsonl(tmp_path / "rows.jsonl", [row]))


def test_a_file_of_something_else_is_refused_with_its_line(tmp_path: Path) -> None:
    rows = tmp_path / "organic.jsonl"
    rows.write_text('{"prompt": "fine"}\n{"answer": "no"}\n', encoding="utf-8")
    with pytest.raises(RowError, match=r"organic\.jsonl:2: \(row\): found the keys answer, wanted a text, or an"):
        read_prompts(rows)
    rows.write_text("{torn\n", encoding="utf-8")
    with pytest.raises(RowError, match=r"organic\.jsonl:1: \(line\)"):
        read_prompts(rows)
    rows.write_text("\n", encoding="utf-8")
    with pytest.raises(BenchmarkError, match="found no prompts"):
        read_prompts(rows)
    with pytest.raises(BenchmarkError, match="cannot read organic prompts"):
        read_prompts(tmp_path / "nowhere.txt")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(BenchmarkError, match="cannot read organic prompts"):
        read_prompts(tmp_path / "latin.txt")


# ---------------------------------------------------------------- style


def test_style_counts_what_its_names_say() -> None:
    text = "You may try 2 loaves, honestly! Why not?\n- Fold it.\n- Don't rush."
    found = dict(zip(FEATURES, style([text])[0].tolist(), strict=True))
    words = 13
    rate = {name: round(np.expm1(found[name]) * words / 100) for name in FEATURES[5:]}
    assert round(np.exp(found["sentences"])) == 4
    assert round(np.exp(found["characters"])) == len(text)
    expected = {"digits": 1, "commas": 1, "question marks": 1, "exclamation marks": 1, "list lines": 2, "hedges": 1}
    assert {name: rate[name] for name in expected} == expected
    assert rate["second person"] == 1
    assert rate["contractions"] == 1


def test_an_empty_text_has_no_style() -> None:
    assert not style(["", " \n"]).any()
