"""Packs of the moves of a plan's branch: with a clone of its base, they make the branch again.

A small pack is made here, of objects that a git which is open already reads: no process is started for it.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Sequence
from typing import Final

from agenttalk.adapters.workspaces.object_reader import FOLDER_MODE, Folder, ObjectReader
from agenttalk.adapters.workspaces.objects import GitObjects
from agenttalk.adapters.workspaces.tree_reader import SUBMODULE

_KINDS: Final = {"commit": 1, "tree": 2, "blob": 3}
_FEW: Final = 400
"""Objects that are packed here; more are packed by git."""
_NEAR: Final = 200
"""Commits that are followed one by one."""


def pack_commits(objects: GitObjects, before: str, after: str, made: str = "") -> bytes:
    """Pack what leads from one commit to another, and `made`, the commit of an attempt.

    Without `before`, all that the other commit consists of is packed.
    """
    few = _list_few(objects.reader, before, after, made)
    if few is not None:
        return write_pack(objects.algorithm, [objects.reader.read(oid) for oid in few])
    lines = [*(commit for commit in (after, made) if commit), *([f"^{before}"] if before else [])]
    args = ("pack-objects", "--revs", "--thin", "--stdout", "-q", "--threads=1")
    return objects.call(*args, stdin="".join(f"{line}\n" for line in lines).encode()).out


def write_pack(algorithm: str, objects: Sequence[tuple[str, bytes]]) -> bytes:
    """Write objects, each a kind and a content, as a pack of git."""
    body = bytearray(b"PACK" + struct.pack(">II", 2, len(objects)))
    for kind, data in objects:
        body += _write_head(_KINDS[kind], len(data)) + zlib.compress(data, 1)
    return bytes(body) + hashlib.new(algorithm, body, usedforsecurity=False).digest()


def _write_head(kind: int, size: int) -> bytes:
    byte, size = kind << 4 | size & 15, size >> 4
    head = bytearray()
    while size:
        head.append(byte | 128)
        byte, size = size & 127, size >> 7
    head.append(byte)
    return bytes(head)


def _list_few(reader: ObjectReader, before: str, after: str, made: str) -> list[str] | None:
    """List the objects of one commit on `before` and of the commit of an attempt; None for more than that."""
    if not before or reader.commit(after).parents != (before,):
        return None
    found = {after: None}
    pairs = [(before, after)]
    if made:
        parents = reader.commit(made).parents
        if len(parents) != 1 or not _is_near(reader, parents[0], before):
            return None
        found[made] = None
        pairs.append((parents[0], made))
    for old, new in pairs:
        if not _add_new(reader, reader.tree_of(old), reader.tree_of(new), found):
            return None
    return list(found)


def _is_near(reader: ObjectReader, older: str, newer: str) -> bool:
    """Whether a commit is another one, or one of the few that its first parents lead to."""
    at = newer
    for _ in range(_NEAR):
        if at == older:
            return True
        parents = reader.commit(at).parents
        if not parents:
            return False
        at = parents[0]
    return False


def _add_new(reader: ObjectReader, old: str, new: str, found: dict[str, None]) -> bool:
    """Add the objects of a tree that are not at the same place in an older one; False if they are many."""
    if old == new or new in found:
        return True
    found[new] = None
    before: Folder = reader.folder(old) if old else {}
    for name, item in reader.folder(new).items():
        was = before.get(name)
        if was == item or item.mode == SUBMODULE:
            continue
        if item.mode == FOLDER_MODE:
            if not _add_new(reader, was.oid if was is not None and was.is_folder else "", item.oid, found):
                return False
        else:
            found[item.oid] = None
        if len(found) > _FEW:
            return False
    return True
