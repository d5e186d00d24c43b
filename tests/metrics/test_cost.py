"""What personalization costs on a general benchmark: nothing, a planted drop, and too few items to say."""

import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats as scipy_stats

from pluralrm.conditions.loans import LENT, lend_users
from pluralrm.core import Benchmark, Failure, Query, Run, Verdict
from pluralrm.errors import ConditionError, MetricError
from pluralrm.metrics import paired_difference, personalization
from pluralrm.metrics.comparison import together
from pluralrm.metrics.cost import PersonalizationCost, equivalence_p, personalization_costs
from pluralrm.metrics.overview import overview
from pluralrm.models import load_model
from pluralrm.runs import score
from pluralrm.stats import cluster_means
from pluralrm.stats.intervals import difference_interval
from tests.builders import bakery, left_open
from tests.metrics.people import people


def without_users(items: int, *, records: int = 0, name: str = "general") -> Benchmark:
    """Return questions without users; with `records`, several questions are of one record, the first of most."""
    rng, bench = random.Random(items), bakery(items, name=name)
    drawn = [min(rng.randrange(records or 1), rng.randrange(records or 1)) for _ in bench.items]
    clusters = [f"r{number}" if records else item.id for number, item in zip(drawn, bench.items, strict=True)]
    rows = (replace(item, user=None, cluster=each) for item, each in zip(bench.items, clusters, strict=True))
    return Benchmark(bench.card, tuple(rows))


def lent_runs(accuracies: dict[str, float], **world: int) -> list[Run]:
    runs = people(accuracies, **world)  # type: ignore[arg-type]
    return [replace(run, card=replace(run.card, cluster=LENT)) for run in runs]


def cost_of(runs: list[Run], margin: float = 0.02) -> PersonalizationCost:
    (cost,) = personalization_costs(runs, margin=margin)
    return cost


# ---------------------------------------------------------------- who asks


def test_each_record_is_asked_by_one_user_and_each_user_lends_about_as_often() -> None:
    general, personal = without_users(90, records=30), bakery(7)
    lent = lend_users(general, personal, seed=3)
    asks = {(old.cluster, new.cluster) for old, new in zip(general.items, lent.items, strict=True)}
    assert len(asks) == len({record for record, _ in asks})  # a record lies in one cluster
    often = Counter(user for _, user in asks)
    assert max(often.values()) - min(often.values()) <= 1
    for old, new in zip(general.items, lent.items, strict=True):
        assert new.user is not None
        assert new.user in personal.users
        assert new.cluster == new.user.id
        assert replace(new, user=None, cluster=old.cluster) == old  # no label, text or order is another


def test_lenders_depend_on_the_seed_and_not_on_the_order_of_files() -> None:
    general, personal = without_users(40), bakery(6)
    turned = lend_users(replace(general, items=general.items[::-1], content_hash=""), personal, seed=1)
    first = {item.id: item.cluster for item in lend_users(general, personal, seed=1).items}
    assert {item.id: item.cluster for item in turned.items} == first
    assert {item.id: item.cluster for item in lend_users(general, personal, seed=2).items} != first


def test_users_are_lent_by_a_benchmark_that_has_them_to_one_that_has_none() -> None:
    with pytest.raises(ConditionError, match="bakery has users of its own"):
        lend_users(bakery(), bakery())
    with pytest.raises(ConditionError, match="0 users with posts to lend"):
        lend_users(without_users(4), bakery(4, posts=0))


# ---------------------------------------------------------------- three models


class Answers:
    """Knows the label; with posts before it, it is distracted in this share of the items."""

    def __init__(self, benchmark: Benchmark, share: float) -> None:
        self.spec, self.share = f"distracted-{share:g}", share
        self.labels = {item.id: item.preferred for item in benchmark.items}

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            hard = random.Random(f"hard {query.id}").random() < 0.2
            distracted = query.user is not None and random.Random(query.id).random() < self.share
            right = hard == distracted
            yield Verdict(tuple(float((place == self.labels[query.id]) == right) for place in range(2)))


def test_a_model_that_ignores_posts_costs_exactly_nothing(tmp_path: Path) -> None:
    lent = lend_users(without_users(24), bakery(8))
    longest = load_model("longest")
    runs = [score(lent, longest, each, out=tmp_path) for each in ("none", "recent:2", "swapped:2,by=recent")]
    cost = cost_of(runs)
    assert (cost.change.value, cost.change.low, cost.other and cost.other.value) == (0.0, None, 0.0)
    assert cost.verdict == "equivalent"
    assert cost.sentence("m") == "m: no cost on general, users of bakery: a user's posts change no score."
    assert personalization(runs) == []  # nobody's taste is in these labels
    assert [row.verdict for row in overview(runs).rows] == [""]


def test_a_planted_drop_is_the_change_and_its_interval_holds_it(tmp_path: Path) -> None:
    lent = lend_users(without_users(240), bakery(24))
    model = Answers(lent, 0.25)
    runs = [score(lent, model, each, out=tmp_path) for each in ("none", "recent:2")]
    cost = cost_of(runs)
    # Distracted is wrong where it was right (80%) and right where it was wrong: -.25 * .6 on average.
    assert cost.verdict == "lower"
    assert cost.change.low is not None
    assert cost.change.high is not None
    assert cost.change.low < -0.15 < cost.change.high
    assert f"cost accuracy on {lent.card.name}" in cost.sentence()
    assert cost.change == paired_difference(runs[1], runs[0]).difference


def test_few_items_show_neither_a_change_nor_that_there_is_none() -> None:
    cost = cost_of(lent_runs({"none": 0.7, "raw:10": 0.68}, users=20, items=1))
    assert cost.verdict == "inconclusive"
    assert cost.p is not None
    assert cost.p > 0.05
    assert "neither a change of accuracy" in cost.sentence()


def test_failing_under_posts_is_a_cost_and_not_a_smaller_benchmark() -> None:
    runs = lent_runs({"none": 0.8, "raw:10": 0.8}, users=80, items=2)
    failure = Failure("too_long", "")
    rows = tuple(replace(row, scores=(failure, failure)) if n % 4 == 0 else row for n, row in enumerate(runs[1].rows))
    cost = cost_of([runs[0], replace(runs[1], rows=rows)])
    assert (cost.change.n, cost.change.failed) == (160, 40)
    assert cost.verdict == "lower"


def test_a_small_change_is_said_with_its_margin_and_p_and_json_has_all_of_it() -> None:
    cost = cost_of(lent_runs({"none": 0.8, "raw:10": 0.8}, users=300, items=2), margin=0.05)
    assert cost.p is not None
    assert cost.p < 0.05
    numbers = r"[+-]\d\.\d \[-?\d\.\d, -?\d\.\d\] points: within ±5 points \(p (< )?\.\d{3}\)\."
    assert re.search(rf"^m: a user's posts change accuracy on bakery by {numbers}$", cost.sentence("m"))
    record = json.loads(json.dumps(cost.to_json()))
    assert (record["model"], record["condition"], record["verdict"]) == ("m", "raw:10", "equivalent")
    assert (record["p_equivalence"], record["margin"]) == (cost.p, 0.05)
    assert record["change"]["value"] == cost.change.value
    assert record["sentence"] == cost.sentence()


def test_one_user_shows_neither_a_change_nor_that_there_is_none() -> None:
    cost = cost_of(lent_runs({"none": 0.6, "raw:10": 0.6}, users=1, items=60))
    assert (cost.p, cost.change.low, cost.verdict) == (None, None, "inconclusive")


def test_an_unfinished_run_has_no_verdict() -> None:
    without, shown = lent_runs({"none": 0.8, "raw:10": 0.6}, users=80, items=2)
    lost = {row.item for row in shown.rows[:10]}
    for runs in ([without, left_open(shown, lost)], [left_open(without, lost), shown]):
        cost = cost_of(runs)
        assert (cost.verdict, cost.p, cost.change.failed) == ("unfinished", None, 10)
        assert cost.sentence("m").startswith("m is incomplete: 150 of 160 items, ")
        assert cost.sentence("m").endswith(": run the same command again.")


def test_runs_of_other_benchmarks_have_no_cost_and_a_margin_is_a_share() -> None:
    assert personalization_costs(people({"none": 0.7, "raw:10": 0.7})) == []
    with pytest.raises(MetricError, match="margin: found 2, wanted a share"):
        personalization_costs([], margin=2)


# ---------------------------------------------------------------- the test itself


def test_the_p_of_equivalence_is_that_of_two_one_sided_t_tests() -> None:
    rng = np.random.default_rng(4)
    for shift in (0.0, 0.01, 0.03):
        first = rng.random(3000) < 0.7
        second = np.where(rng.random(3000) < 0.05, ~first, first)
        second = np.where(rng.random(3000) < shift, False, second)
        means = cluster_means(np.stack([second, first], axis=1).astype(float), [str(n) for n in range(3000)])
        gaps = second.astype(float) - first
        error = gaps.std(ddof=1) / 3000**0.5
        t = [(gaps.mean() + 0.02) / error, (0.02 - gaps.mean()) / error]
        assert equivalence_p(means, 0.02) == pytest.approx(max(scipy_stats.t.sf(t, 2999)), abs=0.01)


def test_the_verdict_is_that_of_the_interval_of_ninety_per_cent() -> None:
    verdicts = set()
    for seed in range(6):
        runs = lent_runs({"none": 0.8, "raw:10": 0.8}, users=300, items=2, seed=seed)
        parts = together([runs[1], runs[0]], "accuracy")
        means = parts[0].means(np.array([part.values for part in parts]).T, macro=False)
        low, high = difference_interval(means, 0, 1, level=0.9)[1:3]
        assert low is not None
        assert high is not None
        verdicts.add(verdict := cost_of(runs, margin=0.05).verdict)
        assert (verdict == "equivalent") == (low > -0.05 and high < 0.05)
    assert "equivalent" in verdicts


@pytest.mark.slow
def test_equivalence_is_claimed_in_a_twentieth_of_the_worlds_on_the_margin() -> None:
    claimed, held = [], []
    for seed in range(300):
        cost = cost_of(lent_runs({"none": 0.8, "raw:10": 0.75}, users=150, items=4, seed=seed), margin=0.05)
        claimed.append(cost.verdict == "equivalent")
        assert cost.change.low is not None
        assert cost.change.high is not None
        held.append(cost.change.low < -0.05 < cost.change.high)
    assert np.mean(claimed) < 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5
    assert 0.91 < np.mean(held) < 0.99
