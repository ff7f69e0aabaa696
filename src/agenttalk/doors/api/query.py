"""Query parameters of an address: known names, numbers, flags, and the position of a page."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from starlette.requests import Request

from agenttalk.contracts.core.problems import find_nearest
from agenttalk.contracts.errors import Code, UsageError

_DIGITS: Final = 18


def require_known_names(request: Request, known: Collection[str]) -> None:
    """Raise UsageError for a name that is not known: a misspelt filter would filter nothing."""
    unknown = sorted(set(request.query_params) - set(known))
    if unknown:
        near = find_nearest(unknown[0], known)
        hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(known) or 'none'}"
        raise UsageError(Code.FIELD_UNKNOWN, f"there is no filter {unknown[0][:40]!r}", hint=hint)


def read_page_position(request: Request, usual: int) -> tuple[str, int]:
    """Return where a page of a list begins, and its size: `usual` by default."""
    query = request.query_params
    return query.get("after", ""), read_number(query, "limit") or usual


def read_flag(query: Mapping[str, str], name: str) -> bool:
    """Return whether a parameter is `true`. Raises UsageError when it is neither that nor `false`."""
    text = query.get(name, "")
    if text not in {"", "true", "false"}:
        raise UsageError(Code.FIELD_VALUE, f"{name} must be true or false", hint=f"it is {text[:40]!r}")
    return text == "true"


def read_number(query: Mapping[str, str], name: str, default: int = 0) -> int:
    """Return a number. Raises UsageError when the parameter is not one."""
    text = query.get(name, "")
    if not text:
        return default
    if text.isascii() and text.isdecimal() and len(text) < _DIGITS:
        return int(text)
    hint = "for the next page give 'next' of the page before"
    raise UsageError(Code.FIELD_VALUE, f"{name} must be a number from 0 on", hint=hint)
