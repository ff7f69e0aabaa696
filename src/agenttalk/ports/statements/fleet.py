"""Workers, their invitations and their pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from agenttalk.ports.statements.statement import NoRow, Statement

if TYPE_CHECKING:
    from agenttalk.contracts.worker import WorkerRole, WorkerState


class InvitationRow(NamedTuple):
    """What a worker with this invitation belongs to."""

    pool: str
    labels: str
    role: WorkerRole


class WorkerRow(NamedTuple):
    """A worker."""

    id: str
    name: str
    pool: str
    labels: str
    """JSON."""
    public_key: str
    facts: bytes
    state: WorkerState
    failures: int
    """Failures of its own, in a row."""
    reason: str
    """Why it is in this state."""
    at: str
    role: WorkerRole
    tried_at: str
    """When a verifier last answered rightly what the engine knew."""


class WorkerIdRow(NamedTuple):
    """A worker that was changed."""

    id: str


class PoolRow(NamedTuple):
    """A pool."""

    pool: str


class PoolRoleRow(NamedTuple):
    """What the workers of a pool do."""

    role: WorkerRole


class MachineRow(NamedTuple):
    """A machine since a start."""

    machine: str
    start: str


class VerificationRow(NamedTuple):
    """A check that a verifier made."""

    board: str
    plan_id: str
    task_id: str
    check_id: str
    key: str
    """The key of its kept result; empty if none is kept."""
    at: str


ADD_INVITATION: Final = Statement("add_invitation", NoRow)
INVITATION: Final = Statement("invitation", InvitationRow)
TAKE_INVITATION: Final = Statement("take_invitation", InvitationRow)
DROP_INVITATIONS: Final = Statement("drop_invitations", NoRow)
ADD_WORKER: Final = Statement("add_worker", NoRow)
WORKER: Final = Statement("worker", WorkerRow)
WORKERS: Final = Statement("workers", WorkerRow)
SET_WORKER_FACTS: Final = Statement("set_worker_facts", NoRow)
SET_WORKER_STATE: Final = Statement("set_worker_state", WorkerIdRow)
PAUSED_POOLS: Final = Statement("paused_pools", PoolRow)
PAUSE_POOL: Final = Statement("pause_pool", NoRow)
ADD_POOL: Final = Statement("add_pool", NoRow)
POOL_ROLE: Final = Statement("pool_role", PoolRoleRow)
ADD_MACHINE_AGENT: Final = Statement("add_machine_agent", NoRow)
MACHINES_OF_AGENT: Final = Statement("machines_of_agent", MachineRow)
MACHINES_OF_AGENTS: Final = Statement("machines_of_agents", MachineRow)
SET_VERIFIER_TRIED: Final = Statement("set_verifier_tried", NoRow)
ADD_VERIFICATION: Final = Statement("add_verification", NoRow)
VERIFICATIONS_OF: Final = Statement("verifications_of", VerificationRow)
DROP_VERIFICATIONS: Final = Statement("drop_verifications", NoRow)
