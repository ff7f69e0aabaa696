"""Checks whether the bytes of a file fit its media type."""

from __future__ import annotations

from typing import Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import JsonError
from agenttalk.rules.text import check_words

_BEGINNINGS: Final[dict[str, tuple[bytes, ...]]] = {
    "application/gzip": (b"\x1f\x8b",),
    "application/pdf": (b"%PDF-",),
    "application/zip": (b"PK\x03\x04", b"PK\x05\x06"),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/png": (b"\x89PNG\r\n\x1a\n",),
}
_TEXTS: Final = frozenset({"application/javascript", "application/toml", "application/xml", "application/yaml"})


def explain_mismatch(content_type: str, data: bytes) -> str | None:
    """Explain why a content cannot have a media type. None if it can, or if the type is unknown."""
    kind = content_type.partition(";")[0].strip().lower()
    beginnings = _BEGINNINGS.get(kind)
    if beginnings is not None:
        return None if data.startswith(beginnings) else check_words.OTHER_BEGINNING(what="", kind=kind)
    if kind == "application/json" or kind.endswith("+json"):
        return _json_fault(data)
    if kind.startswith("text/") or kind in _TEXTS or kind.endswith(("+xml", "+yaml")):
        return _text_fault(data)
    return None


def _json_fault(data: bytes) -> str | None:
    try:
        wire.read(data, limit=wire.DOCUMENT_LIMIT)
    except JsonError as error:
        return check_words.NOT_JSON(what="", error=error.message)
    return None


def _text_fault(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return check_words.NOT_UTF8(what="", at=error.start)
    return check_words.ZERO_BYTE(what="") if "\0" in text else None
