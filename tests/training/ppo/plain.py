"""The formulas of PPO once more, in numpy and loops, row by row over the real tokens; nothing is shared with src."""

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]


def advantages(
    rewards: Rows, values: Rows, lengths: list[int], *, discount: float, decay: float
) -> tuple[list[list[float]], list[list[float]]]:
    """Return advantages and returns as sums over what is still to come: A_t = sum_k (discount decay)^k delta_(t+k)."""
    found, returns = [], []
    for row, length in enumerate(lengths):
        r, v = rewards[row, :length], [*values[row, :length], 0.0]
        deltas = [r[t] + discount * v[t + 1] - v[t] for t in range(length)]
        own = [
            sum((discount * decay) ** (later - t) * deltas[later] for later in range(t, length)) for t in range(length)
        ]
        found.append(own)
        returns.append([own[t] + v[t] for t in range(length)])
    return found, returns


def whitened(rows: list[list[float]], kept: list[bool]) -> list[list[float]]:
    """Return the rows with the mean and variance of those that are kept, over all their tokens at once."""
    flat = np.concatenate([row for row, keep in zip(rows, kept, strict=True) if keep])
    deviation = np.sqrt(flat.var(ddof=1) + 1e-8) if len(flat) > 1 else 1.0
    return [[(value - flat.mean()) / deviation for value in row] for row in rows]


def policy_loss(now: float, old: float, advantage: float, clip: float) -> float:
    """Return the loss of one token: the clipped objective, written case by case."""
    ratio = float(np.exp(now - old))
    if advantage >= 0:
        return -advantage * min(ratio, 1 + clip)
    return -advantage * max(ratio, 1 - clip)


def value_loss(now: float, old: float, target: float, clip: float) -> float:
    """Return the loss of one value."""
    near = min(max(now, old - clip), old + clip)
    return max((now - target) ** 2, (near - target) ** 2) / 2


def kl(now: float, reference: float, estimator: str) -> float:
    """Return the estimate at one token, by the ratio itself."""
    ratio = np.exp(reference - now)
    return float({"k1": -np.log(ratio), "k2": np.log(ratio) ** 2 / 2, "k3": ratio - 1 - np.log(ratio)}[estimator])
