"""Versions of what tasks made: which are in force, which a task was given, and how one is withdrawn and archived."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple

from agenttalk.contracts.command import ResolvedInput
from agenttalk.contracts.core import root_layout
from agenttalk.contracts.envelope import CommandEnvelope
from agenttalk.engine.core import records
from agenttalk.engine.plans import inputs as plan_inputs
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.ports.statements.messages import FREE_PAYLOADS, SET_MESSAGE_STATE, VIEW_EXISTS
from agenttalk.ports.statements.plans import (
    ENGINE_TASK,
    ORDER_OF_DELIVERY,
    OUTPUTS_IN_FORCE,
    VERSIONS_BEFORE,
    VERSIONS_FROM,
    WITHDRAW_DELIVERIES,
    OutputInForceRow,
)
from agenttalk.ports.storage import Tx
from agenttalk.rules.plans import input_selection
from agenttalk.rules.plans.input_selection import PickedInputs
from agenttalk.rules.text import task_words

HISTORY: Final = "superseded"
"""Folder of a plan that keeps what was refused or replaced."""
WHY_REPLACED: Final = task_words.REPLACED_INPUT()


def list_versions_in_force(tx: Tx, plan_id: str, task_id: str) -> list[OutputInForceRow]:
    """List what a task made, without refused versions; the newest version of each output comes first."""
    return tx.run(OUTPUTS_IN_FORCE, plan_id=plan_id, task_id=task_id, gateway=root_layout.GATEWAY)


class DeliveredFile(NamedTuple):
    """A file of an artifact."""

    path: str
    """Its path inside the output."""
    sha256: str
    size_bytes: int


def files_of(envelope: bytes) -> list[DeliveredFile]:
    """List the files of an artifact."""
    payload: Any = json.loads(envelope)["payload"]  # the engine wrote it, or checked it when it was accepted
    return [
        DeliveredFile(plan_inputs.path_inside_output(file["path"]), file["sha256"], file.get("size_bytes") or 0)
        for file in payload["files"]
    ]


def has_lost_input(tx: Tx, plan: PlanDefinition, inputs: Iterable[ResolvedInput]) -> bool:
    """Whether a file that was picked comes from an output without any version in force."""
    wanted: dict[str, set[str]] = {}
    for path in (path for resolved in inputs for path in resolved.paths):
        task_id, segment, _ = path.split("/", 2)
        wanted.setdefault(task_id, set()).add(segment)
    for task_id, segments in wanted.items():
        rows = tx.run(VERSIONS_FROM, plan_id=plan.plan_id, task_id=task_id)
        if not segments <= {root_layout.path_segment(row.output_name) for row in rows}:
            return True
    return False


def is_outdated(tx: Tx, plan: PlanDefinition, task_id: str, producer: str) -> bool:
    """Whether a task was given other files of a producer than it would be given now."""
    node = plan.node(tx, task_id)
    used = {path: sha256 for path, (sha256, _) in find_used_files(tx, plan, task_id, producer).items()}
    picked = input_selection.pick_inputs(
        node, plan_inputs.find_candidates(tx, plan, node), final=frozenset(node.depends_on)
    )
    if isinstance(picked, PickedInputs):
        return used != _files_from(picked, producer)
    # Another input is missing or unclear meanwhile: compare the outputs that the task used as a whole.
    outputs = {path.split("/", 2)[1] for path in used}
    return used != {
        path: sha256 for path, sha256 in _files_in_force(tx, plan, producer).items() if path.split("/", 2)[1] in outputs
    }


def _files_from(picked: PickedInputs, producer: str) -> dict[str, str]:
    """Map the picked files of a producer to their hashes."""
    wanted = {path for resolved in picked.inputs for path in resolved.paths}
    files = {
        f"{candidate.task_id}/{root_layout.path_segment(candidate.output_name)}/{path}": sha256
        for candidates in picked.sources.values()
        for candidate in candidates
        if candidate.task_id == producer
        for path, sha256 in candidate.paths
    }
    return {path: sha256 for path, sha256 in files.items() if path in wanted}


def _files_in_force(tx: Tx, plan: PlanDefinition, producer: str) -> dict[str, str]:
    """Map the files of a producer's versions in force to their hashes."""
    files: dict[str, str] = {}
    for row in list_versions_in_force(tx, plan.plan_id, producer):
        folder = f"{producer}/{root_layout.path_segment(row.output_name)}"
        if not any(path.startswith(f"{folder}/") for path in files):
            files |= {f"{folder}/{path}": sha256 for path, sha256, _ in files_of(row.envelope)}
    return files


def find_used_files(tx: Tx, plan: PlanDefinition, task_id: str, producer: str) -> dict[str, tuple[str, str]]:
    """Map the files of a producer that a task's last command was given to their hashes and their version's state.

    A command is given the versions that are the newest when it is written.
    """
    delivery = tx.run(ENGINE_TASK, plan_id=plan.plan_id, task_id=task_id)[0].delivery
    if delivery is None:
        return {}
    [row] = tx.run(ORDER_OF_DELIVERY, id=delivery)
    command = CommandEnvelope.model_validate_json(bytes(row.envelope)).payload.command
    prefix = f"{producer}/"
    wanted = [path for resolved in command.resolved_inputs or () for path in resolved.paths if path.startswith(prefix)]
    if not wanted:
        return {}
    versions: dict[str, tuple[str, dict[str, str]]] = {}
    for made in tx.run(VERSIONS_BEFORE, plan_id=plan.plan_id, task_id=producer, before=row.id):
        contents = {path: sha256 for path, sha256, _ in files_of(made.envelope)}
        versions.setdefault(root_layout.path_segment(made.output_name), (made.state, contents))
    used = {}
    for path in wanted:
        _, segment, inside = path.split("/", 2)
        state, files = versions.get(segment, ("superseded", {}))
        used[path] = (files.get(inside, ""), state)
    return used


def withdraw_outputs(moves: PlanTransaction, plan: PlanDefinition, task_id: str) -> None:
    """Withdraw all that a task made: stop it on its way, take it back from inboxes, and archive it."""
    withdraw_versions(moves, plan, task_id, list_versions_in_force(moves.tx, plan.plan_id, task_id))


def unpublish_outputs(moves: PlanTransaction, plan: PlanDefinition, task_id: str) -> None:
    """Show what a task made no longer as a result of the plan until the task is done again. Consumers keep it."""
    for row in list_versions_in_force(moves.tx, plan.plan_id, task_id):
        unpublish_version(moves.tx, plan.plan_id, task_id, row.output_name, row.envelope)


def withdraw_versions(
    moves: PlanTransaction, plan: PlanDefinition, task_id: str, rows: Collection[OutputInForceRow]
) -> None:
    """Withdraw some versions of what a task made, and archive them."""
    tx, plan_id = moves.tx, plan.plan_id
    withdrawn = {row.id for row in rows}
    kept = [row for row in list_versions_in_force(tx, plan_id, task_id) if row.id not in withdrawn] if rows else []
    shown = {path for row in kept for path in _shown_paths(plan_id, task_id, row.output_name, row.envelope)}
    for old in rows:
        for (delivery,) in tx.run(WITHDRAW_DELIVERIES, message=old.id, at=moves.now, details=WHY_REPLACED):
            tx.run(FREE_PAYLOADS, delivery=delivery)
            moves.note_inbox_change()
        tx.run(SET_MESSAGE_STATE, id=old.id, state="superseded")
        records.count_messages(tx, plan_id, superseded=1, delivered=-1 if old.state == "delivered" else 0)
        tx.record(
            "message.recalled",
            old.message_id,
            {"seq": old.seq, "was": old.state, "why": WHY_REPLACED},
        )
        archive_version(
            tx,
            plan_id,
            task_id,
            old.output_name,
            old.command_id or old.message_id,
            old.envelope,
            shown,
        )


def archive_version(
    tx: Tx, plan_id: str, task_id: str, output_name: str, version: str, envelope: bytes, kept: Collection[str] = ()
) -> None:
    """Archive a withdrawn version. Among the results of the plan its files vanish, but for those that are `kept`."""
    segment = root_layout.path_segment(output_name)
    for path, sha256, _ in files_of(envelope):
        archived = f"plans/{plan_id}/{HISTORY}/{task_id}/{segment}/{version}/{path}"
        records.publish_file(tx, archived, None, content=sha256)
    unpublish_version(tx, plan_id, task_id, output_name, envelope, kept)


def unpublish_version(
    tx: Tx, plan_id: str, task_id: str, output_name: str, envelope: bytes, kept: Collection[str] = ()
) -> None:
    """Show a version no longer among the results of the plan."""
    for path in _shown_paths(plan_id, task_id, output_name, envelope):
        if path not in kept and tx.run(VIEW_EXISTS, path=path):
            records.publish_file(tx, path, None)


def _shown_paths(plan_id: str, task_id: str, output_name: str, envelope: bytes) -> list[str]:
    """List where the files of a version lie among the results of its plan, if it is one of them."""
    folder = f"artifacts/{plan_id}/{task_id}/{root_layout.path_segment(output_name)}"
    return [f"{folder}/{path}" for path, _, _ in files_of(envelope)]
