"""Progress on stderr: done of total, rate, time left, failures, cost. One line that redraws, or few lines in a file."""

import sys
import time
from shutil import get_terminal_size
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pluralrm.cli.terminal import line, note, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pluralrm.http import Tally
    from pluralrm.runs import Progress

_EVERY = 0.1
"""Seconds between two redraws."""
_QUIET = 15.0
"""Seconds between two lines where stderr is a file or a pipe."""


class Meter:
    """Shows how far one run is; quiet for the runs that end at once."""

    def __init__(self, title: str) -> None:
        self.asked: Tally | None = None
        self._title = title
        self._began = self._shown = time.monotonic()
        self._from: int | None = None
        self._live = sys.stderr.isatty()
        self._drawn = self._warned = False
        self._width = max(get_terminal_size().columns - 1, 40)

    @property
    def idle(self) -> bool:
        """Whether there was nothing to do."""
        return self._from is None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        if self._drawn and self._live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def update(self, progress: "Progress") -> None:
        """Redraw, at most ten times a second."""
        self.asked = progress.asked
        self._warn(progress.warning)
        now = time.monotonic()
        first = self._from is None
        if self._from is None:
            self._from = progress.done + progress.open  # rows of an earlier process say nothing about speed
        if now - self._shown < (_EVERY if self._live else _QUIET) and not (first and self._live):
            return
        self._shown, self._drawn = now, True
        text = self._text(progress, now - self._began)
        if self._live:
            sys.stderr.write(f"\r{line(text, self._width)}\x1b[K")
            sys.stderr.flush()
        else:
            note(text)

    def _warn(self, warning: str) -> None:
        """Say once what is wrong, on a line of its own."""
        if warning and not self._warned:
            if self._drawn and self._live:
                sys.stderr.write("\r\x1b[K")
            note(f"ALARM in {line(self._title)}: {warning}")
            self._warned = True

    def _text(self, progress: "Progress", seconds: float) -> str:
        rate = (progress.done + progress.open - (self._from or 0)) / max(seconds, 1e-9)
        left = _clock((progress.total - progress.done - progress.open) / rate) if rate > 0 else "?"
        trouble = f", {progress.failed} failed" if progress.failed else ""
        trouble += f", {progress.open} open" if progress.open else ""
        spent = "" if progress.asked is None or progress.asked.cost is None else f", cost {progress.asked.cost:.3g}"
        counts = f"{progress.done}/{progress.total}, {rate:.1f}/s, {left} left{trouble}{spent}"
        return f"{shortened(line(self._title), max(self._width - len(counts) - 2, 10))}: {counts}"


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
