"""What follows when the work of a task is refused, or a newer version takes its place.

What was refused goes no further, and is archived. Whoever had begun with it begins anew with the new version; whoever
was done with it runs again, unless the new version is the same for it. All of it is one transaction: programs that
are to end keep their leases until they are dead (see `return_to_waiting`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Final

from agenttalk.contracts.core import root_layout
from agenttalk.contracts.envelope import CommandEnvelope
from agenttalk.engine.core import records
from agenttalk.engine.people import questions
from agenttalk.engine.plans import inputs as plan_inputs
from agenttalk.engine.plans import recalls
from agenttalk.ports.statements.messages import FREE_PAYLOADS, SET_MESSAGE_STATE, VIEW_EXISTS
from agenttalk.ports.statements.people import OPEN_REQUESTS_OF
from agenttalk.ports.statements.plans import (
    COUNT_RUN,
    DEPENDANTS,
    ENGINE_TASK,
    ORDER_OF_DELIVERY,
    OUTPUTS_IN_FORCE,
    REVOKE_TURN,
    SET_UNMET,
    UNMEET,
    VERSIONS_BEFORE,
    VERSIONS_FROM,
    WITHDRAW_DELIVERIES,
    DependantRow,
    OutputInForceRow,
)
from agenttalk.ports.storage import Tx
from agenttalk.rules.plans import failure, input_selection
from agenttalk.rules.plans.input_selection import PickedInputs
from agenttalk.rules.text import task_words

if TYPE_CHECKING:
    from agenttalk.contracts.command import ResolvedInput
    from agenttalk.contracts.dag import Node
    from agenttalk.engine.plans.definition import PlanDefinition
    from agenttalk.engine.plans.transaction import PlanTransaction

HISTORY: Final = "superseded"
"""Folder of a plan that keeps what was refused or replaced."""
_WHY: Final = task_words.REPLACED_INPUT()
_NOT_ASKED: Final = "the task does not wait for it any more"


def update_consumers(moves: PlanTransaction, sheet: PlanDefinition, producer: str) -> None:
    """Have the consumers of a task follow it. Call it once, right after the task was moved.

    If it is completed, there is a new version. Else it was reopened or has failed: what it made goes no further.
    """
    row = moves.tx.run(ENGINE_TASK, plan_id=sheet.plan_id, task_id=producer)[0]
    if row.state == "COMPLETED":
        _replaced(moves, sheet, producer)
    else:
        _refused(moves, sheet, producer)


def _refused(moves: PlanTransaction, sheet: PlanDefinition, producer: str, *, running: bool = True) -> None:
    """What a task made is not good any more: who has not begun waits, who has begun with it ends."""
    began = [row for row in _dependants(moves, sheet, producer) if row.state in {"READY", "RUNNING"}]
    concerned = [task_id for task_id, *_ in began if _used(moves.tx, sheet, task_id, producer)]
    withdraw_outputs(moves, sheet, producer)
    moves.tx.run(UNMEET, plan_id=sheet.plan_id, task_id=producer)
    failed = producer if _standing(moves.tx, sheet, producer) == "failed" else None
    for task_id in concerned:
        _begin_anew(moves, sheet, task_id, running=running, failed=failed)


def _replaced(moves: PlanTransaction, sheet: PlanDefinition, producer: str) -> None:
    """There is a new version: whoever used another one begins anew. Versions before it go no further."""
    tx = moves.tx
    versions = list_versions_in_force(tx, sheet.plan_id, producer)
    last = max((row.seq for row in versions), default=0)
    _withdraw(moves, sheet, producer, [row for row in versions if row.seq < last])
    for task_id, state, _ in _dependants(moves, sheet, producer):
        if state in {"READY", "RUNNING", "COMPLETED"} and _is_outdated(tx, sheet, task_id, producer):
            if state == "COMPLETED":
                mark_stale(moves, sheet, task_id, task_words.OTHER_VERSION(task=producer))
            else:
                _begin_anew(moves, sheet, task_id)


def mark_stale(
    moves: PlanTransaction, sheet: PlanDefinition, task_id: str, why: str, failed: str | None = None
) -> None:
    """A task that is done has to run again, because of what it was given; by a task that has `failed`, it may be."""
    moves.move_task(sheet, task_id, "COMPLETED", "STALE", reason=why)
    moves.tx.run(COUNT_RUN, plan_id=sheet.plan_id, open=1, completed=-1, failed=0, skipped=0)
    # Who runs with it goes on until it is known to be another one, unless there will be none.
    _refused(moves, sheet, task_id, running=failed is not None)
    _wait(moves, sheet, task_id, failed)


def reopen_dependants(
    moves: PlanTransaction, sheet: PlanDefinition, failed: str, rows: Iterable[DependantRow]
) -> list[str]:
    """Those of a failed task's dependants (`rows`) that rest on what it made before; they wait for it now.

    Programs among them are ended first, and follow later.
    """
    found = []
    for task_id, state, _ in rows:
        versions = _used(moves.tx, sheet, task_id, failed).values()
        if moves.is_ordered(sheet, task_id) or not any(became == "superseded" for _, became in versions):
            continue
        if state == "COMPLETED":
            mark_stale(moves, sheet, task_id, f"it rests on what {failed} made, which was refused", failed)
        else:
            _begin_anew(moves, sheet, task_id, failed=failed)
        if moves.tx.run(ENGINE_TASK, plan_id=sheet.plan_id, task_id=task_id)[0].state == "PENDING":
            found.append(task_id)
    return found


def _dependants(moves: PlanTransaction, sheet: PlanDefinition, producer: str) -> list[DependantRow]:
    """Whoever comes after a task, apart from those that this transaction made a command for."""
    rows = moves.tx.run(DEPENDANTS, plan_id=sheet.plan_id, task_id=producer)
    return [row for row in rows if not moves.is_ordered(sheet, row.dependant)]


def _begin_anew(
    moves: PlanTransaction, sheet: PlanDefinition, task_id: str, *, running: bool = True, failed: str | None = None
) -> None:
    """Take a task that has begun, or is about to, back to where it waits."""
    row = moves.tx.run(ENGINE_TASK, plan_id=sheet.plan_id, task_id=task_id)[0]
    state, lease, delivery = row.state, row.lease, row.delivery
    if state == "RUNNING" and not running:
        return
    if lease is not None:
        for (found,) in moves.tx.run(REVOKE_TURN, plan_id=sheet.plan_id, task_id=task_id):
            moves.revoked.append(found)
            moves.tx.record("turn.revoked", f"{sheet.plan_id}/{task_id}", {"lease": found, "reason": _WHY})
        return
    if state == "RUNNING":  # somebody works on it by hand
        moves.move_task(sheet, task_id, "RUNNING", "SUPERSEDED", reason=_WHY)
    recalls.recall_command(moves, sheet, delivery, _WHY)
    _wait(moves, sheet, task_id, failed)


def return_to_waiting(moves: PlanTransaction, sheet: PlanDefinition, task_id: str, delivery: int) -> None:
    """Nothing of a revoked turn runs any more, and its task is READY: it waits for what it is to be given."""
    recalls.recall_command(moves, sheet, delivery, _WHY)
    close_questions(moves, sheet, task_id)
    _wait(moves, sheet, task_id)


def _wait(moves: PlanTransaction, sheet: PlanDefinition, task_id: str, failed: str | None = None) -> None:
    """A task that is READY waits again, for those before it that are open; or it is due at once.

    Whoever calls this for the sake of a task that has `failed` has its dependants follow their policies afterwards.
    """
    tx = moves.tx
    node = sheet.node(tx, task_id)
    standings = _standings(tx, sheet, node)
    unmet = sum(each == "open" for each in standings.values())
    lost = [each for each, standing in standings.items() if standing == "failed"]
    gone = bool(lost) and not unmet and not isinstance(moves.pick_inputs(sheet, node), PickedInputs)
    moves.move_task(sheet, task_id, "READY", "INPUTS_LOST", reason=_WHY)
    tx.run(SET_UNMET, plan_id=sheet.plan_id, task_id=task_id, unmet=unmet + int(gone or failed is not None))
    if failed is None and gone:
        moves.apply_failure_policy(sheet, task_id, lost[0])
    moves.has_more_due = True


def recount_waits(moves: PlanTransaction, sheet: PlanDefinition, task_id: str) -> None:
    """Count anew for how many others a task waits that has not begun."""
    tx, plan_id = moves.tx, sheet.plan_id
    row = tx.run(ENGINE_TASK, plan_id=plan_id, task_id=task_id)[0]
    if row.state == "PENDING" and not moves.is_ordered(sheet, task_id):
        standings = _standings(tx, sheet, sheet.node(tx, task_id))
        unmet = sum(each != "fine" for each in standings.values()) + int(bool(row.held))
        tx.run(SET_UNMET, plan_id=plan_id, task_id=task_id, unmet=unmet)
        moves.has_more_due = True


def _standings(tx: Tx, sheet: PlanDefinition, node: Node) -> dict[str, failure.DependencyStanding]:
    """What those before a task mean to it."""
    return {
        each: _standing(tx, sheet, each) for each in plan_inputs.find_sources(tx, sheet, node) if each != node.task_id
    }


def wait_for_inputs(moves: PlanTransaction, sheet: PlanDefinition, task_id: str, delivery: int | None = None) -> None:
    """What a READY task was to be given is not there any more: its command is withdrawn, and it waits."""
    recalls.recall_command(moves, sheet, delivery, _WHY)
    _wait(moves, sheet, task_id)


def _standing(tx: Tx, sheet: PlanDefinition, task_id: str) -> failure.DependencyStanding:
    row = tx.run(ENGINE_TASK, plan_id=sheet.plan_id, task_id=task_id)[0]
    return failure.judge_dependency(row.state, row.cause)


def has_lost_input(tx: Tx, sheet: PlanDefinition, inputs: Iterable[ResolvedInput]) -> bool:
    """Whether something that was picked is not in force any more, and nothing took its place."""
    wanted: dict[str, set[str]] = {}
    for path in (path for each in inputs for path in each.paths):
        task_id, segment, _ = path.split("/", 2)
        wanted.setdefault(task_id, set()).add(segment)
    for task_id, segments in wanted.items():
        rows = tx.run(VERSIONS_FROM, plan_id=sheet.plan_id, task_id=task_id)
        if not segments <= {root_layout.path_segment(row.output_name) for row in rows}:
            return True
    return False


def _is_outdated(tx: Tx, sheet: PlanDefinition, task_id: str, producer: str) -> bool:
    """Whether a task was given something else by a producer than it would be given now."""
    node = sheet.node(tx, task_id)
    used = {path: sha256 for path, (sha256, _) in _used(tx, sheet, task_id, producer).items()}
    picked = input_selection.pick_inputs(
        node, plan_inputs.find_candidates(tx, sheet, node), final=frozenset(node.depends_on)
    )
    if isinstance(picked, PickedInputs):
        return used != _given(picked, producer)
    # Something else is missing or unclear meanwhile: the outputs that it used are compared as a whole.
    outputs = {path.split("/", 2)[1] for path in used}
    return used != {
        path: sha256 for path, sha256 in _made(tx, sheet, producer).items() if path.split("/", 2)[1] in outputs
    }


def _given(picked: PickedInputs, producer: str) -> dict[str, str]:
    """The files of a producer that were picked, with their hashes."""
    wanted = {path for each in picked.inputs for path in each.paths}
    files = {
        f"{each.task_id}/{root_layout.path_segment(each.output_name)}/{path}": sha256
        for chosen in picked.sources.values()
        for each in chosen
        if each.task_id == producer
        for path, sha256 in each.paths
    }
    return {path: sha256 for path, sha256 in files.items() if path in wanted}


def _made(tx: Tx, sheet: PlanDefinition, producer: str) -> dict[str, str]:
    """The files of the versions in force."""
    found: dict[str, str] = {}
    for row in list_versions_in_force(tx, sheet.plan_id, producer):
        folder = f"{producer}/{root_layout.path_segment(row.output_name)}"
        if not any(path.startswith(f"{folder}/") for path in found):
            found |= {f"{folder}/{path}": sha256 for path, sha256, _ in files_of(row.envelope)}
    return found


def _used(tx: Tx, sheet: PlanDefinition, task_id: str, producer: str) -> dict[str, tuple[str, str]]:
    """The files of a producer that a task's last command was given: path → hash, and what became of that version.

    A command is given the versions that are the newest when it is written.
    """
    delivery = tx.run(ENGINE_TASK, plan_id=sheet.plan_id, task_id=task_id)[0].delivery
    if delivery is None:
        return {}
    [(number, _, _, _, _, envelope, *_)] = tx.run(ORDER_OF_DELIVERY, id=delivery)
    command = CommandEnvelope.model_validate_json(bytes(envelope)).payload.command
    prefix = f"{producer}/"
    wanted = [path for each in command.resolved_inputs or () for path in each.paths if path.startswith(prefix)]
    if not wanted:
        return {}
    versions: dict[str, tuple[str, dict[str, str]]] = {}
    for output_name, _, _, state, _, data in tx.run(
        VERSIONS_BEFORE, plan_id=sheet.plan_id, task_id=producer, before=number
    ):
        versions.setdefault(
            root_layout.path_segment(output_name), (state, {path: sha256 for path, sha256, _ in files_of(data)})
        )
    found = {}
    for path in wanted:
        _, segment, inside = path.split("/", 2)
        state, files = versions.get(segment, ("superseded", {}))
        found[path] = (files.get(inside, ""), state)
    return found


def files_of(envelope: bytes) -> list[tuple[str, str, int]]:
    """Path inside its output, hash and size of each file of an artifact."""
    payload: Any = json.loads(envelope)["payload"]  # ours, and checked when it was accepted
    return [
        (plan_inputs.path_inside_output(file["path"]), file["sha256"], file.get("size_bytes") or 0)
        for file in payload["files"]
    ]


def list_versions_in_force(tx: Tx, plan_id: str, task_id: str) -> list[OutputInForceRow]:
    """What a task made, the newest version of each output first, as far as nobody refused it."""
    return tx.run(OUTPUTS_IN_FORCE, plan_id=plan_id, task_id=task_id, gateway=root_layout.GATEWAY)


def withdraw_outputs(moves: PlanTransaction, sheet: PlanDefinition, task_id: str) -> None:
    """Nobody is to use what a task made: on its way it is stopped, in inboxes it is taken back, and it is archived."""
    _withdraw(moves, sheet, task_id, list_versions_in_force(moves.tx, sheet.plan_id, task_id))


def unpublish_outputs(moves: PlanTransaction, sheet: PlanDefinition, task_id: str) -> None:
    """What a task made is no result of the plan until the task is done again. Who uses it goes on until then."""
    for _, _, _, _, output_name, _, envelope in list_versions_in_force(moves.tx, sheet.plan_id, task_id):
        unpublish_version(moves.tx, sheet.plan_id, task_id, output_name, envelope)


def _withdraw(moves: PlanTransaction, sheet: PlanDefinition, task_id: str, rows: Collection[OutputInForceRow]) -> None:
    tx, plan_id = moves.tx, sheet.plan_id
    gone = {row.id for row in rows}
    stays = [row for row in list_versions_in_force(tx, plan_id, task_id) if row.id not in gone] if rows else []
    shown = {path for row in stays for path in _shown(plan_id, task_id, row.output_name, row.envelope)}
    for number, message_id, state, seq, output_name, command_id, envelope in rows:
        for (delivery,) in tx.run(WITHDRAW_DELIVERIES, message=number, at=moves.at, details=_WHY):
            tx.run(FREE_PAYLOADS, delivery=delivery)
            moves.in_folders = True
        tx.run(SET_MESSAGE_STATE, id=number, state="superseded")
        records.count_messages(tx, plan_id, superseded=1, delivered=-1 if state == "delivered" else 0)
        tx.record("message.recalled", message_id, {"seq": seq, "was": state, "why": _WHY})
        archive_version(tx, plan_id, task_id, output_name, command_id or message_id, envelope, shown)


def archive_version(
    tx: Tx, plan_id: str, task_id: str, output_name: str, version: str, envelope: bytes, stays: Collection[str] = ()
) -> None:
    """Archive a version that nobody is to use. Among the results of the plan only files that others show `stays`."""
    segment = root_layout.path_segment(output_name)
    for path, sha256, _ in files_of(envelope):
        kept = f"plans/{plan_id}/{HISTORY}/{task_id}/{segment}/{version}/{path}"
        records.publish_file(tx, kept, None, content=sha256)
    unpublish_version(tx, plan_id, task_id, output_name, envelope, stays)


def unpublish_version(
    tx: Tx, plan_id: str, task_id: str, output_name: str, envelope: bytes, stays: Collection[str] = ()
) -> None:
    """Show a version no longer among the results of the plan."""
    for path in _shown(plan_id, task_id, output_name, envelope):
        if path not in stays and tx.run(VIEW_EXISTS, path=path):
            records.publish_file(tx, path, None)


def _shown(plan_id: str, task_id: str, output_name: str, envelope: bytes) -> list[str]:
    """Where the files of a version lie among the results of its plan, if it is one of them."""
    folder = f"artifacts/{plan_id}/{task_id}/{root_layout.path_segment(output_name)}"
    return [f"{folder}/{path}" for path, _, _ in files_of(envelope)]


def close_questions(moves: PlanTransaction, sheet: PlanDefinition, task_id: str) -> None:
    """Nobody needs to answer what was asked about a task that begins anew, or is gone."""
    for (request_id,) in moves.tx.run(OPEN_REQUESTS_OF, plan_id=sheet.plan_id, task_id=task_id):
        questions.close(moves.tx, request_id, _NOT_ASKED, at=moves.at)
