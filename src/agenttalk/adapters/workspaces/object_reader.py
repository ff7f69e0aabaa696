"""Processes of git that stay open, and the objects that are read through them.

Starting git for one object costs a hundred times as much as asking one that runs. What an id stands for never changes,
so commits and trees that were read are remembered. A process ends when nothing was asked for a while.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from agenttalk.adapters.workspaces.tree_reader import TreeEntry
from agenttalk.contracts.errors import Code, MachineError

_IDLE: Final = 5.0
"""Seconds without a question after which a process ends."""
_ID: Final = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_TREES: Final = 20_000
_COMMITS: Final = 20_000
"""How many trees and commits are remembered."""
_TRAILER: Final = re.compile(r"([A-Za-z0-9-]+): (.*)\Z")
K = TypeVar("K")
V = TypeVar("V")


def is_object_id(name: str) -> bool:
    """Return whether a name is the full id of an object."""
    return _ID.match(name) is not None


class ObjectCache(Generic[K, V]):
    """What was found for the newest keys. Threads may use it at once."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return what is remembered; None for nothing."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key]

    def put(self, key: K, value: V) -> V:
        """Remember a value, and return it."""
        with self._lock:
            self._values[key] = value
            if len(self._values) > self._limit:
                self._values.popitem(last=False)
        return value

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()

    def newest(self) -> list[K]:
        """List the keys, the newest first."""
        with self._lock:
            return list(reversed(self._values))


class GitDialogue:
    """One process of git that stays open: of `git cat-file`, or of another command that answers line by line."""

    def __init__(self, start: Callable[[], subprocess.Popen[bytes]], seconds: float, *, contents: bool) -> None:
        """`start` starts the process, which may take so many `seconds` for a part of an answer.

        `contents` says whether it answers with the contents of objects (`--batch`), or without (`--batch-check`).
        """
        self._start = start
        self._contents = contents
        self._seconds = seconds
        self._answer = bytearray()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._used = 0.0

    def ask(self, name: str) -> tuple[str, str, bytes] | None:
        """Ask for an object: its id, its kind, and its content if that is answered; None when there is none.

        A process that died is started again, once.
        """
        if "\n" in name or not name:
            return None
        with self._lock:
            for last in (False, True):
                try:
                    self._write(os.fsencode(name) + b"\n")
                    return self._read_object()
                except (OSError, ValueError) as error:
                    self._end()
                    if last:
                        raise missing_object(name, str(error)) from error
        raise AssertionError  # pragma: no cover - the loop returns or raises

    def tell(self, text: str, *answers: str) -> bool:
        """Write something; return whether these lines are the answer. If not, the process has been ended."""
        with self._lock:
            try:
                self._write(text.encode())
                if all(self._read_line() == answer.encode() for answer in answers):
                    return True
            except (OSError, ValueError):
                pass
            self._end()
            return False

    def _write(self, data: bytes) -> None:
        if self._process is None:
            self._answer.clear()
            self._process = self._start()
            threading.Thread(target=self._end_when_idle, args=(self._process,), daemon=True).start()
        self._used = time.monotonic()
        assert self._process.stdin is not None  # noqa: S101 - for mypy: it is a pipe
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def _read_line(self) -> bytes:
        while b"\n" not in self._answer:
            self._receive()
        head, _, rest = bytes(self._answer).partition(b"\n")
        self._answer = bytearray(rest)
        return head

    def _read_object(self) -> tuple[str, str, bytes] | None:
        fields = self._read_line().split(b" ")
        if len(fields) != 3 or not fields[2].isdigit():  # missing or ambiguous
            return None
        data = b""
        if self._contents:
            size = int(fields[2])
            while len(self._answer) < size + 1:
                self._receive()
            data = bytes(self._answer[:size])
            self._answer.clear()
        return fields[0].decode(), fields[1].decode(), data

    def _receive(self) -> None:
        """Read more of the answer. Raises OSError when git ended, or does not answer in time."""
        assert self._process is not None  # noqa: S101 - for mypy: something was written to it
        assert self._process.stdout is not None  # noqa: S101 - for mypy: it is a pipe
        descriptor = self._process.stdout.fileno()
        readable, _, _ = select.select([descriptor], [], [], self._seconds)
        data = os.read(descriptor, 1 << 20) if readable else b""
        if not data:
            raise OSError(f"git did not answer within {self._seconds:g} seconds")
        self._answer += data

    def _end_when_idle(self, process: subprocess.Popen[bytes]) -> None:
        """End the process as soon as it was not used for a while."""
        left = _IDLE
        while left > 0:
            time.sleep(left)
            with self._lock:
                if self._process is not process:
                    return
                left = self._used + _IDLE - time.monotonic()
                if left <= 0:
                    self._end()

    def close(self) -> None:
        """End the process. It is started again when something is asked."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()


@dataclass(frozen=True, slots=True)
class GitCommit:
    """A commit, as far as it is needed."""

    tree: str
    parents: tuple[str, ...]
    trailers: dict[str, str] = field(default_factory=dict)
    """The trailers of its message by their names."""


class TreeItem(TreeEntry):
    """One name in one folder of a tree: a file, or a folder."""

    __slots__ = ()

    @property
    def is_folder(self) -> bool:
        """Whether it is a tree itself."""
        return self.mode == FOLDER_MODE


FOLDER_MODE: Final = "040000"
Folder = dict[bytes, TreeItem]
"""Name → what a folder of a tree has under it."""


class ObjectReader:
    """Reads commits and trees by their ids."""

    def __init__(self, start: Callable[[], subprocess.Popen[bytes]], seconds: float) -> None:
        """`start` starts `git cat-file --batch`, which has so many `seconds` for an answer."""
        self._dialogue = GitDialogue(start, seconds, contents=True)
        self._commits: ObjectCache[str, GitCommit] = ObjectCache(_COMMITS)
        self._trees: ObjectCache[str, Folder] = ObjectCache(_TREES)

    def close(self) -> None:
        """End the process of git, and forget what was read."""
        self._dialogue.close()
        self._commits.clear()
        self._trees.clear()

    def read(self, oid: str) -> tuple[str, bytes]:
        """Read an object: its kind and its content. Raises MachineError if it is missing."""
        found = self._dialogue.ask(oid)
        if found is None:
            raise missing_object(oid)
        return found[1], found[2]

    def commit(self, oid: str) -> GitCommit:
        """Read a commit."""
        known = self._commits.get(oid)
        if known is not None:
            return known
        kind, data = self.read(oid)
        if kind != "commit":
            raise missing_object(oid)
        return self._commits.put(oid, parse_commit(data))

    def tree_of(self, oid: str) -> str:
        """Return the tree of a commit; a tree is its own."""
        if self._trees.get(oid) is not None:
            return oid
        known = self._commits.get(oid)
        if known is not None:
            return known.tree
        kind, data = self.read(oid)
        if kind == "tree":
            self._trees.put(oid, parse_tree(data, len(oid) // 2))
            return oid
        if kind != "commit":
            raise missing_object(oid)
        return self._commits.put(oid, parse_commit(data)).tree

    def folder(self, oid: str) -> Folder:
        """Read one folder of a tree. The caller must not change it."""
        known = self._trees.get(oid)
        if known is not None:
            return known
        kind, data = self.read(oid)
        if kind != "tree":
            raise missing_object(oid)
        return self._trees.put(oid, parse_tree(data, len(oid) // 2))

    def remember_folder(self, oid: str, folder: Folder) -> None:
        """Remember a folder that was just written."""
        self._trees.put(oid, folder)

    def list_files(self, oid: str) -> dict[str, TreeEntry]:
        """Return every path of a tree."""
        found: dict[str, TreeEntry] = {}
        self._add_files(oid, "", found)
        return found

    def _add_files(self, oid: str, top: str, found: dict[str, TreeEntry]) -> None:
        for name, item in self.folder(oid).items():
            path = top + os.fsdecode(name)
            if item.mode == FOLDER_MODE:
                self._add_files(item.oid, f"{path}/", found)
            else:
                found[path] = item

    def differences(
        self, before: str | None, after: str | None, top: bytes = b""
    ) -> Iterator[tuple[bytes, TreeItem | None, TreeItem | None]]:
        """Iterate over the paths that differ between two trees, each with what was and what is there."""
        if before == after:
            return
        old = self.folder(before) if before else {}
        new = self.folder(after) if after else {}
        for name in old.keys() | new.keys():
            was, now = old.get(name), new.get(name)
            if was == now:
                continue
            path = top + name
            was_folder, now_folder = was is not None and was.is_folder, now is not None and now.is_folder
            if was_folder or now_folder:
                yield from self.differences(
                    was.oid if was and was_folder else None, now.oid if now and now_folder else None, path + b"/"
                )
            was_leaf, now_leaf = (None if was_folder else was), (None if now_folder else now)
            if was_leaf is not None or now_leaf is not None:
                yield path, was_leaf, now_leaf


def parse_commit(data: bytes) -> GitCommit:
    """Parse the content of a commit."""
    head, _, message = data.partition(b"\n\n")
    tree, parents = "", []
    for line in head.split(b"\n"):
        key, _, value = line.partition(b" ")
        if key == b"tree":
            tree = value.decode()
        elif key == b"parent":
            parents.append(value.decode())
    last = message.decode(errors="replace").strip("\n").rpartition("\n\n")[2]
    found = [_TRAILER.match(line) for line in last.split("\n")]
    return GitCommit(tree, tuple(parents), {match[1]: match[2] for match in found if match is not None})


def parse_tree(data: bytes, size: int) -> Folder:
    """Parse the content of a tree whose ids have so many bytes."""
    folder: Folder = {}
    at = 0
    while at < len(data):
        blank = data.index(b" ", at)
        end = data.index(b"\0", blank)
        folder[data[blank + 1 : end]] = TreeItem(_mode(data[at:blank]), data[end + 1 : end + 1 + size].hex())
        at = end + 1 + size
    return folder


def _mode(text: bytes) -> str:
    """Return a mode as git shows it: old versions wrote others for files."""
    mode = text.decode().zfill(6)
    if mode.startswith("100"):
        return "100755" if int(mode, 8) & 0o100 else "100644"
    return mode


def pack_tree(folder: Folder) -> bytes:
    """Make the content of a tree."""
    ordered = sorted(folder.items(), key=lambda named: named[0] + (b"/" if named[1].is_folder else b""))
    return b"".join(
        b"%s %s\0%s" % (item.mode.lstrip("0").encode(), name, bytes.fromhex(item.oid)) for name, item in ordered
    )


def missing_object(
    name: str, why: str = "there is no object of that name and of the kind that is needed"
) -> MachineError:
    """Make the error for an object that cannot be read."""
    return MachineError(
        Code.FILE_UNWRITABLE,
        f"the repository cannot be read at {name[:80]!r}: {why}",
        hint="check the repository with `git fsck`, then try again",
    )
