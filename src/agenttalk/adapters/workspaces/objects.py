"""Trees, commits and refs, read and written with git. Nothing here reads a folder of an agent."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, NamedTuple

from agenttalk.adapters.workspaces import folders, tree_reader
from agenttalk.adapters.workspaces.git import RAW, Git, GitAnswer, GitLocation
from agenttalk.adapters.workspaces.tree_reader import Listing, TreeEntry
from agenttalk.contracts.errors import MachineError

Kind = Literal["added", "changed", "deleted"]
TEXT_LIMIT: Final = 256 * 1024
"""Characters of a diff or a conflict, at most."""
_STALE: Final = 10 * 1_000_000_000
"""Nanoseconds after which a lock on one of our own refs is stale."""


class TreeChange(NamedTuple):
    """A path that differs between two trees. A rename is a path deleted and another added."""

    path: str
    kind: Kind
    before: TreeEntry | None
    after: TreeEntry | None


@dataclass(frozen=True, slots=True)
class MergeConflict:
    """A merge that needs a decision."""

    paths: tuple[str, ...]
    text: str
    """The messages of git, then each file with its conflict marks."""


class GitRefs:
    """The refs of one repository."""

    def __init__(self, git: Git, git_dir: Path, temporary: Path) -> None:
        self._git = git
        self._temporary = temporary
        self.location = GitLocation(git_dir)

    def resolve(self, name: str, *, git_dir: Path | None = None) -> str | None:
        """Return the commit that a branch, tag or name stands for; None if there is none."""
        if name.startswith("-"):
            return None
        wanted = ("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        answer = self._git.call(*wanted, at=GitLocation(git_dir) if git_dir else self.location, ok=(0, 1, 128))
        return answer.line if answer.code == 0 and answer.line else None

    def read(self, prefix: str) -> dict[str, str]:
        """Return every ref with a prefix."""
        wanted = ("for-each-ref", "--format=%(objectname) %(refname)", prefix)
        lines = self._git.call(*wanted, at=self.location).out.decode().splitlines()
        return {name: oid for oid, name in (line.split(" ", 1) for line in lines)}

    def move(self, ref: str, new: str, old: str | None, *, why: str) -> bool:
        """Compare and swap: move a ref that is at `old` (None: missing). False if it is elsewhere."""
        zero = "0" * len(new)
        wanted = ("update-ref", "--no-deref", "-m", f"agenttalk: {why}", ref, new, old or zero)
        try:
            self._git.call(*wanted, at=self.location)
        except MachineError:
            now = self.read(ref).get(ref)
            if now == new:
                return True
            if now != old:
                return False
            if not self.unlock(ref):
                raise
            self._git.call(*wanted, at=self.location)
        return True

    def set(self, ref: str, new: str) -> None:
        """Set a ref of our own, wherever it was."""
        self._git.call("update-ref", "--no-deref", ref, new, at=self.location)

    def drop(self, names: Iterable[str]) -> None:
        """Remove refs of our own; ignore missing ones."""
        text = "".join(f"delete {name}\n" for name in names)
        if text:
            self._git.call("update-ref", "--no-deref", "--stdin", at=self.location, stdin=text.encode())

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

    def __init__(self, git: Git, *, depot: Path, refs: Path, objects: Path, temporary: Path) -> None:
        """`refs` is the GIT_DIR in which refs are read and moved, `objects` the folder of contents."""
        self.git = git
        self.refs = GitRefs(git, refs, temporary)
        self.store = objects
        self.algorithm = ""
        self._temporary = temporary
        self._depot = depot
        self._at = GitLocation(depot, objects=objects)

    def ensure_depot(self, *, merging: str) -> None:
        """Make the depot, if it is missing. `merging` is the attribute that says how texts are merged."""
        self.algorithm = self.git.call("rev-parse", "--show-object-format", at=self.refs.location).line
        if not (self._depot / "config").exists():
            new = folders.make_fresh_folder(self._temporary)
            init = ("init", "--quiet", "--bare", "--template=", f"--object-format={self.algorithm}")
            self.git.call(*init, at=GitLocation(new))
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

    def call(self, *args: str, index: Path | None = None, tree: Path | None = None, **options: object) -> GitAnswer:
        """Run git on the objects, with none of the user's configuration."""
        at = GitLocation(self._depot, self.store, index, tree)
        return self.git.call(*args, at=at, **options)  # type: ignore[arg-type]

    def keep_noted(self, ref: str, commit: str) -> None:
        """Keep a commit under a name in our own depot, which no other program writes."""
        self.call("update-ref", "--no-deref", ref, commit)

    def find_noted(self, ref: str) -> str | None:
        """Find the commit that was kept under a name in our own depot."""
        answer = self.call("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", ok=(0, 1, 128))
        return answer.line if answer.code == 0 and answer.line else None

    # Trees

    def blob_id(self, data: bytes) -> str:
        """Return the id of a content."""
        return tree_reader.blob_id(data, self.algorithm)

    def empty_tree(self) -> str:
        """Return the empty tree."""
        return self.call("mktree").line

    def tree_of(self, commit: str) -> str:
        """Return the tree of a commit; a tree is its own."""
        return self.call("rev-parse", "--verify", f"{commit}^{{tree}}").line

    def parent_of(self, commit: str) -> str:
        """Return the first parent of a commit."""
        return self.call("rev-parse", "--verify", f"{commit}^1").line

    def listing(self, tree: str) -> Listing:
        """Return every path of a tree."""
        entries = {}
        for line in self.call("ls-tree", "-r", "-z", "--full-tree", tree).out.split(b"\0")[:-1]:
            meta, _, path = line.partition(b"\t")
            mode, _, oid = meta.decode().split(" ")
            entries[os.fsdecode(path)] = TreeEntry(mode, oid)
        return entries

    def contents(self, oids: Sequence[str]) -> Iterator[bytes]:
        """Read blobs, in the given order."""
        if not oids:
            return
        out = self.call("cat-file", "--batch", stdin="".join(f"{oid}\n" for oid in oids).encode()).out
        at = 0
        for _ in oids:
            end = out.index(b"\n", at)
            size = int(out[at:end].split()[-1])
            yield out[end + 1 : end + 1 + size]
            at = end + 2 + size

    def changes(self, before: str, after: str) -> tuple[TreeChange, ...]:
        """Return what differs between two trees or commits, sorted by path."""
        wanted = ("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--no-commit-id")
        return parse_raw(self.call(*wanted, before, after).out)

    def diff(self, before: str, after: str, *, paths: Sequence[str] = (), limit: int = TEXT_LIMIT) -> str:
        """Return the difference of two trees as a patch. Cuts it at the limit, and says so."""
        wanted = ("diff-tree", "-r", "-p", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv")
        answer = self.call(*wanted, "--no-color", before, after, "--", *paths, most=limit)
        text = answer.out.decode(errors="replace")
        return f"{text}\n[cut off after {limit:,} bytes]\n" if answer.cut else text

    def hash_patch(self, before: str, after: str) -> str:
        """Hash a patch without what changes when other lines of its files do: line numbers, and ids of text files."""
        wanted = ("diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv")
        digest = sha256()
        index = b""
        for line in self.call(*wanted, "--no-color", before, after).out.splitlines(keepends=True):
            if line.startswith(b"index "):
                index = line
                continue
            digest.update(index if line.startswith(b"GIT binary") else b"")
            digest.update(b"@@\n" if line.startswith(b"@@ ") else line)
        return f"sha256:{digest.hexdigest()}"

    def alter_tree(self, tree: str, changes: Mapping[str, TreeEntry | None]) -> str:
        """Make a tree with some paths set, or removed where None. git checks the result."""
        if not changes:
            return self.tree_of(tree)
        zero = "0" * (64 if self.algorithm == "sha256" else 40)
        gone = [b"0 %s\t%s\0" % (zero.encode(), os.fsencode(path)) for path, item in changes.items() if not item]
        here = [
            b"%s %s\t%s\0" % (item.mode.encode(), item.oid.encode(), os.fsencode(path))
            for path, item in changes.items()
            if item
        ]
        index = folders.make_fresh_folder(self._temporary) / "index"
        self.call("read-tree", tree, index=index)
        self.call("update-index", "-z", "--index-info", index=index, stdin=b"".join(gone + here))
        written = self.call("write-tree", index=index).line
        index.unlink()
        index.parent.rmdir()
        return written

    def write_blobs(self, contents: Iterable[bytes]) -> None:
        """Write blobs. They come one by one, so that not all of them are in memory."""

        def told() -> Iterator[bytes]:
            for data in contents:
                yield b"blob\ndata %d\n" % len(data)
                yield data
                yield b"\n"
            yield b"done\n"

        self.call("fast-import", "--quiet", "--done", stdin=told())

    def checkout(self, tree: str, target: Path, index: Path) -> None:
        """Write a tree into an empty folder, byte for byte. `index` becomes its index."""
        self.call("read-tree", "--reset", "-u", tree, index=index, tree=target)

    # Commits

    def commit(
        self, tree: str, parents: Sequence[str], message: str, at: datetime, author: tuple[str, str] | None = None
    ) -> str:
        """Make a commit, by an author with a name and an address. The same arguments make the same commit."""
        date = f"@{int(at.timestamp())} +0000"
        named = [word for parent in parents for word in ("-p", parent)]
        more = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        if author is not None:
            name, email = author
            more |= {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": email}
        return self.call("commit-tree", *named, tree, stdin=message.encode(errors="replace"), more=more).line

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Return whether a commit is another one, or an ancestor of it."""
        return older == newer or self.call("merge-base", "--is-ancestor", older, newer, ok=(0, 1)).code == 0

    def merge(self, ours: str, theirs: str) -> str | MergeConflict:
        """Merge two commits; return the tree, or the conflict. Checks nothing out."""
        wanted = ("merge-tree", "--write-tree", "-z", "--name-only", "--messages", "--allow-unrelated-histories")
        answer = self.call(*wanted, ours, theirs, ok=(0, 1))
        tree, _, rest = answer.out.partition(b"\0")
        if answer.code == 0:
            return tree.decode()
        named, _, messages = rest.partition(b"\0\0")
        paths = tuple(dict.fromkeys(os.fsdecode(path) for path in named.split(b"\0") if path))
        return MergeConflict(paths, self._describe_conflict(tree.decode(), paths, messages))

    def _describe_conflict(self, tree: str, paths: Sequence[str], messages: bytes) -> str:
        fields = messages.split(b"\0")
        lines = []
        while len(fields) > 3 and fields[0].isdigit():
            count = int(fields[0])
            lines.append(fields[count + 2].decode(errors="replace").strip())
            fields = fields[count + 3 :]
        listing = self.listing(tree)
        parts = ["\n".join(lines)]
        left = TEXT_LIMIT
        for path in paths:
            item = listing.get(path)
            if item is None or item.mode not in {tree_reader.FILE, tree_reader.PROGRAM} or left <= 0:
                continue
            text = next(self.contents([item.oid]))
            if b"\0" not in text[:8000]:
                parts.append(f"--- {path}\n{text[:left].decode(errors='replace')}")
                left -= len(text)
        return "\n".join(parts) + "\n"


def parse_raw(out: bytes) -> tuple[TreeChange, ...]:
    """Parse the output of `--raw -z --no-abbrev`."""
    fields = out.split(b"\0")[:-1]
    changes = []
    for meta, path in zip(fields[::2], fields[1::2], strict=True):
        before, after, old, new, _ = meta.decode().removeprefix(":").split(" ")
        was = None if before == "000000" else TreeEntry(before, old)
        now = None if after == "000000" else TreeEntry(after, new)
        kind: Kind = "added" if was is None else "deleted" if now is None else "changed"
        changes.append(TreeChange(os.fsdecode(path), kind, was, now))
    return tuple(changes)
