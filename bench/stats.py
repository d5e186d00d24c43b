"""Intervals, tests and a leaderboard of 20 models, against the usual ways of resampling."""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy import stats as scipy_stats
from tests.stats.resampled import bootstrap_means

from bench import Outcome, Setup, Shape, Work
from pluralrm.card import Card
from pluralrm.core import Row, Run
from pluralrm.metrics import leaderboard
from pluralrm.stats import cluster_means, difference_interval, share_interval, sign_flip_p
from pluralrm.stats.clusters import FloatArray

MODELS = 20
PAIRS = list(combinations(range(MODELS), 2))


class Results(NamedTuple):
    """Credits (items, models), each item of another user."""

    credits: FloatArray
    users: list[str]
    domains: list[str]
    resamples: int


def results(setup: Setup) -> Results:
    items = setup.size(2_830, 60)
    shares = (np.random.default_rng(0).random((items, MODELS)) < np.linspace(0.6, 0.76, MODELS)).astype(float)
    domains = [("Art", "Life", "Society")[place % 3] for place in range(items)]
    return Results(shares, [f"u{place:04}" for place in range(items)], domains, setup.size(10_000, 500))


stats = Shape("stats", "means and 190 paired intervals of 20 models, 2,830 items, 10,000 resamples", results)


@stats.side
def resampled_together(data: Results) -> Work:
    def work() -> None:
        draws = bootstrap_means(data.credits, data.users, resamples=data.resamples)
        for first, second in PAIRS:
            np.quantile(draws[:, first] - draws[:, second], [0.025, 0.975])

    return work


@stats.side
def within_domains(data: Results) -> Work:
    """Return the means alone, resampled within three domains."""
    return lambda: bootstrap_means(data.credits, data.users, strata=data.domains, resamples=data.resamples)


@stats.side
def index_gather(data: Results) -> Work:
    """Return resampling one model after another, of which one is run."""

    def work() -> Outcome:
        rng, items = np.random.default_rng(0), len(data.users)
        for _ in range(data.resamples // 500):
            data.credits[rng.integers(0, items, (500, items)), 0].mean(axis=1)
        return Outcome(scale=MODELS)

    return work


@stats.side
def scipy_bootstrap(data: Results) -> Work:
    """Return scipy's bootstrap one pair after another, of which one is run."""

    def work() -> Outcome:
        sample = (data.credits[:, 0] - data.credits[:, 1],)
        scipy_stats.bootstrap(sample, np.mean, n_resamples=data.resamples, method="percentile", batch=100)
        return Outcome(scale=len(PAIRS))

    return work


@stats.side
def closed_form(data: Results) -> Work:
    def work() -> None:
        means = cluster_means(data.credits, data.users, strata=data.domains)
        for model in range(MODELS):
            share_interval(means, model)
        for first, second in PAIRS:
            difference_interval(means, first, second)

    return work


@stats.side
def sign_flips(data: Results) -> Work:
    means = cluster_means(data.credits, data.users, strata=data.domains)
    return lambda: sign_flip_p(means, flips=200 * len(PAIRS))


@stats.side
def whole_leaderboard(data: Results) -> Work:
    card = Card("bench", "seeded credits", "Apache-2.0", "bench/stats.py", "by a seed")
    runs = []
    for model in range(MODELS):
        rows = tuple(
            Row(f"i{place:04}", user, domain, 0, (credit, 0.5), ("chosen", "rejected"), (90 + place % 37, 99))
            for place, (user, domain, credit) in enumerate(
                zip(data.users, data.domains, data.credits[:, model].tolist(), strict=True)
            )
        )
        runs.append(Run(f"m{model:02}", "bench", "none", rows, card, items=len(rows), benchmark_hash="0" * 64))
    return lambda: leaderboard(runs)
