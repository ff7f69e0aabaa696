"""Turns the scope of a task into a view of its tree: the places that a sandbox makes writable or read-only.

A sandbox knows places, not globs: everything at a place, now or later, is writable or is not, and an inner place
overrides an outer one. So a folder is writable if a file that the scope permits could be made directly in it, and
existing files there that are not permitted are read-only. What places cannot express is reported, and the comparison
of the tree before and after finds it.
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
"""The most read-only places of a sandbox: each costs a little, and many together cost more than their sum."""
_ANYTHING: Final = r".*\Z"
"""The pattern of a star."""
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TreeListing:
    """The files and folders of a tree, by paths from its top."""

    folders: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    links: frozenset[str] = frozenset()
    """Symlinks and everything else that is neither a file nor a folder. They cannot be places of a sandbox."""


@dataclass(frozen=True, slots=True)
class WritableView:
    """The writable places of a tree. The innermost place around a path decides; without one it is not writable."""

    writable: tuple[str, ...] = ()
    """Folders, outer ones first; the empty path is the whole tree."""
    readonly: tuple[str, ...] = ()
    """Files and folders within them."""
    make: tuple[str, ...] = ()
    """Missing folders that would contain something permitted."""
    unguarded: tuple[str, ...] = ()
    """Existing files and folders that are not permitted, but that the sandbox cannot protect."""
    loose: tuple[str, ...] = ()
    """The outermost folders in which a file could be made that is not permitted."""
    closed: tuple[str, ...] = ()
    """Folders in which a permitted file could be made, but which are read-only because there are too many places."""


def build_view(
    allowed: Sequence[str], disallowed: Sequence[str], listing: TreeListing, *, most: int = MOST
) -> WritableView:
    """Build the view of a tree for a promise's scope. Raises InputError as `scope.read_globs` does."""
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
    """An unfinished view."""

    modes: dict[str, bool]
    """Folder → whether it is writable."""
    writable: set[str] = field(default_factory=set)
    """Writable folders within one that is not writable."""
    readonly: set[str] = field(default_factory=set)
    """Read-only files and folders within a writable folder."""

    def drop_excess_readonly(self, most: int) -> set[str]:
        """Drop read-only places until there are few enough: first the files of the fullest folders, then folders."""
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
        """Return the folders that have to be writable places: outermost ones, and those on the way to read-only places.

        A place of a sandbox cannot be renamed, so the work cannot move a protected file away and put another there.
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
    """Whether a permitted file could be made directly in a folder."""
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
    """Yield for each relevant glob whether it could match something new in a folder."""
    for glob in reversed(meant.allowed.globs):
        engulfs = _engulfs(glob, parts)
        if glob.negated and engulfs:
            return
        if not glob.negated:
            yield engulfs or any(_needs(meant, glob, at, folder, listing) for at in glob.find_next_steps(parts))
    yield meant.allowed.otherwise


def _needs(meant: Scope, glob: Glob, at: int, folder: str, listing: TreeListing) -> bool:
    """Whether a step of a glob needs its folder to be writable. The name of an existing folder does not."""
    name = _fixed(glob, at)
    if name is None or at == len(glob.steps) - 1:
        return True
    inner = f"{folder}/{name}" if folder else name
    return inner not in listing.folders and not _is_shut(meant, _parts(inner))


def _fixed(glob: Glob, at: int) -> str | None:
    """Return the name that a step matches, if it matches only one."""
    step = glob.steps[at]
    if step is None:
        return None
    name = _ESCAPED.sub(r"\1", step.pattern.removesuffix(r"\Z"))
    return name if step.pattern == re.escape(name) + r"\Z" else None


def _deepest(glob: Glob) -> str:
    """Return the folder that the leading fixed names of a glob make up."""
    found: list[str] = []
    for at in range(len(glob.steps) - 1):
        name = _fixed(glob, at)
        if name is None:
            break
        found.append(name)
    return "/".join(found)


def _missing(meant: Scope, listing: TreeListing) -> set[str]:
    """Find folders that globs name and that are missing, but can be made."""
    found: set[str] = set()
    taken = listing.files | listing.links
    for glob in meant.allowed.globs:
        folder = _deepest(glob)
        way = {folder, *_above(folder)} - {""}
        if not glob.negated and not way & taken and not _is_shut(meant, _parts(folder)):
            found |= way - listing.folders
    return found


def _idle(meant: Scope, listing: TreeListing, drawn: _ViewDraft) -> frozenset[str]:
    """Find writable folders that contain nothing permitted and that no glob names."""
    used = {_deepest(glob) for glob in meant.allowed.globs if not glob.negated} | {""}
    for path in listing.files | listing.links:
        if meant.permits(path):
            used.update(_above(path))
    return frozenset(folder for folder, mode in drawn.modes.items() if mode and folder not in used)


def _loose(meant: Scope, drawn: _ViewDraft) -> tuple[str, ...]:
    """Find the outermost writable folders in which not everything is permitted."""
    found: set[str] = set()
    for folder in sorted(folder for folder, mode in drawn.modes.items() if mode):
        if not found.intersection(_above(folder)) and not _is_whole(meant, _parts(folder)):
            found.add(folder)
    return tuple(sorted(found))


def _is_whole(meant: Scope, parts: Sequence[str]) -> bool:
    """Whether everything that is or could be in a folder is permitted."""
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
    """Whether the remaining steps of a glob match any path."""
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
    """Yield the folders on the way to a path, the nearest first, and the top last."""
    while path:
        path = _parent(path)
        yield path
