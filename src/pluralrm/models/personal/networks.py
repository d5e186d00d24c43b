"""What gpo, vpl and pal share: layers, the training loop, and users in batches of pairs; deterministic on a CPU.

What is trained, what is on disk and what scores is one mapping. Weights have a generator of their own: no other
else's random numbers change. The loop is Adam with a cosine, stopped early by the loss on users held out.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch

from pluralrm.models.personal.algorithms import Epoch, Hyper, State, Tell
from pluralrm.models.personal.bt import Exact, directions, pooled, stacked
from pluralrm.models.personal.examples import FloatArray, UserExamples

Weights = Mapping[str, torch.Tensor]


class WeightDraw:
    """Weights as they are drawn from a seed: normal with variance 1/inputs, twice that before a ReLU, biases 0."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self.weights: dict[str, torch.Tensor] = {}

    def linear(self, name: str, inputs: int, outputs: int, *, gain: float = 1.0) -> None:
        """Add a linear layer."""
        self.normal(f"{name}.weight", (outputs, inputs), math.sqrt(gain / inputs))
        self.weights[f"{name}.bias"] = torch.zeros(outputs)

    def mlp(self, name: str, widths: Sequence[int]) -> None:
        """Add linear layers from each width to the next."""
        for layer, (inputs, outputs) in enumerate(pairwise(widths)):
            self.linear(f"{name}.{layer}", inputs, outputs, gain=1.0 if layer == len(widths) - 2 else 2.0)

    def norm(self, name: str, width: int) -> None:
        """Add a layer norm."""
        self.weights[f"{name}.weight"] = torch.ones(width)
        self.weights[f"{name}.bias"] = torch.zeros(width)

    def normal(self, name: str, shape: Sequence[int], scale: float) -> None:
        """Add a tensor of normal draws."""
        self.weights[name] = scale * torch.randn(*shape, generator=self._generator)


def linear(weights: Weights, name: str, rows: torch.Tensor) -> torch.Tensor:
    """Return (..., outputs) of (..., inputs)."""
    return torch.nn.functional.linear(rows, weights[f"{name}.weight"], weights[f"{name}.bias"])


def mlp(weights: Weights, name: str, rows: torch.Tensor) -> torch.Tensor:
    """Return (..., outputs) of (..., inputs), with a ReLU between layers and none after the last."""
    layer = 0
    while f"{name}.{layer}.weight" in weights:
        rows = linear(weights, f"{name}.{layer}", rows.relu() if layer else rows)
        layer += 1
    return rows


def norm(weights: Weights, name: str, rows: torch.Tensor) -> torch.Tensor:
    """Return rows of mean 0 and variance 1, scaled and shifted as learned."""
    weight = weights[f"{name}.weight"]
    return torch.nn.functional.layer_norm(rows, weight.shape, weight, weights[f"{name}.bias"])


def to_state(weights: Weights) -> dict[str, "np.typing.NDArray[np.float32]"]:
    """Return copies of the tensors as arrays."""
    return {name: np.array(tensor.detach().numpy(), np.float32) for name, tensor in weights.items()}


def to_weights(state: State) -> dict[str, torch.Tensor]:
    """Return the arrays as tensors of their own: computing with them changes no array."""
    return {name: torch.tensor(np.asarray(array, np.float32)) for name, array in state.items()}


class Opened:
    """Turns shared parameters into tensors, and remembers the last: the same mapping is asked for user after user."""

    def __init__(self) -> None:
        self._state: State | None = None
        self._weights: dict[str, torch.Tensor] = {}

    def __call__(self, shared: State) -> Weights:
        """Return the tensors of these parameters."""
        if shared is not self._state:
            self._state, self._weights = shared, to_weights(shared)
        return self._weights


THREADS = 1
"""Of a fit, on any machine: sums depend on how many share them, and these matrices are too small to gain by two."""


class TrainedWeights(NamedTuple):
    """The weights of the epoch with the least held-out loss, and what every epoch lost."""

    weights: Mapping[str, torch.Tensor]
    curve: tuple[Epoch, ...]


Losses = Callable[[Weights, int], Iterable[torch.Tensor]]
"""The losses of an epoch's batches, one by one: each is computed after the step of the one before."""


@contextmanager
def threads() -> Iterator[None]:
    """Compute with a fixed number of threads, and leave the number as it was."""
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@threads()
def optimised(
    drawn: Weights, losses: Losses, held_out: Callable[[Weights], float], settings: Hyper, *, log: Tell
) -> TrainedWeights:
    """Return what training leads to from the weights drawn, which stay as they are.

    The rate falls from `rate` to 0 along a cosine over all `epochs`; after `patience` of them without a lower held-out
    loss training ends.
    """
    epochs, rate = settings.whole("epochs"), settings.real("rate")
    weights = {name: tensor.clone().requires_grad_() for name, tensor in drawn.items()}
    optimizer = torch.optim.AdamW(list(weights.values()), lr=rate, weight_decay=0.0)
    best, state, curve = math.inf, dict(weights), list[Epoch]()
    since = 0
    for number in range(epochs):
        optimizer.param_groups[0]["lr"] = rate * 0.5 * (1 + math.cos(math.pi * number / epochs))
        lost = [_step(optimizer, loss) for loss in losses(weights, number)]
        epoch = Epoch(number, sum(lost) / len(lost), held_out(weights))
        curve.append(epoch)
        log(epoch)
        since += 1
        if epoch.held_out < best:
            best, since = epoch.held_out, 0
            state = {name: tensor.detach().clone() for name, tensor in weights.items()}
        if since >= settings.whole("patience"):
            break
    return TrainedWeights(state, tuple(curve))


def _step(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> float:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss.detach())


# ---------------------------------------------------------------- users in batches
# How many pairs are shown is drawn anew for each user and epoch, from none to as many as `Sizes` allows, so that a
# model learns to live with few pairs and with none.


class Sizes(NamedTuple):
    """How many users there are in a batch, and how many pairs of each are shown and asked about at most."""

    users: int
    shown: int
    asked: int


class PairBatch(NamedTuple):
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
    shown: PairBatch
    asked: PairBatch


def batches(users: Sequence[UserExamples], sizes: Sizes, *, seed: int, epoch: int, passes: int = 1) -> Iterator[Batch]:
    """Yield every user with a pair `passes` times; order and pairs of each pass follow from its number and the seed."""
    for number in range(epoch * passes, (epoch + 1) * passes):
        yield from _one_pass(users, sizes, np.random.default_rng([seed, number]))


def _one_pass(users: Sequence[UserExamples], sizes: Sizes, rng: np.random.Generator) -> Iterator[Batch]:
    order = rng.permutation(len(users))
    for start in range(0, len(order), sizes.users):
        several = {int(index): users[index] for index in order[start : start + sizes.users]}
        active = {index: user for index, user in several.items() if user.pairs}
        if active:
            yield _batch(active, [_drawn(user.pairs, sizes, rng) for user in active.values()])


_Drawn = tuple["np.typing.NDArray[np.int64]", "np.typing.NDArray[np.int64]"]


def _drawn(pairs: int, sizes: Sizes, rng: np.random.Generator) -> _Drawn:
    """Return which pairs are shown and which are asked about: never the same, and at least one is asked about."""
    places = rng.permutation(pairs)
    count = int(rng.integers(0, min(sizes.shown, pairs - 1) + 1))
    return places[:count], places[count : count + sizes.asked]


def _batch(several: Mapping[int, UserExamples], drawn: Sequence[_Drawn]) -> Batch:
    users = list(several.values())
    posts = np.stack([mean_post(user) for user in users])
    context, queries = zip(*drawn, strict=True)
    return Batch(
        torch.tensor(list(several)),
        torch.from_numpy(posts),
        _side_by_side(users, context),
        _side_by_side(users, queries),
    )


def _side_by_side(users: Sequence[UserExamples], places: "Sequence[np.typing.NDArray[np.int64]]") -> PairBatch:
    most, width = max(map(len, places)), users[0].preferred.shape[1]
    prompts, preferred, other = (np.zeros((len(users), most, width), np.float32) for _ in range(3))
    there = np.zeros((len(users), most), bool)
    for row, (user, chosen) in enumerate(zip(users, places, strict=True)):
        prompts[row, : len(chosen)] = user.prompts[chosen]
        preferred[row, : len(chosen)] = user.preferred[chosen]
        other[row, : len(chosen)] = user.other[chosen]
        there[row, : len(chosen)] = True
    from_numpy = torch.from_numpy
    return PairBatch(from_numpy(prompts), from_numpy(preferred), from_numpy(other), from_numpy(there))


def pairs_of(user: UserExamples) -> PairBatch:
    """Return all pairs of one user."""
    prompts, preferred, other = (torch.tensor(each)[None] for each in (user.prompts, user.preferred, user.other))
    return PairBatch(prompts, preferred, other, torch.ones(1, user.pairs, dtype=torch.bool))


def mean_post(user: UserExamples) -> FloatArray:
    """Return the mean of the posts, (d,); 0 where there is none."""
    return user.posts.mean(axis=0) if len(user.posts) else np.zeros(user.preferred.shape[1], np.float32)


def scale_of(name: str, several: Iterable[FloatArray], width: int, axes: FloatArray | None = None) -> State:
    """Return the mean of all rows, and their root mean square distance from it per feature (or axis), for `scaled`.

    One scale for all: features in which answers hardly differ stay small, and so does their noise.
    """
    count, total, squares = 0, np.zeros(width), 0.0
    basis = np.eye(width) if axes is None else axes.astype(np.float64)
    for rows in several:
        exact = rows.astype(np.float64)
        count, total, squares = (
            count + len(rows),
            total + exact.sum(axis=0),
            squares + float(((exact @ basis) ** 2).sum()),
        )
    mean = total / max(count, 1)
    varied = squares / max(count, 1) - float(((mean @ basis) ** 2).sum())
    spread = np.sqrt(max(varied, 0.0) / basis.shape[1])
    # Where nothing varies, there is nothing to scale.
    state = {f"{name}.mean": mean.astype(np.float32), f"{name}.spread": np.array(spread or 1.0, np.float32)}
    return state if axes is None else {**state, f"{name}.axes": axes}


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
        pairs = stacked([users[index] for index in np.flatnonzero(part != fold).tolist()])
        reward = pooled(pairs, 1.0, steps=50)
        length = float(np.sqrt(((pairs.differences @ reward) ** 2).mean()))
        away = np.outer(reward / max(length, 1e-12) - axes[:, 0], along)
        for fellow in np.flatnonzero(part == fold).tolist():
            moved[fellow] = _moved(moved[fellow], mean, away)
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
