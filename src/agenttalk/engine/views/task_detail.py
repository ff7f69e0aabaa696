"""Shows one task: its inputs, outputs and turns, and its promise as a checklist of what is proven."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final

from agenttalk.contracts.command import Command
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.dag import Node
from agenttalk.contracts.envelope import CommandEnvelope
from agenttalk.contracts.errors import AgentTalkError, Code, UsageError
from agenttalk.engine.agents.transcript import ENDING, LARGEST
from agenttalk.engine.core import task_comments
from agenttalk.engine.core.attempt_paths import TURNS
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_comments import TaskName
from agenttalk.engine.plans.definition import read_definition, read_joined_checks
from agenttalk.engine.plans.versions import files_of
from agenttalk.engine.views import explain, plans
from agenttalk.engine.views.plan_status import is_isolated, usage_of
from agenttalk.ports.folders import Folder
from agenttalk.ports.statements.messages import TASK
from agenttalk.ports.statements.plans import NODE, RUN, VERSIONS_BEFORE, VERSIONS_FROM, NewestOutputRow, StandingRow
from agenttalk.ports.statements.proof import EVIDENCE_OF_TASK, JOINED_CHECKS, EvidenceRow
from agenttalk.ports.statements.views import TASK_ORDERS, TASK_STANDING, TaskOrderRow
from agenttalk.ports.storage import Store
from agenttalk.rules.proof import checklist, done
from agenttalk.rules.proof.checklist import ChecklistItem, CheckSummary
from agenttalk.rules.text.catalogue import restore_messages

ORDERS: Final = 20
"""Commands of a task that are shown, the newest."""
LOG_LINES: Final = 200
TAIL: Final = 60
"""Events of an attempt that people are shown: the last."""
_LOG_BYTES: Final = 256 * 1024
"""Bytes of a transcript that one page holds."""


async def describe_task(deps: Deps, plan_id: str, task_id: str) -> dict[str, Any]:
    """Everything that is to be said of a task. Raises UsageError when there is none."""
    store = await plans.find_plan_board(deps, plan_id, ends=False)
    told = await explain.explain_task(deps, plan_id, task_id)
    rows = await store.read(TASK_ORDERS, plan_id=plan_id, task_id=task_id, limit=ORDERS)
    orders = [_order(row) for row in rows]
    own = await store.read(TASK_STANDING, plan_id=plan_id, task_id=task_id)
    return {
        **told,
        "board_name": store.name,
        "usage": usage_of(own[0]) if own else None,
        "proven": _proven(told, own),
        "isolated": is_isolated(told["state"], own[0].unisolated) if own else None,
        "checklist": [_line(each) for each in await checklist_of(store, told)] if told["origin"] == "engine" else [],
        "command": orders[0]["command"] if orders else None,
        "orders": orders,
        "inputs": await _inputs(store, plan_id, _command(rows[0])) if rows else [],
        "outputs": await _outputs(store, plan_id, task_id),
    }


def _proven(told: dict[str, Any], own: list[StandingRow]) -> bool | None:
    """Whether a task that is done is so by more than its agent's word; None when it is not done."""
    if told["state"] != "COMPLETED":
        return None
    return told["origin"] == "engine" and not (own and own[0].unproven)


def _command(row: TaskOrderRow) -> Command:
    return CommandEnvelope.model_validate_json(bytes(row.envelope)).payload.command


def _order(row: TaskOrderRow) -> dict[str, Any]:
    """A command of the task; `prompt_sha256` is the hash of the very prompt that its agent got."""
    return {
        "message_id": row.message_id,
        "command_id": row.command_id,
        "command_seq": row.seq,
        "agent_id": row.receiver,
        "state": row.state,
        "ack": row.ack,
        "taken_at": row.consumed_at,
        "ended_at": row.finished_at,
        "prompt_sha256": row.prompt_sha256,
        "command": _command(row).as_json(),
    }


def _line(item: ChecklistItem) -> dict[str, Any]:
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
    """The files that a command names, with their hashes as far as these are known."""
    found: list[dict[str, Any]] = []
    known: dict[str, list[NewestOutputRow]] = {}
    previous = {
        f"previous_output/{root_layout.path_segment(old.output_name)}/{old.path}": {
            "sha256": old.sha256,
            "size_bytes": old.size_bytes,
        }
        for old in (command.reexecute.previous if command.reexecute else ())
    }
    for each in command.resolved_inputs or ():
        for path in each.paths:
            owner, _, rest = path.partition("/")
            segment, _, inside = rest.partition("/")
            if owner not in known:
                known[owner] = await store.read(VERSIONS_FROM, plan_id=plan_id, task_id=owner)
            file = previous.get(path) or _version(known[owner], owner, segment, inside)
            found.append({"input_name": each.input_name, "path": path, **file})
    return found


def _version(rows: list[NewestOutputRow], task_id: str, segment: str, inside: str) -> dict[str, Any]:
    envelope = next((row.envelope for row in rows if root_layout.path_segment(row.output_name) == segment), None)
    for path, sha256, size in files_of(bytes(envelope)) if envelope is not None else ():
        if path == inside:
            return {"sha256": sha256, "size_bytes": size, "from_task_id": task_id}
    return {}


async def _outputs(store: Store, plan_id: str, task_id: str) -> list[dict[str, Any]]:
    """Every version of what a task made, the newest first."""
    rows = await store.read(VERSIONS_BEFORE, plan_id=plan_id, task_id=task_id, before=2**62)
    return [
        {"output_name": name, "seq": seq, "state": state, "path": path, "sha256": sha256, "size_bytes": size}
        for name, _, seq, state, _, envelope in rows
        for path, sha256, size in files_of(bytes(envelope))
    ]


async def find_task_file(deps: Deps, plan_id: str, task_id: str, sha256: str) -> tuple[str, str]:
    """The board and the name of a file that a task was given or made. Raises UsageError when it is none of them."""
    store = await plans.find_plan_board(deps, plan_id, ends=False)
    known = await _outputs(store, plan_id, task_id)
    if not any(each["sha256"] == sha256 for each in known):
        for row in await store.read(TASK_ORDERS, plan_id=plan_id, task_id=task_id, limit=ORDERS):
            known += await _inputs(store, plan_id, _command(row))
    for each in known:
        if each.get("sha256") == sha256:
            return store.name, str(each["path"]).rpartition("/")[2]
    what = f"{task_id[:80]} of {plan_id[:80]} was given no file of this hash, and has made none"
    raise UsageError(Code.NAME_UNKNOWN, what, hint=f"'GET /api/plans/{plan_id}/artifacts' lists them")


async def list_remarks(deps: Deps, plan_id: str, task_id: str) -> list[dict[str, Any]]:
    """What was said about a task, in order."""
    store = await plans.find_plan_board(deps, plan_id, ends=False)
    shown = await task_comments.read_task(deps, TaskName(store.name, plan_id, task_id))
    return sorted([*shown["comments"], *shown["outputs"]], key=lambda each: int(each["id"]))


async def read_transcript(
    deps: Deps, plan_id: str, task_id: str, *, command_id: str = "", attempt: int = 0, after: int = 0
) -> dict[str, Any]:
    """What a coding agent told while it ran, from a place in its transcript on; of the last attempt if none is named.

    `next` is the place where it goes on, also when nothing more is there yet.
    """
    told = await _find_transcript(deps, plan_id, task_id, command_id, attempt)
    if told is None:
        return {"command_id": None, "attempt": None, "events": [], "next": 0}
    path, command_id, attempt = told
    data = await asyncio.to_thread(_piece, deps.root, path, after)
    events, place = _events(data.splitlines(keepends=True)[:LOG_LINES])
    return {"command_id": command_id, "attempt": attempt, "events": events, "next": after + place}


async def read_transcript_tail(deps: Deps, plan_id: str, task_id: str) -> list[Any]:
    """The last of what a coding agent told in the last attempt."""
    told = await _find_transcript(deps, plan_id, task_id)
    data = await asyncio.to_thread(_piece, deps.root, told[0], 0, LARGEST) if told else b""
    return _events(data.splitlines(keepends=True)[-TAIL:])[0]


async def _find_transcript(
    deps: Deps, plan_id: str, task_id: str, command_id: str = "", attempt: int = 0
) -> tuple[str, str, int] | None:
    """Where the transcript of an attempt lies, of which command, and of which attempt; None when nobody has begun."""
    store = await plans.find_plan_board(deps, plan_id, ends=False)
    known = await store.read(TASK, plan_id=plan_id, task_id=task_id)
    if not known:
        hint = f"'GET /api/plans/{plan_id}/tasks' lists them"
        raise UsageError(Code.TASK_NOT_FOUND, f"plan {plan_id!r} has no task {task_id[:80]!r}", hint=hint)
    rows = await store.read(TASK_ORDERS, plan_id=plan_id, task_id=task_id, limit=ORDERS)
    row = next((row for row in rows if command_id in {"", row.command_id}), None)
    if row is None:
        return None
    attempt = attempt or known[0].attempt or 1
    own = root_layout.task_folder(row.receiver or known[0].agent_id, plan_id, task_id)
    return f"{own}/{TURNS}/{row.command_id}-{attempt}{ENDING}", row.command_id, attempt


def _events(lines: list[bytes]) -> tuple[list[Any], int]:
    """What lines of a transcript say, and how many bytes that were."""
    events: list[Any] = []
    place = 0
    for line in lines:
        if not line.endswith(b"\n"):
            break  # it is being written
        place += len(line)
        try:
            events.append(wire.read(line))
        except AgentTalkError:
            continue
    return events, place


def _piece(root: Folder, path: str, after: int, many: int = _LOG_BYTES) -> bytes:
    """Some bytes of a file, from a place on; nothing where there is no such file."""
    try:
        with root.stream(path, LARGEST) as stream:
            skipped = 0
            while skipped < after and (piece := stream.read(min(_LOG_BYTES, after - skipped))):
                skipped += len(piece)
            return stream.read(many)
    except AgentTalkError:
        return b""


_BY: Final = {"claimed": "the agent", "confirmed": "a person"}
"""Whose word it is, where the evidence names nobody. Everything else the engine has seen itself."""


async def checklist_of(store: Store, told: dict[str, Any]) -> list[ChecklistItem]:
    """Each line of a task's promise; `told` is what `explain` tells of the task."""
    plan_id, task_id = told["plan_id"], told["task_id"]
    node = Node.model_validate_json(bytes((await store.read(NODE, plan_id=plan_id, task_id=task_id))[0].node))
    sheet = read_definition(plan_id, (await store.read(RUN, plan_id=plan_id))[0])
    sheet.joined_checks = read_joined_checks(await store.read(JOINED_CHECKS, plan_id=plan_id))
    kept = await store.read(EVIDENCE_OF_TASK, plan_id=plan_id, task_id=task_id)
    attempts = [turn for turn in told["attempts"] if "verdict" in turn]
    ended_at = (await store.read(TASK, plan_id=plan_id, task_id=task_id))[0].updated_at
    if told["state"] == "COMPLETED" and kept:
        seen = [_evidence_of_row(row) for row in kept]
    else:
        seen = [_evidence_of_check(each, ended_at) for each in (attempts[-1].get("checks", ()) if attempts else ())]
    stale = told["freshness"] == "stale"
    promise = sheet.promise(node)
    at = ended_at if attempts else None
    items = checklist.build_checklist(promise.acceptance, seen, told["verdict"], stale=stale, ended_at=at)
    if node.promise is not None:
        return items
    return [replace(item, description=done.describe_evidence(item.id)) for item in items]


def _evidence_of_row(row: EvidenceRow) -> CheckSummary:
    told: Any = restore_messages(wire.read(bytes(row.result), limit=wire.DOCUMENT_LIMIT))
    return _evidence_of_check({**told, "id": row.check_id}, row.at, fresh=bool(row.fresh))


def _evidence_of_check(told: dict[str, Any], at: str, *, fresh: bool = True) -> CheckSummary:
    trust = str(told.get("trust") or "claimed")
    return CheckSummary(
        told["id"],
        bool(told.get("passed")),
        fresh,
        trust,
        str(told.get("by") or _BY.get(trust, "engine")),
        str(told.get("at") or at),
        str(told.get("detail") or ""),
    )
