"""Where a process can die: before everything that it does to the world.

Nothing of the product is changed. In a process that was forked for it, the calls through which every effect
passes are wrapped: transactions, whatever changes files, the start and end of programs, and what is said to others.
Each is a boundary with a name, e.g. `commit:default` or `rename agents/pm/inbox/…`; the same name comes back with
another number. After one step is before the next, so each place between two steps is one boundary.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from agenttalk.adapters.drivers import process_tree, python_calls, script
from agenttalk.adapters.mailbox import syscalls
from agenttalk.adapters.store import sqlite
from agenttalk.adapters.workspaces.objects import GitRefs
from crash.normal import calm

KILLED = 137
_TREES = re.compile(r"\w+ workspaces/[^_]")
"""What is done inside the trees of plans has boundaries of its own (tests/adapters/workspaces/test_crashes.py)."""


class Boundaries:
    """Counts boundaries, and ends the process at one of them as hard as a power cut ends it for us."""

    def __init__(
        self,
        root: Path,
        fatal: str,
        last_words: Callable[[str], None],
        *,
        hard: bool,
        pause: Callable[[str], None] | None = None,
    ) -> None:
        """`fatal` is the boundary to die at, or empty. `hard` has the kernel kill us instead of a plain exit.

        `pause` is called at each boundary, while everybody else waits.
        """
        self._root = str(root)
        self._pause = pause
        self._fatal = fatal
        self._last_words = last_words
        self._hard = hard
        self._lock = threading.Lock()
        self._seen: Counter[str] = Counter()
        self.order: list[str] = []
        self.paused = False
        """While something is done by hand, which is no part of the process."""

    def reach(self, what: str, before_dying: Callable[[], object] | None = None) -> None:
        """Be at a boundary. What is done `before_dying` is done only then."""
        if self.paused:
            return
        with self._lock:
            label = calm(what, self._root).replace("ROOT/", "")
            if _TREES.match(label):
                return
            self._seen[label] += 1
            name = f"{label} #{self._seen[label]}"
            self.order.append(name)
            if self._pause:
                self._pause(name)
            if name == self._fatal:
                if before_dying:
                    before_dying()
                self._die(name)

    def _die(self, name: str) -> NoReturn:
        self._last_words(name)
        if self._hard:
            os.kill(os.getpid(), signal.SIGKILL)
            signal.pause()
        os._exit(KILLED)


def install(boundaries: Boundaries) -> None:
    """Wrap everything. For a process that was forked for this and ends soon: nothing is put back."""
    _wrap_transactions(boundaries)
    _wrap_files(boundaries)
    _wrap_appending(boundaries)
    _wrap_programs(boundaries)
    _wrap_calls(boundaries)
    _wrap_branches(boundaries)


def _wrap_transactions(boundaries: Boundaries) -> None:
    kind = sqlite.SqliteConnection
    commit, close = kind.commit, kind.close

    def name(connection: sqlite.SqliteConnection) -> str:
        path = Path(connection._connection.filename)
        return path.parent.name if path.stem == "blackboard" else path.stem

    def new_commit(self: sqlite.SqliteConnection) -> None:
        boundaries.reach(f"commit:{name(self)}")
        commit(self)

    def new_close(self: sqlite.SqliteConnection) -> None:
        boundaries.reach(f"close:{name(self)}")
        close(self)

    _replace(kind, commit=new_commit, close=new_close)


def _wrap_files(boundaries: Boundaries) -> None:
    real_open, real_rename2 = os.open, syscalls._renameat2

    def new_open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_CREAT and not _exists(path, dir_fd):
            boundaries.reach(f"create {_where(path, dir_fd)}")
        return real_open(path, flags, mode, dir_fd=dir_fd)

    def renaming(real: Callable[..., None]) -> Callable[..., None]:
        def new(src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
            if (src, src_dir_fd) == (dst, dst_dir_fd):  # only a question whether the name is there
                real(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
                return
            boundaries.reach(f"rename {_where(dst, dst_dir_fd)}")
            real(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

        return new

    def new_rename2(here: int, name: str, there: int, new: str) -> None:
        boundaries.reach(f"rename {_where(new, there)}")
        real_rename2(here, name, there, new)

    def removing(real: Callable[..., None], word: str) -> Callable[..., None]:
        def new(path: Any, *, dir_fd: int | None = None) -> None:
            if _exists(path, dir_fd):
                boundaries.reach(f"{word} {_where(path, dir_fd)}")
            real(path, dir_fd=dir_fd)

        return new

    real_mkdir = os.mkdir

    def new_mkdir(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        if not _exists(path, dir_fd):
            boundaries.reach(f"mkdir {_where(path, dir_fd)}")
        real_mkdir(path, mode, dir_fd=dir_fd)

    _replace(os, open=new_open, rename=renaming(os.rename), replace=renaming(os.replace), mkdir=new_mkdir)
    _replace(os, unlink=removing(os.unlink, "unlink"), rmdir=removing(os.rmdir, "rmdir"))
    syscalls.find_native_calls.cache_clear()
    _replace(syscalls, _renameat2=new_rename2)


def _wrap_appending(boundaries: Boundaries) -> None:
    """Writes that are seen at once can also be torn."""
    real_truncate, real_pwrite, real_write, real_fsync = os.ftruncate, os.pwrite, os.write, os.fsync

    def new_truncate(descriptor: int, length: int) -> None:
        if os.fstat(descriptor).st_size != length:
            boundaries.reach(f"truncate {_path_of(descriptor)}")
        real_truncate(descriptor, length)

    def new_pwrite(descriptor: int, data: Any, offset: int) -> int:
        where = _path_of(descriptor)
        half = bytes(data)[: len(data) // 2]
        boundaries.reach(f"append {where}")
        boundaries.reach(f"torn {where}", lambda: real_pwrite(descriptor, half, offset))
        return real_pwrite(descriptor, data, offset)

    def new_write(descriptor: int, data: Any) -> int:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            boundaries.reach(f"write {_path_of(descriptor)}")
        return real_write(descriptor, data)

    def new_fsync(descriptor: int) -> None:
        boundaries.reach(f"fsync {_path_of(descriptor)}")
        real_fsync(descriptor)

    _replace(os, ftruncate=new_truncate, pwrite=new_pwrite, write=new_write, fsync=new_fsync)


def _wrap_programs(boundaries: Boundaries) -> None:
    real_start, real_hear, real_run = (
        process_tree.ProcessTree.start,
        process_tree.ProcessTree._hear,
        script.ScriptDriver.run,
    )

    def start(request: bytes, prompt: bytes, **more: Any) -> process_tree.ProcessTree:
        boundaries.reach("start a program")
        started = real_start(request, prompt, **more)
        boundaries.reach("started a program")
        return started

    def hear(self: process_tree.ProcessTree, data: bytes) -> None:
        real_hear(self, data)
        for word in ("starting", "ended", "dead"):
            if f"{word}".encode() in data:
                boundaries.reach(f"a program is {word}")

    async def run(self: script.ScriptDriver, turn: Any) -> Any:
        ended = await real_run(self, turn)
        boundaries.reach("a turn is over")
        return ended

    _replace(process_tree.ProcessTree, start=staticmethod(start), _hear=hear)
    _replace(script.ScriptDriver, run=run)


def _wrap_calls(boundaries: Boundaries) -> None:
    real = python_calls.PythonPerformer.perform

    async def perform(self: python_calls.PythonPerformer, job: Any) -> Any:
        boundaries.reach("an agent is called")
        ended = await real(self, job)
        boundaries.reach("a call is over")
        return ended

    _replace(python_calls.PythonPerformer, perform=perform)


def _wrap_branches(boundaries: Boundaries) -> None:
    """The branch of a plan follows the tip in the store."""
    real = GitRefs.move

    def move(self: GitRefs, ref: str, new: str, old: str | None, **how: str) -> bool:
        boundaries.reach(f"move {ref}")
        moved = real(self, ref, new, old, **how)
        boundaries.reach(f"moved {ref}")
        return moved

    _replace(GitRefs, move=move)


def _replace(where: Any, **new: Any) -> None:
    for name, value in new.items():
        assert hasattr(where, name), name
        setattr(where, name, value)


def _exists(path: Any, dir_fd: int | None) -> bool:
    try:
        os.stat(path, dir_fd=dir_fd, follow_symlinks=False)
    except OSError:
        return False
    return True


def _path_of(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


def _where(path: Any, dir_fd: int | None) -> str:
    return str(path) if dir_fd is None else f"{_path_of(dir_fd)}/{path}"
