"""Runs in verl's own environment: our formulas and verl's on the same random tensors. The largest differences as JSON.

python tests/training/ppo/inside_verl.py
"""

import json

import torch
from verl.trainer.ppo import core_algos
from verl.utils import torch_functional
from verl.workers.config import ActorConfig

from pluralrm.training.actor import entropies
from pluralrm.training.ppo import gae, kl_estimate, masked_mean, next_coefficient, policy_loss, value_loss, whiten
from pluralrm.training.settings import KlEstimator

ROWS, WIDTH = 7, 12
KINDS: dict[KlEstimator, str] = {"k1": "kl", "k2": "mse", "k3": "low_var_kl"}


def differences(seed: int) -> dict[str, float]:
    """Return the largest difference of each formula, at the tokens that count."""
    generator = torch.Generator().manual_seed(seed)

    def drawn() -> torch.Tensor:
        return torch.randn(ROWS, WIDTH, generator=generator)

    lengths = torch.randint(1, WIDTH + 1, (ROWS,), generator=generator)
    mask = torch.arange(WIDTH)[None] < lengths[:, None]
    # verl's rewards are 0 beyond an answer's end; ours may be anything there.
    rewards, values, returns = torch.where(mask, drawn(), 0.0), drawn(), drawn()
    now, old = drawn() - 2, drawn() - 2
    found = {}

    def compare(name: str, ours: torch.Tensor, theirs: torch.Tensor, where: torch.Tensor | None = None) -> None:
        apart = (ours - theirs).abs()
        found[name] = float((apart if where is None else apart[where]).max())

    theirs = core_algos.compute_gae_advantage_return(
        rewards, values, mask.float(), torch.tensor(0.97), torch.tensor(0.9)
    )
    ours = gae(rewards, values, mask, discount=0.97, decay=0.9)
    compare("advantages", whiten(ours.advantages, mask), theirs[0], mask)
    compare("returns", ours.returns, theirs[1], mask)
    actor = ActorConfig(
        strategy="fsdp",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        clip_ratio=0.2,
        clip_ratio_c=1e9,
        clip_ratio_low=0.2,
        clip_ratio_high=0.2,
    )
    loss, told = core_algos.compute_policy_loss_vanilla(old, now, returns, mask.float(), config=actor)
    mine = policy_loss(now, old, returns, 0.2)
    compare("policy", masked_mean(mine.losses, mask), loss)
    compare("clipped", masked_mean(mine.clipped.float(), mask), torch.tensor(told["actor/pg_clipfrac"]))
    loss, share = core_algos.compute_value_loss(now, returns, old, mask.float(), 0.5)
    worth = value_loss(now, old, returns, 0.5)
    compare("value", masked_mean(worth.losses, mask), loss)
    compare("value clipped", masked_mean(worth.clipped.float(), mask), share)
    for name, verls in KINDS.items():
        near = kl_estimate(now, old, name) < 10  # verl cuts k3 there
        compare(name, kl_estimate(now, old, name), core_algos.kl_penalty(now, old, verls), near)
    logits = 3 * torch.randn(4, 5, 9, generator=generator)
    compare("entropy", entropies(logits), torch_functional.entropy_from_logits(logits))
    controller = core_algos.AdaptiveKLController(0.1, 6.0, 1000)
    controller.update(8.0, 64)
    mine_after = next_coefficient(0.1, 8.0, target=6.0, horizon=1000, answers=64)
    found["coefficient"] = abs(mine_after - float(controller.value))
    return found


def main() -> None:
    """Print the largest difference of each formula over some draws."""
    several = [differences(seed) for seed in range(20)]
    print(json.dumps({name: max(one[name] for one in several) for name in several[0]}))  # noqa: T201 - what it is for


if __name__ == "__main__":
    main()
