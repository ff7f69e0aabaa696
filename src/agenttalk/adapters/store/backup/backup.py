"""A backup of a root: one archive with its databases at one moment, its contents, files and trees, and their hashes.

Files are copied first, then the databases, then what they refer to: what an outbox still holds may be accepted
already (and then counts once), and nothing that a database names is missing. All databases are of one moment: for
that moment no other process writes. What is being written has another name; it gets its own when it was read again.
"""

from __future__ import annotations

import fcntl
import gzip
import io
import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import apsw

from agenttalk.adapters.store import audit, files
from agenttalk.adapters.store.backup import postgres_dump
from agenttalk.adapters.store.backup.archive import (
    CHUNK,
    MANIFEST,
    ArchivedFile,
    BackupManifest,
    HashingReader,
    pump,
    verify_archive,
)
from agenttalk.adapters.store.dialect import ErrorTranslator
from agenttalk.adapters.store.root import list_databases
from agenttalk.adapters.store.sqlite import Sqlite
from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, MachineError, UsageError

DUMP: Final = "postgres.dump"
SMALL: Final = 8 * 1024 * 1024
"""Up to this size a file that may change meanwhile is kept in memory until it was read."""
_FAST: Final = 3
"""How hard it is tried to make the archive small."""
_BEFORE: Final = ("agents", "system_runtime")
_TREES: Final = ("kept.git", "depot.git")
"""What cannot be made again of the trees of a plan."""
_TEMPORARY: Final = ".tmp"
_BENCH: Final = ".agenttalk-backup-"


@dataclass(frozen=True, slots=True)
class BackupRequest:
    """What is to be kept, and what is not."""

    root: Path
    url: str = ""
    """The PostgreSQL store, if it is one."""
    hidden: frozenset[Path] = frozenset()
    """Files that hold secrets."""
    secrets: frozenset[bytes] = frozenset()
    """Values that no file of an agent may hold to be kept."""


def make_backup(asked: BackupRequest, target: Path, *, at: str, release: str) -> BackupManifest:
    """Write a backup to `target`, which must not be there yet, and read it again. Raises AgentTalkError.

    After a crash there is no file of that name, or a whole one.
    """
    if target.exists() or target.is_symlink():
        raise UsageError(Code.FILE_UNWRITABLE, f"{target} is there already", hint="give another name")
    try:
        with _bench(target.parent) as bench:
            draft = bench / "archive"
            manifest = _written(asked, draft, at=at, release=release)
            verify_archive(draft)
            os.link(draft, target)
            files.sync_folder(target.parent)
    except FileExistsError as error:
        raise UsageError(Code.FILE_UNWRITABLE, f"{target} is there already", hint="give another name") from error
    except OSError as error:
        raise files.write_error(target, error) from error
    return manifest


@contextmanager
def _bench(beside: Path) -> Iterator[Path]:
    """Make a working folder for the time of the block. Folders that killed processes left are removed, too."""
    for left in beside.glob(f"{_BENCH}*"):
        with suppress(OSError), (left / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)
    bench = Path(tempfile.mkdtemp(prefix=_BENCH, dir=beside))
    with (bench / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield bench
        finally:
            shutil.rmtree(bench, ignore_errors=True)


@dataclass(slots=True)
class _ArchiveWriter:
    """An archive in the making."""

    tar: tarfile.TarFile
    asked: BackupRequest
    kept: list[ArchivedFile] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)

    def add(self, name: str, size: int, stream: IO[bytes]) -> None:
        """Append a file whose size is known; its hash is that of what went in."""
        reading = HashingReader(stream)
        member = tarfile.TarInfo(name)
        member.size, member.mode, member.uname, member.gname = size, 0o600, "", ""
        self.tar.addfile(member, reading)
        self.kept.append(ArchivedFile(name, size, reading.digest))

    def copy(self, name: str, stream: IO[bytes], *, of_agents: bool) -> None:
        """Append a file that may change while it is read."""
        with tempfile.SpooledTemporaryFile(SMALL) as spool:
            if of_agents and self._tells(stream, spool):
                self.left_out.append((name, "it holds a secret"))
                return
            if not of_agents:
                pump(stream, spool.write)
            size = spool.tell()
            spool.seek(0)
            self.add(name, size, spool)

    def _tells(self, stream: IO[bytes], spool: Any) -> bool:
        """Copy a file; whether one of the secrets is in it."""
        longest = max((len(each) for each in self.asked.secrets), default=1)
        tail = b""
        while chunk := stream.read(CHUNK):
            spool.write(chunk)
            window = tail + chunk
            if any(each in window for each in self.asked.secrets):
                return True
            tail = window[-(longest - 1) :] if longest > 1 else b""
        return False


def _written(asked: BackupRequest, draft: Path, *, at: str, release: str) -> BackupManifest:
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as raw:
        packed = gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=_FAST, mtime=0)
        with packed, tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            writing = _ArchiveWriter(tar, asked)
            heads = _fill(writing, draft.parent / "copies")
            store = "postgres" if asked.url else "sqlite"
            manifest = BackupManifest(at, release, store, heads, tuple(writing.kept), tuple(writing.left_out))
            said = manifest.as_bytes()
            member = tarfile.TarInfo(MANIFEST)
            member.size, member.mode = len(said), 0o600
            tar.addfile(member, io.BytesIO(said))
        raw.flush()
        os.fsync(raw.fileno())
    return manifest


def _fill(writing: _ArchiveWriter, copies: Path) -> dict[str, Any]:
    """Add everything of a root, and return the heads of its chains. Databases are copied to `copies` first."""
    asked = writing.asked
    for name in ("agenttalk.toml", *_BEFORE):
        _add_tree(writing, asked.root / name, name, of_agents=True)
    copies.mkdir()
    if asked.url:
        heads = audit.write_anchor(_intact(audit.verify(asked.root, url=asked.url)))  # the dump holds at least these
        postgres_dump.dump(asked.url, copies / DUMP)
        _add(writing, copies / DUMP, DUMP)
    else:
        for name, path in copy_databases(asked.root, copies).items():
            _add(writing, path, name)
        heads = audit.write_anchor(_intact(audit.verify(copies) if list_databases(copies) else []))
    _add_tree(writing, asked.root / "data" / "blobs", "data/blobs", of_agents=False)
    for plan in sorted((asked.root / "workspaces").glob("*")):
        for tree in _TREES:
            _add_repository(writing, plan / tree, f"workspaces/{plan.name}/{tree}")
    found: Any = wire.read(heads, limit=wire.DOCUMENT_LIMIT)
    return dict(found["heads"])


def copy_databases(root: Path, into: Path) -> dict[str, Path]:
    """Copies of all databases of a root as they are at one moment, by their paths under it."""
    found = list_databases(root)
    with ExitStack() as stack:
        views = _views(stack, {chain: Sqlite(path) for chain, path in found.items()})
        answer = {}
        for chain, path in found.items():
            name = str(path.relative_to(root))
            answer[name] = into / name
            files.make_folder(answer[name].parent)
            with ErrorTranslator(Sqlite(path)):
                _copy(views[chain], answer[name])
        return answer


def _views(stack: ExitStack, sources: dict[str, Sqlite]) -> dict[str, apsw.Connection]:
    """Open a view of each database, all of one moment: no process writes to any of them while they open."""
    views: dict[str, apsw.Connection] = {}
    with ExitStack() as held:
        for source in sources.values():
            with ErrorTranslator(source):
                held.enter_context(_connected(source, "BEGIN IMMEDIATE"))
        for chain, source in sources.items():
            with ErrorTranslator(source):
                views[chain] = stack.enter_context(_connected(source, "BEGIN"))
                views[chain].execute("SELECT count(*) FROM sqlite_schema").fetchall()  # the view begins with this
    return views


@contextmanager
def _connected(source: Sqlite, begin: str) -> Iterator[apsw.Connection]:
    """Open a connection with a read-only transaction."""
    connection = source.connect_beside()
    try:
        connection.execute(begin)
        yield connection
        connection.execute("ROLLBACK")
    finally:
        connection.close(True)


def _copy(source: apsw.Connection, path: Path) -> None:
    files.make_private(path)
    copy = apsw.Connection(str(path))
    try:
        with copy.backup("main", source, "main") as backup:
            backup.step(-1)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, whole
        [(answer,)] = copy.execute("PRAGMA quick_check(1)").fetchall()
        if answer != "ok":
            hint = "stop the engine, keep a copy, and restore the database from an older backup"
            raise MachineError(Code.STORE_DAMAGED, f"{path.name}: {answer}", hint=hint)
    finally:
        copy.close(True)


def _intact(reports: list[audit.ChainReport]) -> list[audit.ChainReport]:
    """Raise STORE_DAMAGED when a chain is broken, because a backup would hide that."""
    for report in reports:
        if report.verdict.broken:
            raise MachineError(
                Code.STORE_DAMAGED,
                f"the ledger of {report.chain} is broken: {report.verdict.broken.why}",
                hint="'agenttalk audit verify' says where; keep the older backups",
            )
    return reports


def _add(writing: _ArchiveWriter, path: Path, name: str) -> None:
    with path.open("rb") as stream:
        writing.add(name, path.stat().st_size, stream)


def _add_repository(writing: _ArchiveWriter, top: Path, name: str) -> None:
    """Add a git folder: refs before objects, so that every named object is in the backup."""
    if not top.is_dir() or top.is_symlink():
        return
    entries = sorted(top.iterdir(), key=lambda path: (path.name == "objects", path.name))
    for path in entries:
        _add_tree(writing, path, f"{name}/{path.name}", of_agents=False)


def _add_tree(writing: _ArchiveWriter, top: Path, name: str, *, of_agents: bool) -> None:
    """Add every regular file below a folder, or the file itself. Skips links and files that vanish meanwhile."""
    with suppress(FileNotFoundError):
        kind = os.lstat(top).st_mode
        if not stat.S_ISDIR(kind):
            holder = os.open(top.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                _add_file(writing, holder, top.name, name, top, of_agents=of_agents)
            finally:
                os.close(holder)
            return
        for folder, _, names, holder in os.fwalk(top, follow_symlinks=False):
            below = Path(folder).relative_to(top).as_posix()
            for each in sorted(names):
                inside = each if below == "." else f"{below}/{each}"
                _add_file(writing, holder, each, f"{name}/{inside}", Path(folder) / each, of_agents=of_agents)


def _add_file(writing: _ArchiveWriter, holder: int, entry: str, name: str, path: Path, *, of_agents: bool) -> None:
    if entry.startswith(".") and entry.endswith(_TEMPORARY):
        return
    if path.absolute() in writing.asked.hidden:
        writing.left_out.append((name, "it holds a secret"))
        return
    try:
        name.encode()
        descriptor = os.open(entry, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=holder)
    except FileNotFoundError:
        return
    except (OSError, UnicodeEncodeError) as error:
        shown = name.encode(errors="backslashreplace").decode()
        writing.left_out.append((shown, getattr(error, "strerror", None) or "its name is not UTF-8"))
        return
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            writing.left_out.append((name, "it is not a file"))
            return
        writing.copy(name, stream, of_agents=of_agents)


def find_broken_chains(root: Path, heads: dict[str, Any], url: str = "") -> Sequence[audit.ChainReport]:
    """Chains of a restored root that are not what they were when the backup was made."""
    anchor = audit.read_anchor(wire.write({"heads": heads})) if heads else None
    if not heads and not list_databases(root) and not url:
        return []
    return [report for report in audit.verify(root, anchor, url=url) if report.verdict.broken]
