"""Keeps the content of a folder as a tree."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from agenttalk.adapters.workspaces import tree_reader
from agenttalk.adapters.workspaces.objects import GitObjects
from agenttalk.adapters.workspaces.tree_reader import FolderWalk, Listing, Reason, TreeEntry, TreeLimits, TreeRules
from agenttalk.rules.core.scope import IgnoreRules

_SKIPPED = IgnoreRules({})


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
