"""The settings of a workspace."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from agenttalk.adapters.workspaces import names
from agenttalk.adapters.workspaces.tree_reader import TreeLimits
from agenttalk.contracts.core.base import is_id
from agenttalk.contracts.errors import Code, UsageError


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
