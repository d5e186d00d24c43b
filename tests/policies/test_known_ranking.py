"""Downstream, scorers of known quality are where theory puts them: computed from tastes and level counts, not by us."""

import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations, pairwise, product
from statistics import fmean

import numpy as np
import pytest
from scipy.integrate import simpson
from scipy.stats import norm

from pluralrm.benchmarks import load_benchmark
from pluralrm.benchmarks.simulated import named_person, person, settings_of, spoken_for
from pluralrm.benchmarks.simulated.tastes import Taste
from pluralrm.benchmarks.simulated.texts import read_answer
from pluralrm.core import Benchmark, Estimate, Run
from pluralrm.grading import open_grader
from pluralrm.policies.best_of_n import BestOfCurve, BestOfN, best_of_n, score_pool
from pluralrm.policies.grades import grade_folder, grade_pool, read_grades
from pluralrm.policies.policy import Draw
from pluralrm.policies.pool import Pool
from pluralrm.policies.sample import sample
from tests.benchmarks.test_simulated import DECLARED
from tests.benchmarks.test_simulated_ceilings import tastes

KS = (1, 2, 4, 8)
N = 8
SIGMAS = 4.0
BLUR = 1.5
MODELS = ("known:taste", f"known:taste,blur={BLUR}", "known:posts", "known:posts,blur=2", "known:nothing", "random")

Measured = tuple[Benchmark, Pool, dict[str, Run], BestOfN]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    bench = load_benchmark("simulated:users=120,items=1,posts=20")
    pool = sample(bench, "simulated", out=tmp_path_factory.mktemp("ranking") / "pool", draw=Draw(n=N))
    runs = {model: score_pool(pool, bench, model, "recent:20") for model in MODELS}
    grader = open_grader("truth")
    grade_pool(pool, bench, grader)
    grades = read_grades(grade_folder(pool, grader))
    return bench, pool, runs, best_of_n(pool, bench, list(runs.values()), grades, ks=KS)


def curve_of(found: BestOfN, model: str) -> BestOfCurve:
    [curve] = [one for one in found.curves if one.model == model]
    return curve


def taste_of(bench: Benchmark, item: str) -> Taste:
    return named_person(item.partition("-")[0], settings_of(bench)).taste


# ---------------------------------------------------------------- what the policy's answers are worth


@cache
def population(wants: tuple[tuple[int, int], ...]) -> dict[int, float]:
    """Return the law of the utility of an answer with random levels, given each want's weight and number of levels."""
    law: dict[int, float] = {}
    for met in product((True, False), repeat=len(wants)):
        chance = math.prod(1 / n if yes else 1 - 1 / n for (_, n), yes in zip(wants, met, strict=True))
        value = sum(weight for (weight, _), yes in zip(wants, met, strict=True) if yes)
        law[value] = law.get(value, 0.0) + chance
    return law


def wants_of(taste: Taste) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((want.weight, len(DECLARED[want.attribute])) for want in taste))


@cache
def best_of(wants: tuple[tuple[int, int], ...], k: int, blur: float) -> float:
    """Return the expected share of the wants' weight that the best of k answers meets, judged by utility plus noise."""
    law, whole = population(wants), sum(weight for weight, _ in wants)
    if not blur:
        below = {value: sum(chance for other, chance in law.items() if other < value) for value in law}
        return sum(value * ((below[value] + law[value]) ** k - below[value] ** k) for value in law) / whole

    # The best of k has some utility where its score lies above those of the k - 1 others.
    scores = np.linspace(-9 * blur, whole + 9 * blur, 4_001)
    others = sum(chance * norm.cdf((scores - other) / blur) for other, chance in law.items())
    picked = {value: simpson(norm.pdf((scores - value) / blur) / blur * others ** (k - 1), x=scores) for value in law}
    assert sum(k * law[value] * picked[value] for value in law) == pytest.approx(1, abs=1e-6)
    return float(sum(value * k * law[value] * picked[value] for value in law)) / whole


@pytest.mark.parametrize(("model", "blur"), [("known:taste", 0.0), (f"known:taste,blur={BLUR}", BLUR)])
def test_who_knows_the_taste_earns_what_order_statistics_say(model: str, blur: float, measured: Measured) -> None:
    bench, pool, _, found = measured
    curve = curve_of(found, model)
    for place, k in enumerate(KS):
        expected = [best_of(wants_of(taste_of(bench, item)), k, blur) for item in pool.samples]
        surprise = curve.values[:, place] - np.array(expected)
        error = surprise.std(ddof=1) / math.sqrt(len(surprise))
        assert abs(surprise.mean()) < SIGMAS * error, k
        assert curve.points[place].grade.value == pytest.approx(fmean(expected), abs=SIGMAS * error)


def test_who_knows_nothing_earns_what_the_policy_is_worth_at_every_k(measured: Measured) -> None:
    bench, pool, _, found = measured
    for model in ("known:nothing", "random"):
        curve = curve_of(found, model)
        mean = [
            sum(weight / levels for weight, levels in wants) / sum(weight for weight, _ in wants)
            for wants in (wants_of(taste_of(bench, item)) for item in pool.samples)
        ]
        for place in range(len(KS)):
            surprise = curve.values[:, place] - np.array(mean)
            assert abs(surprise.mean()) < SIGMAS * surprise.std(ddof=1) / math.sqrt(len(surprise))


# ---------------------------------------------------------------- what the posts tell


def chances_by_hand(bench: Benchmark, item: str, texts: Sequence[str]) -> list[float]:
    """Return the probability that each answer is preferred, by Bayes' rule over every taste that there can be."""
    settings = settings_of(bench)
    heard = [each for each in spoken_for(person(int(item[1:6]), settings)) if each is not None]
    levels = [list((read_answer(text) or {}).items()) for text in texts]
    masses, total = np.zeros(len(texts)), 0.0
    for taste, mass in tastes(settings.cares, settings.crowd):
        weight = sum(taste.values())
        likelihood = mass * math.prod(0.5 * taste.get(each, 0) / weight + 0.5 / 16 for each in heard)
        odds = np.exp([float(sum(taste.get(each, 0) for each in answer)) for answer in levels])
        masses, total = masses + likelihood * odds / odds.sum(), total + likelihood
    return [float(mass / total) for mass in masses]


def subsets(scores: Sequence[float], worth: Sequence[float], k: int) -> Iterator[float]:
    """Yield what each subset of k earns: the mean worth of those that share its highest score."""
    for places in combinations(range(len(scores)), k):
        top = max(scores[place] for place in places)
        yield fmean(worth[place] for place in places if scores[place] >= top - 1e-9)


def test_who_reads_the_posts_picks_by_the_chances_that_bayes_gives(measured: Measured) -> None:
    bench, pool, _, found = measured
    curve = curve_of(found, "known:posts")
    for row, item in list(enumerate(pool.samples))[:8]:
        texts = [one.text for one in pool.samples[item]]
        chances = chances_by_hand(bench, item, texts)
        taste = taste_of(bench, item)
        whole = sum(want.weight for want in taste)
        worth = [
            sum(want.weight for want in taste if levels[want.attribute] == want.level) / whole
            for levels in (read_answer(text) or {} for text in texts)
        ]
        for place, k in enumerate(KS):
            assert curve.values[row, place] == pytest.approx(fmean(subsets(chances, worth, k)), abs=1e-9)


# ---------------------------------------------------------------- the ranking


def test_the_ranking_is_that_of_what_they_know(measured: Measured) -> None:
    _, pool, _, found = measured
    values = {model: curve_of(found, model).values for model in MODELS}
    for better, worse in pairwise(("known:taste", "known:posts", "known:posts,blur=2", "known:nothing")):
        for place in range(1, len(KS)):
            lead = values[better][:, place] - values[worse][:, place]
            assert lead.mean() > SIGMAS * lead.std(ddof=1) / math.sqrt(len(pool.samples)), (better, worse, KS[place])
    lead = values["known:nothing"][:, -1] - values["random"][:, -1]
    assert abs(lead.mean()) < SIGMAS * lead.std(ddof=1) / math.sqrt(len(pool.samples))


def test_the_intervals_part_those_that_differ_and_hold_the_policy_where_nothing_is_known(measured: Measured) -> None:
    _, _, _, found = measured
    taste, posts, nothing, chance = (
        curve_of(found, model).last.grade for model in ("known:taste", "known:posts", "known:nothing", "random")
    )
    assert (taste.low or 0) > (posts.high or 1)
    assert (posts.low or 0) > (nothing.high or 1)
    for blind in (nothing, chance):
        assert (blind.low or 1) <= found.random[-1].value <= (blind.high or 0)
    assert [one.grade for one in curve_of(found, "known:taste").points] == list(found.oracle)
    assert not any(curve.over_optimised for curve in found.curves)


# ---------------------------------------------------------------- exact against the first k


def test_over_all_subsets_the_interval_is_narrower_than_of_the_first_k(measured: Measured) -> None:
    _, _, _, found = measured
    for model in MODELS:
        *inner, last = curve_of(found, model).points
        for point in inner:
            assert point.first is not None
            assert _width(point.grade) < _width(point.first), (model, point.k)
        assert last.first == last.grade  # all N are one subset


def _width(estimate: Estimate) -> float:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.high - estimate.low
