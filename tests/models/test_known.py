"""`known:`: as good as theory says, exactly so much worse with blur, and silent about other worlds."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from scipy.stats import kstest, norm, pearsonr

from pluralrm import score
from pluralrm.benchmarks import load_benchmark
from pluralrm.benchmarks.simulated.scorers import Knowing, choice_table, taste_known
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Failure, Query
from pluralrm.errors import ConditionError, SpecError
from pluralrm.models import load_model, misfit, model_scale
from pluralrm.models.controls import KNOWING
from pluralrm.policies.pool import pool_benchmark
from pluralrm.runs import plan
from tests.builders import bakery
from tests.policies.pools import pool_of

BENCH = load_benchmark("simulated:users=60,items=3,candidates=3")


def shown(bench: Benchmark = BENCH, condition: str = "recent:20") -> list[Query]:
    return list(load_condition(condition).queries(bench, bench.items))


def scores(spec: str, queries: Sequence[Query] = ()) -> list[tuple[float, ...]]:
    """Return the scores, none of which may have failed."""
    verdicts = list(load_model(spec).score(queries or shown()))
    assert not any(verdict.failures for verdict in verdicts)
    return [tuple(one for one in verdict.scores if not isinstance(one, Failure)) for verdict in verdicts]


def failures(spec: str, queries: Sequence[Query]) -> list[Failure]:
    return [failure for verdict in load_model(spec).score(queries) for failure in verdict.failures]


# ---------------------------------------------------------------- what is known


@pytest.mark.parametrize("knowing", KNOWING)
def test_without_blur_a_score_is_the_log_of_the_best_that_can_be_known(knowing: Knowing) -> None:
    for found, wanted in zip(scores(f"known:{knowing}"), choice_table(BENCH, knowing), strict=True):
        assert np.exp(found) == pytest.approx(wanted, abs=1e-8)


def test_posts_are_those_that_the_condition_shows() -> None:
    assert scores("known:posts", shown(condition="none")) == scores("known:nothing")
    assert scores("known:posts", shown(condition="swapped:20")) != scores("known:posts")


def test_the_keys_of_the_world_are_those_of_the_benchmark() -> None:
    keys = "cares=2,crowd=0.5,noise=0.2,seed=8,sharpness=2,domains=1"
    bench = load_benchmark(f"simulated:users=20,items=2,{keys}")
    for knowing in KNOWING:
        found = scores(f"known:{knowing},{keys}", shown(bench))
        for row, wanted in zip(found, choice_table(bench, knowing), strict=True):
            assert np.exp(row) == pytest.approx(wanted, abs=1e-8)


@pytest.mark.parametrize("knowing", KNOWING)
def test_what_is_not_of_the_world_has_no_score(knowing: Knowing) -> None:
    first, second = shown()[:2]
    others: list[Query] = [
        *shown(bakery(2), "none"),
        replace(first, prompt=second.prompt),
        replace(first, id="u00000-i99999"),
        replace(first, id="u00001-i0"),
        replace(first, candidates=("Rye.", *first.candidates[1:])),
        replace(first, candidates=second.candidates),
    ]
    found = failures(f"known:{knowing}", others)
    assert {failure.kind for failure in found} == {"unsupported"}
    assert len(found) == sum(len(query.candidates) for query in others)
    assert {failure.kind for failure in failures(f"known:{knowing},seed=1", shown())} == {"unsupported"}


@pytest.mark.parametrize(
    ("spec", "keys", "wanted"),
    [
        ("known:taste,blur=1", "cares=2,noise=0.1", "known:taste,blur=1,cares=2"),
        ("known:posts", "noise=0.1,seed=3,users=9", "known:posts,noise=0.1,seed=3"),
        ("known:nothing,crowd=0.5", "users=9", "known:nothing,crowd=0.0"),
    ],
)
def test_another_world_is_told_with_the_keys_that_are_wanted(spec: str, keys: str, wanted: str, tmp_path: Path) -> None:
    bench = load_benchmark(f"simulated:{keys}")
    [cell] = plan([bench], [spec], ["none"])
    assert cell.skip == f"{spec} is of another world than simulated: wanted {wanted}"
    with pytest.raises(ConditionError, match="is of another world"):
        score(bench, spec, out=tmp_path)
    assert plan([bench], [wanted], ["none"])[0].skip is None
    pool = pool_of({item.id: item.candidates for item in bench.items[:2]}, tmp_path, bench)
    assert [plan([pool_benchmark(pool, bench)], [one], ["none"])[0].skip is None for one in (spec, wanted)] == [0, 1]


def test_items_of_no_known_world_are_refused_and_those_of_a_file_are_left_to_their_queries(tmp_path: Path) -> None:
    refused = "known:posts scores simulated users alone, and bakery has none of its world"
    assert plan([bakery(2)], ["known:posts"], ["none"])[0].skip == refused
    with pytest.raises(ConditionError, match=refused):
        score(bakery(2), "known:posts", out=tmp_path)
    assert not list(tmp_path.iterdir())
    mixed = Benchmark(bakery(2).card, (*bakery(2).items, *BENCH.items[:2]))
    run = score(mixed, "known:posts", out=tmp_path)
    assert [row.failed for row in run.rows] == [True, True, False, False]


# ---------------------------------------------------------------- blur


def test_blur_is_normal_and_of_the_size_told() -> None:
    clear, blurred = (np.concatenate(scores(f"known:posts{keys}")) for keys in ("", ",blur=0.7"))
    assert kstest((blurred - clear) / 0.7, "norm").pvalue > 0.01


def test_two_specs_err_apart_and_one_errs_the_same_each_time() -> None:
    first, second, other = (
        np.concatenate(scores(spec)) - np.concatenate(scores(spec.partition(",")[0]))
        for spec in ("known:posts,blur=1", "known:posts,blur=1.5", "known:taste,blur=1")
    )
    assert abs(pearsonr(first, second).statistic) < 0.15
    assert abs(pearsonr(first, other).statistic) < 0.15
    assert scores("known:posts,blur=1") == scores("known:posts,blur=1.0")


@pytest.mark.parametrize("spec", ["known:posts,blur=0.5", "known:taste", "known:nothing,blur=2"])
def test_no_batch_and_no_order_changes_a_score(spec: str) -> None:
    together = scores(spec)
    assert [scores(spec, [query])[0] for query in shown()[:9]] == together[:9]
    turned = [replace(query, candidates=query.candidates[::-1]) for query in shown()]
    assert np.array(scores(spec, turned))[:, ::-1] == pytest.approx(np.array(together), abs=1e-8)


@cache
def pairs() -> Benchmark:
    return load_benchmark("simulated:users=200,items=6")


def right(spec: str, condition: str) -> float:
    """Return how often the preferred of two candidates has the higher score."""
    found = scores(spec, shown(pairs(), condition))
    return fmean(row[item.preferred or 0] == max(row) for row, item in zip(found, pairs().items, strict=True))


def test_a_blurred_scorer_is_as_often_right_as_its_chances_say() -> None:
    # Of two candidates the first has the higher score with probability Phi(log odds / (sigma sqrt 2)).
    bench, sigma = pairs(), 0.8
    truth = choice_table(bench, "taste")
    expected = []
    for known, law in zip(choice_table(bench, "posts", posts=20), truth, strict=True):
        first = norm.cdf(math.log(known[0] / known[1]) / (sigma * math.sqrt(2)))
        expected.append(first * law[0] + (1 - first) * law[1])
    error = math.sqrt(fmean(one * (1 - one) for one in expected) / len(expected))
    assert right(f"known:posts,blur={sigma}", "recent:20") == pytest.approx(fmean(expected), abs=4 * error)


def test_more_blur_is_worse_and_all_blur_is_a_coin() -> None:
    specs = ["known:taste", "known:taste,blur=1", "known:taste,blur=3", "known:taste,blur=1000"]
    values = [right(spec, "none") for spec in specs]
    assert all(better > worse + 0.03 for better, worse in pairwise(values))
    assert values[-1] == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(1200))


# ---------------------------------------------------------------- what is said of it


def test_who_reads_the_taste_is_told_to_be_an_upper_control(tmp_path: Path) -> None:
    assert {
        spec: score(BENCH, spec, "recent:3", out=tmp_path, limit=5).reveals
        for spec in ("known:taste,blur=1", "known:posts", "known:nothing")
    } == {
        "known:taste,blur=1": {"posts", "oracle"},
        "known:posts": {"posts"},
        "known:nothing": {"posts"},
    }
    assert score(BENCH, taste_known(BENCH), out=tmp_path, limit=5).reveals == {"oracle"}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("known", "needs a target"),
        ("known:tast", "what is 'tast'. Did you mean 'taste'"),
        ("known:posts,blur=-1", "blur is '-1'; wanted a number from 0 to 1000"),
        ("known:posts,blur=nan", "blur is 'nan'"),
        ("known:posts,noise=2", "noise is '2'; wanted a number from 0 to 1"),
        ("known:posts,users=9", "no key 'users'"),
    ],
)
def test_slips_are_told(spec: str, told: str) -> None:
    with pytest.raises(SpecError, match=told.replace("?", r"\?")):
        load_model(spec)


def test_a_misspelled_target_is_told_before_its_world_is_compared() -> None:
    with pytest.raises(SpecError, match=r"what is 'post'.*Did you mean 'posts'"):
        misfit("known:post", BENCH)


def test_its_scores_are_unbounded() -> None:
    assert model_scale("known:posts") == "unbounded"
