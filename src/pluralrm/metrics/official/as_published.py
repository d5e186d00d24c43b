"""A number by a paper's exact formula, beside our headline, with the reason for the difference."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Published:
    """A metric as a paper computes it. A value is None where the formula leaves no row to count."""

    source: str
    value: float | None
    domains: Mapping[str, float | None]
    reason: str

    def to_json(self) -> dict[str, object]:
        """Return the fields under their names, for --json."""
        return {"source": self.source, "value": self.value, "domains": dict(self.domains), "reason": self.reason}


def macro_mean(domains: Iterable[float | None]) -> float | None:
    """Return the mean over the domains that have a value; None where none has."""
    values = [value for value in domains if value is not None]
    return sum(values) / len(values) if values else None


def count(number: int, noun: str) -> str:
    """Return `1 tie` or `1,200 ties`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def sentence(*clauses: str | int) -> str:
    """Return the clauses that apply as one sentence; an empty string or a zero does not apply."""
    found = [str(clause) for clause in clauses if clause]
    return f"{'; '.join(found)}." if found else "No tie and no failure: the same here and as published."
