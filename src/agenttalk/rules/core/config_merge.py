"""Adds an entry of ours to a file that people write, and takes it out again.

Their text stays unchanged, or the file is not touched.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from agenttalk.rules.text import cli_words

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
"""Nothing is to be done: the entry is there already, or gone already."""


class _Layout(NamedTuple):
    """How a JSON file is written."""

    indent: int | str | None
    separators: tuple[str, str] | None
    ascii_only: bool
    end: str


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
        return ConfigMergeResult(why=cli_words.OBSTACLES["not_json"](error=str(error)))
    if not isinstance(document, dict):
        return ConfigMergeResult(why=cli_words.OBSTACLES["not_object"]())
    holder: Any = document
    for key in path[:-1]:
        holder = holder.get(key, {})
        if not isinstance(holder, dict):
            return ConfigMergeResult(why=cli_words.OBSTACLES["no_object_in_it"](key=key))
    if path[-1] in holder:
        return ALREADY_THERE
    layout = _layout_of(document, text)
    if layout is None:
        return ConfigMergeResult(why=cli_words.OBSTACLES["layout"]())
    return ConfigMergeResult(_write_json(_with(document, path, value), layout))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("it has a key twice")
    return fields


def _layout_of(document: Any, text: str) -> _Layout | None:
    """Find the layout in which a document gives exactly a text; None if it is another one."""
    return next((layout for layout in _layouts() if _write_json(document, layout) == text), None)


def _write_json(document: Any, layout: _Layout) -> str:
    text = json.dumps(document, indent=layout.indent, separators=layout.separators, ensure_ascii=layout.ascii_only)
    return text + layout.end


def _layouts() -> Iterator[_Layout]:
    """Yield the layouts of JSON that people and their tools use."""
    for indent in _INDENTS:
        for separators in (None, (",", ":")):
            for ascii_only in (False, True):
                for end in ("\n", ""):
                    yield _Layout(indent, separators, ascii_only, end)


def _with(document: dict[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    key, *rest = path
    return {**document, key: _with(document.get(key, {}), rest, value) if rest else value}


def merge_into_toml(text: str | None, path: Sequence[str], block: str) -> ConfigMergeResult:
    """Append a block with the table of a path to a TOML file, unless the table exists."""
    before = text or ""
    try:
        document: Any = tomllib.loads(before)
    except tomllib.TOMLDecodeError as error:
        return ConfigMergeResult(why=cli_words.OBSTACLES["not_toml"](error=str(error)))
    holder: Any = document
    for key in path:
        if not isinstance(holder, dict):
            return ConfigMergeResult(why=cli_words.OBSTACLES["no_table"](key=key))
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
        return ConfigMergeResult(why=cli_words.OBSTACLES["no_end"]())
    return (
        ConfigMergeResult(new)
        if _is_preserved(document, after)
        else ConfigMergeResult(why=cli_words.OBSTACLES["other_values"]())
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


def remove_from_json(
    text: str, path: Sequence[str], value: Any, *, held: int = 0, first: Mapping[str, Any] | None = None
) -> ConfigMergeResult:
    """Take our value at a path out of a JSON object, and the objects on the way to it that are empty then.

    The first `held` keys of the path were there before, and stay. A value that is not ours any more stays, and so does
    a file whose layout we could not reproduce. A document of which only `first` is left gives an empty text.
    """
    try:
        document = json.loads(text, object_pairs_hook=_once)
    except ValueError as error:
        return ConfigMergeResult(why=cli_words.OBSTACLES["not_json"](error=str(error)))
    holders: list[Any] = [document]
    for key in path:
        if not isinstance(holders[-1], dict) or key not in holders[-1]:
            return ALREADY_THERE
        holders.append(holders[-1][key])
    if holders[-1] != value:
        return ConfigMergeResult(why=cli_words.OBSTACLES["entry_changed"](key=path[-1]))
    layout = _layout_of(document, text)
    if layout is None:
        return ConfigMergeResult(why=cli_words.OBSTACLES["layout"]())
    for depth in range(len(path), 0, -1):
        if depth == len(path) or (not holders[depth] and depth > held):
            del holders[depth - 1][path[depth - 1]]
    return ConfigMergeResult(_write_json(document, layout) if document and document != first else "")


def remove_from_text(text: str, piece: str) -> ConfigMergeResult:
    """Take a piece of ours out of a text, unless it was changed or is there twice."""
    count = text.count(piece)
    if count != 1:
        return ConfigMergeResult(
            why=cli_words.OBSTACLES["piece_changed"]() if count == 0 else cli_words.OBSTACLES["piece_twice"]()
        )
    return ConfigMergeResult(text.replace(piece, ""))
