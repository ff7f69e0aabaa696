"""Wake-ups for folders: told at once, by Linux's inotify, when something was put into one of them.

A wake-up is a hint, never the message: who gets one looks into the folder. So too many do no harm, and one
that does not come costs no more than the wait until the next look. Folders are opened below the root's
descriptor and watched through their own, so a symlink leads nowhere.

What happened to the name of a folder (made, moved, removed, swapped) is not replayed. Whatever it was, the
name is looked at again: what has it now is watched, then looked through, then told as changed.
"""

from __future__ import annotations

import asyncio
import os
import struct
import threading
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from agenttalk.contracts import places
from agenttalk.mailbox.fsio import Folder

CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x08, 0x40, 0x80, 0x100, 0x200
OVERFLOW, IGNORED, ISDIR = 0x4000, 0x8000, 0x4000_0000
"""Bits of an event's mask, as inotify(7) has them."""

_ONLYDIR: Final = 0x0100_0000
_OF_FOLDERS: Final = CREATE | DELETE | MOVED_FROM | MOVED_TO | _ONLYDIR
"""For a folder of folders: whatever happens to a name."""
_OF_FILES: Final = CLOSE_WRITE | MOVED_TO | _ONLYDIR
"""For a folder of files: only what is complete. A file that was just created is still being written."""
_HEADER: Final = struct.Struct("=iIII")
_PIECE: Final = 256 * 1024
"""What is read at once: more than a thousand messages, yet too little to hold up the event loop."""


class Watch:
    """Tells when something was put into the folders of a root. One task at a time may wait for it.

    `boxes` says which boxes of the agents are watched, `agents` whose (everybody's, if None), and `plans`
    whether the two files are watched that say which DAG a plan has. Hidden names wake nobody.
    """

    def __init__(
        self,
        root: Path,
        *,
        boxes: Collection[places.Box] = ("inbox", "outbox"),
        plans: bool = True,
        agents: Collection[str] | None = None,
    ) -> None:
        self._path = root
        self._wanted = _Wanted(boxes, plans=plans, agents=agents)
        self._root: Folder | None = None
        self._tree: _Tree | None = None
        self._found: set[str] = set()
        self._waiter: asyncio.Future[None] | None = None
        self.why_polling = ""
        """Why no wake-ups come, so that `changed` only waits for its timeout. Empty when they come."""

    async def start(self) -> None:
        """Begin to watch. What lies there already is not told: look at it after this, and nothing is missed.

        Raises what `Folder.open` raises for the root. Whatever else stands in the way is `why_polling`.
        """
        self._root = Folder.open(self._path)
        await self._grow(self._root)
        self._found.clear()

    async def changed(self, timeout: float) -> set[str]:  # noqa: ASYNC109 - to wait that long is its purpose
        """Wait until something changed, at most `timeout` seconds; the changed folders, or none.

        A folder is told by its path from the root, such as `agents/pm/outbox/plan_shop`. A new one is told
        when it appears, with the folders in it. When the system lost events, all folders are told.
        """
        self._take()
        if not self._is_due:
            await self._wait(timeout)
            self._take()  # what came since the first event belongs to the same burst
        if self._root and self._is_torn:
            await self._grow(self._root)
        found, self._found = self._found, set()
        return found

    def close(self) -> None:
        """Give everything back. Who still waits is told that nothing changed."""
        self._poll("it is closed")
        self._wake()
        if self._root:
            self._root.close()

    @property
    def _is_torn(self) -> bool:
        return self._tree is not None and self._tree.is_torn

    @property
    def _is_due(self) -> bool:
        return bool(self._found) or self._is_torn

    async def _wait(self, timeout: float) -> None:  # noqa: ASYNC109
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(timeout, self._wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)

    def _take(self) -> None:
        """Take what is readable. This runs while nobody waits too: the system's queue is short."""
        try:
            if self._tree:
                self._tree.take()
        except OSError as error:
            self._poll(_why(error))
        if self._is_due:
            self._wake()

    async def _grow(self, root: Folder) -> None:
        """Watch everything anew; in a thread, because there may be many folders."""
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
        tree, self._tree = self._tree, None
        if tree:
            tree.close()
        self.why_polling = self.why_polling or why


class Event(NamedTuple):
    """One event as inotify tells it."""

    watch: int
    """The number that the watch got when it was added; -1 for an overflow."""
    mask: int
    name: str
    """What it is about, a name in the watched folder; empty if about the folder itself."""


def parse(data: bytes) -> Iterator[Event]:
    """The events in what was read from inotify."""
    at = 0
    while at < len(data):
        watch, mask, _, length = _HEADER.unpack_from(data, at)
        at += _HEADER.size + length
        yield Event(watch, mask, os.fsdecode(data[at - length : at].rstrip(b"\0")))


class _Wanted:
    """Which folders below a root are watched, and which names wake."""

    def __init__(self, boxes: Collection[str], *, plans: bool, agents: Collection[str] | None) -> None:
        self._boxes = frozenset(boxes)
        self._agents = None if agents is None else frozenset(agents)
        self._tops = frozenset(({places.AGENTS} if boxes else set()) | ({places.RUNTIME} if plans else set()))

    def folders(self, path: tuple[str, ...]) -> frozenset[str] | None:
        """The names that folders to be watched can have in a folder; None for every visible name."""
        match path:
            case ():
                return self._tops
            case (places.AGENTS,):
                return self._agents
            case (places.AGENTS, _):
                return self._boxes
            case (places.RUNTIME,):
                return _PLANS
        return None

    def is_folder(self, path: tuple[str, ...], name: str) -> bool:
        """Whether a folder of this name is watched."""
        names = self.folders(path)
        return not name.startswith(".") if names is None else name in names

    @staticmethod
    def holds_files(path: tuple[str, ...]) -> bool:
        """Whether a folder is watched for its files: it is the folder of a plan."""
        return len(path) == (4 if path[:1] == (places.AGENTS,) else 3)

    @staticmethod
    def wakes(path: tuple[str, ...], name: str) -> bool:
        """Whether a file of this name is what others wait for. Of what is published only the DAG counts."""
        return not name.startswith(".") if path[0] == places.AGENTS else name in _DAG


class _Node:
    """A watched folder."""

    __slots__ = ("below", "path", "watch")

    def __init__(self, path: tuple[str, ...]) -> None:
        self.path = path
        self.watch = -1
        self.below: dict[str, _Node] = {}


class _Tree:
    """The watched folders of a root. Torn until it is grown, and again when events were lost.

    Raises OSError where the system sets a limit. Folders that cannot be opened are not watched.
    """

    def __init__(self, root: Folder, wanted: _Wanted, found: set[str]) -> None:
        self.is_torn = True
        self._root = root
        self._wanted = wanted
        self._found = found
        self._inotify = _Inotify()
        self._top = _Node(())
        self._nodes: dict[int, _Node] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        """Keeps `close` from taking the descriptors away under a thread that grows."""

    def grow(self) -> None:
        """Watch all that there is."""
        with self._lock:
            self._watch(self._top, self._root)
