"""Long jobs at the terminal: progress on stderr (done of total, rate, ETA, failures, cost), Ctrl-C, how to resume."""

import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

import typer

from pluralrm.cli.terminal import line, note, shortened

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from pluralrm.http import Tally
    from pluralrm.runs import Progress

INCOMPLETE = 3
"""Exit code of a job that an outage left open."""
_EVERY = 0.1
"""Seconds between two redraws."""
_QUIET = 15.0
"""Seconds between two lines where stderr is a file or a pipe."""
_BAR = 12


def command(*, fresh_has_value: bool = False) -> str:
    """Return the command line that is running, to be typed again: without --fresh, which would start over."""
    words, kept = iter(sys.argv[1:]), ["pluralrm"]
    for word in words:
        if word == "--fresh":
            if fresh_has_value:
                next(words, None)
        elif not word.startswith("--fresh="):
            kept.append(word)
    return shlex.join(kept)


@contextmanager
def interruptible(
    kept: str, where: str = "", *, again: str = "resumes", fresh_has_value: bool = False
) -> Iterator[None]:
    """End the program with 130 on Ctrl-C, after saying what is kept and what to type."""
    try:
        yield
    except KeyboardInterrupt:
        stopped = f"stopped in {where}" if where else "stopped"
        note(f"{stopped}; {kept}. The same command {again}:\n  {command(fresh_has_value=fresh_has_value)}")
        raise typer.Exit(130) from None


class ProgressDisplay:
    """Shows how far one job is: a bar on a terminal, now and then a line in a file; quiet for jobs that end at once."""

    def __init__(self, title: str, unit: str = "") -> None:
        self.asked: Tally | None = None
        self._title, self._unit = line(title), unit
        self._began = self._shown = time.monotonic()
        self._from: int | None = None
        self._live = sys.stderr.isatty()
        self._bar: Bar | None = None
        self._warned: set[str] = set()

    @property
    def idle(self) -> bool:
        """Whether there was nothing to do."""
        return self._from is None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, progress: "Progress") -> None:
        """Show how far a run, a pool or a build is."""
        self.show(progress.done + progress.open, progress.total, self._trouble(progress), done=progress.done)

    def _trouble(self, progress: "Progress") -> str:
        """Return what failed, is open, and was spent; sound the alarm that comes with it."""
        self.asked = progress.asked
        if progress.warning:
            self.alarm(progress.warning)
        trouble = [f"{count} {name}" for name in ("failed", "open") if (count := getattr(progress, name))]
        if progress.asked is not None and progress.asked.cost is not None:
            trouble.append(f"cost {progress.asked.cost:.3g}")
        return ", ".join(trouble)

    def show(self, settled: int, total: int | None, detail: str = "", *, done: int | None = None) -> None:
        """Redraw, at most ten times a second; `total` is None where the end is not known beforehand."""
        now, first = time.monotonic(), self._from is None
        if self._from is None:
            self._from = settled  # what an earlier process did says nothing about speed
        if now - self._shown < (_EVERY if self._live else _QUIET) and not (first and self._live):
            return
        self._shown = now
        rate = (settled - self._from) / max(now - self._began, 1e-9)
        count = f"{settled if done is None else done}{'' if total is None else f'/{total}'}"
        counts = [f"{count} {self._unit}".strip(), f"{rate:.1f}/s" if rate >= 0.1 else f"{rate:.2g}/s"]
        if total is not None:
            counts.append(f"{_clock((total - settled) / rate) if rate > 0 else '?'} left")
        text = ", ".join([*counts, *[detail] * bool(detail)])
        if self._live:
            self._draw(settled, total, text)
        else:
            note(f"{self._title}: {text}")

    def alarm(self, text: str) -> None:
        """Say what is wrong on a line of its own: once, at once."""
        if text not in self._warned:
            self._warned.add(text)
            note(f"ALARM in {self._title}: {text}")

    def waits(self, title: str = "") -> None:
        """Show a terminal what is being done, before the first of it is done."""
        self._title = line(title) or self._title
        if self._live:
            self._draw(0, None, "")

    def _draw(self, settled: int, total: int | None, text: str) -> None:
        if self._bar is None:
            self._bar = _bar()
            self._bar.add_task("", total=total, numbers="")
            self._bar.start()
        title = shortened(self._title, max(self._bar.console.width - _BAR - len(text) - 3, 10))
        self._bar.update(self._bar.task_ids[0], description=title, completed=settled, total=total, numbers=text)
        self._bar.refresh()


class GridDisplay(ProgressDisplay):
    """Shows how far all runs of a grid are together, from the first second: `run 4/9, 2:10 left`."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__("")
        self._sizes, self._place = tuple(sizes), -1
        self._worked = self._last = 0

    def begin(self, title: str) -> None:
        """Go on to the next run; what the one before asked is forgotten."""
        self._title, self._place = line(title), self._place + 1
        self.asked = self._from = None
        self._redraw(0, "")

    def update(self, progress: "Progress") -> None:
        """Show how far this run is, and when all are likely to be done."""
        settled, trouble = progress.done + progress.open, self._trouble(progress)
        if self._from is None:
            self._from = self._last = settled  # what an earlier process did says nothing about speed
        self._worked, self._last = self._worked + settled - self._last, settled
        self._redraw(settled, ", ".join([f"{progress.done}/{progress.total}", *[trouble] * bool(trouble)]))

    def _redraw(self, settled: int, detail: str) -> None:
        now = time.monotonic()
        if now - self._shown < (_EVERY if self._live else _QUIET) and not (self._live and self._bar is None):
            return
        self._shown = now
        reached = sum(self._sizes[: self._place]) + settled
        rate = self._worked / max(now - self._began, 1e-9)
        left = [f"{_clock((sum(self._sizes) - reached) / rate)} left"] if rate > 0 else []
        text = ", ".join([f"run {self._place + 1}/{len(self._sizes)}", *left, *[detail] * bool(detail)])
        if self._live:
            self._draw(reached, sum(self._sizes), text)
        else:
            note(f"{self._title}: {text}")


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


def asked_line(tallies: "Iterable[Tally | None]") -> str:
    """Return in one line what servers were asked; nothing where none was."""
    from pluralrm.runs import total

    asked = total(tallies)
    if asked is None or not (asked.answered or asked.attempts):
        return ""
    tokens = f"{asked.prompt_tokens:,} + {asked.completion_tokens:,} tokens"
    uncounted = f" ({asked.unmetered:,} not counted)" if asked.unmetered else ""
    cost = "" if asked.cost is None else f", cost {asked.cost:.4g}"
    kept = f"{asked.answered:,} replies, {asked.kept:,} kept from before"
    return f"asked: {kept}; {asked.attempts:,} sent, {tokens}{uncounted}{cost}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
