"""The condition that shows what only graders may read. It is a ceiling to compare with, never a result."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pluralrm.conditions import allowed
from pluralrm.core import Aspect, Benchmark, Item, Oracle, Query, Reveals


@dataclass(frozen=True, slots=True)
class Rubric:
    """Narrative and rubric aspects as notes, and nothing else of the user: no posts, no id.

    Alone, so that (oracle - own posts) compares the posts with the truth that they stand for.
    """

    spec: str = "oracle"
    reveals: frozenset[Reveals] = frozenset({"oracle"})

    def unsupported(self, benchmark: Benchmark) -> str | None:
        """Return why not, where no item has a rubric."""
        if any(item.oracle is not None and _notes(item.oracle) for item in benchmark.items):
            return None
        return f"{benchmark.card.name} has no rubric to show"

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:  # noqa: ARG002
        """Yield one Query per item with its rubric in the notes; every one says that it reveals the oracle."""
        for item in items:
            notes = () if item.oracle is None else _notes(item.oracle)
            yield replace(allowed.shown(item), notes=notes, reveals_oracle=True)


def _notes(oracle: Oracle) -> tuple[str, ...]:
    narrative = (oracle.narrative,) if oracle.narrative else ()
    return (*narrative, *map(_note, oracle.aspects))


def _note(aspect: Aspect) -> str:
    """Return one aspect as a line: `Wants from the answer: no backstory (reason: ...) (evidence: ...)`."""
    grounds = {"reason": aspect.reason, "evidence": aspect.evidence}
    stated = [f"({name}: {text})" for name, text in grounds.items() if text]
    return " ".join([f"Wants from the answer: {aspect.aspect}", *stated])
