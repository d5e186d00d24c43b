"""Fitting and adapting every algorithm of models/personal on 500 users x 32 pairs x 384 features, in a process each.

    python bench/personal.py [--only gpo vpl] [--users 500] [--pairs 32] [--width 384]

fit     seconds with the defaults, but all epochs: never stopped early   wanted: < 300
cpu     seconds of processor time in that: what it takes on a machine with nothing else to do, by one thread
adapt   seconds for a new user with 32 pairs, the slowest of 20          wanted: < 1
memory  peak of the process, arrays and libraries included               wanted: < 2 GB

Users differ in 8 of the directions in which answers differ, and choose by a logistic law.
"""

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Sequence

import numpy as np

from pluralrm.models.personal.algorithms import ALGORITHMS, load_algorithm, read_settings
from pluralrm.models.personal.examples import UserExamples

TASTES = 8


def people(users: int, pairs: int, width: int, *, seed: int) -> list[UserExamples]:
    axes = np.random.default_rng(0).normal(size=(width, TASTES)) / np.sqrt(width)
    return [_person(number, pairs, axes, np.random.default_rng([seed, number])) for number in range(users)]


def _person(number: int, pairs: int, axes: np.ndarray, rng: np.random.Generator) -> UserExamples:
    width = len(axes)
    posts, prompts, one, other = (
        rng.normal(size=(count, width)).astype(np.float32) for count in (10, pairs, pairs, pairs)
    )
    taste = 2 * rng.normal(size=TASTES)
    margins = (one - other) @ axes @ taste
    chosen = (rng.random(pairs) < 1 / (1 + np.exp(-margins)))[:, None]
    return UserExamples(f"u{number}", posts, prompts, np.where(chosen, one, other), np.where(chosen, other, one))


def measure(name: str, users: int, pairs: int, width: int) -> dict[str, object]:
    train, unseen = people(users, pairs, width, seed=1), people(20, pairs, width, seed=2)
    algorithm = load_algorithm(name, read_settings(name, {"patience": "1000"}))
    aside = users - round(0.15 * users)
    began, busy = time.monotonic(), time.process_time()
    fitted = algorithm.fit(train[:aside], train[aside:], seed=0, log=lambda _: None)
    fit, cpu = time.monotonic() - began, time.process_time() - busy
    adapt = []
    for user in unseen:
        began = time.monotonic()
        algorithm.adapt(fitted.shared, user)
        adapt.append(time.monotonic() - began)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    held_out = min(epoch.held_out for epoch in fitted.curve)
    numbers = {"fit": fit, "cpu": cpu, "adapt": max(adapt), "memory": memory, "held_out": held_out}
    return {"algorithm": name, "epochs": len(fitted.curve), **{key: round(value, 4) for key, value in numbers.items()}}


def _child(name: str, sizes: tuple[int, int, int], results: "multiprocessing.Queue[dict[str, object]]") -> None:
    results.put(measure(name, *sizes))


def main(names: Sequence[str], sizes: tuple[int, int, int]) -> None:
    spawn = multiprocessing.get_context("spawn")  # a forked child would begin with the parent's peak
    for name in names:
        results = spawn.Queue()
        child = spawn.Process(target=_child, args=(name, sizes, results))
        child.start()
        print(json.dumps(results.get()), flush=True)
        child.join()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", default=list(ALGORITHMS), choices=list(ALGORITHMS))
    parser.add_argument("--users", type=int, default=500)
    parser.add_argument("--pairs", type=int, default=32)
    parser.add_argument("--width", type=int, default=384)
    given = parser.parse_args()
    main(given.only, (given.users, given.pairs, given.width))
