"""Measures a pack before git unpacks it: how many objects it has, and how large they become.

A pack of some kilobytes can stand for many gigabytes, by zlib and by deltas. git would make room for what the pack
says, so a pack that says too much never reaches git.
"""

from __future__ import annotations

import mmap
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agenttalk.contracts.errors import Code, UsageError

_MAGIC: Final = b"PACK\0\0\0\2"
_OFFSET_DELTA, _REF_DELTA, _KINDS = 6, 7, frozenset({1, 2, 3, 4, 6, 7})
_PIECE: Final = 1 << 20
_WINDOW: Final = 4096
_LONGEST: Final = 10
"""Bytes of a number."""


@dataclass(frozen=True, slots=True)
class PackLimits:
    """What a pack may have."""

    packed_bytes: int = 256 * 1024 * 1024
    objects: int = 200_000
    object_bytes: int = 256 * 1024 * 1024
    """Bytes of one object."""
    bytes: int = 2 * 1024 * 1024 * 1024
    """Bytes of all objects, once they are unpacked."""


def measure_pack(path: Path, limits: PackLimits, id_bytes: int) -> int:
    """Return where the objects of a pack end. Raises UsageError for a pack that is broken or too large."""
    size = path.stat().st_size
    if size > limits.packed_bytes:
        raise refuse_pack(f"it has more than {limits.packed_bytes:,} bytes")
    if size < 12 + id_bytes:
        raise refuse_pack("it does not have the form of a pack")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:8] != _MAGIC:
            raise refuse_pack("it does not have the form of a pack")
        count = int.from_bytes(data[8:12], "big")
        if count > limits.objects:
            raise refuse_pack(f"it has more than {limits.objects:,} objects")
        scan = _PackScan(data, size - id_bytes, limits, id_bytes)
        for _ in range(count):
            scan.read_object()
        if scan.at != size - id_bytes:
            raise refuse_pack("something follows its last object")
    return size - id_bytes


def refuse_pack(why: str) -> UsageError:
    """Make the error for a pack that is refused."""
    hint = "hand in one commit on the base of the attempt: git pack-objects --thin makes such a pack"
    return UsageError(Code.PACK_REFUSED, f"this pack is not taken: {why}", hint=hint)


class _PackScan:
    """One pass over the objects of a pack."""

    def __init__(self, data: mmap.mmap, end: int, limits: PackLimits, id_bytes: int) -> None:
        self._data = data
        self._end = end
        self._limits = limits
        self._id_bytes = id_bytes
        self._total = 0
        self.at = 12

    def read_object(self) -> None:
        """Read over one object."""
        byte = self._byte()
        kind, size, shift = byte >> 4 & 7, byte & 15, 4
        while byte & 128:
            byte = self._byte()
            size |= (byte & 127) << shift
            shift += 7
            if shift > 7 * _LONGEST:
                raise refuse_pack("an object has no size")
        if kind not in _KINDS:
            raise refuse_pack("it has an object of an unknown kind")
        if kind == _OFFSET_DELTA:
            while self._byte() & 128:
                pass
        elif kind == _REF_DELTA:
            self.at += self._id_bytes
        self._count(size)
        start = self._inflate(size)
        if kind in {_OFFSET_DELTA, _REF_DELTA}:
            self._count(_result_size(start))

    def _count(self, size: int) -> None:
        self._total += size
        if size > self._limits.object_bytes:
            raise refuse_pack(f"an object has more than {self._limits.object_bytes:,} bytes")
        if self._total > self._limits.bytes:
            raise refuse_pack(f"its objects have more than {self._limits.bytes:,} bytes")

    def _byte(self) -> int:
        if self.at >= self._end:
            raise refuse_pack("it is cut off")
        self.at += 1
        return self._data[self.at - 1]

    def _inflate(self, size: int) -> bytes:
        """Read over a compressed content of a size; return how it begins."""
        stream, made, start, window = zlib.decompressobj(), 0, b"", _WINDOW
        while not stream.eof and made <= size:
            given = stream.unconsumed_tail
            if not given:
                given = self._data[self.at : min(self.at + window, self._end)]
                self.at, window = self.at + len(given), _PIECE
                if not given:
                    raise refuse_pack("it is cut off")
            try:
                piece = stream.decompress(given, _PIECE)
            except zlib.error as error:
                raise refuse_pack("an object cannot be unpacked") from error
            made += len(piece)
            start += piece[: 2 * _LONGEST - len(start)]
        if made != size or not stream.eof:
            raise refuse_pack("an object has another size than it says")
        self.at -= len(stream.unused_data)
        return start


def _result_size(delta: bytes) -> int:
    """Return the size of what a delta makes: the second number of it."""
    at = 0
    found = 0
    for _ in range(2):
        found, shift = 0, 0
        while True:
            if at >= len(delta) or shift > 7 * _LONGEST:
                raise refuse_pack("a delta has no size")
            byte = delta[at]
            at += 1
            found |= (byte & 127) << shift
            shift += 7
            if not byte & 128:
                break
    return found
