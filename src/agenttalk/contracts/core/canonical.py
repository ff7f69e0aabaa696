"""Writes the canonical text of a part directly from its model: the same as `wire.write(part.as_json())`, but faster.

The set of given fields of a part determines the text around their values: the text of all defaults is the same for
all parts of that shape, and is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring
from math import isfinite
from types import NoneType
from typing import Any, ClassVar, Final, NoReturn, Protocol, TypeAlias

from agenttalk.contracts.core import wire

MOST_SHAPES: Final = 2048
"""How many shapes are cached."""
Shape: TypeAlias = Callable[[dict[str, Any]], str]
"""Writes the values of parts with the same given fields."""


def write_time(value: datetime) -> str:
    """Return a time as documents write it."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


class WritablePart(Protocol):
    """The attributes of a part that its text needs: `base.Part` has them."""

    _omitted: ClassVar[frozenset[str]]

    @property
    def __pydantic_extra__(self) -> dict[str, Any] | None:
        """Fields that its model does not define."""

    @property
    def __pydantic_fields_set__(self) -> set[str]:
        """Fields that were given."""

    def as_json(self) -> Any:
        """Return the JSON value."""


class _UnusualError(Exception):
    """The value has a type that this module does not write."""


def to_text(part: WritablePart) -> str:
    """Return the canonical text. Raises JsonError for a value that JSON cannot contain."""
    if part.__pydantic_extra__:
        return _slow(part)
    try:
        return _shape(type(part), *part.__pydantic_fields_set__)(part.__dict__)
    except _UnusualError:
        return _without_nulls(part)


def _without_nulls(part: WritablePart) -> str:
    """Write a part with fields that were given as absent."""
    values, omitted = part.__dict__, part._omitted  # noqa: SLF001 - pydantic documents it for this
    given = [name for name in part.__pydantic_fields_set__ if values[name] is not None or name not in omitted]
    try:
        return _shape(type(part), *given)(values)
    except _UnusualError:
        return _slow(part)


def _slow(part: WritablePart) -> str:
    return wire.write(part.as_json()).decode()


@lru_cache(maxsize=MOST_SHAPES)
def _shape(kind: Any, *given: str) -> Shape:
    """Return a function that writes the values of parts with these given fields.

    It is compiled from an expression, as named tuples are, so that a call needs no lookups.
    """
    around = ["{"]
    values: list[str] = []
    for alias, name, field in sorted((field.alias or name, name, field) for name, field in kind.model_fields.items()):
        comma = "," if values or around[0] != "{" else ""
        if name in given:
            around[-1] += f"{comma}{encode_basestring(alias)}:"
            values.append(
                f"{{write(value) if type(value := values[{name!r}]) is str else writers[type(value)](value)}}"
            )
            around.append("")
        elif not field.is_required() and field.default is not None:
            around[-1] += f"{comma}{encode_basestring(alias)}:{_WRITERS[type(field.default)](field.default)}"
    around[-1] += "}"
    texts = {f"text{number}": each for number, each in enumerate(around)}
    pieces = [f"{{{name}}}{value}" for name, value in zip(texts, [*values, ""], strict=True)]
    source = f'lambda values: f"{"".join(pieces)}"'
    shape: Shape = eval(source, {**texts, "write": encode_basestring, "writers": _WRITERS})  # noqa: S307 - names are ours
    return shape


def _array(values: Sequence[Any]) -> str:
    return f"[{','.join([_WRITERS[type(each)](each) for each in values])}]"


def _object(values: dict[Any, Any]) -> str:
    if not all(type(each) is str for each in values):
        raise _UnusualError
    pairs = [(encode_basestring(each), values[each]) for each in sorted(values)]
    return f"{{{','.join([f'{name}:{_WRITERS[type(value)](value)}' for name, value in pairs])}}}"


def _number(value: float) -> str:
    if not isfinite(value):
        raise _UnusualError
    return repr(value)


def _unusual(_: object) -> NoReturn:
    raise _UnusualError


class _Writers(dict[type, Callable[[Any], str]]):
    """The writer of each type. Types of parts are added on first use."""

    def __missing__(self, kind: type) -> Callable[[Any], str]:
        self[kind] = to_text if hasattr(kind, "__pydantic_fields__") else _unusual
        return self[kind]


_WRITERS: Final = _Writers(
    {
        str: encode_basestring,
        tuple: _array,
        list: _array,
        dict: _object,
        bool: {False: "false", True: "true"}.__getitem__,
        int: repr,
        float: _number,
        NoneType: _unusual,  # usually an absent field
        datetime: lambda value: f'"{write_time(value)}"',
    }
)
