"""Folders with exactly a tree, in which one tree after the other is checked: nothing of a check reaches the next.

A *layered* tree is an overlay over one pristine tree, and what is written goes with the overlay. A *warm* one is a
folder that was used before, and is proven clean.

The .git of a check is what git answers in the user's repository, as if the work had been committed there: the history
that the work began from, and on top of it one commit with the tree that is checked, by the author of the commit before
it and at the same time. So a tree has the same .git in every check. Refs of plans are not in it.
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
import shutil
import stat
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from agenttalk.adapters.overlays import OverlayMounts, start_overlays
from agenttalk.adapters.workspaces import folders, tree_reader
from agenttalk.adapters.workspaces.git import EMAIL, GitLocation, make_git_dir
from agenttalk.adapters.workspaces.objects import GitObjects, hash_object
from agenttalk.adapters.workspaces.paths import WorkspaceFolder
from agenttalk.adapters.workspaces.tree_reader import FileStatus, FolderRecord, Listing, TreeEntry
from agenttalk.contracts.errors import MachineError
from agenttalk.ports.agents import CheckRepository, MountNamespace

_FEW: Final = 50
"""Files that are written one by one; more are written by git."""
_PIECE: Final = 1024 * 1024
"""Bytes that are copied at once."""
_TICK: Final = 0.001
"""Seconds to wait until the clock of a file system goes on."""
_SHARED: Final = "shared"
"""Where the repository's objects are seen, in the folder."""
_MESSAGE: Final = b"Update"
_OURS: Final = "agenttalk/"
_SETTINGS: Final = r"^(user\.(name|email)|remote\..*\.(url|fetch)|branch\..*\.(remote|merge))$"
_CREDENTIALS: Final = re.compile(r"^(https?://)[^/@]*@")
_COPIES: Final = 8
"""Copies that are remembered."""


class WarmTree(NamedTuple):
    """A folder in which a tree was laid out."""

    top: Path
    rights: tuple[object, ...]
    """The rights of a folder that we make; see `folder_rights`."""
    record: FolderRecord
    """How its files were when they were written."""

    @property
    def path(self) -> Path:
        """Where the tree is."""
        return self.top / "tree"


def lay_over_warm(objects: GitObjects, warm: WarmTree, listing: Listing) -> WarmTree | None:
    """Lay a tree out in a folder that was used before; None when a fresh folder is cheaper, or not to be trusted.

    Only files that were not touched since we wrote them stay. Their time of change shows that: no program can set it.
    Everything else that is there is removed. Folders must have the rights and attributes of those that we make.
    """
    kept = clean_warm(warm, listing)
    if kept is None:
        return None
    missing = {path: item for path, item in listing.items() if path not in kept}
    write_files(objects, warm.path, warm.top / "index", missing)
    return WarmTree(
        warm.top,
        warm.rights,
        tree_reader.record_files(warm.path, listing, warm.top / "mark", FolderRecord(warm.record.noted, kept)),
    )


def clean_warm(warm: WarmTree, listing: Listing) -> dict[str, tuple[str, FileStatus]] | None:
    """Remove all but files of a tree that were not touched since we wrote them; return those.

    None when so little is left that a fresh folder is cheaper, or when the folder itself is not as we make it.
    """
    if folder_rights(warm.path) != warm.rights or folders.has_mounts(warm.top):
        return None
    above = tree_reader.list_folders(listing)
    kept: dict[str, tuple[str, FileStatus]] = {}
    find_known = warm.record.find_known

    def clean(folder: Path, prefix: str) -> None:
        with os.scandir(folder) as entries:
            found = list(entries)
        for entry in found:
            path = prefix + entry.name
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                if path in above and folder_rights(Path(entry.path)) == warm.rights:
                    clean(Path(entry.path), f"{path}/")
                else:
                    folders.remove(Path(entry.path), warm.top / "trash")
                continue
            item = listing.get(path)
            if item is not None and find_known(path, status) == item.oid and is_mode_of(item, status.st_mode):
                kept[path] = warm.record.files[path]
            else:
                Path(entry.path).unlink()

    clean(warm.path, "")
    return kept if len(listing) - len(kept) <= max(_FEW, len(listing) // 2) else None


def folder_rights(path: Path) -> tuple[object, ...]:
    """Return what decides who may do what in a folder, and what is made there later: its mode, owner and attributes."""
    status = path.lstat()
    attributes = tuple(sorted(os.listxattr(path, follow_symlinks=False)))
    return (status.st_mode, status.st_uid, status.st_gid, attributes)


def is_mode_of(item: TreeEntry, mode: int) -> bool:
    """Return whether a file has the rights that its entry in the tree says."""
    return stat.S_ISREG(mode) and item.mode == (tree_reader.PROGRAM if mode & stat.S_IXUSR else tree_reader.FILE)


def write_files(objects: GitObjects, top: Path, index: Path, items: Listing) -> None:
    """Write entries of a tree below `top`, where nothing is. `index` is a file that may be overwritten."""
    if len(items) > _FEW:
        index.unlink(missing_ok=True)
        lines = b"".join(
            b"%s %s\t%s\0" % (item.mode.encode(), item.oid.encode(), os.fsencode(path)) for path, item in items.items()
        )
        objects.call("update-index", "-z", "--index-info", index=index, stdin=lines)
        objects.call("checkout-index", "--all", index=index, tree=top)
        return
    for path, item in items.items():
        where = top / path
        where.parent.mkdir(parents=True, exist_ok=True)
        if item.mode == tree_reader.SUBMODULE:
            where.mkdir()
            continue
        data = next(objects.contents([item.oid]))
        if item.mode == tree_reader.LINK:
            where.symlink_to(os.fsdecode(data))
            continue
        rights = 0o777 if item.mode == tree_reader.PROGRAM else 0o666
        # Fails where something is there already: on a file system that ignores case, a tree with two names for one
        # file would otherwise lose one of them.
        descriptor = os.open(where, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, rights)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)


class PristineTree(NamedTuple):
    """A tree of which nothing may change, and how to see that nothing has."""

    tree: str
    """The id of the tree."""
    warm: WarmTree
    files: dict[str, tuple[int, int]]
    """Path of a file or symlink → the time of its last change, and its inode."""
    folders: frozenset[str]
    empty: frozenset[str]
    """Folders of submodules."""

    def is_untouched(self) -> bool:
        """Return whether the folder still holds exactly what we wrote."""
        left = len(self.files)
        for path, entry in _list_files(self.warm, self.folders, self.empty):
            status = entry.stat(follow_symlinks=False) if entry is not None else None
            if status is None or self.files.get(path) != (status.st_ctime_ns, status.st_ino):
                return False
            left -= 1
        return left == 0


def _list_files(
    warm: WarmTree, inner: Collection[str], empty: Collection[str]
) -> Iterator[tuple[str, os.DirEntry[str] | None]]:
    """List files and symlinks below a tree. A folder that we did not make, or not like that, comes without an entry."""
    pending = [(str(warm.path), "")]
    while pending:
        folder, prefix = pending.pop()
        if folder_rights(Path(folder)) != warm.rights:
            yield prefix, None
        with os.scandir(folder) as entries:
            for entry in entries:
                path = prefix + entry.name
                if not entry.is_dir(follow_symlinks=False):
                    yield path, entry
                elif path in inner or (path in empty and not os.listdir(entry.path)):  # noqa: PTH208 - quick
                    pending.append((entry.path, f"{path}/"))
                else:
                    yield path, None


def write_pristine(objects: GitObjects, tree: str, home: Path, trash: Path) -> PristineTree | None:
    """Write a tree, and record it once the clock of the file system has gone on.

    Nothing that changes later can have the same time of change then. What git wrote in its last tick is read again.
    None when the folder does not hold exactly what git wrote: another program was quicker.
    """
    warm = write_fresh(objects, tree, home)
    pristine = None
    try:
        newest = max((status.ctime for _, status in warm.record.files.values()), default=0)
        mark = warm.top / "mark"
        while True:
            mark.unlink(missing_ok=True)
            mark.write_bytes(b"")
            if mark.stat().st_mtime_ns > newest:
                break
            time.sleep(_TICK)
        pristine = _record_pristine(objects, tree, warm)
    finally:
        if pristine is None:
            folders.remove(warm.top, trash)
    return pristine


def _record_pristine(objects: GitObjects, tree: str, warm: WarmTree) -> PristineTree | None:
    """Record the files of a tree that git has just written; None if anything else is there, or anything is missing."""
    listing, known = objects.listing(tree), warm.record
    above = frozenset(tree_reader.list_folders(listing))
    empty = frozenset(path for path, item in listing.items() if item.mode == tree_reader.SUBMODULE)
    files = {}
    for path, entry in _list_files(warm, above, empty):
        oid, then = known.files.get(path, tree_reader.UNKNOWN)
        found = entry.stat(follow_symlinks=False) if entry is not None else None
        if found is None or not then.is_of(found) or (then.ctime >= known.noted and _hash(objects, warm, path) != oid):
            return None
        files[path] = (then.ctime, found.st_ino)
    return PristineTree(tree, warm, files, above, empty) if len(files) == len(listing) - len(empty) else None


def _hash(objects: GitObjects, warm: WarmTree, path: str) -> str:
    """Return the id of what a file or symlink holds."""
    where = warm.path / path
    return objects.blob_id(os.fsencode(where.readlink()) if where.is_symlink() else where.read_bytes())


def copy_tree(objects: GitObjects, pristine: PristineTree, tree: str, target: Path, index: Path) -> bool:
    """Write a tree that differs little from a pristine one into an empty folder, by copying files; and its index.

    False if it differs too much, or if a file is not as we wrote it. Then the folder may hold a part.
    """
    listing, before = objects.listing(tree), objects.listing(pristine.tree)
    missing = {path: item for path, item in listing.items() if before.get(path) != item or path not in pristine.files}
    if len(missing) > _FEW:
        return False
    source, seen, made = str(pristine.warm.path), dict[str, os.stat_result](), {""}
    for path, item in listing.items():
        if path in missing:
            continue
        above = path.rpartition("/")[0]
        if above not in made:
            (target / above).mkdir(parents=True, exist_ok=True)
            made.add(above)
        status = _copy_entry(f"{source}/{path}", f"{target}/{path}", item, pristine.files[path])
        if status is None:
            return False
        seen[path] = status
    write_files(objects, target, index, missing)
    files = (path for path, item in missing.items() if item.mode != tree_reader.SUBMODULE)
    seen |= {path: os.lstat(f"{target}/{path}") for path in files}
    index.write_bytes(tree_reader.pack_index(listing, objects.algorithm, seen))
    return True


def _copy_entry(source: str, target: str, item: TreeEntry, known: tuple[int, int]) -> os.stat_result | None:
    """Copy a file or symlink that is as it was recorded; return the status of the copy. None if it is not so."""
    if item.mode == tree_reader.LINK:
        status = os.lstat(source)
        if (status.st_ctime_ns, status.st_ino) != known:
            return None
        os.symlink(os.readlink(source), target)  # noqa: PTH115, PTH211 - quick
        return os.lstat(target)
    there = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(there)
        if (status.st_ctime_ns, status.st_ino) != known:
            return None
        rights = 0o777 if item.mode == tree_reader.PROGRAM else 0o666
        here = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, rights)
        try:
            while data := os.read(there, _PIECE):
                os.write(here, data)
                if len(data) < _PIECE:
                    break
            return os.fstat(here)
        finally:
            os.close(here)
    finally:
        os.close(there)


class LayeredTree(NamedTuple):
    """A tree in an overlay of its own."""

    name: str
    path: Path
    """Where we see it."""
    namespace: MountNamespace
    """Where programs see it, at the path that this one resolves to."""
    lower: WarmTree


class LayeredTrees:
    """Opens trees that share the files of one pristine tree, where the machine allows overlays.

    Before each use the pristine tree is proven to be as we wrote it: a program without a sandbox could write it.
    """

    def __init__(self, objects: GitObjects, home: Path, trash: Path) -> None:
        self._objects = objects
        self._home = home
        self._trash = trash
        self._lock = threading.Lock()
        self._mounts: OverlayMounts | None = None
        self._tried = False
        self._pristine: PristineTree | None = None
        """The tree that others are laid over."""
        self._asked = itertools.count(1)
        self._proven = 0
        """The last number that was drawn before the pristine tree was written, or was last proven to be untouched."""
        self._spent: list[str] = []
        """Overlays that are unmounted, of which the folders are still there."""
        self._users: Counter[Path] = Counter()
        """How many overlays use a pristine tree."""

    def open(self, tree: str) -> LayeredTree | None:
        """Open a tree; None where that does not work, or where the pristine tree is too different."""
        tree = self._objects.tree_of(tree)
        number = next(self._asked)
        with self._lock:
            mounts = self._start()
            if mounts is None:
                return None
            try:
                found = self._find_pristine(tree, number)
            except OSError:  # another program removed files of it meanwhile
                found = None
            if found is None:
                return None
            base, lower = found
            # Counted before the lock is released: another thread could otherwise remove the pristine tree before it
            # is mounted.
            self._users[lower.top] += 1
        name = secrets.token_hex(8)
        try:
            for folder in ("upper", "work", "tree"):
                (self._home / name / folder).mkdir(parents=True)
            path = mounts.mount(self._home, name, f"{lower.top.name}/tree")
            self._write_changes(path, base, tree)
        except BaseException as error:
            # The machine refuses the mount, which is not the fault of the check: the caller lays the tree out in a
            # folder instead.
            self._remove(name, lower)
            if isinstance(error, OSError):
                return None
            raise
        return LayeredTree(name, path, mounts.namespace, lower)

    def copy(self, tree: str, target: Path, index: Path) -> bool:
        """Copy a tree from the pristine one, which is written if there is none; see `copy_tree`."""
        with self._lock:
            if self._start() is None:
                return False
            if self._pristine is None:
                self._proven = next(self._asked)
                self._pristine = write_pristine(self._objects, self._objects.tree_of(tree), self._home, self._trash)
            pristine = self._pristine
            if pristine is None:
                return False
            self._users[pristine.warm.top] += 1
        try:
            return copy_tree(self._objects, pristine, tree, target, index)
        except OSError:  # a file is gone, or the file system takes two names for one
            return False
        finally:
            with self._lock:
                self._leave(pristine.warm)

    def close(self, opened: LayeredTree) -> None:
        """Unmount a tree, and remove what was written in it."""
        self._remove(opened.name, opened.lower)

    def release(self) -> None:
        """End the process that mounts and remove the pristine tree, if no tree is open. Both come back when needed."""
        with self._lock:
            # Overlays are open: without the process that mounts them, running checks would lose their files.
            if self._users:
                return
            mounts, self._mounts, self._tried = self._mounts, None, False
            if mounts is not None:
                mounts.close()
            self._forget_pristine()

    def _start(self) -> OverlayMounts | None:
        if not self._tried:
            self._tried = True
            self._home.mkdir(parents=True, exist_ok=True)
            self._mounts = start_overlays(self._home)
        return self._mounts

    def _find_pristine(self, tree: str, number: int) -> tuple[str, WarmTree] | None:
        """Return a pristine tree to lay another over: a new one if the last was touched or is too different.

        The proof counts for all who had drawn a number before it began. None if the new one was touched at once.
        """
        drawn = next(self._asked)
        if (pristine := self._pristine) is not None:
            if len(self._objects.changes(pristine.tree, tree)) <= max(_FEW, len(pristine.files) // 4):
                if number <= self._proven:
                    return pristine.tree, pristine.warm
                if pristine.is_untouched():
                    self._proven = drawn
                    return pristine.tree, pristine.warm
            self._forget_pristine()
        pristine = self._pristine = write_pristine(self._objects, tree, self._home, self._trash)
        if pristine is None:
            return None
        self._proven = drawn
        return pristine.tree, pristine.warm

    def _forget_pristine(self) -> None:
        old, self._pristine = self._pristine, None
        if old is not None and not self._users[old.warm.top]:
            folders.remove(old.warm.top, self._trash)

    def _write_changes(self, top: Path, before: str, after: str) -> None:
        """Make one tree of another."""
        changes = self._objects.changes(before, after)
        listing = self._objects.listing(after)
        kept = tree_reader.list_folders(listing) if changes else set()
        emptied: set[str] = set()
        for change in changes:
            if change.before is not None:
                where = top / change.path
                where.rmdir() if change.before.mode == tree_reader.SUBMODULE else where.unlink()
                emptied.update(parent for parent in tree_reader.parents(change.path) if parent not in kept)
        for folder in sorted(emptied, key=len, reverse=True):
            (top / folder).rmdir()
        added = {change.path: change.after for change in changes if change.after is not None}
        write_files(self._objects, top, top.parent / "index", added)

    def _remove(self, name: str, lower: WarmTree) -> None:
        with self._lock:
            if self._mounts is not None:
                with suppress(OSError):
                    self._mounts.unmount(self._home, name)
            self._leave(lower)
            # A sandbox that is being set up beside this has a copy of all mounts, and lists them. Who removes the
            # folder below one takes it away there as well, and the sandbox fails. So these folders go together, when
            # nothing runs.
            self._spent.append(name)
            spent = [] if self._users else self._spent
            self._spent = [] if spent else self._spent
        for folder in ("upper", "work"):
            folders.remove(self._home / name / folder, self._trash)
        for each in spent:
            folders.remove(self._home / each, self._trash)

    def _leave(self, lower: WarmTree) -> None:
        self._users[lower.top] -= 1
        if not self._users[lower.top]:
            del self._users[lower.top]
            # The newest pristine tree stays for the next check; an older one goes with the last that uses it.
            if self._pristine is None or self._pristine.warm.top != lower.top:
                folders.remove(lower.top, self._trash)


def write_fresh(objects: GitObjects, tree: str, home: Path) -> WarmTree:
    """Write a tree into a fresh folder."""
    top = folders.make_fresh_folder(home)
    (top / "tree").mkdir()
    rights = folder_rights(top / "tree")
    objects.checkout(tree, top / "tree", top / "index")
    return WarmTree(top, rights, FolderRecord.read(top / "index", objects.algorithm))


class _RepositoryView(NamedTuple):
    """What is the same for all trees of a plan."""

    parent: str
    """The commit that the work began from."""
    signature: bytes
    """Its last two lines before the message: who made it, and when."""
    branch: str
    """The branch that is checked out; empty if none is."""
    refs: str
    """What packed-refs contains."""
    config: str
    sha256: str


class CheckRepositories:
    """Makes the copies of one plan, each once."""

    def __init__(
        self, git_objects: GitObjects, folder: WorkspaceFolder, temporary: Path, base: Callable[[], str]
    ) -> None:
        """`base` returns the commit that the plan began at; it is called when the first copy is made."""
        self._objects = git_objects
        self._folder = folder
        self._temporary = temporary
        self._base = base
        self._guard = threading.Lock()
        self._view: _RepositoryView | None = None
        self._made: dict[str, CheckRepository] = {}

    def find(self, tree: str) -> CheckRepository | None:
        """Return the copy for a tree; None where there is no repository, or git cannot read it."""
        if self._folder.plain:
            return None
        tree = self._objects.tree_of(tree)
        with self._guard:
            made = self._made.get(tree)
            if made is None:
                try:
                    made = self._make(tree)
                except MachineError:
                    return None
                while len(self._made) >= _COPIES:
                    del self._made[next(iter(self._made))]
                self._made[tree] = made
        return made

    def hash(self) -> str:
        """Hash what git answers in a copy, but for the tree; empty without a repository."""
        if self._folder.plain:
            return ""
        with self._guard:
            try:
                return self._read().sha256
            except MachineError:
                return ""

    def _make(self, tree: str) -> CheckRepository:
        top = folders.make_fresh_folder(self._temporary)
        try:
            self._write(top / "copy", tree)
            found = sorted((top / "copy").rglob("*"))
            names = [(path, path.relative_to(top / "copy").as_posix()) for path in found]
            return CheckRepository(
                tuple(name for path, name in names if path.is_dir()),
                {name: path.read_bytes() for path, name in names if path.is_file()},
                self._folder.objects,
                _SHARED,
            )
        finally:
            shutil.rmtree(top, ignore_errors=True)

    def _write(self, copy: Path, tree: str) -> None:
        view = self._read()
        make_git_dir(copy, self._objects.algorithm, view.branch or "main")
        (copy / _SHARED).mkdir()
        (copy / "objects/info/alternates").write_text(f"../{_SHARED}\n")
        commit = view.parent if self._objects.tree_of(view.parent) == tree else self._commit(copy, tree, view)
        if view.branch:
            head = copy / "refs/heads" / view.branch
            head.parent.mkdir(parents=True, exist_ok=True)
            head.write_text(f"{commit}\n")
        else:
            (copy / "HEAD").write_text(f"{commit}\n")
        (copy / "packed-refs").write_text(view.refs)
        with (copy / "config").open("a") as config:
            config.write(view.config)
        for name in ("shallow", "info/exclude"):
            source = self._folder.common / name
            if source.is_file():
                folders.write(copy / name, source.read_bytes())
        (copy / "index").write_bytes(tree_reader.pack_index(self._objects.listing(tree), self._objects.algorithm))

    def _commit(self, copy: Path, tree: str, view: _RepositoryView) -> str:
        """Write the commit with the tree into the copy."""
        data = b"tree %b\nparent %b\n%b\n\n%b\n" % (tree.encode(), view.parent.encode(), view.signature, _MESSAGE)
        oid = hash_object(self._objects.algorithm, "commit", data)
        (copy / "objects" / oid[:2]).mkdir()
        packed = zlib.compress(b"commit %d\0%b" % (len(data), data), 1)
        (copy / "objects" / oid[:2] / oid[2:]).write_bytes(packed)
        return oid

    def _read(self) -> _RepositoryView:
        """Read the repository, once: what others do there later changes no result."""
        if self._view is not None:
            return self._view
        parent, data = self._base(), b""
        while True:
            data = self._objects.reader.read(parent)[1].partition(b"\n\n")[0]
            parents = self._objects.reader.commit(parent).parents
            if f"<{EMAIL}>".encode() not in data or not parents:
                break
            parent = parents[0]
        committer = next(line for line in data.splitlines() if line.startswith(b"committer "))
        signature = b"author %b\n%b" % (committer.removeprefix(b"committer "), committer)
        git, at = self._objects.git, GitLocation(self._folder.common)
        wanted = ("for-each-ref", f"--merged={parent}", "--format=%(objectname) %(refname)")
        listed = git.call(*wanted, "refs/heads", "refs/remotes", "refs/tags", at=at).out.decode(errors="replace")
        refs = sorted((line.split(" ", 1)[1], line) for line in listed.splitlines() if _OURS not in line)
        branch = git.find_branch(self._folder.git_dir)
        branch = "" if branch.startswith(_OURS) else branch
        told = (parent, branch, "".join(f"{line}\n" for _, line in refs), self._read_config())
        digest = sha256("\0".join((str(self._folder.folder), *told)).encode(errors="replace")).hexdigest()
        view = self._view = _RepositoryView(parent, signature, *told[1:], sha256=f"sha256:{digest}")
        return view

    def _read_config(self) -> str:
        """Return the settings that tell who the user is and where the repository comes from, without credentials."""
        more = {"GIT_CONFIG_GLOBAL": str(Path.home() / ".gitconfig")}
        wanted = ("config", "--null", "--get-regexp", _SETTINGS)
        found = self._objects.git.call(*wanted, at=GitLocation(self._folder.common), ok=(0, 1), more=more)
        lines = []
        for entry in filter(None, found.out.decode(errors="replace").split("\0")):
            key, _, value = entry.partition("\n")
            section, _, rest = key.partition(".")
            name, _, field = rest.rpartition(".")
            value = _CREDENTIALS.sub(r"\1", value)
            if _OURS not in entry:
                head = f'[{section} "{_quote(name)}"]' if name else f"[{section}]"
                lines.append(f'{head}\n\t{field} = "{_quote(value)}"\n')
        return "".join(lines)


def _quote(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
