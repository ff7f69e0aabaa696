"""Results about the trees of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from agenttalk.adapters.workspaces.objects import TreeChange
from agenttalk.adapters.workspaces.tree_reader import Reason
from agenttalk.contracts.core.base import is_id
from agenttalk.contracts.errors import Code, InputError
from agenttalk.ports.agents import MountNamespace, UserPlace


class Author(NamedTuple):
    """The agent that a commit names as its author."""

    name: str
    email: str


UNKNOWN_AGENT = Author("AgentTalk agent", "agent@agenttalk.invalid")


@dataclass(frozen=True, slots=True)
class WorkspaceAttempt:
    """One try at a command of the plan."""

    task: str
    command: str
    number: int = 1
    title: str = field(default="", compare=False)
    """The title of the task, for the first line of its commits."""
    author: Author = field(default=UNKNOWN_AGENT, compare=False)

    def __post_init__(self) -> None:
        """Check the names, which become parts of refs, folders and commit messages."""
        if not (is_id(self.task) and is_id(self.command)) or self.number < 1:
            raise InputError(Code.ID_INVALID, f"{self.command[:140]!r} is not a valid name of an attempt")

    @property
    def key(self) -> str:
        """Its name within the plan."""
        return f"{self.command}-{self.number}"


@dataclass(frozen=True, slots=True)
class Clone:
    """The clone that an attempt works in."""

    attempt: WorkspaceAttempt
    path: Path
    onto: str
    """The tip of the plan branch when it started: the baseline of what it may not change."""
    start: str
    """The commit that is checked out: the tip, or the tip with the previous attempt merged in."""
    patch: str = ""
    """The previous attempt as a patch, when it could not be merged in."""
    readonly: tuple[Path, ...] = ()
    """What it needs from outside: the repository's objects, and linked paths.

    A sandbox shows the clone itself, nothing beside it, and these read-only at their own paths.
    """


@dataclass(frozen=True, slots=True)
class SealedCheckout:
    """A folder with exactly a tree."""

    path: Path
    readonly: tuple[Path, ...] = ()
    """What is linked from it."""
    made: tuple[Path, ...] = ()
    """What was prepared in it, and must not change."""
    namespace: MountNamespace | None = None
    """Where programs see it, at the path that this one resolves to; by default where we do."""
    place: UserPlace | None = None
    """Where a sandbox that can mount shows it; by default where it is."""


@dataclass(frozen=True, slots=True)
class AttemptCommit:
    """What an attempt left, kept as one commit."""

    attempt: WorkspaceAttempt
    commit: str
    tree: str
    onto: str
    changes: tuple[TreeChange, ...]
    """Everything that differs from the tip that it started from."""
    left_out: tuple[str, ...] = ()
    """Paths that are ignored but that the attempt added to its own index: they were not taken."""
    veiled: frozenset[str] = frozenset()
    """Changed paths that the attempt hid from its own git."""


@dataclass(frozen=True, slots=True)
class TreeRefusal:
    """A tree that is refused, with every reason."""

    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class PackedCommits:
    """What leads from one tip of a plan's branch to the next, for a repository that does not have it."""

    after: str
    attempt: str = ""
    """The attempt whose work it is, as its ref is called; empty if no task made it."""
    made: str = ""
    """The commit that keeps what that attempt left."""
    pack: bytes = b""
    """A pack of git, which builds on the tip before."""


@dataclass(frozen=True, slots=True)
class MergeCandidate:
    """Exactly what the plan branch would become."""

    attempt: WorkspaceAttempt
    commit: str
    tree: str
    onto: str
    """The tip that it was made for. It is the candidate itself when nothing would change."""
    restored: tuple[TreeChange, ...] = ()
    """Protected paths that the attempt changed, added or deleted, and that were restored."""


@dataclass(frozen=True, slots=True)
class CandidateConflict:
    """An attempt that does not merge: another task changed the same lines (in a plain folder, the same file)."""

    onto: str
    paths: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class CoveredFiles:
    """The files that evidence is about."""

    digest: str
    """One hash of all of them."""
    files: dict[str, str] = field(default_factory=dict)
    """Path → mode and hash of its content."""
