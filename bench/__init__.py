"""Speed and memory, side by side: `python -m bench [SHAPE...] [--quick] [--rounds N] [--before DIR] [--json FILE]`.

A shape is one piece of work that several sides do; its first side is what the others are compared with:

    best_of = Shape("best-of", "best of k answers for every k, 2,830 prompts", pools, unit="models")

    @best_of.side
    def exact(data: Pools) -> Work:
        return lambda: data.all_models(expected_best_of)

`pools(setup)` returns the data: `setup.size(2_830, 20)` is the full size, or that of `--quick`; `setup.folder()` and
what `setup.enter_context` enters are there until the end. A side is called once, opens what it needs, and returns the
work; only the work is timed. A module of this folder registers its shapes when it is imported, so it imports torch and
the like inside functions and names them in `needs`. The names of its shapes begin with its own: bench/dedup.py has
`dedup-nothing` and `dedup-mostly`, and `python -m bench dedup` runs both (`--list` has all).

Each side is a process of its own and waits; a round goes through all sides in turn. The table has medians over the
rounds with their range, and ratios within a round. CPU time is that of the process and of the commands it ran; it
hardly depends on who else is running. Results that differ by more than `tolerance` make the command fail.
`--before DIR` runs each side once more on the package of another checkout: before | after in one run.
Figures that are kept go to RESULTS.md; tests run every shape at its smallest size and never look at a time.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Generic, TypeVar

T = TypeVar("T")
SHAPES: dict[str, "Shape[object]"] = {}
"""All shapes of the modules that were imported, by name."""


class Setup(ExitStack):
    """What data are made in: at full size or the smallest, and closed after the last round."""

    def __init__(self, *, quick: bool) -> None:
        super().__init__()
        self.quick = quick

    def size(self, full: int, quick: int) -> int:
        """Return the size that is measured now."""
        return quick if self.quick else full

    def folder(self) -> Path:
        """Return a new folder, removed at the end."""
        return Path(self.enter_context(TemporaryDirectory()))

    def program(self, *arguments: str) -> Iterator[str]:
        """Return the lines that Python prints with these arguments, in a process that is ended at the end."""
        command = [sys.executable, *arguments]
        child = self.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))  # noqa: S603 - ours
        self.callback(child.terminate)
        return iter(child.stdout or ())


@dataclass(frozen=True)
class Outcome:
    """What a run of a side leaves; `seconds` where the side keeps the time itself."""

    results: Sequence[float] = ()
    """Compared with those of the first side, as far as both go."""
    units: float = 0.0
    scale: float = 1.0
    """The whole over the part that was run."""
    seconds: float | None = None
    figures: Mapping[str, float] = field(default_factory=dict)


Work = Callable[[], Outcome | object]
"""Anything else than an Outcome is an Outcome without results."""


@dataclass(frozen=True)
class Side(Generic[T]):
    """One way of doing the work."""

    open: Callable[[T], Work]
    environment: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Shape(Generic[T]):
    """A piece of work, its data, and its sides."""

    name: str
    title: str
    data: Callable[[Setup], T]
    unit: str = ""
    needs: Sequence[str] = ()
    """Modules beyond the default installation."""
    rounds: int = 5
    tolerance: float = 0.0
    apart: bool = True
    """Whether each side has a process of its own; without, sides share their data, and memory is not measured."""
    sides: dict[str, Side[T]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name in SHAPES:
            raise ValueError(f"two shapes have the name {self.name!r}")
        SHAPES[self.name] = self  # type: ignore[assignment]

    def side(
        self, opening: Callable[[T], Work], *, name: str = "", environment: Mapping[str, str] | None = None
    ) -> Callable[[T], Work]:
        """Add a side, named by its function unless `name` is set, and return the function."""
        self.sides[name or opening.__name__.replace("_", " ")] = Side(opening, environment or {})
        return opening
