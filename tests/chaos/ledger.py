"""What was tried in a run of the chaos tests, and what of it held: one line for each promise, printed at the end."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

SEED = int(os.environ.get("PLURALRM_CHAOS_SEED", "20261122"))
"""Of every kill, fault and mutation; printed with the table."""


def size(name: str, default: int) -> int:
    """Return how many are tried: PLURALRM_CHAOS_NAME, or a default that takes minutes for the whole tier."""
    return int(os.environ.get(f"PLURALRM_CHAOS_{name}", default))


@dataclass
class Line:
    """One promise."""

    tried: int = 0
    held: int = 0
    unit: str = ""


@dataclass
class Ledger:
    """The lines of this run by promise and verb, in the order in which they were tried."""

    lines: dict[tuple[str, str], Line] = field(default_factory=dict)

    def enter(self, promise: str, where: str, *, tried: int, findings: Sequence[str], unit: str) -> None:
        """Count what was tried, and print it; a finding is one try that did not hold."""
        line = self.lines.setdefault((promise, where), Line(unit=unit))
        line.tried += tried
        line.held += max(tried - len(findings), 0)

    def table(self) -> list[str]:
        """Return the lines of the table."""
        rows = [
            (promise, where, f"{line.tried:,} {line.unit}", f"{line.held:,}")
            for (promise, where), line in self.lines.items()
        ]
        head = ("promise", "where", "tried", "held")
        widths = [max(len(row[place]) for row in [head, *rows]) for place in range(4)]
        return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in [head, *rows]]


LEDGER = Ledger()
