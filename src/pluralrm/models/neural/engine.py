"""Which way for which network, how many tokens at a time, and what to do when memory runs out.

On a CPU passes run beside each other, one thread for each: threads that share one small pass wait for each other at
every operation, all of them for the slowest.
"""

import ctypes
import ctypes.util
import logging
import math
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from itertools import chain, islice, pairwise
from typing import NamedTuple, Protocol, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from pluralrm.errors import ModelError
from pluralrm.models.neural.passes import Group, Packed, Padded, Pass, StateReading, States
from pluralrm.models.neural.trees import StateRequest, common_prefix, grow

Values = list[NDArray[np.float64]]

BUDGETS = {"cpu": 1024}
"""Tokens per pass: on a CPU more of them fall out of its caches."""
BUDGET_ELSEWHERE = 16_384
LEAST_BUDGET = 64
_PASSES_SHARED = 8
"""Passes of neighbouring groups that share tokens are computed as one trie: their first verdict waits for the last."""
_LEAST_SHARED = 1 / 32
"""What a group has to share of its tokens for that."""
_PADDED_AT_ONCE = 64
"""Groups that are sorted by length together where sequences are padded."""
_AGREEMENT = {torch.float32: 1e-4, torch.float64: 1e-4}
"""How far packed and padded states may differ, relative to their size; half precision is coarser."""
_HALF_AGREEMENT = 0.05

_log = logging.getLogger("pluralrm")


# ---------------------------------------------------------------- states to numbers


_AT_ONCE = 256
"""Rows whose logits are held at once: a vocabulary of 150,000 is 600 kB a row."""


class StateReader(Protocol):
    """What turns hidden states (n, width) into numbers, one row of the result per row of the input."""

    def read(self, states: torch.Tensor, targets: Sequence[int]) -> torch.Tensor:
        """Return (n, labels) from a head, (n,) from log-probs; `targets` has one token per row, or none for a head."""
        ...


class HeadReader:
    """A linear head on top of a decoder, such as `score` of transformers' sequence classification."""

    def __init__(self, head: torch.nn.Module) -> None:
        self._head = head

    def read(self, states: torch.Tensor, targets: Sequence[int]) -> torch.Tensor:  # noqa: ARG002 - a head has no targets
        """Return the labels' logits."""
        weight = next(self._head.parameters())
        return self._head(states.to(weight.device)).float()


class LogProbReader:
    """The log-probs of tokens under a language model's output layer."""

    def __init__(self, output: torch.nn.Module, *, softcap: float | None = None) -> None:
        self._output = output
        self._softcap = softcap

    def read(self, states: torch.Tensor, targets: Sequence[int]) -> torch.Tensor:
        """Return the log-prob of one token per row."""
        weight = next(self._output.parameters())
        tokens = torch.tensor(targets, device=weight.device)
        parts = [
            self._logprobs(some.to(weight.device), those)
            for some, those in zip(states.split(_AT_ONCE), tokens.split(_AT_ONCE), strict=True)
        ]
        return torch.cat(parts) if parts else torch.empty(0)

    def _logprobs(self, states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        logits = self._output(states)
        if self._softcap is not None:
            logits = torch.tanh(logits / self._softcap) * self._softcap
        logits = logits.float()
        return logits.gather(1, tokens[:, None])[:, 0] - logits.logsumexp(dim=1)


# ---------------------------------------------------------------- the engine


class DecoderNetwork(NamedTuple):
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

    def __init__(self, network: DecoderNetwork, reader: StateReader, *, budget: int | None = None) -> None:
        self._network = network
        self._reader = reader
        device = next(network.decoder.parameters()).device.type
        self.budget = budget or BUDGETS.get(device, BUDGET_ELSEWHERE)
        self._streams = min(torch.get_num_threads(), _MOST_STREAMS) if device == "cpu" else 1
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
            for job, forward in _in_turn(self._jobs(groups, jobs), self._streams + 1):
                begun.append(job)
                yield forward

        for answered in side_by_side(_attempted, passes(), self._streams):
            begun.popleft().answered.append(answered)
            while jobs and len(jobs[0].answered) == len(jobs[0].passes):
                yield from self._finished(jobs.popleft())

    def _jobs(self, groups: Iterable[Group], jobs: "deque[_Job]") -> "Iterator[_Job]":
        for portion in self._portions(groups):
            jobs.append(self._job(portion))
            yield jobs[-1]

    def _portions(self, groups: Iterable[Group]) -> Iterator["Portion"]:
        """Yield neighbouring groups that are computed together: as many as a pass holds, more if they share tokens."""
        portion = Portion([], packed=False)
        used = 0
        for group in groups:
            width = self._network.window
            packed = self.packs and (width is None or all(len(ask.needed) <= width for ask in group))
            size = grow([group]).tokens if packed else 1
            shared = common_prefix((portion.groups[-1][0].needed, group[0].needed)) if packed and portion.packed else 0
            joins = shared >= size * _LEAST_SHARED
            limit = self.budget * (_PASSES_SHARED if joins else 1) if packed else _PADDED_AT_ONCE
            further = max(size - shared, -(-size // 16))  # or equal groups would be one portion, however many
            if portion.groups and (used + further > limit or packed != portion.packed):
                yield portion
                portion, used, further = Portion([], packed=packed), 0, size
            portion = portion._replace(packed=packed)
            portion.groups.append(group)
            used += further
        if portion.groups:
            yield portion

    def _job(self, portion: "Portion") -> "_Job":
        """Return what computes a portion, at the budget of the moment."""
        groups, budget = portion.groups, self.budget
        if portion.packed and self._network.packed is not None:
            passes = self._network.packed.passes(groups, grow(groups), budget)
        else:
            passes = self._network.padded.passes(groups, budget)
        return _Job(portion, budget, [partial(self._answered, groups, forward) for forward in passes], [])

    def _answered(self, groups: Sequence[Group], forward: Pass) -> "Answered":
        with torch.inference_mode():
            states = forward()
            return states.readings, self._read(groups, states)

    def _finished(self, job: "_Job") -> list[Values]:
        """Return the values of a job; where memory ran out, those of its portion in halves of the budget."""
        while failed := [answered for answered in job.answered if isinstance(answered, RuntimeError | MemoryError)]:
            if not _is_out_of_memory(failed[0]):
                raise failed[0]
            self._halve(job.budget)
            job = self._job(job.portion)
            job.answered.extend(map(_attempted, job.passes))
        rows: list[list[list[NDArray[np.float64] | None]]] = [
            [[None] * len(ask.wanted) for ask in group] for group in job.portion.groups
        ]
        for readings, values in cast("list[tuple[list[StateReading], NDArray[np.float64]]]", job.answered):
            for reading, value in zip(readings, values, strict=True):
                rows[reading.group][reading.ask][reading.place] = value
        return [[np.array(ask, dtype=np.float64) for ask in group] for group in rows]

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


class Portion(NamedTuple):
    """Neighbouring groups that are computed together, all of them in packs or none."""

    groups: list[Group]
    packed: bool


Answered = tuple[list[StateReading], NDArray[np.float64]] | RuntimeError | MemoryError
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
        if (forward := next(rest, None)) is not None:
            yield job, forward
            open_.append((job, rest))
        else:
            open_.extendleft((job, iter(job.passes)) for job in islice(coming, 1))


def _attempted(forward: Callable[[], Answered]) -> Answered:
    try:
        return forward()
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as exc:
        return exc


def _is_out_of_memory(exc: BaseException) -> bool:
    # The CPU allocator has no class of its own for it.
    return isinstance(exc, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(exc)


# ---------------------------------------------------------------- proof


def prove(packed: Packed, padded: Padded, vocabulary: int) -> tuple[float, bool]:
    """Return how far packed states differ from padded ones, relative to their size, and whether that is rounding."""
    groups = _random_groups(vocabulary)
    trie = grow(groups)
    worst = 0.0
    with torch.inference_mode():
        truth = _by_reading(padded.passes(groups, 256))
        for budget in (256, 8):  # in one pack, and in many, so that roots reach over several
            try:
                states = _by_reading(packed.passes(groups, trie, budget))
            except RuntimeError:  # shapes that the short ways through a layer do not expect
                return math.inf, False
            worst = max(worst, *(_difference(states[reading], truth[reading]) for reading in truth))
    dtype = next(iter(truth.values())).dtype
    return worst, worst <= _AGREEMENT.get(dtype, _HALF_AGREEMENT)


def _difference(states: torch.Tensor, truth: torch.Tensor) -> float:
    return float((states.float() - truth.float()).norm() / truth.float().norm().clamp_min(1e-12))


def _by_reading(passes: Iterable[Pass]) -> dict[tuple[int, int, int], torch.Tensor]:
    return {
        (reading.group, reading.ask, reading.place): states.rows[reading.row]
        for states in (forward() for forward in passes)
        for reading in states.readings
    }


def _random_groups(vocabulary: int) -> list[list[StateRequest]]:
    """Return groups of every shape: with and without a root, equal, nested, read at the end and along the way."""
    draw = random.Random(0)

    def tokens(count: int) -> tuple[int, ...]:
        return tuple(draw.randrange(vocabulary) for _ in range(count))

    def group(shared: int, lengths: Sequence[int], *, along: bool) -> list[StateRequest]:
        root = tokens(shared)
        sequences = [root + tokens(length) for length in lengths]
        return [
            StateRequest(ids, tuple(range(len(ids) // 2, len(ids))) if along else (len(ids) - 1,)) for ids in sequences
        ]

    nested = tokens(9)
    return [
        group(11, (3, 5, 1), along=False),
        group(6, (4, 2), along=True),
        group(0, (5, 7), along=False),
        [StateRequest(nested[:end], (end - 1,)) for _, end in pairwise((0, 4, 6, 9, 9))],
    ]


# ---------------------------------------------------------------- threads and memory


_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_KEPT = 1 << 30


@cache
def keep_freed_memory() -> bool:
    """Tell the C library to keep what is freed, and return True; False where it is not glibc.

    A large temporary otherwise costs a page fault per 4 kB. Set once for this process.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _KEPT)) and bool(mallopt(_M_TRIM_THRESHOLD, _KEPT))


T = TypeVar("T")
R = TypeVar("R")

_MOST_STREAMS = 16
"""Streams at most: each holds the activations of a pass."""


def side_by_side(work: Callable[[T], R], tasks: Iterable[T], streams: int) -> Iterator[R]:
    """Yield the results in order, reading no further ahead than keeps the streams busy.

    A single task has all threads to itself.
    """
    coming = iter(tasks)
    first = list(islice(coming, 2))
    if streams < 2 or len(first) < 2:
        yield from map(work, chain(first, coming))
        return
    threads = torch.get_num_threads()
    each = max(1, threads // streams)
    waiting: deque[Future[R]] = deque()
    try:
        with ThreadPoolExecutor(streams, initializer=torch.set_num_threads, initargs=(each,)) as pool:
            try:
                for task in chain(first, coming):
                    waiting.append(pool.submit(work, task))
                    if len(waiting) > streams:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
    finally:
        torch.set_num_threads(threads)  # the workers' setting is also the default of threads to come
