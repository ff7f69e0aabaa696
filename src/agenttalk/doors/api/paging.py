"""What an address says after its question mark: filters that are known, places, and how many at once."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from agenttalk.contracts.core.problems import find_nearest
from agenttalk.contracts.errors import Code, UsageError

_DIGITS: Final = 18


def read_filters(request: Request, *known: str) -> dict[str, str]:
    """What was asked for. Raises UsageError for a name that nobody knows: a misspelt filter would filter nothing."""
    said = dict(request.query_params)
    strange = sorted(set(said) - set(known))
    if strange:
        near = find_nearest(strange[0], known)
        hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(known) or 'none'}"
        raise UsageError(Code.FIELD_UNKNOWN, f"there is no filter {strange[0][:40]!r}", hint=hint)
    return said


def read_page_position(request: Request, usual: int) -> tuple[str, int]:
    """Where a page of a list begins, and how many are wanted of it: `usual` where nothing is said."""
    said = read_filters(request, "after", "limit")
    return said.get("after", ""), read_number(said, "limit") or usual


def read_flag(said: dict[str, str], name: str) -> bool:
    """Whether one of them is `true`. Raises UsageError when it is neither that nor `false`."""
    text = said.get(name, "")
    if text not in {"", "true", "false"}:
        raise UsageError(Code.FIELD_VALUE, f"{name} is true or false", hint=f"it is {text[:40]!r}")
    return text == "true"


def read_number(said: dict[str, str], name: str, default: int = 0) -> int:
    """A number of them. Raises UsageError when it is none."""
    text = said.get(name, "")
    if not text:
        return default
    if text.isascii() and text.isdecimal() and len(text) < _DIGITS:
        return int(text)
    raise UsageError(Code.FIELD_VALUE, f"{name} is a number from 0 on", hint="give what 'next' of the page before said")
