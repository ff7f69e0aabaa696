"""Reads the tree in a folder, from the files alone.

The folder may be hostile. It is walked by descriptors that follow no symlink. git does not read it, so nothing in its
.git folder (index, config, hooks, alternates, grafts) matters. All faults are collected.

Files that are as we wrote them are not read again. Their inode, size and times show that: no program can set the time
of change (ctime). A ctime that equals the time of the record is not trusted.
"""

from __future__ import annotations

import hashlib
import operator
import os
import stat
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from agenttalk.adapters.workspaces import names
from agenttalk.adapters.workspaces.folders import FOLDER
from agenttalk.rules.core.scope import IgnoreRules
from agenttalk.rules.text import check_words

FILE, PROGRAM, LINK, SUBMODULE = "100644", "100755", "120000", "160000"
MAX_DEPTH: Final = 100
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class TreeEntry(NamedTuple):
    """What a tree has under a path."""

    mode: str
    oid: str


Listing = dict[str, TreeEntry]
"""Path → its entry. Paths that are not UTF-8 come as `os.fsdecode` returns them."""


@dataclass(frozen=True, slots=True)
class TreeLimits:
    """Limits of a tree. Only new content counts."""

    file_bytes: int = 256 * 1024 * 1024
    new_bytes: int = 2 * 1024 * 1024 * 1024
    paths: int = 1_000_000


class Reason(NamedTuple):
    """Why an entry of a tree is refused."""

    path: str
    why: str


class FileStatus(NamedTuple):
    """What a file is recognised by, as an index of git keeps it. A change of its rights changes its ctime."""

    size: int
    mtime: int
    ctime: int
    inode: int
    device: int

    @classmethod
    def from_stat(cls, status: os.stat_result) -> FileStatus:
        """Make it from the system's answer."""
        return cls(
            status.st_size & _SHORT,
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_ino & _SHORT,
            status.st_dev & _SHORT,
        )

    def is_of(self, status: os.stat_result) -> bool:
        """Return whether the system's answer is the same; as `from_stat`, but quick, because trees are large."""
        return (
            self.ctime == status.st_ctime_ns
            and self.inode == status.st_ino & _SHORT
            and self.mtime == status.st_mtime_ns
            and self.size == status.st_size & _SHORT
            and self.device == status.st_dev & _SHORT
        )


UNKNOWN: Final = ("", FileStatus(-1, -1, -1, -1, -1))
"""What no file is recognised by."""


@dataclass(frozen=True, slots=True)
class FolderRecord:
    """What we wrote into a folder: how each file is recognised, and when that was recorded."""

    noted: int = 0
    files: Mapping[str, tuple[str, FileStatus]] = field(default_factory=dict)

    def find_known(self, path: str, status: os.stat_result) -> str | None:
        """Return the content of a file that was not touched since."""
        oid, then = self.files.get(path, UNKNOWN)
        return oid if then.ctime < self.noted and then.is_of(status) else None

    @classmethod
    def read(cls, index: Path, algorithm: str) -> FolderRecord:
        """Read the index that git wrote when it checked a tree out, and no other program since; empty if it cannot.

        Files that git wrote in the same tick of the clock as the index are not trusted.
        """
        try:
            data = index.read_bytes()
            return cls(index.stat().st_mtime_ns, dict(_index_entries(data, hashlib.new(algorithm).digest_size)))
        except (OSError, ValueError, struct.error):
            return cls()


NO_RECORD: Final = FolderRecord()
_SHORT: Final = 0xFFFF_FFFF
"""An index keeps 32 bits of a size or an inode."""
_FIELDS: Final = struct.Struct(">10I")
_EXTENDED: Final = 0x40
"""The flag of an entry that has more flags."""
_KIND, _FILES = 0o170000, frozenset({stat.S_IFREG, stat.S_IFLNK})


def _index_entries(data: bytes, size: int) -> Iterator[tuple[str, tuple[str, FileStatus]]]:
    """Read the entries of files from an index of git, version 2 or 3, whose ids have so many bytes."""
    signature, version, count = struct.unpack_from(">4s2I", data)
    if signature != b"DIRC" or version not in {2, 3}:
        raise ValueError(f"an index of version {version}")
    at = 12
    for _ in range(count):
        ctime, ctime_ns, mtime, mtime_ns, device, inode, mode, _, _, length = _FIELDS.unpack_from(data, at)
        name = at + 42 + size
        name += 2 if data[name - 2] & _EXTENDED else 0
        end = data.index(b"\0", name)
        if mode & _KIND in _FILES:
            status = FileStatus(length, mtime * _SECOND + mtime_ns, ctime * _SECOND + ctime_ns, inode, device)
            yield str(data[name:end], "utf-8", "surrogateescape"), (data[at + 40 : at + 40 + size].hex(), status)
        at += (end - at + 8) & ~7  # padded with NULs, at least one


def pack_index(listing: Listing, algorithm: str, seen: Mapping[str, os.stat_result] = MappingProxyType({})) -> bytes:
    """Make an index of git for a tree. What is known of its files is `seen`; git reads others when it is asked."""
    heads = {mode: _FIELDS.pack(*bytes(6), int(mode, 8), *bytes(3)) for mode in (FILE, PROGRAM, LINK, SUBMODULE)}
    parts = [b"DIRC" + (2).to_bytes(4, "big") + len(listing).to_bytes(4, "big")]
    for name, path, (mode, oid) in sorted((os.fsencode(path), path, item) for path, item in listing.items()):
        head = _describe(seen[path], mode) if path in seen else heads[mode]
        entry = head + bytes.fromhex(oid) + min(len(name), _LONGEST).to_bytes(2, "big") + name
        parts.append(entry + bytes(8 - len(entry) % 8))
    data = b"".join(parts)
    return data + hashlib.new(algorithm, data, usedforsecurity=False).digest()


def _describe(status: os.stat_result, mode: str) -> bytes:
    """Return what an entry of an index says about a file."""
    changed, written = divmod(status.st_ctime_ns, _SECOND), divmod(status.st_mtime_ns, _SECOND)
    place = (status.st_dev & _SHORT, status.st_ino & _SHORT)
    owner = (status.st_uid & _SHORT, status.st_gid & _SHORT, status.st_size & _SHORT)
    return _FIELDS.pack(*(each & _SHORT for each in (*changed, *written)), *place, int(mode, 8), *owner)


_LONGEST: Final = 0xFFF
"""The length of a name that an entry of an index can say; of a longer one, it says this."""
_SECOND: Final = 1_000_000_000


def record_files(top: Path, listing: Listing, mark: Path, before: FolderRecord) -> FolderRecord:
    """Record how the files of a folder are recognised; nothing else may write to it meanwhile.

    Files in the record from `before` are not read again. `mark` is a file that is made on the same file system, to
    learn its time.
    """
    files = dict(before.files)
    for path, item in listing.items():
        if item.mode in {FILE, PROGRAM} and path not in files:
            files[path] = (item.oid, FileStatus.from_stat(os.lstat(f"{top}/{path}")))
    mark.unlink(missing_ok=True)
    mark.write_bytes(b"")
    return FolderRecord(mark.stat().st_mtime_ns, files)


_name_of: Final = operator.attrgetter("name")
BlobSink = Callable[[bytes], None]
"""Takes the content of a new file."""


@dataclass(frozen=True, slots=True)
class TreeRules:
    """How a folder is to be read."""

    known: Listing
    """What was there at first: it counts whether or not it is ignored."""
    ignored: IgnoreRules
    hasher: Callable[[bytes], str]
    """Returns the id of a content."""
    foreign: Collection[str] = ()
    """Paths that are ours, not the tree's."""
    record: FolderRecord = NO_RECORD
    limits: TreeLimits = TreeLimits()
    known_links: Callable[[], Mapping[str, str]] = dict
    """Path → target of the symlinks that were there at first."""
    trusted: bool = False
    """Whether the folder is the user's own: its links may lead anywhere."""


def blob_id(data: bytes, algorithm: str) -> str:
    """Return the id that git gives to a content."""
    return hashlib.new(algorithm, b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


class TreeCheck:
    """Judges the paths and links of a tree. It collects every fault."""

    def __init__(self, rules: TreeRules) -> None:
        self._rules = rules
        self._known = rules.known
        self._folders = list_folders(rules.known)
        self._links: dict[str, str] = {}
        """Path → target of every symlink of the tree."""
        self.listing: Listing = {}
        self.reasons: list[Reason] = []

    def _refuse(self, path: str, why: str) -> None:
        reason = Reason(path, why)
        if reason not in self.reasons[-50:]:
            self.reasons.append(reason)

    def _is_known(self, path: str) -> bool:
        return path in self._known or path in self._folders

    def _collide(self, met: dict[str, str], here: str, name: str) -> None:
        """Refuse what some file systems take for another entry of its folder, unless both were there before."""
        other = met.setdefault(names.fold_name(name), here)
        if other != here and not (self._is_known(here) and self._is_known(other)):
            self._refuse(here, check_words.MISTAKEN_FOR(name=other.rpartition("/")[2]))

    def _check_names(self) -> None:
        for path in names.find_bare_repositories(self.listing, self._known):
            self._refuse(path, check_words.BARE_GIT())
        if self.listing.get(".gitmodules") != self._known.get(".gitmodules"):
            self._refuse(".gitmodules", check_words.NO_SUBMODULES())

    def _check_links(self) -> None:
        before: Mapping[str, str] | None = None
        for path in self._links:
            why = names.describe_escape(path, self._links, self._rules.foreign)
            if not why:
                continue
            if before is None:
                before = self._rules.known_links()
            kept = before.get(path) == self._links[path] and names.describe_escape(path, before, self._rules.foreign)
            if not kept:  # a link of the user that led out before is the user's own
                self._refuse(path, why)


class FolderWalk(TreeCheck):
    """One pass over a folder."""

    def __init__(self, rules: TreeRules, keep: BlobSink) -> None:
        super().__init__(rules)
        self._keep = keep
        self._find_known = rules.record.find_known
        self._inodes: dict[tuple[int, int], list[str]] = {}
        self._nlinks: dict[tuple[int, int], int] = {}
        self._bytes = 0
        self.listing = {path: item for path, item in rules.known.items() if item.mode == SUBMODULE}

    def run(self, top: Path) -> None:
        """Read everything into `listing` and `reasons`."""
        descriptor = os.open(top, FOLDER)
        try:
            self._folder(descriptor, "", ignored=False, depth=0)
        finally:
            os.close(descriptor)
        if not self._rules.trusted:
            self._check_links()
            self._check_inodes()
            self._check_names()
        self.reasons.sort()

    def _folder(self, descriptor: int, path: str, *, ignored: bool, depth: int) -> None:
        if depth > MAX_DEPTH:
            self._refuse(path, check_words.TOO_NESTED(depth=MAX_DEPTH))
            return
        taken: list[tuple[str, str]] = []
        has_new = False
        foreign = self._rules.foreign
        with os.scandir(descriptor) as entries:
            children = sorted(entries, key=_name_of)
        for entry in children:
            name = entry.name
            here = f"{path}/{name}" if path else name
            if here == ".git" or here in foreign:
                continue
            try:
                status = entry.stat(follow_symlinks=False)
                if not self._take_known(here, status):
                    if not self._entry(descriptor, here, name, status, ignored=ignored, depth=depth):
                        continue
                    has_new = has_new or not self._is_known(here)
            except OSError as error:
                self._refuse(here, check_words.UNREADABLE(error=error.strerror))
                continue
            taken.append((here, name))
        met: dict[str, str] = {}
        for here, name in taken if has_new else ():
            self._collide(met, here, name)

    def _take_known(self, path: str, status: os.stat_result) -> bool:
        """Take a file of the tree of which nothing was touched; return whether it is one."""
        item, mode = self._known.get(path), status.st_mode
        if item is None or self._find_known(path, status) != item.oid:
            return False
        if not stat.S_ISREG(mode) or len(self.listing) >= self._rules.limits.paths:
            return False
        kind = PROGRAM if mode & stat.S_IXUSR else FILE
        self.listing[path] = item if item.mode == kind else TreeEntry(kind, item.oid)
        return True

    def _entry(self, parent: int, path: str, name: str, status: os.stat_result, *, ignored: bool, depth: int) -> bool:
        """Read one name; return whether anything of it is part of the tree."""
        known = self._is_known(path)
        is_folder = stat.S_ISDIR(status.st_mode)
        if not known and not ignored and names.is_git_name(name):
            self._refuse(path, names.describe_refusal(path))
            return False
        skipped = ignored or ((is_folder or not known) and self._rules.ignored.ignores(path, folder=is_folder))
        if skipped and not known:
            return False
        if not known and (why := names.describe_refusal(path)):
            self._refuse(path, why)
            return False
        if self._is_submodule(path):
            self._submodule(parent, path, name, is_folder=is_folder)
            return True
        if not is_folder:
            return self._file(parent, path, name, status)
        before = len(self.listing)
        descriptor = os.open(name, FOLDER, dir_fd=parent)
        try:
            self._folder(descriptor, path, ignored=skipped, depth=depth + 1)
        finally:
            os.close(descriptor)
        return len(self.listing) > before

    def _is_submodule(self, path: str) -> bool:
        item = self._rules.known.get(path)
        return item is not None and item.mode == SUBMODULE

    def _submodule(self, parent: int, path: str, name: str, *, is_folder: bool) -> None:
        """Keep a submodule as it is. An empty folder, as a checkout makes it, is not a change; nor is a missing one."""
        touched = True
        if is_folder:
            descriptor = os.open(name, FOLDER, dir_fd=parent)
            with os.scandir(descriptor) as entries:
                touched = any(entries)
            os.close(descriptor)
        if touched:
            self._refuse(path, check_words.IS_SUBMODULE())

    def _file(self, parent: int, path: str, name: str, status: os.stat_result) -> bool:
        if len(self.listing) >= self._rules.limits.paths:
            if len(self.listing) == self._rules.limits.paths:
                self._refuse(path, check_words.TOO_MANY_FILES(limit=self._rules.limits.paths))
            return False
        if stat.S_ISLNK(status.st_mode):
            target = os.readlink(name, dir_fd=parent)
            self._links[path] = target
            self._take(path, LINK, os.fsencode(target))
            return True
        if not stat.S_ISREG(status.st_mode):
            self._refuse(path, check_words.NO_PLAIN_FILE())
            return False
        mode = PROGRAM if status.st_mode & stat.S_IXUSR else FILE
        oid = self._rules.record.find_known(path, status)
        if oid is not None:
            self.listing[path] = TreeEntry(mode, oid)
            return True
        data = self._content(parent, path, name)
        if data is None:
            return False
        if self._take(path, mode, data) and status.st_nlink > 1:
            key = (status.st_dev, status.st_ino)
            self._inodes.setdefault(key, []).append(path)
            self._nlinks[key] = status.st_nlink
        return True

    def _content(self, parent: int, path: str, name: str) -> bytes | None:
        descriptor = os.open(name, _READ, dir_fd=parent)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            status = os.fstat(descriptor)
            most = self._rules.limits.file_bytes
            if not stat.S_ISREG(status.st_mode):
                self._refuse(path, check_words.CHANGED_WHILE_READ())
                return None
            data = b"" if status.st_size > most else b"".join(_pieces(file, most))
            if status.st_size > most or len(data) > most:
                self._refuse(path, check_words.TOO_LARGE(limit=most))
                return None
        return data

    def _take(self, path: str, mode: str, data: bytes) -> bool:
        """Record a content, and pass it on if it is new; return whether it is."""
        oid = self._rules.hasher(data)
        self.listing[path] = TreeEntry(mode, oid)
        was = self._rules.known.get(path)
        if was is not None and was.oid == oid:
            return False
        self._bytes += len(data)
        if self._bytes > self._rules.limits.new_bytes:
            self._refuse(path, check_words.TOO_MUCH_NEW(limit=self._rules.limits.new_bytes))
        elif not self.reasons:
            self._keep(data)
        return True

    def _check_inodes(self) -> None:
        for key, paths in self._inodes.items():
            if self._nlinks[key] > len(paths):
                self._refuse(paths[0], check_words.LINKED_OUTSIDE())


def _pieces(file: object, most: int) -> Iterator[bytes]:
    left = most + 1
    while left > 0 and (piece := file.read(min(left, 1 << 20))):  # type: ignore[attr-defined]
        left -= len(piece)
        yield piece


def parents(path: str) -> Iterator[str]:
    """Iterate over the folders on the way to a path, nearest first."""
    above = path.rpartition("/")[0]
    while above:
        yield above
        above = above.rpartition("/")[0]


def list_folders(paths: Iterable[str]) -> set[str]:
    """Return the folders on the way to paths."""
    found = {path.rpartition("/")[0] for path in paths}
    for folder in list(found):
        for above in parents(folder):
            if above in found:
                break
            found.add(above)
    return found - {""}
