"""Per domain and per tag: where a model does worst, and length taken out."""

import random
from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm

from pluralrm.core import Estimate, Row, Run
from pluralrm.errors import MetricError
from pluralrm.metrics import by_domain, by_tag, length_controlled, measure, summary
from tests.metrics.rows import chance, constant, records, row, run, users


def test_domains_are_means_of_their_rows() -> None:
    rows = users(90, 0.7, ties=0.1)
    told = by_domain(run(rows))
    assert list(told) == ["Bread", "Cake", "Pie"]
    for domain, found in told.items():
        members = [one for one in rows if one.domain == domain]
        assert found == measure(run(members))


def test_the_macro_mean_weighs_domains_alike() -> None:
    rows = [*users(60, 0.5), *(replace(found, item=f"x{found.item}", domain="Rare") for found in users(6, 1.0))]
    told = summary(run(rows))
    domains = [found.value for found in told.domains.values()]
    assert told.metrics["accuracy_macro"].value == pytest.approx(sum(domains) / 4, abs=1e-12)
    assert "macro mean over 4 domains" in told.metrics["accuracy_macro"].method
    assert told.metrics["accuracy"].value == pytest.approx(sum(measure(run([r])).value for r in rows) / 66, abs=1e-12)


def test_few_clusters_are_named() -> None:
    assert "39 clusters, few clusters" in measure(run(users(39, 0.7))).method
    assert "few" not in measure(run(users(40, 0.7))).method


def test_one_cluster_has_no_interval_and_says_why() -> None:
    rows = [replace(found, cluster="u") for found in users(10, 0.5)]
    told = measure(run(rows))
    assert (told.low, told.high) == (None, None)
    assert "no interval: one cluster" in told.method


def _tagged(rates: dict[str, float], count: int = 80) -> Run:
    return run(
        [
            replace(found, item=f"{tag}-{found.item}", cluster=f"{tag}-{found.cluster}", tags={"taste": tag})
            for place, (tag, right) in enumerate(rates.items())
            for found in users(count, right, seed=place)
        ]
    )


def test_the_worst_group_and_the_gap_are_found() -> None:
    told = by_tag(_tagged({"salt": 0.95, "sweet": 0.5, "sour": 0.8}), "taste")
    assert list(told.groups) == ["salt", "sour", "sweet"]
    assert told.worst == "sweet"
    assert told.gap is not None
    assert told.lowest is not None
    assert told.gap.value == pytest.approx(told.groups["salt"].value - told.groups["sweet"].value, abs=1e-12)
    assert told.gap.low is not None
    assert told.gap.low > 0.1
    assert told.lowest.value == told.groups["sweet"].value
    assert set(told.to_json()) == {"tag", "metric", "groups", "worst", "lowest", "gap"}


def test_a_gap_between_equals_reaches_zero_and_covers_all_pairs() -> None:
    tags = dict.fromkeys("abcdefgh", 0.7)
    told = by_tag(_tagged(tags, 40), "taste")
    assert told.gap is not None
    assert told.gap.low == 0
    assert told.gap.high is not None
    assert told.gap.high > told.gap.value > 0


def test_groups_may_share_clusters() -> None:
    told = by_tag(run(records(8, chance)), "phrasing")
    assert list(told.groups) == ["0", "1", "2"]
    assert all(found.n == 32 for found in told.groups.values())


def test_rows_without_the_tag_are_not_lost() -> None:
    rows = [replace(found, tags={"taste": "salt"}) if n % 2 else found for n, found in enumerate(users(20, 0.5))]
    assert {value: found.n for value, found in by_tag(run(rows), "taste").groups.items()} == {"": 10, "salt": 10}


def test_a_group_of_one_cluster_is_neither_best_nor_worst() -> None:
    made = _tagged({"salt": 0.9, "sweet": 0.5})
    lonely = run([*made.rows, row("z", [0.0, 1.0], tags={"taste": "bitter"})])
    told = by_tag(lonely, "taste")
    assert told.groups["bitter"].value == 0
    assert told.worst == "sweet"
    alone = by_tag(run([row("a", [1.0, 0.0], tags={"taste": "x"}), row("b", [0.0, 1.0], tags={"taste": "y"})]), "taste")
    assert (alone.worst, alone.lowest, alone.gap) == (None, None, None)
    assert alone.to_json()["gap"] is None


def test_an_unknown_tag_names_those_there_are() -> None:
    with pytest.raises(MetricError, match=r"no row has the tag 'tastes'\. Did you mean 'taste'"):
        by_tag(_tagged({"salt": 0.5}), "tastes")


def test_an_unknown_trait_names_those_there_are_and_rows_without_any_say_what_to_do() -> None:
    rows = [replace(one, tags={"trait:age": "65+", "trait:country": "IN", "taste": "salt"}) for one in users(4, 0.5)]
    with pytest.raises(MetricError, match=r"no row has the trait 'agee'\. Known: trait:age, trait:country\."):
        by_tag(run(rows), "trait:agee")
    with pytest.raises(MetricError, match=r"no row has the tag 'age'\. Did you mean 'trait:age'\?"):
        by_tag(run(rows), "age")
    with pytest.raises(MetricError, match=r"no row has the trait 'age'.*before rows kept traits.*scored anew"):
        by_tag(run(users(4, 0.5)), "trait:age")


@pytest.mark.parametrize("tag", ["trait:age", "language"])
def test_groups_of_people_who_share_prompts_have_two_way_intervals(tag: str) -> None:
    # Everybody has ten prompts of thirty, half of them too hard for anybody: groups differ by their prompts.
    rng, rows = np.random.default_rng(1), []
    for person in range(40):
        value = ("salt", "sweet")[person % 2]
        for prompt in rng.choice(15, 10, replace=False) + 15 * (person % 2):
            scores = (1.0, 0.0) if prompt % 3 else (0.0, 1.0)
            rows.append(row(f"{person}-{prompt}", scores, cluster=f"u{person}", prompt=f"p{prompt}", tags={tag: value}))
    result = by_tag(run(rows), tag)
    alone = by_tag(run([replace(each, prompt="") for each in rows]), tag)
    for value, estimate in result.groups.items():
        assert "two-way" in estimate.method
        assert _width(estimate) > 1.5 * _width(alone.groups[value])
    for name in ("lowest", "gap"):
        assert _width(getattr(result, name)) > 1.5 * _width(getattr(alone, name))


def _width(estimate: Estimate) -> float:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.high - estimate.low


def _lengthy(count: int, pull: float, skill: float) -> list[Row]:
    rng = random.Random(5)
    rows = []
    for number in range(count):
        lengths = (rng.randint(80, 200), rng.randint(80, 200))
        right = rng.random() < 1 / (1 + np.exp(-skill - pull * (lengths[0] - lengths[1]) / 50))
        rows.append(row(f"i{number}", [float(right), float(not right)], lengths=lengths))
    return rows


def test_a_model_that_likes_length_is_seen_through() -> None:
    rows = [found for found in _lengthy(800, 3.0, 0.0) if found.lengths[0] > found.lengths[1] - 20]
    plain, told = measure(run(rows)), length_controlled(run(rows))
    assert plain.value > 0.7
    assert told.low is not None
    assert told.high is not None
    assert told.low < 0.5 < told.high


def test_length_control_is_the_logistic_regression_of_statsmodels() -> None:
    rows = _lengthy(300, 1.0, 0.8)
    credit = np.array([float(found.scores[0] > found.scores[1]) for found in rows])  # type: ignore[operator]
    extra = np.array([found.lengths[0] - found.lengths[1] for found in rows], dtype=float)
    fit = sm.GLM(credit, sm.add_constant(extra), family=sm.families.Binomial()).fit()
    assert length_controlled(run(rows)).value == pytest.approx(1 / (1 + np.exp(-fit.params[0])), abs=1e-9)


def test_length_control_compares_with_the_mean_of_the_others() -> None:
    rows = [row(f"i{n}", [1.0, 0.0, 0.0, 0.0], lengths=(100, 90, 100, 110)) for n in range(9)]
    # Equal to the mean of the others everywhere, so nothing is taken out.
    assert length_controlled(run(rows)).value == 1


def test_the_longest_answer_is_worth_a_coin_at_equal_length() -> None:
    rng = random.Random(1)
    rows = []
    for number in range(60):
        lengths = (rng.randint(80, 200), rng.randint(80, 200))
        rows.append(row(f"i{number}", [float(length) for length in lengths], lengths=lengths))
    told = length_controlled(run(rows))
    assert told.value == pytest.approx(0.5, abs=0.1)
    assert "ridge" in told.method


def test_length_that_never_varies_has_no_answer() -> None:
    rows = [row(f"i{n}", [float(n % 2), 0.5], lengths=(120, 100)) for n in range(9)]
    with pytest.raises(MetricError, match="the covariate is 20 for every item"):
        length_controlled(run(rows))
    assert "length_controlled" not in summary(run(rows)).metrics
    assert "fixed by design" in length_controlled(run(records(3, constant))).method
