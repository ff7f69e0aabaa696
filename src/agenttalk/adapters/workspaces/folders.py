"""Our own folders with content that agents made: written atomically, removed with any content."""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ROUNDS: Final = 20
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")


def make_fresh_folder(parent: Path) -> Path:
    """Make a new folder under an unused name."""
    parent.mkdir(parents=True, exist_ok=True)
    path = parent / new_name()
    path.mkdir()
    return path


def new_name() -> str:
    """Return an unused name."""
    return secrets.token_hex(8)


def write(path: Path, data: bytes) -> None:
    """Write a whole file atomically, and onto the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    new.replace(path)


def remove(path: Path, trash: Path) -> None:
    """Remove a folder with everything in it, however deep, without following a symlink.

    It leaves its place at once, by being renamed into `trash`; `empty_folder` removes what a crash leaves there.
    """
    trash.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        path.chmod(0o700)  # a folder without write permission cannot be moved either
    with suppress(FileNotFoundError):
        path.rename(trash / secrets.token_hex(8))
    empty_folder(trash)


def empty_folder(trash: Path) -> None:
    """Remove everything in a folder. Folders are first moved up, so that no depth is too deep.

    A program that outlived us may still add to it, so it is tried more than once.
    """
    try:
        top = os.open(trash, FOLDER)
    except FileNotFoundError:
        return
    stuck = 0
    try:
        while stuck < _ROUNDS and (names := os.listdir(top)):  # noqa: PTH208 - a descriptor
            stuck += 1
            for name in names:
                with suppress(OSError):
                    _clear(top, name)
                    stuck = 0
    finally:
        os.close(top)


def _clear(top: int, name: str) -> None:
    if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=top)
        return
    here = _opened(top, name)
    try:
        with os.scandir(here) as entries:
            found = list(entries)
        for inner in found:
            if inner.is_dir(follow_symlinks=False):
                _move(here, inner.name, top)
            else:
                os.unlink(inner.name, dir_fd=here)
    finally:
        os.close(here)
    os.rmdir(name, dir_fd=top)


def _move(here: int, name: str, top: int) -> None:
    """Move a folder, which gets the rights for that if it lacks them. What is mounted here stays as it is."""
    try:
        os.rename(name, new_name(), src_dir_fd=here, dst_dir_fd=top)
    except PermissionError:
        os.close(_opened(here, name))
        os.rename(name, new_name(), src_dir_fd=here, dst_dir_fd=top)


def has_mounts(path: Path) -> bool:
    """Return whether something is mounted below a folder. Who removes files there would remove those of others."""
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:  # no Linux
        return False
    below = os.fsencode(path.resolve()) + b"/"
    return any((_ESCAPED.sub(_unescape, line.split()[4]) + b"/").startswith(below) for line in lines)


def _unescape(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 8)])


def _opened(parent: int, name: str) -> int:
    """Open a folder, and give it the rights to be emptied and moved."""
    try:
        descriptor = os.open(name, FOLDER, dir_fd=parent)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=parent)
        descriptor = os.open(name, FOLDER, dir_fd=parent)
    os.fchmod(descriptor, 0o700)
    return descriptor


def list_below(path: Path) -> Iterator[Path]:
    """Iterate over a path and everything in it, deepest first. Follows no symlink."""
    if path.is_dir() and not path.is_symlink():
        with os.scandir(path) as entries:
            inner = sorted(entry.name for entry in entries)
        for name in inner:
            yield from list_below(path / name)
    yield path
