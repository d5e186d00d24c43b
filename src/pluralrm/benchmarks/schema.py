"""What the row models of all formats share: strict types, and errors that name the field.

Columns that a model does not know, and fields marked `EXPECTED` that a row lacks, go to the `Dirt` of the load; where
there is none (files of our own), an unknown column is refused.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from types import UnionType
from typing import Annotated, ClassVar, Literal, NamedTuple, NoReturn, TypeVar, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, JsonValue, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from pluralrm.benchmarks.dirt import Dirt
from pluralrm.benchmarks.rows import CsvRow, Place, describe, is_unicode, json_value, shortened

_LONGEST_ID = 200


def wanted(what: str) -> NoReturn:
    """Raise, inside a validator, the error that becomes a RowError with these words."""
    raise PydanticCustomError("wanted", "{what}", {"what": what})


def _unicode(text: str) -> str:
    return text if is_unicode(text) else wanted("valid Unicode")


def _not_blank(text: str) -> str:
    return text if text.strip() else wanted("a text that is not empty")


def _number_as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _plain_id(text: str) -> str:
    # An id stands in tables, file names and error messages: nothing in it may be invisible.
    if text.strip() and text.isprintable() and len(text) <= _LONGEST_ID:
        return text
    return wanted(f"an id of 1 to {_LONGEST_ID} printable characters")


def _null_as_empty(value: object) -> object:
    return "" if value is None else value


def _null_as_no_list(value: object) -> object:
    return [] if value is None else value


class _Expected:
    """The mark of a field that the format has and that a file may lack: where it is missing, that is counted."""


EXPECTED = _Expected()


class _CellIsText:
    """The mark of a field that is a text in CSV, though JSON may have more there."""


CELL_IS_TEXT = _CellIsText()

NullAsEmpty = BeforeValidator(_null_as_empty)
NullAsNoList = BeforeValidator(_null_as_no_list)
"""For a list that may be null: nothing is there."""
_NULLABLE = (NullAsEmpty, NullAsNoList)

Text = Annotated[str, AfterValidator(_unicode), AfterValidator(_not_blank)]
"""A text that says something."""

Id = Annotated[str, BeforeValidator(_number_as_text), AfterValidator(_plain_id)]
"""An id: a printable text, or a whole number that is kept as text."""

_MISSING = ("nan", "none", "null", "<na>", "nat")


def is_missing(text: str) -> bool:
    """Return whether a text is what tables write for a missing value: all such rows would be one person's."""
    return text.strip().casefold() in _MISSING


def _not_missing(text: str) -> str:
    return wanted("an id, or an empty cell or null") if is_missing(text) else text


PersonId = Annotated[Id, AfterValidator(_not_missing)]
"""The id of a person, or of another cluster."""

Label = Annotated[str, NullAsEmpty, AfterValidator(_unicode)]
"""A text that may be empty or null: a category, the evidence of an aspect."""


def _as_word(value: object) -> object:
    return (
        str(value).lower() if isinstance(value, bool) else f"{value:.12g}" if isinstance(value, int | float) else value
    )


Word = Annotated[str, NullAsEmpty, BeforeValidator(_as_word), AfterValidator(_unicode)]
"""A text, a number, or true or false, kept as text; it may be empty or null."""


def as_tag(value: JsonValue) -> str:
    """Return a value of a row as the text of a tag, lists and objects as JSON, cut after 200 characters."""
    if isinstance(value, float):  # Parquet has floats where a column has a null, JSON has whole numbers
        return f"{value:.12g}"
    return shortened(value if isinstance(value, str) else json.dumps(value), _LONGEST_ID)


class Part(BaseModel):
    """An object inside a row; the keys `unread` are of the format, and nothing reads them."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)
    unread: ClassVar[tuple[str, ...]] = ()


class BenchmarkRow(Part):
    """A row with an id of its own."""

    id: Id


RowT = TypeVar("RowT", bound=BenchmarkRow)
PartT = TypeVar("PartT", bound=Part)


def checked(model: type[PartT], row: Mapping[str, object], location: Place, dirt: Dirt | None = None) -> PartT:
    """Return the row as its model, or raise a RowError for the first field that does not fit.

    Unknown columns and missing EXPECTED fields are noted in `dirt`; without one, an unknown column is refused.
    """
    columns: Sequence[str] = row.columns if isinstance(row, CsvRow) else ()
    if isinstance(row, CsvRow):
        row = _typed(model, row, location)
    remarks = list(_remarks(_shape(model), row, ()))
    unknown = [path for path, is_known in remarks if not is_known]
    if dirt is None and unknown:
        # A misspelled key is best told by itself, before what is missing.
        *holder, key = unknown[0]
        raise location.refuse(
            _path([*holder, key]), found="an unknown key", wanted=f"only {', '.join(_keys_at(model, holder))}"
        )
    try:
        part = model.model_validate(row)
    except ValidationError as exc:
        field, actual, needed = _in_words(model, exc.errors(include_url=False)[0], unknown, columns)
        raise location.refuse(field, found=actual, wanted=needed) from exc
    if dirt is not None:
        dirt.hold(row, location)
        for path, is_known in remarks:
            (dirt.default if is_known else dirt.ignore)(_column(path))
    return part


class _Shape(NamedTuple):
    """Which keys an object of a format has, which of them are counted where they lack, and the objects inside it.

    `known` is None where the model takes any key (`extra="allow"`); its loader notes the columns that it does not read.
    """

    known: frozenset[str] | None
    expected: tuple[str, ...]
    parts: tuple[tuple[str, "_Shape"], ...]


@cache
def _shape(model: type[Part]) -> _Shape:
    fields = model.model_fields
    inner = ((name, _part(field.annotation)) for name, field in fields.items())
    return _Shape(
        None if model.model_config.get("extra") == "allow" else frozenset((*fields, *model.unread)),
        tuple(name for name, field in fields.items() if any(isinstance(mark, _Expected) for mark in field.metadata)),
        tuple((name, _shape(part)) for name, part in inner if part is not None),
    )


_Steps = tuple[str | int, ...]


def _remarks(shape: _Shape, row: Mapping[str, object], above: _Steps) -> Iterator[tuple[_Steps, bool]]:
    """Yield the path of each key that the format does not know, with False, and of each expected one, with True."""
    names = shape.known
    if names is not None and not row.keys() <= names:
        yield from (((*above, key), False) for key in row if key not in names)
    for name in shape.expected:
        if row.get(name) is None:
            yield (*above, name), True
    for name, part in shape.parts:
        inner = row.get(name)
        if isinstance(inner, dict):
            yield from _remarks(part, inner, (*above, name))
        elif isinstance(inner, list):
            for index, each in enumerate(inner):
                if isinstance(each, dict):
                    yield from _remarks(part, each, (*above, name, index))


def _column(steps: Sequence[int | str]) -> str:
    """Return `profile[].text` for ("profile", 3, "text")."""
    return "".join("[]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def _in_words(
    model: type[Part], error: ErrorDetails, unknown: Sequence[_Steps], columns: Sequence[str]
) -> tuple[str, str, str]:
    field, kind, context = _path(error["loc"]), error["type"], error.get("ctx", {})
    if kind == "missing":
        if field in columns:
            return field, "an empty cell", "a value"
        beside = [str(path[-1]) for path in unknown if path[:-1] == error["loc"][:-1]]
        close = get_close_matches(str(error["loc"][-1]), beside, n=1)
        actual = f"no such key, but {shortened(close[0])!r}" if close else "no such key"
        return field, actual, f"this key: add it{'; null is allowed' * _takes_null(model, error['loc'])}"
    if kind in {"too_short", "too_long"}:
        most = context.get("min_length", context.get("max_length"))
        return field, describe(error["input"]), f"a list of {most}"
    if kind == "literal_error":
        return field, describe(error["input"]), f"one of {context['expected']}"
    if kind == "model_type":
        return field, describe(error["input"]), f"an object with the keys {', '.join(_keys_at(model, error['loc']))}"
    needed = _BOUNDS[kind].format(**context) if kind in _BOUNDS else shortened(error["msg"], 200)
    return field, describe(error["input"]), _WANTED.get(kind, needed)


_WANTED = {
    "string_type": "a text",
    "list_type": "a list",
    "dict_type": "an object",
    "int_type": "a whole number",
    "float_type": "a number",
}
_BOUNDS = {"less_than_equal": "at most {le}", "greater_than_equal": "at least {ge}"}


def _path(steps: Sequence[int | str]) -> str:
    """Return `profile[3].text` for ("profile", 3, "text")."""
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return path.removeprefix(".") or "(row)"


def _keys_at(model: type[Part], steps: Sequence[int | str]) -> list[str]:
    """Return the keys that the format has at a place inside a row."""
    for step in steps:
        if isinstance(step, str):
            model = _part(model.model_fields[step].annotation) or model
    return [*model.model_fields, *model.unread]


def _takes_null(model: type[Part], steps: Sequence[int | str]) -> bool:
    """Return whether null may stand for the value of a key of the format."""
    for step in steps[:-1]:
        if isinstance(step, str):
            model = _part(model.model_fields[step].annotation) or model
    checks = model.model_fields[str(steps[-1])].metadata
    return any(check in _NULLABLE for check in checks)


def _part(annotation: object) -> type[Part] | None:
    """Return the Part inside an annotation such as list[Post], or None."""
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return annotation
    return next((part for inner in get_args(annotation) if (part := _part(inner)) is not None), None)


# ---------------------------------------------------------------- the cells of a CSV file


def _typed(model: type[Part], row: CsvRow, location: Place) -> Mapping[str, object]:
    """Return a CSV row with the values of its cells: a field that is no text holds a number or JSON."""
    fields, texts = model.model_fields, _text_fields(model)
    return {
        name: cell if name in texts or name not in fields else _cell(str(cell), location, name)
        for name, cell in row.items()
    }


@cache
def _text_fields(model: type[Part]) -> frozenset[str]:
    """Return the fields whose cells are texts."""
    return frozenset(
        name
        for name, field in model.model_fields.items()
        if _is_text(field.annotation) or any(isinstance(mark, _CellIsText) for mark in field.metadata)
    )


def _is_text(annotation: object) -> bool:
    """Return whether a value of a field may be a text that is not JSON."""
    origin = get_origin(annotation)
    if origin is Literal:
        return all(isinstance(word, str) for word in get_args(annotation))
    if origin in {Annotated, Union, UnionType}:
        return any(_is_text(inner) for inner in get_args(annotation))
    return annotation is str


_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_JSON = ("[", "{", '"')
_WORDS = {"true": True, "false": False, "null": None}


def _cell(cell: str, location: Place, field: str) -> object:
    """Return what a cell holds: a plain decimal number, true, false, null, or a list, object or text in JSON."""
    text = cell.strip()
    if text in _WORDS:
        return _WORDS[text]
    if text.startswith(_JSON) or _NUMBER.fullmatch(text):
        return json_value(text, location, field, "a number, or a list or object in JSON")
    raise location.refuse(field, found=describe(cell), wanted="a plain decimal number, or a list or object in JSON")
