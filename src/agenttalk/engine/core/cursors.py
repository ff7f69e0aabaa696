"""Paging cursors: the place where a list was left off, as a text that the reader gives back."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, JsonError, UsageError


def encode(place: Any) -> str:
    """Write a place as a text."""
    return base64.urlsafe_b64encode(wire.write(place)).decode().rstrip("=")


def decode(text: str) -> Any:
    """Read a place from its text; None if the text is not a cursor."""
    try:
        return wire.read(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (binascii.Error, ValueError, JsonError):
        return None


def make_cursor_error() -> UsageError:
    """Make the error for a text that is not a cursor of a list."""
    return UsageError(Code.FIELD_VALUE, "not a cursor of this list", hint="pass `next` of the previous page")
