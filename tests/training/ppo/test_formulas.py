"""The formulas of PPO equal those written again in numpy, on random tensors, to 1e-5."""

from itertools import chain
from typing import TYPE_CHECKING, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.training.settings import KlEstimator
from tests.training.ppo import plain

if TYPE_CHECKING:
    import torch

pytestmark = pytest.mark.hf

CASES = st.tuples(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 9))
"""A seed, rows, and the longest answer."""


class Drawn:
    """Random tensors of answers of different lengths; what lies beyond an end is no number, and must reach nothing."""

    def __init__(self, case: tuple[int, int, int]) -> None:
        import torch

        seed, rows, longest = case
        self.rng = np.random.default_rng(seed)
        self.rows, self.lengths = rows, [int(n) for n in self.rng.integers(1, longest + 1, rows)]
        self.shape = (rows, max(self.lengths))
        self.mask = torch.arange(self.shape[1])[None] < torch.tensor(self.lengths)[:, None]
        kept = self.rng.random(rows) < 0.7
        kept[0] = True
        self.kept = [bool(one) for one in kept]

    def values(self, scale: float = 1.0) -> "torch.Tensor":
        import torch

        return torch.tensor(self.rng.normal(0, scale, self.shape), dtype=torch.float64)

    def flat(self, tensor: "torch.Tensor") -> list[list[float]]:
        return [row[:length].tolist() for row, length in zip(tensor, self.lengths, strict=True)]

    def learned(self) -> "torch.Tensor":
        """The mask without the answers that have no reward."""
        import torch

        return self.mask & torch.tensor(self.kept)[:, None]


def close(found: list[list[float]], wanted: list[list[float]]) -> None:
    assert [*chain(*found)] == pytest.approx([*chain(*wanted)], abs=1e-5)


@given(CASES, st.sampled_from([1.0, 0.9]), st.sampled_from([1.0, 0.95, 0.0]))
def test_advantages_and_returns(case: tuple[int, int, int], discount: float, decay: float) -> None:
    import torch

    from pluralrm.training.ppo import gae

    drawn = Drawn(case)
    rewards, values = drawn.values(), drawn.values()
    beyond = torch.where(drawn.mask, 0.0, 99.0)
    found = gae(rewards + beyond, values + beyond, drawn.mask, discount=discount, decay=decay)
    advantages, returns = plain.advantages(
        rewards.numpy(), values.numpy(), drawn.lengths, discount=discount, decay=decay
    )
    close(drawn.flat(found.advantages), advantages)
    close(drawn.flat(found.returns), returns)
    assert found.advantages[~drawn.mask].eq(0).all()
    assert found.returns[~drawn.mask].eq(0).all()


@given(CASES)
def test_whitening_is_over_the_tokens_that_are_learned_from(case: tuple[int, int, int]) -> None:
    import torch

    from pluralrm.training.ppo import whiten

    drawn = Drawn(case)
    values = drawn.values(3.0) + 5
    mask = drawn.learned()
    found = whiten(torch.where(mask, values, torch.nan), mask)
    assert not found.isnan().any()
    wanted = plain.whitened(drawn.flat(values), drawn.kept)
    kept = [row for row, keep in zip(wanted, drawn.kept, strict=True) if keep]
    if mask.sum() > 1:
        close([row for row, keep in zip(drawn.flat(found), drawn.kept, strict=True) if keep], kept)


@given(CASES, st.sampled_from([0.1, 0.2, 0.4]))
def test_the_losses_of_policy_and_value(case: tuple[int, int, int], clip: float) -> None:
    import torch

    from pluralrm.training.ppo import masked_mean, policy_loss, value_loss

    drawn = Drawn(case)
    now, old, advantages = drawn.values(0.5), drawn.values(0.5), drawn.values()
    for found, alone in (
        (policy_loss(now, old, advantages, clip), plain.policy_loss),
        (value_loss(now, old, advantages, clip), plain.value_loss),
    ):
        wanted = [
            alone(*one, clip)
            for row in zip(drawn.flat(now), drawn.flat(old), drawn.flat(advantages), strict=True)
            for one in zip(*row, strict=True)
        ]
        assert float(masked_mean(found.losses, drawn.mask)) == pytest.approx(np.mean(wanted), abs=1e-5)
    ratio = (now - old).exp()
    beyond = ((ratio > 1 + clip) & (advantages > 0)) | ((ratio < 1 - clip) & (advantages < 0))
    assert torch.equal(policy_loss(now, old, advantages, clip).clipped, beyond)


@pytest.mark.parametrize("estimator", get_args(KlEstimator))
def test_estimates_of_the_divergence(estimator: KlEstimator) -> None:
    from pluralrm.training.ppo import kl_estimate

    drawn = Drawn((1, 6, 9))
    now, reference = drawn.values(), drawn.values()
    found = kl_estimate(now, reference, estimator)
    wanted = [
        plain.kl(*one, estimator) for one in zip(now.flatten().tolist(), reference.flatten().tolist(), strict=True)
    ]
    assert found.flatten().tolist() == pytest.approx(wanted, abs=1e-5)


def test_two_of_the_estimates_have_the_mean_that_a_sum_over_all_tokens_gives() -> None:
    import torch

    from pluralrm.training.ppo import kl_estimate

    generator = torch.Generator().manual_seed(0)
    p, q = (torch.randn(12, generator=generator, dtype=torch.float64).log_softmax(0) for _ in range(2))
    exact = float((p.exp() * (p - q)).sum())
    estimators: tuple[KlEstimator, ...] = ("k1", "k3")
    for estimator in estimators:
        assert float((p.exp() * kl_estimate(p, q, estimator)).sum()) == pytest.approx(exact)


def test_the_gradient_of_k2_is_that_of_the_divergence_and_k1_has_none() -> None:
    import torch

    from pluralrm.training.ppo import kl_estimate

    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(12, generator=generator, dtype=torch.float64, requires_grad=True)
    q = torch.randn(12, generator=generator, dtype=torch.float64).log_softmax(0)
    p = logits.log_softmax(0)
    [exact] = torch.autograd.grad((p.exp() * (p - q)).sum(), logits, retain_graph=True)
    weights = p.detach().exp()
    [of_k2] = torch.autograd.grad((weights * kl_estimate(p, q, "k2")).sum(), logits, retain_graph=True)
    [of_k1] = torch.autograd.grad((weights * kl_estimate(p, q, "k1")).sum(), logits)
    assert of_k2.tolist() == pytest.approx(exact.tolist(), abs=1e-8)
    assert of_k1.tolist() == pytest.approx([0.0] * 12, abs=1e-8)


def test_the_reward_lies_on_the_last_token_and_the_penalty_on_each() -> None:
    import torch

    from pluralrm.training.ppo import token_rewards

    mask = torch.tensor([[True, True, False], [True, True, True]])
    found = token_rewards(torch.tensor([2.0, -1.0]), mask, torch.tensor([[0.1, 0.2, 9.0], [0.3, 0.0, 0.5]]))
    assert found.flatten().tolist() == pytest.approx([-0.1, 1.8, 0.0, -0.3, 0.0, -1.5])


def test_the_coefficient_follows_the_divergence_by_at_most_a_fifth() -> None:
    from pluralrm.training.ppo import next_coefficient

    def after(kl: float) -> float:
        return next_coefficient(0.1, kl, target=6.0, horizon=1000, answers=100)

    assert after(6.0) == 0.1
    assert after(6.6) == pytest.approx(0.1 * (1 + 0.1 * 0.1))
    assert after(600.0) == pytest.approx(0.1 * (1 + 0.2 * 0.1))
    assert after(0.0) == pytest.approx(0.1 * (1 - 0.2 * 0.1))


def test_log_probs_and_entropies_are_those_of_the_softmax() -> None:
    import torch

    from pluralrm.training.actor import entropies, token_log_probs

    logits = np.random.default_rng(2).normal(0, 2, (3, 4, 7))
    likely = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    tokens = np.random.default_rng(3).integers(0, 7, (3, 4))
    found = token_log_probs(torch.tensor(logits), torch.tensor(tokens))
    wanted = np.log(np.take_along_axis(likely, tokens[..., None], -1)[..., 0])
    assert found.flatten().tolist() == pytest.approx(wanted.flatten(), abs=1e-5)
    entropy = -(likely * np.log(likely)).sum(-1)
    assert entropies(torch.tensor(logits)).flatten().tolist() == pytest.approx(entropy.flatten(), abs=1e-5)
