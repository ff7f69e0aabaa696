"""Detects whether files were touched while a command ran, even if that was hidden.

A program can restore a file's content and times, but not the time of its last change (ctime). It can also move a folder
away, put another in its place, and move it back; inotify reports that.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_NONBLOCK, _CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_MOVED: Final = 0x0400 | 0x0800
"""IN_DELETE_SELF and IN_MOVE_SELF."""
_OVERFLOW: Final = 0x4000
_HEAD: Final = 16
"""Bytes of an event, before the name that it carries."""

FileStamp = tuple[int, ...] | None


@contextmanager
def watch_files(top: Path, paths: Iterable[Path]) -> Iterator[Callable[[], list[str]]]:
    """Watch files in `top`, and folders with their content; the yielded function lists which were touched since."""
    kept = tuple(paths)
    before = {path: _mark(path) for path in _each(kept)}
    way = sorted({above for path in kept for above in path.parents if top in above.parents})
    with _moves(way) as moved:

        def touched() -> list[str]:
            after = {path: _mark(path) for path in _each(kept)}
            changed = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
            return sorted(str(path.relative_to(top)) for path in (*changed, *moved()))

        yield touched


def _each(paths: Iterable[Path]) -> Iterator[Path]:
    """List paths and everything below them."""
    for path in paths:
        yield path
        with suppress(OSError):
            if stat.S_ISDIR(path.lstat().st_mode):
                yield from _each(sorted(path.iterdir()))


def _mark(path: Path) -> FileStamp:
    """Return what every touch of a file changes; None when there is no file."""
    try:
        status = path.lstat()
    except OSError:
        return None
    size = 0 if stat.S_ISDIR(status.st_mode) else status.st_size
    return (status.st_mode, size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)


@contextmanager
def _moves(folders: list[Path]) -> Iterator[Callable[[], list[Path]]]:
    """List the folders that were moved or removed since. If the kernel cannot watch any more, all count as moved."""
    if not folders:
        yield list
        return
    calls = ctypes.CDLL(None, use_errno=True)
    watch = calls.inotify_init1(_NONBLOCK | _CLOEXEC)
    names: dict[int, Path] = {}
    try:
        for folder in folders:
            names[calls.inotify_add_watch(watch, os.fsencode(folder), _MOVED)] = folder

        def moved() -> list[Path]:
            if watch < 0 or -1 in names:
                return folders
            events = list(_events(watch))
            return (
                folders
                if any(mask & _OVERFLOW for _, mask in events)
                else [names[at] for at, _ in events if at in names]
            )

        yield moved
    finally:
        if watch >= 0:
            os.close(watch)


def _events(watch: int) -> Iterator[tuple[int, int]]:
    """Split the data of inotify into events: which watch, and what."""
    with suppress(BlockingIOError):
        while data := os.read(watch, 1 << 16):
            at = 0
            while at < len(data):
                number, mask, length = (
                    int.from_bytes(data[at + start : at + start + 4], "little", signed=start == 0)
                    for start in (0, 4, 12)
                )
                yield number, mask
                at += _HEAD + length
