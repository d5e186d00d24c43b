"""Whether numbers are what a head gives, or what an activation made of them; whether they are still the same head's.

    sigmoid(head) lies in [0, 1] whatever is asked, and far from 0 it says 1.0 to a good answer and to a better one

So numbers that all lie there are believed only where the server, asked for an activation, gives others.
"""

import math
from collections.abc import Sequence

_SAME = 1e-6
_MOVED = 0.25
"""Part of the spread of scores that no change of batches or kernels reaches: in bfloat16 it was 0.04."""


def within_unit(scores: Sequence[float]) -> bool:
    """Return whether all scores could be probabilities."""
    return all(0 <= score <= 1 for score in scores)


def unmoved(raw: Sequence[float], activated: Sequence[float]) -> bool:
    """Return whether asking for an activation changed nothing."""
    return all(abs(one - other) <= _SAME for one, other in zip(raw, activated, strict=True))


def moved(before: Sequence[float], now: Sequence[float]) -> float | None:
    """Return the largest change of a score where it is more than noise, else None."""
    spread = max(before) - min(before)
    most = max(abs(one - other) for one, other in zip(before, now, strict=True))
    return most if most > _MOVED * spread + _SAME else None


def not_finite(scores: Sequence[float]) -> bool:
    """Return whether some score is no number."""
    return not all(map(math.isfinite, scores))
