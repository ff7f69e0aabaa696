"""Sends files of agents as downloads, never to be displayed by the browser: their content is not trusted."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Final
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

from agenttalk.contracts.errors import Code, MachineError
from agenttalk.doors.pages.diffs import escape_invisible
from agenttalk.doors.pages.page import HEADERS
from agenttalk.ports.storage import Blobs

PIECE: Final = 256 * 1024
"""Bytes of a file that are in memory at once."""
PREVIEW: Final = 64 * 1024
"""Bytes of a file that are shown."""
_RANGE: Final = re.compile(r"^bytes=(\d{0,18})-(\d{0,18})$", re.ASCII)
_UNSAFE: Final = re.compile(r'[^\x20-\x7e]|["\\]')


async def respond_with_blob(blobs: Blobs, digest: str, name: str, *, wanted: str = "") -> Response:
    """Send a stored file piece by piece; `wanted` is the requested range of bytes, if there is one."""
    size = await blobs.size(digest)
    headers = {**_headers(name), "Accept-Ranges": "bytes", "ETag": f'"{digest}"'}
    first, last = _range(wanted, size)
    if first > last and size:
        return Response(None, 416, headers={**headers, "Content-Range": f"bytes */{size}"})
    whole = last - first + 1 == size
    headers["Content-Length"] = str(max(0, last - first + 1))
    if not whole:
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
    pieces = _pieces(blobs, digest, first, last, check=whole)
    return StreamingResponse(pieces, 200 if whole else 206, headers=headers, media_type="application/octet-stream")


def respond_with_file(data: bytes, name: str) -> Response:
    """Send bytes in memory as a download."""
    return Response(data, headers=_headers(name), media_type="application/octet-stream")


def respond_with_picture(data: bytes) -> Response:
    """Send a picture that the engine took itself, to be displayed. It never changes, because its hash names it."""
    headers = {**HEADERS, "Content-Security-Policy": "sandbox; default-src 'none'"}
    return Response(
        data, headers={**headers, "Cache-Control": "private, max-age=31536000, immutable"}, media_type="image/png"
    )


def _headers(name: str) -> dict[str, str]:
    quoted = quote(name.encode("utf-8", "replace"), safe="")
    return {
        **HEADERS,
        "Content-Disposition": f"attachment; filename=\"{_UNSAFE.sub('_', name)}\"; filename*=UTF-8''{quoted}",
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }


def _range(said: str, size: int) -> tuple[int, int]:
    """Return the first and last byte of a range: all bytes for an invalid header, none for an impossible range."""
    match = _RANGE.match(said)
    if match is None or match[0] == "bytes=-":
        return 0, size - 1
    if not match[1]:
        many = min(int(match[2]), size)
        return (size - many, size - 1) if many else (1, 0)
    first = int(match[1])
    last = min(int(match[2]), size - 1) if match[2] else size - 1
    return (first, last) if first <= last else (1, 0)


async def _pieces(blobs: Blobs, digest: str, first: int, last: int, *, check: bool) -> AsyncIterator[bytes]:
    """Yield the bytes. If they do not match the hash, the answer stays incomplete, so that no client accepts it."""
    hasher = sha256()
    place = first
    while place <= last:
        piece = await blobs.read_piece(digest, place, min(PIECE, last - place + 1))
        place += len(piece)
        hasher.update(piece)
        if not piece or (place > last and check and f"sha256:{hasher.hexdigest()}" != digest):
            raise MachineError(Code.STORE_DAMAGED, f"the content stored as {digest} has another hash, or is cut off")
        yield piece


def decode_text(data: bytes, *, cut: bool = False) -> str | None:
    """Decode a text file with invisible characters escaped; `cut` says that `data` is only its beginning."""
    if b"\0" in data:
        return None
    try:
        return escape_invisible(data.decode())
    except UnicodeDecodeError as error:
        # The end may be in the middle of a character.
        return escape_invisible(data[: error.start].decode()) if cut and len(data) - error.start < 4 else None
