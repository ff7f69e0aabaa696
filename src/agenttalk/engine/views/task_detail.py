"""Shows one task: its inputs, outputs and turns, and its promise as a checklist of what is proven."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from agenttalk.contracts.command import Command
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.dag import Node
from agenttalk.contracts.envelope import CommandEnvelope
from agenttalk.contracts.errors import AgentTalkError, Code, UsageError
from agenttalk.engine.agents.transcript import LARGEST, find_path, read_piece
from agenttalk.engine.core import task_comments
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_comments import StoredContribution, TaskName
from agenttalk.engine.plans.definition import read_definition
from agenttalk.engine.plans.versions import DeliveredFile, files_of
from agenttalk.engine.views import explain, plans
from agenttalk.engine.views.models.tasks import (
    ChecklistLine,
    InputFile,
    MadeFile,
    SentCommand,
    TaskDetail,
    TaskExplanation,
    TranscriptPage,
)
from agenttalk.ports.statements.messages import TASK
from agenttalk.ports.statements.plans import NODE, RUN, VERSIONS_BEFORE, VERSIONS_FROM, NewestOutputRow
from agenttalk.ports.statements.proof import EVIDENCE_OF_TASK, JOINED_CHECKS, EvidenceRow
from agenttalk.ports.statements.views import TASK_ORDERS, TaskOrderRow
from agenttalk.ports.storage import Store
from agenttalk.rules.proof import checklist, done
from agenttalk.rules.proof.checklist import ChecklistItem, CheckSummary
from agenttalk.rules.text.catalogue import restore_messages

ORDERS: Final = 20
"""How many commands of a task are shown, the newest."""
LOG_LINES: Final = 200
TAIL: Final = 60
"""How many events of an attempt pages show, the last."""
_LOG_BYTES: Final = 256 * 1024
"""Bytes of a transcript in one page."""


async def describe_task(deps: Deps, plan_id: str, task_id: str, stale: Collection[str] = ()) -> TaskDetail:
    """Return everything about a task. Raises UsageError when there is no such task.

    `stale` names tasks that were found stale, which is not stored yet.
    """
    store = await plans.find_plan_board(deps, plan_id, ends=False)
    explanation = await explain.explain_task(deps, plan_id, task_id, stale)
    rows = await store.read(TASK_ORDERS, plan_id=plan_id, task_id=task_id, limit=ORDERS)
    orders = [_describe_command(row) for row in rows]
    by_engine = explanation["origin"] == "engine"
    return {
        **explanation,
        "board_name": store.name,
        "checklist": [_describe_item(item) for item in await _read_checklist(store, explanation)] if by_engine else [],
        "command": orders[0]["command"] if orders else None,
        "orders": orders,
        "inputs": await _list_inputs(store, plan_id, _command(rows[0])) if rows else [],
        "outputs": await _list_outputs(store, plan_id, task_id),
    }


def _command(row: TaskOrderRow) -> Command:
    return CommandEnvelope.model_validate_json(bytes(row.envelope)).payload.command


def _describe_command(row: TaskOrderRow) -> SentCommand:
    """Return a command of the task; `prompt_sha256` is the hash of the exact prompt that its agent got."""
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


def _describe_item(item: ChecklistItem) -> ChecklistLine:
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


async def _list_inputs(store: Store, plan_id: str, command: Command) -> list[InputFile]:
    """Return the files that a command names, with their hashes as far as these are known."""
    previous = {
        f"previous_output/{root_layout.path_segment(file.output_name)}/{file.path}": file
        for file in (command.reexecute.previous if command.reexecute else ())
    }
    versions: dict[str, list[NewestOutputRow]] = {}
    inputs: list[InputFile] = []
    for resolved in command.resolved_inputs or ():
        for path in resolved.paths:
            file: InputFile = {"input_name": resolved.input_name, "path": path}
            owner, _, rest = path.partition("/")
            segment, _, inside = rest.partition("/")
            if owner not in versions:
                versions[owner] = await store.read(VERSIONS_FROM, plan_id=plan_id, task_id=owner)
            if path in previous:
                file |= {"sha256": previous[path].sha256, "size_bytes": previous[path].size_bytes}
            elif version := _find_version(versions[owner], segment, inside):
                file |= {"sha256": version.sha256, "size_bytes": version.size_bytes, "from_task_id": owner}
            inputs.append(file)
    return inputs


def _find_version(rows: list[NewestOutputRow], segment: str, inside: str) -> DeliveredFile | None:
    """Find a file in the newest version of the output that a path names."""
    envelope = next((row.envelope for row in rows if root_layout.path_segment(row.output_name) == segment), None)
    files = files_of(bytes(envelope)) if envelope is not None else ()
    return next((file for file in files if file.path == inside), None)


async def _list_outputs(store: Store, plan_id: str, task_id: str) -> list[MadeFile]:
    """Return the files of every version that a task made, newest first."""
    rows = await store.read(VERSIONS_BEFORE, plan_id=plan_id, task_id=task_id, before=2**62)
    return [
        {
            "output_name": row.output_name,
            "seq": row.seq,
            "state": row.state,
            "path": file.path,
            "sha256": file.sha256,
            "size_bytes": file.size_bytes,
        }
        for row in rows
        for file in files_of(bytes(row.envelope))
    ]


async def find_task_file(deps: Deps, plan_id: str, task_id: str, sha256: str) -> tuple[str, str]:
    """Return the board and the name of a file that a task was given or made. Raises UsageError when it is neither."""
    store = await plans.find_plan_board(deps, plan_id, ends=False)
    for output in await _list_outputs(store, plan_id, task_id):
        if output["sha256"] == sha256:
            return store.name, output["path"].rpartition("/")[2]
    for row in await store.read(TASK_ORDERS, plan_id=plan_id, task_id=task_id, limit=ORDERS):
        for file in await _list_inputs(store, plan_id, _command(row)):
            if file.get("sha256") == sha256:
                return store.name, file["path"].rpartition("/")[2]
    what = f"task {task_id[:80]} of plan {plan_id[:80]} was not given a file with this hash, and has not made one"
    raise UsageError(Code.NAME_UNKNOWN, what, hint=f"'GET /api/plans/{plan_id}/artifacts' lists the files of the plan")


async def find_picture(deps: Deps, plan_id: str, task_id: str, sha256: str) -> str:
    """Return the board of a picture that a check of a task took. Raises UsageError when there is no such picture."""
    detail = await describe_task(deps, plan_id, task_id)
    attempts = detail.get("attempts") or ()
    checks = [check for attempt in attempts for check in attempt.get("checks") or ()]
    if any(picture["sha256"] == sha256 for check in checks for picture in check.get("pictures") or ()):
        return (await plans.find_plan_board(deps, plan_id, ends=False)).name
    what = f"no check of task {task_id[:80]} of plan {plan_id[:80]} took a picture with this hash"
    raise UsageError(Code.NAME_UNKNOWN, what, hint="the page of the task shows the pictures that there are")


async def list_remarks(deps: Deps, plan_id: str, task_id: str) -> list[StoredContribution]:
    """Return the comments and reports about a task, in order."""
    store = await plans.find_plan_board(deps, plan_id, ends=False)
    task = await task_comments.read_task(deps, TaskName(store.name, plan_id, task_id))
    return sorted([*task["comments"], *task["outputs"]], key=lambda remark: remark["id"])


async def read_transcript(
    deps: Deps, plan_id: str, task_id: str, *, command_id: str = "", attempt: int = 0, after: int = 0
) -> TranscriptPage:
    """Return events that a coding agent reported, from a place in its transcript on; by default of its last attempt.

    `next` is the place where the transcript goes on, also when it has no more events yet.
    """
    transcript = await _find_transcript(deps, plan_id, task_id, command_id, attempt)
    if transcript is None:
        return {"command_id": None, "attempt": None, "events": [], "next": 0}
    data = await asyncio.to_thread(read_piece, deps.root, transcript.path, after, _LOG_BYTES)
    events, size = _parse_events(data.splitlines(keepends=True)[:LOG_LINES])
    return {
        "command_id": transcript.command_id,
        "attempt": transcript.attempt,
        "events": events,
        "next": after + size,
    }


async def read_transcript_tail(deps: Deps, plan_id: str, task_id: str) -> list[Any]:
    """Return the last events that a coding agent reported in its last attempt."""
    transcript = await _find_transcript(deps, plan_id, task_id)
    data = await asyncio.to_thread(read_piece, deps.root, transcript.path, 0, LARGEST) if transcript else b""
    return _parse_events(data.splitlines(keepends=True)[-TAIL:])[0]


class _Transcript(NamedTuple):
    """The transcript of an attempt."""

    path: str
    command_id: str
    attempt: int


async def _find_transcript(
    deps: Deps, plan_id: str, task_id: str, command_id: str = "", attempt: int = 0
) -> _Transcript | None:
    """Find the transcript of an attempt; None when the task has no such command yet."""
    store = await plans.find_plan_board(deps, plan_id, ends=False)
    tasks = await store.read(TASK, plan_id=plan_id, task_id=task_id)
    if not tasks:
        hint = f"'GET /api/plans/{plan_id}/tasks' lists its tasks"
        raise UsageError(Code.TASK_NOT_FOUND, f"plan {plan_id!r} has no task {task_id[:80]!r}", hint=hint)
    rows = await store.read(TASK_ORDERS, plan_id=plan_id, task_id=task_id, limit=ORDERS)
    row = next((row for row in rows if command_id in {"", row.command_id}), None)
    if row is None:
        return None
    attempt = attempt or tasks[0].attempt or 1
    agent_id = row.receiver or tasks[0].agent_id
    path = find_path(agent_id, plan_id, task_id, row.command_id, attempt)
    return _Transcript(path, row.command_id, attempt)


def _parse_events(lines: list[bytes]) -> tuple[list[Any], int]:
    """Return the events in lines of a transcript, and how many bytes were read."""
    events: list[Any] = []
    size = 0
    for line in lines:
        if not line.endswith(b"\n"):
            break  # it is being written
        size += len(line)
        try:
            events.append(wire.read(line))
        except AgentTalkError:
            continue
    return events, size


_BY: Final = {"claimed": "the agent", "confirmed": "a person"}
"""The party that vouches for evidence that does not say so itself. Everything else was seen by the engine."""


async def _read_checklist(store: Store, task: TaskExplanation) -> list[ChecklistItem]:
    """Return each line of a task's promise, and whether it is proven."""
    plan_id, task_id = task["plan_id"], task["task_id"]
    [node_row] = await store.read(NODE, plan_id=plan_id, task_id=task_id)
    node = Node.model_validate_json(bytes(node_row.node))
    [run] = await store.read(RUN, plan_id=plan_id)
    sheet = read_definition(plan_id, run, await store.read(JOINED_CHECKS, plan_id=plan_id))
    evidence = await store.read(EVIDENCE_OF_TASK, plan_id=plan_id, task_id=task_id)
    judged = [turn for turn in task["attempts"] if "verdict" in turn]
    ended_at = task["updated_at"]
    if task["state"] == "COMPLETED" and evidence:
        checks = [_summarize_evidence(row) for row in evidence]
    else:
        checks = [_summarize_check(check, ended_at) for check in (judged[-1].get("checks", ()) if judged else ())]
    items = checklist.build_checklist(
        sheet.promise(node).acceptance,
        checks,
        task["verdict"],
        stale=task["freshness"] == "stale",
        ended_at=ended_at if judged else None,
    )
    if node.promise is not None:
        return items
    return [replace(item, description=done.describe_evidence(item.id, item.description)) for item in items]


def _summarize_evidence(row: EvidenceRow) -> CheckSummary:
    result: Any = restore_messages(wire.read(bytes(row.result), limit=wire.DOCUMENT_LIMIT))
    return _summarize_check({**result, "id": row.check_id}, row.at, fresh=bool(row.fresh))


def _summarize_check(result: Mapping[str, Any], at: str, *, fresh: bool = True) -> CheckSummary:
    trust, detail = str(result.get("trust") or "claimed"), result.get("detail")
    return CheckSummary(
        str(result["id"]),
        bool(result.get("passed")),
        fresh,
        trust,
        str(result.get("by") or _BY.get(trust, "engine")),
        str(result.get("at") or at),
        detail if isinstance(detail, str) else "",
    )
