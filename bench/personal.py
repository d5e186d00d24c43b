"""Fitting and adapting every algorithm of models/personal: all epochs, never stopped early.

Users differ in 8 of the directions in which answers differ, and choose by a logistic law. `adapt` is the slowest of 20
new users with 32 pairs. Wanted: a fit < 300 s, adapting < 1 s, memory < 2 GB.
"""

import time
from functools import partial
from typing import NamedTuple

import numpy as np

from bench import Outcome, Setup, Shape, Work
from pluralrm.models.personal.algorithms import ALGORITHMS, DEFAULTS, load_algorithm, read_settings
from pluralrm.models.personal.examples import UserExamples
from pluralrm.stats.clusters import FloatArray

TASTES = 8


class People(NamedTuple):
    """Who is trained on and held out, people to adapt to, and epochs (0: the defaults)."""

    train: list[UserExamples]
    held_out: list[UserExamples]
    unseen: list[UserExamples]
    epochs: int


def people(setup: Setup) -> People:
    users, pairs, width = setup.size(500, 20), setup.size(32, 4), setup.size(384, 16)
    axes = np.random.default_rng(0).normal(size=(width, TASTES)) / np.sqrt(width)
    everyone, unseen = (
        [person(number, pairs, axes, np.random.default_rng([seed, number])) for number in range(count)]
        for seed, count in ((1, users), (2, setup.size(20, 2)))
    )
    aside = users - round(0.15 * users)
    return People(everyone[:aside], everyone[aside:], unseen, setup.size(0, 2))


def person(number: int, pairs: int, axes: FloatArray, rng: np.random.Generator) -> UserExamples:
    width = len(axes)
    posts, prompts, one, other = (
        rng.normal(size=(count, width)).astype(np.float32) for count in (10, pairs, pairs, pairs)
    )
    margins = (one - other) @ axes @ (2 * rng.normal(size=TASTES))
    chosen = (rng.random(pairs) < 1 / (1 + np.exp(-margins)))[:, None]
    return UserExamples(f"u{number}", posts, prompts, np.where(chosen, one, other), np.where(chosen, other, one))


def fit(name: str, data: People) -> Work:
    settings = {"patience": "1000"}
    if data.epochs and "epochs" in DEFAULTS[name]:
        settings["epochs"] = str(data.epochs)
    algorithm = load_algorithm(name, read_settings(name, settings))

    def work() -> Outcome:
        began = time.perf_counter()
        fitted = algorithm.fit(data.train, data.held_out, seed=0, log=lambda _: None)
        seconds, adapting = time.perf_counter() - began, []
        for user in data.unseen:
            began = time.perf_counter()
            algorithm.adapt(fitted.shared, user)
            adapting.append(time.perf_counter() - began)
        loss = min(epoch.held_out for epoch in fitted.curve)
        figures = {"adapt, s": max(adapting), "epochs": len(fitted.curve), "held-out loss": loss}
        return Outcome(units=len(data.train), seconds=seconds, figures=figures)

    return work


title = "fit on 500 users x 32 pairs x 384 features"
in_numpy = Shape("personal-numpy", title, people, unit="users", rounds=1)
in_torch = Shape("personal-torch", title, people, unit="users", needs=("torch",), rounds=1)
for name, entry in ALGORITHMS.items():
    (in_torch if entry.extra else in_numpy).side(partial(fit, name), name=name)
