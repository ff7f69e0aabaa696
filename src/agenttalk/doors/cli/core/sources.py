"""Reads input of the command line: files, standard input, and key=value pairs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, JsonError, UsageError


def read_bytes(source: str, *, limit: int = wire.ENVELOPE_LIMIT) -> bytes:
    """Read a file or, for `-`, standard input; at most one byte more than the limit.

    The user named the file, so it may also be a symlink or a pipe.
    """
    try:
        if source == "-":
            if sys.stdin is None:
                from agenttalk.rules.text.cli_words import ERRORS

                raise UsageError(Code.FILE_UNREADABLE, ERRORS["no_input"](), hint=ERRORS["no_input_hint"]())
            return sys.stdin.buffer.read(limit + 1)
        with Path(source).open("rb") as file:
            return file.read(limit + 1)
    except OSError as error:
        from agenttalk.rules.text.cli_words import ERRORS

        hint = ERRORS["piped_hint"]() if source.lstrip().startswith("{") else ERRORS["unreadable_hint"]()
        message = ERRORS["unreadable"](path=source, why=error.strerror)
        raise UsageError(Code.FILE_UNREADABLE, message, hint=hint) from error


def read_json(source: str, *, limit: int = wire.ENVELOPE_LIMIT) -> wire.JsonValue:
    """Read JSON from a file, or from standard input for `-`. Errors name the source."""
    return parse_json(read_bytes(source, limit=limit), source, limit=limit)


def parse_json(data: bytes, source: str, *, limit: int = wire.ENVELOPE_LIMIT) -> wire.JsonValue:
    """Parse JSON. Errors name the source."""
    try:
        return wire.read(data, limit=limit)
    except JsonError as error:
        name = "standard input" if source == "-" else source
        raise JsonError(error.code, f"{name}: {error.message}", hint=error.hint) from error


def merge_fields(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Merge the fields of two objects, and of the objects in them. Those of `above` win."""
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        result[key] = merge_fields(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return result


def read_pairs(pairs: list[str]) -> dict[str, Any]:
    """Read `key=value` pairs. A dot leads into an object, and a value that is a JSON array or object is parsed."""
    result: dict[str, Any] = {}
    for pair in pairs:
        path, equals, text = pair.partition("=")
        *outer, key = path.split(".")
        if not equals or not all((*outer, key)):
            raise UsageError(Code.OPTION_INVALID, f"{pair!r} is not key=value", hint="write e.g. task_id=task_001")
        holder = result
        for name in outer:
            holder = holder.setdefault(name, {})
            if not isinstance(holder, dict):
                raise UsageError(
                    Code.OPTION_INVALID, f"{path!r} lies inside another value", hint="give only one of the two"
                )
        if key in holder:
            raise UsageError(Code.OPTION_INVALID, f"{path!r} is given twice", hint="give it once")
        holder[key] = _value(text)
    return result


def _value(text: str) -> Any:
    if text[:1] not in {"[", "{"}:
        return text
    try:
        return wire.read(text.encode("utf-8", "surrogatepass"))
    except JsonError:
        return text  # a plain text that begins with a bracket
