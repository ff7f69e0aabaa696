"""Judges the origin of the messages in an agent's inboxes: our router, another party's, or unknown.

What our router brought is in the store. What another party's router brought has a line in the plan's journal, which no
agent writes. All other messages in an inbox wait there, unless the operator lets them run.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Literal

from agenttalk.contracts.core import root_layout
from agenttalk.contracts.envelope import CommandEnvelope
from agenttalk.contracts.errors import AgentTalkError, Code
from agenttalk.engine.core import records
from agenttalk.engine.core.agent_in_plan import AgentInPlan
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.messages import plan_registry
from agenttalk.engine.messages.plan_journal import JournalSearch, MessageIdentity
from agenttalk.engine.messages.plan_registry import PlanFiles
from agenttalk.ports.statements.messages import ADD_PLAN, PLAN
from agenttalk.ports.storage import Tx
from agenttalk.rules.messages import routes
from agenttalk.rules.messages.routes import OutboxMessage, PlanFacts, Rejection


@dataclass(frozen=True, slots=True)
class PlanFileFacts:
    """Facts from the files of a plan. Without a DAG, messages cannot be checked against it."""

    facts: PlanFacts | None = None
    contradiction: str | None = None
    """Why no message of it is taken."""


class OriginJudge:
    """Judges the messages of one agent that the store does not know."""

    def __init__(self, deps: Deps, agent_id: str) -> None:
        self._deps = deps
        self._agent_id = agent_id
        self._receipts = JournalSearch(deps.root, agent_id)
        self._grounds: dict[str, tuple[PlanFiles | None, PlanFileFacts]] = {}
        self._waiting: dict[str, dict[str, MessageIdentity]] = {}

    async def read_plan_files(self, plan_id: str) -> PlanFileFacts:
        """Read the plan's files, again only when they changed."""
        return await asyncio.to_thread(self._read_changed_files, plan_id)

    def _read_changed_files(self, plan_id: str) -> PlanFileFacts:
        if plan_id.startswith("_"):
            return PlanFileFacts()
        files = plan_registry.files_of(self._deps.root, plan_id)
        known = self._grounds.get(plan_id)
        if known is None or known[0] != files:
            known = self._grounds[plan_id] = (files, self._read(plan_id, files))
        return known[1]

    def _read(self, plan_id: str, files: PlanFiles | None) -> PlanFileFacts:
        if files is None or not files.has(root_layout.DAG):
            return PlanFileFacts()
        try:
            return PlanFileFacts(plan_registry.read_plan_facts(self._deps.root, plan_id))
        except AgentTalkError as error:
            return PlanFileFacts(contradiction=error.message)

    async def waiting_names(self, plan_id: str) -> set[str]:
        """Return the names of messages that wait because no router is known to have brought them."""
        names = self._waiting.get(plan_id, {})
        for name, brought in list(names.items()):
            gone = not await asyncio.to_thread(self._deps.root.exists, self._path(plan_id, name))
            if gone or await asyncio.to_thread(self._receipts.has_delivery, plan_id, brought):
                del names[name]
                self._receipts.forget(plan_id, brought)
        return set(names)

    def _path(self, plan_id: str, name: str) -> str:
        return f"{root_layout.box_folder(self._agent_id, 'inbox', plan_id)}/{name}"

    async def judge(self, seat: AgentInPlan, parcel: OutboxMessage, name: str) -> Literal["take", "wait"] | Rejection:
        """Judge a message that the store does not know. `name` is that of its file in the inbox."""
        rows = await seat.store.read(PLAN, plan_id=seat.plan_id)
        if rows and rows[0].origin == "engine":
            return _forgery_rejection(parcel)
        ground = await self.read_plan_files(seat.plan_id)
        if ground.contradiction is not None:
            return "wait"
        brought = MessageIdentity(parcel.envelope.message_id, parcel.sha256)
        if self._deps.unrouted or await asyncio.to_thread(self._receipts.has_delivery, seat.plan_id, brought):
            refused = routes.reject_arrival(parcel, ground.facts, self._agent_id) if ground.facts else None
            unknown = routes.reject_unrouted(parcel, ground.facts) if ground.facts and self._deps.unrouted else None
            return refused or unknown or "take"
        refused = routes.reject_unrouted(parcel, ground.facts) if ground.facts else None
        if refused:
            return refused
        self._waiting.setdefault(seat.plan_id, {})[name] = brought
        await seat.store.transact(partial(_tell, seat=seat, parcel=parcel, name=name))
        return "wait"


def _forgery_rejection(parcel: OutboxMessage) -> Rejection:
    """Reject a message in a plan of the engine: all of those come through our router, and this one did not."""
    is_command = isinstance(parcel.envelope, CommandEnvelope)
    code = Code.COMMAND_NOT_AUTHORISED if is_command else Code.PRODUCER_MISMATCH
    return Rejection(code, "it was not sent to this agent: it did not come through the router")


def _tell(tx: Tx, seat: AgentInPlan, parcel: OutboxMessage, name: str) -> None:
    tx.run(ADD_PLAN, plan_id=seat.plan_id, origin="foreign")
    records.alert(
        tx,
        at=seat.deps.stamp(),
        plan_id=seat.plan_id,
        code=Code.MESSAGE_UNROUTED,
        message=f"{name} lies in the inbox of {seat.agent_id}, but no line of {root_layout.JOURNAL} says that a router "
        'brought it; it waits until one does, or until the operator sets unrouted = "run" in [folders]',
        key=f"{seat.agent_id}/{parcel.sha256}",
        severity="WARNING",
        source=records.RecordSource(seat.agent_id, parcel.envelope.task_id),
        details={"message_id": parcel.envelope.message_id, "producer_agent_id": parcel.envelope.producer_agent_id},
    )
