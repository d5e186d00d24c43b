"""What is decided about each record: on disk first, then in memory, and the same from either."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from pydantic import JsonValue, ValidationError

from pluralrm.construct.pipeline.folder import Folder, stage_file
from pluralrm.construct.pipeline.lines import Heard, Line, Spent, crowd
from pluralrm.construct.pipeline.records import Product, Record
from pluralrm.construct.pipeline.stages import Pipeline, Sieve, Stage
from pluralrm.construct.pipeline.work import Decision, Kept, Rejected
from pluralrm.errors import RunError


class Going(NamedTuple):
    """How far a build is, in decisions: one for each record and stage. A rejected record is done with all of them."""

    done: int
    total: int
    waiting: int


class Rests(NamedTuple):
    """What a decision rests on: what it took of each model, and the replies."""

    spent: Sequence[Spent] = ()
    heard: Sequence[Heard] = ()


class Decisions:
    """The decisions of one build, stage by stage; `why` says why the first record waits."""

    def __init__(
        self, pipeline: Pipeline, folder: Folder, lines: list[dict[str, Line]], tell: Callable[[Going], None]
    ) -> None:
        self.lines, self.waiting, self.why = lines, 0, ""
        self.stages = pipeline.stages
        self._folder, self._tell = folder, tell
        self._done = self._total = 0

    def check(self, records: Sequence[Record]) -> None:
        """Raise where a decision is about no record of the input."""
        known = {record.id for record in records}
        for place, decided in enumerate(self.lines):
            if strange := sorted(decided.keys() - known):
                raise RunError(f"{self._file(place)}: found {strange[0]!r}, which is no record of the input; {_NEXT}")
            self._done += sum(self._steps(place, line) for line in decided.values())
        self._total = len(records) * len(self.stages)
        self._told()

    def decided(self, record: Record, place: int) -> bool:
        """Return whether a stage has decided on a record."""
        return record.id in self.lines[place]

    def adopted(self, record: Record, place: int) -> Record | None:
        """Return the record as it leaves a stage; None where it was rejected there."""
        kept = self.lines[place][record.id].kept
        return None if kept is None else record.with_product(self.stages[place].name, self._read(record, place, kept))

    def decide(self, record: Record, place: int, decision: Decision, rests: Rests) -> Record | None:
        """Write a decision down, and return the record as it leaves the stage; None where it is rejected."""
        after = self.lines[place - 1][record.id].seal if place else ""
        stage, line = self.stages[place], self._line(record, place, decision, rests, after=after)
        self._folder.append(place, stage.name, line)
        self._take(place, line)
        return self.adopted(record, place)

    def decide_all(self, records: Sequence[Record], place: int, decisions: Sequence[Decision]) -> None:
        """Write a sieve's decisions down, all at once."""
        pairs = zip(records, decisions, strict=True)
        after = crowd(self.lines[place - 1].values()) if place else ""
        lines = [self._line(record, place, decision, Rests(), after=after) for record, decision in pairs]
        self._folder.write(place, self.stages[place].name, lines)
        for line in lines:
            self._take(place, line)

    def all_decided(self, records: Iterable[Record], place: int) -> bool:
        """Return whether a sieve has run; RunError where it has on other records: it would keep others of these."""
        decided, came = set(self.lines[place]), {record.id for record in records}
        if decided and decided != came:
            raise RunError(f"{self._file(place)}: found {len(decided):,} decisions, wanted {len(came):,}; {_NEXT}")
        return bool(decided)

    def wait(self, why: str) -> None:
        """Count a record that a call without an answer keeps from going on."""
        self.waiting += 1
        self.why = self.why or why
        self._told()

    def _take(self, place: int, line: Line) -> None:
        self.lines[place][line.id] = line
        self._done += self._steps(place, line)
        self._told()

    def _steps(self, place: int, line: Line) -> int:
        return len(self.stages) - place if line.kept is None else 1

    def _told(self) -> None:
        self._tell(Going(self._done, self._total, self.waiting))

    def _line(self, record: Record, place: int, decision: Decision, rests: Rests, *, after: str) -> Line:
        reason, detail, kept = "", "", None
        if isinstance(decision, Rejected):
            _require_reason(self.stages[place], decision)
            # A model's words may hold half a character, which no file can.
            reason, detail = decision.reason, decision.detail.encode("utf-8", "backslashreplace").decode()
        else:
            kept = _written(self.stages[place], decision)
            self._read(record, place, kept)  # before it is on disk: a product that cannot be read must not stay there
        return Line(
            id=record.id,
            kept=kept,
            reason=reason,
            detail=detail,
            attempts=decision.attempts,
            spent=tuple(rests.spent),
            heard=tuple(rests.heard),
            after=after,
        ).sealed

    def _read(self, record: Record, place: int, kept: Mapping[str, JsonValue]) -> Product:
        makes = self.stages[place].makes
        try:
            return makes.model_validate_json(json.dumps(kept))
        except ValidationError as exc:
            error = exc.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, error["loc"]))
            raise RunError(
                f"{self._file(place)}: {record.id!r}: {where}: {error['msg']}; wanted a {makes.__name__}"
            ) from exc

    def _file(self, place: int) -> str:
        return str(stage_file(self._folder.path, place, self.stages[place].name))


_NEXT = "the file was changed from outside or is of another build: build in another folder"


def _require_reason(stage: Stage | Sieve, decision: Rejected) -> None:
    if not decision.reason:
        raise TypeError(f"stage {stage.name!r} rejects without a reason")


def _written(stage: Stage | Sieve, decision: Kept) -> dict[str, JsonValue]:
    if type(decision.product) is not stage.makes:
        raise TypeError(f"stage {stage.name!r} made a {type(decision.product).__name__}, not {stage.makes.__name__}")
    found: dict[str, JsonValue] = json.loads(decision.product.model_dump_json())
    return found
