"""What a reward server says of itself, and how a client makes sure that it is the right one."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from pluralrm.core import digest

RUN_HEADER = "x-pluralrm-run"
IDENTITY_HEADER = "x-pluralrm-identity"


@dataclass(frozen=True, slots=True)
class Identity:
    """Which rewards come from here: the model with all that shapes a score, what it sees of the user, for which run.

    `run` is chosen by whoever starts server and training together. A server that was left over from another run has
    another one.
    """

    run: str
    model: str
    condition: str
    benchmark: str
    benchmark_hash: str
    facts: Mapping[str, str]
    reveals: tuple[str, ...]

    @property
    def hash(self) -> str:
        """The hash of all of it but the run: two servers of one hash give the same rewards."""
        return digest({name: value for name, value in self.to_json().items() if name != "run"})

    def to_json(self) -> dict[str, object]:
        """Return the fields under their names."""
        return {**asdict(self), "facts": dict(self.facts), "reveals": sorted(self.reveals)}
