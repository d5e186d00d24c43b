"""How many records came to each stage, how many stayed, why the others did not, and what it took.

At every stage: came in = kept + rejected + waiting, and what one stage keeps is what comes to the next.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from pluralrm.construct.pipeline.folder import BuildManifest, DecisionLine, Spent
from pluralrm.errors import RunError
from pluralrm.http import Price, Usage


@dataclass(frozen=True, slots=True)
class Counts:
    """One stage. `rejected` counts by reason, the most frequent first; `attempts` is how often texts were written."""

    stage: str
    kind: str
    came_in: int
    kept: int
    rejected: Mapping[str, int]
    waiting: int
    attempts: int = 0
    spent: tuple[Spent, ...] = ()

    @property
    def calls(self) -> int:
        """Calls about the records that are decided on; those that others asked for as well count for each."""
        return sum(spent.calls for spent in self.spent)

    def cost(self, prices: Mapping[str, Price]) -> float | None:
        """Return what its calls cost; None where the price of a model that was asked is not known."""
        return _cost(self.spent, prices)

    def to_json(self) -> dict[str, object]:
        """Return the fields under their names."""
        return {
            "stage": self.stage,
            "kind": self.kind,
            "came_in": self.came_in,
            "kept": self.kept,
            "rejected": dict(self.rejected),
            "waiting": self.waiting,
            "attempts": self.attempts,
            "spent": [spent.model_dump() for spent in self.spent],
        }


@dataclass(frozen=True, slots=True)
class Funnel:
    """All stages of a build, in order."""

    pipeline: str
    records: int
    stages: tuple[Counts, ...]

    @property
    def kept(self) -> int:
        """How many records came through."""
        return self.stages[-1].kept if self.stages else self.records

    @property
    def waiting(self) -> int:
        """How many records wait at any stage."""
        return sum(counts.waiting for counts in self.stages)

    def cost(self, prices: Mapping[str, Price]) -> float | None:
        """Return what all calls cost."""
        return _cost([spent for counts in self.stages for spent in counts.spent], prices)

    def to_json(self) -> dict[str, object]:
        """Return everything under its name."""
        stages = [counts.to_json() for counts in self.stages]
        return {"pipeline": self.pipeline, "records": self.records, "kept": self.kept, "stages": stages}


def _cost(spent: Sequence[Spent], prices: Mapping[str, Price]) -> float | None:
    if not all(one.model in prices for one in spent):
        return None
    return fsum(prices[one.model].of(Usage(one.tokens_in, one.tokens_out)) for one in spent)


def funnel_of(manifest: BuildManifest, lines: Sequence[Mapping[str, DecisionLine]]) -> Funnel:
    """Return the funnel of a build's decisions; RunError where it does not add up."""
    came_in, stages = manifest.records, []
    for stage, decided in zip(manifest.stages, lines, strict=True):
        counts = _counts(stage.name, stage.kind, came_in, list(decided.values()))
        stages.append(counts)
        came_in = counts.kept
    return checked(Funnel(manifest.pipeline, manifest.records, tuple(stages)))


def _counts(stage: str, kind: str, came_in: int, decided: Sequence[DecisionLine]) -> Counts:
    reasons = Counter(line.reason for line in decided if line.kept is None)
    rejected = dict(sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0])))
    return Counts(
        stage=stage,
        kind=kind,
        came_in=came_in,
        kept=sum(line.kept is not None for line in decided),
        rejected=rejected,
        waiting=came_in - len(decided),
        attempts=sum(line.attempts for line in decided),
        spent=_together(spent for line in decided for spent in line.spent),
    )


def _together(spent: Iterable[Spent]) -> tuple[Spent, ...]:
    """Return one entry for each role and model."""
    sums: dict[tuple[str, str], list[int]] = {}
    for one in spent:
        numbers = (one.calls, one.unmetered, one.tokens_in, one.tokens_out)
        before = sums.get((one.role, one.model), [0] * len(numbers))
        sums[one.role, one.model] = [old + new for old, new in zip(before, numbers, strict=True)]
    return tuple(
        Spent(role=role, model=model, calls=calls, unmetered=unmetered, tokens_in=tokens_in, tokens_out=tokens_out)
        for (role, model), (calls, unmetered, tokens_in, tokens_out) in sorted(sums.items())
    )


def checked(funnel: Funnel) -> Funnel:
    """Return the funnel; RunError where a record is lost or counted twice."""
    expected = funnel.records
    for counts in funnel.stages:
        ends = counts.kept + sum(counts.rejected.values()) + counts.waiting
        if not (counts.came_in == expected == ends and counts.waiting >= 0):
            raise RunError(
                f"stage {counts.stage!r}: {expected:,} records came in, and {counts.kept:,} kept, "
                f"{sum(counts.rejected.values()):,} rejected and {counts.waiting:,} waiting are {ends:,}. A file of "
                "the build was changed from outside; build in another folder"
            )
        expected = counts.kept
    return funnel


COLUMNS = ("stage", "came in", "kept", "rejected", "waiting", "attempts", "calls", "tokens", "cost")


def funnel_rows(funnel: Funnel, prices: Mapping[str, Price] | None = None) -> list[tuple[str, ...]]:
    """Return the funnel as rows of COLUMNS."""
    rows = []
    for counts in funnel.stages:
        tokens = [sum(one.tokens_in for one in counts.spent), sum(one.tokens_out for one in counts.spent)]
        cost = counts.cost(prices) if prices else None
        numbers = (counts.came_in, counts.kept, sum(counts.rejected.values()), counts.waiting, counts.attempts)
        told = [f"{number:,}" for number in (*numbers, counts.calls)]
        asked = f"{tokens[0]:,} + {tokens[1]:,}" if counts.spent else "–"
        rows.append((counts.stage, *told, asked, "–" if cost is None or not counts.spent else f"{cost:.4g}"))
    return rows
