"""Users in batches for algorithms that read a user's pairs: some pairs are shown, others are asked about.

How many are shown is drawn anew for each user and epoch, from none to as many as `Sizes` allows, so that a model learns
to live with few pairs and with none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch

from pluralrm.models.personal.algorithms import State
from pluralrm.models.personal.bt import pooled
from pluralrm.models.personal.examples import FloatArray, UserExamples
from pluralrm.models.personal.logistic import Exact, directions, stacked
from pluralrm.models.personal.networks import Weights


class Sizes(NamedTuple):
    """How many users there are in a batch, and how many pairs of each are shown and asked about at most."""

    users: int
    shown: int
    asked: int


class Pairs(NamedTuple):
    """Pairs of several users, filled up with zeros; `there` is True where there is a pair."""

    prompts: torch.Tensor
    """(users, pairs, d)"""
    preferred: torch.Tensor
    """(users, pairs, d)"""
    other: torch.Tensor
    """(users, pairs, d)"""
    there: torch.Tensor
    """(users, pairs)"""


class Batch(NamedTuple):
    """Users side by side: what is shown of each, and what is asked about."""

    who: torch.Tensor
    """(users,): their places among all users."""
    posts: torch.Tensor
    """(users, d): the mean post, 0 where there is none."""
    shown: Pairs
    asked: Pairs


def batches(users: Sequence[UserExamples], sizes: Sizes, *, seed: int, epoch: int, passes: int = 1) -> Iterator[Batch]:
    """Yield every user with a pair `passes` times; order and pairs of each pass follow from its number and the seed."""
    for number in range(epoch * passes, (epoch + 1) * passes):
        yield from _one_pass(users, sizes, np.random.default_rng([seed, number]))


def _one_pass(users: Sequence[UserExamples], sizes: Sizes, rng: np.random.Generator) -> Iterator[Batch]:
    order = rng.permutation(len(users))
    for start in range(0, len(order), sizes.users):
        several = {int(place): users[place] for place in order[start : start + sizes.users]}
        asked = {place: user for place, user in several.items() if user.pairs}
        if asked:
            yield _batch(asked, [_drawn(user.pairs, sizes, rng) for user in asked.values()])


_Drawn = tuple["np.typing.NDArray[np.int64]", "np.typing.NDArray[np.int64]"]


def _drawn(pairs: int, sizes: Sizes, rng: np.random.Generator) -> _Drawn:
    """Return which pairs are shown and which are asked about: never the same, and at least one is asked about."""
    places = rng.permutation(pairs)
    shown = int(rng.integers(0, min(sizes.shown, pairs - 1) + 1))
    return places[:shown], places[shown : shown + sizes.asked]


def _batch(several: Mapping[int, UserExamples], drawn: Sequence[_Drawn]) -> Batch:
    users = list(several.values())
    posts = np.stack([mean_post(user) for user in users])
    shown, asked = zip(*drawn, strict=True)
    return Batch(
        torch.tensor(list(several)), torch.from_numpy(posts), _side_by_side(users, shown), _side_by_side(users, asked)
    )


def _side_by_side(users: Sequence[UserExamples], places: "Sequence[np.typing.NDArray[np.int64]]") -> Pairs:
    most, width = max(map(len, places)), users[0].preferred.shape[1]
    prompts, preferred, other = (np.zeros((len(users), most, width), np.float32) for _ in range(3))
    there = np.zeros((len(users), most), bool)
    for row, (user, chosen) in enumerate(zip(users, places, strict=True)):
        prompts[row, : len(chosen)] = user.prompts[chosen]
        preferred[row, : len(chosen)] = user.preferred[chosen]
        other[row, : len(chosen)] = user.other[chosen]
        there[row, : len(chosen)] = True
    from_numpy = torch.from_numpy
    return Pairs(from_numpy(prompts), from_numpy(preferred), from_numpy(other), from_numpy(there))


def pairs_of(user: UserExamples) -> Pairs:
    """Return all pairs of one user."""
    prompts, preferred, other = (torch.tensor(each)[None] for each in (user.prompts, user.preferred, user.other))
    return Pairs(prompts, preferred, other, torch.ones(1, user.pairs, dtype=torch.bool))


def mean_post(user: UserExamples) -> FloatArray:
    """Return the mean of the posts, (d,); 0 where there is none."""
    return user.posts.mean(axis=0) if len(user.posts) else np.zeros(user.preferred.shape[1], np.float32)


def scale_of(name: str, several: Iterable[FloatArray], width: int, axes: FloatArray | None = None) -> State:
    """Return the mean of all rows, and their root mean square distance from it per feature (or axis), for `scaled`.

    One scale for all: features in which answers hardly differ stay small, and so does their noise.
    """
    count, total, squares = 0, np.zeros(width), 0.0
    kept = np.eye(width) if axes is None else axes.astype(np.float64)
    for rows in several:
        exact = rows.astype(np.float64)
        count, total, squares = (
            count + len(rows),
            total + exact.sum(axis=0),
            squares + float(((exact @ kept) ** 2).sum()),
        )
    mean = total / max(count, 1)
    varied = squares / max(count, 1) - float(((mean @ kept) ** 2).sum())
    spread = np.sqrt(max(varied, 0.0) / kept.shape[1])
    # Where nothing varies, there is nothing to scale.
    found = {f"{name}.mean": mean.astype(np.float32), f"{name}.spread": np.array(spread or 1.0, np.float32)}
    return found if axes is None else {**found, f"{name}.axes": axes}


def answer_scale(users: Sequence[UserExamples], count: int) -> State:
    """Return the scale of answers, on the pooled reward and the `count` axes in which these users differ most.

    With no axes, of the features as they are. Beside hundreds of features in which answers differ and tastes do not,
    a network finds those that matter only with far more users than there are.
    """
    width = users[0].preferred.shape[1]
    answers = (np.concatenate([user.preferred, user.other]) for user in users)
    if not count:
        return scale_of("answers", answers, width)
    pairs = stacked(users)
    common = pooled(pairs, 1.0, steps=50)
    axes = np.column_stack([common / max(float(np.linalg.norm(common)), 1e-12), directions(pairs, count)])
    # Each axis with deviation 1 over the differences: which of them matters is to be learned.
    lengths = np.sqrt(((pairs.differences @ axes) ** 2).mean(axis=0))
    return scale_of("answers", answers, width, (axes / np.maximum(lengths, 1e-12)).astype(np.float32))


def as_new_users(users: Sequence[UserExamples], scale: State, folds: int, *, seed: int) -> Sequence[UserExamples]:
    """Return the training users with answers read on the pooled reward of the others, as a new user's will be.

    The pooled reward of all is fitted on the very labels that a network is then asked to predict: it looks much better
    there than on anybody new, and a network on few users learns to trust it and little else. The users are dealt out
    into `folds` parts; along axis 0 the answers of a part are moved to where the pooled reward of the other parts
    puts them. All other coordinates stay. With one fold, or without axes, the users are as they are.
    """
    folds = min(folds, len(users))
    if folds < 2 or "answers.axes" not in scale:
        return users
    axes, mean = (scale[f"answers.{name}"].astype(np.float64) for name in ("axes", "mean"))
    # Moving an answer along this vector changes its coordinate on axis 0 and no other.
    along = np.linalg.pinv(axes)[0]
    part = np.random.default_rng([seed, folds]).permutation(len(users)) % folds
    moved = list(users)
    for fold in range(folds):
        pairs = stacked([users[place] for place in np.flatnonzero(part != fold).tolist()])
        reward = pooled(pairs, 1.0, steps=50)
        length = float(np.sqrt(((pairs.differences @ reward) ** 2).mean()))
        away = np.outer(reward / max(length, 1e-12) - axes[:, 0], along)
        for place in np.flatnonzero(part == fold).tolist():
            moved[place] = _moved(moved[place], mean, away)
    return moved


def _moved(user: UserExamples, mean: Exact, away: Exact) -> UserExamples:
    preferred, other = ((rows + (rows - mean) @ away).astype(np.float32) for rows in (user.preferred, user.other))
    return user._replace(preferred=preferred, other=other)


def mirrored(scale: Weights, generator: torch.Generator) -> Weights:
    """Return the scale with the sign of each axis given by a coin, but of axis 0, the pooled reward.

    A network that learns under such scales takes a taste and its opposite for equally likely around the population's,
    as the prior of `pref` does.
    """
    axes = scale["answers.axes"]
    signs = 1.0 - 2.0 * torch.randint(0, 2, (axes.shape[1],), generator=generator)
    signs[0] = 1.0
    return {**scale, "answers.axes": axes * signs}


def width_of(scale: State) -> int:
    """Return how many numbers `scaled` makes of an answer."""
    return int(scale["answers.axes"].shape[1] if "answers.axes" in scale else len(scale["answers.mean"]))


def scaled(weights: Weights, name: str, rows: torch.Tensor) -> torch.Tensor:
    """Return the rows with mean 0 and a deviation of about 1, by what was seen in training."""
    centred = rows - weights[f"{name}.mean"]
    axes = weights.get(f"{name}.axes")
    return (centred if axes is None else centred @ axes) / weights[f"{name}.spread"]
