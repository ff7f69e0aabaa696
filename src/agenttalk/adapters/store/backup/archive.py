"""The archive of a backup: a list of its files with their hashes, and reading it so that nothing else comes out."""

from __future__ import annotations

import gzip
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, Final

from agenttalk.adapters.store import files
from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, JsonError, MachineError, UsageError

MANIFEST: Final = "manifest.json"
VERSION: Final = "1.0"
KIND: Final = "agenttalk-backup"
LARGEST_MANIFEST: Final = 1024 * 1024 * 1024
CHUNK: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """One file of a backup."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """What a backup holds."""

    made_at: str
    release: str
    store: str
    """`sqlite` or `postgres`."""
    heads: dict[str, Any]
    """How far the chains of the ledger had come, as an anchor has it."""
    files: tuple[ArchivedFile, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    """Path and reason."""

    def as_bytes(self) -> bytes:
        """Write the list as it is stored in the archive."""
        return wire.write(
            {
                "kind": KIND,
                "schema_version": VERSION,
                "made_at": self.made_at,
                "agenttalk": self.release,
                "store": self.store,
                "heads": self.heads,
                "files": [{"path": each.path, "size": each.size, "sha256": each.sha256} for each in self.files],
                "left_out": [{"path": path, "why": why} for path, why in self.left_out],
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> BackupManifest:
        """Read it; raises UsageError for anything else."""
        try:
            said: Any = _known(wire.read(data, limit=LARGEST_MANIFEST))
            return cls(
                str(said["made_at"]),
                str(said["agenttalk"]),
                str(said["store"]),
                dict(said["heads"]),
                tuple(
                    ArchivedFile(str(each["path"]), int(each["size"]), str(each["sha256"])) for each in said["files"]
                ),
                tuple((str(each["path"]), str(each["why"])) for each in said["left_out"]),
            )
        except (JsonError, KeyError, TypeError, ValueError, AttributeError) as error:
            hint = "give a file that `agenttalk backup` of this release or an older one wrote"
            raise UsageError(Code.FIELD_VALUE, f"this is not a backup: {error}", hint=hint) from error


def _known(said: Any) -> Any:
    """Check that a list of files has a version that can be read here."""
    if said["kind"] != KIND or said["schema_version"].split(".")[0] != VERSION.split(".")[0]:
        raise ValueError(f"it says {said['kind']!r}, version {said['schema_version']!r}")
    return said


def verify_archive(archive: Path) -> BackupManifest:
    """Read a whole backup and compare every hash. Raises STORE_DAMAGED, or UsageError if the file is not a backup."""
    return _read(archive, lambda _, stream: _hashed(stream))


def _read(archive: Path, take: Callable[[str, IO[bytes]], str]) -> BackupManifest:
    """Read an archive to its end; `take` makes something of each file, and says its hash."""
    found: dict[str, ArchivedFile] = {}
    manifest: BackupManifest | None = None
    with _reading(archive):
        for name, size, stream in read_members(archive):
            if name == MANIFEST:
                manifest = BackupManifest.from_bytes(stream.read(LARGEST_MANIFEST))
            elif name in found:
                raise damage_error(archive, f"{name} is in it twice")
            else:
                found[name] = ArchivedFile(name, size, take(name, stream))
    if manifest is None:
        raise damage_error(archive, "it ends before its list of files")
    compare_files(archive, manifest, found)
    return manifest


def compare_files(archive: Path, manifest: BackupManifest, found: dict[str, ArchivedFile]) -> None:
    """Raise STORE_DAMAGED unless an archive holds exactly what its list says."""
    wanted = {each.path: each for each in manifest.files}
    for name in sorted(wanted.keys() | found.keys()):
        if name not in found:
            raise damage_error(archive, f"{name} is missing")
        if name not in wanted:
            raise damage_error(archive, f"{name} does not belong to it")
        if wanted[name] != found[name]:
            raise damage_error(archive, f"{name} has another hash than when it was written")


def read_members(archive: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    """Read the files of an archive; nothing else may be in it."""
    with archive.open("rb") as raw, gzip.GzipFile(fileobj=raw) as packed:
        with tarfile.open(fileobj=packed, mode="r|") as tar:
            for member in tar:
                stream = tar.extractfile(member) if member.isreg() else None
                if stream is None or not is_inside(member.name):
                    raise damage_error(archive, f"{member.name[:200]!r} is not a file of a root")
                yield member.name, member.size, stream
        while packed.read(CHUNK):  # at its very end stands a sum over everything, the list of files included
            pass


@contextmanager
def _reading(archive: Path) -> Iterator[None]:
    """Raises STORE_DAMAGED for an archive that cannot be read to its end, UsageError for one that is not there."""
    try:
        yield
    except FileNotFoundError as error:
        raise UsageError(Code.FILE_UNREADABLE, f"there is no {archive}", hint="look at the path") from error
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise damage_error(archive, str(error) or "it ends too early") from error
    except OSError as error:
        raise UsageError(Code.FILE_UNREADABLE, f"cannot read {archive}: {error.strerror or error}") from error


def is_inside(name: str) -> bool:
    """Whether a path stays in the root."""
    parts = name.split("/")
    return bool(name) and "\0" not in name and not any(part in {"", ".", ".."} for part in parts)


def damage_error(archive: Path, why: str) -> MachineError:
    """Make the error for a backup that differs from the one that was written."""
    return MachineError(Code.STORE_DAMAGED, f"{archive} is damaged: {why}", hint="use another backup")


class HashingReader:
    """Reads, and hashes what was read."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._hash = sha256()

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes, as a file does."""
        data = self._stream.read(size)
        self._hash.update(data)
        return data

    @property
    def digest(self) -> str:
        """The hash of all that was read."""
        return f"sha256:{self._hash.hexdigest()}"


def pump(stream: IO[bytes], take: Callable[[bytes], object]) -> None:
    """Hand over a whole stream, piece by piece."""
    while chunk := stream.read(CHUNK):
        take(chunk)


def _hashed(stream: IO[bytes]) -> str:
    digest = sha256()
    pump(stream, digest.update)
    return f"sha256:{digest.hexdigest()}"


def unpack(archive: Path, into: Path) -> BackupManifest:
    """Write the files of a backup below an empty folder, compared with their hashes. Raises STORE_DAMAGED."""

    def take(name: str, stream: IO[bytes]) -> str:
        path, reading = into / name, HashingReader(stream)
        files.make_folder(path.parent)
        try:
            file = path.open("xb")
        except OSError as error:
            raise files.write_error(path, error) from error
        with file:
            while chunk := reading.read(CHUNK):
                _write_chunk(file, path, chunk)
            os.fsync(file.fileno())
        return reading.digest

    return _read(archive, take)


def _write_chunk(file: IO[bytes], path: Path, chunk: bytes) -> None:
    try:
        file.write(chunk)
        file.flush()
    except OSError as error:
        raise files.write_error(path, error) from error
