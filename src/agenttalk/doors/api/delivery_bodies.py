"""Bodies of deliveries while they come in: signed or refused as they are read, and never much of them in memory.

Who sends them is not known before their end. So what is unfinished is counted, for each source and together, lies on
the disk but for a little, and is refused where it would be more than is set apart for it.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import IO, Final

from agenttalk.contracts.errors import Code, JsonError, MachineError
from agenttalk.ports.forge import DeliverySignature

LARGEST: Final = 25 * 1024 * 1024
"""Bytes of a body; GitHub sends no more either."""
IN_MEMORY: Final = 64 * 1024
"""Bytes of an unfinished body that are kept in memory; more lie on the disk."""
ALL_UNFINISHED: Final = 256 * 1024 * 1024
"""Bytes of all unfinished bodies together."""
OF_ONE_SOURCE: Final = 128 * 1024 * 1024
"""Bytes of the unfinished bodies of one source."""
AT_ONCE: Final = 64
"""Unfinished bodies of one source."""


class DeliveryQuota:
    """What is set apart for bodies that have not come to their end."""

    def __init__(self, folder: Path, *, most: int = ALL_UNFINISHED, each: int = OF_ONE_SOURCE) -> None:
        """`folder` is where they lie meanwhile, under no name."""
        self.folder = folder
        self._most = most
        self._each = each
        self.held: Counter[str] = Counter()
        """Source → bytes of its unfinished bodies."""
        self.open: Counter[str] = Counter()
        """Source → its unfinished bodies."""
        self.peak_memory = 0
        """The most bytes of unfinished bodies that were ever in memory at once."""
        self._memory = 0

    def open_spill_file(self) -> IO[bytes]:
        """Open a file without a name, for bodies that are not kept in memory."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        return tempfile.TemporaryFile(dir=self.folder)

    def begin(self, source: str) -> None:
        """Another body of a source. Raises MachineError when there are too many."""
        if self.open[source] >= AT_ONCE:
            raise _crowded(source)
        self.open[source] += 1

    def reserve(self, source: str, size: int) -> None:
        """Reserve room for more bytes of the body. Raises MachineError when there is no room."""
        if self.held.total() + size > self._most or self.held[source] + size > self._each:
            raise _crowded(source)
        self.held[source] += size

    def count_memory(self, size: int) -> None:
        """Count bytes that are now in memory, or have left it."""
        self._memory += size
        self.peak_memory = max(self.peak_memory, self._memory)

    def release(self, source: str, size: int, memory: int) -> None:
        """End a body: it is complete, or its reader has gone."""
        self.open[source] -= 1
        self.held[source] -= size
        self.count_memory(-memory)


class IncomingBody:
    """One body, as it comes. It has to be closed."""

    def __init__(self, unfinished: DeliveryQuota, source: str, signed: DeliverySignature | None, told: str) -> None:
        """`told` is the length that was announced. Raises JsonError when that is too much."""
        if told.isdecimal() and int(told[:20]) > LARGEST:
            raise _too_large()
        unfinished.begin(source)
        self._unfinished = unfinished
        self._source = source
        self._signed = signed
        self._size = self._memory = 0
        self._first = bytearray()
        self._rest: IO[bytes] | None = None

    def append(self, data: bytes) -> None:
        """More of it. Raises JsonError when it is too large, MachineError when there is no room for it."""
        if self._size + len(data) > LARGEST:
            raise _too_large()
        self._unfinished.reserve(self._source, len(data))
        self._size += len(data)
        if self._signed is not None and not self._signed.in_form:
            self._signed.update(data)
        if self._rest is None and self._size <= IN_MEMORY:
            self._first += data
            self._count_memory(len(data))
            return
        if self._rest is None:
            self._rest = self._unfinished.open_spill_file()
            self._rest.write(self._first)
            self._first.clear()
            self._count_memory(-self._memory)
        self._rest.write(data)

    def find_signature_problem(self) -> str:
        """Return why the complete body is not genuine; empty when it is."""
        if self._signed is None:
            return ""
        if self._signed.in_form:
            self._signed.update(self.read_all())
        return self._signed.verdict()

    def read_all(self) -> bytes:
        """Read the whole body."""
        if self._rest is None:
            return bytes(self._first)
        self._rest.seek(0)
        return self._rest.read()

    def close(self) -> None:
        """Release the body."""
        if self._rest is not None:
            self._rest.close()
        self._unfinished.release(self._source, self._size, self._memory)

    def _count_memory(self, size: int) -> None:
        self._memory += size
        self._unfinished.count_memory(size)


def _crowded(source: str) -> MachineError:
    return MachineError(
        Code.ENGINE_UNREACHABLE,
        f"too much of what {source} sends has not come to its end",
        hint="send it again later; what was missed is found when the forge is looked through",
    )


def _too_large() -> JsonError:
    return JsonError(Code.JSON_TOO_LARGE, f"the request is larger than {LARGEST:,} bytes", hint="send less")
