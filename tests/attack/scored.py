"""Runs before and under attack, from scores alone: the first answer is the preferred one."""

from collections.abc import Sequence

from pluralrm.attack import ATTACKED
from pluralrm.core import Failure, Run, Score
from tests.metrics.rows import row, run

PARSE = Failure("parse", "no verdict")
RIGHT: tuple[Score, Score] = (1.0, 0.0)
WRONG: tuple[Score, Score] = (0.0, 1.0)
TIED: tuple[Score, Score] = (1.0, 1.0)
LOST: tuple[Score, Score] = (PARSE, 1.0)


def scored(scores: Sequence[Sequence[Score]], *, place: int | None = 1, clusters: Sequence[str] = ()) -> Run:
    """Return a run in which the answer at `place` was attacked, or none where that is None; one item per user."""
    tags = {} if place is None else {ATTACKED: str(place)}
    names = clusters or [f"u{number:03}" for number in range(len(scores))]
    return run(
        [row(f"i{n:03}", one, cluster=name, tags=tags) for n, (one, name) in enumerate(zip(scores, names, strict=True))]
    )
