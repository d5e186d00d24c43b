"""What server and client agree on: the identity that a server states, the headers, which number is a reward."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from pluralrm.core import Failure, Score, digest
from pluralrm.errors import ServiceError

_LARGEST = (2 - 2**-23) * 2.0**127
"""Of float32; bfloat16 reaches as far, to the last digits."""


def trainable(score: Score) -> Score:
    """Return the score, or the failure `nonfinite` where a tensor of float32 would hold infinity for it."""
    if isinstance(score, Failure) or abs(score) <= _LARGEST:
        return score
    return Failure("nonfinite", f"{score:g} is beyond float32, in which trainers keep rewards")


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
