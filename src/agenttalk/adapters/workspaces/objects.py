"""Trees, commits and refs, read and written with git. Nothing here reads a folder of an agent."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from typing import Final, Literal, NamedTuple

from agenttalk.adapters.workspaces import folders, names, tree_reader
from agenttalk.adapters.workspaces.git import EMAIL, NAME, RAW, Git, GitAnswer, GitLocation, make_git_dir
from agenttalk.adapters.workspaces.object_reader import (
    FOLDER_MODE,
    GitDialogue,
    ObjectCache,
    ObjectReader,
    TreeItem,
    is_object_id,
    missing_object,
    pack_tree,
)
from agenttalk.adapters.workspaces.tree_reader import Listing, TreeEntry
from agenttalk.contracts.errors import MachineError

Kind = Literal["added", "changed", "deleted"]
_FEW: Final = 50
"""Objects that are read or written one by one; more are handed to a git of their own."""
_SMALL: Final = 8 * 1024 * 1024
"""Bytes of new contents that are written one by one."""
_LISTINGS: Final = 6
"""Listings that are remembered."""
_NEAR: Final = 2_000
"""The number of changes above which a tree is listed again."""
_WHY: Final = "agenttalk: a plan goes on"
"""What the log of a plan's branch says about its moves."""
_STALE: Final = 10 * 1_000_000_000
"""Nanoseconds after which a lock on one of our own refs is stale."""


class TreeChange(NamedTuple):
    """A path that differs between two trees. A rename is a path deleted and another added."""

    path: str
    kind: Kind
    before: TreeEntry | None
    after: TreeEntry | None


class GitRefs:
    """The refs of one repository."""

    def __init__(self, git: Git, git_dir: Path, temporary: Path) -> None:
        self._git = git
        self._temporary = temporary
        self.location = GitLocation(git_dir)
        self._names = GitDialogue(
            lambda: git.start("cat-file", "--batch-check", at=self.location), git.limit, contents=False
        )
        self._updates = GitDialogue(
            lambda: git.start("update-ref", "--no-deref", "-m", _WHY, "--stdin", at=self.location),
            git.limit,
            contents=False,
        )

    def close(self) -> None:
        """End the processes that stay open. They are started again when they are needed."""
        self._names.close()
        self._updates.close()

    def resolve(self, name: str, *, git_dir: Path | None = None) -> str | None:
        """Return the commit that a branch, tag or name stands for; None if there is none."""
        if name.startswith("-"):
            return None
        if git_dir in {None, self.location.git_dir}:
            found = self._names.ask(f"{name}^{{commit}}")
            return found[0] if found is not None else None
        wanted = ("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        answer = self._git.call(*wanted, at=GitLocation(git_dir), ok=(0, 1, 128))
        return answer.line if answer.code == 0 and answer.line else None

    def read(self, prefix: str) -> dict[str, str]:
        """Return every ref with a prefix."""
        if not self._may_have(prefix):
            return {}
        wanted = ("for-each-ref", "--format=%(objectname) %(refname)", prefix)
        lines = self._git.call(*wanted, at=self.location).out.decode().splitlines()
        return {name: oid for oid, name in (line.split(" ", 1) for line in lines)}

    def _may_have(self, prefix: str) -> bool:
        """Return whether there may be refs with a prefix, as far as files say. Those of git's reftable say nothing."""
        git_dir = self.location.git_dir
        place, packed = git_dir / prefix, git_dir / "packed-refs"
        # In this order: git packs a ref before it removes the file.
        if (git_dir / "reftable").exists() or place.is_file() or (place.is_dir() and any(place.iterdir())):
            return True
        try:
            return f" {prefix}".encode() in packed.read_bytes()
        except FileNotFoundError:
            return False

    def move(self, ref: str, new: str, old: str | None, *, why: str, mark: str = "") -> bool:
        """Compare and swap: move a ref that is at `old` (None: missing). False if it is elsewhere.

        The same transaction of git sets the ref `mark` to the new commit, if one is named.
        """
        lines = f"update {ref} {new} {old or '0' * len(new)}\n" + (f"update {mark} {new}\n" if mark else "")
        if mark and self._tell(lines):  # the branch of a plan, which moves with each task
            return True

        def update() -> None:
            wanted = ("update-ref", "--no-deref", "-m", f"agenttalk: {why}", "--stdin")
            self._git.call(*wanted, at=self.location, stdin=lines.encode())

        try:
            update()
        except MachineError:
            now = self.read(ref).get(ref)
            if now == new:
                if mark:
                    self.set(mark, new)
                return True
            if now != old:
                return False
            unlocked = [self.unlock(each) for each in (ref, mark) if each]
            if True not in unlocked:
                raise
            update()
        return True

    def set(self, ref: str, new: str) -> None:
        """Set a ref of our own, wherever it was."""
        self.set_all({ref: new})

    def set_all(self, refs: Mapping[str, str]) -> None:
        """Set several refs of our own, all or none."""
        lines = "".join(f"update {ref} {new}\n" for ref, new in refs.items())
        if not self._tell(lines):
            self._git.call("update-ref", "--no-deref", "--stdin", at=self.location, stdin=lines.encode())

    def _tell(self, lines: str) -> bool:
        """Have the git that stays open do all updates, or none; return whether it did."""
        # It would make folders where a repository was that has been moved away.
        if not (self.location.git_dir / "HEAD").exists():
            return False
        return self._updates.tell(f"start\n{lines}commit\n", "start: ok", "commit: ok")

    def drop(self, refs: Iterable[str]) -> None:
        """Remove refs of our own; ignore missing ones."""
        text = "".join(f"delete {ref}\n" for ref in refs)
        if text:
            self._git.call("update-ref", "--no-deref", "--stdin", at=self.location, stdin=text.encode())

    def delete(self, ref: str, old: str) -> bool:
        """Compare and delete: remove a ref that is at `old`. False if it is elsewhere, or missing."""
        if self.read(ref).get(ref) != old:
            return False
        try:
            self._git.call(
                "update-ref", "--no-deref", "--stdin", at=self.location, stdin=f"delete {ref} {old}\n".encode()
            )
        except MachineError:
            if self.read(ref).get(ref) == old:
                raise
            return False
        return True

    def unlock(self, ref: str) -> bool:
        """Remove the lock that a killed git left on one of our refs; return whether there was one."""
        lock = self.location.git_dir / f"{ref}.lock"
        mark = self._temporary / "mark"
        try:
            mark.write_bytes(b"")
            if mark.stat().st_mtime_ns - lock.lstat().st_mtime_ns < _STALE:
                return False
            lock.unlink()
        except OSError:
            return False
        return True


class GitObjects:
    """The objects and refs of one repository, reached through a depot of our own."""

    def __init__(self, git: Git, *, depot: Path, refs: Path, objects: Path, temporary: Path, algorithm: str) -> None:
        """`refs` is the GIT_DIR in which refs are read and moved, `objects` the folder of contents."""
        self.git = git
        self.refs = GitRefs(git, refs, temporary)
        self.store = objects
        self.algorithm = algorithm
        self._temporary = temporary
        self._depot = depot
        self._at = GitLocation(depot, objects=objects)
        self.reader = ObjectReader(lambda: git.start("cat-file", "--batch", at=self._at), git.limit)
        self._listings: ObjectCache[str, Listing] = ObjectCache(_LISTINGS)

    def close(self) -> None:
        """End the processes of git that stay open, and forget what was read. Both comes back when it is needed."""
        self.reader.close()
        self.refs.close()
        self._listings.clear()

    def ensure_depot(self, *, merging: str) -> None:
        """Make the depot, if it is missing. `merging` is the attribute that says how texts are merged."""
        if not (self._depot / "config").exists():
            new = folders.make_fresh_folder(self._temporary)
            make_git_dir(new, self.algorithm)
            folders.write(new / "info" / "attributes", f"{RAW} {merging}\n".encode())
            self._depot.parent.mkdir(parents=True, exist_ok=True)
            with suppress(OSError):  # another process was quicker
                new.rename(self._depot)
        shallow = self.refs.location.git_dir / "shallow"
        if shallow != self._depot / "shallow":
            if shallow.exists():
                folders.write(self._depot / "shallow", shallow.read_bytes())
            else:
                (self._depot / "shallow").unlink(missing_ok=True)

    def read_own_ref(self, ref: str) -> str | None:
        """Return the commit of a ref of the depot, which no other program writes; None if there is none."""
        try:
            oid = (self._depot / ref).read_text().strip()
        except OSError:
            return None
        return oid if is_object_id(oid) else None

    def write_own_ref(self, ref: str, commit: str) -> None:
        """Set a ref of the depot."""
        folders.write(self._depot / ref, f"{commit}\n".encode())

    def call(self, *args: str, index: Path | None = None, tree: Path | None = None, **options: object) -> GitAnswer:
        """Run git on the objects, with none of the user's configuration."""
        at = GitLocation(self._depot, self.store, index, tree)
        return self.git.call(*args, at=at, **options)  # type: ignore[arg-type]

    # Trees

    def blob_id(self, data: bytes) -> str:
        """Return the id of a content."""
        return tree_reader.blob_id(data, self.algorithm)

    def empty_tree(self) -> str:
        """Return the empty tree."""
        return self._write_objects([("tree", b"")])[0]

    def tree_of(self, commit: str) -> str:
        """Return the tree of a commit; a tree is its own."""
        if is_object_id(commit):
            return self.reader.tree_of(commit)
        if commit.endswith("^1"):
            return self.reader.tree_of(self.parent_of(commit.removesuffix("^1")))
        return self.call("rev-parse", "--verify", f"{commit}^{{tree}}").line

    def parent_of(self, commit: str) -> str:
        """Return the first parent of a commit."""
        parents = self.reader.commit(commit).parents
        if not parents:
            raise missing_object(f"{commit}^1")
        return parents[0]

    def listing(self, tree: str) -> Listing:
        """Return every path of a tree. The caller must not change it.

        A tree that differs little from one that is remembered is made from that.
        """
        tree = self.tree_of(tree)
        known = self._listings.get(tree)
        if known is None:
            near = next(iter(self._listings.newest()), None)
            base = self._listings.get(near) if near is not None else None
            changes = list(islice(self.reader.differences(near, tree), _NEAR)) if base is not None else []
            if base is None or len(changes) == _NEAR:
                known = self.reader.list_files(tree)
            else:
                known = dict(base)
                for path, _, now in changes:
                    known.pop(os.fsdecode(path), None)
                    if now is not None:
                        known[os.fsdecode(path)] = TreeEntry(*now)
            self._listings.put(tree, known)
        return known

    def contents(self, oids: Sequence[str]) -> Iterator[bytes]:
        """Read blobs, in the given order."""
        if len(oids) <= _FEW:
            for oid in oids:
                yield self.reader.read(oid)[1]
            return
        out = self.call("cat-file", "--batch", stdin="".join(f"{oid}\n" for oid in oids).encode()).out
        at = 0
        for _ in oids:
            end = out.index(b"\n", at)
            name, kind, *sizes = out[at:end].split()
            if not sizes:
                raise missing_object(name.decode(), kind.decode())
            size = int(sizes[0])
            yield out[end + 1 : end + 1 + size]
            at = end + 2 + size

    def changes(self, before: str, after: str) -> tuple[TreeChange, ...]:
        """Return what differs between two trees or commits, sorted by path."""
        changes = []
        for path, was, now in self.reader.differences(self.tree_of(before), self.tree_of(after)):
            kind: Kind = "added" if was is None else "deleted" if now is None else "changed"
            changes.append(
                TreeChange(os.fsdecode(path), kind, TreeEntry(*was) if was else None, TreeEntry(*now) if now else None)
            )
        return tuple(sorted(changes, key=lambda change: os.fsencode(change.path)))

    def alter_tree(self, tree: str, changes: Mapping[str, TreeEntry | None]) -> str:
        """Make a tree with some paths set, or removed where None. git checks the result."""
        top = self.tree_of(tree)
        if not changes:
            return top
        items = {os.fsencode(path): TreeItem(*item) if item else None for path, item in changes.items()}
        new: list[tuple[str, bytes]] = []
        altered, _ = self._alter_folder(top, items, new)
        self._write_objects(new)
        return altered

    def _alter_folder(
        self, oid: str, items: Mapping[bytes, TreeItem | None], new: list[tuple[str, bytes]]
    ) -> tuple[str, bool]:
        """Make a folder of a tree with some paths below it set or removed: its id, and whether it is empty.

        What has to be written is added to `new`, inner folders first. A file that is set replaces a folder, and a path
        below a file replaces the file, as in an index of git.
        """
        folder = dict(self.reader.folder(oid)) if oid else {}
        inner: dict[bytes, dict[bytes, TreeItem | None]] = {}
        for path, item in items.items():
            name, slash, rest = path.partition(b"/")
            if name in {b"", b".", b".."} or (item is not None and names.is_git_name(os.fsdecode(name))):
                raise missing_object(os.fsdecode(path))
            if slash:
                inner.setdefault(name, {})[rest] = item
            elif item is not None:
                folder[name] = item
            elif name in folder and not folder[name].is_folder:
                del folder[name]
        for name, below in inner.items():
            there = folder.get(name)
            if (there is None or not there.is_folder) and not any(below.values()):
                continue  # nothing is there that could be removed
            made, empty = self._alter_folder(there.oid if there is not None and there.is_folder else "", below, new)
            if empty:
                folder.pop(name, None)
            else:
                folder[name] = TreeItem(FOLDER_MODE, made)
        data = pack_tree(folder)
        made = hash_object(self.algorithm, "tree", data)
        if made != oid:
            new.append(("tree", data))
            self.reader.remember_folder(made, folder)
        return made, not folder

    def write_blobs(self, contents: Iterable[bytes]) -> None:
        """Write blobs. They come one by one, so that not all of them are in memory."""
        rest = iter(contents)
        few: list[bytes] = []
        for data in rest:
            few.append(data)
            if len(few) > _FEW or sum(map(len, few)) > _SMALL:
                break
        else:
            self._write_objects([("blob", data) for data in few])
            return

        def commands() -> Iterator[bytes]:
            for data in chain(few, rest):
                yield b"blob\ndata %d\n" % len(data)
                yield data
                yield b"\n"
            yield b"done\n"

        self.call("fast-import", "--quiet", "--done", stdin=commands())

    def _write_objects(self, objects: Sequence[tuple[str, bytes]]) -> list[str]:
        """Write objects of a kind and a content onto the disk, as git writes single ones; return their ids."""
        written = []
        for kind, data in objects:
            oid = hash_object(self.algorithm, kind, data)
            written.append(oid)
            path = self.store / oid[:2] / oid[2:]
            with suppress(FileNotFoundError, PermissionError):
                os.utime(path)  # git deletes objects that are old and that no ref names yet
                continue
            _make_folder(path.parent, self.store)
            new = path.with_name(f"tmp_obj_{secrets.token_hex(6)}")  # a name that git removes if it is left behind
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(zlib.compress(b"%s %d\0" % (kind.encode(), len(data)) + data, 1))
                    file.flush()
                    os.fsync(descriptor)
                new.rename(path)
            except OSError:  # a full disk, for example, which this would fill further
                new.unlink(missing_ok=True)
                raise
        return written

    def are_loose(self, count: int) -> bool:
        """Estimate from one of 256 folders, as git does, whether so many objects lie in files of their own.

        Then git takes longer to read them than it takes to copy files that were read before.
        """
        with suppress(OSError):
            return len(os.listdir(self.store / "17")) * 256 > count // 2  # noqa: PTH208 - only counted
        return False

    def checkout(self, tree: str, target: Path, index: Path) -> None:
        """Write a tree into an empty folder, byte for byte. `index` becomes its index."""
        self.call("read-tree", "--reset", "-u", tree, index=index, tree=target)

    # Commits

    def commit(
        self, tree: str, parents: Sequence[str], message: str, at: datetime, author: tuple[str, str] | None = None
    ) -> str:
        """Make a commit, by an author with a name and an address. The same arguments make the same commit."""
        date = f"{int(at.timestamp())} +0000"
        name, email = (_clean_identity(field) for field in author or (NAME, EMAIL))
        lines = [f"tree {self.tree_of(tree)}", *(f"parent {parent}" for parent in parents)]
        lines += [f"author {name} <{email}> {date}", f"committer {NAME} <{EMAIL}> {date}", "", message]
        return self._write_objects([("commit", "\n".join(lines).encode(errors="replace"))])[0]


def _make_folder(folder: Path, store: Path) -> None:
    """Make a folder for objects, with the rights of the one above it: a group may share the repository."""
    try:
        folder.mkdir()
    except FileExistsError:
        return
    rights = stat.S_IMODE(store.stat().st_mode)
    if rights != stat.S_IMODE(folder.stat().st_mode):
        folder.chmod(rights)


def _clean_identity(text: str) -> str:
    """Return a name or an address without what would end it in a commit."""
    return "".join(char for char in text if char not in "<>\n\0").strip() or NAME


def hash_object(algorithm: str, kind: str, data: bytes) -> str:
    """Return the id of an object."""
    return hashlib.new(algorithm, b"%s %d\0" % (kind.encode(), len(data)) + data, usedforsecurity=False).hexdigest()
