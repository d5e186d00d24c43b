"""The rows of a file, one by one, each with its place: JSON lines, or Parquet through pyarrow.

A line that is not one JSON object in UTF-8 is a RowError. Files are streamed: memory holds one row, or one small batch.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, NoReturn, cast

from pluralrm.errors import BenchmarkError, MissingExtraError, RowError

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".jsonl", ".json", ".parquet")

_LONGEST_LINE = 64 * 2**20
_SHOWN = 60
_ONE_OBJECT = "one JSON object a line"
_BATCH = 64
_MOST = 10

Refuse = Callable[[RowError], None]
"""Takes the error of a row that could not be read; it may raise it, or keep it and let the reading go on."""


class Place(NamedTuple):
    """Where a row stands: a file and a line (in Parquet: a row), both counted from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{visible(self.file)}:{self.line}"

    def refuse(self, field: str, *, found: str, wanted: str) -> RowError:
        """Return the error that names this place; a field name from the data is made safe to print."""
        return RowError(visible(self.file), self.line, shortened(field), found=found, wanted=wanted)


def exists(path: Path) -> bool:
    """Return whether something is there; a name that no file system takes (too long, with a NUL) is not."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def at_once(error: RowError) -> None:
    """Raise the error."""
    raise error


class Refused:
    """The errors of rows, kept to be told together: whoever writes a file mends ten at a time."""

    def __init__(self) -> None:
        self._errors: list[RowError] = []

    def keep(self, error: RowError) -> None:
        """Keep an error; the tenth ends the reading and raises them all."""
        self._errors.append(error)
        if len(self._errors) == _MOST:
            self.tell(f"(reading stopped here, at {_MOST} errors)")

    def tell(self, *more: str) -> None:
        """Raise the first error with the messages of all others, if there is any."""
        if self._errors:
            first, *others = self._errors
            told = [*map(str, others), *more]
            raise RowError(
                first.file, first.line, first.field, found=first.found, wanted=first.wanted, others=told
            ) from first.__cause__


def read_rows(file: Traversable, refuse: Refuse = at_once) -> Iterator[tuple[Place, Mapping[str, object]]]:
    """Yield every row of a file with its place; a file that cannot be read is a BenchmarkError.

    `refuse` takes the error of each line that is no row, which is then passed over.
    """
    try:
        with file.open("rb") as stream:
            rows = _parquet_rows if file.name.endswith(".parquet") else _json_lines
            yield from rows(cast(BinaryIO, stream), str(file), refuse)
    except OSError as exc:
        raise BenchmarkError(f"cannot read {visible(str(file))}: {exc.strerror or shortened(str(exc))}") from exc


# ---------------------------------------------------------------- JSON lines


class _UnreadableError(ValueError):
    """JSON that Python would take and we do not: the field, what was found, what was wanted."""


def _json_lines(stream: BinaryIO, file: str, refuse: Refuse) -> Iterator[tuple[Place, Mapping[str, object]]]:
    for number, line in enumerate(iter(lambda: stream.readline(_LONGEST_LINE), b""), 1):
        if line.strip():
            place = Place(file, number)
            try:
                row = _json_object(line, place)
            except RowError as exc:
                refuse(exc)
            else:
                yield place, row


def _json_object(line: bytes, place: Place) -> Mapping[str, object]:
    if len(line) >= _LONGEST_LINE:
        raise place.refuse("(line)", found=f"{_LONGEST_LINE >> 20} MiB without a line end", wanted="one row a line")
    try:
        value: object = _DECODER.decode(line.rstrip(b"\r\n").decode("utf-8"))
    except UnicodeDecodeError as exc:
        raise place.refuse(f"byte {exc.start + 1}", found=f"0x{line[exc.start]:02x}", wanted="UTF-8") from exc
    except _UnreadableError as exc:
        field, found, wanted = exc.args
        raise place.refuse(field, found=found, wanted=wanted) from exc
    except json.JSONDecodeError as exc:
        raise place.refuse("(line)", found=_not_json(exc), wanted=_ONE_OBJECT) from exc
    except RecursionError as exc:
        raise place.refuse("(line)", found="lists or objects nested too deep", wanted="a row of the format") from exc
    except ValueError as exc:  # the interpreter's own limit on the digits of an integer
        raise place.refuse("(line)", found=shortened(str(exc)), wanted="a row of the format") from exc
    if not isinstance(value, dict):
        raise place.refuse("(line)", found=describe(value), wanted=_ONE_OBJECT)
    return value


def _not_json(exc: json.JSONDecodeError) -> str:
    """Return in words what a line is instead of an object: another text, a part of one, or one with a slip."""
    if not exc.doc.lstrip().startswith("{"):
        return describe(exc.doc.strip())
    if exc.pos >= len(exc.doc.rstrip()):
        return "an object that does not end on its line"
    problem = exc.msg.removesuffix(" at")
    return f"broken JSON ({problem[0].lower()}{problem[1:]} at column {exc.colno})"


def _unique(pairs: Sequence[tuple[str, object]]) -> Mapping[str, object]:
    keys = dict(pairs)
    for key in keys:
        # Also keys of no format: pydantic would fall over one before it could say that it is unknown.
        if not is_unicode(key):
            raise _UnreadableError(key, "half of a surrogate pair in a key", "valid Unicode")
    if (twice := repeated([key for key, _ in pairs])) is not None:
        raise _UnreadableError(pairs[twice][0], "this key twice", "each key once")
    return keys


def _no_constant(word: str) -> NoReturn:
    raise _UnreadableError("(line)", word, "JSON, which has no such number")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


# ---------------------------------------------------------------- Parquet


def _parquet_rows(stream: BinaryIO, file: str, refuse: Refuse) -> Iterator[tuple[Place, Mapping[str, object]]]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as exc:
        raise MissingExtraError("Parquet", "hub") from exc
    number = 0
    try:
        with ParquetFile(stream) as parquet:
            _check_columns(parquet.schema_arrow.names, file)
            for batch in parquet.iter_batches(batch_size=_BATCH):
                for index in range(batch.num_rows):
                    number += 1
                    place = Place(file, number)
                    try:
                        row = _parquet_row(batch.slice(index, 1), place)
                    except RowError as exc:
                        refuse(exc)
                    else:
                        yield place, row
    except (ArrowException, OSError) as exc:
        raise BenchmarkError(f"{visible(file)}: not a whole Parquet file: {shortened(str(exc), 200)}") from exc


def _check_columns(names: Sequence[str], file: str) -> None:
    if len(set(names)) < len(names):
        raise BenchmarkError(f"{visible(file)}: found two columns of one name, wanted each once")


def _parquet_row(batch: "pa.RecordBatch", place: Place) -> Mapping[str, object]:
    """Return the only row of a slice; a value that Python cannot hold (bytes that are no UTF-8) is a RowError."""
    try:
        row: Mapping[str, object] = batch.to_pylist()[0]
    except (ValueError, OverflowError) as exc:
        raise place.refuse("(row)", found=shortened(str(exc)), wanted="UTF-8 text and plain values") from exc
    return row


# ---------------------------------------------------------------- looking at values, and words for them


def repeated(values: Sequence[object]) -> int | None:
    """Return the index of the first value that stood there before, or None."""
    seen: set[object] = set()
    for index, value in enumerate(values):
        if value in seen:
            return index
        seen.add(value)
    return None


def is_unicode(text: str) -> bool:
    """Return False for a text with half of a surrogate pair, which JSON can spell and no file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def visible(text: str) -> str:
    """Return the text with every control character spelled out: data must never steer a terminal."""
    if text.isprintable():
        return text
    return "".join(x if x.isprintable() else x.encode("unicode_escape").decode() for x in text)


def shortened(text: str, most: int = _SHOWN) -> str:
    """Return at most `most` characters of a text, made visible, and a sign that there was more."""
    shown = visible(text[:most])
    return shown if len(text) <= most else f"{shown[:most]}…"


def describe(value: object) -> str:
    """Return a few words for a value in a row: its kind, or the value where that is short."""
    if isinstance(value, str):
        return _describe_text(value)
    if isinstance(value, bool | None):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return shortened(str(value))
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "an object" if isinstance(value, dict) else f"a {type(value).__name__}"


def _describe_text(text: str) -> str:
    if not text:
        return "an empty text"
    return f"'{shortened(text)}'" if text.strip() else "only white space"
