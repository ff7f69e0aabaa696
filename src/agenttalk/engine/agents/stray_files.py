"""The scope of a task that works on no repository: it holds for the folder in which its agent works.

What lies there is noted before the turn and compared afterwards. The time of a change (ctime) cannot be set by a
program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from agenttalk.contracts.errors import Code, InputError
from agenttalk.engine.core.attempt_paths import AttemptPaths
from agenttalk.ports.agents import Job
from agenttalk.ports.folders import Folder
from agenttalk.rules.core import scope

_DEEPEST: Final = 40
_MOST: Final = 50_000
"""Files that are compared."""
_TOLD: Final = 20


class FileMark(NamedTuple):
    """The identity of an unchanged file."""

    inode: int
    size: int
    ctime_ns: int


FileMarks = dict[str, FileMark]


def is_limited(job: Job) -> bool:
    """Whether a job has a scope, and no repository in which the scope is checked."""
    promise = job.command.promise
    return job.repo is None and promise is not None and bool(promise.allowed_scope or promise.disallowed_scope)


def scan_marks(root: Folder, layout: AttemptPaths) -> FileMarks:
    """Scan the folder of an attempt. Raises InputError for more files than can be compared."""
    skipped = {part for part in (layout.base.removeprefix(f"{layout.cwd}/").partition("/")[0],) if part}
    found: FileMarks = {}
    for path, mark in _walk(root, layout.cwd, "", skipped, _DEEPEST):
        found[path] = mark
        if len(found) > _MOST:
            raise InputError(Code.FILE_TOO_LARGE, f"{layout.cwd} has more than {_MOST:,} files, too many for a scope")
    return found


def find_strays(job: Job, before: FileMarks, after: FileMarks) -> tuple[str, ...]:
    """Find the files that a turn changed in its folder although its scope does not allow it."""
    promise = job.command.promise
    if promise is None:
        return ()
    allowed = scope.make_scope(promise.allowed_scope, promise.disallowed_scope)
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    return tuple(scope.display_path(path) for path in allowed.find_breaches(changed)[:_TOLD])


def _walk(root: Folder, top: str, above: str, skipped: set[str], depth: int) -> Iterator[tuple[str, FileMark]]:
    if not depth:
        raise InputError(Code.FILE_UNSAFE, f"the folders of {top!r} are nested too deep for a scope")
    with root.open_folder(f"{top}/{above}" if above else top) as here:
        entries = [entry for entry in here.scan() if above or entry.name not in skipped]
    for entry in entries:
        path = f"{above}/{entry.name}" if above else entry.name
        if entry.kind == "folder":
            yield from _walk(root, top, path, skipped, depth - 1)
        else:
            yield path, FileMark(entry.inode, entry.size, entry.ctime_ns)
