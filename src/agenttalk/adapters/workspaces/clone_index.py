"""What an attempt told its own git: which files it added, and which are not to be shown.

The clone may be hostile. Two files of its .git folder are read, by descriptors that follow no symlink; git reads only a
copy of the index, in a depot of ours. The result decides nothing about the work. It is reported, so that nothing is
dropped silently, and it shows whether something was to stay hidden. What cannot be read is skipped.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agenttalk.adapters.workspaces import folders
from agenttalk.adapters.workspaces.folders import FOLDER
from agenttalk.adapters.workspaces.objects import GitObjects
from agenttalk.adapters.workspaces.tree_reader import Listing
from agenttalk.contracts.errors import MachineError
from agenttalk.rules.core import scope
from agenttalk.rules.core.scope import Globs

_LIMIT: Final = 64 * 1024 * 1024
_TOLD: Final = 200
"""Paths that are reported, at most."""
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class CloneIndex:
    """The index and the excludes of a clone."""

    paths: frozenset[str] = frozenset()
    unseen: frozenset[str] = frozenset()
    """Paths whose changes git should not notice."""
    excluded: Globs = field(default_factory=Globs)

    def added_in_vain(self, top: Path, before: Listing, taken: Listing) -> tuple[str, ...]:
        """List files that were added, exist, and were not taken."""
        candidates = sorted(path for path in self.paths if path not in before and path not in taken)
        return tuple(path for path in candidates[:_TOLD] if (top / path).is_file())

    def find_veiled(self, paths: Iterable[str]) -> frozenset[str]:
        """List which of some paths git would not show."""
        return frozenset(path for path in paths if path in self.unseen or self.excluded.covers(path))


def read_index(objects: GitObjects, folder: Path, temporary: Path, known: Listing) -> CloneIndex:
    """Read the index and the excludes of a clone. Its index at first, with the `known` files, is kept beside it."""
    top = folder / "tree"
    data = _content(top, (".git", "index"))
    exclude = _content(top, (".git", "info", "exclude"))
    excluded = scope.read_ignore_file(exclude.decode(errors="surrogateescape")) if exclude else Globs()
    if not data:
        return CloneIndex(excluded=excluded)
    with suppress(OSError):
        if data == (folder / "index").read_bytes():  # git was not used
            return CloneIndex(frozenset(known), frozenset(), excluded)
    copy = folders.make_fresh_folder(temporary)
    try:
        (copy / "index").write_bytes(data)
        listed = objects.call("ls-files", "-z", "-v", "--cached", index=copy / "index", most=_LIMIT).out
    except MachineError:  # not an index
        return CloneIndex(excluded=excluded)
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    lines = [os.fsdecode(line) for line in listed.split(b"\0") if line[1:2] == b" "]
    unseen = frozenset(line[2:] for line in lines if line[0] == "S" or line[0].islower())
    return CloneIndex(frozenset(line[2:] for line in lines), unseen, excluded)


def _content(top: Path, steps: tuple[str, ...]) -> bytes:
    """Read a file below a folder that may be hostile; empty if it is missing, or not a regular file."""
    *above, name = steps
    opened = []
    try:
        opened.append(os.open(top, FOLDER))
        for step in above:
            opened.append(os.open(step, FOLDER, dir_fd=opened[-1]))
        opened.append(os.open(name, _READ, dir_fd=opened[-1]))
        status = os.fstat(opened[-1])
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LIMIT:
            return b""
        with os.fdopen(os.dup(opened[-1]), "rb") as file:
            return file.read(_LIMIT)
    except OSError:
        return b""
    finally:
        for descriptor in opened:
            with suppress(OSError):
                os.close(descriptor)
