"""What a pipeline is: named stages in order, each declaring what it reads, makes, asks and refuses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pluralrm.construct.pipeline.records import Product, Record
from pluralrm.construct.pipeline.work import Decision, Work
from pluralrm.templates import Template


class Calls(NamedTuple):
    """Calls to a role about one record: where all goes well at once, and at most."""

    role: str
    least: int
    most: int
    tokens_in: int
    """Tokens of a prompt, roughly."""
    tokens_out: int


@dataclass(frozen=True)
class Stage:
    """Works on one record at a time, and may ask models."""

    name: str
    makes: type[Product]
    work: Callable[[Record], Work[Decision]]
    reads: tuple[type[Product], ...] = ()
    gate: str = ""
    """What it refuses, in a sentence, for the data card."""
    templates: tuple[Template, ...] = ()
    calls: Callable[[Record], Sequence[Calls]] = lambda _record: ()
    """What a record is expected to cost; it may hold its source alone."""
    settings: Mapping[str, str | int | float] = field(default_factory=dict)
    """Thresholds and the like, for the data card; with the templates' hashes they say what would make another set."""


@dataclass(frozen=True)
class Sieve:
    """Looks at all records that got so far at once, in the order of their ids; asks nobody.

    It begins when none waits before it: what it keeps depends on all.
    """

    name: str
    makes: type[Product]
    decide: Callable[[Sequence[Record]], Sequence[Decision]]
    reads: tuple[type[Product], ...] = ()
    gate: str = ""
    settings: Mapping[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class Pipeline:
    """Stages in order; two stages make no product of one type."""

    name: str
    source: type[Product]
    stages: tuple[Stage | Sieve, ...]
