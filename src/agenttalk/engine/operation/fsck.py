"""Checking a root: the invariants that can be read off its store and folders. Changes nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import asdict
from functools import partial
from typing import Any, Final, TypedDict

from agenttalk.contracts.core import wire
from agenttalk.contracts.envelope import ArtifactEnvelope
from agenttalk.engine.core import records
from agenttalk.engine.core.boards import list_boards
from agenttalk.engine.core.deps import Deps
from agenttalk.ports.statements.core import FACTS_OF
from agenttalk.ports.statements.messages import COUNTED_DEADLETTERS, COUNTED_MESSAGES, PLAN, PLANS, PlanRow
from agenttalk.ports.statements.operation import (
    ARTIFACTS_OF,
    FSCK_ACKS,
    FSCK_BUSY_AGENTS,
    FSCK_LEASES,
    FSCK_PAYLOADS,
    FSCK_UNDELIVERED,
    KEPT_CONTENTS,
)
from agenttalk.ports.storage import Blobs, Snapshot, Store
from agenttalk.rules.messages.routes import MessageTally

_AT_ONCE: Final = 1_000


class IntegrityFault(TypedDict):
    """Something that must never be."""

    board: str
    plan_id: str
    what: str


def _make_fault(board: str, plan_id: str, what: str) -> IntegrityFault:
    return {"board": board, "plan_id": plan_id, "what": what}


async def check_root(deps: Deps) -> list[IntegrityFault]:
    """Find every fault of every board."""
    found = []
    for board in await list_boards(deps):
        blobs = await deps.stores.blobs(board.name)
        found += [fault async for fault in _board(board, blobs)]
    return found


async def _board(board: Store, blobs: Blobs) -> AsyncIterator[IntegrityFault]:
    name = board.name
    for plan in await board.read(PLANS):
        async for what in _plan(board, blobs, plan.plan_id):
            yield _make_fault(name, plan.plan_id, what)
    for plan_id, message_id, state in await board.read(FSCK_UNDELIVERED):
        yield _make_fault(name, plan_id, f"message {message_id} is {state}, but its deliveries say otherwise")
    for ack in await board.read(FSCK_ACKS):
        what = f"message {ack.message_id} is {ack.state} at {ack.receiver} with the receipt {ack.ack or 'none'}"
        yield _make_fault(name, ack.plan_id, what)
    for task in await board.read(FSCK_LEASES):
        yield _make_fault(name, task.plan_id, f"task {task.task_id} is {task.state}, which its lease contradicts")
    for agent_id, count in await board.read(FSCK_BUSY_AGENTS):
        yield _make_fault(name, "", f"agent {agent_id} runs {count} tasks at once")
    for plan_id, receiver, path, state in await board.read(FSCK_PAYLOADS):
        yield _make_fault(name, plan_id, f"inbox path {path} of {receiver} is held by a delivery that is {state}")
    for what, digest in await board.read(KEPT_CONTENTS):
        if not await blobs.exists(digest):
            yield _make_fault(name, "", f"the content {digest} of {what} is gone")


async def _plan(board: Store, blobs: Blobs, plan_id: str) -> AsyncIterator[str]:
    plan, states, buried = await board.read_together(partial(_counted, plan_id=plan_id))
    in_flight = states.get("stored", 0)
    tally = MessageTally(plan.sent, plan.delivered, plan.superseded, plan.duplicate, plan.dead, in_flight)
    if tally.lost:
        yield f"{tally.lost} of {plan.sent} messages are in no state: {asdict(tally)}"
    for word, counted, real in (
        ("delivered", plan.delivered, states.get("delivered", 0)),
        ("superseded", plan.superseded, states.get("superseded", 0)),
        ("dead", plan.dead, buried),
    ):
        if counted != real:
            yield f"{counted} messages are counted as {word}, but {real} are"
    async for what in _journal(board, plan_id, plan.duplicate):
        yield what
    async for what in _payloads(board, blobs, plan_id):
        yield what


def _counted(committed: Snapshot, plan_id: str) -> tuple[PlanRow, dict[str, int], int]:
    """Compare the counts of a plan's messages with the messages at one moment: messages may travel meanwhile."""
    [row] = committed.run(PLAN, plan_id=plan_id)
    states: dict[str, int] = dict(committed.run(COUNTED_MESSAGES, plan_id=plan_id))
    [(buried,)] = committed.run(COUNTED_DEADLETTERS, plan_id=plan_id)
    return row, states, buried


async def _journal(board: Store, plan_id: str, duplicates: int) -> AsyncIterator[str]:
    """Check that each message reached each receiver at most once, and that every duplicate was logged."""
    arrived: Counter[tuple[str, str | None]] = Counter()
    skipped, after = 0, 0
    while facts := await board.read(FACTS_OF, subject=records.journal_subject(plan_id), after=after, limit=_AT_ONCE):
        after = facts[-1].seq
        for each in (each for fact in facts for each in records.read_journal_lines(bytes(fact.body))):
            line: Any = wire.read(each)
            skipped += line["status"] == "SKIPPED_DUPLICATE"
            if line["status"] == "DELIVERED":
                arrived[line["message_id"], line.get("to_agent_id")] += 1
        await asyncio.sleep(0)
    for (message_id, receiver), count in arrived.items():
        if count > 1:
            yield f"message {message_id} was delivered to {receiver or 'no agent'} {count} times"
    if skipped != duplicates:
        yield f"{duplicates} duplicates are counted, but {skipped} were logged"


async def _payloads(board: Store, blobs: Blobs, plan_id: str) -> AsyncIterator[str]:
    after = 0
    while rows := await board.read(ARTIFACTS_OF, plan_id=plan_id, after=after, limit=_AT_ONCE):
        after = rows[-1].id
        for _, message_id, envelope in rows:
            for file in ArtifactEnvelope.from_bytes(bytes(envelope)).payload.files:
                if not await blobs.exists(file.sha256):
                    yield f"the content of {file.path} of message {message_id} is gone"
