"""How objects show themselves: a short repr, rows for a data frame, an HTML table in a notebook."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, fields, is_dataclass
from html import escape
from typing import Any, ClassVar, Literal, overload

from pluralrm.errors import SpecError

Record = dict[str, object]
"""A flat row: texts, numbers, lists of numbers, None."""

_TEXT, _PART, _PARTS = 40, 60, 4
"""Letters of a text, letters of a part, and elements of a collection that a repr shows."""


def brief(self: object) -> str:
    """Return `Name(field=value, ...)` without fields at their default: long texts are cut, collections are counted."""
    names = getattr(type(self), "_fields", None) or getattr(type(self), "model_fields", None)
    if names is not None:  # a NamedTuple, or a record of a file
        return f"{type(self).__name__}({', '.join(f'{name}={_part(getattr(self, name))}' for name in names)})"
    parts = []
    for field in fields(self):  # type: ignore[arg-type] # the method of dataclasses
        value = getattr(self, field.name)
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if field.repr and (default is MISSING or (value is not default and value != default)):
            parts.append(f"{field.name}={_part(value)}")
    return f"{type(self).__name__}({', '.join(parts)})"


def _part(value: object) -> str:
    if isinstance(value, str):
        return repr(value if len(value) <= _TEXT else f"{value[: _TEXT - 1]}…")
    if isinstance(value, Mapping | AbstractSet | Sequence) and not isinstance(value, bytes):
        text = repr(value) if len(value) <= _PARTS else ""
        return text if text and len(text) <= _PART else f"<{len(value):,}>"
    text = repr(value)
    if len(text) <= _PART:
        return text
    name = getattr(value, "name", None) or getattr(value, "id", None)
    return f"{type(value).__name__}({f'{name!r}, ' if isinstance(name, str) else ''}…)"


def whole(value: object) -> str:
    """Return the repr that a dataclass has by itself, with everything in it: what hashes of old folders rest on."""
    if is_dataclass(value) and not isinstance(value, type):
        parts = (f"{field.name}={whole(getattr(value, field.name))}" for field in fields(value) if field.repr)
        return f"{type(value).__qualname__}({', '.join(parts)})"
    if type(value) is tuple:
        return f"({', '.join(map(whole, value))}{',' * (len(value) == 1)})"
    return repr(value)


def json_fields(record: object, *names: str) -> dict[str, object]:
    """Return attributes of a record, or all fields of a dataclass or NamedTuple, by name and as JSON has them."""
    chosen = names or getattr(record, "_fields", ()) or [field.name for field in fields(record)]  # type: ignore[arg-type]
    return {name: _as_json(getattr(record, name)) for name in chosen}


def _as_json(value: object) -> object:
    """Return what a value says of itself by `to_json`, a record by its fields, a collection by its parts, a set sorted.

    Keys become texts, as JSON's are.
    """
    if (method := getattr(value, "to_json", None)) is not None:
        return method()
    if hasattr(value, "_fields") or (is_dataclass(value) and not isinstance(value, type)):
        return json_fields(value)
    if isinstance(value, Mapping):
        return {str(key): _as_json(part) for key, part in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(value)
    return [_as_json(part) for part in value] if isinstance(value, list | tuple) else value


class JsonFields:
    """A record whose JSON is its fields, or the attributes that `in_json` names, in that order."""

    __slots__ = ()
    in_json: ClassVar[tuple[str, ...]] = ()

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return json_fields(self, *self.in_json)


def row_record(row: Any) -> Record:  # noqa: ANN401 - a Row of `core`, which imports this
    """Return a row of a run for a data frame."""
    scores = [score if isinstance(score, float) else None for score in row.scores]
    failure = next((score.kind for score in row.scores if not isinstance(score, float)), "")
    item = {"item": row.item, "cluster": row.cluster, "domain": row.domain, "preferred": row.preferred}
    return {**item, "grades": list(row.grades), "scores": scores, "failure": failure, "posts": row.posts}


class Brief:
    """A dataclass whose repr is short: `@dataclass(repr=False)`."""

    __slots__ = ()
    __repr__ = brief


class Tabular(Brief, ABC):
    """What is a table: its rows for a data frame, and for a notebook. No text in it can act as HTML."""

    __slots__ = ()
    _MOST: ClassVar[int] = 20
    """Rows that a notebook shows."""

    @abstractmethod
    def records(self) -> list[Record]:
        """Return one flat row per entry."""

    @overload
    def to_dict(self, orient: Literal["records"] = "records") -> list[Record]: ...
    @overload
    def to_dict(self, orient: Literal["list"]) -> dict[str, list[object]]: ...
    def to_dict(self, orient: str = "records") -> list[Record] | dict[str, list[object]]:
        """Return the rows ('records') or the columns ('list') as pandas.DataFrame and polars.DataFrame take them."""
        rows = self.records()
        if orient == "records":
            return rows
        if orient == "list":
            return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
        raise SpecError(f"orient is {orient!r}; wanted 'records' or 'list'")

    def _repr_html_(self) -> str:
        rows = self.records()
        more = f"<p>{len(rows) - self._MOST:,} more rows: to_dict()</p>" if len(rows) > self._MOST else ""
        cells = [list(row.values()) for row in rows[: self._MOST]]
        return html_table(list(rows[0]) if rows else [], cells, repr(self)) + more


def html_table(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> str:
    """Return a table of texts and numbers under a title."""
    head = f"<caption style='text-align:left'>{escape(title)}</caption>"
    titles = "".join(f"<th>{escape(title)}</th>" for title in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table>{head}<thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if value is None:
        return "<td>–</td>"
    if isinstance(value, float):
        return f"<td style='text-align:right'>{value:.4g}</td>"
    return f"<td>{escape(str(value))}</td>"
