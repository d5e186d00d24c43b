import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest

from pluralrm.errors import SpecError
from tests.models.personal.tastes import TRAITS, credit, people, quietly, settings

if TYPE_CHECKING:
    import torch

    from pluralrm.models.personal.gpo import Points
    from pluralrm.models.personal.networks import PairBatch, Weights

pytestmark = pytest.mark.hf

Row = npt.NDArray[np.float64]

SMALL = {"layers": 2, "width": 32, "ff": 32, "heads": 2, "depth": 2, "epochs": 40, "rate": 0.003, "batch": 8}


@pytest.fixture(scope="module")
def fitted():
    from pluralrm.models.personal.gpo import make

    algorithm = make(settings("gpo", **SMALL))
    users = people(96, 16)
    return algorithm, algorithm.fit(users[:80], users[80:], seed=0, log=quietly)


def drawn_points(*, users: int = 3, shown: int = 6, asked: int = 5) -> "tuple[Weights, Points, torch.Tensor]":
    import torch

    from pluralrm.models.personal.gpo import Points, drawn

    draw = torch.Generator().manual_seed(5)
    rows, targets = (torch.randn(users, many, TRAITS, generator=draw) for many in (shown, asked))
    labels = torch.randint(0, 2, (users, shown), generator=draw).float() * 2 - 1
    points = Points(rows, labels, torch.ones(users, shown, dtype=torch.bool))
    return drawn(settings("gpo", **SMALL), TRAITS, 1), points, targets


# ---------------------------------------------------------------- the mask


def test_no_target_sees_another_target():
    from pluralrm.models.personal.gpo import predict

    weights, points, targets = drawn_points()
    before = predict(weights, points, targets, heads=2).mean
    moved = targets.clone()
    moved[:, 0] += 10
    after = predict(weights, points, moved, heads=2).mean
    assert (after[:, 0] != before[:, 0]).all()
    np.testing.assert_allclose(after[:, 1:], before[:, 1:], atol=1e-6)


def test_every_target_sees_every_shown_point():
    from pluralrm.models.personal.gpo import predict

    weights, points, targets = drawn_points()
    before = predict(weights, points, targets, heads=2).mean
    for place in range(points.rows.shape[1]):
        labels = points.labels.clone()
        labels[:, place] *= -1
        after = predict(weights, points._replace(labels=labels), targets, heads=2).mean
        assert (abs(after - before) > 1e-7).all(), place


def test_shown_points_have_no_order():
    from pluralrm.models.personal.gpo import Points, predict

    weights, points, targets = drawn_points()
    order = [4, 0, 5, 2, 1, 3]
    turned = Points(points.rows[:, order], points.labels[:, order], points.there[:, order])
    one, other = (predict(weights, each, targets, heads=2) for each in (points, turned))
    np.testing.assert_allclose(one.mean, other.mean, atol=1e-5)


def test_a_point_that_fills_up_a_row_is_not_seen():
    from pluralrm.models.personal.gpo import Points, predict

    weights, points, targets = drawn_points()
    there = points.there.clone()
    there[:, 4:] = False
    filled = predict(weights, points._replace(there=there), targets, heads=2)
    fewer = Points(points.rows[:, :4], points.labels[:, :4], points.there[:, :4])
    np.testing.assert_allclose(filled.mean, predict(weights, fewer, targets, heads=2).mean, atol=1e-5)


def test_a_user_of_whom_nothing_is_shown_has_finite_rewards(fitted):
    algorithm, fit = fitted
    [user] = people(1, 5)
    state = algorithm.adapt(fit.shared, user.only(slice(0)))
    assert np.isfinite(algorithm.score(fit.shared, state, user.prompts, user.preferred)).all()


# ---------------------------------------------------------------- losses


def asked_pairs(there: "torch.Tensor") -> "PairBatch":
    import torch

    from pluralrm.models.personal.networks import PairBatch

    nothing = torch.zeros(*there.shape, TRAITS)
    return PairBatch(nothing, nothing, nothing, there)


def test_losses_equal_sums_by_hand():
    import torch
    from scipy.stats import norm

    from pluralrm.models.personal.gpo import Predicted, choice_loss, gauss_loss

    rng = np.random.default_rng(3)
    mean, log_std = rng.normal(size=(2, 2, 6)).astype(np.float32)  # two users, three pairs: preferred, then others
    there = np.array([[True, True, True], [True, False, False]])
    found = Predicted(torch.tensor(mean), torch.tensor(log_std))
    asked = asked_pairs(torch.tensor(there))
    margins = [mean[user, pair] - mean[user, 3 + pair] for user, pair in zip(*np.nonzero(there), strict=True)]
    by_hand = np.mean([-math.log(math.exp(m / 2) / (math.exp(m / 2) + math.exp(-m / 2))) for m in margins])
    assert float(choice_loss(found, asked)) == pytest.approx(by_hand, rel=1e-5)
    densities = [
        -norm(mean[user, place], math.exp(log_std[user, place])).logpdf(1 if place < 3 else -1)
        for user in range(2)
        for place in range(6)
        if there[user, place % 3]
    ]
    assert float(gauss_loss(found, asked)) == pytest.approx(np.mean(densities), rel=1e-5)


def test_attention_equals_sums_by_hand():
    """One layer over two shown points and the blank, in numpy and in turn, without the mask or the batch."""
    from pluralrm.models.personal.gpo import predict

    weights, points, targets = drawn_points(users=1, shown=2, asked=2)
    w = {name: each.numpy().astype(np.float64) for name, each in weights.items() if not name.startswith("layer.1")}
    one_layer = {name: each for name, each in weights.items() if not name.startswith("layer.1")}

    def linear(name: str, row: Row) -> Row:
        found: Row = w[f"{name}.weight"] @ row + w[f"{name}.bias"]
        return found

    def token(row: Row, label: float) -> Row:
        return linear("token.1", np.maximum(linear("token.0", np.append(row, label)), 0))

    def normed(name: str, row: Row) -> Row:
        found: Row = (row - row.mean()) / np.sqrt(row.var() + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]
        return found

    rows, asked = points.rows[0].numpy(), targets[0].numpy()
    shown = [w["blank"], *(token(row, label) for row, label in zip(rows, points.labels[0].numpy(), strict=True))]
    means = []
    for target in asked:
        state = token(target, 0.0)
        query = linear("layer.0.query", normed("layer.0.before", state))
        both = [linear("layer.0.key_value", normed("layer.0.before", each)) for each in shown]
        mixed = np.zeros(32)
        for head in (slice(0, 16), slice(16, 32)):
            likeness = np.array([query[head] @ each[:32][head] / 4.0 for each in both])
            share = np.exp(likeness) / np.exp(likeness).sum()
            mixed[head] = sum(part * each[32:][head] for part, each in zip(share, both, strict=True))
        state = state + linear("layer.0.out", mixed)
        inner = np.maximum(linear("layer.0.ff.0", normed("layer.0.between", state)), 0)
        state = state + linear("layer.0.ff.1", inner)
        means.append(linear("head", normed("last", state))[0])
    np.testing.assert_allclose(predict(one_layer, points, targets, heads=2).mean[0].numpy(), means, rtol=1e-4)


# ---------------------------------------------------------------- the fit


def test_it_learns_from_what_is_shown(fitted):
    algorithm, fit = fitted
    unseen = people(24, 16, seed=9)
    assert credit(algorithm, fit.shared, unseen, shown=8) > 0.8
    assert credit(algorithm, fit.shared, unseen, shown=8, lent=True) < 0.65
    assert fit.curve[-1].training < fit.curve[0].training


def test_the_same_seed_gives_the_same_weights():
    from pluralrm.models.personal.gpo import make

    algorithm = make(settings("gpo", **{**SMALL, "epochs": 2}))
    users = people(12, 6)
    one, again, other = (algorithm.fit(users[:9], users[9:], seed=seed, log=quietly).shared for seed in (0, 0, 1))
    assert all(np.array_equal(one[name], again[name]) for name in one)
    assert any(not np.array_equal(one[name], other[name]) for name in one)


def test_fitting_leaves_the_caller_his_random_numbers_and_threads():
    import torch

    from pluralrm.models.personal.gpo import make

    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    users = people(6, 4)
    make(settings("gpo", **{**SMALL, "epochs": 1})).fit(users[:4], users[4:], seed=0, log=quietly)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_posts_are_read_where_they_are_part_of_the_point():
    from pluralrm.models.personal.gpo import make

    algorithm = make(settings("gpo", **{**SMALL, "epochs": 25, "posts": "concat"}))
    users = people(96, 16)
    fit = algorithm.fit(users[:80], users[80:], seed=0, log=quietly)
    unseen = people(24, 16, seed=9)
    assert credit(algorithm, fit.shared, unseen, shown=0) > 0.75
    assert algorithm.needs == {"pairs", "posts"}


def test_pairs_beyond_the_most_change_nothing(fitted):
    algorithm, fit = fitted
    [user] = people(1, 300)
    most = algorithm.settings.whole("most")
    one, other = (algorithm.adapt(fit.shared, each) for each in (user, user.only(slice(most))))
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_heads_that_do_not_divide_the_width_are_refused():
    from pluralrm.models.personal.gpo import make

    with pytest.raises(SpecError, match="heads is 3; wanted a divisor of width=128"):
        make(settings("gpo", heads=3))
