"""The grader: answers in, one Graded each, in order; what cannot be read is asked once more and is then a Failure."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pluralrm.chat import ChatModel, ChatRequest, Sampling
from pluralrm.chat.reading import Markers
from pluralrm.chat.twice import Errand, settled
from pluralrm.core import OPEN_KINDS, Failure, Identified, Item
from pluralrm.grading.reading import MOST, Points
from pluralrm.grading.ways import Question, Way
from pluralrm.http import Metered, Tally
from pluralrm.models.judge.fences import fenced, mark_of
from pluralrm.templates import Template

Grade = float | Failure
"""In [0, 1], or why there is none; a failure is never a 0."""

NO_RUBRIC = Failure("unsupported", "the item has no rubric to grade by")


@dataclass(frozen=True, slots=True)
class Graded:
    """One answer to one item, its grade, what each aspect got (nothing where one failed), and all that was said."""

    item: str
    text: str
    grade: Grade
    points: Points = ()
    said: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        """Whether an outage kept the grade from being had, so that it can be asked for again."""
        return isinstance(self.grade, Failure) and self.grade.kind in OPEN_KINDS


@dataclass(slots=True)
class _Asked:
    """An answer on its way, and the calls about it that are settled."""

    item: Item
    text: str
    calls: int
    settled: list[Errand[Points]] = field(default_factory=list)


@dataclass(frozen=True)
class Grader:
    """A chat model that grades answers in one of the ways."""

    spec: str
    way: Way
    template: Template
    sampling: Sampling
    seed: int
    reasoning: Markers | None
    chat: ChatModel = field(compare=False)

    @property
    def model(self) -> str:
        """The name that the server knows the model by."""
        return self.chat.name

    @property
    def identity(self) -> Mapping[str, str]:
        """What must not change among the grades of one grader: the model and its server, the template, the settings."""
        served = self.chat.identity if isinstance(self.chat, Identified) else {"model": self.chat.name}
        asked = {"sampling": repr(self.sampling), "reasoning": repr(self.reasoning), "seed": str(self.seed)}
        return {**served, "template": self.template.hash, **asked}

    @property
    def tally(self) -> Tally:
        """What was asked so far; nothing where the chat model keeps no account, as a script does."""
        return self.chat.tally if isinstance(self.chat, Metered) else Tally()

    def calls(self, item: Item) -> int:
        """Return how many calls one answer to this item takes, where nothing has to be asked twice."""
        return len(self.way.questions(item))

    def prompts(self, item: Item, text: str) -> list[str]:
        """Return what is asked about one answer, call by call."""
        return [self._prompt(item, text, question) for question in self.way.questions(item)]

    def grade(self, answers: Iterable[tuple[Item, str]]) -> Iterator[Graded]:
        """Yield one Graded per answer, in order; calls for later ones are on their way meanwhile."""
        line: deque[_Asked] = deque()
        for errand in settled(self.chat, self._errands(answers, line), self.reasoning):
            yield from _without_calls(line)
            line[0].settled.append(errand)
            if len(line[0].settled) == line[0].calls:
                yield _graded(line.popleft())
        yield from _without_calls(line)

    def _errands(self, answers: Iterable[tuple[Item, str]], line: deque[_Asked]) -> Iterator[Errand[Points]]:
        for item, text in answers:
            questions = self.way.questions(item)
            line.append(_Asked(item, text, len(questions)))
            for question in questions:
                request = ChatRequest(
                    (("user", self._prompt(item, text, question)),), self.sampling, template=self.template.hash
                )
                yield Errand(request, question.read, question.again)

    def _prompt(self, item: Item, text: str, question: Question) -> str:
        mark = mark_of([text], f"{item.id}\n{item.prompt}", seed=self.seed)
        return self.template.fill(**question.slots, answer=fenced("answer", text, mark))


def _without_calls(line: deque[_Asked]) -> Iterator[Graded]:
    """Take those from the head of the line about which nothing can be asked."""
    while line and not line[0].calls:
        asked = line.popleft()
        yield Graded(asked.item.id, asked.text, NO_RUBRIC)


def _graded(asked: _Asked) -> Graded:
    outcomes = [errand.outcome for errand in asked.settled]
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    got: list[Points] = [outcome for outcome in outcomes if not (outcome is None or isinstance(outcome, Failure))]
    points = [point for several in got for point in several]
    # One that may yet be mended goes first: the answer stays open, and an outage becomes no grade.
    grade: Grade = min(failures, key=lambda one: one.kind not in OPEN_KINDS, default=_share(points))
    said = tuple(text for errand in asked.settled for text in errand.said)
    return Graded(asked.item.id, asked.text, grade, () if failures else tuple(points), said)


def _share(points: list[int]) -> float:
    """Return the sum of the points over the most that there could be."""
    return sum(points) / (MOST * len(points)) if points else 0.0  # no point: then there is a failure
