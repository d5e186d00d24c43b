"""Which way for which network, how many tokens at a time, and what to do when memory runs out."""

import logging
import math
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, pairwise
from typing import NamedTuple, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray

from pluralrm.errors import ModelError
from pluralrm.models.neural.asks import Ask
from pluralrm.models.neural.memory import keep_freed_memory
from pluralrm.models.neural.packed import Group, Packed, Pass, Reading, States
from pluralrm.models.neural.padded import Padded
from pluralrm.models.neural.readers import Reader
from pluralrm.models.neural.streams import MOST, side_by_side
from pluralrm.models.neural.trees import Tree, grow

Values = list[NDArray[np.float64]]

BUDGETS = {"cpu": 1024}
"""Tokens per pass: on a CPU more of them fall out of its caches."""
BUDGET_ELSEWHERE = 16_384
LEAST_BUDGET = 64
_PADDED_AT_ONCE = 64
"""Groups that are sorted by length together where sequences are padded."""
_AGREEMENT = {torch.float32: 1e-4, torch.float64: 1e-4}
"""How far packed and padded states may differ, relative to their size; half precision is coarser."""
_HALF_AGREEMENT = 0.05

_log = logging.getLogger("pluralrm")


class Network(NamedTuple):
    """A decoder and how it may be computed."""

    decoder: torch.nn.Module
    padded: Padded
    packed: Packed | None
    window: int | None
    """Sequences up to this length may be packed; None where any may."""
    vocabulary: int


class Calculator(Protocol):
    """What computes the values of groups: the Engine, or a network that is only called as a whole."""

    def values(self, groups: Iterable[Group]) -> Iterator[Values]:
        """Yield per group, in order, one array per ask."""
        ...


class Engine:
    """Computes what groups of asks want, each distinct token once where the network allows it."""

    def __init__(self, network: Network, reader: Reader, *, budget: int | None = None) -> None:
        self._network = network
        self._reader = reader
        device = next(network.decoder.parameters()).device.type
        self.budget = budget or BUDGETS.get(device, BUDGET_ELSEWHERE)
        self._streams = min(torch.get_num_threads(), MOST) if device == "cpu" else 1
        self.drift: float | None = None
        """How far packed and padded states differed when the network was opened; None where nothing is packed."""
        keep_freed_memory()
        if network.packed is not None:
            self.drift, agreed = prove(network.packed, network.padded, network.vocabulary)
            if not agreed:
                _log.warning("packed and padded states differ by %.1e of their size: this model is padded", self.drift)
                self._network = network._replace(packed=None)

    @property
    def packs(self) -> bool:
        """True where packs are used."""
        return self._network.packed is not None

    @property
    def plain(self) -> "Engine":
        """The same network without packs: the check for them."""
        return Engine(self._network._replace(packed=None), self._reader, budget=self.budget)

    @property
    def dtype(self) -> str:
        """How numbers are held, such as `float32`."""
        return str(next(self._network.decoder.parameters()).dtype).removeprefix("torch.")

    def values(self, groups: Iterable[Group]) -> Iterator[Values]:
        """Yield per group, in order, one array per ask: (wanted, labels) from a head, (wanted,) from log-probs."""
        jobs: deque[_Job] = deque()
        begun: deque[_Job] = deque()

        def passes() -> Iterator[Callable[[], Answered]]:
            for job, one in _in_turn(self._jobs(groups, jobs), self._streams + 1):
                begun.append(job)
                yield one

        for answered in side_by_side(_attempted, passes(), self._streams):
            begun.popleft().answered.append(answered)
            while jobs and len(jobs[0].answered) == len(jobs[0].passes):
                yield from self._finished(jobs.popleft())

    def _jobs(self, groups: Iterable[Group], jobs: "deque[_Job]") -> "Iterator[_Job]":
        for portion in self._portions(groups):
            jobs.append(self._job(portion))
            yield jobs[-1]

    def _portions(self, groups: Iterable[Group]) -> Iterator["Portion"]:
        """Yield neighbouring groups that are computed together; without a tree where they are padded."""
        portion: Portion = []
        used = 0
        for group in groups:
            tree = self._tree(group)
            size = 1 if tree is None else tree.tokens
            limit = _PADDED_AT_ONCE if tree is None else self.budget
            if portion and (used + size > limit or (tree is None) != (portion[0][1] is None)):
                yield portion
                portion, used = [], 0
            portion.append((group, tree))
            used += size
        if portion:
            yield portion

    def _tree(self, group: Group) -> Tree | None:
        if self._network.packed is None:
            return None
        width = self._network.window
        if width is not None and any(len(ask.needed) > width for ask in group):
            return None
        return grow(group)

    def _job(self, portion: "Portion") -> "_Job":
        """Return what computes a portion, at the budget of the moment."""
        groups, budget = [group for group, _ in portion], self.budget
        trees = [tree for _, tree in portion if tree is not None]
        if trees and self._network.packed is not None:
            passes = self._network.packed.passes(groups, trees, budget)
        else:
            passes = self._network.padded.passes(groups, budget)
        return _Job(portion, budget, [partial(self._answered, groups, one) for one in passes], [])

    def _answered(self, groups: Sequence[Group], one: Pass) -> "Answered":
        with torch.inference_mode():
            states = one()
            return states.readings, self._read(groups, states)

    def _finished(self, job: "_Job") -> list[Values]:
        """Return the values of a job; where memory ran out, those of its portion in halves of the budget."""
        while failed := [answered for answered in job.answered if isinstance(answered, RuntimeError | MemoryError)]:
            if not _is_out_of_memory(failed[0]):
                raise failed[0]
            self._halve(job.budget)
            job = self._job(job.portion)
            job.answered.extend(map(_attempted, job.passes))
        found: list[list[list[NDArray[np.float64] | None]]] = [
            [[None] * len(ask.wanted) for ask in group] for group, _ in job.portion
        ]
        for readings, values in cast("list[tuple[list[Reading], NDArray[np.float64]]]", job.answered):
            for reading, value in zip(readings, values, strict=True):
                found[reading.group][reading.ask][reading.place] = value
        return [[np.array(ask, dtype=np.float64) for ask in group] for group in found]

    def _halve(self, budget: int) -> None:
        """Halve the budget, unless another job that ran out of memory has done so meanwhile."""
        if self.budget < budget:
            return
        if budget <= LEAST_BUDGET:
            raise ModelError(
                f"out of memory even with {budget} tokens at a time. Use dtype=bfloat16, a smaller model, or a "
                "machine with more memory"
            )
        self.budget = budget // 2
        _log.warning("out of memory: going on with %d tokens at a time", self.budget)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _read(self, groups: Sequence[Group], states: States) -> NDArray[np.float64]:
        if not states.readings:
            return np.empty(0)
        asks = [groups[reading.group][reading.ask] for reading in states.readings]
        targets = [ask.targets[r.place] for ask, r in zip(asks, states.readings, strict=True) if ask.targets]
        rows = states.rows[[reading.row for reading in states.readings]]
        return np.asarray(self._reader.read(rows, targets).double().cpu())


Portion = list[tuple[Group, Tree | None]]
"""Neighbouring groups that are computed together, without trees where they are padded."""
Answered = tuple[list[Reading], NDArray[np.float64]] | RuntimeError | MemoryError
"""The numbers of one pass, or why there are none."""


class _Job(NamedTuple):
    """The passes of a portion, and what came of those that have run."""

    portion: Portion
    budget: int
    passes: list[Callable[[], Answered]]
    answered: list[Answered]


def _in_turn(jobs: Iterable[_Job], several: int) -> Iterator[tuple[_Job, Callable[[], Answered]]]:
    """Yield the passes of several jobs in turn: those of one job wait for each other, those of two do not."""
    coming = iter(jobs)
    open_ = deque((job, iter(job.passes)) for job in islice(coming, several))
    while open_:
        job, rest = open_.popleft()
        if (one := next(rest, None)) is not None:
            yield job, one
            open_.append((job, rest))
        else:
            open_.extendleft((job, iter(job.passes)) for job in islice(coming, 1))


def _attempted(one: Callable[[], Answered]) -> Answered:
    try:
        return one()
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as exc:
        return exc


def _is_out_of_memory(exc: BaseException) -> bool:
    # The CPU allocator has no class of its own for it.
    return isinstance(exc, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(exc)


# ---------------------------------------------------------------- proof


def prove(packed: Packed, padded: Padded, vocabulary: int) -> tuple[float, bool]:
    """Return how far packed states differ from padded ones, relative to their size, and whether that is rounding."""
    groups = _random_groups(vocabulary)
    trees = [grow(group) for group in groups]
    worst = 0.0
    with torch.inference_mode():
        truth = _by_reading(padded.passes(groups, 256))
        for budget in (256, 8):  # in one pack, and in many, so that roots reach over several
            try:
                found = _by_reading(packed.passes(groups, trees, budget))
            except RuntimeError:  # shapes that the short ways through a layer do not expect
                return math.inf, False
            worst = max(worst, *(_difference(found[place], truth[place]) for place in truth))
    dtype = next(iter(truth.values())).dtype
    return worst, worst <= _AGREEMENT.get(dtype, _HALF_AGREEMENT)


def _difference(found: torch.Tensor, truth: torch.Tensor) -> float:
    return float((found.float() - truth.float()).norm() / truth.float().norm().clamp_min(1e-12))


def _by_reading(passes: Iterable[Pass]) -> dict[tuple[int, int, int], torch.Tensor]:
    return {
        (reading.group, reading.ask, reading.place): states.rows[reading.row]
        for states in (one() for one in passes)
        for reading in states.readings
    }


def _random_groups(vocabulary: int) -> list[list[Ask]]:
    """Return groups of every shape: with and without a root, equal, nested, read at the end and along the way."""
    draw = random.Random(0)

    def tokens(count: int) -> tuple[int, ...]:
        return tuple(draw.randrange(vocabulary) for _ in range(count))

    def group(shared: int, lengths: Sequence[int], *, along: bool) -> list[Ask]:
        root = tokens(shared)
        sequences = [root + tokens(length) for length in lengths]
        return [Ask(ids, tuple(range(len(ids) // 2, len(ids))) if along else (len(ids) - 1,)) for ids in sequences]

    nested = tokens(9)
    return [
        group(11, (3, 5, 1), along=False),
        group(6, (4, 2), along=True),
        group(0, (5, 7), along=False),
        [Ask(nested[:end], (end - 1,)) for _, end in pairwise((0, 4, 6, 9, 9))],
    ]
