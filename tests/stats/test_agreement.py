"""Coefficients of agreement: worked examples of the literature, other libraries, and every pair counted one by one."""

from collections.abc import Sequence
from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from pluralrm.errors import MetricError
from pluralrm.stats.agreement import Ratings, Scale, coefficients
from pluralrm.stats.clusters import FloatArray

Row = Sequence[int | None]
"""What one rater says of each item."""


def ratings_of(rows: Sequence[Row], labels: Sequence[float]) -> Ratings:
    found = [
        (item, rater, labels.index(label))
        for rater, row in enumerate(rows)
        for item, label in enumerate(row)
        if label is not None
    ]
    item, rater, label = (np.array(column, dtype=np.intp) for column in zip(*found, strict=True))
    return Ratings(item, rater, label, np.array(labels, dtype=np.float64))


def values(rows: Sequence[Row], labels: Sequence[float], scale: Scale = "interval") -> dict[str, float]:
    found = coefficients(ratings_of(rows, labels), scale, resamples=1)
    return {name: one.value for name, one in found.items()}


def parsed(*rows: str) -> list[Row]:
    return [[None if letter == "." else int(letter) for letter in row.split()] for row in rows]


# ---------------------------------------------------------------- worked examples


def test_cohen_1960() -> None:
    table = [[88, 14, 18], [10, 40, 10], [2, 6, 12]]
    pairs = [(i, j) for i, j in product(range(3), repeat=2) for _ in range(table[i][j])]
    found = values([*zip(*pairs, strict=True)], [0, 1, 2])
    assert found["percent"] == pytest.approx(0.70)
    assert found["kappa"] == pytest.approx((0.70 - 0.41) / (1 - 0.41), abs=1e-12)
    assert round(found["kappa"], 3) == 0.492


FLEISS = """
    00060 03003 01401 00006 03030 20400 00402 20310 20040 00006 10050 11040 03300 10050 02031
    00501 30012 51000 02040 10203 00006 01050 02013 20040 10041 05010 40002 02040 10500 00006
"""


def test_fleiss_1971() -> None:
    """Thirty patients, six psychiatrists each, five diagnoses."""
    votes = [[label for label, count in enumerate(row) for _ in range(int(count))] for row in FLEISS.split()]
    found = values([*zip(*votes, strict=True)], [0, 1, 2, 3, 4])
    assert round(found["percent"], 3) == 0.556
    assert round(found["fleiss"], 3) == 0.430


def test_krippendorff_2011_with_gaps() -> None:
    """Four observers, twelve units; also Gwet's example, whose figures are those of the R package irrCAC."""
    rows = parsed(
        "1 2 3 3 2 1 4 1 2 . . .", "1 2 3 3 2 2 4 1 2 5 . 3", ". 3 3 3 2 3 4 2 2 5 1 .", "1 2 3 3 2 4 4 1 2 5 1 ."
    )
    found = values(rows, [1, 2, 3, 4, 5])
    assert {name: round(found[name], 3) for name in found if name.startswith("alpha")} == {
        "alpha_nominal": 0.743,
        "alpha_ordinal": 0.815,
        "alpha_interval": 0.849,
    }
    assert [round(found[name], 5) for name in ("fleiss", "ac1", "kappa", "ac2")] == [0.76117, 0.77544, 0.76207, 0.914]


def test_krippendorff_three_coders_fifteen_units() -> None:
    rows = parsed(". . . . . 3 4 1 2 1 1 3 3 . 3", "1 . 2 1 3 3 4 3 . . . . . . .", ". . 2 1 3 4 4 . 2 1 1 3 3 . 4")
    found = values(rows, [1, 2, 3, 4])
    assert round(found["alpha_nominal"], 3) == 0.691
    assert round(found["alpha_interval"], 3) == 0.811
    assert round(found["alpha_ordinal"], 3) == 0.807


# ---------------------------------------------------------------- other libraries


@pytest.mark.parametrize("seed", range(5))
def test_two_raters_have_the_kappas_of_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 4, 60)
    second = np.where(rng.random(60) < 0.5, first, rng.integers(0, 4, 60))
    found = values([first.tolist(), second.tolist()], [0, 1, 2, 3])
    for name, weights in (("kappa", None), ("kappa_linear", "linear"), ("kappa_quadratic", "quadratic")):
        assert found[name] == pytest.approx(
            cohen_kappa_score(first, second, weights=weights, labels=range(4)), abs=1e-9
        )


def test_complete_tables_have_the_kappa_of_statsmodels() -> None:
    from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

    rng = np.random.default_rng(1)
    said = np.where(rng.random((80, 5)) < 0.4, 2, rng.integers(0, 4, (80, 5)))
    assert values(said.T.tolist(), [0, 1, 2, 3])["fleiss"] == pytest.approx(
        fleiss_kappa(aggregate_raters(said)[0]), abs=1e-9
    )


# ---------------------------------------------------------------- pair by pair


def agree(x: float, y: float, labels: Sequence[float], kind: str) -> float:
    apart = abs(x - y) / (labels[-1] - labels[0])
    return {"nominal": float(x == y), "linear": 1 - apart, "quadratic": 1 - apart**2}[kind]


def alpha(rows: Sequence[Row], metric: str) -> float:
    """Krippendorff's alpha, every ordered pair of pairable values written out."""
    units = [[value for value in unit if value is not None] for unit in zip(*rows, strict=True)]
    units = [unit for unit in units if len(unit) > 1]
    every = sorted(value for unit in units for value in unit)

    def apart(x: int, y: int) -> float:
        if metric == "ordinal":
            low, high = min(x, y), max(x, y)
            between = sum(low <= value <= high for value in every)
            return float((between - (every.count(low) + every.count(high)) / 2) ** 2)
        return float(x != y) if metric == "nominal" else float((x - y) ** 2)

    observed = sum(sum(apart(x, y) for x, y in permutations(unit, 2)) / (len(unit) - 1) for unit in units) / len(every)
    expected = sum(apart(x, y) for x, y in permutations(every, 2)) / len(every) / (len(every) - 1)
    return 1 - observed / expected if expected else float("nan")


def observed(rows: Sequence[Row], labels: Sequence[float], kind: str) -> float:
    means = []
    for unit in zip(*rows, strict=True):
        pairs = [agree(x, y, labels, kind) for x, y in combinations([v for v in unit if v is not None], 2)]
        if pairs:
            means.append(sum(pairs) / len(pairs))
    return sum(means) / len(means)


def conger(rows: Sequence[Row], labels: Sequence[float], kind: str) -> float:
    raters = [row for row in rows if any(value is not None for value in row)]
    if len(raters) == 2:
        both = [i for i in range(len(raters[0])) if None not in {raters[0][i], raters[1][i]}]
        raters = [[row[i] for i in both] for row in raters]
    shares = []
    for row in raters:
        said = [value for value in row if value is not None]
        shares.append({label: sum(value == label for value in said) / len(said) for label in labels})
    chances = [
        sum(agree(x, y, labels, kind) * one[x] * other[y] for x in labels for y in labels)
        for one, other in combinations(shares, 2)
    ]
    chance = sum(chances) / len(chances)
    return (observed(rows, labels, kind) - chance) / (1 - chance) if chance < 1 else float("nan")


def gwet_or_fleiss(rows: Sequence[Row], labels: Sequence[float], kind: str, name: str) -> float:
    units = [[value for value in unit if value is not None] for unit in zip(*rows, strict=True)]
    units = [unit for unit in units if unit]
    shares = [sum(sum(v == label for v in unit) / len(unit) for unit in units) / len(units) for label in labels]
    if name == "fleiss":
        chance = sum(share**2 for share in shares)
    else:
        total = sum(agree(x, y, labels, kind) for x in labels for y in labels)
        chance = total / len(labels) / (len(labels) - 1) * sum(share * (1 - share) for share in shares)
    seen = observed(rows, labels, kind)
    return (seen - chance) / (1 - chance) if chance < 1 - 1e-12 else float("nan")


@st.composite
def tables(draw: st.DrawFn) -> list[Row]:
    raters, items = draw(st.integers(2, 5)), draw(st.integers(2, 9))
    cell = st.one_of(st.none(), st.sampled_from([1, 2, 3, 7]))
    return [draw(st.lists(cell, min_size=items, max_size=items)) for _ in range(raters)]


@given(rows=tables())
def test_random_tables_with_gaps_and_ties_have_what_pairs_one_by_one_have(rows: list[Row]) -> None:
    rows = [row for row in rows if any(value is not None for value in row)]
    several = [unit for unit in zip(*rows, strict=True) if sum(value is not None for value in unit) > 1]
    if len(rows) < 2 or not several:
        return
    labels = [1, 2, 3, 7]
    found = values(rows, labels)
    wanted = {f"alpha_{metric}": alpha(rows, metric) for metric in ("nominal", "ordinal", "interval")}
    wanted["percent"] = observed(rows, labels, "nominal")
    wanted |= {
        name: conger(rows, labels, kind)
        for name, kind in (("kappa", "nominal"), ("kappa_linear", "linear"), ("kappa_quadratic", "quadratic"))
    }
    wanted["fleiss"] = gwet_or_fleiss(rows, labels, "nominal", "fleiss")
    wanted["ac1"] = gwet_or_fleiss(rows, labels, "nominal", "ac1")
    wanted["ac2"] = gwet_or_fleiss(rows, labels, "quadratic", "ac2")
    assert found == pytest.approx(wanted, abs=1e-9, nan_ok=True)


@given(rows=tables(), seed=st.integers(0, 5))
def test_a_resample_has_the_coefficients_of_the_items_that_it_drew(rows: list[Row], seed: int) -> None:
    """The draws are those of the house's bootstrap, the coefficients those of a table that repeats the items."""
    from pluralrm.stats.clusters import resample_counts

    rows = [row for row in rows if any(value is not None for value in row)]
    units = [unit for unit in zip(*rows, strict=True) if any(value is not None for value in unit)]
    if len(rows) < 3 or not any(sum(value is not None for value in unit) > 1 for unit in units):
        return
    found = coefficients(ratings_of([*zip(*units, strict=True)], [1, 2, 3, 7]), "interval", resamples=3, seed=seed)
    [draws] = resample_counts(np.zeros(len(units), dtype=np.intp), seed=seed, resamples=3)
    for place, counts in enumerate(draws):
        drawn = [unit for unit, count in zip(units, counts, strict=True) for _ in range(int(count))]
        if not any(sum(value is not None for value in unit) > 1 for unit in drawn):
            continue
        again = [row for row in zip(*drawn, strict=True) if any(value is not None for value in row)]
        if len(again) < 3:
            continue
        wanted = values(again, [1, 2, 3, 7])
        assert {name: one.resampled[place] for name, one in found.items()} == pytest.approx(
            wanted, abs=1e-7, nan_ok=True
        )


# ---------------------------------------------------------------- what must hold whatever the table


def drawn(items: int, raters: int, likeness: float, *, seed: int, labels: int = 3) -> Ratings:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, labels, (items, 1))
    said = np.where(rng.random((items, raters)) < likeness, truth, rng.integers(0, labels, (items, raters)))
    places = np.indices((items, raters)).reshape(2, -1)
    return Ratings(places[0], places[1], said.ravel(), np.arange(float(labels)))


def test_raters_who_guess_agree_no_more_than_chance() -> None:
    found = coefficients(drawn(4_000, 4, 0.0, seed=1), "interval", resamples=50)
    for name, one in found.items():
        assert abs(one.value - (1 / 3 if name == "percent" else 0.0)) < 0.03, name


def test_raters_who_never_differ_agree_wholly() -> None:
    assert {one.value for one in coefficients(drawn(40, 4, 1.0, seed=1), "interval", resamples=2).values()} == {1.0}


def test_where_all_ratings_are_one_label_only_gwet_says_anything() -> None:
    found = values([[2, 2, 2], [2, 2, 2]], [1, 2, 3])
    assert {name for name, value in found.items() if value == 1.0} == {"percent", "ac1", "ac2"}
    assert all(np.isnan(value) for name, value in found.items() if name not in {"percent", "ac1", "ac2"})


def test_labels_without_an_order_have_no_weights() -> None:
    assert set(values([[1, 2], [1, 1]], [1, 2], "nominal")) == {"percent", "kappa", "fleiss", "alpha_nominal", "ac1"}


def test_a_rater_who_rates_an_item_twice_is_refused() -> None:
    two = np.zeros(2, dtype=np.intp)
    with pytest.raises(MetricError, match="rates an item twice"):
        Ratings(two, two, np.arange(2), np.arange(2.0))


def test_items_without_two_ratings_are_no_agreement() -> None:
    with pytest.raises(MetricError, match="no item has two ratings"):
        values([[1, None], [None, 2]], [1, 2])


def test_items_of_one_cluster_are_drawn_together() -> None:
    """Every item twice, as clusters of two: the interval is that of the items once."""
    once = drawn(80, 3, 0.6, seed=2)
    twice = Ratings(
        np.concatenate([once.item, once.item + 80]), np.tile(once.rater, 2), np.tile(once.label, 2), once.worths
    )
    single = coefficients(once, "nominal", resamples=400)["alpha_nominal"].resampled
    whole = coefficients(twice, "nominal", clusters=np.tile(np.arange(80), 2), resamples=400)["alpha_nominal"].resampled
    assert np.std(whole) == pytest.approx(np.std(single), rel=0.03)


def ends(resampled: FloatArray) -> tuple[float, float]:
    low, high = np.nanquantile(resampled, [0.025, 0.975])
    return float(low), float(high)


@pytest.mark.slow
def test_the_interval_holds_the_coefficient_of_all_items() -> None:
    """Ratings repeat the item's label with chance 0.7, so that any two agree beyond chance by 0.49."""
    for items, least in ((40, 88), (150, 92)):
        inside = []
        for seed in range(400):
            low, high = ends(
                coefficients(drawn(items, 3, 0.7, seed=seed), "nominal", resamples=500)["alpha_nominal"].resampled
            )
            inside.append(low <= 0.49 <= high)
        assert least <= 100 * np.mean(inside) <= 98.5
