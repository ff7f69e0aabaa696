"""Adds an entry of ours to a file that people write. Their text stays unchanged, or the file is not touched."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_INDENTS: Final[tuple[int | str | None, ...]] = (2, 4, "\t", 3, 1, 8, None)
BEGIN: Final = "<!-- agenttalk:begin -->"
END: Final = "<!-- agenttalk:end -->"


@dataclass(frozen=True, slots=True)
class ConfigMergeResult:
    """The result of a merge."""

    text: str | None = None
    """The new content of the file. None if it stays as it is."""
    why: str = ""
    """Why the entry could not be added. Empty if it was added or is there already."""


ALREADY_THERE: Final = ConfigMergeResult()
"""The entry is there already."""


def merge_into_json(
    text: str | None, path: Sequence[str], value: Any, *, first: Mapping[str, Any] | None = None
) -> ConfigMergeResult:
    """Put a value at a path of keys into a JSON object, unless the path has a value.

    A missing file is made, with the fields of `first` at its top. A file whose layout or comments we could not
    reproduce exactly is not touched.
    """
    if text is None or not text.strip():
        return ConfigMergeResult(json.dumps(_with({**(first or {})}, path, value), indent=2, ensure_ascii=False) + "\n")
    try:
        document = json.loads(text, object_pairs_hook=_once)
    except ValueError as error:
        return ConfigMergeResult(why=f"it is not plain JSON: {error}")
    if not isinstance(document, dict):
        return ConfigMergeResult(why="it is not a JSON object")
    holder: Any = document
    for key in path[:-1]:
        holder = holder.get(key, {})
        if not isinstance(holder, dict):
            return ConfigMergeResult(why=f"{key!r} is not an object in it")
    if path[-1] in holder:
        return ALREADY_THERE
    for indent, separators, ascii_only, end in _layouts():
        if json.dumps(document, indent=indent, separators=separators, ensure_ascii=ascii_only) + end == text:
            new = _with(document, path, value)
            return ConfigMergeResult(
                json.dumps(new, indent=indent, separators=separators, ensure_ascii=ascii_only) + end
            )
    return ConfigMergeResult(why="writing it anew would change its layout")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("it has a key twice")
    return fields


def _layouts() -> Iterator[tuple[int | str | None, tuple[str, str] | None, bool, str]]:
    """Yield the layouts of JSON that people and their tools use."""
    for indent in _INDENTS:
        for separators in (None, (",", ":")):
            for ascii_only in (False, True):
                for end in ("\n", ""):
                    yield indent, separators, ascii_only, end


def _with(document: dict[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    key, *rest = path
    return {**document, key: _with(document.get(key, {}), rest, value) if rest else value}


def merge_into_toml(text: str | None, path: Sequence[str], block: str) -> ConfigMergeResult:
    """Append a block with the table of a path to a TOML file, unless the table exists."""
    before = text or ""
    try:
        document: Any = tomllib.loads(before)
    except tomllib.TOMLDecodeError as error:
        return ConfigMergeResult(why=f"it is not TOML: {error}")
    holder: Any = document
    for key in path:
        if not isinstance(holder, dict):
            return ConfigMergeResult(why=f"{key!r} cannot be added to it")
        holder = holder.get(key)
        if holder is None:
            break
    else:
        return ALREADY_THERE
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    new = f"{before}{gap}{block}"
    try:
        after = tomllib.loads(new)
    except tomllib.TOMLDecodeError:  # an inline table of the same name allows no further table
        return ConfigMergeResult(why="a table cannot be added at its end")
    return (
        ConfigMergeResult(new)
        if _is_preserved(document, after)
        else ConfigMergeResult(why="a table at its end would change its other values")
    )


def _is_preserved(before: Any, after: Any) -> bool:
    """Whether all values of `before` are in `after`, unchanged."""
    if isinstance(before, dict):
        return isinstance(after, dict) and all(
            key in after and _is_preserved(value, after[key]) for key, value in before.items()
        )
    return bool(before == after)


def merge_into_text(text: str | None, paragraph: str) -> ConfigMergeResult:
    """Append a paragraph between marks to a text, unless the text has the mark."""
    before = text or ""
    if BEGIN in before:
        return ALREADY_THERE
    gap = "" if not before.strip() else "\n" if before.endswith("\n") else "\n\n"
    return ConfigMergeResult(f"{before}{gap}{BEGIN}\n{paragraph.strip()}\n{END}\n")
