"""The wire between the judge and the worker: frames of JSON, with tags for what JSON lacks.

Only exact built-in types and a few of the standard library cross as values, and they are built again on the other
side. Any other object crosses as a reference, about which the two ends decide (`ReferenceTable`). The judge reads what
hostile code may have written, so nothing here looks a name up except in a fixed table.

This module runs in the interpreter of the project that is checked. It imports the standard library alone.
"""

from __future__ import annotations

import argparse
import collections
import datetime as dt
import decimal
import enum
import fractions
import json
import pathlib
import re
import socket
import types
import uuid
from collections.abc import Callable
from typing import Any, Final, Protocol

LARGEST: Final = 64 * 1024 * 1024
"""Bytes of a frame, at most."""
DEEPEST: Final = 100
"""How deep values may lie in one another."""
_DATETIME: Final = dt.datetime
_DATE: Final = dt.date
"""The real ones: a frozen clock replaces them in their module."""
_EXACT: Final = 1 << 53
_HEADER: Final = 4


class WireError(Exception):
    """The other side sent what is not allowed, or is gone; or a value cannot cross."""


class ReferenceTable(Protocol):
    """What one end does with objects that do not cross as values."""

    def refer(self, value: object) -> list[Any]:
        """Return the tagged reference of an object. Raises WireError for what must not cross."""

    def resolve(self, data: list[Any]) -> object:
        """Return the object of a tagged reference. Raises WireError for an unknown one."""


def encode(value: object, table: ReferenceTable, depth: int = 0) -> Any:
    """Encode a value for a frame. Raises WireError if it cannot cross."""
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return value
    if kind is int:
        return value if -_EXACT < value < _EXACT else ["i", hex(value)]  # type: ignore[operator,arg-type]
    if kind is float:
        return value if value - value == 0 else ["f", repr(value)]  # type: ignore[operator]
    if depth > DEEPEST:
        raise WireError("the value is nested too deeply")
    writer = _WRITERS.get(kind)
    if writer is not None:
        return writer(value, table, depth + 1)
    if kind.__module__ == "freezegun.api" and isinstance(value, _DATE):
        return _write_frozen(value)
    if isinstance(value, enum.Enum) and kind.__module__ in _ENUM_MODULES:
        return ["e", kind.__module__, kind.__qualname__, value.name]
    return table.refer(value)


def decode(data: Any, table: ReferenceTable, depth: int = 0) -> Any:
    """Build a value of a frame. Raises WireError for anything that `encode` does not write."""
    kind = type(data)
    if kind is str or kind is int or kind is float or data is None or kind is bool:
        return data
    if kind is not list or not data or type(data[0]) is not str:
        raise WireError("a value without a known tag")
    if depth > DEEPEST:
        raise WireError("the value is nested too deeply")
    reader = _READERS.get(data[0])
    if reader is None:
        return table.resolve(data)
    try:
        return reader(data, table, depth + 1)
    except WireError:
        raise
    except (ValueError, TypeError, IndexError, ArithmeticError, AttributeError, KeyError) as error:
        raise WireError(f"a malformed value: {error}") from error


def _write_each(tag: str) -> Callable[[Any, ReferenceTable, int], Any]:
    return lambda value, table, depth: [tag, *(encode(each, table, depth) for each in value)]


def _write_pairs(tag: str) -> Callable[[Any, ReferenceTable, int], Any]:
    def write(value: Any, table: ReferenceTable, depth: int) -> Any:
        return [tag, *(encode(each, table, depth) for pair in value.items() for each in pair)]

    return write


def _write_text(tag: str, convert: Callable[[Any], Any]) -> Callable[[Any, ReferenceTable, int], Any]:
    return lambda value, _table, _depth: [tag, convert(value)]


def _write_time(value: Any, _table: ReferenceTable, _depth: int) -> Any:
    if value.tzinfo is not None and type(value.tzinfo) is not dt.timezone:
        return _table.refer(value)
    return ["dt" if type(value) is _DATETIME else "tm", value.isoformat(), value.fold]


def _write_frozen(value: dt.date) -> Any:
    """Write what a frozen clock showed as the type that it stands for."""
    return ["dt", value.isoformat(), value.fold] if isinstance(value, _DATETIME) else ["da", value.isoformat()]


def _write_range(value: Any, table: ReferenceTable, depth: int) -> Any:
    return ["r", *(encode(each, table, depth) for each in (value.start, value.stop, value.step))]


def _write_slice(value: Any, table: ReferenceTable, depth: int) -> Any:
    return ["sl", *(encode(each, table, depth) for each in (value.start, value.stop, value.step))]


def _write_deque(value: Any, table: ReferenceTable, depth: int) -> Any:
    return ["dq", value.maxlen, *(encode(each, table, depth) for each in value)]


def _write_default(value: Any, table: ReferenceTable, depth: int) -> Any:
    return ["dd", encode(value.default_factory, table, depth), *_write_pairs("")(value, table, depth)[1:]]


def _write_zone(value: Any, _table: ReferenceTable, _depth: int) -> Any:
    offset = value.utcoffset(None)
    return ["tz", offset.days, offset.seconds, offset.microseconds]


_WRITERS: Final[dict[type, Callable[[Any, ReferenceTable, int], Any]]] = {
    list: _write_each("l"),
    tuple: _write_each("t"),
    dict: _write_pairs("d"),
    set: _write_each("s"),
    frozenset: _write_each("z"),
    bytes: _write_text("b", lambda value: value.decode("latin-1")),
    bytearray: _write_text("ba", lambda value: value.decode("latin-1")),
    complex: lambda value, _table, _depth: ["c", repr(value.real), repr(value.imag)],
    range: _write_range,
    slice: _write_slice,
    collections.OrderedDict: _write_pairs("od"),
    collections.Counter: _write_pairs("ct"),
    collections.deque: _write_deque,
    collections.defaultdict: _write_default,
    _DATETIME: _write_time,
    dt.time: _write_time,
    _DATE: _write_text("da", lambda value: value.isoformat()),
    dt.timedelta: lambda value, _table, _depth: ["td", value.days, value.seconds, value.microseconds],
    dt.timezone: _write_zone,
    decimal.Decimal: _write_text("de", str),
    fractions.Fraction: lambda value, _table, _depth: ["fr", hex(value.numerator), hex(value.denominator)],
    uuid.UUID: _write_text("u", lambda value: value.hex),
    pathlib.PosixPath: _write_text("p", str),
    pathlib.PurePosixPath: _write_text("pp", str),
    re.Pattern: lambda value, table, depth: ["re", encode(value.pattern, table, depth), value.flags],
    argparse.Namespace: lambda value, table, depth: ["ns", *_write_pairs("")(vars(value), table, depth)[1:]],
    types.SimpleNamespace: lambda value, table, depth: ["sn", *_write_pairs("")(vars(value), table, depth)[1:]],
    types.EllipsisType: lambda _value, _table, _depth: ["el"],
    types.NotImplementedType: lambda _value, _table, _depth: ["ni"],
}


def _read_each(make: Callable[[Any], Any]) -> Callable[[list[Any], ReferenceTable, int], Any]:
    return lambda data, table, depth: make([decode(each, table, depth) for each in data[1:]])


def _read_pairs(data: list[Any], table: ReferenceTable, depth: int, start: int = 1) -> dict[Any, Any]:
    if (len(data) - start) % 2:
        raise WireError("a key without a value")
    values = [decode(each, table, depth) for each in data[start:]]
    return dict(zip(values[::2], values[1::2], strict=True))


def _text(data: list[Any], size: int = 2) -> str:
    if len(data) != size or type(data[1]) is not str:
        raise WireError("a malformed text")
    return data[1]


def _numbers(data: list[Any], count: int) -> list[int]:
    if len(data) != count + 1 or any(type(each) is not int for each in data[1:]):
        raise WireError("malformed numbers")
    return data[1:]


def _read_whole(data: list[Any], _table: ReferenceTable, _depth: int) -> int:
    return int(_text(data), 16)


def _read_float(data: list[Any], _table: ReferenceTable, _depth: int) -> float:
    if _text(data) not in {"nan", "inf", "-inf"}:
        raise WireError("a malformed number")
    return float(data[1])


def _read_complex(data: list[Any], _table: ReferenceTable, _depth: int) -> complex:
    _text(data, 3)
    return complex(float(data[1]), float(data[2]))


def _read_time(data: list[Any], _table: ReferenceTable, _depth: int) -> object:
    made = (_DATETIME if data[0] == "dt" else dt.time).fromisoformat(_text(data, 3))
    return made.replace(fold=1 if data[2] else 0)


def _read_span(data: list[Any], table: ReferenceTable, depth: int) -> list[Any]:
    if len(data) != 4:
        raise WireError("a malformed range")
    return [decode(each, table, depth) for each in data[1:]]


def _read_deque(data: list[Any], table: ReferenceTable, depth: int) -> object:
    longest = data[1]
    if longest is not None and type(longest) is not int:
        raise WireError("a malformed length")
    return collections.deque((decode(each, table, depth) for each in data[2:]), longest)


def _read_default(data: list[Any], table: ReferenceTable, depth: int) -> object:
    return collections.defaultdict(decode(data[1], table, depth), _read_pairs(data, table, depth, 2))


def _read_pattern(data: list[Any], table: ReferenceTable, depth: int) -> object:
    return re.compile(decode(data[1], table, depth), data[2] & ~re.DEBUG)


def _read_member(data: list[Any], _table: ReferenceTable, _depth: int) -> object:
    _, module, name, member = data
    kind = _ENUMS.get((module, name))
    if kind is None:
        raise WireError("an unknown enumeration")
    return kind[member]


_ENUM_MODULES: Final = frozenset({"re", "http", "signal", "socket", "uuid", "enum", "logging"})
_ENUMS: Final[dict[tuple[str, str], Any]] = {("re", "RegexFlag"): re.RegexFlag, ("uuid", "SafeUUID"): uuid.SafeUUID}
_READERS: Final[dict[str, Callable[[list[Any], ReferenceTable, int], Any]]] = {
    "i": _read_whole,
    "f": _read_float,
    "l": _read_each(list),
    "t": _read_each(tuple),
    "s": _read_each(set),
    "z": _read_each(frozenset),
    "d": _read_pairs,
    "od": lambda data, table, depth: collections.OrderedDict(_read_pairs(data, table, depth)),
    "ct": lambda data, table, depth: collections.Counter(_read_pairs(data, table, depth)),
    "dq": _read_deque,
    "dd": _read_default,
    "b": lambda data, _table, _depth: _text(data).encode("latin-1"),
    "ba": lambda data, _table, _depth: bytearray(_text(data).encode("latin-1")),
    "c": _read_complex,
    "r": lambda data, table, depth: range(*_read_span(data, table, depth)),
    "sl": lambda data, table, depth: slice(*_read_span(data, table, depth)),
    "dt": _read_time,
    "tm": _read_time,
    "da": lambda data, _table, _depth: _DATE.fromisoformat(_text(data)),
    "td": lambda data, _table, _depth: dt.timedelta(*_numbers(data, 3)),
    "tz": lambda data, _table, _depth: dt.timezone(dt.timedelta(*_numbers(data, 3))),
    "de": lambda data, _table, _depth: decimal.Decimal(_text(data)),
    "fr": lambda data, _table, _depth: fractions.Fraction(int(_text(data, 3), 16), int(data[2], 16)),
    "u": lambda data, _table, _depth: uuid.UUID(hex=_text(data)),
    "p": lambda data, _table, _depth: pathlib.PosixPath(_text(data)),
    "pp": lambda data, _table, _depth: pathlib.PurePosixPath(_text(data)),
    "re": _read_pattern,
    "e": _read_member,
    "ns": lambda data, table, depth: argparse.Namespace(**_read_pairs(data, table, depth)),
    "sn": lambda data, table, depth: types.SimpleNamespace(**_read_pairs(data, table, depth)),
    "el": lambda _data, _table, _depth: ...,
    "ni": lambda _data, _table, _depth: NotImplemented,
}

_dumps: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_loads: Final = json.JSONDecoder().decode


def pack(message: list[Any]) -> bytes:
    """Pack an encoded message into a frame. Raises WireError if it is too large."""
    try:
        data = _dumps(message).encode("ascii")
    except (RecursionError, ValueError, TypeError) as error:
        raise WireError(f"the message cannot be written: {error}") from error
    if len(data) > LARGEST:
        raise WireError("the message is too large")
    return len(data).to_bytes(_HEADER, "big") + data


def unpack(data: bytes) -> list[Any]:
    """Read the content of a frame: a list. Raises WireError for anything else."""
    try:
        message = _loads(data.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise WireError(f"not a message: {error}") from error
    if type(message) is not list or not message:
        raise WireError("a message that is not a list")
    return message


class Wire:
    """One end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""

    def send(self, message: list[Any]) -> None:
        """Send a message. Raises WireError if the other side is gone."""
        try:
            self._connection.sendall(pack(message))
        except OSError as error:
            raise WireError(f"the other side is gone: {error}") from error

    def receive(self) -> list[Any]:
        """Wait for a message. Raises WireError if none comes, or what comes is not one."""
        held = self._rest
        size = -1
        while True:
            if size < 0 and len(held) >= _HEADER:
                size = int.from_bytes(held[:_HEADER], "big")
                if size > LARGEST:
                    raise WireError("the message is too large")
            if 0 <= size <= len(held) - _HEADER:
                self._rest = held[_HEADER + size :]
                return unpack(held[_HEADER : _HEADER + size])
            try:
                piece = self._connection.recv(1 << 16 if size < 1 << 16 else 1 << 20)
            except TimeoutError as error:
                raise WireError("the other side is silent") from error
            except OSError as error:
                raise WireError(f"the other side is gone: {error}") from error
            if not piece:
                raise WireError("the other side is gone")
            held += piece

    def close(self) -> None:
        """Close this end."""
        self._connection.close()
