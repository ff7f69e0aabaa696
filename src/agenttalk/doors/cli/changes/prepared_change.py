"""What is decided about a change before its agent starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agenttalk.rules.changes.change_plan import ChangeLimits

if TYPE_CHECKING:
    from agenttalk.adapters.workspaces.user_folder import UserRepository
    from agenttalk.contracts.agent import Tier
    from agenttalk.contracts.promise import Watch
    from agenttalk.doors.cli.changes.pull_request_target import PullRequestTarget
    from agenttalk.rules.agents.agent_commands import AgentCommand
    from agenttalk.rules.changes.check_discovery import CheckCandidate
    from agenttalk.rules.planfile.compiler import CompiledPlan

Take = Literal["first", "cheapest", "smallest-diff"]
"""Which proven result of a race is taken."""


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """The options of `until` and `do`."""

    limits: ChangeLimits = field(default_factory=ChangeLimits)
    merge: bool = False
    protect: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()
    allow_tests: bool = False
    suspicion: Watch | None = None
    already_green: bool = False
    env: tuple[str, ...] = ()
    links: tuple[str, ...] | None = None
    """Paths to link; None for those that are found."""
    prepare: str = ""
    sandbox: Tier | None = None
    pull_request: bool = False
    """Whether the proven work becomes a pull request."""
    root: Path | None = None
    """The root whose settings name the forge."""
    race: tuple[str, ...] = ()
    """Coding agents that work on it at the same time; without any, one agent does."""
    take: Take = "first"
    """Which of the proven results is taken."""


@dataclass(frozen=True, slots=True)
class ChangeCheck:
    """What proves a change."""

    text: str
    """The command as a person named it, or as it was found."""
    candidate: CheckCandidate | None = None
    """The command with the files that it consists of; None where a person is asked."""
    why: str = ""
    """From what it follows, if it was found."""
    others: int = 0
    """How many other commands were found."""


@dataclass(frozen=True, slots=True)
class PreparedChange:
    """What was decided before the agent starts."""

    repository: UserRepository
    agent: AgentCommand
    check: ChangeCheck
    options: ChangeOptions
    links: tuple[str, ...]
    root: Path
    compiled: CompiledPlan
    target: PullRequestTarget | None = None
    """Where the pull request will be opened."""

    @property
    def plan_id(self) -> str:
        """The id of the plan."""
        return self.compiled.dag.plan_id

    @property
    def branch(self) -> str:
        """The branch with the result."""
        return f"agenttalk/{self.plan_id}"
