"""Encodes spans for OTLP: the body of `/v1/traces` in the binary form of Protocol Buffers.

The few messages are written out here. The numbers are those of the fields in `opentelemetry/proto`, which never change.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from agenttalk.rules.operation.spans import Attribute, Attributes, Span, SpanEvent

CONTENT_TYPE: Final = "application/x-protobuf"
SCOPE: Final = "agenttalk"
_KINDS: Final = {"internal": 1, "client": 3}
_ERROR: Final = 2
_SAMPLED: Final = 1
_LENGTH, _FIXED64, _FIXED32 = 2, 1, 5


def encode_request(spans: Iterable[Span], *, resource: Attributes, version: str) -> bytes:
    """Encode an `ExportTraceServiceRequest` with the spans of a resource."""
    scope = _bytes(1, _text(1, SCOPE) + _text(2, version))
    scoped = scope + b"".join(_bytes(2, _span(each)) for each in spans)
    return _bytes(1, _bytes(1, _attributes(1, resource)) + _bytes(2, scoped))


def read_rejected_count(answer: bytes) -> int:
    """Read from an `ExportTraceServiceResponse` how many spans were rejected; 0 if it does not report it."""
    partial = _field(answer, 1, _LENGTH)
    found = _field(partial, 1, 0) if isinstance(partial, bytes) else 0
    return found if isinstance(found, int) and found < 2**63 else 0


def _field(data: bytes, number: int, kind: int) -> int | bytes:
    """Read the first field of a message, if it has the wanted number."""
    empty: int | bytes = b"" if kind == _LENGTH else 0
    if data[:1] != _key(number, kind):
        return empty
    value, shift, place = 0, 0, 1
    while place < len(data) and shift < 64:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte <= 0x7F:
            return data[place : place + value] if kind == _LENGTH else value
    return empty


def _span(span: Span) -> bytes:
    parent = _bytes(4, bytes.fromhex(span.parent_id)) if span.parent_id else b""
    status = (_text(2, span.why) if span.why else b"") + _varint(3, _ERROR) if span.error else b""
    return b"".join(
        (
            _bytes(1, bytes.fromhex(span.trace_id)),
            _bytes(2, bytes.fromhex(span.span_id)),
            parent,
            _text(5, span.name),
            _varint(6, _KINDS[span.kind]),
            _fixed64(7, span.began),
            _fixed64(8, span.ended),
            _attributes(9, span.attributes),
            *(_bytes(11, _happening(each)) for each in span.happenings),
            _bytes(15, status) if status else b"",
            _key(16, _FIXED32) + struct.pack("<I", _SAMPLED),
        )
    )


def _happening(happening: SpanEvent) -> bytes:
    return _fixed64(1, happening.at) + _text(2, happening.name) + _attributes(3, happening.attributes)


def _attributes(number: int, attributes: Attributes) -> bytes:
    return b"".join(_bytes(number, _text(1, name) + _bytes(2, _value(value))) for name, value in attributes)


def _value(value: Attribute) -> bytes:
    if isinstance(value, bool):
        return _varint(2, int(value))
    if isinstance(value, int):
        return _varint(3, value % 2**64)
    if isinstance(value, float):
        return _key(4, _FIXED64) + struct.pack("<d", value)
    return _text(1, value)


def _text(number: int, text: str) -> bytes:
    return _bytes(number, text.encode("utf-8", "replace"))


def _bytes(number: int, data: bytes) -> bytes:
    return _key(number, _LENGTH) + _number(len(data)) + data


def _varint(number: int, value: int) -> bytes:
    return _key(number, 0) + _number(value)


def _fixed64(number: int, value: int) -> bytes:
    return _key(number, _FIXED64) + struct.pack("<Q", value)


def _key(number: int, kind: int) -> bytes:
    return _number(number << 3 | kind)


def _number(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
