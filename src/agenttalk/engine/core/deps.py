"""The dependencies of every use case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from agenttalk.contracts.core.base import format_instant
from agenttalk.engine.core.secrets import SecretGuard
from agenttalk.engine.core.submitted_plans import SubmittedPlans
from agenttalk.rules.core.isolation import OperatorIsolation
from agenttalk.rules.core.usage import PriceLookup, unpriced
from agenttalk.rules.fleet.liveness import WorkerContact
from agenttalk.rules.fleet.verify_policy import HERE, VerifyPolicy

if TYPE_CHECKING:
    from agenttalk.contracts.errors import Problem
    from agenttalk.ports.folders import Folder
    from agenttalk.ports.kinds import TaskKind
    from agenttalk.ports.storage import Clock, Ids, Stores


SignatureCheck: TypeAlias = "Callable[[str, bytes, bytes], bool]"
"""Gets a public key, data and a signature."""


def refuse_signature(public_key: str, data: bytes, signature: bytes) -> bool:  # noqa: ARG001 - as it is called
    """Refuse a signature, where signatures cannot be checked."""
    return False


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """Limits of one pass."""

    payload_bytes: int = 256 * 1024 * 1024
    """Largest payload file."""
    messages_per_pass: int = 2_000
    """Messages that the router takes of one plan in one pass."""
    new_messages_per_tick: int = 50
    """New messages that a heartbeat takes of one plan in one tick."""
    resumed_messages_per_tick: int = 10
    """Waiting messages that a heartbeat checks of one plan in one tick."""
    poll_seconds: float = 10.0
    """Seconds after which a heartbeat checks its folders by itself: half of it when busy, thrice when idle."""
    remote_silence_seconds: float = 120.0
    """Seconds without a sign of life after which a remote agent is lost."""
    worker_ttl_seconds: float = 30.0
    """Seconds after which a worker that reaches no engine ends its attempts. They are lost after half as long again."""
    worker_wait_seconds: float = 600.0
    """Seconds after which a task that no worker takes raises an alert; 0 for never."""
    worker_snapshot_seconds: float = 180.0
    """Seconds between two snapshots of the tree of an attempt on a worker; 0 for none."""
    replays: int = 3
    """How often a dead letter may be replayed."""


@dataclass(frozen=True, slots=True)
class SandboxPaths:
    """The paths that every sandbox of a root hides and shows: those of agents, checks and preparations use one list."""

    hidden: tuple[Path, ...] = ()
    """The operator's files, and those in the root: state, settings, work of all agents. A confined
    process names which of these are its own."""
    readable: tuple[Path, ...] = ()
    """Places that programs need, such as that of the interpreter."""
    home: Path | None = None
    """The home folder of the engine's user, where coding agents keep logins."""


@dataclass(frozen=True, slots=True)
class Deps:
    """The store, the clock and the settings that use cases work with."""

    root: Folder
    stores: Stores
    clock: Clock
    ids: Ids
    limits: EngineLimits = field(default_factory=EngineLimits)
    shared: bool = False
    """Whether other servers, with roots of their own, work on the same store."""
    unrouted: bool = False
    """Whether messages of foreign plans are handled although no router is known to have delivered them."""
    sandbox_paths: SandboxPaths = field(default_factory=SandboxPaths)
    """The paths that processes in a sandbox see."""
    operator: OperatorIsolation = field(default_factory=OperatorIsolation)
    """The operator's settings for isolation."""
    secret_guard: SecretGuard = field(default_factory=SecretGuard)
    """Secrets that must not be written."""
    traced: bool = False
    """Whether spans are sent to a tracing system, so that agents get their place in a trace."""
    kinds: Mapping[str, TaskKind] = field(default_factory=dict)
    """Board → the kind of its tasks, for boards that have one."""
    broken: dict[str, Problem] = field(default_factory=dict)
    """Boards of their own that cannot be read, and why; the others go on without them."""
    submitted: SubmittedPlans = field(default_factory=SubmittedPlans)
    """Plans that this process submitted lately."""
    exposed: set[str] = field(default_factory=set)
    """Agents whose programs ran here without a sandbox around the operator's files."""
    held_leases: set[str] = field(default_factory=set)
    """Leases of foreign plans whose turns run in this process. A lease of this process that is not here is orphaned."""
    answers_by_file: bool = False
    """Whether an answer in the gateway's outbox counts as a person's."""
    worker_contacts: dict[str, WorkerContact] = field(default_factory=dict)
    """What this process last heard of workers, by their ids."""
    self_check: tuple[str, ...] = ()
    """The command by which a running agent checks what its promise still misses; empty if there is none."""
    asks_models: tuple[str, ...] = ()
    """The command that asks models, for agents that are models; empty if there is none."""
    price: PriceLookup = unpriced
    """The price of a request to a model, for agents that do not report it while they run."""
    mcp_server: tuple[str, ...] = ()
    """The command of our MCP server on standard input and output; empty if it cannot be started here."""

    verify: VerifyPolicy = HERE
    """Who makes the checks that run a program of the work."""
    is_signed: SignatureCheck = refuse_signature
    """Whether data was signed with the private part of a public key."""

    def now(self) -> datetime:
        """Return the time."""
        return self.clock.now()

    def stamp(self) -> str:
        """Return the time as the store keeps it."""
        return format_instant(self.clock.now())
