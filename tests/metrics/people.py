"""Simulated people whose true lift and gain are known by construction, as runs under every condition."""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import norm

from pluralrm.core import Estimate, Failure, Reveals, Row, Run, Score
from pluralrm.metrics.personalization import Personalization, personalization
from tests.metrics.rows import row, run

REVEALS: Mapping[str, frozenset[Reveals]] = {
    "none": frozenset(),
    "swapped": frozenset({"other_posts"}),
    "noise": frozenset({"other_posts"}),
    "oracle": frozenset({"oracle"}),
}
DOMAINS = ("Bread", "Cake", "Pie")


def reveals(condition: str) -> frozenset[Reveals]:
    """What a condition declares, by its kind; any other kind shows the user's own posts."""
    return REVEALS.get(condition.partition(":")[0], frozenset({"posts"}))


def people(
    accuracies: Mapping[str, float],
    *,
    users: int = 60,
    items: int = 2,
    seed: int = 0,
    shared: float = 0.4,
    personal: float = 0.2,
    model: str = "m",
) -> list[Run]:
    """One run per condition, right with exactly this chance on average over users.

    `shared` of what decides is the item's difficulty, the same under all conditions; `personal` is the user's, under
    each condition another: some users gain, others lose.
    """
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(users), items)
    hard = rng.standard_normal(users * items)
    lengths = rng.integers(50, 200, (users * items, 2))
    runs = []
    for condition, accuracy in accuracies.items():
        user, own = rng.standard_normal(users)[owner], rng.standard_normal(users * items)
        latent = np.sqrt(shared) * hard + np.sqrt(personal) * user + np.sqrt(1 - shared - personal) * own
        margin = norm.ppf(accuracy) - latent
        rows = [_row(place, owner[place], float(margin[place]), lengths[place]) for place in range(users * items)]
        runs.append(run(rows, model=model, condition=condition, reveals=reveals(condition)))
    return runs


def told(runs: Sequence[Run]) -> Personalization:
    """What is said of the one model under the one own condition among the runs."""
    (found,) = personalization(runs)
    return found


def ends(found: Estimate | None) -> tuple[float, float]:
    """The interval of an estimate that must have one."""
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def _row(place: int, user: int, margin: float, lengths: Sequence[int]) -> Row:
    scores = (margin, 0.0) if place % 2 else (0.0, margin)
    return row(
        f"i{place:04}",
        scores,
        (place + 1) % 2,
        cluster=f"u{user:04}",
        domain=DOMAINS[user % 3],
        lengths=(int(lengths[0]), int(lengths[1])),
        tags={"shift": "night" if user % 2 else "day"},
        posts=10,
    )


def answering(
    condition: str, answers: Sequence[Score | str], *, model: str = "m", per_user: int = 1, **changes: object
) -> Run:
    """A run in which an item is right (1), wrong (0), a tie (0.5), or failed ("x")."""
    table: dict[Score | str, tuple[Score, Score]] = {
        1: (1.0, 0.0),
        0: (0.0, 1.0),
        0.5: (0.5, 0.5),
        "x": (Failure("parse", "no verdict"), 1.0),
    }
    rows = [
        row(f"i{place:03}", table[answer], cluster=f"u{place // per_user:03}") for place, answer in enumerate(answers)
    ]
    facts = {"reveals": reveals(condition), **changes}
    return run(rows, model=model, condition=condition, **facts)
