"""The artifacts that a task's inputs can be taken from: those of the tasks before it, and of their stand-ins."""

from __future__ import annotations

import json
from typing import Final, TypeAlias

from agenttalk.contracts.dag import Node
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.ports.statements.plans import ENGINE_TASK, VERSIONS_FROM
from agenttalk.ports.storage import Tx
from agenttalk.rules.plans import failure
from agenttalk.rules.plans.input_selection import InputCandidate

KnownOutputs: TypeAlias = "dict[tuple[str, str], list[InputCandidate]]"
"""Everything that tasks made, by plan and task."""


_NOTHING: Final[KnownOutputs] = {}


def find_candidates(
    tx: Tx, sheet: PlanDefinition, node: Node, known: KnownOutputs = _NOTHING, *, given: bool = False
) -> list[InputCandidate]:
    """What the tasks before this one have made, and what people gave it, if some of its inputs come from people.

    Of those that are `known` nothing is read. With `given`, people were asked for any input.
    """
    found: list[InputCandidate] = []
    if not node.needs:
        return found
    for task_id in find_sources(tx, sheet, node, given=given):
        if (sheet.plan_id, task_id) in known:
            found += known[sheet.plan_id, task_id]
            continue
        for output_name, message_id, seq, command_id, at, envelope in tx.run(
            VERSIONS_FROM, plan_id=sheet.plan_id, task_id=task_id
        ):
            artifact = json.loads(envelope)  # ours, and checked when it was accepted
            found.append(
                InputCandidate(
                    message_id=message_id,
                    task_id=task_id,
                    output_name=output_name,
                    subtype=artifact.get("subtype"),
                    paths=tuple(
                        (path_inside_output(file["path"]), file["sha256"]) for file in artifact["payload"]["files"]
                    ),
                    delivered_at=at,
                    score=artifact["score"]["value"] if artifact.get("score") else None,
                    seq=seq,
                    command_id=command_id,
                )
            )
    return found


def find_sources(tx: Tx, sheet: PlanDefinition, node: Node, *, given: bool = False) -> dict[str, None]:
    """Tasks whose outputs a task may use: those before it, whoever stands in for them, and what people gave it."""
    found: dict[str, None] = dict.fromkeys(node.depends_on)
    for task_id in node.depends_on:
        wards = sheet.spec(tx, task_id).conditional_tasks
        row = tx.run(ENGINE_TASK, plan_id=sheet.plan_id, task_id=task_id)[0] if wards else None
        if row is not None and failure.judge_dependency(row.state, row.cause) == "failed":
            found |= dict.fromkeys(wards)
    if given or any(need.external for need in node.needs):  # what people give is filed under the task itself
        found[node.task_id] = None
    return found


def path_inside_output(path: str) -> str:
    """A payload's path inside its output: the sender's folder for it is left out."""
    return path.partition("/")[2] or path
