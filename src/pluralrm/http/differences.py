"""How two requests differ, in words."""

import json
from collections.abc import Mapping, Sequence

Leaves = dict[str, str]
"""The values of a nested structure, as JSON, by where they stand: `body.messages[1].content`."""

_AROUND = 24
"""Characters shown on either side of where two texts part."""


def leaves(value: object, place: str = "") -> Leaves:
    """Return every value that does not hold others."""
    parts: list[tuple[str, object]] = []
    if isinstance(value, Mapping):
        parts = [(f"{place}.{name}".lstrip("."), part) for name, part in value.items()]
    elif isinstance(value, Sequence) and not isinstance(value, str):
        parts = [(f"{place}[{index}]", part) for index, part in enumerate(value)]
    if not parts:
        return {place: json.dumps(value, ensure_ascii=False)}
    return {path: leaf for inner, part in parts for path, leaf in leaves(part, inner).items()}


def distance(wanted: Leaves, found: Leaves) -> tuple[int, int]:
    """Return in how many places two requests differ, and minus how far the differing texts agree."""
    places = _places(wanted, found)
    return len(places), -sum(_parting(wanted.get(place, ""), found.get(place, "")) for place in places)


def difference(wanted: Leaves, found: Leaves) -> str:
    """Return where two requests first differ and how, and how many places differ in all."""
    places = _places(wanted, found)
    if not places:
        return "in how its fields are nested"
    place = places[0]
    if place not in found:
        what = f"has no {place}, asked was {_cut(wanted[place], 0)}"
    elif place not in wanted:
        what = f"has {place} = {_cut(found[place], 0)}, not asked for"
    else:
        start = _parting(wanted[place], found[place])
        what = f"{place} is {_cut(found[place], start)}, asked was {_cut(wanted[place], start)}"
    return what if len(places) == 1 else f"{what} (and in {len(places) - 1} more)"


def _places(wanted: Leaves, found: Leaves) -> list[str]:
    return [place for place in {**wanted, **found} if wanted.get(place) != found.get(place)]


def _parting(one: str, other: str) -> int:
    """Return how many characters two texts share at their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _cut(text: str, start: int) -> str:
    first, last = max(0, start - _AROUND), start + _AROUND
    return f"{'...' * (first > 0)}{text[first:last]}{'...' * (last < len(text))}"
