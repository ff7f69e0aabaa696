"""Wake-ups for folders: Linux's inotify reports at once when something was put into one of them.

A wake-up is a hint, never the message: its receiver reads the folder. So too many do no harm, and a missing one costs
no more than the wait until the next poll. Folders are opened below the root's descriptor and watched through their own,
so a symlink leads nowhere. Events about the name of a folder (made, moved, removed, swapped) are not replayed. Instead
the name is resolved again: what has it now is watched, then listed, then reported as changed.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import struct
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.contracts.core import root_layout
from agenttalk.contracts.errors import AgentTalkError

# Bits of an event's mask, as inotify(7) has them.
CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x08, 0x40, 0x80, 0x100, 0x200
OVERFLOW, IGNORED, ISDIR = 0x4000, 0x8000, 0x4000_0000

_ONLYDIR: Final = 0x0100_0000
_OF_FOLDERS: Final = CREATE | DELETE | MOVED_FROM | MOVED_TO | _ONLYDIR
"""For a folder of folders: everything that happens to a name."""
_OF_FILES: Final = CLOSE_WRITE | MOVED_TO | _ONLYDIR
"""For a folder of files: only what is complete. A file that was just created is still being written."""
_HEADER: Final = struct.Struct("=iIII")
_PIECE: Final = 256 * 1024
"""Bytes of one read: more than a thousand messages, yet too few to block the event loop."""
_LIMITS: Final = {
    errno.ENOSPC: "too many folders are watched (raise fs.inotify.max_user_watches)",
    errno.EMFILE: "too many programs watch or files are open (raise fs.inotify.max_user_instances or ulimit -n)",
    errno.ENOSYS: "this system has no inotify",
    errno.ENOENT: "there is no /proc here",
}


class FolderWatcher:
    """Reports when something was put into the folders of a root. One task at a time may wait for it.

    `boxes` names the boxes of the agents that are watched, `agents` the agents (all of them if None), and `plans` says
    whether the two files are watched that say which DAG a plan has. Hidden names cause no wake-up.
    """

    def __init__(
        self,
        root: Path,
        *,
        boxes: Collection[root_layout.Box] = ("inbox", "outbox"),
        plans: bool = True,
        agents: Collection[str] | None = None,
    ) -> None:
        self._path = root
        self._wanted = _WatchFilter(boxes, plans=plans, agents=agents)
        self._root: SafeFolder | None = None
        self._tree: _Tree | None = None
        self._found: set[str] = set()
        self._waiter: asyncio.Future[None] | None = None
        self.why_polling = ""
        """Why no wake-ups come, so that `changed` only waits for its timeout. Empty when they come."""

    async def start(self) -> None:
        """Start to watch. Does not report what is there already: read it after this call, and nothing is missed.

        Raises what `SafeFolder.open` raises for the root. Every other obstacle becomes `why_polling`.
        """
        self._root = SafeFolder.open(self._path)
        await self._grow(self._root)
        self._found.clear()

    async def wait_for_change(self, timeout: float) -> set[str]:  # noqa: ASYNC109 - to wait that long is its purpose
        """Wait until something changed, at most `timeout` seconds; return the changed folders, or none.

        A folder is named by its path from the root, such as `agents/pm/outbox/plan_shop`. A new one is reported when it
        appears, with the folders in it. When the system lost events, all folders are reported.
        """
        self._take()
        if not self._is_due:
            await self._wait(timeout)
            self._take()  # what came since the first event belongs to the same burst
        if self._root and self._tree and self._tree.is_torn:
            await self._grow(self._root)
        changed = set(self._found)
        self._found.clear()
        return changed

    def close(self) -> None:
        """Close everything. A task that still waits gets no changes."""
        self._poll("it is closed")
        self._wake()
        if self._root:
            self._root.close()

    @property
    def _is_due(self) -> bool:
        return bool(self._found) or (self._tree is not None and self._tree.is_torn)

    async def _wait(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(seconds, self._wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)

    def _take(self) -> None:
        """Read events, also while no task waits: the system's queue is short."""
        try:
            if self._tree:
                self._tree.take()
        except OSError as error:
            self._poll(_why(error))
        if self._is_due:
            self._wake()

    async def _grow(self, root: SafeFolder) -> None:
        """Watch everything again; in a thread, because there may be many folders."""
        if self._tree:
            self._tree.close()
        try:
            tree = self._tree = _Tree(root, self._wanted, self._found)
            await asyncio.to_thread(tree.grow)
        except OSError as error:
            self._poll(_why(error))
            return
        if self._tree is tree:  # it was not closed meanwhile
            tree.listen(self._take)

    def _poll(self, why: str) -> None:
        if self._tree:
            self._tree.close()
        self._tree = None
        self.why_polling = self.why_polling or why


def describe_problem() -> str:
    """Explain why folders cannot be watched here; empty if they can."""
    try:
        _Inotify().close()
    except OSError as error:
        return _why(error)
    return ""


class InotifyEvent(NamedTuple):
    """An event of inotify."""

    watch: int
    """The number that the folder got when it was added; -1 means that events were lost."""
    mask: int
    name: str
    """A name in that folder; empty when it is about the folder itself."""


def parse_events(data: bytes) -> Iterator[InotifyEvent]:
    """Split the data of inotify into events."""
    at = 0
    while at < len(data):
        watch, mask, _, length = _HEADER.unpack_from(data, at)
        at += _HEADER.size + length
        yield InotifyEvent(watch, mask, os.fsdecode(data[at - length : at].rstrip(b"\0")))


@asynccontextmanager
async def open_watcher(watch: FolderWatcher) -> AsyncIterator[FolderWatcher]:
    """Start a watch, and close it in the end."""
    await watch.start()
    try:
        yield watch
    finally:
        watch.close()


class _WatchFilter:
    """Which folders below a root are watched, and which files in them cause wake-ups."""

    def __init__(self, boxes: Collection[str], *, plans: bool, agents: Collection[str] | None) -> None:
        self._boxes = frozenset(boxes)
        self._agents = None if agents is None else frozenset(agents)
        self._tops = frozenset([root_layout.AGENTS] * bool(boxes) + [root_layout.RUNTIME] * plans)
        self._plans = frozenset([root_layout.PLANS.rpartition("/")[2]])

    def names(self, path: tuple[str, ...]) -> frozenset[str] | None:
        """Return the names of the folders that are watched in a folder; None for all that are not hidden."""
        match path:
            case ():
                return self._tops
            case (root_layout.AGENTS,):
                return self._agents
            case (root_layout.AGENTS, _):
                return self._boxes
            case (root_layout.RUNTIME,):
                return self._plans
        return None

    def takes(self, path: tuple[str, ...], name: str) -> bool:
        """Return whether a folder of this name is watched."""
        names = self.names(path)
        return not name.startswith(".") if names is None else name in names

    @staticmethod
    def holds_files(path: tuple[str, ...]) -> bool:
        """Return whether a watched folder belongs to a plan, so that its files cause wake-ups."""
        return len(path) == (4 if path[:1] == (root_layout.AGENTS,) else 3)

    @staticmethod
    def wakes(path: tuple[str, ...], name: str) -> bool:
        """Return whether a file causes a wake-up. Of published files only the DAG does: the others are our own."""
        return (
            not name.startswith(".")
            if path[0] == root_layout.AGENTS
            else name in {root_layout.DAG, root_layout.POINTER}
        )


class _Node:
    """A watched folder."""

    __slots__ = ("below", "path", "watch")

    def __init__(self, path: tuple[str, ...]) -> None:
        self.path = path
        self.watch = -1
        self.below: dict[str, _Node] = {}


class _Tree:
    """The watched folders of a root.

    It is torn until it listens, and again when events were lost: then make another. OSErrors mean a limit of the
    system. A folder that cannot be opened is not watched, without an error.
    """

    def __init__(self, root: SafeFolder, wanted: _WatchFilter, found: set[str]) -> None:
        self.is_torn = True
        self._root = root
        self._wanted = wanted
        self._found = found
        self._inotify = _Inotify()
        self._top = _Node(())
        self._nodes: dict[int, _Node] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()  # must not be closed while a thread works with it

    def grow(self) -> None:
        """Watch everything that exists."""
        with self._lock:
            self._watch(self._top, self._root)

    def listen(self, on_readable: Callable[[], None]) -> None:
        """Let the running event loop call `on_readable` from now on, when there are events to take."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._inotify.descriptor, on_readable)
        self.is_torn = False

    def take(self) -> None:
        """Read events, and note what changed."""
        again: dict[tuple[_Node, str], None] = {}
        for event in parse_events(self._inotify.read()):
            self.is_torn = self.is_torn or bool(event.mask & OVERFLOW)
            node = self._nodes.get(event.watch)
            if node is None:
                continue  # the watch was removed meanwhile
            if event.mask & IGNORED:
                del self._nodes[event.watch]
            elif self._wanted.holds_files(node.path):
                self._note(node, event.name)
            elif event.mask & ISDIR and self._wanted.takes(node.path, event.name):
                again[node, event.name] = None
        for node, name in again if not self.is_torn else ():
            self._renew(node, name)

    def close(self) -> None:
        """Close everything; calling it twice is harmless."""
        with self._lock:
            if self._loop and not self._loop.is_closed():
                self._loop.remove_reader(self._inotify.descriptor)
            self._loop = None
            self._inotify.close()

    def _note(self, node: _Node, name: str) -> None:
        if self._wanted.wakes(node.path, name):
            self._found.add("/".join(node.path))

    def _renew(self, node: _Node, name: str) -> None:
        if self._nodes.get(node.watch) is not node:
            return  # a folder above was resolved again, with everything in it
        with suppress(AgentTalkError):
            if not node.path:
                self._look(node, self._root, name)
                return
            with self._root.open_folder("/".join(node.path)) as folder:
                self._look(node, folder, name)

    def _look(self, node: _Node, folder: SafeFolder, name: str) -> None:
        """Watch what has this name now, if it is a folder."""
        if name in node.below:
            self._forget(node.below.pop(name))
        with suppress(AgentTalkError, PermissionError), folder.open_folder(name) as below:
            node.below[name] = _Node((*node.path, name))
            self._watch(node.below[name], below)

    def _watch(self, node: _Node, folder: SafeFolder) -> None:
        """Watch first, then list: so nothing that is put there can be missed."""
        holds_files = self._wanted.holds_files(node.path)
        node.watch = self._inotify.add(folder.descriptor, _OF_FILES if holds_files else _OF_FOLDERS)
        self._nodes[node.watch] = (
            node  # a folder that was moved keeps its watch, so the number may have belonged to another path
        )
        if node.path:
            self._found.add("/".join(node.path))
        if holds_files:
            return
        names: Iterable[str] | None = self._wanted.names(node.path)
        for name in folder.names() if names is None else names:
            if self._wanted.takes(node.path, name):
                self._look(node, folder, name)

    def _forget(self, node: _Node) -> None:
        for below in node.below.values():
            self._forget(below)
        if self._nodes.get(node.watch) is node:
            del self._nodes[node.watch]
            self._inotify.remove(node.watch)


class _Inotify:
    """The system's calls. Errors are OSErrors."""

    def __init__(self) -> None:
        self.descriptor = -1
        if not hasattr(_libc(), "inotify_init1"):
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        self.descriptor = _checked(_libc().inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))

    def add(self, folder: int, mask: int) -> int:
        """Watch an open folder by its descriptor, so that no symlink can be put in the way."""
        return _checked(_libc().inotify_add_watch(self.descriptor, b"/proc/self/fd/%d" % folder, mask))

    def remove(self, watch: int) -> None:
        """Stop watching a folder, even if it is gone."""
        _libc().inotify_rm_watch(self.descriptor, watch)

    def read(self) -> bytes:
        """Read events, one chunk at most; empty if there are none."""
        try:
            return os.read(self.descriptor, _PIECE)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        """Close the descriptor, and with it all watches."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _checked(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


def _why(error: OSError) -> str:
    return _LIMITS.get(error.errno or 0) or f"inotify does not work here: {error.strerror}"


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
