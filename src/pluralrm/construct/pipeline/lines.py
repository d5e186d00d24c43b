"""A decision as it stands in a stage's file, and what holds it to what it was made on.

Each line has a seal, the hash of all else in it, and names the seal of the decision that it follows on. So a text that
was edited by hand is found, and so is a line that was put in from another build: neither was judged here.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Self

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError, model_validator

from pluralrm.core import digest
from pluralrm.errors import RunError


class Written(BaseModel):
    """What a build writes down: nothing else may stand beside it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Spent(Written):
    """What one role asked of one model about a record: calls, those without a count of tokens, tokens."""

    role: str
    model: str
    calls: int
    unmetered: int
    tokens_in: int
    tokens_out: int


class Heard(Written):
    """A reply that a decision rests on: the hash of the request, as the cassette knows it, and of what was said."""

    request: str
    reply: str


class Line(Written):
    """A decision: `kept` is the product, or None where the record was rejected.

    `after` is the seal of the decision before it on the record; of all that came, for a sieve.
    """

    id: str
    kept: dict[str, JsonValue] | None
    reason: str = ""
    detail: str = ""
    attempts: int = 1
    spent: tuple[Spent, ...] = ()
    heard: tuple[Heard, ...] = ()
    after: str = ""
    seal: str = ""

    @model_validator(mode="after")
    def _says_why(self) -> Self:
        if (self.kept is None) != bool(self.reason):
            raise ValueError("found a reason beside a product, or neither")
        return self

    @property
    def sealed(self) -> "Line":
        """The same line with its seal."""
        return self.model_copy(update={"seal": digest(self.model_dump(mode="json", exclude={"seal"}))})

    @property
    def text(self) -> bytes:
        """The line as it is written."""
        return self.model_dump_json().encode() + b"\n"


class Placed(NamedTuple):
    """A line and where it stands."""

    path: Path
    number: int
    line: Line

    def error(self, problem: str) -> RunError:
        """Return the error that names the file, the line and the record."""
        return RunError(f"{self.path}:{self.number}: {self.line.id!r}: {problem}")


def crowd(lines: Iterable[Line]) -> str:
    """Return what a sieve's decisions follow on: the seals of all records that came to it."""
    return digest(sorted([line.id, line.seal] for line in lines if line.kept is not None))


def read_stage(path: Path) -> Iterator[Placed]:
    """Yield the lines of a stage's file, but for a last one without its end."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, text in enumerate(file, 1):
            if not text.endswith(b"\n"):
                return
            try:
                yield Placed(path, number, Line.model_validate_json(text))
            except ValidationError as exc:
                raise RunError(f"{path}:{number}: {first_problem(exc)}; wanted a decision that a build wrote") from exc


def first_problem(exc: ValidationError) -> str:
    """Return where something is not as it should be, and how."""
    error = exc.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, error['loc'])) or 'the text'}: {error['msg']}"
