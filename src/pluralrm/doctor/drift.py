"""Two ways of scoring the same queries: how far apart they are, and whether that matters."""

from collections.abc import Sequence
from itertools import combinations
from statistics import median
from typing import NamedTuple

from pluralrm.core import Failure, Verdict
from pluralrm.doctor import Sign

TOLERANCE = 1e-4
"""How far a score may move where float32 computes it in another way ..."""
ROUNDING = 1e-6
"""... and, for scores in the hundreds, how far as a share of the largest."""
HARMFUL = 0.1
"""A drift of this share of the usual gap between candidates decides some of their orders."""


class ScoreDrift(NamedTuple):
    """How two ways of scoring the same queries differ."""

    compared: int
    """Scores that both ways gave."""
    largest: float
    turned: int
    """Pairs of candidates that change their order, beyond rounding."""
    gap: float | None
    """How far two candidates of a query are apart: the median."""
    one_sided: int
    """Scores that one way gave and the other did not."""
    tolerance: float


def drift(some: Sequence[Verdict], others: Sequence[Verdict]) -> ScoreDrift:
    """Return how two ways of scoring differ."""
    scores = [list(zip(one.scores, other.scores, strict=True)) for one, other in zip(some, others, strict=True)]
    both = [[(a, b) for a, b in pairs if not isinstance(a, Failure) and not isinstance(b, Failure)] for pairs in scores]
    flat = [pair for pairs in both for pair in pairs]
    tolerance = max(TOLERANCE, ROUNDING * max((abs(a) for a, _ in flat), default=0.0))
    moves = [(a - c, b - d) for pairs in both for (a, b), (c, d) in combinations(pairs, 2)]
    return ScoreDrift(
        compared=len(flat),
        largest=max((abs(a - b) for a, b in flat), default=0.0),
        turned=sum(x * y < 0 and max(abs(x), abs(y)) > 2 * tolerance for x, y in moves),
        gap=median(abs(x) for x, _ in moves) if moves else None,
        one_sided=sum(isinstance(a, Failure) != isinstance(b, Failure) for pairs in scores for a, b in pairs),
        tolerance=tolerance,
    )


def agreement(name: str, found: ScoreDrift, *, promise: str, remedy: str) -> Sign:
    """Return whether two ways agree: red where an order turns, or would soon."""
    if not found.compared or found.one_sided:
        what = f"{found.one_sided} scores that one way gives and the other does not" if found.one_sided else "no score"
        return Sign(name, "red", what, f"{promise}, and that cannot be seen from failures", remedy)
    gap = "" if found.gap is None else f"; candidates are {found.gap:.2g} apart (median)"
    told = f"largest difference {found.largest:.1g} among {found.compared} scores{gap}"
    if found.largest <= found.tolerance:
        return Sign(name, "green", told, promise)
    if found.turned or (found.gap is not None and found.largest > HARMFUL * found.gap):
        turned = f"{found.turned} pairs of candidates change their order" if found.turned else "some orders hang on it"
        return Sign(name, "red", told, f"not so: {promise}; {turned}", remedy)
    return Sign(name, "yellow", told, f"only nearly: {promise}; no order of candidates turns", remedy)
