"""Workers, their invitations and their pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from agenttalk.ports.statements.statement import NoRow, Statement

if TYPE_CHECKING:
    from agenttalk.contracts.worker import WorkerState


class InvitationRow(NamedTuple):
    """What a worker with this invitation belongs to."""

    pool: str
    labels: str


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


class WorkerIdRow(NamedTuple):
    """A worker that was changed."""

    id: str


class PoolRow(NamedTuple):
    """A pool."""

    pool: str


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
