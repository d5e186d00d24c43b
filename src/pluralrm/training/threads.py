"""How many threads a training computes with.

A small policy gains nothing by several: they wait for each other, most of all beside another process that computes.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pluralrm.models.neural.folder import ModelFolder
from pluralrm.models.personal.networks import threads

SMALL = 16 * 2**20
"""Bytes of weights on disk. On two cores with other work beside, one thread was 2 to 10 times as fast as two."""


@contextmanager
def threads_for(folder: ModelFolder) -> Iterator[None]:
    """Compute with one thread where a policy is small, and as torch chooses elsewhere."""
    if sum(file.stat().st_size for file in folder.path.glob("*.safetensors")) >= SMALL:
        yield
        return
    with threads():
        yield
