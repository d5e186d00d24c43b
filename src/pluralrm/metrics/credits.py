"""What one item earns. One definition for two, three or four candidates; a failed item earns nothing.

Ties share: the credit is 1 / number tied at the top, so a scorer that says the same of every candidate earns what
chance earns, and one that says nothing earns 0.
"""

from pluralrm.core import Failure, Row


def numbers(row: Row) -> list[float] | None:
    """Return the scores as numbers, or None where any of them is a Failure."""
    scores = [score for score in row.scores if not isinstance(score, Failure)]
    return scores if len(scores) == len(row.scores) else None


def top_credit(row: Row) -> float:
    """Return 1 / number tied at the top where the preferred candidate is among them, else 0."""
    scores = numbers(row)
    if scores is None or scores[row.preferred] < max(scores):
        return 0.0
    return 1 / scores.count(max(scores))


def pair_credit(row: Row) -> float:
    """Return the mean over the other candidates of 1 where the preferred one is above, 0.5 where equal, 0 below."""
    scores = numbers(row)
    if scores is None:
        return 0.0
    winner = scores[row.preferred]
    others = scores[: row.preferred] + scores[row.preferred + 1 :]
    return sum(1.0 if winner > other else 0.5 if winner == other else 0.0 for other in others) / len(others)


def top_tied(row: Row) -> bool:
    """Return whether several candidates share the highest score; False for a failed item."""
    scores = numbers(row)
    return scores is not None and scores.count(max(scores)) > 1


def strictly_right(row: Row) -> bool:
    """Return whether the preferred candidate is above all others; False for a failed item."""
    return top_credit(row) == 1.0


def pair_ties(row: Row) -> int:
    """Return how many of the other candidates have exactly the preferred one's score; 0 for a failed item."""
    scores = numbers(row)
    return 0 if scores is None else scores.count(scores[row.preferred]) - 1
