"""Long jobs at the terminal: progress on stderr (done of total, rate, ETA, failures, cost), Ctrl-C, how to resume."""

import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

import typer

from pluralrm.cli.terminal import line, note, shortened
from pluralrm.progress import JobStep, StepClock, clock

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from pluralrm.http import Tally
    from pluralrm.runs import Progress

INCOMPLETE = 3
"""Exit code of a job that an outage left open."""
_EVERY = 0.1
"""Seconds between two redraws."""
_BAR = 12


def command(*, fresh_has_value: bool = False) -> str:
    """Return the command line that is running, to be typed again: without --fresh, which would start over."""
    words, parts = iter(sys.argv[1:]), ["pluralrm"]
    for word in words:
        if word == "--fresh":
            if fresh_has_value:
                next(words, None)
        elif not word.startswith("--fresh="):
            parts.append(word)
    return shlex.join(parts)


@contextmanager
def interruptible(
    promise: str, where: str = "", *, again: str = "resumes", fresh_has_value: bool = False
) -> Iterator[None]:
    """End the program with 130 on Ctrl-C, after saying what is kept and what to type."""
    try:
        yield
    except KeyboardInterrupt:
        stopped = f"stopped in {where}" if where else "stopped"
        note(f"{stopped}; {promise}. The same command {again}:\n  {command(fresh_has_value=fresh_has_value)}")
        raise typer.Exit(130) from None


class ProgressDisplay:
    """Shows how far one job is: a bar on a terminal, from the first second; in a file or a pipe alarms alone."""

    def __init__(self, title: str, unit: str = "") -> None:
        self.asked: Tally | None = None
        self._title, self._unit = line(title), unit
        self._began = self._shown = time.monotonic()
        self._from: int | None = None
        self._live = sys.stderr.isatty()
        self._bar: Bar | None = None
        self._warned: set[str] = set()
        self.workers: Callable[[], str] = str
        """Says who computes, where that is a cluster."""

    @property
    def idle(self) -> bool:
        """Whether there was nothing to do."""
        return self._from is None

    def __enter__(self) -> Self:
        self.waits()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, progress: "Progress") -> None:
        """Show how far a run, a pool or a build is."""
        self.show(progress.done + progress.open, progress.total, self._trouble(progress), done=progress.done)

    def _trouble(self, progress: "Progress") -> str:
        """Return what failed, is open, and was spent, and who computes; sound the alarm that comes with it."""
        self.asked = progress.asked
        if progress.warning:
            self.alarm(progress.warning)
        trouble = [f"{count} {name}" for name in ("failed", "open") if (count := getattr(progress, name))]
        if progress.asked is not None and progress.asked.cost is not None:
            trouble.append(f"cost {progress.asked.cost:.3g}")
        return ", ".join(filter(None, [*trouble, self.workers()]))

    def show(self, settled: int, total: int | None, detail: str = "", *, done: int | None = None) -> None:
        """Redraw, at most ten times a second; `total` is None where the end is not known beforehand."""
        now, first = time.monotonic(), self._from is None
        if self._from is None:
            self._from = settled  # what an earlier process did says nothing about speed
        if not self._live or (now - self._shown < _EVERY and not first):
            return
        self._shown = now
        rate = (settled - self._from) / max(now - self._began, 1e-9)
        count = f"{settled if done is None else done}{'' if total is None else f'/{total}'}"
        counts = [f"{count} {self._unit}".strip(), f"{rate:.1f}/s" if rate >= 0.1 else f"{rate:.2g}/s"]
        if total is not None:
            counts.append(f"{clock((total - settled) / rate) if rate > 0 else '?'} left")
        self._draw(settled, total, ", ".join([*counts, *[detail] * bool(detail)]))

    def alarm(self, text: str) -> None:
        """Say what is wrong on a line of its own: once, at once."""
        if text not in self._warned:
            self._warned.add(text)
            note(f"ALARM in {self._title}: {text}")

    def waits(self, title: str = "") -> None:
        """Show a terminal what is being done, before the first of it is done."""
        self._title = line(title) or self._title
        if self._live and self._title:
            self._draw(0, None, "")

    def _draw(self, settled: float, total: int | None, text: str) -> None:
        if self._bar is None:
            self._bar = _bar()
            self._bar.add_task("", total=total, numbers="")
            self._bar.start()
        title = shortened(self._title, max(self._bar.console.width - _BAR - len(text) - 3, 10))
        self._bar.update(self._bar.task_ids[0], description=title, completed=settled, total=total, numbers=text)
        self._bar.refresh()


class GridDisplay(ProgressDisplay):
    """Shows how far all steps of a job are together, from the first second: `run 4/9, 2:10 left`."""

    def __init__(self, steps: Iterable[JobStep] = (), noun: str = "run") -> None:
        super().__init__("", noun)
        self._asked: dict[tuple[int, str], Tally | None] = {}
        self._begun = 0
        self.expect(tuple(steps))

    def expect(self, steps: Sequence[JobStep]) -> None:
        """Hear which steps there are."""
        self._clock = StepClock(steps, self._unit)

    def begin(self, title: str) -> None:
        """Go on to the next step of this title; what the one before asked is forgotten."""
        self._clock.begin(title)
        self._title, self._begun, self._shown = line(title), self._begun + 1, 0.0
        self.asked = self._from = None
        self._redraw("")

    def update(self, progress: "Progress", part: str = "") -> None:
        """Show how far this step is, and when all are likely to be done."""
        settled, trouble = progress.done + progress.open, self._trouble(progress)
        self._asked[self._begun, part] = progress.asked
        if not part:
            self._from = settled if self._from is None else self._from
            self._clock.settle(settled, progress.total)
        self._redraw(", ".join(filter(None, [part, f"{progress.done}/{progress.total}", trouble])))

    @property
    def tallies(self) -> "list[Tally | None]":
        """What servers were asked, step by step."""
        return list(self._asked.values())

    def _redraw(self, detail: str) -> None:
        now = time.monotonic()
        if self._live and (now - self._shown >= _EVERY or self._bar is None):
            self._shown = now
            text = ", ".join(filter(None, [str(self._clock), detail]))
            self._draw(self._clock.reached, self._clock.total, text)


def _bar() -> "Bar":
    """Return a bar that only `refresh` draws: no thread, and the line is gone at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    names = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    return Progress(
        TextColumn("{task.description}", markup=False, table_column=names),
        BarColumn(_BAR),
        TextColumn("{task.fields[numbers]}", markup=False, table_column=Column(no_wrap=True)),
        console=Console(file=sys.stderr, markup=False, emoji=False, highlight=False),
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        expand=True,
    )


def note_asked(tallies: "Iterable[Tally | None]") -> None:
    """Say in one line what servers were asked; nothing where none was."""
    from pluralrm.runs import total

    tally = total(tallies)
    if tally is None or not (tally.answered or tally.attempts):
        return
    tokens = f"{tally.prompt_tokens:,} + {tally.completion_tokens:,} tokens"
    uncounted = f" ({tally.unmetered:,} not counted)" if tally.unmetered else ""
    cost = "" if tally.cost is None else f", cost {tally.cost:.4g}"
    replies = f"{tally.answered:,} replies, {tally.kept:,} kept from before"
    note(f"asked: {replies}; {tally.attempts:,} sent, {tokens}{uncounted}{cost}")
