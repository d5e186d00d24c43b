"""maj@k against the enumeration of all subsets, and against what is known by hand."""

import random
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from math import comb, fsum

import numpy as np
import pytest

from pluralrm.errors import MetricError
from pluralrm.stats.best_of import expected_majority, majority_shares


def enumerated(groups: Sequence[int], grades: Sequence[float], k: int) -> float:
    """Return the mean over all subsets; in each, tied groups share, and a group's answer is drawn among all of it."""
    mean = {g: fsum(grades[i] for i, x in enumerate(groups) if x == g) / groups.count(g) for g in set(groups)}
    total = []
    for subset in combinations(groups, k):
        votes = Counter(group for group in subset if group >= 0)
        tops = [group for group, count in votes.items() if count == max(votes.values())]
        total.append(fsum(mean[group] for group in tops) / len(tops) if tops else 0.0)
    return fsum(total) / len(total)


def within(groups: Sequence[int], grades: Sequence[float], k: int) -> float:
    """Return the same where the answer is drawn among the group's members in the subset."""
    total = []
    for subset in combinations(range(len(groups)), k):
        votes = Counter(groups[i] for i in subset if groups[i] >= 0)
        tops = [group for group, count in votes.items() if count == max(votes.values(), default=0)]
        worth = [fsum(grades[i] for i in subset if groups[i] == g) / votes[g] for g in tops]
        total.append(fsum(worth) / len(tops) if tops else 0.0)
    return fsum(total) / len(total)


@pytest.mark.parametrize("seed", range(30))
def test_it_is_the_mean_over_all_subsets(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(1, 10)
    groups = [rng.randint(-1, rng.choice([0, 1, 3, 9])) for _ in range(count)]
    grades = [rng.random() for _ in range(count)]
    ks = list(range(1, count + 1))
    found = expected_majority([groups], [grades], ks)[0]
    assert found == pytest.approx([enumerated(groups, grades, k) for k in ks], abs=1e-12)
    assert found == pytest.approx([within(groups, grades, k) for k in ks], abs=1e-12)


def test_the_shares_of_all_groups_are_the_subsets_with_a_vote() -> None:
    for sizes, count in [((1,) * 128, 128), ((1, 2, 3, 5, 8, 13, 21), 64), ((40, 40), 100), ((50, 49), 101)]:
        ks = (1, 2, 7, count // 2, count)
        shares = majority_shares(sizes, count, ks)
        silent = count - sum(sizes)
        wanted = [1 - comb(silent, k) / comb(count, k) for k in ks]
        assert shares.sum(axis=0) == pytest.approx(wanted, abs=1e-10)


def test_one_answer_is_a_blind_pick_and_all_of_them_are_the_plurality() -> None:
    groups, grades = [[0, 0, 0, 1, 1, 2]], [[1.0, 1.0, 1.0, 0.0, 0.0, 0.0]]
    found = expected_majority(groups, grades, [1, 6])
    assert found[0] == pytest.approx([0.5, 1.0])


def test_names_of_groups_and_the_order_of_answers_mean_nothing() -> None:
    rng = np.random.default_rng(0)
    groups, grades = rng.integers(-1, 4, (20, 12)), rng.random((20, 12))
    order = rng.permutation(12)
    names = np.where(groups < 0, -1, 7 * (9 - groups))
    first = expected_majority(groups, grades, range(1, 13))
    assert expected_majority(names[:, order], grades[:, order], range(1, 13)) == pytest.approx(first)


def test_nobody_votes_and_nothing_is_earned() -> None:
    assert expected_majority([[-1, -1]], [[1.0, 1.0]], [1, 2]).tolist() == [[0.0, 0.0]]


def test_shapes_and_sizes_are_checked() -> None:
    with pytest.raises(MetricError, match="wanted \\(items, N\\) for both"):
        expected_majority([[0, 1]], [[1.0]], [1])
    with pytest.raises(MetricError, match="at most 1,000"):
        expected_majority(np.zeros((1, 1001)), np.zeros((1, 1001)), [1])
