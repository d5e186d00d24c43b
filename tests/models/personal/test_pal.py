import hashlib
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest

from pluralrm.models.personal.algorithms import State
from tests.models.personal.tastes import TRAITS, credit, people, quietly, settings

if TYPE_CHECKING:
    from pluralrm.models.personal.latent import Pal

pytestmark = pytest.mark.hf

Row = npt.NDArray[np.float64]

SMALL = {"hidden": 32, "inner": 16, "prototypes": 8, "epochs": 25, "rate": 0.005, "batch": 8}


@pytest.fixture(scope="module", params=["pal-a", "pal-b"])
def fitted(request):
    algorithm = made(request.param)
    users = people(96, 16)
    return algorithm, algorithm.fit(users[:80], users[80:], seed=0, log=quietly)


def made(name: str, **given: object) -> "Pal":
    from pluralrm.models.personal import latent

    return {"pal-a": latent.make_pal_a, "pal-b": latent.make_pal_b}[name](settings(name, **{**SMALL, **given}))


def content(state: State) -> str:
    return hashlib.sha256(b"".join(name.encode() + state[name].tobytes() for name in sorted(state))).hexdigest()


def test_weights_stay_on_the_simplex(fitted):
    from pluralrm.models.personal.latent import shares

    algorithm, fit = fitted
    unseen = algorithm.adapt(fit.shared, people(1, 8, seed=9)[0])
    for state in (unseen, fit.shared, *fit.users.values()):
        found = shares(state)
        assert (found >= 0).all()
        assert found.sum() == pytest.approx(1, abs=1e-6)


def test_adapting_changes_no_shared_parameter(fitted):
    algorithm, fit = fitted
    before = content(fit.shared)
    state = algorithm.adapt(fit.shared, people(1, 8, seed=9)[0])
    assert content(fit.shared) == before
    assert not np.array_equal(state["logits"], fit.shared["logits"])


def test_a_user_without_pairs_is_the_mean_of_the_users_in_training(fitted):
    algorithm, fit = fitted
    state = algorithm.adapt(fit.shared, people(1, 8)[0].only(slice(0)))
    mean = np.mean([each["logits"] for each in fit.users.values()], axis=0)
    np.testing.assert_allclose(state["logits"], mean, atol=1e-6)


def test_contradictory_pairs_leave_a_user_where_the_population_is(fitted):
    """Each pair in both directions: the slope at equal rewards is 0, and what is left is the curvature's pull."""
    algorithm, fit = fitted
    [user] = people(1, 8, seed=9)
    both = user._replace(
        prompts=np.concatenate([user.prompts, user.prompts]),
        preferred=np.concatenate([user.preferred, user.other]),
        other=np.concatenate([user.other, user.preferred]),
    )

    def margin(state: State) -> float:
        one, other = (algorithm.score(fit.shared, state, user.prompts, each) for each in (user.preferred, user.other))
        return float(np.abs(one - other).mean())

    assert margin(algorithm.adapt(fit.shared, both)) < margin(algorithm.adapt(fit.shared, user))


def test_it_learns_from_what_is_shown(fitted):
    algorithm, fit = fitted
    unseen = people(24, 16, seed=9)
    # pal-a: 0.83 in the mean of ten draws of users and weights, deviation 0.05.
    assert credit(algorithm, fit.shared, unseen, shown=8) > 0.65
    assert credit(algorithm, fit.shared, unseen, shown=8, lent=True) < 0.65


def test_only_in_pal_b_prototypes_depend_on_the_prompt(fitted):
    algorithm, fit = fitted
    [user] = people(1, 8, seed=9)
    state = algorithm.adapt(fit.shared, user)
    one, other = (algorithm.score(fit.shared, state, each, user.preferred) for each in (user.prompts, -user.prompts))
    assert np.array_equal(one, other) != algorithm.by_prompt


@pytest.mark.parametrize("measure", ["cosine", "distance"])
@pytest.mark.parametrize("name", ["pal-a", "pal-b"])
def test_rewards_and_loss_equal_a_computation_by_hand(name, measure):
    import torch

    from pluralrm.models.personal.networks import Sizes, batches

    algorithm = made(name, measure=measure)
    users = people(3, 4)
    draw = torch.Generator().manual_seed(1)
    logits = torch.randn(3, 8, generator=draw)
    scale = {
        f"{which}.{what}": torch.full((TRAITS,), value)
        for which in ("answers", "prompts")
        for what, value in (("mean", 0.1), ("spread", 2.0))
    }
    weights = {**algorithm.drawn(TRAITS, TRAITS, seed=0), **scale, "logits": logits, "log_scale": torch.tensor(0.3)}
    w = {name: each.numpy().astype(np.float64) for name, each in weights.items()}

    def mlp(name: str, row: Row) -> Row:
        hidden = np.maximum(w[f"{name}.0.weight"] @ row + w[f"{name}.0.bias"], 0)
        found: Row = w[f"{name}.1.weight"] @ hidden + w[f"{name}.1.bias"]
        return found

    def reward(user: int, prompt: Row, answer: Row) -> float:
        share = np.exp(w["logits"][user]) / np.exp(w["logits"][user]).sum()
        if algorithm.by_prompt:
            ideal = sum(
                part * row
                for part, row in zip(share, mlp("prototypes", (prompt - 0.1) / 2 / TRAITS).reshape(8, 16), strict=True)
            )
        else:
            ideal = mlp("map", sum(part * row for part, row in zip(share, w["prototypes"], strict=True)))
        mapped = mlp("map", (answer - 0.1) / 2)
        if measure == "distance":
            return -float(np.linalg.norm(mapped - ideal))
        return float(np.exp(0.3) * mapped @ ideal / np.linalg.norm(mapped) / np.linalg.norm(ideal))

    losses = [
        np.log1p(np.exp(reward(place, *row[::2]) - reward(place, *row[:2])))
        for place, user in enumerate(users)
        for row in zip(user.prompts, user.preferred, user.other, strict=True)
    ]
    [batch] = batches(users, Sizes(3, 0, 4), seed=0, epoch=1)
    assert float(algorithm.loss(weights, batch)) == pytest.approx(np.mean(losses), rel=1e-4)


def test_a_new_user_is_fitted_as_adamw_would_by_autograd():
    """The loop over frozen prototypes, against one that computes every reward anew and knows nothing of them."""
    import torch

    algorithm = made("pal-b", epochs=1)
    users = people(6, 6)
    fit = algorithm.fit(users[:5], users[5:], seed=0, log=quietly)
    weights = {name: torch.tensor(each) for name, each in fit.shared.items()}
    logits = weights["logits"].clone().requires_grad_()
    optimizer = torch.optim.AdamW([logits], lr=algorithm.settings.real("adapt_rate"))
    rows = [torch.tensor(each)[None] for each in (users[5].prompts, users[5].preferred, users[5].other)]
    for _ in range(algorithm.settings.whole("adapt_epochs")):
        preferred, other = (algorithm.rewards(weights, logits[None], rows[0], each) for each in rows[1:])
        optimizer.zero_grad()
        (-torch.nn.functional.logsigmoid(preferred - other)).mean().backward()
        optimizer.step()
    np.testing.assert_allclose(algorithm.adapt(fit.shared, users[5])["logits"], logits.detach(), atol=1e-5)


def test_seen_users_keep_parameters_of_their_own(fitted):
    _, fit = fitted
    assert sorted(fit.users) == sorted(f"u{number}" for number in range(80))


def test_ten_thousand_pairs_are_all_read(fitted):
    algorithm, fit = fitted
    [user] = people(1, 10_000, seed=9)
    every, some = (algorithm.adapt(fit.shared, each)["logits"] for each in (user, user.only(slice(5_000))))
    assert np.isfinite(every).all()
    assert not np.array_equal(every, some)


def test_the_order_of_the_pairs_changes_nothing(fitted):
    algorithm, fit = fitted
    [user] = people(1, 8, seed=9)
    turned = user._replace(**{name: getattr(user, name)[::-1].copy() for name in ("prompts", "preferred", "other")})
    one, other = (algorithm.adapt(fit.shared, each)["logits"] for each in (user, turned))
    np.testing.assert_allclose(one, other, atol=1e-4)
