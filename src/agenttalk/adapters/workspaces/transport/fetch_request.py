"""Reads what `git fetch` asks upload-pack for, and leaves of it only what one commit allows. Pure.

git itself answers more than it advertises: a delta can be made against any commit that the other side says it has, and
so shows what is in that commit. Therefore a request names our commit and no other, and commits that the other side has
count only if our commit leads to them.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from agenttalk.contracts.errors import Code, UsageError

MOST_BYTES: Final = 8 * 1024 * 1024
"""Bytes of a request, also when they were compressed."""
MOST_LINES: Final = 20_000
_ID: Final = re.compile(rb"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_CAPABILITIES: Final = re.compile(rb"[ -~]{0,2000}\Z")
_DEPTH: Final = re.compile(rb"[1-9][0-9]{0,9}\Z")
FLUSH: Final = b"0000"


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """What is asked for."""

    capabilities: bytes
    shallow: tuple[str, ...] = ()
    """Commits that the other side has without what leads to them."""
    depth: bytes = b""
    """How many commits are wanted; empty for all."""
    has: tuple[str, ...] = ()
    """Commits that the other side says it has."""
    is_last: bool = False
    """Whether the pack is to be sent now."""

    def write(self, wanted: str, known: Collection[str]) -> bytes:
        """Write the request for one commit; of all others that it names only `known` ones stay."""
        lines = [b"want %s%s" % (wanted.encode(), self.capabilities)]
        lines += [b"shallow %s" % each.encode() for each in self.shallow if each in known]
        lines += [b"deepen %s" % self.depth] if self.depth else []
        asked = b"".join(packet(line + b"\n") for line in lines) + FLUSH
        asked += b"".join(packet(b"have %s\n" % each.encode()) for each in self.has if each in known)
        return asked + (packet(b"done\n") if self.is_last else FLUSH if self.has else b"")


def packet(line: bytes) -> bytes:
    """Write one line as git sends it."""
    return b"%04x%s" % (len(line) + 4, line)


def decompress(data: bytes, coding: str) -> bytes:
    """Return a body without its coding. Raises UsageError for one that is too large, or that is not understood."""
    if coding in {"", "identity"}:
        return data
    if coding not in {"gzip", "x-gzip"}:
        raise _refused(f"the coding {coding[:40]!r} is not known")
    stream = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        whole = stream.decompress(data, MOST_BYTES + 1)
    except zlib.error as error:
        raise _refused("the body is not compressed as it says") from error
    if len(whole) > MOST_BYTES:
        raise _refused(f"the body has more than {MOST_BYTES:,} bytes")
    if not stream.eof or stream.unused_data:
        raise _refused("the body does not end where it should")
    return whole


def read_fetch_request(data: bytes, wanted: str) -> FetchRequest:
    """Read a request of git's protocol, version 0. Raises UsageError when it wants anything but one commit."""
    parts: list[list[bytes]] = [[]]
    for line in _lines(data):
        if line is None:
            parts.append([])
        else:
            parts[-1].append(line.rstrip(b"\n"))
    if len(parts) == 1 or not parts[0]:
        raise _refused("it wants nothing")
    wants, *rest = _values(parts[0], b"want")
    first, blank, capabilities = wants.partition(b" ")
    if {first, *rest} != {wanted.encode()}:
        raise _refused("it wants another commit than the base of this attempt")
    if not _CAPABILITIES.match(capabilities):
        raise _refused("its capabilities are not text")
    depths = _values(parts[0], b"deepen")
    has = [line for part in parts[1:] for line in part]
    is_last = has[-1:] == [b"done"]
    _require_words(parts[0], b"want", b"shallow", b"deepen")
    _require_words(has[:-1] if is_last else has, b"have")
    shallow, known = _values(parts[0], b"shallow"), _values(has, b"have")
    if not all(map(_ID.match, (*shallow, *known))) or len(depths) > 1 or not all(map(_DEPTH.match, depths)):
        raise _refused("a line of it has not the form that it should have")
    names = tuple(each.decode() for each in shallow), tuple(each.decode() for each in known)
    return FetchRequest(blank + capabilities, names[0], b"".join(depths), names[1], is_last)


def _values(lines: list[bytes], word: bytes) -> list[bytes]:
    return [line.removeprefix(word + b" ") for line in lines if line.startswith(word + b" ")] or (
        [b""] if word == b"want" else []
    )


def _require_words(lines: list[bytes], *words: bytes) -> None:
    for line in lines:
        word = line.partition(b" ")[0]
        if word not in words:
            raise _refused(f"{word[:20].decode('latin-1')!r} is not served here")


def _lines(data: bytes) -> Iterator[bytes | None]:
    """Read the lines of a body; None for a flush."""
    at = count = 0
    while at < len(data):
        head = data[at : at + 4]
        if len(head) < 4 or not re.fullmatch(rb"[0-9a-fA-F]{4}", head):
            raise _refused("it is not made of lines of git's protocol")
        size, count = int(head, 16), count + 1
        if count > MOST_LINES:
            raise _refused(f"it has more than {MOST_LINES:,} lines")
        if size == 0:
            yield None
            at += 4
            continue
        if size <= 4 or at + size > len(data):
            raise _refused("a line of it is cut off")
        yield data[at + 4 : at + size]
        at += size


def _refused(why: str) -> UsageError:
    hint = "fetch the address and the commit of the claim's answer, with git's protocol version 0"
    return UsageError(Code.FETCH_REFUSED, f"this is not a fetch that is served: {why}", hint=hint)
