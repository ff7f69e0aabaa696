"""What people hand in on the command line: files, standard input, and key=value pairs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from agenttalk.contracts import wire
from agenttalk.errors import Code, JsonError, MachineError, UsageError
from agenttalk.mailbox import fsio


def read_json(source: str, *, limit: int = wire.ENVELOPE_LIMIT) -> wire.JsonValue:
    """JSON from a file, or from standard input for `-`; errors name the source."""
    if source == "-":
        data = sys.stdin.buffer.read(limit + 1)
    else:
        try:
            # Resolved first: the user may well hand us a symlink of his own.
            data = fsio.read_file(Path(source).resolve(), limit=limit)
        except MachineError as error:
            inline = source.lstrip().startswith("{")
            hint = "to give JSON directly, pipe it in and write - for the file" if inline else error.hint
            raise UsageError(error.code, error.message, hint=hint) from error
    try:
        return wire.read(data, limit=limit)
    except JsonError as error:
        name = "standard input" if source == "-" else source
        raise JsonError(error.code, f"{name}: {error.message}", hint=error.hint) from error


def read_pairs(pairs: list[str]) -> dict[str, Any]:
    """`key=value` pairs; a dot goes one level down, and a value that is a JSON array or object is read as such."""
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
                raise UsageError(Code.OPTION_INVALID, f"{path!r} lies inside a value", hint="give one or the other")
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
        return text  # a text that happens to begin with a bracket
