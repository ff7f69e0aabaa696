"""Where a list was left off, as a text that whoever reads on gives back."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, JsonError, UsageError


def encode(place: Any) -> str:
    """A place, as a text."""
    return base64.urlsafe_b64encode(wire.write(place)).decode().rstrip("=")


def decode(text: str) -> Any:
    """The place that a text says; None where it says none."""
    try:
        return wire.read(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (binascii.Error, ValueError, JsonError):
        return None


def make_cursor_error() -> UsageError:
    """What is said to a text that is no place in a list."""
    return UsageError(Code.FIELD_VALUE, "this is no place in the list", hint="give what 'next' of the page before said")
