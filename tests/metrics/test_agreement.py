"""Agreement as it is printed: Estimates, who agrees with whom, consensus."""

import random
from itertools import product

import numpy as np
import pytest

from pluralrm.errors import MetricError
from pluralrm.metrics.agreement import Scaled, Votes, agreement, consensus, pairs_alike, self_agreement, with_others
from pluralrm.stats.agreement import dawid_skene

YES_NO = Scaled(("no", "yes"))


def votes(rows: dict[str, str], scaled: Scaled = YES_NO, *, left_out: int = 0) -> Votes:
    """Return the votes of annotators, one letter of `scaled` per item; a dot is none."""
    names = {label[0]: label for label in scaled.labels}
    found = [
        (f"i{item:03}", annotator, names[letter])
        for annotator, row in rows.items()
        for item, letter in enumerate(row)
        if letter != "."
    ]
    items, annotators, labels = zip(*found, strict=True)
    return Votes(items, annotators, labels, scaled, left_out=left_out)


def test_every_coefficient_is_an_estimate_that_names_its_method() -> None:
    found = agreement(votes({"ann": "ynynyynnyn" * 3, "bob": "ynnnyynnyy" * 3}, left_out=4))
    kappa = {one.name: one.estimate for one in found}["kappa"]
    assert kappa is not None
    assert (kappa.n, kappa.failed) == (30, 4)
    assert kappa.method == "Cohen's kappa; bootstrap over 30 clusters, few clusters"
    assert kappa.low is not None
    assert kappa.high is not None
    assert kappa.value == pytest.approx(0.6)
    assert kappa.low < 0.6 < kappa.high


def test_names_and_order_of_rows_change_nothing() -> None:
    one = votes({"ann": "ynynyynnyn", "bob": "ynnnyynnyy", "cy": "yynnyy..yn"})
    rows = list(zip(one.items, one.annotators, one.labels, strict=True))
    random.Random(0).shuffle(rows)
    items, annotators, labels = zip(*rows, strict=True)
    assert agreement(Votes(items, annotators, labels, YES_NO)) == agreement(one)
    renamed = tuple({"ann": "z", "bob": "y", "cy": "x"}[name] for name in annotators)
    again = agreement(Votes(items, renamed, labels, YES_NO))
    assert [c.estimate and pytest.approx(c.estimate.value) for c in again] == [
        c.estimate and c.estimate.value for c in agreement(one)
    ]


def test_few_items_have_no_interval_and_few_differences_one_that_is_said_to_be_too_narrow() -> None:
    few = agreement(votes({"ann": "ynynyyn", "bob": "ynnnyyn"}))[0].estimate
    assert few is not None
    assert few.low is None
    assert "10 are the fewest" in few.method
    alike = agreement(votes({"ann": "yn" * 20, "bob": "nn" + "yn" * 19}))[0].estimate
    assert alike is not None
    assert "too narrow: annotators differ on 1 items" in alike.method


def test_one_label_everywhere_is_no_kappa() -> None:
    found = {one.name: one for one in agreement(votes({"ann": "y" * 12, "bob": "y" * 12}))}
    assert found["kappa"].estimate is None
    assert "chance alone" in found["kappa"].why
    whole = found["ac1"].estimate
    assert whole is not None
    assert (whole.value, whole.high) == (1.0, 1.0)
    assert whole.low == pytest.approx(_gwet_with_one_more(12))


def _gwet_with_one_more(items: int) -> float:
    """Return AC1 of items on which all say yes, and of the share that may differ where none did: one yes, one no."""
    differ: float = 1 - 0.025 ** (1 / items)
    yes = 1 - differ / 2
    chance: float = 2 * yes * (1 - yes)
    return (1 - differ - chance) / (1 - chance)


@pytest.mark.parametrize("items", [2, 5, 10, 200])
@pytest.mark.parametrize("letters", ["y", "yn"])
def test_where_nobody_differs_the_share_has_the_exact_interval(items: int, letters: str) -> None:
    row = (letters * items)[:items]
    alike = agreement(votes({"ann": row, "bob": row, "cy": row}), resamples=200)[0].estimate
    assert alike is not None
    assert (alike.value, alike.high) == (1.0, 1.0)
    assert alike.low == pytest.approx(0.025 ** (1 / items))  # Clopper and Pearson 1934
    assert "exact, the same in all of" in alike.method
    assert "too narrow" not in alike.method


def test_where_nobody_differs_every_coefficient_that_exists_has_an_interval() -> None:
    scaled = Scaled(tuple("12345"), "interval", (1, 2, 3, 4, 5))
    found = agreement(votes({"ann": "44544" * 8, "bob": "44544" * 8}, scaled), resamples=200)
    assert len(found) == 10
    for one in found:
        assert one.estimate is not None
        assert one.estimate.low is not None
        assert -1 <= one.estimate.low < 1 == one.estimate.high
    lows = {one.name: one.estimate.low for one in found if one.estimate}
    # 5 and 1 are further apart than 4 and 5 are, and a label more is less of one.
    assert lows["alpha_interval"] < lows["alpha_nominal"]  # type: ignore[operator]


def test_the_same_share_of_pairs_on_every_item_has_an_interval_to_both_sides() -> None:
    alike = agreement(votes({"ann": "yn" * 9, "bob": "yn" * 9, "cy": "ny" * 9}), resamples=200)[0].estimate
    assert alike is not None
    share = 1 - 0.025 ** (1 / 18)
    assert (alike.low, alike.high) == pytest.approx(((1 - share) / 3, (1 - share) / 3 + share))


def test_items_of_a_cluster_count_as_the_cluster_where_nobody_differs() -> None:
    one = votes({"ann": "yn" * 20, "bob": "yn" * 20})
    clustered = Votes(one.items, one.annotators, one.labels, YES_NO, tuple(item[:3] for item in one.items))
    alike = agreement(clustered, resamples=200)[0].estimate
    assert alike is not None
    assert alike.low == pytest.approx(0.025 ** (1 / 4))


def test_one_label_without_a_scale_has_the_share_alone() -> None:
    found = {one.name: one for one in agreement(votes({"ann": "y" * 12, "bob": "y" * 12}, Scaled(("yes",))))}
    share = found["percent"].estimate
    assert share is not None
    assert share.low == pytest.approx(0.025 ** (1 / 12))
    assert {name for name, one in found.items() if one.estimate} == {"percent"}
    assert "no other label" in found["ac1"].why


def test_an_unknown_label_is_told() -> None:
    with pytest.raises(MetricError, match="unknown label 'maybe'"):
        agreement(Votes(("1", "1"), ("a", "b"), ("yes", "maybe"), YES_NO))


def test_pairs_and_others_count_the_items_in_common() -> None:
    one = votes({"ann": "yyyy.", "bob": "yynn.", "cy": "nn..y"})
    pairs = {found.annotators: (found.share.value, found.share.n) for found in pairs_alike(one)}
    assert pairs == {("ann", "bob"): (0.5, 4), ("ann", "cy"): (0.0, 2), ("bob", "cy"): (0.0, 2)}
    assert [(found.annotators[0], found.share.value, found.share.n) for found in with_others(one)] == [
        ("cy", 0.0, 4),
        ("ann", pytest.approx(1 / 3), 6),
        ("bob", pytest.approx(1 / 3), 6),
    ]


def test_self_agreement_is_the_share_of_repeats_alike() -> None:
    found = self_agreement(["a", "b", "a", "a"], ["a", "a", "a", "b"], ["x", "x", "y", "z"])
    assert (found.value, found.n) == (0.5, 4)
    with pytest.raises(MetricError, match="no annotator judged an item twice"):
        self_agreement([], [], [])


# ---------------------------------------------------------------- consensus


def guessed(right: dict[str, float], items: int, *, seed: int, labels: str = "abc") -> tuple[list[str], Votes]:
    """Return true labels, and the votes of annotators who know them so often and else say the last label."""
    rng = np.random.default_rng(seed)
    scaled = Scaled(tuple(labels))
    truth = [labels[place] for place in rng.integers(0, len(labels), items)]
    rows = {
        name: "".join(true if rng.random() < share else labels[-1] for true in truth) for name, share in right.items()
    }
    return truth, votes(rows, scaled)


def test_consensus_trusts_those_who_know() -> None:
    right = {"a1": 0.95, "a2": 0.9, "b1": 0.3, "b2": 0.3, "b3": 0.3, "b4": 0.3}
    truth, given = guessed(right, 300, seed=0)
    found = consensus(given)
    by_consensus = sum(one.consensus == true for one, true in zip(found.said, truth, strict=True))
    by_majority = sum(one.most_frequent == true for one, true in zip(found.said, truth, strict=True))
    assert by_consensus > 0.95 * 300 > by_majority
    expected = dict(found.right)
    assert min(expected["a1"], expected["a2"]) > 0.9
    assert max(expected[f"b{n}"] for n in range(1, 5)) < 0.7


def test_items_without_a_single_most_frequent_label_are_counted() -> None:
    found = consensus(votes({"ann": "yyn", "bob": "ynn"}))
    assert [one.most_frequent for one in found.said] == ["yes", None, "no"]
    assert found.undecided == 1


def test_consensus_is_that_of_the_steps_written_out() -> None:
    """Dawid and Skene's equations 2.3 to 2.5 with loops, from the votes on, as many steps."""
    _, given = guessed({"a": 0.8, "b": 0.6, "c": 0.7, "d": 0.2}, 40, seed=3)
    found = dawid_skene(given.ratings())
    labels, people = given.scaled.labels, sorted(set(given.annotators))
    said = dict(zip(zip(given.items, given.annotators, strict=True), given.labels, strict=True))
    items = sorted(set(given.items))
    likely = {i: {x: sum(said[i, p] == x for p in people) / len(people) for x in labels} for i in items}
    for _ in range(found.steps):
        called = {
            (p, x, y): sum(likely[i][x] * (said[i, p] == y) for i in items)
            for p, x, y in product(people, labels, labels)
        }
        everyone = {(x, y): sum(called[p, x, y] for p in people) + 1e-3 for x, y in product(labels, labels)}
        for p, x, y in called:
            called[p, x, y] += 0.5 * everyone[x, y] / sum(everyone[x, z] for z in labels)
        totals = {(p, x): sum(called[p, x, y] for y in labels) for p, x in product(people, labels)}
        share = {x: sum(likely[i][x] for i in items) / len(items) for x in labels}
        for i in items:
            weights = {x: share[x] * np.prod([called[p, x, said[i, p]] / totals[p, x] for p in people]) for x in labels}
            likely[i] = {x: float(weights[x] / sum(weights.values())) for x in labels}
    assert found.likely == pytest.approx(np.array([[likely[i][x] for x in labels] for i in items]), abs=1e-9)


# ---------------------------------------------------------------- where nobody differs, the truth is seldom outside


def contested(items: int, share: float, *, raters: int, together: int, seed: int) -> Votes:
    """Return votes of which this share of clusters is contested: there no two raters say the same."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, items)[:, None].repeat(raters, axis=1)
    open_ = (rng.random(-(-items // together)) < share).repeat(together)[:items]
    labels[open_] = rng.permuted(np.tile([0, 1, 2], (int(open_.sum()), 1)), axis=1)[:, :raters]
    rows = {f"r{place}": "".join("abc"[label] for label in labels[:, place]) for place in range(raters)}
    one = votes(rows, Scaled(("a", "b", "c"), "ordinal"))
    return Votes(
        one.items, one.annotators, one.labels, one.scaled, tuple(f"{int(i[1:]) // together}" for i in one.items)
    )


@pytest.mark.slow
@pytest.mark.parametrize("items", [4, 12, 40])
@pytest.mark.parametrize("raters", [2, 3])
@pytest.mark.parametrize("together", [1, 4])
def test_studies_in_which_nobody_differs_miss_the_coefficient_of_all_items_in_five_of_a_hundred_at_most(
    items: int, raters: int, together: int
) -> None:
    studies, worst = 400, 0.0
    for share in (0.5, 2, 3, 4, 5, 7):  # contested clusters per study, on average
        clusters = items // together
        if clusters < 2 or share >= clusters:
            continue
        given: dict[str, int] = {"raters": raters, "together": together}
        truth = {
            one.name: one.estimate.value
            for one in agreement(contested(6_000, share / clusters, **given, seed=1), resamples=1)
            if one.estimate
        }
        missed: dict[str, int] = dict.fromkeys(truth, 0)
        for study in range(studies):
            drawn = contested(items, share / clusters, **given, seed=2 + study)
            rows = dict.fromkeys(zip(drawn.items, drawn.labels, strict=True))
            if len(rows) > items:  # somebody differs: the bootstrap's case
                continue
            for one in agreement(drawn, resamples=20):
                known = one.estimate
                if (
                    known is not None
                    and known.low is not None
                    and not known.low <= truth[one.name] <= (known.high or 1)
                ):
                    missed[one.name] += 1
        worst = max(worst, *(count / studies for count in missed.values()))
    print(f"{items} items, {raters} raters, {together} alike: missed at most {worst:.3f}")  # noqa: T201 - for who runs it
    assert worst <= 0.05
