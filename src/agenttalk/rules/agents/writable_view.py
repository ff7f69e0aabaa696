"""The scope of a task as a view of its tree: which places a sandbox lets it write, and which it does not.

A sandbox knows places, not globs: whatever lies at a place, or will, is writable or is not, and an inner place wins
over an outer one. So a folder is writable when something that the scope permits could come to be directly in it, and
what exists there and is not permitted is read-only. What places cannot say is told, and left to the comparison of the
tree before and after.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

from agenttalk.rules.core import scope
from agenttalk.rules.core.scope import Glob, Scope

MOST: Final = 300
"""Read-only places that a sandbox is asked for: each costs a little, and many together more than that."""
_ANYTHING: Final = r".*\Z"
"""What a star becomes."""
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TreeListing:
    """What lies in a tree, by paths from its top."""

    folders: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    links: frozenset[str] = frozenset()
    """Symlinks, and whatever else is neither a file nor a folder: no place can be made of those."""


@dataclass(frozen=True, slots=True)
class WritableView:
    """What may be written in a tree. The innermost place that holds a path decides; what no place holds is not."""

    writable: tuple[str, ...] = ()
    """Folders, outer ones first; the empty path is the whole tree."""
    readonly: tuple[str, ...] = ()
    """Files and folders inside of them."""
    make: tuple[str, ...] = ()
    """Folders that are missing, and that something permitted would lie in."""
    unguarded: tuple[str, ...] = ()
    """What exists, is not permitted, and can be written all the same; of a folder, all that lies in it."""
    loose: tuple[str, ...] = ()
    """Folders in which something could be made that is not permitted; outermost ones."""
    closed: tuple[str, ...] = ()
    """Folders in which something permitted could be made, and which are read-only because there are so many."""

    def allows(self, path: str) -> bool:
        """Whether a path can be written."""
        writable, readonly = set(self.writable), set(self.readonly)
        for place in (path, *_above(path)):
            if place in readonly:
                return False
            if place in writable:
                return True
        return False


def build_view(
    allowed: Sequence[str], disallowed: Sequence[str], listing: TreeListing, *, most: int = MOST
) -> WritableView:
    """The view of a tree that a promise's scope gives. Raises InputError as `scope.globs` does."""
    meant = scope.make_scope(allowed, disallowed)
    make = tuple(sorted(_missing(meant, listing)))
    listing = TreeListing(listing.folders | set(make), listing.files, listing.links)
    drawn = _draft_view(meant, listing, frozenset())
    closed: frozenset[str] = frozenset()
    if len(drawn.readonly) > most and not meant.allowed.otherwise:
        closed = _idle(meant, listing, drawn)
        drawn = _draft_view(meant, listing, closed)
    unguarded = drawn.drop_excess_readonly(most)
    closed = frozenset(path for path in closed if not unguarded.intersection((path, *_above(path))))
    unguarded |= {path for path in listing.links if drawn.modes[_parent(path)] and not meant.permits(path)}
    return WritableView(
        writable=tuple(sorted(drawn.places())),
        readonly=tuple(sorted(drawn.readonly)),
        make=make,
        unguarded=tuple(sorted(unguarded)),
        loose=_loose(meant, drawn),
        closed=tuple(sorted(closed)),
    )


@dataclass(slots=True)
class _ViewDraft:
    """A view while it is made."""

    modes: dict[str, bool]
    """Folder → whether it is writable."""
    writable: set[str] = field(default_factory=set)
    """Those that lie in something that is not."""
    readonly: set[str] = field(default_factory=set)
    """Files and folders that lie in something that is writable."""

    def drop_excess_readonly(self, most: int) -> set[str]:
        """Give up read-only places until there are few enough: files of the fullest folders first, then folders."""
        given: set[str] = set()
        files: dict[str, set[str]] = {}
        for path in sorted(self.readonly - self.modes.keys()) if len(self.readonly) > most else ():
            files.setdefault(_parent(path), set()).add(path)
        folders = sorted(self.readonly & self.modes.keys())
        for here in [*sorted(files.values(), key=len, reverse=True), *({folder} for folder in folders)]:
            if len(self.readonly) > most:
                self.readonly -= here
                given |= here
        return given

    def places(self) -> set[str]:
        """Folders that have to be writable places: those in none, and those on the way to what is read-only.

        The latter because a place cannot be renamed, and so nothing can be put where they were.
        """
        found: set[str] = set()
        for folder in sorted(self.writable):
            nearest = next((each for each in _above(folder) if each in found or each in self.readonly), None)
            if nearest is None or nearest in self.readonly:
                found.add(folder)
        pinned: set[str] = set()
        for path in self.readonly:
            pinned.update(takewhile(lambda folder: folder not in found, _above(path)))
        return found | pinned


def _draft_view(meant: Scope, listing: TreeListing, closed: frozenset[str]) -> _ViewDraft:
    drawn = _ViewDraft({"": _is_open(meant, "", listing)})
    if drawn.modes[""]:
        drawn.writable.add("")
    for folder in sorted(listing.folders):
        mode = folder not in closed and _is_open(meant, folder, listing)
        drawn.modes[folder] = mode
        if mode != drawn.modes[_parent(folder)]:
            (drawn.writable if mode else drawn.readonly).add(folder)
    drawn.readonly.update(path for path in listing.files if drawn.modes[_parent(path)] and not meant.permits(path))
    return drawn


def _is_open(meant: Scope, folder: str, listing: TreeListing) -> bool:
    """Whether something that is permitted could come to be directly in a folder."""
    parts = _parts(folder)
    return not _is_shut(meant, parts) and any(_makes(meant, parts, folder, listing))


def _is_shut(meant: Scope, parts: Sequence[str]) -> bool:
    """Whether everything in a folder is disallowed."""
    for glob in reversed(meant.disallowed.globs):
        if not glob.negated and _engulfs(glob, parts):
            return True
        if glob.negated and _touches(glob, parts):
            return False
    return False


def _makes(meant: Scope, parts: Sequence[str], folder: str, listing: TreeListing) -> Iterator[bool]:
    """For each glob that counts in a folder, whether it could match something new there."""
    for glob in reversed(meant.allowed.globs):
        engulfs = _engulfs(glob, parts)
        if glob.negated and engulfs:
            return
        if not glob.negated:
            yield engulfs or any(_needs(meant, glob, at, folder, listing) for at in glob.find_next_steps(parts))
    yield meant.allowed.otherwise


def _needs(meant: Scope, glob: Glob, at: int, folder: str, listing: TreeListing) -> bool:
    """Whether a step of a glob needs its folder to be writable: not for a folder of a fixed name that is there."""
    name = _fixed(glob, at)
    if name is None or at == len(glob.steps) - 1:
        return True
    inner = f"{folder}/{name}" if folder else name
    return inner not in listing.folders and not _is_shut(meant, _parts(inner))


def _fixed(glob: Glob, at: int) -> str | None:
    """The one name that a step matches, if it is only one."""
    step = glob.steps[at]
    if step is None:
        return None
    name = _ESCAPED.sub(r"\1", step.pattern.removesuffix(r"\Z"))
    return name if step.pattern == re.escape(name) + r"\Z" else None


def _deepest(glob: Glob) -> str:
    """The deepest folder that a glob names, wherever it may match in it."""
    found: list[str] = []
    for at in range(len(glob.steps) - 1):
        name = _fixed(glob, at)
        if name is None:
            break
        found.append(name)
    return "/".join(found)


def _missing(meant: Scope, listing: TreeListing) -> set[str]:
    """Folders that globs name and that are not there, but can be made."""
    found: set[str] = set()
    taken = listing.files | listing.links
    for glob in meant.allowed.globs:
        folder = _deepest(glob)
        way = {folder, *_above(folder)} - {""}
        if not glob.negated and not way & taken and not _is_shut(meant, _parts(folder)):
            found |= way - listing.folders
    return found


def _idle(meant: Scope, listing: TreeListing, drawn: _ViewDraft) -> frozenset[str]:
    """Writable folders with nothing permitted in them, that no glob names."""
    used = {_deepest(glob) for glob in meant.allowed.globs if not glob.negated} | {""}
    for path in listing.files | listing.links:
        if meant.permits(path):
            used.update(_above(path))
    return frozenset(folder for folder, mode in drawn.modes.items() if mode and folder not in used)


def _loose(meant: Scope, drawn: _ViewDraft) -> tuple[str, ...]:
    """Outermost writable folders in which not everything is permitted."""
    found: set[str] = set()
    for folder in sorted(folder for folder, mode in drawn.modes.items() if mode):
        if not found.intersection(_above(folder)) and not _is_whole(meant, _parts(folder)):
            found.add(folder)
    return tuple(sorted(found))


def _is_whole(meant: Scope, parts: Sequence[str]) -> bool:
    """Whether everything in a folder is permitted, be it there or not."""
    if any(not glob.negated and _touches(glob, parts) for glob in meant.disallowed.globs):
        return False
    for glob in reversed(meant.allowed.globs):
        if not glob.negated and _engulfs(glob, parts):
            return True
        if glob.negated and _touches(glob, parts):
            return False
    return meant.allowed.otherwise


def _engulfs(glob: Glob, parts: Sequence[str]) -> bool:
    """Whether a glob matches everything in a folder."""
    if glob.covers(parts, folder=True):
        return True
    return not glob.folder and any(_is_anything(glob, at) for at in glob.find_next_steps(parts))


def _is_anything(glob: Glob, at: int) -> bool:
    """Whether what a glob still asks for is met by any path."""
    step, *rest = glob.steps[at:]
    return step is not None and step.pattern == _ANYTHING and not any(rest)


def _touches(glob: Glob, parts: Sequence[str]) -> bool:
    """Whether a glob could match anything in a folder."""
    return bool(glob.find_next_steps(parts)) or glob.covers(parts, folder=True)


def _parts(folder: str) -> list[str]:
    return folder.split("/") if folder else []


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _above(path: str) -> Iterable[str]:
    """The folders on the way to a path, the top with them, the nearest first."""
    while path:
        path = _parent(path)
        yield path
