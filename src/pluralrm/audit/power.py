"""How large a leak must be to be seen."""

from pluralrm.audit.guessing import Guess

POWER = 0.8


def detectable(guess: Guess, chance: float, level: float) -> float:
    """Return the accuracy that would be significant at `level` with a chance of POWER; at most 1.

    By how much the same guess varies under labels that mean nothing, so that items which go together in a cluster
    count as the fewer that they are worth. The level is shared among the guesses from which the best was picked.
    """
    from scipy.special import ndtri

    reach = float(ndtri(1 - level / guess.choices) + ndtri(POWER)) * guess.noise
    return min(1.0, chance + reach)
