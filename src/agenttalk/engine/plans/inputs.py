"""The inputs of tasks: where they can be taken from, and what follows when they are there, missing or unclear."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Final, TypeAlias

from agenttalk.contracts.core.base import parse_instant
from agenttalk.contracts.dag import Node
from agenttalk.contracts.errors import Code
from agenttalk.engine.core import records
from agenttalk.engine.plans import questions
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.engine.plans.transaction import KnownOutputs, PlanTransaction, make_task_changed_error
from agenttalk.ports.statements.plans import ENGINE_TASK, MEET_FIRST, VERSIONS_FROM
from agenttalk.ports.storage import Tx
from agenttalk.rules.core.task_states import Cause, State
from agenttalk.rules.plans import failure, input_selection
from agenttalk.rules.plans.input_selection import AmbiguousInput, InputCandidate, MissingInputs, PickedInputs
from agenttalk.rules.text import task_words

Selection: TypeAlias = "PickedInputs | MissingInputs | AmbiguousInput"
"""The result of `pick_inputs` for a task."""
_NOTHING: Final[KnownOutputs] = {}


def find_candidates(
    tx: Tx, plan: PlanDefinition, node: Node, known: KnownOutputs = _NOTHING, *, from_people: bool = False
) -> list[InputCandidate]:
    """Find the outputs of the tasks before this one, and the files that people gave it.

    Outputs of `known` tasks are not read again. Files of people count if the task has an external input, or if they
    were asked for any input (`from_people`).
    """
    candidates: list[InputCandidate] = []
    if not node.needs:
        return candidates
    for task_id in find_sources(tx, plan, node, from_people=from_people):
        if (plan.plan_id, task_id) in known:
            candidates += known[plan.plan_id, task_id]
            continue
        for row in tx.run(VERSIONS_FROM, plan_id=plan.plan_id, task_id=task_id):
            artifact = json.loads(row.envelope)  # the engine wrote it, or checked it when it was accepted
            candidates.append(
                InputCandidate(
                    message_id=row.message_id,
                    task_id=task_id,
                    output_name=row.output_name,
                    subtype=artifact.get("subtype"),
                    paths=tuple(
                        (path_inside_output(file["path"]), file["sha256"]) for file in artifact["payload"]["files"]
                    ),
                    delivered_at=row.accepted_at,
                    score=artifact["score"]["value"] if artifact.get("score") else None,
                    seq=row.seq,
                    command_id=row.command_id,
                )
            )
    return candidates


def find_sources(tx: Tx, plan: PlanDefinition, node: Node, *, from_people: bool = False) -> dict[str, None]:
    """Find the tasks whose outputs a task may use: its dependencies, and the fallbacks of those that failed.

    Files that people gave a task are filed under the task itself.
    """
    sources: dict[str, None] = dict.fromkeys(node.depends_on)
    for task_id in node.depends_on:
        fallbacks = plan.spec(tx, task_id).conditional_tasks
        row = tx.run(ENGINE_TASK, plan_id=plan.plan_id, task_id=task_id)[0] if fallbacks else None
        if row is not None and failure.judge_dependency(row.state, row.cause) == "failed":
            sources |= dict.fromkeys(fallbacks)
    if from_people or any(need.external for need in node.needs):
        sources[node.task_id] = None
    return sources


def path_inside_output(path: str) -> str:
    """Return a payload's path inside its output, without the sender's folder for it."""
    return path.partition("/")[2] or path


def pick_inputs(moves: PlanTransaction, plan: PlanDefinition, node: Node) -> Selection:
    """Fill the inputs of a task from the outputs that exist."""
    candidates = find_candidates(moves.tx, plan, node, moves.made)
    return input_selection.pick_inputs(node, candidates, final=frozenset(node.depends_on))


def order_if_ready(moves: PlanTransaction, plan: PlanDefinition, task_id: str, *, first: bool = False) -> None:
    """Pick the inputs of a task whose dependencies have ended, and make its command if they are there."""
    if not moves.is_ordered(plan, task_id):
        node = plan.node(moves.tx, task_id)
        use_selection(moves, plan, node, pick_inputs(moves, plan, node), first=first)


def use_selection(
    moves: PlanTransaction, plan: PlanDefinition, node: Node, selection: Selection, *, first: bool
) -> None:
    """Make the command of a PENDING task, or have the task wait for what is missing or unclear."""
    match selection:
        case PickedInputs():
            moves.queue_command(plan, node, selection, "PENDING", "INPUTS_PICKED", first=first)
        case MissingInputs():
            write_unmet(moves, plan, node.task_id)
            _wait(moves, plan, node, selection)
        case AmbiguousInput():
            write_unmet(moves, plan, node.task_id)
            ask_which(moves, plan, node, selection, "PENDING")


def write_unmet(moves: PlanTransaction, plan: PlanDefinition, task_id: str) -> None:
    """Write that a task's only dependency has ended, if the write of its first command was to say so."""
    if moves.pop_unmet(plan.plan_id, task_id):
        lost = partial(make_task_changed_error, task_id)
        moves.tx.run_later(MEET_FIRST, {"plan_id": plan.plan_id, "task_id": task_id}, lost)


def _wait(moves: PlanTransaction, plan: PlanDefinition, node: Node, missing: MissingInputs) -> None:
    """Have a task wait for inputs that no task before it will make. People are asked for external ones at once."""
    external = [need.name for need in node.needs if need.external and need.name in missing.names]
    request_id = questions.ask_for_files(moves.tx, plan, node, external, at=moves.now) if external else None
    reason = task_words.WAITS_FOR(names=", ".join(missing.names))
    names = missing.names
    moves.move_task(
        plan, node.task_id, "PENDING", "INPUTS_MISSING", reason=reason, missing=names, request_id=request_id
    )


def recheck(moves: PlanTransaction, plan: PlanDefinition, task_id: str, since: str, request_id: str | None) -> None:
    """Check a task that waits for inputs since a time: make its command, or ask a person after the time limit."""
    if moves.is_ordered(plan, task_id):
        return
    node = plan.node(moves.tx, task_id)
    match pick_inputs(moves, plan, node):
        case PickedInputs() as picked:
            moves.queue_command(plan, node, picked, "BLOCKED_WAITING_INPUT", "INPUT_ARRIVED")
        case AmbiguousInput() as unclear:
            ask_which(moves, plan, node, unclear, "BLOCKED_WAITING_INPUT")
        case MissingInputs(names=names):
            _check_time_limit(moves, plan, node, names, since, request_id)


def _check_time_limit(
    moves: PlanTransaction, plan: PlanDefinition, node: Node, names: Sequence[str], since: str, request_id: str | None
) -> None:
    """Raise an alert about inputs that are missing for too long. Ask a person for them, unless one was asked."""
    limit = node.timeout or plan.policies.timeout_default_seconds
    if (parse_instant(moves.now) - parse_instant(since)).total_seconds() < limit:
        return
    request_id = request_id or questions.ask_for_files(moves.tx, plan, node, names, at=moves.now)
    reason = task_words.WAITED_TOO_LONG(seconds=limit, names=", ".join(names))
    state: State = "BLOCKED_WAITING_INPUT"
    moves.move_task(plan, node.task_id, state, "WAIT_TIMEOUT", reason=reason, missing=names, request_id=request_id)
    records.alert(
        moves.tx,
        at=moves.now,
        plan_id=plan.plan_id,
        code=Code.WAIT_FOR_INPUTS_TIMEOUT,
        message=f"task {node.task_id!r} {reason}",
        key=f"{node.task_id}/{since}",
        source=records.RecordSource(node.assigned_agent_id, node.task_id),
        details={"request_id": request_id, "missing": list(names)},
    )


def ask_which(moves: PlanTransaction, plan: PlanDefinition, node: Node, unclear: AmbiguousInput, state: State) -> None:
    """Ask a person which of several artifacts fills an input, and have the task wait for the answer."""
    request_id = questions.ask_which_artifact(moves.tx, plan, node, unclear, at=moves.now)
    moves.move_task(plan, node.task_id, state, "INPUTS_AMBIGUOUS", reason=unclear.why, request_id=request_id)


def queue_next_command(moves: PlanTransaction, plan: PlanDefinition, node: Node, cause: Cause) -> None:
    """Make the next command of a task whose last one ended."""
    picked = pick_inputs(moves, plan, node)
    if not isinstance(picked, PickedInputs):
        picked = PickedInputs(inputs=(), sources={}, absent=())
    moves.queue_command(plan, node, picked, "RUNNING", cause)
