"""Programs that run inside a sandbox, sent there as text (standard library only), and the channel that both speak.

Values pass between the code that is judged and the tests as plain values only, one line of JSON each. The code writes
what it likes to its end of the channel; what is read from it is one of the types below or an error.
"""

import json
import os
import resource
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import BinaryIO, NamedTuple

DEEPEST = 100
"""How many containers may lie in one another."""
LONGEST_ITERATOR = 1_000
"""How many items of an iterator are read."""
_SMALL = 2**53


class UnfitError(Exception):
    """A value that cannot pass; the message says which."""


OVERREAD: list[UnfitError] = []
"""Raised by iterators that were read further than they passed: known also where the reader has caught it."""


def dump(value: object) -> bytes:
    """Return one line of JSON, without its end."""
    return json.dumps(value, ensure_ascii=True).encode()


def load(line: bytes) -> object:
    """Return what a line says; UnfitError where it is no JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError, MemoryError) as exc:
        raise UnfitError("a line that is not JSON") from exc


def encode(value: object, depth: int = 0) -> object:
    """Return a plain value in a form that JSON holds; a subclass passes as what it is built on."""
    if depth > DEEPEST:
        raise UnfitError(f"a value more than {DEEPEST} containers deep")
    if value is None or value is True or value is False:
        return value
    for kind, write in _WRITERS:
        if isinstance(value, kind):
            return write(value, depth + 1)
    if hasattr(value, "__next__") and hasattr(value, "__iter__"):
        read = list(islice(value, LONGEST_ITERATOR + 1))
        whole = len(read) <= LONGEST_ITERATOR
        return ["iterator", _each(read[:LONGEST_ITERATOR], depth + 1), whole]
    raise UnfitError(f"a value of type {type(value).__name__}")


def _each(values: object, depth: int) -> list[object]:
    return [encode(value, depth) for value in values]  # type: ignore[attr-defined]


def _int(value: int) -> object:
    plain = int.__index__(value)
    return plain if abs(plain) < _SMALL else ["int", hex(plain)]


_WRITERS: tuple[tuple[type, Callable[..., object]], ...] = (
    (int, lambda value, _: _int(value)),
    (float, lambda value, _: ["float", float.hex(value)]),
    (complex, lambda value, _: ["complex", float.hex(value.real), float.hex(value.imag)]),
    (str, lambda value, _: str.__str__(value)),
    (bytes, lambda value, _: ["bytes", bytes.hex(value)]),
    (bytearray, lambda value, _: ["bytearray", bytearray.hex(value)]),
    (list, lambda value, depth: ["list", _each(list.__iter__(value), depth)]),
    (tuple, lambda value, depth: ["tuple", _each(tuple.__iter__(value), depth)]),
    (set, lambda value, depth: ["set", _each(set.__iter__(value), depth)]),
    (frozenset, lambda value, depth: ["frozenset", _each(frozenset.__iter__(value), depth)]),
    (dict, lambda value, depth: ["dict", [_each(pair, depth) for pair in dict.items(value)]]),
    (range, lambda value, _: ["range", *map(_int, (value.start, value.stop, value.step))]),
    (Fraction, lambda value, _: ["fraction", hex(value.numerator), hex(value.denominator)]),
    (Decimal, lambda value, _: ["decimal", Decimal.__str__(value)]),
    (type({}.keys()), lambda value, depth: ["list", _each(value, depth)]),
    (type({}.values()), lambda value, depth: ["list", _each(value, depth)]),
    (type({}.items()), lambda value, depth: ["list", _each(value, depth)]),
)


def decode(sent: object, depth: int = 0) -> object:
    """Return the plain value that was sent; UnfitError for anything that `encode` does not write."""
    if depth > DEEPEST + 1:
        raise UnfitError(f"a value more than {DEEPEST} containers deep")
    if sent is None or type(sent) in {bool, int, str}:
        return sent
    if type(sent) is not list or not sent or type(sent[0]) is not str or sent[0] not in _READERS:
        raise UnfitError("a value in a form that is not known")
    try:
        return _READERS[sent[0]](sent[1:], depth + 1)
    except (ValueError, TypeError, IndexError, ArithmeticError, MemoryError) as exc:
        raise UnfitError(f"a {sent[0]} that cannot be read") from exc


def _items(sent: object, depth: int) -> list[object]:
    if type(sent) is not list:
        raise UnfitError("a container that cannot be read")
    return [decode(item, depth) for item in sent]


def _pairs(sent: object, depth: int) -> dict[object, object]:
    if type(sent) is not list:
        raise UnfitError("a container that cannot be read")
    return {decode(key, depth): decode(value, depth) for key, value in sent}


def _ended(items: list[object], whole: object) -> Iterator[object]:
    yield from items
    if whole is not True:
        OVERREAD.append(UnfitError(f"an iterator of more than {LONGEST_ITERATOR:,} items"))
        raise OVERREAD[-1]


_READERS: dict[str, Callable[[list[object], int], object]] = {
    "int": lambda sent, _: int(_text(sent[0]), 16),
    "float": lambda sent, _: float.fromhex(_text(sent[0])),
    "complex": lambda sent, _: complex(float.fromhex(_text(sent[0])), float.fromhex(_text(sent[1]))),
    "bytes": lambda sent, _: bytes.fromhex(_text(sent[0])),
    "bytearray": lambda sent, _: bytearray.fromhex(_text(sent[0])),
    "list": lambda sent, depth: _items(sent[0], depth),
    "tuple": lambda sent, depth: tuple(_items(sent[0], depth)),
    "set": lambda sent, depth: set(_items(sent[0], depth)),
    "frozenset": lambda sent, depth: frozenset(_items(sent[0], depth)),
    "dict": lambda sent, depth: _pairs(sent[0], depth),
    "range": lambda sent, depth: range(*map(_whole, _items(sent, depth))),
    "fraction": lambda sent, _: Fraction(int(_text(sent[0]), 16), int(_text(sent[1]), 16)),
    "decimal": lambda sent, _: Decimal(_text(sent[0])),
    "iterator": lambda sent, depth: _ended(_items(sent[0], depth), sent[1]),
}


def _whole(value: object) -> int:
    if type(value) is not int:
        raise UnfitError("a range that cannot be read")
    return value


def _text(sent: object) -> str:
    if type(sent) is not str:
        raise UnfitError("a number that cannot be read")
    return sent


class Channel(NamedTuple):
    """Lines from and to the process outside."""

    source: BinaryIO
    sink: BinaryIO

    def read(self) -> dict[str, object]:
        """Return what the next line says; UnfitError where that is no message. The program ends where there is none."""
        line = self.source.readline()
        if not line:
            os._exit(0)
        message = load(line)
        if not isinstance(message, dict):
            raise UnfitError("a line that is no message")
        return message

    def write(self, value: object, mark: bytes = b"") -> None:
        """Send one line."""
        self.sink.write(mark + dump(value) + b"\n")
        self.sink.flush()


def open_channel() -> Channel:
    """Return the channel, and leave standard input and output to the code: empty, and unread."""
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    channel = Channel(source, sink)
    channel.write("ready")
    return channel


def limit(setup: dict[str, object]) -> None:
    """Set what this process and those that it starts may use; none of it can be raised again."""
    cpu, memory, processes, disk = (int(str(setup[name])) for name in ("cpu", "memory", "processes", "disk"))
    # One second more for who does not heed the signal.
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (disk, disk))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
