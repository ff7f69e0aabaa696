"""What a worker has of its attempts, on disk until its engine has it: a file for the record, and one for the pack."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import JsonError

_LARGEST: Final = 256 * 1024 * 1024
_RECORD: Final = ".json"
_PACK: Final = ".pack"


class FileSpool:
    """Keeps records in a folder. Implements `ResultSpool`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder

    def write(self, key: str, record: Mapping[str, Any], pack: bytes = b"") -> None:
        """Keep the record of an attempt; see the port."""
        if pack:  # first: a record says that its pack is there
            _write(self._folder / f"{key}{_PACK}", pack)
        _write(self._folder / f"{key}{_RECORD}", wire.write({**record, "packed": bool(pack)}))

    def read_pack(self, key: str) -> bytes:
        """Read the work on a repository that was kept; see the port."""
        with suppress(FileNotFoundError):
            return (self._folder / f"{key}{_PACK}").read_bytes()
        return b""

    def read_all(self) -> dict[str, dict[str, Any]]:
        """Read the records of all attempts; see the port."""
        found = {}
        for path in sorted(self._folder.glob(f"*{_RECORD}")):
            with suppress(JsonError):
                said: Any = wire.read(path.read_bytes(), limit=_LARGEST)
                found[path.name.removesuffix(_RECORD)] = dict(said)
        return found

    def drop(self, key: str) -> None:
        """Forget an attempt; see the port."""
        for ending in (_RECORD, _PACK):
            (self._folder / f"{key}{ending}").unlink(missing_ok=True)


def _write(path: Path, data: bytes) -> None:
    """Write a whole file. It and its name are on the disk when this returns."""
    new = path.with_name(f"{path.name}.new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
