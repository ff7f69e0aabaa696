"""Makes the .git of a check: what git answers in the user's repository, as if the work had been committed there.

It has the history that the work began from, and on top of it one commit with the tree that is checked, by the author of
the commit before it and at the same time. So a tree has the same .git in every check. Refs of plans are not in it.
"""

from __future__ import annotations

import re
import shutil
import threading
import zlib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from agenttalk.adapters.workspaces import folders, objects
from agenttalk.adapters.workspaces.git import EMAIL, GitLocation, make_git_dir
from agenttalk.adapters.workspaces.objects import GitObjects
from agenttalk.adapters.workspaces.paths import WorkspaceFolder
from agenttalk.contracts.errors import MachineError
from agenttalk.ports.agents import RepositoryCopy

_SHARED: Final = "shared"
"""Where the repository's objects are seen, in the folder."""
_MESSAGE: Final = b"Update"
_OURS: Final = "agenttalk/"
_SETTINGS: Final = r"^(user\.(name|email)|remote\..*\.(url|fetch)|branch\..*\.(remote|merge))$"
_CREDENTIALS: Final = re.compile(r"^(https?://)[^/@]*@")
_COPIES: Final = 8
"""Copies that are remembered."""


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


class RepositoryCopies:
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
        self._made: dict[str, RepositoryCopy] = {}

    def find(self, tree: str) -> RepositoryCopy | None:
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

    def _make(self, tree: str) -> RepositoryCopy:
        top = folders.make_fresh_folder(self._temporary)
        try:
            self._write(top / "copy", tree)
            found = sorted((top / "copy").rglob("*"))
            names = [(path, path.relative_to(top / "copy").as_posix()) for path in found]
            return RepositoryCopy(
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
        self._objects.call("read-tree", tree, index=copy / "index")

    def _commit(self, copy: Path, tree: str, view: _RepositoryView) -> str:
        """Write the commit with the tree into the copy."""
        data = b"tree %b\nparent %b\n%b\n\n%b\n" % (tree.encode(), view.parent.encode(), view.signature, _MESSAGE)
        oid = objects.hash_object(self._objects.algorithm, "commit", data)
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
        own = GitLocation(self._folder.git_dir)
        branch = git.call("symbolic-ref", "--quiet", "--short", "HEAD", at=own, ok=(0, 1)).line
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
