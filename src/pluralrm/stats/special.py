"""The quantiles and distributions of scipy.special, imported in half of its time.

scipy touches every public name of numpy, and numpy then loads parts that neither needs: f2py, its compiler of Fortran,
alone takes as long as all of scipy.special. In a process of the command line they are left out of that and load when
they are used; the numpy of another host is left as it is.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import numpy as np


class _Later(ModuleType):
    """Stands for a module that loads when an attribute of it is read."""

    def __getattr__(self, name: str) -> object:
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def _without(package: ModuleType, *names: str) -> Iterator[None]:
    """Keep submodules from loading as the names of their package are touched; afterwards they load as ever."""
    own_process = "pluralrm.cli" in sys.modules
    later = {name: _Later(f"{package.__name__}.{name}") for name in names if own_process and name not in vars(package)}
    vars(package).update(later)
    try:
        yield
    finally:
        for name, module in later.items():
            if vars(package).get(name) is module:
                delattr(package, name)


with _without(np, "f2py", "ma", "polynomial", "testing"):
    from scipy.special import fdtri, ndtr, ndtri, stdtr, stdtrit

__all__ = ["fdtri", "ndtr", "ndtri", "stdtr", "stdtrit"]
