"""A content that is not what its media type says is told apart."""

from __future__ import annotations

import pytest

from agenttalk.rules.core.media_types import explain_mismatch


@pytest.mark.parametrize(
    ("content_type", "data"),
    [
        ("application/json", b'{"a": 1}'),
        ("application/ld+json; charset=utf-8", b"[]"),
        ("text/markdown", "# Größe\n".encode()),
        ("image/svg+xml", b"<svg/>"),
        ("application/yaml", b"a: 1"),
        ("IMAGE/PNG", b"\x89PNG\r\n\x1a\n...."),
        ("application/zip", b"PK\x05\x06"),
        ("application/x-of-our-own", b"\xff\x00"),
        ("text/plain", b""),
    ],
)
def test_what_fits_is_not_complained_of(content_type: str, data: bytes) -> None:
    assert explain_mismatch(content_type, data) is None


@pytest.mark.parametrize(
    ("content_type", "data", "why"),
    [
        ("application/json", b"", "is not JSON"),
        ("application/json", b'{"a": NaN}', "is not JSON"),
        ("application/geo+json", b"{", "is not JSON"),
        ("text/csv", b"a;\xff", "is not text in UTF-8: byte 2 is wrong"),
        ("text/plain", b"a\0b", "contains a zero byte"),
        ("application/xml", b"\xff\xfe<", "is not text"),
        ("image/png", b"<html>", "does not begin like image/png"),
        ("application/pdf", b"", "does not begin like application/pdf"),
    ],
)
def test_what_does_not_fit_is_named(content_type: str, data: bytes, why: str) -> None:
    assert (explain_mismatch(content_type, data) or "").startswith(why)
