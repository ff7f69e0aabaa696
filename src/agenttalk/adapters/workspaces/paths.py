"""The settings of a workspace, where its folders are, and the .git folder of a clone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agenttalk.adapters.workspaces import folders, names
from agenttalk.adapters.workspaces.git import KEPT, RAW, Git, GitLocation, find_git_dir, make_git_dir
from agenttalk.adapters.workspaces.objects import GitObjects
from agenttalk.adapters.workspaces.tree_reader import TreeLimits
from agenttalk.contracts.core.base import is_id
from agenttalk.contracts.errors import Code, UsageError

OLDEST_GIT: Final = (2, 38)
_CLONE_CONFIG: Final = """[user]
	name = "{}"
	email = "{}"
[gc]
	auto = 0
[maintenance]
	auto = false
"""


@dataclass(frozen=True, slots=True)
class WorkspaceSettings:
    """The settings of a workspace."""

    folder: Path
    """`workspace.repo`: a repository when it has a .git of its own or is bare, else a plain folder."""
    plan: str
    home: Path
    """A folder for this plan alone, which agents cannot write."""
    base: str | None = None
    """Where the plan branch begins; by default what is checked out."""
    takes_uncommitted: bool = False
    """Whether it begins with the work tree as it is, on top of what is checked out."""
    link: tuple[str, ...] = ()
    """Paths of the folder that are linked into every checkout. Without a sandbox they stay as writable as they are."""
    limits: TreeLimits = field(default_factory=TreeLimits)
    overlay_files: int = 1_000
    """Files of a tree from which on checks share them by overlays; writing a smaller one again is cheaper."""
    program: str = "git"
    seconds: float = 600.0
    """Seconds that one call of git may take."""

    def check(self) -> None:
        """Raise UsageError when the plan's name or a link cannot be used."""
        if not is_id(self.plan) or self.plan.endswith((".lock", ".")):
            message = f"{self.plan[:140]!r} cannot be the name of a branch"
            raise UsageError(Code.ID_INVALID, message, hint="rename the plan")
        for path in self.link:
            _check_link(self.folder, path)


def _check_link(folder: Path, path: str) -> None:
    """Raise UsageError unless a link leads to something of the folder, and not into its repository."""
    parts = path.split("/")
    inside = not path.startswith("/") and not {"", ".", ".."} & set(parts) and not names.is_git_name(parts[0])
    where = folder / path
    if not inside or not where.exists() or not where.resolve().is_relative_to(folder.resolve()):
        message = f"{path!r} is not a path of {str(folder)!r} that can be linked"
        raise UsageError(Code.PATH_OUTSIDE_FOLDER, message, hint="check workspace.link")


@dataclass(frozen=True, slots=True)
class WorkspaceHome:
    """The engine's own folder of one plan, with the folders in it."""

    folder: Path

    @property
    def nothing(self) -> Path:
        """An empty folder, in which git finds no configuration."""
        return self.folder / "nothing"

    @property
    def temporary(self) -> Path:
        """Folders that are not complete yet."""
        return self.folder / "temporary"

    @property
    def trash(self) -> Path:
        """Folders that are being deleted."""
        return self.folder / "trash"

    @property
    def template(self) -> Path:
        """An empty .git folder, which each clone begins with."""
        return self.folder / "clone.git"

    @property
    def attempts(self) -> Path:
        """The clones, one per task."""
        return self.folder / "attempts"


@dataclass(frozen=True, slots=True)
class WorkspaceFolder:
    """The folder of a workspace."""

    folder: Path
    git_dir: Path
    """Its own GIT_DIR; that of a linked work tree is not the one of its repository."""
    common: Path
    """The GIT_DIR that holds refs."""
    objects: Path
    algorithm: str
    """The name of the hash of its objects."""
    plain: bool = False
    """Whether it is a folder without git; then the other paths are ours."""

    def holders(self, objects: GitObjects, ref: str) -> Iterator[Path]:
        """Find the work trees that have a branch checked out."""
        if self.plain or not self._may_be_checked_out(ref):
            return
        for entry in objects.git.call("worktree", "list", "--porcelain", "-z", at=GitLocation(self.common)).out.split(
            b"\0\0"
        ):
            lines = entry.decode(errors="surrogateescape").split("\0")
            path = Path(lines[0].removeprefix("worktree "))
            if f"branch {ref}" in lines and path.is_dir():
                yield path

    def _may_be_checked_out(self, ref: str) -> bool:
        """Return whether a HEAD names a branch, as far as their files say. Those of git's reftable say nothing."""
        if (self.common / "reftable").exists():
            return True
        heads = (self.common / "HEAD", *self.common.glob("worktrees/*/HEAD"))
        return any(head.is_symlink() or head.read_text(errors="replace").strip() == f"ref: {ref}" for head in heads)


def check_version(git: Git) -> None:
    """Raise UsageError for a git that cannot merge without a work tree."""
    version = git.call("--version", at=GitLocation(git.nothing)).line
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    if numbers < [*OLDEST_GIT]:
        wanted = ".".join(map(str, OLDEST_GIT))
        raise UsageError(
            Code.NAME_UNKNOWN, f"git {wanted} or newer is needed, but this is {version!r}", hint="update git"
        )


def find_workspace_folder(folder: Path, home: Path, git: Git) -> WorkspaceFolder:
    """Find out what a folder is. A plain one gets a repository in `home`. Raises UsageError if there is none."""
    git_dir, kept = find_git_dir(folder, home), home / KEPT
    if git_dir == kept:
        if not (kept / "config").exists():
            new = folders.make_fresh_folder(home / "temporary")
            make_git_dir(new, "sha1")
            new.rename(kept)
        return WorkspaceFolder(folder, kept, kept, kept / "objects", "sha1", plain=True)
    wanted = (
        "--path-format=absolute",
        "--show-object-format",
        "--git-dir",
        "--git-common-dir",
        "--git-path",
        "objects",
    )
    answer = git.call("rev-parse", *wanted, at=GitLocation(git_dir), ok=(0, 128))
    if answer.code:
        message = f"{str(folder)!r} is not a repository that git can use: {answer.error}"
        raise UsageError(Code.NAME_UNKNOWN, message, hint="run `git status` there")
    algorithm, *found = answer.out.decode().splitlines()
    own, common, objects = map(Path, found)
    return WorkspaceFolder(folder, own, common, objects, algorithm)


def clone_dir(
    objects: GitObjects, home: WorkspaceHome, tree: Path, branch: str, start: str, index: Path, author: tuple[str, str]
) -> None:
    """Give a checkout a .git of its own, which borrows the repository's objects and has no remote.

    Commits that the agent itself makes there have the author, a name and an address.
    """
    own = tree / ".git"
    if not home.template.exists():
        new = folders.make_fresh_folder(home.temporary)
        make_git_dir(new, objects.algorithm, branch)
        try:
            new.rename(home.template)
        except OSError:  # another thread was quicker
            folders.remove(new, home.trash)
    shutil.copytree(home.template, own)
    with (own / "config").open("a") as config:
        config.write(_CLONE_CONFIG.format(*(field.replace("\\", "\\\\").replace('"', '\\"') for field in author)))
    for name in ("objects/info", "info"):
        (own / name).mkdir(parents=True, exist_ok=True)
    (own / "objects" / "info" / "alternates").write_text(f"{objects.store}\n")
    (own / "info" / "attributes").write_text(f"{RAW}\n")
    shallow = objects.refs.location.git_dir / "shallow"
    if shallow.exists():
        shutil.copyfile(shallow, own / "shallow")
    head = own / "refs" / "heads" / branch
    head.parent.mkdir(parents=True, exist_ok=True)
    head.write_text(f"{start}\n")
    tags = sorted(objects.refs.read("refs/tags").items())
    (own / "packed-refs").write_text("".join(f"{oid} {name}\n" for name, oid in tags))
    shutil.copy2(index, own / "index")
