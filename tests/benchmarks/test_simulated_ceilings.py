"""The three ceilings of the simulated users: right by brute force, reached by the plug-in scorers, not to be passed."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations, pairwise, product
from pathlib import Path
from statistics import fmean
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from pluralrm import score
from pluralrm.benchmarks.simulated import person, settings_of, spoken_for
from pluralrm.benchmarks.simulated.scorers import (
    Ceilings,
    Knowing,
    attainable,
    ceilings,
    choice_table,
    nothing_known,
    posts_known,
    scorer,
    taste_known,
)
from pluralrm.benchmarks.simulated.texts import read_answer
from pluralrm.core import Benchmark, Failure, Item, Post, Query, UserView
from pluralrm.errors import BenchmarkError
from pluralrm.metrics import measure
from pluralrm.testing import check_reward_model
from tests.benchmarks.test_simulated import CROWD, DECLARED, SIGNALS, made
from tests.builders import bakery

KNOWING: tuple[Knowing, ...] = get_args(Knowing)
SIGMAS = 4.0


def own(item: Item) -> Query:
    assert item.user is not None
    return Query(item.id, item.prompt, item.candidates, UserView(item.user.id, item.user.posts))


def numbers(benchmark: Benchmark, knowing: Knowing, queries: Sequence[Query]) -> list[tuple[float, ...]]:
    """Return the scores of a plug-in scorer, none of which may have failed."""
    verdicts = list(scorer(benchmark, knowing).score(queries))
    assert not any(verdict.failures for verdict in verdicts)
    return [tuple(score for score in verdict.scores if not isinstance(score, Failure)) for verdict in verdicts]


def credit(item: Item, scores: Sequence[float]) -> float:
    """Return the share that the preferred candidate has among those on top."""
    assert item.preferred is not None
    return (scores[item.preferred] == max(scores)) / scores.count(max(scores))


def clustered_z(items: Sequence[Item], surprises: Sequence[float]) -> float:
    """Return the sum of deviations over its standard error; those of one user go together."""
    sums: dict[str, float] = {}
    for item, surprise in zip(items, surprises, strict=True):
        sums[item.cluster] = sums.get(item.cluster, 0.0) + surprise
    return sum(sums.values()) / math.sqrt(sum(each**2 for each in sums.values()))


# ---------------------------------------------------------------- brute force


def tastes(cares: int, crowd: float) -> Iterator[tuple[dict[tuple[str, str], int], float]]:
    """Yield every taste as {(attribute, level): weight} with its prior mass, from the documented declaration."""
    for names in combinations(DECLARED, cares):
        for levels in product(*(DECLARED[name] for name in names)):
            mass = 1.0
            for name, level in zip(names, levels, strict=True):
                mass *= (1 - crowd) / len(DECLARED[name]) + (crowd if level == CROWD[name] else 0.0)
            for weights in product((1, 2), repeat=cares):
                yield dict(zip(zip(names, levels, strict=True), weights, strict=True)), mass


def by_hand(item: Item, heard: Sequence[tuple[str, str]], options: dict[str, float]) -> list[float]:
    """Return the probability of each candidate by Bayes' rule, taste by taste, in plain Python."""
    answers = [read_answer(text) or {} for text in item.candidates]
    masses, total = [0.0] * len(answers), 0.0
    for taste, mass in tastes(int(options["cares"]), options["crowd"]):
        likelihood = mass
        for each in heard:
            own_share = taste.get(each, 0) / sum(taste.values())
            likelihood *= (1 - options["noise"]) * own_share + options["noise"] / len(SIGNALS)
        odds = [math.exp(options["sharpness"] * sum(taste.get(each, 0) for each in a.items())) for a in answers]
        masses = [old + likelihood * each / sum(odds) for old, each in zip(masses, odds, strict=True)]
        total += likelihood
    return [each / total for each in masses]


@pytest.mark.parametrize(
    "options",
    [
        {"cares": 3, "noise": 0.5, "sharpness": 1.0, "crowd": 0.0},
        {"cares": 2, "noise": 0.2, "sharpness": 2.5, "crowd": 0.7, "candidates": 3},
        {"cares": 1, "noise": 0.0, "sharpness": 0.7, "crowd": 0.3, "candidates": 4},
        {"cares": 2, "noise": 1.0, "sharpness": 1.0, "crowd": 1.0},
    ],
)
def test_the_tables_of_choices_equal_brute_force(options: dict[str, float]) -> None:
    benchmark = made(",users=3,posts=12" + "".join(f",{key}={value}" for key, value in options.items()))
    settings = settings_of(benchmark)
    for number, item in enumerate(benchmark.items):
        heard = [each for each in spoken_for(person(number // 4, settings)) if each is not None]
        assert choice_table(benchmark, "posts")[number] == pytest.approx(by_hand(item, heard, options), abs=1e-8)
        assert choice_table(benchmark, "nothing")[number] == pytest.approx(by_hand(item, [], options), abs=1e-8)


def test_a_known_taste_gives_the_probabilities_worked_by_hand() -> None:
    # One want, sharpness ln 3: the answer that meets it has odds of 3 or 9 to 1, or both miss it.
    benchmark = made(f",users=200,cares=1,sharpness={math.log(3)}")
    assert set(attainable(benchmark, "taste")) == {0.5, 0.75, 0.9}
    by_margin = {"0": 0.5, "1": 0.75, "2": 0.9}
    assert attainable(benchmark, "taste") == [by_margin[item.tags["margin"]] for item in benchmark.items]


def test_a_ceiling_is_the_mean_of_the_best_probabilities() -> None:
    benchmark = made(":users=20")
    tables = {knowing: choice_table(benchmark, knowing) for knowing in KNOWING}
    assert all(sum(row) == pytest.approx(1, abs=1e-8) for table in tables.values() for row in table)
    means = [fmean(max(row) for row in tables[knowing]) for knowing in KNOWING]
    assert ceilings(benchmark) == Ceilings(*means)


# ---------------------------------------------------------------- the ceilings are reached


OPTIONS = ("seed=1", "seed=2,crowd=0.6,noise=0.3,sharpness=2", "seed=3,candidates=3,cares=2")
WORLDS = tuple(f":users=700,items=10,pairs=0,{options}" for options in OPTIONS)
SIZES = [
    *(f":users=120,items=10,pairs=0,{options}" for options in OPTIONS),
    *(pytest.param(options, marks=pytest.mark.slow) for options in WORLDS),
]


class World:
    """A benchmark with the scores of the three scorers on what each item's own user wrote."""

    def __init__(self, options: str) -> None:
        self.benchmark = made(options)
        queries = [own(item) for item in self.benchmark.items]
        self.scores = {knowing: numbers(self.benchmark, knowing, queries) for knowing in KNOWING}

    def misses(self, knowing: Knowing) -> float:
        """Return by how many standard errors a scorer's accuracy misses its ceiling; 0 where it cannot vary."""
        rows = zip(self.benchmark.items, self.scores[knowing], strict=True)
        surprises = [credit(item, row) - max(row) for item, row in rows]
        return clustered_z(self.benchmark.items, surprises) if any(surprises) else 0.0


world = lru_cache(maxsize=3)(World)


@pytest.mark.slow
@pytest.mark.parametrize("options", WORLDS)
def test_each_scorer_reaches_its_ceiling_and_none_passes_it(options: str) -> None:
    for knowing in KNOWING:
        assert abs(world(options).misses(knowing)) < SIGMAS, knowing


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", ",crowd=0.5", ",candidates=4", ",noise=0.1,chatter=0", ",cares=4,sharpness=3"])
def test_each_scorer_reaches_its_ceiling_on_twenty_thousand_items(options: str) -> None:
    for seed in (11, 12, 13):
        found = World(f":users=5000,pairs=0,seed={seed}{options}")
        for knowing in KNOWING:
            assert abs(found.misses(knowing)) < SIGMAS, (seed, knowing)


@pytest.mark.parametrize("options", SIZES)
def test_scores_are_probabilities_in_every_tenth(options: str) -> None:
    items = world(options).benchmark.items
    for knowing, table in world(options).scores.items():
        for tenth in range(10):
            cell = [(item, row[0]) for item, row in zip(items, table, strict=True) if int(row[0] * 10) == tenth]
            surprises = [(item.preferred == 0) - chance for item, chance in cell]
            if len(cell) > 50:
                assert abs(clustered_z([item for item, _ in cell], surprises)) < SIGMAS, (knowing, tenth)


@pytest.mark.parametrize("options", SIZES)
def test_the_law_of_the_labels_gives_the_expected_accuracy_of_any_scorer(options: str) -> None:
    items = world(options).benchmark.items
    lengths = [[len(text) for text in item.candidates] for item in items]
    longest = [row.index(max(row)) for row in lengths]
    rows = zip(items, world(options).scores["taste"], longest, strict=True)
    assert abs(clustered_z(items, [(item.preferred == place) - row[place] for item, row, place in rows])) < SIGMAS


def test_knowing_more_is_worth_a_clear_margin_at_the_defaults() -> None:
    best = ceilings(made())
    assert best.taste_known > best.posts_known + 0.05
    assert best.posts_known > best.nothing_known + 0.2
    assert best.nothing_known == 0.5


def test_more_posts_are_worth_more_and_no_posts_nothing() -> None:
    benchmark = made()
    curve = [fmean(attainable(benchmark, "posts", posts=posts)) for posts in (0, 2, 5, 10, 20)]
    assert curve[0] == fmean(attainable(benchmark, "nothing"))
    assert all(later > earlier + 0.02 for earlier, later in pairwise(curve))


@pytest.mark.parametrize("options", ["leak=0.6", "general=0.4", "leak=0.5,general=0.3,candidates=3"])
def test_the_law_of_leaky_and_general_labels_is_theirs(options: str) -> None:
    benchmark = made(f":users=400,{options}")
    table = choice_table(benchmark, "taste")
    assert all(sum(row) == pytest.approx(1, abs=1e-6) for row in table)
    variance = sum(max(row) * (1 - max(row)) for row in table)
    right = sum(row.index(max(row)) == item.preferred for row, item in zip(table, benchmark.items, strict=True))
    assert abs(right - sum(map(max, table))) < SIGMAS * variance**0.5  # independent draws of this law
    assert fmean(attainable(benchmark, "nothing")) > 0.6  # much can be guessed without the user


def test_sharpness_zero_is_a_coin_whatever_is_known() -> None:
    assert ceilings(made(":users=20,sharpness=0")) == Ceilings(0.5, 0.5, 0.5)


# ---------------------------------------------------------------- what answers alone tell


def leads(items: Sequence[Item], worth: Callable[[str], float]) -> list[float]:
    """Return by how much the preferred of two candidates has more of something than the other."""
    worths = [[worth(text) for text in item.candidates] for item in items]
    return [(row[0] - row[1]) * (-1) ** (item.preferred or 0) for item, row in zip(items, worths, strict=True)]


@pytest.mark.slow
def test_without_a_crowd_answers_alone_tell_nothing() -> None:
    items = world(WORLDS[0]).benchmark.items
    assert set(world(WORLDS[0]).scores["nothing"]) == {(0.5, 0.5)}
    assert abs(clustered_z(items, leads(items, len))) < SIGMAS
    assert binomtest(sum(item.preferred == 0 for item in items), len(items)).pvalue > 1e-4
    read = {text: read_answer(text) or {} for item in items for text in item.candidates}
    for name, level in SIGNALS:
        worth = {text: float(levels[name] == level) for text, levels in read.items()}
        assert abs(clustered_z(items, leads(items, worth.__getitem__))) < SIGMAS, (name, level)


@pytest.mark.slow
def test_a_crowd_makes_answers_alone_worth_something() -> None:
    benchmark = made(":users=200,items=8,pairs=0,crowd=0.8")
    best = ceilings(benchmark)
    assert 0.55 < best.nothing_known < best.posts_known < best.taste_known
    assert clustered_z(benchmark.items, leads(benchmark.items, len)) > SIGMAS


# ---------------------------------------------------------------- what a scorer may know

SMALL = made(":users=6,crowd=0.4")
POSTS = [post for user in SMALL.users for post in user.posts] + [Post("x", "It rained."), Post("y", "{{ 7*7 }} \x00")]


@given(st.lists(st.sampled_from(POSTS), max_size=30), st.sampled_from(SMALL.items))
def test_nothing_known_answers_the_same_under_any_posts(posts: list[Post], item: Item) -> None:
    bare = Query(item.id, item.prompt, item.candidates)
    shown = replace(own(item), user=UserView("anybody", tuple(posts)))
    assert list(nothing_known(SMALL).score([shown])) == list(nothing_known(SMALL).score([bare]))


@given(st.lists(st.sampled_from(POSTS), max_size=30), st.sampled_from(SMALL.items), st.randoms())
def test_posts_known_sees_the_posts_shown_and_nothing_else(posts: list[Post], item: Item, rng) -> None:
    shuffled = rng.sample(posts, len(posts))
    renamed = tuple(Post(f"n{number}", f"Hello! {post.text} Bye.", "") for number, post in enumerate(shuffled))
    seen = replace(own(item), user=UserView("a", tuple(posts)))
    again = Query("b", "Anything?", item.candidates[::-1], UserView("c", renamed), ("a note",))
    first, second = posts_known(SMALL).score([seen, again])
    assert first.scores == second.scores[::-1]


def test_with_another_user_s_posts_it_believes_the_other_user() -> None:
    benchmark = made(":users=6,noise=0.2")
    mine, other = benchmark.items[0], benchmark.items[4]
    assert mine.user != other.user
    assert other.user is not None
    borrowed = replace(own(mine), user=UserView(mine.cluster, other.user.posts))
    as_other = replace(own(other), prompt=mine.prompt, candidates=mine.candidates)
    got, wanted, unswapped = posts_known(benchmark).score([borrowed, as_other, own(mine)])
    assert got == wanted != unswapped


def test_without_posts_it_knows_nothing() -> None:
    bare = [Query(item.id, item.prompt, item.candidates) for item in SMALL.items]
    newcomers = [replace(query, user=UserView("new")) for query in bare]
    wanted = list(nothing_known(SMALL).score(bare))
    assert list(posts_known(SMALL).score(bare)) == list(posts_known(SMALL).score(newcomers)) == wanted


def test_contradicting_posts_without_noise_leave_a_belief() -> None:
    benchmark = made(":users=6,noise=0")
    posts = tuple(post for user in benchmark.users for post in user.posts)
    crowded = [replace(own(item), user=UserView("all", posts)) for item in benchmark.items]
    assert all(sum(row) == pytest.approx(1) for row in numbers(benchmark, "posts", crowded))


def test_taste_known_goes_by_the_asker_and_not_by_the_posts() -> None:
    item = SMALL.items[0]
    other = replace(own(item), user=UserView("u00003", SMALL.users[3].posts))
    first, second = taste_known(SMALL).score([own(item), other])
    assert first == second
    (unknown,) = taste_known(SMALL).score([replace(own(item), id="nobody")])
    assert [failure.kind for failure in unknown.failures] == ["unsupported"] * 2


@pytest.mark.parametrize("knowing", KNOWING)
def test_a_scorer_keeps_the_protocol_and_refuses_other_answers(knowing: Knowing) -> None:
    model = scorer(SMALL, knowing)
    check_reward_model(model)
    (verdict,) = model.score([replace(own(SMALL.items[0]), candidates=(SMALL.items[0].candidates[0], "Bake it."))])
    assert [failure.detail for failure in verdict.failures] == [
        "candidate 1 is not an answer of the simulated benchmark"
    ] * 2


def test_there_is_no_ceiling_where_no_taste_is_known() -> None:
    with pytest.raises(BenchmarkError, match="found 'bakery', wanted a simulated benchmark"):
        ceilings(bakery())
    stale = replace(SMALL, card=replace(SMALL.card, revision="simulated,users=6 (texts 000000000000)"))
    with pytest.raises(BenchmarkError, match=r"found a benchmark of \(texts 000000000000\), wanted \(texts "):
        ceilings(stale)


def test_a_run_s_interval_holds_the_ceiling_of_the_posts_it_showed(tmp_path: Path) -> None:
    benchmark = made(":users=250,seed=8")
    for condition, posts in (("none", 0), ("recent:8", 8)):
        run = score(benchmark, posts_known(benchmark), condition, out=tmp_path)
        found = measure(run)
        assert found.failed == 0
        wanted = ceilings(benchmark, posts=posts).posts_known
        assert found.low is None or found.low <= wanted <= (found.high or 0)
        assert found.value == pytest.approx(wanted, abs=0.05)
