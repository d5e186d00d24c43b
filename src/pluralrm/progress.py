"""How far a job is: its steps on one clock; for callers from Python one line in a notebook or on a terminal."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, cast

from pluralrm.errors import PluralrmError, check_type

if TYPE_CHECKING:
    from pluralrm.core import Benchmark
    from pluralrm.runs import Progress

Shown: TypeAlias = "Callable[[Progress], None] | bool | None"
"""What shows the progress of a job: a function, nothing (False), or by default a line where somebody looks on."""

_EVERY = 0.2
"""Seconds between two lines."""
_SOON = 1.0
"""Seconds of work before which no speed is known."""


class JobStep(NamedTuple):
    """A step of a job: its title, the model (or policy, or grader) at work, and how many texts it reads or writes."""

    title: str
    who: str
    size: int


def size_of(benchmark: "Benchmark", domains: Sequence[str] = (), limit: int | None = None) -> int:
    """Return how many candidates are to be scored; all where a domain is not there, which is an error in a moment."""
    items: Sequence[Any] = benchmark.items
    with suppress(PluralrmError):
        items = benchmark.select(domains=domains, limit=limit)
    return sum(len(item.candidates) for item in items)


class StepClock:
    """How far the steps of a job are together, and how long the rest is likely to take: `run 4/9, 2:10 left`.

    A model's speed in one step holds for its later ones. One that has not worked yet is taken to be as slow as the
    slowest, and the time is called `over` that.
    """

    def __init__(self, steps: Sequence[JobStep] = (), noun: str = "run") -> None:
        self._steps, self._noun, self._paces = tuple(steps), noun, dict[str, tuple[float, float]]()
        self._place, self._share, self._first = -1, 0.0, -1.0
        self._began = time.monotonic()

    @property
    def total(self) -> int:
        """The size of all steps."""
        return sum(step.size for step in self._steps)

    @property
    def reached(self) -> float:
        """How much of it is done, or was left out."""
        whole = sum(step.size for step in self._steps[: max(self._place, 0)])
        return whole + self._share * (self._steps[self._place].size if 0 <= self._place < len(self._steps) else 0)

    def begin(self, title: str) -> None:
        """Go on to the next step of this title: what lies between was left out."""
        self._paces = self._measured()
        after = range(self._place + 1, len(self._steps))
        self._place = next((index for index in after if self._steps[index].title == title), self._place + 1)
        self._share, self._first, self._began = 0.0, -1.0, time.monotonic()

    def settle(self, done: int, total: int) -> None:
        """Note how far the step is; what an earlier process did says nothing about speed."""
        self._share = done / total if total else 1.0
        self._first = self._share if self._first < 0 else self._first

    def _measured(self) -> dict[str, tuple[float, float]]:
        """Return how much each of those who worked did, and in how many seconds."""
        if not (0 <= self._place < len(self._steps)) or not 0 <= self._first < self._share:
            return self._paces
        step = self._steps[self._place]
        worked, seconds = self._paces.get(step.who, (0.0, 0.0))
        worked += step.size * (self._share - self._first)
        return {**self._paces, step.who: (worked, seconds + time.monotonic() - self._began)}

    def __str__(self) -> str:
        """Return which step it is, of how many, and the time that is left, as far as it is known."""
        parts = [f"{self._noun} {self._place + 1}/{len(self._steps)}"] if len(self._steps) > 1 else []
        paces = {who: pace for who, pace in self._measured().items() if pace[0] > 0}
        rates = {who: worked / max(seconds, 1e-9) for who, (worked, seconds) in paces.items()}
        rest = [(step.who, float(step.size)) for step in self._steps[self._place + 1 :]]
        if 0 <= self._place < len(self._steps):
            step = self._steps[self._place]
            rest.append((step.who, step.size * (1 - self._share)))
        rest = [(who, size) for who, size in rest if size]
        if rest and sum(seconds for _, seconds in paces.values()) >= _SOON:
            over = "over " * any(who not in rates for who, _ in rest)
            seconds = sum(size / rates.get(who, min(rates.values())) for who, size in rest)
            parts.append(f"{over}{clock(seconds)} left")
        return ", ".join(parts)


def clock(seconds: float) -> str:
    """Return a time as 2:10, or 1:02:10."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class JobDisplay(Protocol):
    """What shows how far a job is: one display for all of its steps."""

    def expect(self, steps: Sequence[JobStep]) -> None:
        """Hear which steps there are."""

    def begin(self, title: str) -> None:
        """Go on to the next step of this title."""

    def update(self, progress: "Progress", part: str = "") -> None:
        """Show how far the step is, or a part of it that is counted for itself."""


class NoDisplay:
    """Shows nothing; a function given by the caller hears how far each step is."""

    def __init__(self, listener: "Callable[[Progress], None] | None" = None) -> None:
        self._listener = listener

    def expect(self, steps: Sequence[JobStep]) -> None:
        """Show nothing."""

    def begin(self, title: str) -> None:
        """Show nothing."""

    def update(self, progress: "Progress", part: str = "") -> None:
        """Tell the function of it."""
        del part
        if self._listener is not None:
            self._listener(progress)


def steps_of(
    display: JobDisplay, steps: Sequence[JobStep], *, at_once: bool
) -> "Callable[[str], Callable[[Progress], None]]":
    """Return what begins the step of a title, and returns what shows its progress.

    Steps that are at work `at_once`, on whichever threads, are shown as one.
    """
    turn, parts = threading.Lock(), dict[str, "Progress"]()

    def update(title: str, progress: "Progress") -> None:
        from pluralrm.runs import total

        with turn:
            parts[title] = progress
            reports = list(parts.values())
            sums = {
                name: sum(getattr(report, name) for report in reports) for name in ("done", "total", "failed", "open")
            }
            display.update(replace(progress, **sums, asked=total(report.asked for report in reports)))

    def begin(title: str) -> "Callable[[Progress], None]":
        if at_once:
            return partial(update, title)
        display.begin(title)
        return display.update

    whole = f"{len(steps)} runs side by side"
    display.expect([JobStep(whole, "", sum(step.size for step in steps))] if at_once else steps)
    if at_once:
        display.begin(whole)
    return begin


def _notebook() -> Callable[..., Any] | None:
    """Return the function that shows something in the notebook that runs this; None elsewhere."""
    shell = sys.modules.get("IPython")
    if shell is None or not hasattr(shell.get_ipython(), "kernel"):
        return None
    return cast("Callable[..., Any]", sys.modules["IPython"].display.display)


class ProgressLine:
    """One line about one job: in a notebook below the cell, on a terminal in place; elsewhere nothing."""

    def __init__(self, noun: str = "run") -> None:
        self._noun, self._title, self._clock, self._shown = noun, "", StepClock(), 0.0
        self._display = _notebook()
        self._handle: Any = None
        self._terminal = self._display is None and sys.stderr.isatty()

    def expect(self, steps: Sequence[JobStep]) -> None:
        """Hear which steps there are."""
        self._clock = StepClock(steps, self._noun)

    def begin(self, title: str) -> None:
        """Go on to the next step, and show it before its first item: its model may load for minutes."""
        self._clock.begin(title)
        self._title = title
        self._show(": ".join(filter(None, [title, str(self._clock)])))

    def update(self, progress: "Progress", part: str = "") -> None:
        """Show it, at most five times a second."""
        now, settled = time.monotonic(), progress.done + progress.open
        if not part:
            self._clock.settle(settled, progress.total)
        if now - self._shown < _EVERY and settled < progress.total:
            return
        self._shown = now
        failed = [f"{progress.failed} failed"] * bool(progress.failed) + [f"{progress.open} open"] * bool(progress.open)
        counts = [str(self._clock), *[part] * bool(part), f"{settled:,}/{progress.total:,}", *failed]
        self._show(f"{self._title}: {', '.join(filter(None, counts))}")

    def _show(self, text: str) -> None:
        if self._terminal:
            sys.stderr.write(f"\r\x1b[2K{text if text.isprintable() else ascii(text)}")
            sys.stderr.flush()
        elif self._display is not None and self._handle is None:
            self._handle = self._display({"text/plain": text}, raw=True, display_id=True)
        elif self._handle is not None:
            self._handle.update({"text/plain": text}, raw=True)

    def end(self) -> None:
        """Leave a terminal's line as it was."""
        if self._terminal:
            sys.stderr.write("\r\x1b[2K")


@contextmanager
def watching(progress: Shown, noun: str = "run") -> Iterator[JobDisplay]:
    """Yield what shows the progress of a job: the caller's function, a line of our own, or nothing."""
    if progress is False:
        yield NoDisplay()
    elif progress is not None and not isinstance(progress, bool):
        listener: object = progress
        if not callable(listener):
            check_type(listener, (), "progress", "a function, True or False")
        yield NoDisplay(progress)
    else:
        line = ProgressLine(noun)
        try:
            yield line
        finally:
            line.end()
