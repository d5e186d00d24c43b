"""Numbers that a training can use: trainers hold rewards as float32, where a larger one becomes infinite."""

from pluralrm.core import Failure, Score

_LARGEST = (2 - 2**-23) * 2.0**127
"""Of float32; bfloat16 reaches as far, to the last digits."""


def trainable(score: Score) -> Score:
    """Return the score, or the failure `nonfinite` where a tensor of float32 would hold infinity for it."""
    if isinstance(score, Failure) or abs(score) <= _LARGEST:
        return score
    return Failure("nonfinite", f"{score:g} is beyond float32, in which trainers keep rewards")
