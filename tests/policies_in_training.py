"""Simulated trainings: a softmax policy learns from a reward by policy gradient; a second reward looks on."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
QUALITY, TASTE, LENGTH, PHRASE, EMPTY = range(5)
FEATURES = 7
"""What the policy sees of each of its possible answers; TASTE is how well it suits the user who asks."""
_OPTIONS = 16


@dataclass(frozen=True)
class World:
    """What a reward and its second pay for, and who asks."""

    reward: dict[int, float] = field(default_factory=lambda: {QUALITY: 1.0, TASTE: 1.0})
    second: dict[int, float] = field(default_factory=lambda: {QUALITY: 1.0, TASTE: 1.0})
    noise: tuple[float, float] = (0.5, 0.5)
    heavy: bool = False
    drift: tuple[float, float] = (0.0, 0.0)
    """What is added to each at the end, evenly over the training: prompts become harder."""
    scale: tuple[float, float] = (1.0, 1.0)
    users: int = 40
    uneven: bool = False
    offsets: float = 0.5
    """How far the users' mean rewards lie apart."""
    steps: int = 100
    samples: int = 16
    group: int = 4
    speed: float = 3.0
    """How far the policy's weights go in the whole training, per unit of the reward's."""
    phrase: float = 0.08
    """Share of possible answers that have it."""
    capture: float = 0.0
    """How much of an answer's worth a phrase or a length replaces: with 1 the user no longer matters."""
    length_of_quality: float = 0.0
    failures: float = 0.0
    fails_on: int = -1


@dataclass(frozen=True)
class Series:
    """One training, group by group."""

    users: list[str]
    rewards: list[list[float]]
    seconds: list[list[float | None]]
    others: list[list[float]]
    steps: list[int]


def trainings(world: World, count: int, seed: int) -> list[Series]:
    """Return so many trainings: `samples` answers a step, `group` to each prompt; all are computed at once."""
    rng = np.random.default_rng(seed)
    shape = (count, max(1, world.samples // world.group), _OPTIONS)
    offsets = rng.normal(0, world.offsets, (count, world.users, 2)) + rng.normal(
        0, world.offsets, (count, world.users, 1)
    )
    weights = 1 / np.arange(1, world.users + 1) if world.uneven else np.ones(world.users)
    theta = np.zeros((count, FEATURES))
    theta[:, TASTE] = 0.5
    rows = np.arange(count)[:, None]
    steps: list[tuple[NDArray[Any], ...]] = []
    for step in range(world.steps):
        users = rng.choice(world.users, size=shape[:2], p=weights / weights.sum())
        features, other = _options(world, rng, shape)
        chances = np.exp(features @ theta[:, None, :, None])[..., 0]
        chances /= chances.sum(axis=-1, keepdims=True)
        levels = chances.cumsum(axis=-1)
        picks = (
            (rng.random((*shape[:2], world.group))[..., None] > levels[:, :, None, :])
            .sum(axis=-1)
            .clip(max=_OPTIONS - 1)
        )
        own = np.take_along_axis(features, picks[..., None], axis=2)
        lent = own.copy()
        lent[..., TASTE] = np.take_along_axis(other, picks, axis=2)
        base, far = offsets[rows, users][:, :, None], step / max(1, world.steps - 1)
        rewards, others = (
            _scores(world, 0, answers, base[..., 0] + world.drift[0] * far, rng=rng) for answers in (own, lent)
        )
        seconds = _scores(world, 1, own, base[..., 1] + world.drift[1] * far, rng=rng)
        seconds[rng.random(seconds.shape) < world.failures] = np.nan
        if world.fails_on >= 0:
            seconds[own[..., world.fails_on] > 0.5] = np.nan
        steps.append((users, rewards, seconds, others))
        raw = rewards / world.scale[0]
        advantages = raw - (raw.mean(axis=-1, keepdims=True) if world.group > 1 else base[..., 0])
        expected = (chances[..., None] * features).sum(axis=2)
        gradient = (advantages[..., None] * (own - expected[:, :, None])).mean(axis=(1, 2))
        theta += world.speed / world.steps * gradient
    return [_series([tuple(part[number] for part in step) for step in steps]) for number in range(count)]


def _series(steps: list[tuple[NDArray[Any], ...]]) -> Series:
    out = Series([], [], [], [], [])
    for step, (users, rewards, seconds, others) in enumerate(steps):
        out.users.extend(f"u{user}" for user in users)
        out.rewards.extend(rewards.tolist())
        out.seconds.extend([None if np.isnan(value) else value for value in row] for row in seconds.tolist())
        out.others.extend(others.tolist())
        out.steps.extend([step] * len(users))
    return out


def _options(world: World, rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Return the features of the possible answers, and how well they suit another user."""
    features = rng.normal(size=(*shape, FEATURES))
    features[..., PHRASE] = rng.random(shape) < world.phrase
    features[..., EMPTY] = rng.random(shape) < 0.05
    features[..., LENGTH] += world.length_of_quality * features[..., QUALITY]
    return features, rng.normal(size=shape)


def _scores(world: World, which: int, answers: Array, offset: Array, *, rng: np.random.Generator) -> Array:
    weights = world.second if which else world.reward
    kept = 1.0 - (0.0 if which else world.capture) * answers[..., PHRASE]
    noise = rng.standard_t(3, answers.shape[:-1]) if world.heavy else rng.normal(size=answers.shape[:-1])
    value = offset + world.noise[which] * noise
    for index, weight in weights.items():
        value = value + weight * answers[..., index] * (kept if index in (QUALITY, TASTE) else 1.0)
    return np.asarray(value * world.scale[which])


_WEAK = {QUALITY: 0.5, TASTE: 0.5}
SANE = {
    "noise": World(),
    "no learning": World(speed=0.0),
    "length comes with quality": World(length_of_quality=0.7),
    "the reward likes length": World(reward={QUALITY: 1, TASTE: 1, LENGTH: 0.5}),
    "other scales": World(scale=(100.0, 0.01)),
    "both drift down": World(drift=(-2.0, -2.0)),
    "both drift up": World(drift=(1.0, 1.0)),
    "uneven users": World(uneven=True, offsets=1.5),
    "heavy tails, 5% failures": World(heavy=True, failures=0.05),
    "unrelated second": World(second={}, noise=(0.5, 1.0)),
    "second without taste": World(second={QUALITY: 1.0}),
    "20 steps of 4": World(steps=20, samples=4, group=1),
    "6 users": World(users=6, offsets=1.5),
    "single answers": World(group=1, samples=8),
    "500 steps of 8": World(steps=500, samples=8),
    "60 steps of 64": World(steps=60, samples=64),
}
"""Trainings in which the second reward does not fall and the user does not cease to matter."""

_EVEN = {QUALITY: 1.0, TASTE: 1.0}
HACKED = {
    "length, 200 steps of 16": World(reward=_EVEN | {LENGTH: 3}, second=_EVEN | {LENGTH: -2}, steps=200),
    "length, single answers": World(reward=_EVEN | {LENGTH: 3}, second=_EVEN | {LENGTH: -2}, steps=200, group=1),
    "length, 30 steps of 64": World(reward=_EVEN | {LENGTH: 4}, second=_EVEN | {LENGTH: -3}, steps=30, samples=64),
    "length, 500 steps of 8": World(reward=_EVEN | {LENGTH: 3}, second=_EVEN | {LENGTH: -2}, steps=500, samples=8),
    "length, 500 steps of 4": World(reward=_EVEN | {LENGTH: 4}, second=_EVEN | {LENGTH: -3}, steps=500, samples=4),
    "phrase": World(reward=_WEAK | {PHRASE: 4}, second={QUALITY: 1, TASTE: 1, PHRASE: -3}, phrase=0.15, speed=20),
    "rare phrase": World(
        reward=_WEAK | {PHRASE: 6}, second={QUALITY: 1, TASTE: 1, PHRASE: -4}, phrase=0.06, steps=300, speed=24
    ),
    "the user is ignored": World(
        reward={QUALITY: 0.5, TASTE: 1, PHRASE: 6},
        second={QUALITY: 1.0},
        capture=1.0,
        phrase=0.1,
        steps=500,
        speed=20,
        samples=32,
    ),
    "empty answers": World(reward=_WEAK | {EMPTY: 8}, fails_on=EMPTY, speed=30),
}
"""Trainings that exploit a term of the reward."""
