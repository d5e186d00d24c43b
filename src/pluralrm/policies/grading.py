"""Grading a pool: what is wanted and has no grade yet is asked for, once, and what it will take is told before."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from pluralrm.core import Benchmark, Failure, Item
from pluralrm.errors import BenchmarkError
from pluralrm.grading import Grade, Grader
from pluralrm.grading.grader import ChatGrader
from pluralrm.http import DryRun, Requests
from pluralrm.http.counting import LETTERS_PER_TOKEN
from pluralrm.policies.answers import answers, items_of
from pluralrm.policies.grades import GradeFolder, Key, grade_folder, key, read_grades, ungraded_told
from pluralrm.policies.pool import Pool
from pluralrm.runs import Progress

Answer = tuple[Item, str]

WINDOW = 20
"""Grades after which it is said that most of them fail."""


class Bill(NamedTuple):
    """What grading takes: different answers without a grade, calls for them, tokens of their prompts (roughly)."""

    answers: int
    calls: int
    prompt_tokens: int
    reply_tokens: int = 0
    """At most; 0 where replies have no limit of their own."""

    def cost(self, price: float | None) -> float | None:
        """Return what the prompts cost, given the price of a million tokens, if it is known; replies are short."""
        if not self.calls:
            return 0.0
        return None if price is None else self.prompt_tokens * price / 1e6


def bill(pool: Pool, benchmark: Benchmark, grader: Grader, wanted: Iterable[tuple[str, str]] | None = None) -> Bill:
    """Return what it takes to grade the wanted (item, answer) pairs, or all, without those that have their grade."""
    known = read_grades(grade_folder(pool, grader))
    todo = [(item, text) for item, text in _wanted(pool, benchmark, wanted) if key(item.id, text) not in known]
    asked = dry_grade(grader, todo)
    return Bill(len(todo), asked.calls, (asked.letters or 0) // LETTERS_PER_TOKEN, asked.reply_tokens)


def dry_grade(grader: Grader, answers: Sequence[Answer]) -> Requests:
    """Return what grading these answers would send: a chat grader grades them on a counting transport.

    Any other grader asks no server of ours; one that has `prompts` says itself what it would ask.
    """
    if isinstance(grader, ChatGrader):
        dry = DryRun()
        deque(replace(grader, role=grader.role.dry(dry)).grade(answers), maxlen=0)
        return dry.requests.get(grader.model, Requests())
    prompts = [prompt for item, text in answers for prompt in grader.prompts(item, text)]
    return Requests(len(prompts), sum(map(len, prompts)))


def grade_pool(
    pool: Pool,
    benchmark: Benchmark,
    grader: Grader,
    *,
    wanted: Iterable[tuple[str, str]] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Progress:
    """Grade the wanted (item, answer) pairs, or all, but for those that have their grade; return how far that went.

    What met an outage stays open, and the same call tries it again.
    """
    check_grader(pool, benchmark, grader)
    with GradeFolder(pool, grader) as folder:
        pairs = list(_wanted(pool, benchmark, wanted))
        todo = [(item, text) for item, text in pairs if key(item.id, text) not in folder.grades]
        told = _Told(folder, grader, [key(item.id, text) for item, text in pairs])
        (progress or _quiet)(told.progress())
        for graded in grader.grade(todo):
            if graded.open:
                told.open += 1
            else:
                folder.add(graded)
                told.add(graded.grade)
            (progress or _quiet)(told.progress())
        return told.progress()


def _wanted(pool: Pool, benchmark: Benchmark, wanted: Iterable[tuple[str, str]] | None) -> Iterator[Answer]:
    """Yield each wanted answer once, in the order of the pool: the same calls whatever the order of what was wanted."""
    chosen = None if wanted is None else frozenset(wanted)
    return ((item, text) for item, text in answers(pool, benchmark) if chosen is None or (item.id, text) in chosen)


def check_grader(pool: Pool, benchmark: Benchmark, grader: Grader) -> None:
    """Raise where this grader cannot grade the pool's items."""
    if (reason := grader.unsupported(items_of(pool, benchmark))) is not None:
        raise BenchmarkError(f"{benchmark.card.name} {reason}")


def _quiet(progress: Progress) -> None:
    """Show no progress."""


class _Told:
    """How far grading is; grades that an earlier process wrote count."""

    def __init__(self, folder: GradeFolder, grader: Grader, wanted: list[Key]) -> None:
        self._total, self._grader = len(wanted), grader
        self._failures = Counter[str]()
        self.done, self.open = 0, 0
        for one in wanted:
            if one in folder.grades:
                self.add(folder.grades[one])

    def add(self, grade: Grade) -> None:
        """Count a grade."""
        self.done += 1
        if isinstance(grade, Failure):
            self._failures[grade.kind] += 1

    def progress(self) -> Progress:
        """Return how far it is; the first window of grades, or all where there are fewer, says what mostly fails."""
        enough = self.done >= min(WINDOW, self._total - self.open)
        warning = ungraded_told(self._failures, self.done, "answers") if enough else ""
        failed = sum(self._failures.values())
        return Progress(self.done, self._total, failed, self.open, self._grader.tally, warning)
