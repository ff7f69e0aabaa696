"""Names the trace that a plan belongs to, and hands its context to agents."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from agenttalk.contracts.core import wire
from agenttalk.engine.core.deps import Deps
from agenttalk.ports.agents import Job
from agenttalk.ports.statements.core import LATEST_FACT, FactBodyRow
from agenttalk.ports.statements.operation import ADD_CURSOR
from agenttalk.ports.statements.plans import CURSOR_VALUE
from agenttalk.ports.storage import Store, Tx
from agenttalk.rules.operation.spans import SpanContext, TraceIds, read_traceparent

ORIGIN: Final = "traces.origin"
"""The cursor that holds a number by which the ids of a board differ from those of all others."""
_LONGEST: Final = 200
"""The most characters of a `make_traceparent` that are kept; it has 55 today."""
TRACED: Final = "plan.traced"
"""The fact that a plan belongs to a foreign trace."""


class Trace(NamedTuple):
    """The numbers that the trace ids of a plan are made of."""

    naming: TraceIds
    board: str
    parent: SpanContext | None = None
    """The trace of the plan's submitter, if they passed one."""

    def trace_id_of(self, plan_id: str, task_id: str) -> str:
        """Return the id of the trace that a task belongs to."""
        return self.parent.trace_id if self.parent else self.naming.make_trace_id(self.board, plan_id, task_id)


def trace_of(tx: Tx, plan_id: str) -> Trace:
    """Read the trace of a plan."""
    return Trace(ensure_naming(tx), tx.board, read_parent_context(tx.run(LATEST_FACT, subject=plan_id, kind=TRACED)))


def ensure_naming(tx: Tx) -> TraceIds:
    """Return the number that the ids of a board's traces are made of. It is drawn once."""
    rows = tx.run(CURSOR_VALUE, name=ORIGIN)
    if not rows:
        tx.run(ADD_CURSOR, name=ORIGIN, value=secrets.randbits(62))
        rows = tx.run(CURSOR_VALUE, name=ORIGIN)
    return TraceIds(str(rows[0].value))


def read_parent_context(rows: list[FactBodyRow]) -> SpanContext | None:
    """Read a foreign trace from the fact that names it."""
    said: Any = wire.read(bytes(rows[0].body), limit=wire.DOCUMENT_LIMIT) if rows else None
    return read_traceparent(said["traceparent"]) if said is not None else None


def make_parent_recorder(plan_id: str, told: str) -> Callable[[Tx], None]:
    """Make the fact of a plan that was submitted with a traceparent; nothing for an invalid one."""

    def note(tx: Tx) -> None:
        if read_traceparent(told) is not None:
            tx.record(TRACED, plan_id, {"traceparent": told[:_LONGEST]})

    return note


async def read_naming(board: Store) -> TraceIds:
    """Return the number that the ids of a board's traces are made of. It is drawn once."""
    rows = await board.read(CURSOR_VALUE, name=ORIGIN)
    return TraceIds(str(rows[0].value)) if rows else await board.transact(ensure_naming)


async def make_traceparent(deps: Deps, job: Job) -> str:
    """Return the agent's place in a trace; empty where nothing is traced."""
    if not deps.traced:
        return ""
    board = await deps.stores.board(job.board)
    named = await read_naming(board)
    rows = await board.read(LATEST_FACT, subject=job.plan_id, kind=TRACED)
    place = (job.board, job.plan_id, job.task_id, job.command.command_id, job.attempt)
    return named.make_traceparent(*place, read_parent_context(rows))
