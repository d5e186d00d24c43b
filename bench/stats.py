"""How long statistics take, as ratios to the usual way of doing the same, interleaved in one run."""

import time
from collections.abc import Callable
from itertools import combinations

import numpy as np
from scipy import stats as scipy_stats
from tests.stats.resampled import bootstrap_means

from pluralrm.card import Card
from pluralrm.core import Row, Run
from pluralrm.metrics import leaderboard
from pluralrm.stats import cluster_means, difference_interval, share_interval, sign_flip_p

ITEMS, MODELS, RESAMPLES, ROUNDS = 2_830, 20, 10_000, 5
PAIRS = list(combinations(range(MODELS), 2))
USERS = [f"u{place:04}" for place in range(ITEMS)]
DOMAINS = [("Art", "Life", "Society")[place % 3] for place in range(ITEMS)]
CREDITS = (np.random.default_rng(0).random((ITEMS, MODELS)) < np.linspace(0.6, 0.76, MODELS)).astype(float)


def ours() -> None:
    draws = bootstrap_means(CREDITS, USERS, resamples=RESAMPLES)
    for first, second in PAIRS:
        np.quantile(draws[:, first] - draws[:, second], [0.025, 0.975])


def ours_in_strata() -> None:
    bootstrap_means(CREDITS, USERS, strata=DOMAINS, resamples=RESAMPLES)


def gather_one() -> None:
    rng = np.random.default_rng(0)
    for _ in range(RESAMPLES // 500):
        CREDITS[rng.integers(0, ITEMS, (500, ITEMS)), 0].mean(axis=1)


def scipy_one() -> None:
    difference = CREDITS[:, 0] - CREDITS[:, 1]
    scipy_stats.bootstrap((difference,), np.mean, n_resamples=RESAMPLES, method="percentile", batch=100)


def closed_form() -> None:
    means = cluster_means(CREDITS, USERS, strata=DOMAINS)
    for model in range(MODELS):
        share_interval(means, model)
    for first, second in PAIRS:
        difference_interval(means, first, second)


def sign_flips() -> None:
    sign_flip_p(cluster_means(CREDITS, USERS, strata=DOMAINS), flips=200 * len(PAIRS))


def whole_leaderboard() -> None:
    leaderboard([_run(model) for model in range(MODELS)])


def _run(model: int) -> Run:
    rows = tuple(
        Row(
            f"i{place:04}",
            USERS[place],
            DOMAINS[place],
            0,
            (credit, 0.5),
            ("chosen", "rejected"),
            (90 + place % 37, 99),
        )
        for place, credit in enumerate(CREDITS[:, model].tolist())
    )
    card = Card("bench", "seeded credits", "Apache-2.0", "bench/stats.py", "by a seed")
    return Run(f"m{model:02}", "bench", "none", rows, card, items=ITEMS, benchmark_hash="0" * 64)


def seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    works = (ours, ours_in_strata, gather_one, scipy_one, closed_form, sign_flips, whole_leaderboard)
    best = dict.fromkeys(works, float("inf"))
    for _ in range(ROUNDS):
        best = {work: min(known, seconds(work)) for work, known in best.items()}
    pairs, models = len(PAIRS), MODELS
    told = {work.__name__: found for work, found in best.items()}
    print(f"{models} models x {ITEMS} items, {RESAMPLES:,} resamples; best of {ROUNDS} interleaved rounds")
    print(f"all means and {pairs} paired percentile intervals   {told['ours']:.3f} s")
    print(f"  index gather, one model after another       {models * told['gather_one'] / told['ours']:6.1f} x as long")
    print(f"  scipy.stats.bootstrap, one pair after another {pairs * told['scipy_one'] / told['ours']:4.0f} x as long")
    print(f"  resampled within 3 domains, means only      {told['ours_in_strata'] / told['ours']:6.2f} x")
    print(f"{models} + {pairs} intervals in closed form              {told['closed_form'] / told['ours']:6.2f} x")
    print(f"{pairs} sign-flip tests, {200 * pairs:,} flips           {told['sign_flips'] / told['ours']:6.2f} x")
    print(f"a leaderboard of {models} runs                     {told['whole_leaderboard'] / told['ours']:6.2f} x")


if __name__ == "__main__":
    main()
