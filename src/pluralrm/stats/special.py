"""The quantiles and distributions of scipy.special, imported in half of its time.

scipy touches every public name of numpy, and numpy then loads f2py, its compiler of Fortran, which takes as long as all
of scipy.special. In a process of the command line f2py is left out of that; the numpy of another host is left as it is.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import numpy as np


@contextmanager
def _without(package: ModuleType, name: str) -> Iterator[None]:
    """Keep a submodule from loading as the names of its package are touched; later it loads as ever."""
    if "pluralrm.cli" not in sys.modules or name in vars(package):
        yield
        return
    empty = ModuleType(f"{package.__name__}.{name}")
    setattr(package, name, empty)
    try:
        yield
    finally:
        if vars(package).get(name) is empty:
            delattr(package, name)


with _without(np, "f2py"):
    from scipy.special import fdtri, ndtr, ndtri, stdtr, stdtrit

__all__ = ["fdtri", "ndtr", "ndtri", "stdtr", "stdtrit"]
