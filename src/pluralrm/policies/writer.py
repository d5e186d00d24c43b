"""A folder that one process writes at a time; what an earlier one left is taken over before anything is added."""

import os
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from pluralrm.errors import PluralrmError
from pluralrm.files import append, lock_folder, replace_file


class OneWriter(ABC):
    """Holds the folder from `with` to its end. `busy` says what another process does there, `kept` what is safe."""

    error: ClassVar[type[PluralrmError]]
    busy: ClassVar[str]
    kept: ClassVar[str]

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    def __enter__(self) -> Self:
        try:
            self._lock = lock_folder(self.path)
            self._adopt()
        except BlockingIOError as exc:
            raise self.error(f"{self.path}: another process is {self.busy}; wait for it or stop it") from exc
        except OSError as exc:
            self._unlock()
            raise self._cannot_write(exc) from exc
        except self.error:
            self._unlock()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._unlock()

    @abstractmethod
    def _adopt(self) -> None:
        """Take over what an earlier process left: check that it is the same work, drop torn tails."""

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _append(self, name: str, text: str | bytes) -> None:
        """Add to a file of the folder; on disk when it returns."""
        try:
            append(self.path / name, text.encode() if isinstance(text, str) else text)
        except OSError as exc:
            raise self._cannot_write(exc) from exc

    def _replace(self, name: str, text: str) -> None:
        """Write a small file of the folder at once."""
        try:
            replace_file(self.path / name, text)
        except OSError as exc:
            raise self._cannot_write(exc) from exc

    def _cannot_write(self, exc: OSError) -> PluralrmError:
        return self.error(f"cannot write to {self.path}: {exc.strerror or exc}. {self.kept}")
