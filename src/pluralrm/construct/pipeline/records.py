"""What moves through a pipeline: a record, and what each stage has made of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from pluralrm.errors import RunError


class Product(BaseModel):
    """What a stage makes of a record; a subclass per stage. It is written to disk as JSON and read back as it was."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


P = TypeVar("P", bound=Product)


@dataclass(frozen=True, slots=True)
class Record:
    """One thing that is being built, by its id: what came in, and what the stages so far have made of it."""

    id: str
    domain: str
    source: Product
    made: Mapping[str, Product] = field(default_factory=dict)
    """By the name of the stage."""

    def __getitem__(self, product: type[P]) -> P:
        """Return what a stage made of that type, or the source where it has that type."""
        for found in (self.source, *self.made.values()):
            if type(found) is product:
                return found
        raise RunError(f"record {self.id!r} holds no {product.__name__}; it holds {', '.join(self._held)}")

    @property
    def _held(self) -> list[str]:
        return [type(found).__name__ for found in (self.source, *self.made.values())]

    def with_product(self, stage: str, product: Product) -> "Record":
        """Return the record with one product more."""
        return replace(self, made={**self.made, stage: product})
