"""Keeps the content of a folder as a tree, and reads what an attempt told its own git.

The clone may be hostile. Two files of its .git folder are read, by descriptors that follow no symlink; git reads only a
copy of the index, in a depot of ours. The result decides nothing about the work. It is reported, so that nothing is
dropped silently, and it shows whether something was to stay hidden. What cannot be read is skipped.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

from agenttalk.adapters.workspaces import folders, tree_reader
from agenttalk.adapters.workspaces.folders import FOLDER
from agenttalk.adapters.workspaces.objects import GitObjects
from agenttalk.adapters.workspaces.tree_reader import FolderWalk, Listing, Reason, TreeEntry, TreeLimits, TreeRules
from agenttalk.contracts.errors import MachineError
from agenttalk.rules.core import scope
from agenttalk.rules.core.scope import Globs, IgnoreRules

_SKIPPED = IgnoreRules({})
_LIMIT: Final = 64 * 1024 * 1024
_TOLD: Final = 200
"""Paths that are reported, at most."""
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def keep_tree(
    objects: GitObjects, top: Path, rules: TreeRules, start: str, temporary: Path
) -> str | tuple[Reason, ...]:
    """Keep a folder as a tree, or return the reasons why not; then nothing is kept. `start` is the known tree.

    Only new content is copied: first aside, because the whole folder is checked before anything of it is kept.
    """
    temporary.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=temporary) as aside:

        def put(data: bytes) -> None:
            aside.write(len(data).to_bytes(8, "big"))
            aside.write(data)

        walk = FolderWalk(rules, put)
        walk.run(top)
        if walk.reasons:
            return tuple(walk.reasons)
        if aside.tell():
            objects.write_blobs(_read_back_blobs(aside))
    return objects.alter_tree(start, _difference(rules.known, walk.listing))


def _read_back_blobs(aside: IO[bytes]) -> Iterator[bytes]:
    aside.seek(0)
    while size := aside.read(8):
        yield aside.read(int.from_bytes(size, "big"))


def _difference(before: Listing, after: Listing) -> dict[str, TreeEntry | None]:
    gone: dict[str, TreeEntry | None] = {path: None for path in before if path not in after}
    return gone | {path: item for path, item in after.items() if before.get(path) != item}


def ignored_by(objects: GitObjects, listing: Listing) -> IgnoreRules:
    """Return what the .gitignore files of a tree leave out."""
    files = {
        path.rpartition("/")[0]: item.oid
        for path, item in listing.items()
        if path.rpartition("/")[2] == ".gitignore" and item.mode in {tree_reader.FILE, tree_reader.PROGRAM}
    }
    texts = objects.contents(list(files.values()))
    return IgnoreRules({folder: _text(text) for folder, text in zip(files, texts, strict=True)})


def links_of(objects: GitObjects, listing: Listing) -> Mapping[str, str]:
    """Return path → target of the symlinks of a tree."""
    links = {path: item.oid for path, item in listing.items() if item.mode == tree_reader.LINK}
    targets = objects.contents(list(links.values()))
    return {path: os.fsdecode(target) for path, target in zip(links, targets, strict=True)}


def keep_plain_folder(
    objects: GitObjects, folder: Path, temporary: Path, limits: TreeLimits
) -> str | tuple[Reason, ...]:
    """Keep a folder of the user as a tree. Its own .gitignore files decide what is left out."""
    files = {}
    for top, inner, names in os.walk(folder):
        here = os.path.relpath(top, folder).removeprefix(".").removeprefix("/")
        inner[:] = [name for name in inner if not _SKIPPED.ignores(name, folder=True)]
        if ".gitignore" in names and not (Path(top) / ".gitignore").is_symlink():
            files[here] = _text((Path(top) / ".gitignore").read_bytes())
    rules = TreeRules(known={}, ignored=IgnoreRules(files), limits=limits, hasher=objects.blob_id, trusted=True)
    return keep_tree(objects, folder, rules, objects.empty_tree(), temporary)


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


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
