"""Other people's graders: `python:package.module:make,key=value`, an object with `grade(answers)`.

`model`, `tally`, `unsupported` and `prompts` may be left out: then the spec is the grader's name, and no call is made.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from pluralrm.core import Failure, Item
from pluralrm.errors import PoolError
from pluralrm.grading.grader import Graded, Grader
from pluralrm.http import Metered, Tally
from pluralrm.plugin import Maker, Wanted, find
from pluralrm.specs import Spec

SUMMARY = "python:package.module:make, your own: an object with grade(answers), which yields a Graded for each"

_WANTED = Wanted("grader", "package.module:make", PoolError, "'pluralrm list graders'")


@dataclass(frozen=True)
class PluginGrader:
    """Somebody's grader under the spec that named it; what it yields is checked before it is kept."""

    spec: str
    model: str
    identity: Mapping[str, str]
    grader: Grader
    maker: Maker = field(compare=False, repr=False)

    @property
    def tally(self) -> Tally:
        """What was asked of a server, where the grader keeps account of it."""
        grader: object = self.grader
        return grader.tally if isinstance(grader, Metered) else Tally()

    def unsupported(self, items: Sequence[Item]) -> str | None:
        """Return why answers to these items cannot be graded; None where the grader says nothing of that."""
        why_not: Callable[[Sequence[Item]], str | None] | None = getattr(self.grader, "unsupported", None)
        return None if why_not is None else self.maker.ask(lambda: why_not(items), "cannot say what it grades")

    def prompts(self, item: Item, text: str) -> list[str]:
        """Return what is asked about one answer; nothing where the grader says nothing of that."""
        asks: Callable[[Item, str], list[str]] | None = getattr(self.grader, "prompts", None)
        return [] if asks is None else self.maker.ask(lambda: list(asks(item, text)), "cannot say what it asks")

    def grade(self, answers: Iterable[tuple[Item, str]]) -> Iterator[Graded]:
        """Yield one Graded per answer, in order; anything else is a PoolError that says what was wanted."""
        given = list(answers)
        stream = self.maker.ask(lambda: iter(self.grader.grade(given)), "raised")
        for item, text in given:
            graded = self.maker.ask(lambda: next(stream, None), "raised")
            self._check(graded, item, text)
            yield cast("Graded", graded)

    def _check(self, graded: object, item: Item, text: str) -> None:
        wanted = "wanted one pluralrm.grading.Graded(item, text, grade) per answer, in order"
        if not isinstance(graded, Graded):
            raise PoolError(f"{self.spec} yielded {graded!r:.200} for an answer to {item.id!r}; {wanted}")
        if (graded.item, graded.text) != (item.id, text):
            raise PoolError(f"{self.spec} graded another answer than the next one, to {item.id!r}; {wanted}")
        if not _is_grade(graded.grade):
            raise PoolError(
                f"{self.spec} graded an answer to {item.id!r} with {graded.grade!r}; wanted a number from 0 to 1, "
                "or a Failure"
            )


def _is_grade(grade: object) -> bool:
    if isinstance(grade, Failure):
        return True
    if isinstance(grade, bool) or not isinstance(grade, int | float):
        return False
    return math.isfinite(grade) and 0 <= grade <= 1


def load(spec: Spec) -> PluginGrader:
    """Return the grader that `python:module:make` names, made with the spec's keys."""
    maker = find(spec, _WANTED)
    made = maker.make()
    maker.require(made, {"grade": "grade(answers)"})
    name = getattr(made, "model", spec.target)
    if not isinstance(name, str) or not name:
        raise PoolError(f"{spec.target!r}: model is {name!r}; wanted the name of what grades, as a text")
    return PluginGrader(str(spec), name, {"spec": str(spec), **maker.identity(made)}, cast("Grader", made), maker)
