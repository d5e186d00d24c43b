from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest

from tests.models.personal.tastes import TRAITS, credit, people, quietly, settings

if TYPE_CHECKING:
    import torch

    from pluralrm.models.personal.latent import Latent

pytestmark = pytest.mark.hf

Row = npt.NDArray[np.float64]

SMALL = {"code": 32, "latent": 4, "hidden": 32, "epochs": 40, "anneal": 10, "rate": 0.003, "batch": 8}


@pytest.fixture(scope="module")
def fitted():
    from pluralrm.models.personal.latent import Vpl

    algorithm = Vpl(settings("vpl", **SMALL))
    users = people(96, 16)
    return algorithm, algorithm.fit(users[:80], users[80:], seed=0, log=quietly)


def believed(rng: np.random.Generator, users: int = 5, latent: int = 3) -> "Latent":
    import torch

    from pluralrm.models.personal.latent import Latent

    return Latent(*(torch.tensor(rng.normal(size=(users, latent))) for _ in range(2)))


def test_the_divergence_equals_the_closed_form():
    import torch

    from pluralrm.models.personal.latent import divergence

    found = believed(np.random.default_rng(2))
    mean, variance = found.mean.numpy(), np.exp(found.log_variance.numpy())
    by_hand = [
        sum((m * m + v - np.log(v) - 1) / 2 for m, v in zip(*both, strict=True))
        for both in zip(mean, variance, strict=True)
    ]
    np.testing.assert_allclose(divergence(found).numpy(), by_hand, rtol=1e-9)
    normal = torch.distributions.Normal(found.mean, (0.5 * found.log_variance).exp())
    theirs = torch.distributions.kl_divergence(normal, torch.distributions.Normal(0.0, 1.0)).sum(dim=1)
    np.testing.assert_allclose(divergence(found).numpy(), theirs.numpy(), rtol=1e-9)


def test_the_divergence_equals_its_mean_over_draws():
    from scipy.stats import norm

    from pluralrm.models.personal.latent import divergence

    found = believed(np.random.default_rng(4), users=1, latent=2)
    deviation = np.exp(0.5 * found.log_variance.numpy())
    draws = np.random.default_rng(0).normal(found.mean.numpy(), deviation, size=(200_000, 2))
    logs = norm(found.mean.numpy(), deviation).logpdf(draws) - norm(0, 1).logpdf(draws)
    assert float(divergence(found)[0]) == pytest.approx(logs.sum(axis=1).mean(), rel=0.02)


def test_a_user_without_pairs_is_the_prior():
    import torch

    from pluralrm.models.personal.latent import divergence, drawn, encode
    from pluralrm.models.personal.networks import pairs_of

    [user] = people(1, 3)
    weights = {**drawn(settings("vpl", **SMALL), TRAITS, 0), **scale()}
    found = encode(weights, pairs_of(user.only(slice(0))))
    assert torch.equal(found.mean, torch.zeros(1, 4))
    assert float(divergence(found)[0]) == 0.0


def scale() -> "dict[str, torch.Tensor]":
    import torch

    return {"answers.mean": torch.zeros(TRAITS), "answers.spread": torch.tensor(1.0)}


def test_the_loss_equals_a_computation_by_hand():
    """Encoder, attention, draw, decoder, logistic loss and divergence in numpy, one pair and one user at a time."""
    import torch

    from pluralrm.models.personal.latent import drawn, loss
    from pluralrm.models.personal.networks import Sizes, batches

    users = people(3, 5)
    weights = {**drawn(settings("vpl", **SMALL), TRAITS, 0), **scale()}
    w = {name: each.numpy().astype(np.float64) for name, each in weights.items()}
    [batch] = batches(users, Sizes(3, 3, 2), seed=1, epoch=1)
    noise = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))

    def linear(name: str, row: Row) -> Row:
        found: Row = w[f"{name}.weight"] @ row + w[f"{name}.bias"]
        return found

    def reward(answer: Row, z: Row) -> float:
        row = linear("reward.0", np.concatenate([answer, z]))
        for name in ("reward.1", "reward.2"):
            row = linear(name, np.maximum(row, 0))
        return float(row[0])

    losses, divergences = [], []
    for place in range(3):
        there = batch.shown.there[place].numpy()
        rows = zip(batch.shown.preferred[place].numpy()[there], batch.shown.other[place].numpy()[there], strict=True)
        codes = [np.maximum(linear("pair.1", np.maximum(linear("pair.0", np.concatenate(row)), 0)), 0) for row in rows]
        mean = log_variance = np.zeros(4)
        if codes:
            pooled = []
            for code in codes:
                likeness = np.array([linear("query", code) @ linear("key", each) / np.sqrt(32) for each in codes])
                share = np.exp(likeness) / np.exp(likeness).sum()
                pooled.append(sum(part * linear("value", each) for part, each in zip(share, codes, strict=True)))
            mean, log_variance = (linear(name, np.mean(pooled, axis=0)) for name in ("mean", "log_variance"))
        z = mean + np.exp(log_variance / 2) * noise[place].numpy()
        divergences.append(((mean**2 + np.exp(log_variance) - log_variance - 1) / 2).sum())
        asked = batch.asked.there[place].numpy()
        for preferred, other in zip(
            batch.asked.preferred[place].numpy()[asked], batch.asked.other[place].numpy()[asked], strict=True
        ):
            losses.append(np.log1p(np.exp(reward(other, z) - reward(preferred, z))))
    expected = np.mean(losses) + 0.25 * np.mean(divergences)
    assert float(loss(weights, batch, noise, 0.25)) == pytest.approx(expected, rel=1e-4)


def test_z_has_the_same_scale_in_training_and_afterwards(fitted):
    """Without variance and noise, training decodes from the very z that adapting returns."""
    import torch

    from pluralrm.models.personal.latent import decode, encode
    from pluralrm.models.personal.networks import pairs_of, to_weights

    algorithm, fit = fitted
    [user] = people(1, 6, seed=3)
    weights = to_weights(fit.shared)
    state = algorithm.adapt(fit.shared, user)
    with torch.no_grad():
        mean = encode(weights, pairs_of(user)).mean
        rewards = decode(weights, torch.tensor(user.preferred)[None], mean)[0]
    np.testing.assert_allclose(state["z"], mean[0], atol=1e-6)
    np.testing.assert_allclose(algorithm.score(fit.shared, state, user.prompts, user.preferred), rewards, atol=1e-5)


def test_the_weight_of_the_divergence_rises_from_nothing_and_stays():
    from pluralrm.models.personal.latent import Vpl

    algorithm = Vpl(settings("vpl", kl=0.5, anneal=4))
    assert [algorithm.weight_at(epoch) for epoch in range(7)] == [0, 0.125, 0.25, 0.375, 0.5, 0.5, 0.5]


def test_it_learns_from_what_is_shown(fitted):
    algorithm, fit = fitted
    unseen = people(24, 16, seed=9)
    # 0.86 in the mean of ten draws of users and weights, deviation 0.06.
    assert credit(algorithm, fit.shared, unseen, shown=8) > 0.65
    assert credit(algorithm, fit.shared, unseen, shown=8, lent=True) < 0.65


def test_shuffled_labels_teach_nothing():
    from pluralrm.models.personal.latent import Vpl

    algorithm = Vpl(settings("vpl", **{**SMALL, "epochs": 10}))
    users = people(60, 16, shuffled=True)
    fit = algorithm.fit(users[:50], users[50:], seed=0, log=quietly)
    assert abs(credit(algorithm, fit.shared, people(40, 24, seed=9, shuffled=True), shown=8) - 0.5) < 0.08


def test_adapting_does_not_depend_on_the_order_of_the_pairs(fitted):
    algorithm, fit = fitted
    [user] = people(1, 6, seed=3)
    turned = user._replace(**{name: getattr(user, name)[::-1].copy() for name in ("prompts", "preferred", "other")})
    one, other = (algorithm.adapt(fit.shared, each)["z"] for each in (user, turned))
    np.testing.assert_allclose(one, other, atol=1e-5)
