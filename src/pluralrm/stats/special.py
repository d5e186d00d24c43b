"""The quantiles and distributions of scipy.special, imported in half of its time.

scipy touches every public name of numpy, and numpy then loads f2py, its compiler of Fortran, which takes as long as all
of scipy.special. In a process of the command line f2py loads when its first attribute is read; the numpy of another
host is left as it is.
"""

import importlib.util
import sys

import numpy as np


def _defer(package: str, name: str) -> None:
    """Make a submodule load when its first attribute is read; one that is loaded, or not there, stays as it is."""
    full = f"{package}.{name}"
    own_process = "pluralrm.cli" in sys.modules
    spec = importlib.util.find_spec(full) if own_process and full not in sys.modules else None
    if spec is None or spec.loader is None:
        return
    loader = spec.loader = importlib.util.LazyLoader(spec.loader)
    module = sys.modules[full] = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    setattr(sys.modules[package], name, module)


_defer(np.__name__, "f2py")

from scipy.special import fdtri, ndtr, ndtri, stdtr, stdtrit  # noqa: E402 - f2py is deferred before

__all__ = ["fdtri", "ndtr", "ndtri", "stdtr", "stdtrit"]
