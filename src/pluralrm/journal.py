"""Lines and documents of JSON that are written by us and read again, each with a check of its own text.

A line or a document that was changed by hand or by a bad disk is an error, not another number. Those of before, which
carry no check, are read as they are.

>>> unsealed_line(sealed_line('{"item":"i1","score":0.5}').encode())
b'{"item":"i1","score":0.5}'
>>> unsealed_line(sealed_line('{"item":"i1","score":0.5}').replace("0.5", "0.9").encode())
Traceback (most recent call last):
ValueError: the line is not as it was written
"""

import json
import re
import zlib
from collections.abc import Mapping
from typing import TypeVar, cast

from pydantic import BaseModel, TypeAdapter, ValidationError

from pluralrm.core import digest

_CHECK = "check"
_SEAL = re.compile(rb',"check":"([0-9a-f]{8})"\}\s*\Z')
_LONGEST_SEAL = 24

Model = TypeVar("Model", bound=BaseModel)


def sealed_line(line: str) -> str:
    """Return a JSON object on one line, with the check of its text as the last member."""
    body = line.rstrip("\n").removesuffix("}")
    return f'{body},"{_CHECK}":"{_sum(body.encode())}"}}{line[len(line.rstrip(chr(10))) :]}'


def unsealed_line(line: bytes) -> bytes:
    """Return the line without its check and its end; ValueError where it is not as it was written."""
    found = _SEAL.search(line[-_LONGEST_SEAL - 2 :])
    if found is None:
        return line.rstrip()
    body = line[: len(line) - len(found[0])]
    if _sum(body) != found[1].decode():
        raise ValueError("the line is not as it was written")
    return body + b"}"


def _sum(text: bytes) -> str:
    return f"{zlib.crc32(text):08x}"


def sealed(document: Mapping[str, object]) -> dict[str, object]:
    """Return a JSON object with the check of its content as the last member."""
    return {**document, _CHECK: digest(document)[:16]}


def parse_line(kind: type[Model] | TypeAdapter[Model], line: bytes) -> Model:
    """Return the record in a line; ValueError says in one line what is wrong with it."""
    return _validated(kind, unsealed_line(line))


def parse_document(kind: type[Model], text: str | bytes) -> Model:
    """Return the record in a document; ValueError says in one line what is wrong with it."""
    value = parse_json(text)
    if isinstance(value, dict) and _CHECK in value and _CHECK not in kind.model_fields:
        check = value.pop(_CHECK)
        if check != digest(value)[:16]:
            raise ValueError("the file is not as it was written")
        return _validated(kind, json.dumps(value).encode())
    return _validated(kind, text)


def parse_json(text: str | bytes) -> object:
    """Return the value; ValueError also where it is nested too deeply, or is no UTF-8."""
    try:
        return cast(object, json.loads(text))
    except UnicodeDecodeError as exc:
        raise ValueError(f"no UTF-8 at byte {exc.start:,}") from exc
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc


def _validated(kind: type[Model] | TypeAdapter[Model], text: str | bytes) -> Model:
    try:
        return kind.validate_json(text) if isinstance(kind, TypeAdapter) else kind.model_validate_json(text)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        place, told = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{place}: {told}" if place else told) from exc
