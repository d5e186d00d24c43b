"""How models stand in order: those of one series together, from the smallest to the largest."""

import re

_SIZE = re.compile(r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)([mbt])(?![A-Za-z0-9])", re.IGNORECASE)
_UNITS = {"m": 1e6, "b": 1e9, "t": 1e12}


def series_order(model: str) -> tuple[str, float, str]:
    """Return a sort key: the name without its size, then the number of parameters that the name gives.

    >>> sorted(["org/M-70B", "org/M-8B", "org/A-1B"], key=series_order)
    ['org/A-1B', 'org/M-8B', 'org/M-70B']
    """
    found = _SIZE.search(model)
    if found is None:
        return model, 0.0, model
    return _SIZE.sub("", model, count=1), float(found[1]) * _UNITS[found[2].lower()], model
