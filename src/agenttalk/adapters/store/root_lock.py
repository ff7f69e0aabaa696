"""One engine per root: a lock on the root's folder and on `data/engine.lock`; `data/engine.json` tells who holds it.

A file can be deleted while it is locked, and then another one of its name be locked by another. The folder itself
stays what it is. Where folders cannot be locked (some network file systems), the file alone has to do.
"""

from __future__ import annotations

import errno
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self

from agenttalk.adapters.process_ids import is_alive
from agenttalk.adapters.store import files
from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, JsonError, MachineError

_NO_LOCKS: Final = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS})
"""How a file system says that it cannot lock a folder."""


@dataclass(frozen=True, slots=True)
class RunningEngine:
    """A running engine, as `data/engine.json` tells it."""

    pid: int
    http: str | None
    socket: str | None
    passing: bool = False
    """Whether it ends by itself, when its own plan has ended."""


class RootLock:
    """Held while the object lives and is not released; the kernel lets go of it when the process dies."""

    def __init__(self, root: Path, descriptors: tuple[int, ...], kind: Literal["engine", "part"]) -> None:
        self._root = root
        self._descriptors = descriptors
        self._data = (root / "data").stat()
        self.kind = kind

    @classmethod
    def acquire(cls, root: Path, kind: Literal["engine", "part"]) -> Self:
        """Lock a root: exclusively for an engine, shared for parts (`route`, `heartbeat`, …). Raises ENGINE_RUNNING."""
        path = root / "data" / "engine.lock"
        files.make_folder(path.parent)
        try:
            folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError:
                os.close(folder)
                raise
        except OSError as error:
            raise files.write_error(path, error) from error
        for each in (folder, descriptor):
            try:
                fcntl.flock(each, (fcntl.LOCK_EX if kind == "engine" else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            except OSError as error:
                if each == folder and error.errno in _NO_LOCKS:
                    continue
                os.close(folder)
                os.close(descriptor)
                raise _refusal(root) from error
        return cls(root, (folder, descriptor), kind)

    def require_data(self) -> None:
        """Raise MachineError when the folder with everything that is durable is not what it was."""
        try:
            now = (self._root / "data").stat()
        except OSError:
            now = None
        if now is None or (now.st_dev, now.st_ino) != (self._data.st_dev, self._data.st_ino):
            raise MachineError(
                Code.STORE_DAMAGED,
                f"{self._root / 'data'} was deleted or replaced while it was in use: what happened since is lost",
                hint="restore a backup ('agenttalk restore'), or start with a new root",
            )

    def announce(self, *, http: str | None, socket: str | None, passing: bool = False) -> None:
        """Tell where this engine can be reached, and whether it is there for one plan only."""
        pid = os.getpid()
        answer: dict[str, wire.JsonValue] = {"pid": pid, "http": http, "socket": socket, "started": _started(pid)}
        if passing:
            answer["passing"] = True
        files.write_durably(_json(self._root), wire.write(answer))

    def release(self) -> None:
        """Let go; an engine's `engine.json` goes with it."""
        if self.kind == "engine":
            _json(self._root).unlink(missing_ok=True)
        for each in self._descriptors:
            os.close(each)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class PartLock:
    """One router, one monitor, one heartbeat per agent: each kind of part is alone on a root."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def acquire(cls, root: Path, name: str) -> Self:
        """Raises ENGINE_RUNNING when another process is that part."""
        path = root / "data" / "parts" / f"{name}.lock"
        files.make_folder(path.parent)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise files.write_error(path, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            other = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise MachineError(
                Code.ENGINE_RUNNING,
                f"{root} has a running {name} already" + (f": process {other}" if other else ""),
                hint="use that one, or end it first",
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        return cls(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def running_engine(root: Path) -> RunningEngine | None:
    """Find the running engine of a root. Entries of dead processes do not count, even if a pid is used again."""
    try:
        told: Any = wire.read(_json(root).read_bytes())
        engine = RunningEngine(told["pid"], told["http"], told["socket"], told.get("passing") is True)
        alive = isinstance(engine.pid, int) and _started(engine.pid) == told["started"]
    except (OSError, JsonError, KeyError, TypeError, AttributeError):
        return None
    return engine if alive and is_alive(engine.pid) else None


def _refusal(root: Path) -> MachineError:
    engine = running_engine(root)
    parts = running_parts(root)
    if engine is None and parts:
        return MachineError(
            Code.ENGINE_RUNNING,
            f"{root} is in use by {', '.join(parts)}",
            hint="an engine does their work too: end them first, then start it",
        )
    if engine is None:
        return MachineError(
            Code.ENGINE_RUNNING,
            f"{root} is in use: an engine is just starting or ending, or another command runs",
            hint="try again in a moment",
        )
    where = f" at {engine.http}" if engine.http else ""
    return MachineError(
        Code.ENGINE_RUNNING,
        f"{root} has a running engine already: process {engine.pid}{where}",
        hint=f"use that one, or end it first (kill {engine.pid})",
    )


def running_parts(root: Path) -> list[str]:
    """Find the parts that hold their locks, with their processes."""
    found = []
    for path in sorted((root / "data" / "parts").glob("*.lock")):
        try:
            with path.open("rb") as file:
                pid = file.read(20).decode(errors="replace").strip()
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            found.append(f"{path.stem} (process {pid})")
        except FileNotFoundError:
            continue  # it ended just now
        except OSError as error:  # it cannot be asked, so it may run
            found.append(f"{path.stem} ({path}: {error.strerror})")
    return found


def _json(root: Path) -> Path:
    return root / "data" / "engine.json"


def _started(pid: int) -> int | None:
    """Read when a process started, in ticks since the machine did; None if /proc does not show it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return int(stat.rpartition(b")")[2].split()[19])
