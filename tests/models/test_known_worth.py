"""`known:...,as=worth`: of each answer alone what it gives its user, as the grader `truth` counts it."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, pairwise, product
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from scipy.stats import kstest, pearsonr

from pluralrm import score
from pluralrm.benchmarks import load_benchmark
from pluralrm.benchmarks.simulated.scorers import Knowing, attainable, choice_table
from pluralrm.benchmarks.simulated.texts import Signal, attributes, read_answer, read_post
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Failure, Query
from pluralrm.errors import SpecError
from pluralrm.grading.truth import Truth
from pluralrm.models import compares, load_model, model_scale
from pluralrm.models.controls import KNOWING
from pluralrm.runs import plan

KEYS = "cares=2,crowd=0.4,noise=0.3,seed=5"
BENCH = load_benchmark(f"simulated:users=30,items=3,candidates=4,posts=6,{KEYS}")


def shown(bench: Benchmark = BENCH, condition: str = "recent:6") -> list[Query]:
    return list(load_condition(condition).queries(bench, bench.items))


def scores(spec: str, queries: Sequence[Query] = ()) -> list[tuple[float, ...]]:
    """Return the scores, none of which may have failed."""
    verdicts = list(load_model(spec).score(queries or shown()))
    assert not any(verdict.failures for verdict in verdicts)
    return [tuple(one for one in verdict.scores if not isinstance(one, Failure)) for verdict in verdicts]


def worths(knowing: Knowing, queries: Sequence[Query] = ()) -> list[tuple[float, ...]]:
    return scores(f"known:{knowing},as=worth,{KEYS}", queries)


# ---------------------------------------------------------------- what an answer gives


def test_who_knows_the_taste_gives_the_grade_of_truth() -> None:
    asked = [(item, text) for item in BENCH.items for text in item.candidates]
    graded = [one.grade for one in Truth().grade(asked)]
    assert np.concatenate(worths("taste")) == pytest.approx(graded, abs=1e-12)


Wanted = dict[str, tuple[str, int]]
"""Attribute to level and weight."""


def tastes(cares: int, crowd: float) -> Iterator[tuple[Wanted, float]]:
    """Yield every taste and its probability, from the table of docs/simulated.md alone."""
    subsets = list(combinations(attributes(), cares))
    for subset in subsets:
        for levels, weights in product(product(*(one.levels for one in subset)), product((1, 2), repeat=cares)):
            popular = [
                crowd * (level == one.crowd) + (1 - crowd) / len(one.levels)
                for one, level in zip(subset, levels, strict=True)
            ]
            wanted = {one.name: (level, by) for one, level, by in zip(subset, levels, weights, strict=True)}
            yield wanted, math.prod(popular) / len(subsets) / 2**cares


def spoken(wanted: Wanted, signal: Signal, noise: float) -> float:
    """Return the probability that a post which is no chatter speaks for this level."""
    level, weight = wanted.get(signal.attribute, ("", 0))
    return noise / 16 + (1 - noise) * weight * (level == signal.level) / sum(by for _, by in wanted.values())


def expected(query: Query, *, cares: int, crowd: float, noise: float) -> list[float]:
    """Return each answer's expected share of the wants, over all tastes, by hand."""
    heard = [signal for post in (query.user.posts if query.user else ()) for signal in read_post(post.text)]
    answers = [read_answer(text) or {} for text in query.candidates]
    total, sums = 0.0, [0.0] * len(answers)
    for wanted, prior in tastes(cares, crowd):
        mass = prior * math.prod(spoken(wanted, signal, noise) for signal in heard)
        total += mass
        weights = sum(by for _, by in wanted.values())
        for place, answer in enumerate(answers):
            met = sum(by for name, (level, by) in wanted.items() if answer[name] == level)
            sums[place] += mass * met / weights
    return [one / total for one in sums]


@pytest.mark.parametrize(("knowing", "condition"), [("posts", "recent:6"), ("posts", "recent:2"), ("nothing", "none")])
def test_a_worth_is_the_expectation_over_every_taste(knowing: Knowing, condition: str) -> None:
    queries = shown(condition=condition)[:24]
    by_hand = [expected(query, cares=2, crowd=0.4, noise=0.3) for query in queries]
    assert np.array(worths(knowing, queries)) == pytest.approx(np.array(by_hand), abs=1e-9)


def test_a_world_of_one_want_is_as_it_is_by_hand() -> None:
    keys = "cares=1,crowd=0.7,noise=0.0"
    bench = load_benchmark(f"simulated:users=20,items=2,posts=9,{keys}")
    queries = shown(bench)
    by_hand = [expected(query, cares=1, crowd=0.7, noise=0.0) for query in queries]
    found = scores(f"known:posts,as=worth,{keys}", queries)
    assert np.array(found) == pytest.approx(np.array(by_hand), abs=1e-9)
    assert max(map(max, found)) == 1.0  # without noise one post gives the only want away


@pytest.mark.parametrize("users", [120, pytest.param(400, marks=pytest.mark.slow)])
def test_the_mean_of_what_is_expected_is_the_mean_of_what_is(users: int) -> None:
    # Over many users, what the posts and what nothing lets expect must come out as the grades do: both are calibrated.
    bench = load_benchmark(f"simulated:users={users},items=4,posts=6,{KEYS}")
    queries = shown(bench)
    graded = np.concatenate(worths("taste", queries))
    for knowing in ("posts", "nothing"):
        told = np.concatenate(worths(knowing, queries))
        for high in (told > np.median(told), told <= np.median(told)):
            assert told[high].mean() == pytest.approx(graded[high].mean(), abs=0.03)


def test_the_more_is_known_the_nearer_it_comes_to_the_grade() -> None:
    truth = np.concatenate(worths("taste"))
    errors = [float(((np.concatenate(worths(one)) - truth) ** 2).mean()) for one in ("nothing", "posts", "taste")]
    assert errors[0] > errors[1] + 0.005 > errors[2] + 0.01
    assert errors[2] == 0


# ---------------------------------------------------------------- alone, and what cannot be read


@pytest.mark.parametrize("knowing", KNOWING)
@pytest.mark.parametrize("blur", ["", ",blur=0.5"])
def test_no_company_no_place_and_no_batch_changes_a_worth(knowing: Knowing, blur: str) -> None:
    spec = f"known:{knowing},as=worth,{KEYS}{blur}"
    whole, queries = scores(spec), shown()
    alone = [scores(spec, [replace(query, candidates=(text,))])[0][0] for query in queries for text in query.candidates]
    assert alone == list(np.concatenate(whole))
    other = [replace(query, candidates=("Rye.", *query.candidates[::-1])) for query in queries]
    assert [row[:0:-1] for row in scores(spec, other)] == whole


def test_what_cannot_be_read_is_worth_nothing_as_it_is_graded() -> None:
    first, second = shown()[0], shown()[4]
    broken = ("Rye.", "", second.candidates[0], first.candidates[0][: len(first.candidates[0]) // 2])
    for knowing in KNOWING:
        assert worths(knowing, [replace(first, candidates=broken)]) == [(0.0, 0.0, 0.0, 0.0)]


@pytest.mark.parametrize("knowing", KNOWING)
def test_a_query_of_another_world_has_no_worth(knowing: Knowing) -> None:
    first, second = shown()[:2]
    others = [replace(first, prompt=second.prompt), replace(first, id="u00000-i99999"), replace(first, id="bread")]
    verdicts = list(load_model(f"known:{knowing},as=worth,{KEYS}").score(others))
    assert Counter(failure.kind for one in verdicts for failure in one.failures) == {"unsupported": 12}
    [cell] = plan([BENCH], [f"known:{knowing},as=worth"], ["none"])
    assert "is of another world than simulated: wanted" in (cell.skip or "")
    assert "as=worth" in (cell.skip or "")


# ---------------------------------------------------------------- blur


def test_the_error_is_normal_of_the_size_told_and_its_own() -> None:
    clear, worth = (np.concatenate(scores(f"known:posts,as=worth,{KEYS}{blur}")) for blur in ("", ",blur=0.7"))
    assert kstest((worth - clear) / 0.7, "norm").pvalue > 0.01
    choice = np.concatenate(scores(f"known:posts,blur=0.7,{KEYS}")) - np.concatenate(scores(f"known:posts,{KEYS}"))
    assert abs(pearsonr(worth - clear, choice).statistic) < 0.2


def test_what_cannot_be_read_errs_too() -> None:
    broken = [replace(query, candidates=("Rye.",)) for query in shown()]
    assert np.std(scores(f"known:taste,as=worth,blur=2,{KEYS}", broken)) == pytest.approx(2, rel=0.25)


# ---------------------------------------------------------------- as a scorer of pairs


PAIRS = load_benchmark("simulated:users=60,items=6,crowd=0.5")


def expected_accuracy(spec: str) -> float:
    """Return how often it is right, in expectation over the users' choices; tied candidates share."""
    law, found = choice_table(PAIRS, "taste"), scores(f"{spec},crowd=0.5", shown(PAIRS, "recent:20"))
    right = []
    for chances, row in zip(law, found, strict=True):
        top = [chance for chance, one in zip(chances, row, strict=True) if one == max(row)]
        right.append(fmean(top))
    return fmean(right)


def test_it_ranks_two_answers_as_well_as_can_be_with_what_it_knows() -> None:
    # By what is expected of each, not by how often it wins: the taste ranks alike, the posts nearly so.
    assert expected_accuracy("known:taste,as=worth") == pytest.approx(fmean(attainable(PAIRS, "taste")), abs=1e-9)
    for knowing in ("posts", "nothing"):
        ceiling = expected_accuracy(f"known:{knowing}")
        found = expected_accuracy(f"known:{knowing},as=worth")
        assert ceiling - 0.01 < found < ceiling + 0.01


def test_more_blur_is_worse() -> None:
    values = [expected_accuracy(f"known:taste,as=worth{blur}") for blur in ("", ",blur=0.3", ",blur=1", ",blur=30")]
    assert all(better > worse + 0.03 for better, worse in pairwise(values))
    assert values[-1] == pytest.approx(0.5, abs=0.05)


# ---------------------------------------------------------------- what is said of it


def test_choice_is_what_it_is_without_being_said() -> None:
    for knowing in KNOWING:
        for blur in ("", ",blur=1"):
            assert scores(f"known:{knowing},as=choice,{KEYS}{blur}") == scores(f"known:{knowing},{KEYS}{blur}")


def test_only_a_choice_compares() -> None:
    assert compares("known:posts")
    assert compares("known:posts,as=choice")
    assert not any(compares(f"known:{knowing},as=worth,blur=1") for knowing in KNOWING)


def test_a_worth_is_a_share_and_a_blurred_one_any_number() -> None:
    assert model_scale("known:posts,as=worth") == "unit"
    assert model_scale("known:posts,as=worth,blur=1") == "unbounded"
    assert model_scale("known:posts,as=choice") == "unbounded"


def test_who_reads_the_taste_is_still_an_upper_control(tmp_path: Path) -> None:
    assert "oracle" in score(BENCH, f"known:taste,as=worth,{KEYS}", out=tmp_path, limit=3).reveals
    assert "oracle" not in score(BENCH, f"known:posts,as=worth,{KEYS}", out=tmp_path, limit=3).reveals


def test_a_slip_is_told() -> None:
    with pytest.raises(SpecError, match=r"as is 'wort'; wanted choice or worth. Did you mean 'worth'"):
        load_model("known:taste,as=wort")


def test_a_liking_for_length_adds_to_each_answer_by_its_characters_alone() -> None:
    plain, biased, short = (scores(f"known:posts,as=worth,length={weight},{KEYS}") for weight in ("0", "2", "-2"))
    assert plain == worths("posts")
    for query, *rows in zip(shown(), plain, biased, short, strict=True):
        for text, own, more, less in zip(query.candidates, *rows, strict=True):
            assert more - own == pytest.approx(2 * len(text) / 1000)
            assert less - own == pytest.approx(-2 * len(text) / 1000)
    assert model_scale("known:posts,as=worth,length=1") == "unbounded"
    with pytest.raises(SpecError, match="known: length is 'long'; wanted a number from -1000 to 1000"):
        load_model("known:posts,length=long")
