"""The trees of a change: the work, its base, and each with the tests of the other. The user's repository is only read.

What has to be written (uncommitted files, mixed trees) goes into a depot of our own, which borrows the objects of the
repository.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from agenttalk.adapters.workspaces import folders, merge, paths, tree_reader, user_folder
from agenttalk.adapters.workspaces.checkouts import Checkouts
from agenttalk.adapters.workspaces.git import Git, GitLocation
from agenttalk.adapters.workspaces.objects import GitObjects
from agenttalk.adapters.workspaces.paths import WorkspaceHome
from agenttalk.adapters.workspaces.tree_reader import Listing
from agenttalk.adapters.workspaces.user_folder import UserRepository
from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.rules.changes import check_discovery
from agenttalk.rules.changes.changed_files import ChangedFile
from agenttalk.rules.changes.check_discovery import CheckCandidate, ProjectFiles
from agenttalk.rules.core import scope

_MOST_FILES: Final = 20_000
"""Files of a change, at most."""
_DEFAULT_BRANCHES: Final = ("origin/HEAD", "origin/main", "origin/master", "main", "master", "trunk")
_TRANSPORTS: Final = "https:http:ssh:git:file"
_REGULAR: Final = frozenset({tree_reader.FILE, tree_reader.PROGRAM, tree_reader.LINK})
_LFS: Final = re.compile(rb"^[^#\n]*\bfilter=lfs\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ChangeEnds:
    """Where a change begins and ends."""

    base: str
    """The commit that it is held against."""
    head: str
    """The commit with the work; uncommitted files are in one of our own on top of it."""
    base_name: str = ""
    """How the base is called, where it has a name."""
    uncommitted: tuple[str, ...] = ()
    """Uncommitted files that belong to the work."""


class ChangeTrees:
    """Reads and makes the trees of a change of one repository."""

    def __init__(self, repository: UserRepository, home: Path, link: Sequence[str] = ()) -> None:
        """`home` is a folder for this change alone; `link` names ignored paths that every checkout gets."""
        self._repository = repository
        self._home = WorkspaceHome(home)
        for path in (self._home.nothing, self._home.temporary):
            path.mkdir(parents=True, exist_ok=True)
        git = Git(self._home.nothing)
        paths.check_version(git)
        place = paths.find_workspace_folder(repository.top, home, git)
        depot = home / "depot.git"
        self._place = replace(place, objects=depot / "objects")
        self._objects = GitObjects(
            git,
            depot=depot,
            refs=place.common,
            objects=depot / "objects",
            temporary=self._home.temporary,
            algorithm=place.algorithm,
        )
        self._objects.ensure_depot(merging="!merge")
        folders.write(depot / "objects" / "info" / "alternates", f"{place.objects}\n".encode())
        self._shallow = (place.common / "shallow").exists()
        self.checkouts = Checkouts(self._objects, home, self._home.trash, repository.top, tuple(link))

    def close(self) -> None:
        """End the processes of git that stay open."""
        self._objects.close()

    # Ends

    def find_ends(self, head: str | None, base: str | None) -> ChangeEnds:
        """Find the ends of a change: of a commit by its name, or of the work tree with what is not committed.

        Raises UsageError when one of them does not exist.
        """
        commit = self._resolve(head, "--head") if head is not None else self._repository.head
        uncommitted = self._repository.uncommitted if head is None else ()
        start, name = self._find_base(commit, base, dirty=bool(uncommitted))
        if uncommitted:
            commit = user_folder.commit_work_tree(self._objects, self._place, commit, "prove")
        return ChangeEnds(start, commit, name, uncommitted)

    def fetch(self, url: str, refs: Sequence[str], token: tuple[str, str] | None = None) -> None:
        """Fetch refs of another repository into the depot. A token, with its user, goes into no argument."""
        settings = ["'protocol.allow'='always'"]
        if token is not None:
            told = base64.b64encode(":".join(token).encode()).decode()
            settings.append(f"'http.extraHeader'='Authorization: Basic {told}'")
        more = {"GIT_ALLOW_PROTOCOL": _TRANSPORTS, "GIT_CONFIG_COUNT": "0"}
        more |= {"GIT_CONFIG_PARAMETERS": " ".join(settings)}
        more |= {name: os.environ[name] for name in ("HOME", "SSH_AUTH_SOCK") if name in os.environ}
        wanted = [f"+{ref}:refs/agenttalk/fetched/{number}" for number, ref in enumerate(refs)]
        self._objects.call("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", url, *wanted, more=more)

    def _find_base(self, head: str, base: str | None, *, dirty: bool) -> tuple[str, str]:
        """Find the commit that a change is held against, and its name."""
        if base is not None:
            return self._fork(self._resolve(base, "--base"), head, base), base
        own = self._repository.branch if head == self._repository.head else ""
        named = next((each for each in _DEFAULT_BRANCHES if self._read(each) is not None), "")
        default = self._full_name(named).rpartition("/")[2] if named else ""
        if own and (own == default or not named):
            upstream = self._full_name("@{upstream}").removeprefix("refs/remotes/").removeprefix("refs/heads/")
            tip = self._read(upstream) if upstream else None
            if dirty or tip is None:
                return head, "HEAD"
            return self._fork(tip, head, upstream), upstream
        tip = self._read(named) if named else None
        if tip is None:
            message = "there is no default branch to hold the work against"
            raise UsageError(Code.NAME_UNKNOWN, message, hint="name the commit that it started from: --base REF")
        return self._fork(tip, head, named), named

    def _fork(self, base: str, head: str, name: str) -> str:
        """Return the newest commit that two commits have in common."""
        try:
            answer = self._objects.call("merge-base", base, head, ok=(0, 1))
        except MachineError as error:
            raise self._unreachable(name) from error
        if answer.code or not answer.line:
            raise self._unreachable(name)
        return answer.line.split()[0]

    def _unreachable(self, name: str) -> UsageError:
        if self._shallow:
            message = f"this clone is shallow, and does not have what the work and {name!r} have in common"
            return UsageError(Code.NAME_UNKNOWN, message, hint="fetch the rest: git fetch --unshallow")
        message = f"the work and {name!r} have no commit in common"
        return UsageError(Code.NAME_UNKNOWN, message, hint="name what the work began from: --base REF")

    def _resolve(self, name: str, option: str) -> str:
        commit = self._read(name)
        if commit is None:
            hint = "check its spelling: git rev-parse --verify NAME"
            if self._shallow:
                hint = "this clone is shallow; fetch the rest: git fetch --unshallow"
            message = f"{option}: this repository has no commit {scope.display_path(name)[:140]!r}"
            raise UsageError(Code.NAME_UNKNOWN, message, hint=hint)
        return commit

    def _read(self, name: str) -> str | None:
        """Return the commit of a name, as the user's work tree knows it, or of an object that the depot has."""
        if name.startswith("-") or not name:
            return None
        wanted = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        for at in (GitLocation(self._place.git_dir), GitLocation(self._home.folder / "depot.git")):
            answer = self._objects.git.call(*wanted, at=at, ok=(0, 1, 128))
            if answer.code == 0 and answer.line:
                return answer.line
        return None

    def _full_name(self, name: str) -> str:
        """Return the full name of a ref that a name stands for; empty if there is none."""
        wanted = ("rev-parse", "--symbolic-full-name", "--quiet", name)
        answer = self._objects.git.call(*wanted, at=GitLocation(self._place.git_dir), ok=(0, 1, 128))
        return answer.line if answer.code == 0 else ""

    # Trees

    def list_paths(self, tree: str) -> Collection[str]:
        """List the files of a tree."""
        return tuple(self._objects.listing(tree))

    def read_change(self, base: str, head: str) -> tuple[ChangedFile, ...]:
        """Read what differs between two commits, with the contents before and after."""
        changes = self._objects.changes(base, head)
        if len(changes) > _MOST_FILES:
            message = f"the change has {len(changes):,} files, more than {_MOST_FILES:,}"
            raise UsageError(Code.FIELD_VALUE, message, hint="name a nearer base: --base REF")
        return merge.read_changed_files(self._objects, changes)

    def read_tests(self, tree: str) -> tuple[bytes, ...]:
        """Read the tests of a tree or commit."""
        return merge.read_tests(self._objects, tree)

    def mix(self, tree: str, other: str, names: Sequence[str]) -> str:
        """Make a tree that has some paths as another has them. Those that the other does not have are removed."""
        theirs = self._objects.listing(other)
        return self._objects.alter_tree(tree, {path: theirs.get(path) for path in names})

    def tree_of(self, commit: str) -> str:
        """Return the tree of a commit."""
        return self._objects.tree_of(commit)

    def find_checks(self, commit: str, ignored: Collection[str]) -> tuple[CheckCandidate, ...]:
        """Find the commands that check a commit. `ignored` paths of the folder come into every checkout."""
        listing = self._objects.listing(commit)
        contents = {
            path: next(self._objects.contents([listing[path].oid]))
            for path in check_discovery.list_wanted(listing)
            if listing[path].mode in _REGULAR - {tree_reader.LINK}
        }
        return check_discovery.find_checks(ProjectFiles(tuple(listing), contents, ignored))

    def list_submodules(self, commit: str) -> tuple[str, ...]:
        """List the submodules of a commit."""
        listing = self._objects.listing(commit)
        return tuple(path for path, entry in listing.items() if entry.mode == tree_reader.SUBMODULE)

    def uses_lfs(self, commit: str) -> bool:
        """Whether a commit has files that Git LFS keeps elsewhere."""
        listing: Listing = self._objects.listing(commit)
        files = [entry for path, entry in listing.items() if path.rpartition("/")[2] == ".gitattributes"]
        return any(_LFS.search(data) for data in self._objects.contents([entry.oid for entry in files]))


def remove_home(home: Path) -> None:
    """Remove the folder of a change with everything in it."""
    trash = home.with_name(f"{home.name}.trash")
    folders.remove(home, trash)
    trash.rmdir()
