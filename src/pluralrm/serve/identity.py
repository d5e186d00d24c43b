"""What a reward server says of itself, and how a client makes sure that it is the right one."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from pluralrm.core import digest
from pluralrm.errors import ServiceError

RUN_HEADER = "x-pluralrm-run"
IDENTITY_HEADER = "x-pluralrm-identity"

_SENDABLE = re.compile(r"[!-~]*")


def sendable(text: str, what: str) -> str:
    """Return a text that fits into a header; the ServiceError about another does not quote it: it may be secret."""
    if not _SENDABLE.fullmatch(text):
        raise ServiceError(
            f"{what}: found a space, a line break or a letter outside ASCII, wanted printable ASCII alone, for it "
            "travels in a header; a file read into a variable may end in a line break"
        )
    return text


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
