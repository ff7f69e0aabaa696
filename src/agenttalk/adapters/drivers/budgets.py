"""What all processes of a turn use together, measured while they run.

The kernel limits single processes. Nothing limits what many of them use unless the operator sets up control groups, so
it is looked at, soon after the beginning and then again and again; a look never takes more than a small part of the
time. Between two looks a program can use more than it may: this bounds damage, it does not forbid it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from agenttalk.adapters import sandbox
from agenttalk.adapters.drivers import keeper, memory
from agenttalk.ports import ResourceBudget

FIRST: Final = 0.25
"""Seconds until the first look."""
QUICKLY: Final = 0.1
"""The same for memory."""
_SHARE: Final = 20
"""So many times as long as a look took, nobody looks again."""
_LONGEST: Final = 30.0
_DEEPEST: Final = 100
"""Folders in one another; each costs a descriptor while it is looked into."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK: Final = 512
_MIB: Final = 1024 * 1024


class TooMuchError(Exception):
    """A budget is used up. The message says which one."""


class TurnMeter:
    """Measures one turn."""

    def __init__(self, budget: ResourceBudget, keeper_pid: int, temporary: Path | None) -> None:
        """`keeper_pid`: above all processes of the turn. `temporary`: a folder of its own for temporary files."""
        self._budget = budget
        self._keeper = keeper_pid
        self._places = (*budget.places, *([temporary] if temporary else []))
        self._looked = False

    async def watch(self, flooding: asyncio.Future[None]) -> str:
        """Return, saying what it is, when too much of something is used; else never."""
        if self._budget.memory is None:
            return await self._repeat(self.find_excess, FIRST, flooding)
        # Memory is used up sooner than a disk, and looked at sooner: it does not wait for who looks through folders.
        looks = ((self.find_excess, FIRST), (self.find_memory_excess, QUICKLY))
        watches = [asyncio.create_task(self._repeat(look, pause, flooding)) for look, pause in looks]
        try:
            done, _ = await asyncio.wait(watches, return_when=asyncio.FIRST_COMPLETED)
            return next(iter(done)).result()
        finally:
            for each in watches:
                each.cancel()
            await asyncio.gather(*watches, return_exceptions=True)

    async def _repeat(self, look: Callable[[], str], pause: float, flooding: asyncio.Future[None]) -> str:
        while True:
            await asyncio.wait({flooding}, timeout=pause)
            if flooding.done():
                return self._flooded()
            began = time.monotonic()
            if over := await asyncio.to_thread(look):
                return over
            pause = min(max(pause, _SHARE * (time.monotonic() - began)), _LONGEST)

    async def find_final_excess(self, *, flooded: bool) -> str:
        """What was too much in the end, when no process is left; empty if nothing, or if it was too short to matter."""
        if flooded:
            return self._flooded()
        if not self._looked and not self._budget.exact:
            return ""
        return await asyncio.to_thread(self.find_excess)

    async def clear(self) -> None:
        """Remove what was written, as far as it may be."""
        await asyncio.to_thread(self._clear)

    def _flooded(self) -> str:
        return f"it printed more than {_shown(self._budget.output)}"

    def find_excess(self) -> str:
        """What is used too much of, but for memory; empty if nothing."""
        self._looked = True
        try:
            count = self._busy()
            if count > self._budget.processes:
                return f"it had more than {self._budget.processes:,} processes and threads"
            _Sum(self._budget, self._nameless()).add(self._places)
        except TooMuchError as error:
            return str(error)
        except OSError:  # no descriptor just now, or a place changed under our hands: the next look tells
            return ""
        return ""

    def find_memory_excess(self) -> str:
        """Whether too much memory is used; empty if not, or if nothing limits it."""
        most = self._budget.memory
        try:
            if most is None or memory.measure_memory(keeper.signal_descendants(self._keeper), most) <= most:
                return ""
        except OSError:  # no descriptor just now: the next look tells
            return ""
        return f"its processes took more than {_shown(most)} of memory together"

    def _busy(self) -> int:
        with suppress(OSError):  # no descriptor or memory just now
            return sum(process.threads for process in keeper.signal_descendants(self._keeper))
        return 0

    def _nameless(self) -> int:
        """Bytes of files that were removed and are still open: they take their place, and stand in no folder."""
        found: dict[tuple[int, int], int] = {}
        with suppress(OSError):
            for process in keeper.signal_descendants(self._keeper):
                for status in _open_files(process.pid):
                    if stat.S_ISREG(status.st_mode) and not status.st_nlink:
                        found[status.st_dev, status.st_ino] = status.st_blocks * _BLOCK
        return sum(found.values())

    def _clear(self) -> None:
        kept = set(self._budget.kept)
        for place in self._budget.cleared:
            with suppress(OSError):
                for entry in list(os.scandir(place)):
                    path = Path(entry.path)
                    if path in kept:
                        continue
                    with suppress(OSError):
                        if entry.is_dir(follow_symlinks=False):
                            path.chmod(stat.S_IRWXU)
                            sandbox.erase(path)
                        else:
                            path.unlink()


def _open_files(pid: int) -> Iterator[os.stat_result]:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)  # noqa: PTH208 - a path is not needed
    except OSError:
        return
    for name in names:
        with suppress(OSError):
            yield os.stat(f"{folder}/{name}")  # noqa: PTH116 - as above


class _Sum:
    """Adds up what lies in folders, and raises TooMuchError as soon as it is too much."""

    def __init__(self, budget: ResourceBudget, size: int) -> None:
        self._budget = budget
        self._size = size
        self._files = 0
        self._seen: set[tuple[int, int]] = set()

    def add(self, places: tuple[Path, ...]) -> None:
        """All that lies in the places. A place that is gone, or no folder, has nothing in it."""
        self._check()
        for place in places:
            with suppress(FileNotFoundError, NotADirectoryError):
                top = os.open(place, _FOLDER)
                try:
                    self._walk(top, _DEEPEST)
                finally:
                    os.close(top)

    def _walk(self, folder: int, depth: int) -> None:
        if not depth:
            raise TooMuchError(f"its folders are nested deeper than {_DEEPEST}")
        inner = []
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    self._count(status)
                    if stat.S_ISDIR(status.st_mode):
                        inner.append(entry.name)
        for name in inner:
            with suppress(FileNotFoundError, NotADirectoryError):
                try:
                    below = os.open(name, _FOLDER, dir_fd=folder)
                except PermissionError as error:
                    raise TooMuchError("it has a folder that nobody can look into") from error
                except OSError as error:
                    if error.errno != errno.ELOOP:
                        raise  # then nothing was counted, rather than a part of it
                    continue  # a link by now
                try:
                    self._walk(below, depth - 1)
                finally:
                    os.close(below)

    def _count(self, status: os.stat_result) -> None:
        self._files += 1
        if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
            known = (status.st_dev, status.st_ino)
            if known in self._seen:
                return
            self._seen.add(known)
        self._size += status.st_blocks * _BLOCK
        self._check()

    def _check(self) -> None:
        if self._files > self._budget.files:
            raise TooMuchError(f"it had more than {self._budget.files:,} files and folders")
        if self._size > self._budget.disk:
            raise TooMuchError(f"its files took more than {_shown(self._budget.disk)} of the disk")


def _shown(size: int) -> str:
    return f"{size // _MIB:,} MiB"
