"""Brings a plan branch into the user's own branch and work tree, or leaves both alone.

First it makes sure that nothing of the user would be lost. Then refs record what is under way, the branch is moved, and
only then files are written, each atomically. If that is cut off, every file is either as before or as after, so the
next call can tell our work from the user's, and finish.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from agenttalk.adapters.workspaces import folders, snapshots, tree_reader
from agenttalk.adapters.workspaces.git import GitLocation
from agenttalk.adapters.workspaces.merge import MergeConflict, is_ancestor, merge_commits
from agenttalk.adapters.workspaces.objects import GitObjects, TreeChange
from agenttalk.adapters.workspaces.paths import WorkspaceFolder
from agenttalk.adapters.workspaces.tree_reader import FILE, LINK, PROGRAM, SUBMODULE, TreeEntry, TreeLimits
from agenttalk.contracts.errors import Code, MachineError

_BUSY: Final = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "BISECT_LOG")
_EACH: Final = 1000
"""Up to this number, files are synced one by one; more are synced together."""
_ATTRIBUTES: Final = ("filter", "ident", "eol", "working-tree-encoding")


@dataclass(frozen=True, slots=True)
class LandingResult:
    """The branch has landed."""

    commit: str
    how: Literal["fast-forward", "merge", "nothing"]
    """`nothing`: it had landed before."""


@dataclass(frozen=True, slots=True)
class LandingRefusal:
    """Nothing was done."""

    why: str
    paths: tuple[str, ...] = ()
    text: str = ""
    """The conflict, if there is one."""


class Landing:
    """Lands the branch of one plan."""

    def __init__(self, objects: GitObjects, place: WorkspaceFolder, own: str, home: Path, limits: TreeLimits) -> None:
        """`own` is the prefix of the plan's refs."""
        self._objects = objects
        self._place = place
        self._from, self._to = f"{own}/landing/from", f"{own}/landing/to"
        self._folder_ref = f"{own}/folder"
        self._base = f"{own}/base"
        self._temporary = home / "temporary"
        self._limits = limits
        self._suffix = f".agenttalk-{own.rpartition('/')[2]}"

    def land(self, tip: str, into: str | None, plan: str, at: datetime) -> LandingResult | LandingRefusal:
        """Finish what was cut off, then bring `tip` into the branch."""
        self.recover()
        if self._place.plain:
            return self._into_folder(tip)
        branch = into or self._objects.git.find_branch(self._place.git_dir)
        if not branch:
            return LandingRefusal("no branch is checked out")
        ref = f"refs/heads/{branch}"
        old = self._objects.refs.resolve(ref)
        if old is None:
            return LandingRefusal(f"there is no branch {branch!r}")
        if is_ancestor(self._objects, tip, old):
            return LandingResult(old, "nothing")
        new = self._joined(old, tip, plan, branch, at)
        if isinstance(new, LandingRefusal):
            return new
        done = self._into_branch(ref, old, new)
        return done or LandingResult(new, "fast-forward" if new == tip else "merge")

    def _joined(self, old: str, tip: str, plan: str, branch: str, at: datetime) -> str | LandingRefusal:
        if is_ancestor(self._objects, old, tip):
            return tip
        merged = merge_commits(self._objects, old, tip)
        if isinstance(merged, MergeConflict):
            return LandingRefusal(f"the plan's work does not merge with {branch!r}", merged.paths, merged.text)
        message = f"Merge plan {plan} into {branch}\n\nAgentTalk-Plan: {plan}\n"
        return self._objects.commit(merged, [old, tip], message, at)

    def _into_branch(self, ref: str, old: str, new: str) -> LandingRefusal | None:
        """Move the branch, and the files with it where it is checked out. Returns the refusal, if there is one."""
        holders = list(self._place.holders(self._objects, ref))
        elsewhere = [path for path in holders if path.resolve() != self._place.folder.resolve()]
        if elsewhere:
            return LandingRefusal(f"the branch is checked out in {str(elsewhere[0])!r}")
        moved = LandingRefusal("the branch was moved meanwhile")
        if not holders:
            return None if self._objects.refs.move(ref, new, old, why="merge a plan") else moved
        changes = self._objects.changes(old, new)
        if refused := self._unready(old, new, changes):
            return refused
        self._objects.refs.set(self._from, old)
        self._objects.refs.set(self._to, new)
        if not self._objects.refs.move(ref, new, old, why="merge a plan"):
            self._objects.refs.drop([self._from, self._to])
            return moved
        self.recover()
        return None

    # Whether it is allowed

    def _unready(self, old: str, new: str, changes: tuple[TreeChange, ...]) -> LandingRefusal | None:
        git_dir = self._place.git_dir
        if any((git_dir / name).exists() for name in _BUSY):
            return LandingRefusal("a merge, rebase or the like is under way in the work tree")
        if (git_dir / "index.lock").exists():
            return LandingRefusal("another git process is using the work tree")
        if any(git_dir.glob("sharedindex.*")):
            return LandingRefusal("the work tree has a split index; merge the branch with git itself")
        with _aside(self._temporary) as aside:
            index = aside / "index"
            if (git_dir / "index").exists():
                shutil.copy2(
                    git_dir / "index", index
                )  # git compares its time to find files that may have changed since
            if changed := self._dirty(old, index):
                return LandingRefusal("the work tree has changes that are not committed", changed)
            return self._converted(new, changes, aside / "new") or self._in_the_way(changes)

    def _dirty(self, old: str, index: Path) -> tuple[str, ...]:
        folder = self._place.folder
        self._objects.call("update-index", "-q", "--refresh", index=index, tree=folder, ok=(0, 1))
        staged = self._objects.call("diff-index", "--cached", "--name-only", "-z", old, index=index, tree=folder)
        loose = self._objects.call("diff-files", "--name-only", "-z", index=index, tree=folder)
        hidden = [
            entry[2:]
            for entry in self._objects.call("ls-files", "-v", "-z", index=index, tree=folder).out.split(b"\0")
            if entry[:1] == b"S" or entry[:1].islower()  # git would not check these
        ]
        return tuple(sorted({os.fsdecode(path) for path in (staged.out + loose.out).split(b"\0") + hidden if path}))

    def _converted(self, new: str, changes: tuple[TreeChange, ...], index: Path) -> LandingRefusal | None:
        """Find files that the user's git would write in another form than they are stored in. We run no filters."""
        at = GitLocation(self._place.git_dir, index=index)
        local = self._objects.git.call("config", "--local", "--get", "core.autocrlf", at=at, ok=(0, 1)).line
        self._objects.call("read-tree", new, index=index)
        names = b"".join(os.fsencode(change.path) + b"\0" for change in changes)
        wanted = ("check-attr", "-z", "--stdin", "--cached", *_ATTRIBUTES)
        fields = self._objects.git.call(*wanted, at=at, stdin=names).out.split(b"\0")
        paths = {
            os.fsdecode(path)
            for path, name, value in zip(fields[::3], fields[1::3], fields[2::3], strict=False)
            if value not in {b"unspecified", b"unset"} and (name != b"eol" or value == b"crlf")
        }
        if paths or local == "true":
            return LandingRefusal(
                "git would convert these files; merge the branch with git itself", tuple(sorted(paths))
            )
        return None

    def _in_the_way(self, changes: tuple[TreeChange, ...]) -> LandingRefusal | None:
        gone = {change.path for change in changes if change.kind == "deleted"}
        obstacles: set[str] = set()
        for change in changes:
            if change.after and change.after.mode == SUBMODULE:
                return LandingRefusal("it changes a submodule; merge the branch with git itself", (change.path,))
            if change.kind == "added":
                obstacles.update(path for path in self._met(change.path) if path not in gone)
        return (
            LandingRefusal("files that are not tracked are in the way", tuple(sorted(obstacles))) if obstacles else None
        )

    def _met(self, path: str) -> Iterator[str]:
        """Find what is in the way of a new path."""
        for parent in tree_reader.parents(path):
            where = self._place.folder / parent
            if where.is_symlink() or (where.exists() and not where.is_dir()):
                yield parent
        where = self._place.folder / path
        if where.is_dir() and not where.is_symlink():
            for top, inner, names in os.walk(where):
                links = [name for name in inner if (Path(top) / name).is_symlink()]
                yield from (os.path.relpath(Path(top) / name, self._place.folder) for name in [*names, *links])
        elif os.path.lexists(where):
            yield path

    # The landing itself

    def recover(self) -> None:
        """Write what is under way into files and index. Repeating it is harmless."""
        old, new = self._objects.refs.resolve(self._from), self._objects.refs.resolve(self._to)
        if old and new:
            if self._place.plain:
                self._write(self._objects.changes(old, new))
                self._objects.refs.set(self._folder_ref, new)
            elif self._objects.refs.resolve("HEAD", git_dir=self._place.git_dir) == new:
                self._write(self._objects.changes(old, new))
                self._write_index(old, new)
        noted = [ref for ref, commit in ((self._from, old), (self._to, new)) if commit]
        self._objects.refs.drop(noted)

    def _write(self, changes: tuple[TreeChange, ...]) -> None:
        """Write files that are as before; those that are neither as before nor as after are the user's, and stay."""
        ready = []
        for change in changes:
            with suppress(FileNotFoundError, NotADirectoryError):
                (self._place.folder / (change.path + self._suffix)).unlink()
            if change.before != change.after and self._held(change.path) == change.before:
                ready.append(change)
        for change in ready:
            if change.after is None:
                self._unlink(change.path)
        kept = [change for change in ready if change.after]
        contents = self._objects.contents([change.after.oid for change in kept if change.after])
        few = len(kept) <= _EACH
        for change, data in zip(kept, contents, strict=True):
            self._put(change.path, change.after, data, sync=few)
        if not few:
            os.sync()

    def _held(self, path: str) -> TreeEntry | None:
        where = self._place.folder / path
        try:
            status = where.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISLNK(status.st_mode):
            return TreeEntry(LINK, self._objects.blob_id(os.fsencode(where.readlink())))
        if stat.S_ISREG(status.st_mode):
            mode = PROGRAM if status.st_mode & stat.S_IXUSR else FILE
            return TreeEntry(mode, self._objects.blob_id(where.read_bytes()))
        return None

    def _unlink(self, path: str) -> None:
        where = self._place.folder / path
        where.unlink(missing_ok=True)
        for parent in tree_reader.parents(path):
            with suppress(OSError):
                (self._place.folder / parent).rmdir()

    def _put(self, path: str, item: TreeEntry | None, data: bytes, *, sync: bool) -> None:
        where = self._place.folder / path
        where.parent.mkdir(parents=True, exist_ok=True)
        new = self._place.folder / (path + self._suffix)
        if item and item.mode == LINK:
            new.symlink_to(os.fsdecode(data))
        else:
            mode = 0o777 if item and item.mode == PROGRAM else 0o666
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                if sync:
                    file.flush()
                    os.fsync(descriptor)
        new.replace(where)

    def _write_index(self, old: str, new: str) -> None:
        """Bring the user's index to the new commit, in one step. Recognises a lock that a crash of ours left."""
        git_dir, folder = self._place.git_dir, self._place.folder
        lock, ours = git_dir / "index.lock", git_dir / f"index{self._suffix}"
        if ours.exists() and lock.exists() and ours.samefile(lock):
            lock.unlink()
        ours.unlink(missing_ok=True)
        with _aside(self._temporary) as aside:
            index = aside / "index"
            shutil.copy2(git_dir / "index", index)
            there = ("diff-index", "--cached", "--quiet", new)
            if not self._objects.call(*there, index=index, tree=folder, ok=(0, 1)).code:
                return
            self._objects.call("read-tree", "-i", "-m", old, new, index=index, tree=folder)
            self._objects.call("update-index", "-q", "--refresh", index=index, tree=folder, ok=(0, 1))
            folders.write(ours, index.read_bytes())
        try:
            lock.hardlink_to(ours)
        except FileExistsError:
            message = f"another git process is running: {str(lock)!r} exists"
            raise MachineError(
                Code.FILE_UNWRITABLE, message, hint="wait until it ends, then merge the plan again"
            ) from None
        lock.replace(git_dir / "index")
        ours.unlink(missing_ok=True)

    # Plain folders

    def _into_folder(self, tip: str) -> LandingResult | LandingRefusal:
        """Land in a plain folder, which must be as the plan found it, or as the last call left it."""
        held = self._objects.refs.resolve(self._folder_ref) or self._objects.refs.resolve(self._base) or tip
        if held == tip:
            return LandingResult(tip, "nothing")
        tree = snapshots.keep_plain_folder(self._objects, self._place.folder, self._temporary, self._limits)
        if not isinstance(tree, str):
            return LandingRefusal(tree[0].why, tuple(reason.path for reason in tree))
        if changed := self._objects.changes(held, tree):
            return LandingRefusal("the folder was changed since", tuple(change.path for change in changed))
        changes = self._objects.changes(held, tip)
        if refused := self._in_the_way(changes):
            return refused
        self._objects.refs.set(self._from, held)
        self._objects.refs.set(self._to, tip)
        self.recover()
        return LandingResult(tip, "fast-forward")


@contextmanager
def _aside(temporary: Path) -> Iterator[Path]:
    """Make a folder, and remove it afterwards."""
    path = folders.make_fresh_folder(temporary)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
