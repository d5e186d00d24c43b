"""A step of the plan: how much of it is on disk, what is missing, calls and cost."""

from dataclasses import dataclass
from typing import Literal

from pluralrm.http import Cost

Verb = Literal["score", "sample", "score answers", "grade", "make", "train"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step; None is what cannot be known yet, and `notes` say why."""

    verb: Verb
    on: str
    """The benchmark, or the pool's."""
    who: str
    """The model, the policy or the grader."""
    condition: str
    done: int | None = None
    wanted: int | None = None
    calls: int | None = None
    cost: Cost | None = None
    notes: tuple[str, ...] = ()

    @property
    def missing(self) -> int | None:
        """What is not on disk yet."""
        return None if self.done is None or self.wanted is None else self.wanted - self.done

    def to_json(self) -> dict[str, object]:
        """Return everything under its name."""
        return {
            "step": self.verb,
            "on": self.on,
            "who": self.who,
            "condition": self.condition,
            "done": self.done,
            "wanted": self.wanted,
            "missing": self.missing,
            "calls": self.calls,
            "cost": self.cost and self.cost._asdict(),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """All steps, in order."""

    steps: tuple[Step, ...]

    @property
    def calls(self) -> int | None:
        """All calls; None where those of a step cannot be known yet."""
        found = [step.calls for step in self.steps if step.calls is not None]
        return sum(found) if len(found) == len(self.steps) else None

    @property
    def cost(self) -> Cost | None:
        """What all of it costs; None where a step's cost cannot be known yet."""
        found = [step.cost for step in self.steps if step.cost is not None]
        if len(found) < len(self.steps):
            return None
        return Cost(sum(one.least for one in found), sum(one.most for one in found))

    def to_json(self) -> dict[str, object]:
        """Return the steps, and what all of them take."""
        steps = [step.to_json() for step in self.steps]
        return {"steps": steps, "calls": self.calls, "cost": self.cost and self.cost._asdict()}
