"""Passes beside each other on a CPU, one thread for each.

Threads that share one small pass wait for each other at every operation: all of them for the slowest, which on a
machine with other work is slow indeed.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")

MOST = 16
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
    waiting: deque[Future[R]] = deque()
    try:
        with ThreadPoolExecutor(streams, initializer=torch.set_num_threads, initargs=(threads // streams,)) as pool:
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
