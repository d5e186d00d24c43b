"""A record as JSON: what its parts say of themselves, whatever they stand in, and plain values as they are."""

import json
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from pluralrm.core import Estimate
from pluralrm.display import json_fields


class Range(NamedTuple):
    least: float
    most: float


@dataclass(frozen=True)
class Measured:
    name: str
    rate: Estimate | None
    span: Range
    by_user: MappingProxyType[str, Estimate]
    parts: tuple["Measured", ...] = ()
    notes: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.parts)

    def to_json(self) -> dict[str, object]:
        return json_fields(self, "name", "count", "rate")


RATE = Estimate(0.5, 0.25, 0.75, 4, 1, "wilson")
INNER = Measured("inner", None, Range(0, 1), MappingProxyType({}))
WHOLE = Measured("whole", RATE, Range(1, 2), MappingProxyType({"ada": RATE}), (INNER,), ["one"])


def test_all_fields_of_a_dataclass_are_said_in_their_order() -> None:
    said = json_fields(WHOLE)
    assert list(said) == ["name", "rate", "span", "by_user", "parts", "notes"]
    assert json.loads(json.dumps(said)) == said
    assert said["rate"] == RATE.to_json()
    assert said["span"] == {"least": 1, "most": 2}
    assert said["by_user"] == {"ada": RATE.to_json()}
    assert said["parts"] == [{"name": "inner", "count": 0, "rate": None}]


def test_named_attributes_come_in_the_order_of_their_names_properties_too() -> None:
    assert json_fields(WHOLE, "count", "name") == {"count": 1, "name": "whole"}
    assert json_fields(Range(1, 2), "most") == {"most": 2}
