"""Runs that are complete: a model that has to be asked who it is need not be, where nothing is left to score."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from pluralrm.core import Run
from pluralrm.errors import RunError
from pluralrm.runs.records import RUN, RunManifest
from pluralrm.runs.store import load_run


@runtime_checkable
class Distant(Protocol):
    """A model whose identity only its server knows."""

    def fits(self, facts: Mapping[str, str]) -> bool:
        """Return whether the identity of an earlier run can be this model's, by what is known without asking."""
        ...


def finished(path: Path, wanted: RunManifest, model: object) -> Run | None:
    """Return the complete run in a folder where its model would have to be asked who it is; None otherwise.

    `wanted` has the identity as far as it is known without the model. No old and new rows can mix here: there are no
    new ones. Who is behind the URL by now makes no difference to what was scored then.
    """
    if not isinstance(model, Distant) or not RUN.holds(path):
        return None
    found = RUN.read(path)
    known = wanted.model_copy(update={"identity": {**found.identity, **wanted.identity}})
    if known.differs_in(found) or not model.fits(found.identity):
        return None
    try:
        run = load_run(path)
    except RunError:  # rows are missing, and are scored again; what cannot be mended so is refused on opening
        return None
    return run if run.complete and run.done == run.items else None
