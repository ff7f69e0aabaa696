"""Measures what all processes of a turn use together, while they run.

The kernel limits single processes. What many of them use together is unlimited unless the operator sets up control
groups. So it is measured: soon after the start and then repeatedly, with each measurement taking only a small part of
the time. Between two measurements a program can exceed its budget: this bounds damage, and does not forbid it.
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
from agenttalk.ports.agents import ResourceBudget
from agenttalk.rules.text import turn_words

FIRST: Final = 0.25
"""Seconds until the first measurement."""
QUICKLY: Final = 0.1
"""The same for memory."""
_SHARE: Final = 20
"""The pause after a measurement, as a multiple of the time that it took."""
_LONGEST: Final = 30.0
_DEEPEST: Final = 100
"""Depth of folders; each costs a descriptor while it is read."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK: Final = 512
_MIB: Final = 1024 * 1024


class TooMuchError(Exception):
    """A budget is used up. The message says which one."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class TurnMeter:
    """Measures one turn."""

    def __init__(self, budget: ResourceBudget, keeper_pid: int, temporary: Path | None) -> None:
        """`keeper_pid`: the ancestor of all processes of the turn. `temporary`: its folder for temporary files."""
        self._budget = budget
        self._keeper = keeper_pid
        self._places = (*budget.places, *([temporary] if temporary else []))
        self._looked = False

    async def watch(self, flooding: asyncio.Future[None]) -> str:
        """Wait until a budget is exceeded, and return which one; else never return."""
        if self._budget.memory is None:
            return await self._repeat(self.find_excess, FIRST, flooding)
        # Memory runs out faster than a disk, so its own loop does not wait for the one that walks folders.
        looks = ((self.find_excess, FIRST), (self.find_memory_excess, QUICKLY))
        watches = [asyncio.create_task(self._repeat(look, pause, flooding)) for look, pause in looks]
        try:
            done, _ = await asyncio.wait(watches, return_when=asyncio.FIRST_COMPLETED)
            return next(iter(done)).result()
        finally:
            for task in watches:
                task.cancel()
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
        """Return which budget was exceeded in the end, when no process is left; empty if none."""
        if flooded:
            return self._flooded()
        if not self._looked and not self._budget.exact:
            return ""
        return await asyncio.to_thread(self.find_excess)

    async def clear(self) -> None:
        """Remove what was written, as far as that is allowed."""
        await asyncio.to_thread(self._clear)

    def _flooded(self) -> str:
        return turn_words.PRINTED(size=_shown(self._budget.output))

    def find_excess(self) -> str:
        """Return which budget other than memory is exceeded; empty if none."""
        self._looked = True
        try:
            count = self._busy()
            if count > self._budget.processes:
                return turn_words.TOO_MANY(count=self._budget.processes)
            _Sum(self._budget, self._nameless()).add(self._places)
        except TooMuchError as error:
            return error.message
        except OSError:  # no descriptor left, or a folder changed meanwhile: the next measurement decides
            return ""
        return ""

    def find_memory_excess(self) -> str:
        """Return whether too much memory is used; empty if not, or if there is no limit."""
        most = self._budget.memory
        try:
            if most is None or memory.measure_memory(keeper.signal_descendants(self._keeper), most) <= most:
                return ""
        except OSError:  # no descriptor left: the next measurement decides
            return ""
        return turn_words.MEMORY(size=_shown(most))

    def _busy(self) -> int:
        with suppress(OSError):  # no descriptor or memory left
            return sum(process.threads for process in keeper.signal_descendants(self._keeper))
        return 0

    def _nameless(self) -> int:
        """Count the bytes of removed files that are still open: they use the disk, and no folder lists them."""
        sizes: dict[tuple[int, int], int] = {}
        with suppress(OSError):
            for process in keeper.signal_descendants(self._keeper):
                for status in _open_files(process.pid):
                    if stat.S_ISREG(status.st_mode) and not status.st_nlink:
                        sizes[status.st_dev, status.st_ino] = status.st_blocks * _BLOCK
        return sum(sizes.values())

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
    """Adds up the content of folders, and raises TooMuchError as soon as it exceeds the limit."""

    def __init__(self, budget: ResourceBudget, size: int) -> None:
        self._budget = budget
        self._size = size
        self._files = 0
        self._seen: set[tuple[int, int]] = set()

    def add(self, places: tuple[Path, ...]) -> None:
        """Add everything in the folders. A path that is gone, or is not a folder, adds nothing."""
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
                    raise TooMuchError("it has a folder that cannot be read") from error
                except OSError as error:
                    if error.errno != errno.ELOOP:
                        raise  # count nothing rather than a part
                    continue  # replaced by a link meanwhile
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
