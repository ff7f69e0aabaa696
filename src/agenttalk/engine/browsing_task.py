"""One task as people and programs look at it: what was asked and given, what was made, and what of it is proven."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from agenttalk.contracts import places, wire
from agenttalk.contracts.command import Command
from agenttalk.contracts.envelope import CommandEnvelope
from agenttalk.engine import browsing, foreign
from agenttalk.engine.checklists import checklist_of
from agenttalk.engine.deps import Deps
from agenttalk.engine.orders import TURNS
from agenttalk.engine.standing import usage_of
from agenttalk.engine.superseding import files_of
from agenttalk.engine.transcripts import LARGEST
from agenttalk.errors import AgentTalkError, Code, UsageError
from agenttalk.ports import Folder, Row, Store
from agenttalk.rules.checklist import Item

ORDERS: Final = 20
"""Commands of a task that are shown, the newest."""
LOG_LINES: Final = 200
_LOG_BYTES: Final = 256 * 1024
"""Bytes of a transcript that one page holds."""


async def task(deps: Deps, plan_id: str, task_id: str) -> dict[str, Any]:
    """Everything that is to be said of a task. Raises UsageError when there is none."""
    store = await browsing.found(deps, plan_id, ends=False)
    told = await foreign.explain(deps, plan_id, task_id)
    rows = await store.read("task_orders", plan_id=plan_id, task_id=task_id, limit=ORDERS)
    commands = [CommandEnvelope.model_validate_json(bytes(row[3])).payload.command for row in rows]
    own = await store.read("task_standing", plan_id=plan_id, task_id=task_id)
    return {
        **told,
        "board_name": store.name,
        "usage": usage_of(own[0]) if own else None,
        "checklist": [_line(each) for each in await checklist_of(store, told)] if told["origin"] == "engine" else [],
        "command": commands[0].as_json() if commands else None,
        "orders": [_order(row) for row in rows],
        "inputs": await _inputs(store, plan_id, commands[0]) if commands else [],
        "outputs": await _outputs(store, plan_id, task_id),
    }


def _order(row: Row) -> dict[str, Any]:
    """A command of the task; `prompt_sha256` is the hash of the very prompt that its agent got."""
    message_id, command_id, seq, _, receiver, state, ack, taken_at, ended_at, prompt_sha256 = row
    return {
        "message_id": message_id,
        "command_id": command_id,
        "command_seq": seq,
        "agent_id": receiver,
        "state": state,
        "ack": ack,
        "taken_at": taken_at,
        "ended_at": ended_at,
        "prompt_sha256": prompt_sha256,
    }


def _line(item: Item) -> dict[str, Any]:
    return {
        "id": item.id,
        "description": item.description,
        "standing": item.standing,
        "wants": list(item.wants),
        "trust": item.trust,
        "by": item.by,
        "at": item.at,
        "detail": item.detail,
    }


async def _inputs(store: Store, plan_id: str, command: Command) -> list[dict[str, Any]]:
    """The files that the newest command names, with their hashes as far as these are known."""
    found: list[dict[str, Any]] = []
    known: dict[str, list[Row]] = {}
    for each in command.resolved_inputs or ():
        for path in each.paths:
            owner, _, rest = path.partition("/")
            segment, _, inside = rest.partition("/")
            if owner not in known:
                known[owner] = await store.read("versions_from", plan_id=plan_id, task_id=owner)
            found.append(
                {"input_name": each.input_name, "path": path, **_version(known[owner], owner, segment, inside)}
            )
    return found


def _version(rows: list[Row], task_id: str, segment: str, inside: str) -> dict[str, Any]:
    envelope = next((row[5] for row in rows if places.segment(row[0]) == segment), None)
    for path, sha256, size in files_of(bytes(envelope)) if envelope is not None else ():
        if path == inside:
            return {"sha256": sha256, "size_bytes": size, "from_task_id": task_id}
    return {}


async def _outputs(store: Store, plan_id: str, task_id: str) -> list[dict[str, Any]]:
    """Every version of what a task made, the newest first."""
    rows = await store.read("versions_before", plan_id=plan_id, task_id=task_id, before=2**62)
    return [
        {"output_name": name, "seq": seq, "state": state, "path": path, "sha256": sha256, "size_bytes": size}
        for name, _, seq, state, _, envelope in rows
        for path, sha256, size in files_of(bytes(envelope))
    ]


async def log(
    deps: Deps, plan_id: str, task_id: str, *, command_id: str = "", attempt: int = 0, after: int = 0
) -> dict[str, Any]:
    """What a coding agent told while it ran, from a place in its transcript on; of the last attempt if none is named.

    `next` is the place where it goes on, also when nothing more is there yet.
    """
    store = await browsing.found(deps, plan_id, ends=False)
    rows = await store.read("task_orders", plan_id=plan_id, task_id=task_id, limit=ORDERS)
    rows = [row for row in rows if command_id in {"", row[1]}]
    tasks = await store.read("task", plan_id=plan_id, task_id=task_id)
    if not tasks:
        hint = f"'GET /api/plans/{plan_id}/tasks' lists them"
        raise UsageError(Code.TASK_NOT_FOUND, f"plan {plan_id!r} has no task {task_id[:80]!r}", hint=hint)
    if not rows:
        return {"command_id": None, "attempt": None, "events": [], "next": 0}
    agent_id = rows[0][4] or tasks[0][0]
    attempt = attempt or tasks[0][7] or 1
    own = places.task(agent_id, plan_id, task_id)
    path = f"{own}/{TURNS}/{rows[0][1]}-{attempt}.events.jsonl"
    data = await asyncio.to_thread(_piece, deps.root, path, after)
    events: list[Any] = []
    place = after
    for line in data.splitlines(keepends=True)[:LOG_LINES]:
        if not line.endswith(b"\n"):
            break  # it is being written
        place += len(line)
        try:
            events.append(wire.read(line))
        except AgentTalkError:
            continue
    return {"command_id": rows[0][1], "attempt": attempt, "events": events, "next": place}


def _piece(root: Folder, path: str, after: int) -> bytes:
    """Some bytes of a file, from a place on; nothing where there is no such file."""
    try:
        with root.stream(path, LARGEST) as stream:
            skipped = 0
            while skipped < after and (piece := stream.read(min(_LOG_BYTES, after - skipped))):
                skipped += len(piece)
            return stream.read(_LOG_BYTES)
    except AgentTalkError:
        return b""
