"""One task as people look at it: what was asked, what it was given, what it made, and what of its promise is proven."""

from __future__ import annotations

from typing import Any, Final

from agenttalk.contracts import places, wire
from agenttalk.contracts.command import Command
from agenttalk.contracts.envelope import ArtifactEnvelope, CommandEnvelope
from agenttalk.engine import foreign, tasks
from agenttalk.engine.checklists import checklist_of
from agenttalk.engine.deps import Deps
from agenttalk.engine.layout import Layout
from agenttalk.engine.orders import TURNS
from agenttalk.engine.plans import board_of
from agenttalk.engine.tasks import TaskName
from agenttalk.errors import AgentTalkError, Code, UsageError
from agenttalk.ports import Row, Store

ORDERS: Final = 50
_EVENTS: Final = 60
_TRANSCRIPT: Final = 4 * 1024 * 1024 + 1


async def task(deps: Deps, plan_id: str, task_id: str) -> dict[str, Any]:
    """Everything that is shown of a task. Raises UsageError when there is none."""
    told = await foreign.explain(deps, plan_id, task_id)
    store = await board_of(deps, plan_id)
    rows = await store.read("orders_of_task", plan_id=plan_id, task_id=task_id, limit=ORDERS)
    orders = [_order(row) for row in rows]
    command = orders[0]["command"] if orders else None
    return {
        **told,
        "board": store.name,
        "checklist": await checklist_of(store, told) if told["origin"] == "engine" else [],
        "orders": [{**each, "command": each["command"].as_json()} for each in orders],
        "inputs": await _inputs(store, plan_id, command) if command else [],
        "outputs": await _outputs(store, plan_id, task_id),
        "remarks": await _remarks(deps, store, plan_id, task_id),
        "events": _events(deps, told, orders),
    }


def _order(row: Row) -> dict[str, Any]:
    message_id, command_id, seq, envelope, receiver, state, taken_at, ended_at, prompt_sha256 = row
    return {
        "message_id": message_id,
        "command_id": command_id,
        "seq": seq,
        "command": CommandEnvelope.model_validate_json(bytes(envelope)).payload.command,
        "receiver": receiver,
        "state": state,
        "taken_at": taken_at,
        "ended_at": ended_at,
        "prompt_sha256": prompt_sha256,
    }


async def _inputs(store: Store, plan_id: str, command: Command) -> list[dict[str, Any]]:
    """The files that the newest order names, with their hashes as far as these are known."""
    found: list[dict[str, Any]] = []
    for each in command.resolved_inputs or ():
        for path in each.paths:
            owner, _, rest = path.partition("/")
            segment, _, inside = rest.partition("/")
            file = await _version(store, plan_id, owner, segment, inside) if inside else {}
            found.append({"input_name": each.input_name, "path": path, **file})
    previous = command.reexecute.previous if command.reexecute else ()
    names = {each["path"] for each in found}
    for old in previous:
        path = f"previous_output/{places.segment(old.output_name)}/{old.path}"
        file = {"sha256": old.sha256, "size": old.size_bytes}
        if path in names:
            found = [{**each, **file} if each["path"] == path else each for each in found]
    return found


async def _version(store: Store, plan_id: str, task_id: str, segment: str, inside: str) -> dict[str, Any]:
    rows = await store.read("versions_from", plan_id=plan_id, task_id=task_id)
    envelope = next((row[5] for row in rows if places.segment(row[0]) == segment), None)
    for name, sha256, size in _files(envelope) if envelope is not None else ():
        if name == inside:
            return {"sha256": sha256, "size": size, "from": task_id}
    return {}


async def _outputs(store: Store, plan_id: str, task_id: str) -> list[dict[str, Any]]:
    """Every version of what a task made, the newest first."""
    rows = await store.read("versions_before", plan_id=plan_id, task_id=task_id, before=2**62)
    return [
        {"output_name": name, "seq": seq, "state": state, "path": path, "sha256": sha256, "size": size, "by": producer}
        for name, _, seq, state, producer, envelope in rows
        for path, sha256, size in _files(envelope)
    ]


def _files(envelope: Any) -> list[tuple[str, str, int]]:
    artifact = ArtifactEnvelope.model_validate_json(bytes(envelope))
    return [
        (file.path.partition("/")[2] or file.path, file.sha256, file.size_bytes or 0) for file in artifact.payload.files
    ]


async def _remarks(deps: Deps, store: Store, plan_id: str, task_id: str) -> list[dict[str, Any]]:
    shown = await tasks.show(deps, TaskName(store.name, plan_id, task_id))
    return sorted([*shown["comments"], *shown["outputs"]], key=lambda each: int(each["id"]))


def _events(deps: Deps, told: dict[str, Any], orders: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last of what a coding agent told while it ran, if it told anything."""
    if not orders:
        return []
    own = places.task(told["agent_id"], told["plan_id"], told["task_id"])
    attempts = told["attempts"]
    last = attempts[-1]["attempt"] if attempts and attempts[-1].get("command_id") == orders[0]["command_id"] else 1
    layout = Layout(own, f"{own}/{TURNS}/{orders[0]['command_id']}-{last}")
    try:
        data = deps.root.read(f"{layout.base}.events.jsonl", _TRANSCRIPT)
    except (AgentTalkError, OSError):
        return []
    found: list[dict[str, Any]] = []
    for line in data.splitlines()[-_EVENTS:]:
        try:
            event: Any = wire.read(line)
        except AgentTalkError:
            continue  # it is being written
        found.append(event)
    return found


async def file(deps: Deps, plan_id: str, task_id: str, sha256: str) -> tuple[str, bytes]:
    """A file that a task was given or made, and its name. Raises UsageError when it is none of them."""
    store = await board_of(deps, plan_id)
    rows = await store.read("orders_of_task", plan_id=plan_id, task_id=task_id, limit=ORDERS)
    known = await _outputs(store, plan_id, task_id)
    for row in rows:
        known += await _inputs(store, plan_id, _order(row)["command"])
        if any(each.get("sha256") == sha256 for each in known):
            break
    found = next((each for each in known if each.get("sha256") == sha256), None)
    if found is None:
        raise UsageError(Code.NAME_UNKNOWN, "this task has no such file", hint="its page lists them")
    blobs = await deps.stores.blobs(store.name)
    return str(found["path"]).rsplit("/", 1)[-1], await blobs.get(sha256)
