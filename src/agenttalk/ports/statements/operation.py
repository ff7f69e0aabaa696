"""Schedules, sessions, fsck, garbage collection, restores and traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from agenttalk.ports.statements.keys import IdRow, NameRow
from agenttalk.ports.statements.statement import NoRow, Statement

if TYPE_CHECKING:
    from agenttalk.rules.core.task_states import State


class SessionRow(NamedTuple):
    """Who is logged in, and until when."""

    role: Literal["operator", "viewer"]
    name: str
    expires_at: str


class EndedSessionRow(NamedTuple):
    """Who was logged in."""

    role: str
    name: str


class MessageFaultRow(NamedTuple):
    """A message whose state does not fit its deliveries."""

    plan_id: str
    message_id: str
    state: str


class AckFaultRow(NamedTuple):
    """A delivery whose receipt does not fit its state."""

    plan_id: str
    message_id: str
    receiver: str
    state: str
    ack: str


class LeaseFaultRow(NamedTuple):
    """A task whose lease does not fit its state."""

    plan_id: str
    task_id: str
    state: State
    owner: str


class BusyAgentRow(NamedTuple):
    """An agent that runs more than one task."""

    receiver: str
    tasks: int


class PayloadFaultRow(NamedTuple):
    """A payload that belongs to no open delivery."""

    plan_id: str
    receiver: str
    path: str
    delivery_state: str


class ArtifactEnvelopeRow(NamedTuple):
    """An artifact with its envelope."""

    id: int
    message_id: str
    envelope: bytes


class KeptContentRow(NamedTuple):
    """A content that is kept, and for what."""

    keeper: str
    content: str


class EndedRunRow(NamedTuple):
    """A plan, and when it ended."""

    plan_id: str
    state: str
    ended_at: str | None


class EndedTaskRow(NamedTuple):
    """A task that has ended."""

    plan_id: str
    task_id: str
    updated_at: str


class TaskOfPlanRow(NamedTuple):
    """A task of a plan."""

    plan_id: str
    task_id: str


class ScheduleRow(NamedTuple):
    """A schedule."""

    name: str
    definition: bytes | None
    paused: int
    since: str
    plan_id: str
    state: str
    why: str
    why_message: str | None


class TracedRow(NamedTuple):
    """A trace that is under way."""

    name: str
    body: bytes


ADD_SESSION: Final = Statement("add_session", NoRow)
SESSION_OF: Final = Statement("session_of", SessionRow)
END_SESSION: Final = Statement("end_session", EndedSessionRow)
DROP_SESSIONS: Final = Statement("drop_sessions", NoRow)
FSCK_UNDELIVERED: Final = Statement("fsck_undelivered", MessageFaultRow)
FSCK_ACKS: Final = Statement("fsck_acks", AckFaultRow)
FSCK_LEASES: Final = Statement("fsck_leases", LeaseFaultRow)
FSCK_BUSY_AGENTS: Final = Statement("fsck_busy_agents", BusyAgentRow)
FSCK_PAYLOADS: Final = Statement("fsck_payloads", PayloadFaultRow)
ARTIFACTS_OF: Final = Statement("artifacts_of", ArtifactEnvelopeRow)
KEPT_CONTENTS: Final = Statement("kept_contents", KeptContentRow)
GC_RUNS: Final = Statement("gc_runs", EndedRunRow)
GC_TASKS: Final = Statement("gc_tasks", EndedTaskRow)
DISOWN_LEASES: Final = Statement("disown_leases", TaskOfPlanRow)
DOUBT_OUTGOING: Final = Statement("doubt_outgoing", IdRow)
DROP_NOTICES: Final = Statement("drop_notices", IdRow)
SCHEDULES: Final = Statement("schedules", ScheduleRow)
ADD_SCHEDULE: Final = Statement("add_schedule", NameRow)
REMOVE_SCHEDULE: Final = Statement("remove_schedule", NameRow)
PAUSE_SCHEDULE: Final = Statement("pause_schedule", NameRow)
RESUME_SCHEDULE: Final = Statement("resume_schedule", NameRow)
CLAIM_SCHEDULE: Final = Statement("claim_schedule", NameRow)
PASS_SCHEDULE: Final = Statement("pass_schedule", NameRow)
BEGIN_SCHEDULE: Final = Statement("begin_schedule", NameRow)
END_SCHEDULE: Final = Statement("end_schedule", NameRow)
PAUSE_SCHEDULES: Final = Statement("pause_schedules", NameRow)
TRACED: Final = Statement("traced", TracedRow)
PUT_TRACED: Final = Statement("put_traced", NoRow)
DROP_TRACED: Final = Statement("drop_traced", NoRow)
ADD_CURSOR: Final = Statement("add_cursor", NoRow)
