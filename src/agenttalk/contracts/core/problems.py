"""Translates pydantic's errors into problems with a code, a field and a hint."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from agenttalk.contracts.errors import Code, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import ValidationError


def problems_of(error: ValidationError) -> tuple[Problem, ...]:
    """Return a problem for each error of pydantic. Errors of our own types have a code already."""
    return tuple(
        _problem(fault["type"], fault["loc"], fault["msg"], fault["input"])
        for fault in error.errors(include_url=False, include_context=False)
    )


def without_fields(document: object, locations: Iterable[tuple[int | str, ...]]) -> object:
    """Return a copy of a document without the fields at these places. Items of arrays keep their places."""
    copy = _copied(document)
    for loc in locations:
        *path, last = _without_tags(loc)
        holder: Any = copy
        for part in path:
            inside = isinstance(holder, dict | list) and (part in holder if isinstance(holder, dict) else True)
            holder = holder[part] if inside else None
        if isinstance(holder, dict) and not (path and path[-1] in _MAPS):
            holder.pop(last, None)
    return copy


def find_nearest(name: str, known: Iterable[str], *, cutoff: float = 0.75) -> str | None:
    """Return the known name that a misspelt one probably means, if one is close."""
    # Very long names are not typing mistakes, and comparing them would take long.
    matches = get_close_matches(name[:80].lower(), known, n=1, cutoff=cutoff)
    return matches[0] if matches else None


def field_path(loc: Iterable[int | str]) -> str:
    """Format `("a", 0, "b")` as `a[0].b`."""
    path = ""
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
    return path


def _problem(kind: str, loc: tuple[int | str, ...], message: str, value: object) -> Problem:
    field = field_path(_without_tags(loc))
    if kind in Code.__members__:
        hint = HINTS[Code(kind)] if Code(kind) in HINTS else f"it is {_shown(value)}"
        return Problem(code=Code(kind), field=field, message=message, hint=hint)
    if kind == "missing":
        near = _misspelt(str(loc[-1]), value)
        hint = f"{near!r} is given: did you mean {loc[-1]!r}?" if near else "add it"
        return Problem(code=Code.FIELD_MISSING, field=field, message="this field is required", hint=hint)
    code = Code.FIELD_TYPE if _is_type_fault(kind) else Code.FIELD_VALUE
    return Problem(
        code=code,
        field=field,
        message=_WORDS.get(kind) or _COUNTED.sub(r"must have \1\2", message[:1].lower() + message[1:]),
        hint=f"it is {_shown(value)}",
    )


_MAPS = frozenset({"thresholds", "env"})
"""Fields whose keys are names of the author: a null in them is a wrong value, not a missing field."""
_WORDS = {
    "tuple_type": "must be an array",
    "list_type": "must be an array",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
}
"""JSON's words for pydantic's Python words."""
_COUNTED = re.compile(r"^(?:tuple|list|dictionary|set) should have (.*?)(?: after validation)?(, not .*)?$")
HINTS: dict[Code, str] = {
    Code.ID_INVALID: "use letters, digits, '_', '-' and single dots, at most 128 characters",
    Code.HASH_INVALID: "write sha256: and 64 lowercase hex digits",
    Code.TIME_INVALID: "write UTC such as 2026-01-31T09:30:00Z",
    Code.PATH_OUTSIDE_FOLDER: "use a relative path with '/' inside the folder: no '..', '.', '\\' or empty parts",
    Code.SCHEMA_VERSION_UNSUPPORTED: "upgrade AgentTalk, or have the sender write a supported version",
    Code.FIELD_SPELLED_TWICE: "keep one of the two",
    Code.COMMAND_ENVELOPE_MISMATCH: "make the envelope again from the command",
    Code.COMMAND_SEQ_INVALID_FORMAT: "end it in _ and at least three digits, such as _001",
}


def _is_type_fault(kind: str) -> bool:
    return kind.endswith("_type") or kind in {"is_instance_of", "string_unicode", "invalid_key"}


def _without_tags(loc: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Remove the member of a tagged union from pydantic's path: the document has no such level."""
    kept = list(loc)
    for at in range(len(loc) - 1, 1, -1):
        if loc[at - 1] == "selector" or (loc[at - 2] == "checks" and isinstance(loc[at - 1], int)):
            del kept[at]
    return tuple(kept)


def _copied(value: object) -> object:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list | tuple) else value


def _misspelt(name: str, document: object) -> str | None:
    names = [key for key in document if isinstance(key, str) and len(key) <= 80] if isinstance(document, dict) else []
    return find_nearest(name, names, cutoff=0.8)


def _shown(value: object) -> str:
    if isinstance(value, dict | list | tuple):
        return "an object" if isinstance(value, dict) else "an array"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
