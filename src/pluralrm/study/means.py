"""What a study is worked on with, how a step is watched, and what is left where one fails."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple, Protocol, Self

from pluralrm.errors import ModelError, OutageError, ServiceError
from pluralrm.http import Settings
from pluralrm.runs import Progress


class Watching(Protocol):
    """What shows how far a step is, while it is entered."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None: ...

    def update(self, progress: Progress) -> None:
        """Show it."""


Watch = Callable[[str], Watching]
"""Is given a step's title."""


class Left(NamedTuple):
    """What a study lacks, and why: it cannot be, it broke, or a server gave no answer and will be asked again."""

    step: str
    why: Literal["skipped", "broken", "open"]
    reason: str


@dataclass(frozen=True)
class Means:
    """Where a study lies and how it is worked on; models in `fresh`, and a policy, begin anew.

    What a step lacks is noted in `left`.
    """

    out: Path
    settings: Settings
    watch: Watch
    fresh: Collection[str] = ()
    left: list[Left] = field(default_factory=list)

    @contextmanager
    def watched(self, name: str, who: str = "", condition: str = "") -> Iterator[Watching]:
        """Yield what shows a step; a broken model or server and an outage end this step, and no other.

        The error begins with whose it is, which the step's name says too.
        """
        try:
            with self.watch(name) as meter:
                yield meter
        except (ModelError, ServiceError) as exc:
            reason = str(exc).removeprefix(f"{who} under {condition}: ")
            self.left.append(Left(name, "open" if isinstance(exc, OutageError) else "broken", reason))
