"""Reads and moves the refs of one repository."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from agenttalk.adapters.workspaces.git import Git, GitLocation
from agenttalk.adapters.workspaces.object_reader import GitDialogue
from agenttalk.contracts.errors import MachineError

_STALE: Final = 10 * 1_000_000_000
"""Nanoseconds after which a lock on one of our own refs is stale."""


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
            lambda: git.start("update-ref", "--no-deref", "--stdin", at=self.location), git.limit, contents=False
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
        self.set_all({ref: new})

    def set_all(self, refs: Mapping[str, str]) -> None:
        """Set several refs of our own, all or none."""
        lines = "".join(f"update {ref} {new}\n" for ref, new in refs.items())
        if not self._updates.tell(f"start\n{lines}commit\n", "start: ok", "commit: ok"):
            self._git.call("update-ref", "--no-deref", "--stdin", at=self.location, stdin=lines.encode())

    def drop(self, refs: Iterable[str]) -> None:
        """Remove refs of our own; ignore missing ones."""
        text = "".join(f"delete {ref}\n" for ref in refs)
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
