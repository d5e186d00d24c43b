"""`truth`: on `simulated`, how much of what a user wants an answer gives, computed from the rubric and the answer.

>>> from pluralrm.benchmarks import load_benchmark
>>> item = load_benchmark("simulated:users=1,items=1").items[0]
>>> [graded.points for graded in Truth().grade((item, text) for text in item.candidates)]
[(0, 0, 1), (0, 1, 0)]

Nobody is asked. Rubrics and answers of `simulated` are made of written sentences, so reading them back is exact.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pluralrm.benchmarks.simulated.population import WEIGHS
from pluralrm.benchmarks.simulated.tastes import Taste, Want
from pluralrm.benchmarks.simulated.texts import Signal, attributes, read_answer_to, texts_hash
from pluralrm.core import Failure, Item
from pluralrm.grading.grade import Graded
from pluralrm.grading.grader import aspects_of
from pluralrm.http import Tally

TRUTH = "truth"
SUMMARY = "truth, on simulated alone: the share of a user's wants that an answer meets, by weight; nobody is asked"


@dataclass(frozen=True, slots=True)
class Truth:
    """The grader that reads what a simulated user wants from the item's rubric."""

    spec: str = TRUTH
    model: str = "simulated"

    @property
    def identity(self) -> Mapping[str, str]:
        """The sentences that it reads."""
        return {"texts": texts_hash()}

    @property
    def tally(self) -> Tally:
        """Nothing is asked."""
        return Tally()

    def unsupported(self, items: Sequence[Item]) -> str | None:
        """Return why not, where an item is not one of simulated users."""
        if all(taste_of(item) for item in items):
            return None
        return (
            "is not simulated: what its users want is not known. A chat model grades by the rubric: "
            "per-aspect:MODEL,url=URL or joint:MODEL,url=URL"
        )

    def prompts(self, item: Item, text: str) -> list[str]:  # noqa: ARG002 - as every grader takes them
        """Return nothing: no call is made."""
        return []

    def grade(self, answers: Iterable[tuple[Item, str]]) -> Iterator[Graded]:
        """Yield one Graded per answer, in order; `points` are the weights of the wants, 0 where one is not met."""
        for item, text in answers:
            taste = taste_of(item)
            points = _points(item, taste, text)
            if isinstance(points, Failure):
                yield Graded(item.id, text, points)
            else:
                yield Graded(item.id, text, sum(points) / sum(want.weight for want in taste), points)


def taste_of(item: Item) -> Taste:
    """Return what a simulated user wants, read from the item's rubric; nothing where it is not of that benchmark."""
    wanted, weighed = _words(), {words: weight for weight, words in WEIGHS.items()}
    aspects = aspects_of(item)
    if not all(one.aspect in wanted and one.reason in weighed for one in aspects):
        return ()
    return tuple(Want(*wanted[one.aspect], weighed[one.reason]) for one in aspects)


@lru_cache(maxsize=1)
def _words() -> Mapping[str, Signal]:
    """Return the level that each sentence of a rubric is about."""
    return {level.wants: Signal(each.name, name) for each in attributes() for name, level in each.levels.items()}


def _points(item: Item, taste: Taste, text: str) -> tuple[int, ...] | Failure:
    levels = read_answer_to(item.prompt, text)
    if levels is None or not taste:
        return Failure("unsupported", "not an answer of the simulated benchmark to a question of one of its users")
    return tuple(want.weight if levels[want.attribute] == want.level else 0 for want in taste)
