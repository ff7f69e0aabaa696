"""Adding something of ours to a file that people write: their words stay to the letter, or it is left alone."""

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
    """What becomes of a file."""

    text: str | None = None
    """What it says from now on; None when it stays as it is."""
    why: str = ""
    """Why nothing could be added; empty when it was, or is there already."""


ALREADY_THERE: Final = ConfigMergeResult()
"""Nothing has to be done."""


def merge_into_json(
    text: str | None, path: Sequence[str], value: Any, *, first: Mapping[str, Any] | None = None
) -> ConfigMergeResult:
    """Put a value at a path of keys into a JSON object, unless something stands there.

    A file that is not there is made, with what comes `first` in it. One whose layout we could not write again to the
    letter, comments included, is left alone.
    """
    if text is None or not text.strip():
        return ConfigMergeResult(json.dumps(_with({**(first or {})}, path, value), indent=2, ensure_ascii=False) + "\n")
    try:
        said = json.loads(text, object_pairs_hook=_once)
    except ValueError as error:
        return ConfigMergeResult(why=f"it is not plain JSON: {error}")
    if not isinstance(said, dict):
        return ConfigMergeResult(why="it is no JSON object")
    holder: Any = said
    for key in path[:-1]:
        holder = holder.get(key, {})
        if not isinstance(holder, dict):
            return ConfigMergeResult(why=f"{key!r} is no object in it")
    if path[-1] in holder:
        return ALREADY_THERE
    for indent, separators, ascii_only, end in _layouts():
        if json.dumps(said, indent=indent, separators=separators, ensure_ascii=ascii_only) + end == text:
            new = _with(said, path, value)
            return ConfigMergeResult(
                json.dumps(new, indent=indent, separators=separators, ensure_ascii=ascii_only) + end
            )
    return ConfigMergeResult(why="writing it anew would change its layout")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _layouts() -> Iterator[tuple[int | str | None, tuple[str, str] | None, bool, str]]:
    """The ways to lay out JSON that people and their tools use."""
    for indent in _INDENTS:
        for separators in (None, (",", ":")):
            for ascii_only in (False, True):
                for end in ("\n", ""):
                    yield indent, separators, ascii_only, end


def _with(said: dict[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    key, *rest = path
    return {**said, key: _with(said.get(key, {}), rest, value) if rest else value}


def merge_into_toml(text: str | None, path: Sequence[str], block: str) -> ConfigMergeResult:
    """Put a block that makes the table at a path behind everything in a TOML file, unless there is such a table."""
    before = text or ""
    try:
        said: Any = tomllib.loads(before)
    except tomllib.TOMLDecodeError as error:
        return ConfigMergeResult(why=f"it is not TOML: {error}")
    holder: Any = said
    for key in path:
        if not isinstance(holder, dict):
            return ConfigMergeResult(why=f"there is no room for {key!r} in it")
        holder = holder.get(key)
        if holder is None:
            break
    else:
        return ALREADY_THERE
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    new = f"{before}{gap}{block}"
    try:
        after = tomllib.loads(new)
    except tomllib.TOMLDecodeError:  # what stands there excludes tables behind it
        return ConfigMergeResult(why="a table cannot be added behind what it says")
    return (
        ConfigMergeResult(new)
        if _is_preserved(said, after)
        else ConfigMergeResult(why="a table behind what it says would change that")
    )


def _is_preserved(before: Any, after: Any) -> bool:
    """Whether everything that was said is still said."""
    if isinstance(before, dict):
        return isinstance(after, dict) and all(
            key in after and _is_preserved(value, after[key]) for key, value in before.items()
        )
    return bool(before == after)


def merge_into_text(text: str | None, paragraph: str) -> ConfigMergeResult:
    """Put a paragraph between marks behind everything in a text, unless the mark stands there."""
    before = text or ""
    if BEGIN in before:
        return ALREADY_THERE
    gap = "" if not before.strip() else "\n" if before.endswith("\n") else "\n\n"
    return ConfigMergeResult(f"{before}{gap}{BEGIN}\n{paragraph.strip()}\n{END}\n")
