"""The scale of a reward model on a reference pool: what `z:FILE` takes its rewards off and divides them by."""

import math

from pluralrm.core import Run
from pluralrm.models.shaping import Scale, scale_of
from pluralrm.policies.answers import score_table
from pluralrm.policies.pool import Pool


def scale_on(pool: Pool, run: Run) -> Scale:
    """Return mean and deviation of a run's scores over all samples of the pool that it scored."""
    scores = score_table(pool, run).ravel().tolist()
    known = [score for score in scores if math.isfinite(score)]
    return scale_of(
        known,
        model=run.model,
        condition=run.condition,
        pool_hash=pool.content_hash,
        failed=len(scores) - len(known),
    )
