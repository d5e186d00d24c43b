"""The rows of a file, one by one, each with its place: JSON lines, one JSON list, CSV, or Parquet through pyarrow.

A line that is not one JSON object in UTF-8 is a RowError; so is an element of a list, or a record of a CSV file with
another number of cells than its header. Files are streamed: memory holds one row, or one small batch. A .json or .jsonl
file whose first character is `[` is one list; .jsonl.gz is unpacked. A byte order mark at the start is not content.

The cells of a CSV file are texts (a `CsvRow`); the row model says which of them are numbers, lists or objects, and
`schema.checked` reads those: numbers as plain ASCII decimals, lists and objects as JSON. An empty cell is missing.
"""

import codecs
import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.resources.abc import Traversable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, NoReturn, TextIO, cast

from pluralrm.errors import BenchmarkError, MissingExtraError, RowError
from pluralrm.text import counted

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".jsonl", ".json", ".parquet", ".csv", ".jsonl.gz")

_LONGEST_LINE = 64 * 2**20
_SHOWN = 60
_ONE_OBJECT = "one JSON object a line"
_BATCH = 64
_MOST = 10

Refuse = Callable[[RowError], None]
"""Takes the error of a row that could not be read; it may raise it, or keep it and let the reading go on."""


class Place(NamedTuple):
    """Where a row stands: a file and a line (in Parquet and in one JSON list: a row), both counted from 1."""

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
    """The errors of rows, kept to be told together: all rows are read, ten errors are shown, and the total is said."""

    def __init__(self) -> None:
        self._errors: list[RowError] = []
        self.total = 0

    def keep(self, error: RowError) -> None:
        """Keep an error."""
        self.total += 1
        if len(self._errors) < _MOST:
            self._errors.append(error)

    def tell(self, hint: str = "") -> None:
        """Raise the first error with the messages of nine others, the total and a hint, if there is any error."""
        if not self._errors:
            return
        first, *others = self._errors
        note = f"; the first {_MOST} are shown" if self.total > _MOST else ""
        total = f"{counted(self.total, 'row')} refused{note}"
        last = f"({total})" if not hint else f"({total}; {hint})"
        more = [last] if hint or self.total > 1 else []
        raise RowError(
            first.file,
            first.line,
            first.field,
            found=first.found,
            wanted=first.wanted,
            others=[*map(str, others), *more],
        ) from first.__cause__


def read_rows(
    file: Traversable, refuse: Refuse = at_once, *, nan: bool = False
) -> Iterator[tuple[Place, Mapping[str, object]]]:
    """Yield every row of a file with its place; a file that cannot be read is a BenchmarkError.

    `refuse` takes the error of each line that is no row, which is then passed over. `nan` takes NaN and Infinity, which
    JSON does not have and Python writes.
    """
    try:
        with file.open("rb") as opened:
            stream = cast(BinaryIO, opened)
            if file.name.endswith(".parquet"):
                yield from _parquet_rows(stream, str(file), refuse)
            elif file.name.endswith(".csv"):
                with io.TextIOWrapper(stream, "utf-8", "surrogateescape", newline="\n") as lines:
                    yield from _csv_rows(lines, str(file), refuse)
            else:
                plain = cast(BinaryIO, gzip.GzipFile(fileobj=stream)) if file.name.endswith(".gz") else stream
                yield from _json_rows(plain, str(file), refuse, WITH_NAN if nan else _DECODER)
    except (EOFError, zlib.error) as exc:
        raise BenchmarkError(f"{visible(str(file))}: not a whole gzip file: {shortened(str(exc), 200)}") from exc
    except OSError as exc:
        raise BenchmarkError(
            f"cannot read {visible(str(file))}: {exc.strerror or shortened(str(exc))}; wanted a file of rows"
        ) from exc


# ---------------------------------------------------------------- JSON lines


class _UnreadableError(ValueError):
    """JSON that Python would take and we do not: the field, what was found, what was wanted."""


def _json_rows(
    stream: BinaryIO, file: str, refuse: Refuse, decoder: json.JSONDecoder
) -> Iterator[tuple[Place, Mapping[str, object]]]:
    """Yield the rows of one list where the file begins with `[`, else those of its lines."""
    blank, start = 0, stream.readline(_PROBE).removeprefix(codecs.BOM_UTF8)
    while start and not start.strip():
        blank, start = blank + start.endswith(b"\n"), stream.readline(_PROBE)
    if start.lstrip().startswith(b"["):
        yield from _list_rows(stream, start, file, refuse=refuse, decoder=decoder)
    else:
        first = start if start.endswith(b"\n") else start + stream.readline(_LONGEST_LINE - len(start))
        lines = chain([first], iter(lambda: stream.readline(_LONGEST_LINE), b""))
        yield from _json_lines(lines, file, refuse, before=blank, decoder=decoder)


_PROBE = 2**12
"""Bytes of the first line that tell a list from lines."""


def _json_lines(
    lines: Iterable[bytes], file: str, refuse: Refuse, *, before: int, decoder: json.JSONDecoder
) -> Iterator[tuple[Place, Mapping[str, object]]]:
    for number, line in enumerate(lines, 1 + before):
        if line.strip():
            location = Place(file, number)
            try:
                row = _json_object(line, location, decoder)
            except RowError as exc:
                refuse(exc)
            else:
                yield location, row


def _json_object(line: bytes, location: Place, decoder: json.JSONDecoder) -> Mapping[str, object]:
    if len(line) >= _LONGEST_LINE:
        raise location.refuse("(line)", found=f"{_LONGEST_LINE >> 20} MiB without a line end", wanted="one row a line")
    try:
        text = line.rstrip(b"\r\n").decode("utf-8")
    except UnicodeDecodeError as exc:
        raise location.refuse(f"byte {exc.start + 1}", found=f"0x{line[exc.start]:02x}", wanted="UTF-8") from exc
    value = json_value(text, location, decoder=decoder)
    if not isinstance(value, dict):
        raise location.refuse("(line)", found=describe(value), wanted=_ONE_OBJECT)
    return value


def json_value(
    text: str,
    location: Place,
    field: str = "(line)",
    expected: str = _ONE_OBJECT,
    *,
    decoder: json.JSONDecoder | None = None,
) -> object:
    """Return the value of a JSON text; a key twice, NaN or broken JSON is a RowError."""
    try:
        value: object = (decoder or _DECODER).decode(text)
    except json.JSONDecodeError as exc:
        raise location.refuse(field, found=_not_json(exc), wanted=expected) from exc
    except (ValueError, RecursionError) as exc:
        raise _unreadable(exc, location, field) from exc
    return value


def _unreadable(exc: ValueError | RecursionError, location: Place, field: str = "(line)") -> RowError:
    """Return the error for JSON that is well formed, and that we do not take."""
    if isinstance(exc, _UnreadableError):
        where, actual, expected = exc.args
        return location.refuse(where if where != "(line)" else field, found=actual, wanted=expected)
    if isinstance(exc, RecursionError):
        return location.refuse(field, found="lists or objects nested too deep", wanted="a row of the format")
    # the interpreter's own limit on the digits of an integer
    return location.refuse(field, found=shortened(str(exc)), wanted="a row of the format")


def _not_json(exc: json.JSONDecodeError) -> str:
    """Return in words what a line is instead of an object: another text, a part of one, or one with a slip."""
    if not exc.doc.lstrip().startswith("{"):
        return describe(exc.doc.strip())
    if exc.pos >= len(exc.doc.rstrip()):
        return "an object that does not end on its line (rows over several lines: write one JSON list)"
    problem = exc.msg.removesuffix(" at")
    return f"broken JSON ({problem[0].lower()}{problem[1:]} at column {exc.colno})"


def _unique(pairs: Sequence[tuple[str, object]]) -> Mapping[str, object]:
    keys = dict(pairs)
    if len(keys) == len(pairs) and "".join(keys).isascii():  # as nearly always
        return keys
    # Also keys of no format: pydantic would fall over one before it could say that it is unknown.
    if half := next((key for key in keys if not is_unicode(key)), None):
        raise _UnreadableError(half, "half of a surrogate pair in a key", "valid Unicode")
    if len(keys) < len(pairs) and (twice := repeated([key for key, _ in pairs])) is not None:
        raise _UnreadableError(pairs[twice][0], "this key twice", "each key once")
    return keys


def _no_constant(word: str) -> NoReturn:
    raise _UnreadableError("(line)", word, "JSON, which has no such number")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
WITH_NAN = json.JSONDecoder(object_pairs_hook=_unique)
"""Takes NaN and Infinity, which JSON does not have and Python writes."""


# ---------------------------------------------------------------- one JSON list


_ELEMENTS = "one JSON list of objects"
_CHUNK = 2**20
_TAIL = 16
"""Characters before the end of what was read in which an error may only mean that more must be read."""


class _Window:
    """A part of a UTF-8 file around a position: read on at its end, forgotten before the position."""

    def __init__(self, stream: BinaryIO, first: bytes, file: str) -> None:
        self._stream, self._decoder, self._file = stream, codecs.getincrementaldecoder("utf-8")(), file
        self.text, self.at = self._decoded(first), 0
        self.whole = False

    def more(self) -> None:
        """Read at least as much again as is held: a long element is looked at a few times, not once for each chunk."""
        data = self._stream.read(max(_CHUNK, len(self.text) - self.at))
        self.text, self.at = self.text[self.at :] + self._decoded(data, final=not data), 0
        self.whole = not data

    def step(self, count: int = 0) -> str:
        """Move on by some characters and past white space; return the character there, or nothing at the end."""
        self.at += count
        while True:
            while self.at < len(self.text) and self.text[self.at] in " \t\r\n":
                self.at += 1
            if self.at < len(self.text) or self.whole:
                return self.text[self.at : self.at + 1]
            self.more()

    def value(self, decoder: json.JSONDecoder) -> object:
        """Return the JSON value at the position, and move past it."""
        while True:
            try:
                value, self.at = decoder.raw_decode(self.text, self.at)
            except json.JSONDecodeError as exc:
                cut = exc.pos > len(self.text) - _TAIL or exc.msg.startswith("Unterminated string")
                if self.whole or not cut or len(self.text) - self.at > _LONGEST_LINE:
                    raise
                self.more()
            else:
                return value

    def _decoded(self, data: bytes, *, final: bool = False) -> str:
        try:
            return self._decoder.decode(data, final)
        except UnicodeDecodeError as exc:
            raise BenchmarkError(f"{visible(self._file)}: found bytes that are not UTF-8 ({exc.reason})") from exc


def _list_rows(
    stream: BinaryIO, first: bytes, file: str, *, refuse: Refuse, decoder: json.JSONDecoder
) -> Iterator[tuple[Place, Mapping[str, object]]]:
    """Yield the objects of one list, read in windows; after broken JSON nothing can be read: a BenchmarkError."""
    window = _Window(stream, first, file)
    window.step()
    number, following = 0, window.step(1)
    while following != "]":
        number += 1
        location = Place(file, number)
        value = _element(window, location, decoder)
        if isinstance(value, RowError):
            refuse(value)
        elif isinstance(value, dict):
            yield location, value
        else:
            refuse(location.refuse("(row)", found=describe(value), wanted=_ELEMENTS))
        following = window.step()
        if following == "," and window.step(1) != "]":
            following = ""
        elif following != "]":
            actual = describe(window.text[window.at : window.at + _SHOWN])
            raise BenchmarkError(f"{location}: found {actual} after this element, wanted a comma and more, or ]")
    if window.step(1):
        raise BenchmarkError(f"{visible(file)}: found more after the end of the list, wanted one list")


def _element(window: _Window, location: Place, decoder: json.JSONDecoder) -> object:
    """Return the next value of a list, or the RowError for JSON that is well formed and that we do not take."""
    start = window.text[window.at : window.at + _SHOWN]
    try:
        try:
            return window.value(decoder)
        except json.JSONDecodeError:
            raise
        except (ValueError, RecursionError) as exc:
            window.value(_LENIENT)  # only to find where it ends
            return _unreadable(exc, location, "(row)")
    except (json.JSONDecodeError, RecursionError) as exc:
        reason = exc.msg.removesuffix(" at") if isinstance(exc, json.JSONDecodeError) else "nested too deep"
        raise BenchmarkError(
            f"{location}: found broken JSON ({reason}) in {describe(start)}, wanted {_ELEMENTS}"
        ) from exc


_LENIENT = json.JSONDecoder(parse_int=str)


# ---------------------------------------------------------------- CSV


INDEX = "(no name)"
"""What a first column without a name is called: pandas writes its index there."""


class CsvRow(dict[str, object]):
    """A row of texts, of which `schema.checked` reads those that are numbers, lists or objects."""

    columns: Sequence[str] = ()
    """The header: a column of it that the row lacks is an empty cell."""


def _csv_rows(lines: TextIO, file: str, refuse: Refuse) -> Iterator[tuple[Place, Mapping[str, object]]]:
    csv.field_size_limit(_LONGEST_LINE)
    records = csv.reader(chain([lines.readline().removeprefix("\ufeff")], lines), strict=True)
    header = _header(records, file)
    while True:
        location = Place(file, records.line_num + 1)
        try:
            cells = next(records, None)
        except csv.Error as exc:
            refuse(location.refuse("(row)", found=shortened(str(exc)), wanted="a record of a CSV file"))
            continue
        if cells is None:
            return
        try:
            row = _csv_row(cells, header, location)
        except RowError as exc:
            refuse(exc)
        else:
            if row:
                yield location, row


def _header(records: Iterator[list[str]], file: str) -> list[str]:
    """Return the names of the columns; a file without them, or with one twice, is a BenchmarkError."""
    try:
        header = [name.strip() for name in next(records, [])]
    except csv.Error as exc:
        raise BenchmarkError(f"{visible(file)}: found no CSV header ({shortened(str(exc))})") from exc
    if not header:
        raise BenchmarkError(f"{visible(file)}: found no rows, wanted a header and at least one row")
    if not all(map(is_unicode, header)):
        raise BenchmarkError(f"{visible(file)}:1: found bytes that are not UTF-8, wanted a CSV file in UTF-8")
    if len(header) == 1 and (sign := next((sign for sign in ";\t|" if sign in header[0]), "")):
        raise BenchmarkError(f"{visible(file)}:1: found {visible(sign)!r} between columns, wanted commas")
    if len(header) > 1 and not header[0]:
        header[0] = INDEX
    if not all(header) or len(set(header)) < len(header):
        raise BenchmarkError(f"{visible(file)}: found a column without a name or one name twice, wanted each once")
    return header


def _csv_row(cells: Sequence[str], header: Sequence[str], location: Place) -> CsvRow | None:
    """Return the cells that are not empty under the names of their columns; None for a blank line."""
    if not any(cell.strip() for cell in cells):
        return None
    if len(cells) != len(header):
        raise location.refuse("(row)", found=f"{len(cells)} cells", wanted=f"{len(header)}, as in the header")
    if not is_unicode("".join(cells)):
        name = next(name for name, cell in zip(header, cells, strict=True) if not is_unicode(cell))
        raise location.refuse(name, found="bytes that are not UTF-8", wanted="UTF-8")
    row = CsvRow({name: cell for name, cell in zip(header, cells, strict=True) if cell})
    row.columns = header
    return row


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
            if len(set(parquet.schema_arrow.names)) < len(parquet.schema_arrow.names):
                raise BenchmarkError(f"{visible(file)}: found two columns of one name, wanted each once")
            for batch in parquet.iter_batches(batch_size=_BATCH):
                for index in range(batch.num_rows):
                    number += 1
                    location = Place(file, number)
                    try:
                        row = _parquet_row(batch.slice(index, 1), location)
                    except RowError as exc:
                        refuse(exc)
                    else:
                        yield location, row
    except (ArrowException, OSError) as exc:
        raise BenchmarkError(f"{visible(file)}: not a whole Parquet file: {shortened(str(exc), 200)}") from exc


def _parquet_row(batch: "pa.RecordBatch", location: Place) -> Mapping[str, object]:
    """Return the only row of a slice; a value that Python cannot hold (bytes that are no UTF-8) is a RowError."""
    try:
        row: Mapping[str, object] = batch.to_pylist()[0]
    except (ValueError, OverflowError) as exc:
        raise location.refuse("(row)", found=shortened(str(exc)), wanted="UTF-8 text and plain values") from exc
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
    if text.isascii():
        return True
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
    head = visible(text[:most])
    return head if len(text) <= most else f"{head[:most]}…"


def describe(value: object) -> str:
    """Return a few words for a value in a row: its kind, or the value where that is short."""
    if isinstance(value, str):
        if not value:
            return "an empty text"
        return f"'{shortened(value)}'" if value.strip() else "only white space"
    if isinstance(value, bool | None):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return shortened(str(value))
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "an object" if isinstance(value, dict) else f"a {type(value).__name__}"
