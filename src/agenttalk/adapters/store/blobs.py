"""Contents by their hash: small ones in the database, larger ones in files that are synced before they are named."""

from __future__ import annotations

import asyncio
import io
import os
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final

from agenttalk.adapters.store import files
from agenttalk.adapters.store.database import BoardStore
from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import is_hash
from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.ports.statements.core import GET_BLOB, HAS_BLOB, PUT_BLOB
from agenttalk.ports.statements.views import BLOB_PIECE, BLOB_SIZE
from agenttalk.ports.storage import Tx

SMALL: Final = 64 * 1024
"""Up to this size a content lies in the database."""
_CHUNK: Final = 1024 * 1024


def put_small(tx: Tx, data: bytes) -> str:
    """Keep a small content in the same commit as what refers to it."""
    digest = wire.sha256(data)
    tx.run(PUT_BLOB, hash=digest, content=data)
    return digest


class BoardBlobs:
    """The port `Blobs` for a board. Without a folder (PostgreSQL) every content lies in the database."""

    def __init__(self, board: BoardStore, folder: Path | None) -> None:
        self._board = board
        self._folder = folder

    async def put(self, source: bytes | BinaryIO) -> str:
        """Keep it; putting the same twice keeps it once."""
        stream = io.BytesIO(source) if isinstance(source, bytes) else source
        start = await asyncio.to_thread(stream.read, SMALL + 1)
        if len(start) <= SMALL or self._folder is None:
            data = start + await asyncio.to_thread(stream.read)
            return await self._board.transact(lambda tx: put_small(tx, data))
        return await asyncio.to_thread(_write, self._folder, start, stream)

    async def get(self, digest: str) -> bytes:
        """Read it and check it."""
        rows = await self._board.read(GET_BLOB, hash=_checked(digest))
        data = bytes(rows[0].content) if rows else await asyncio.to_thread(self._read_file, digest)
        if wire.sha256(data) != digest:
            raise MachineError(
                Code.STORE_DAMAGED,
                f"the content stored as {digest} has another hash",
                hint="restore it from a backup, or put it in again",
            )
        return data

    async def exists(self, digest: str) -> bool:
        """Look for it, without reading it."""
        if await self._board.read(HAS_BLOB, hash=_checked(digest)):
            return True
        return self._folder is not None and await asyncio.to_thread(blob_path(self._folder, digest).is_file)

    async def size(self, digest: str) -> int:
        """Look how long it is."""
        rows = await self._board.read(BLOB_SIZE, hash=_checked(digest))
        return int(rows[0].size) if rows else await asyncio.to_thread(self._file_size, digest)

    async def read_piece(self, digest: str, first: int, many: int) -> bytes:
        """Read a part of it."""
        rows = await self._board.read(BLOB_PIECE, hash=_checked(digest), first=first + 1, many=many)
        return bytes(rows[0].piece or b"") if rows else await asyncio.to_thread(self._file_piece, digest, first, many)

    def _read_file(self, digest: str) -> bytes:
        with self._file(digest) as file:
            return file.read()

    def _file_size(self, digest: str) -> int:
        with self._file(digest) as file:
            return os.fstat(file.fileno()).st_size

    def _file_piece(self, digest: str, first: int, many: int) -> bytes:
        with self._file(digest) as file:
            file.seek(first)
            return file.read(many)

    def _file(self, digest: str) -> BinaryIO:
        try:
            if self._folder is not None:
                return blob_path(self._folder, digest).open("rb")
        except FileNotFoundError:
            pass
        raise UsageError(Code.BLOB_MISSING, f"no content is stored under {digest}", hint="put it in first")


def blob_path(folder: Path, digest: str) -> Path:
    """Return the path of a content's file: `ab/cdef…`."""
    name = digest.removeprefix("sha256:")
    return folder / name[:2] / name[2:]


def _write(folder: Path, start: bytes, rest: BinaryIO) -> str:
    """Written again even when it exists: that also repairs one that was damaged."""
    draft = files.DraftFile(folder)
    try:
        hasher, chunk = sha256(), start
        while chunk:
            hasher.update(chunk)
            draft.write(chunk)
            chunk = rest.read(_CHUNK)
        digest = f"sha256:{hasher.hexdigest()}"
        draft.place(blob_path(folder, digest))
    finally:
        draft.close()
    return digest


def _checked(digest: str) -> str:
    if not (is_hash(digest) and digest.startswith("sha256:")):
        raise UsageError(Code.HASH_INVALID, f"{digest[:80]!r} is not a hash", hint="write sha256:<64 hex digits>")
    return digest
