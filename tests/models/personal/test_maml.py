"""maml: inner steps and gradient by autograd user by user; what it learns of users never met, and when nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pluralrm.models.personal.examples import UserExamples, nobody
from tests.models.personal.fits import fitted, world
from tests.models.personal.tastes import TRAITS, credit, people, quietly, settings

if TYPE_CHECKING:
    import torch

    from pluralrm.models.personal.maml import Maml

pytestmark = pytest.mark.hf

SMALL = {"hidden": 8, "epochs": 10, "axes": 0, "rate": 0.01, "batch": 8, "inner_rate": 0.5, "passes": 2}
Weights = Mapping[str, "torch.Tensor"]


def made(**given: object) -> "Maml":
    from pluralrm.models.personal.maml import Maml

    return Maml(settings("maml", **{**SMALL, **given}))


@pytest.fixture(scope="module")
def learned():
    algorithm = made()
    return algorithm, algorithm.fit(people(80, 16), people(16, 16, seed=1), seed=0, log=quietly)


def reward(weights: Weights, rows: "torch.Tensor") -> "torch.Tensor":
    inside = (rows @ weights["reward.0.weight"].T + weights["reward.0.bias"]).clamp(min=0)
    return (inside @ weights["reward.1.weight"].T + weights["reward.1.bias"])[:, 0]


def loss(weights: Weights, user: UserExamples) -> "torch.Tensor":
    """Return -log sigmoid of each margin, on features as they are."""
    import torch

    preferred, other = (torch.tensor(each, dtype=torch.float64) for each in (user.preferred, user.other))
    return -torch.log(torch.sigmoid(reward(weights, preferred) - reward(weights, other)))


def stepped(start: Weights, user: UserExamples, algorithm: "Maml") -> dict[str, "torch.Tensor"]:
    import torch

    weights = {name: each.detach().clone().requires_grad_() for name, each in start.items()}
    for _ in range(algorithm.settings.whole("inner_steps")):
        total = loss(weights, user).sum() / (user.pairs + algorithm.settings.real("prior"))
        slopes = torch.autograd.grad(total, list(weights.values()))
        weights = {
            name: (each - algorithm.settings.real("inner_rate") * slope).detach().requires_grad_()
            for (name, each), slope in zip(weights.items(), slopes, strict=True)
        }
    return weights


def unscaled(width: int) -> dict[str, "torch.Tensor"]:
    import torch

    return {"answers.mean": torch.zeros(width, dtype=torch.float64), "answers.spread": torch.ones(())}


def start(algorithm: "Maml") -> dict[str, "torch.Tensor"]:
    return {name: each.double().requires_grad_() for name, each in algorithm.drawn(TRAITS, 3).items()}


def test_inner_steps_are_those_of_each_user_alone():
    from pluralrm.models.personal.networks import pairs_of

    algorithm, [user] = made(), people(1, 6)
    weights = start(algorithm)
    ours = algorithm.stepped({**unscaled(TRAITS), **weights}, pairs_of(user))
    for name, theirs in stepped(weights, user, algorithm).items():
        np.testing.assert_allclose(ours[name][0].detach(), theirs.detach(), atol=1e-6)


def test_the_loss_and_its_gradient_are_those_of_first_order_maml():
    import torch

    from pluralrm.models.personal.networks import Sizes, batches

    algorithm, users = (
        made(),
        [user.only(slice(count)) for user, count in zip(people(5, 8), (1, 2, 8, 5, 3), strict=True)],
    )
    [batch] = batches(users, Sizes(5, 4, 4), seed=0, epoch=0)
    weights = start(algorithm)
    ours = algorithm.loss({**unscaled(TRAITS), **weights}, batch)
    gradients = torch.autograd.grad(ours, list(weights.values()))
    losses, count = [], int(batch.asked.there.sum())
    sums = {name: torch.zeros_like(each) for name, each in weights.items()}
    for row in range(5):
        shown, queries = (
            UserExamples("", nobody(TRAITS).posts, *(each[row][part.there[row]].numpy() for each in part[:3]))
            for part in (batch.shown, batch.asked)
        )
        end = stepped(weights, shown, algorithm)
        losses.append(loss(end, queries).sum())
        for name, slope in zip(end, torch.autograd.grad(losses[-1], list(end.values())), strict=True):
            sums[name] += slope
    assert ours.item() == pytest.approx(sum(each.item() for each in losses) / count, abs=1e-6)
    for gradient, name in zip(gradients, weights, strict=True):
        np.testing.assert_allclose(gradient, sums[name] / count, atol=1e-6)


def test_own_pairs_predict_users_never_met_and_those_of_others_do_not(learned):
    algorithm, fit = learned
    unseen = people(48, 24, seed=2)
    assert credit(algorithm, fit.shared, unseen, shown=8) > 0.75
    assert credit(algorithm, fit.shared, unseen, shown=8, lent=True) < 0.6


def test_random_labels_leave_chance():
    algorithm = made(epochs=3)
    held_out = people(16, 16, seed=1, shuffled=True)
    fit = algorithm.fit(people(80, 16, shuffled=True), held_out, seed=0, log=quietly)
    assert 0.45 < credit(algorithm, fit.shared, people(96, 24, seed=2, shuffled=True), shown=8) < 0.55


def test_a_user_without_pairs_has_the_start_and_adapting_changes_nothing_shared(learned):
    algorithm, fit = learned
    before = {name: array.copy() for name, array in fit.shared.items()}
    for user in [*(user.only(slice(count)) for user, count in zip(people(2, 100), (1, 100), strict=True))]:
        states = [algorithm.adapt(fit.shared, user) for _ in range(2)]
        for name, array in states[0].items():
            np.testing.assert_array_equal(array, states[1][name])
            assert np.isfinite(array).all()
            assert not np.array_equal(array, fit.shared[name]) or name == "reward.1.bias"
    for name, array in algorithm.adapt(fit.shared, nobody(TRAITS)).items():
        np.testing.assert_array_equal(array, fit.shared[name])
    for name, array in before.items():
        np.testing.assert_array_equal(array, fit.shared[name])


def test_a_seed_gives_the_same_weights_and_another_seed_others():
    fits = [
        made(epochs=2).fit(people(20, 6), people(4, 6, seed=1), seed=seed, log=quietly).shared for seed in (0, 0, 1)
    ]
    for name, array in fits[0].items():
        np.testing.assert_array_equal(array, fits[1][name])
    assert not np.array_equal(fits[0]["reward.0.weight"], fits[2]["reward.0.weight"])


def test_training_users_are_stored_as_their_pairs_adapt_them(learned):
    algorithm, fit = learned
    user = people(80, 16)[7]
    for name, array in algorithm.adapt(fit.shared, user).items():
        np.testing.assert_array_equal(array, fit.users[user.user][name])


def test_a_folder_scores_users_one_at_a_time_as_all_at_once_and_stored_ones_by_their_own_weights(tmp_path: Path):
    from pluralrm.conditions import load_condition
    from pluralrm.models import load_model

    bench = world(12, 1, 4, 1)
    folder = fitted("maml", bench, tmp_path / "maml", given={"epochs": "1", "passes": "1", "hidden": "4"})
    queries = list(load_condition("pairs:2").queries(bench, bench.items))
    adapted, stored = (load_model(f"personal:{folder}{users}") for users in ("", ",users=stored"))
    together = [verdict.scores for verdict in adapted.score(queries)]
    assert [verdict.scores for query in queries for verdict in adapted.score([query])] == together
    assert [verdict.scores for verdict in stored.score(queries)] != together
