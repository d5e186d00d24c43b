"""How far a job is, for callers from Python: one line in a notebook or on a terminal, nothing elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, cast

from pluralrm.runs import Progress

Shown = Callable[[Progress], None] | bool | None
"""What shows how far a job is: a function, nothing (False), or by default a line where somebody looks on."""

_EVERY = 0.2
"""Seconds between two lines."""


def _notebook() -> Callable[..., Any] | None:
    """Return the function that shows something in the notebook that runs this; None elsewhere."""
    shell = sys.modules.get("IPython")
    if shell is None or not hasattr(shell.get_ipython(), "kernel"):
        return None
    return cast("Callable[..., Any]", sys.modules["IPython"].display.display)


class ProgressLine:
    """One line about one job: in a notebook below the cell, on a terminal in place; elsewhere nothing."""

    def __init__(self, title: str) -> None:
        self._title, self._began, self._shown, self._first = title, time.monotonic(), 0.0, 0
        self._display = _notebook()
        self._handle: Any = None
        self._terminal = self._display is None and sys.stderr.isatty()

    def __call__(self, progress: Progress) -> None:
        """Show it, at most five times a second."""
        now, settled = time.monotonic(), progress.done + progress.open
        self._first = self._first if self._shown else settled
        if now - self._shown < _EVERY and settled < progress.total:
            return
        self._shown = now
        rate = (settled - self._first) / max(now - self._began, 1e-9)
        left = f", {(progress.total - settled) / rate:.0f} s left" if rate > 0 and settled < progress.total else ""
        failed = f", {progress.failed} failed" * bool(progress.failed) + f", {progress.open} open" * bool(progress.open)
        self._show(f"{self._title}: {settled:,}/{progress.total:,}{left}{failed}")

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
        if self._terminal and self._shown:
            sys.stderr.write("\r\x1b[2K")


@contextmanager
def watching(progress: Shown, title: str) -> Iterator[Callable[[Progress], None] | None]:
    """Yield what shows the progress of a job: the caller's function, a line of our own, or None."""
    if progress is not None and not isinstance(progress, bool):
        yield progress
        return
    line = None if progress is False else ProgressLine(title)
    try:
        yield line
    finally:
        if line is not None:
            line.end()


class StepProgress:
    """Shows how far one step of a study is."""

    def __init__(self, progress: Shown, title: str) -> None:
        self._context = watching(progress, title)

    def __enter__(self) -> Self:
        self._tell = self._context.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._context.__exit__(kind, exc, tb)

    def update(self, progress: Progress) -> None:
        """Show it."""
        if self._tell is not None:
            self._tell(progress)
